//! What became of a list of jobs, as a page.

use crate::format::{Width, bullets, seconds, table};
use trainyard_plan::list::{JobEnd, JobOutcome, JobsDocument, Variant};
use trainyard_units::counted;

/// Formats a list of jobs for a reader: how each ended and what it reached, and why some failed.
pub fn jobs(document: &JobsDocument, width: Width) -> String {
    let mut text = format!("{}\n\n", title(document));
    let header = ["job", "tried", ">devices", "end", ">step", ">predicted", ">loss", ">held out", ">took"];
    text += &table(width, header, document.jobs.iter().map(row));
    if document.jobs.iter().any(|job| job.best) {
        text += "\n  * the least loss among its variants, on held-out data if there is some\n";
    }
    let failures: Vec<String> = document
        .jobs
        .iter()
        .filter_map(|job| job.error.as_ref().map(|error| format!("{}: {error}", job.name)))
        .collect();
    text + &bullets(width, "Failed", &failures)
}

/// Formats the values that a job tries: `learning_rate 0.001, seed 2`.
pub fn varied(variant: &Variant) -> String {
    let name = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    variant.iter().map(|(path, value)| format!("{} {}", name(path), text(value))).collect::<Vec<_>>().join(", ")
}

fn title(document: &JobsDocument) -> String {
    let ended = |end, word| {
        let count = document.count(end);
        (count > 0).then(|| format!("{count} {word}"))
    };
    let ends = [
        ended(JobEnd::Done, "done"),
        ended(JobEnd::Failed, "failed"),
        ended(JobEnd::Interrupted, "interrupted"),
        ended(JobEnd::NotStarted, "not started"),
    ];
    format!(
        "{} on {} of this machine in {}: {}",
        counted(document.jobs.len() as u64, "job"),
        counted(u64::from(document.devices), "device"),
        seconds(document.makespan_s),
        ends.into_iter().flatten().collect::<Vec<_>>().join(", ")
    )
}

fn row(job: &JobOutcome) -> [String; 9] {
    let none = || "–".to_owned();
    let end = match job.end {
        JobEnd::Done => "done",
        JobEnd::Failed => "failed",
        JobEnd::Interrupted => "interrupted",
        JobEnd::NotStarted => "not started",
    };
    let measured = job.measured;
    let held_out = measured.and_then(|figures| figures.loss.held_out);
    [
        format!("{}{}", job.name, if job.best { " *" } else { "" }),
        varied(&job.varied),
        job.devices.to_string(),
        end.into(),
        measured.map_or_else(none, |figures| seconds(figures.step_time_s)),
        measured.and_then(|figures| figures.predicted_step_time_s).map_or_else(none, seconds),
        measured.map_or_else(none, |figures| format!("{:.3}", figures.loss.last)),
        held_out.map_or_else(none, |loss| format!("{loss:.3}")),
        job.start_s.zip(job.end_s).map_or_else(none, |(start, end)| seconds(end - start)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::document::Loss;
    use trainyard_plan::list::{JOBS_SCHEMA, JobFigures, JobListSpec};

    #[test]
    fn a_page_tells_how_each_job_ended() {
        let job = |name: &str, end: JobEnd, loss: Option<f64>| JobOutcome {
            name: name.into(),
            entry: 0,
            varied: Variant::from([("training.learning_rate".into(), 0.25.into())]),
            seed: 1,
            model: "model".into(),
            devices: 1,
            end,
            best: end == JobEnd::Done,
            error: (end == JobEnd::Failed).then(|| "the disk is full".into()),
            start_s: loss.map(|_| 1.0),
            end_s: loss.map(|_| 3.5),
            measured: loss.map(|last| JobFigures {
                steps: 10,
                predicted_step_time_s: Some(0.25),
                step_time_s: 0.2,
                samples_per_s: 40.0,
                loss: Loss {
                    first: 5.0,
                    last,
                    held_out: None,
                    accuracy: None,
                    evaluated_samples: None,
                    held_out_samples: None,
                },
            }),
            folder: None,
        };
        let document = JobsDocument {
            schema: JOBS_SCHEMA.into(),
            list: JobListSpec { devices: None, jobs: Vec::new() },
            devices: 2,
            makespan_s: 3.5,
            jobs: vec![job("a", JobEnd::Done, Some(2.125)), job("b", JobEnd::Failed, None)],
        };
        let page = jobs(&document, Width(100));
        assert!(page.starts_with("2 jobs on 2 devices of this machine in 3.50 s: 1 done, 1 failed\n"), "{page}");
        let line = |name: &str| page.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
        let words: Vec<&str> = line("a *").split_whitespace().collect();
        assert_eq!(
            words,
            ["a", "*", "learning_rate", "0.25", "1", "done", "200", "ms", "250", "ms", "2.125", "2.50", "s"]
        );
        assert!(line("b").contains("failed") && page.contains("· b: the disk is full"), "{page}");
    }
}
