//! `trainyard simulate` for queues: many jobs that share a pool of instances.

use crate::advice;
use crate::arguments::SimulateArguments;
use crate::diagnose;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::flags;
use crate::history::{History, Outcome};
use crate::job;
use crate::output::Output;
use crate::read;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_hardware_profiles::catalog;
use trainyard_history::Kind;
use trainyard_plan::document::PlanDocument;
use trainyard_pool::queue::{self, OwnMachines, QueueFiles, QueueSpec, predict_queue};

/// Returns `true` if a file is a queue, by its name or, because it has a pool or a list of jobs, by its content.
pub(crate) fn is_queue(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
        || job::has_table(file, &["pool", "job"])
}

/// Simulates a queue.
pub(crate) fn simulate(arguments: &SimulateArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let file = &arguments.plan;
    only_for_plans(arguments)?;
    let spec: QueueSpec = diagnose::from_toml("queue", &read::text("queue", file)?, file)?;
    let files = QueueFiles { plans: plans(&spec, file)?, machines: machines(&spec, file)? };
    let document = predict_queue(&spec, &files, arguments.seed).map_err(|error| {
        let hint = error.hint().unwrap_or_else(|| advice::about(error.field(), "queue-file"));
        refused(file).because_of(&error).hint(hint)
    })?;
    let plot = &arguments.plot;
    plot.write(|| queue::gantt(&document).map_err(|why| refused(file).because(why)))?;
    let kept = history.keep(Outcome::new(Kind::Simulation, "queue.json", &document, (&document).into()), output);
    output.result(&document, || queue::page(&document, output.width(), output.verbose()));
    kept.tell(output);
    if let Some(path) = &plot.plot {
        output.note(format!("Gantt chart written to {}", path.display()));
    }
    Ok(Exit::Done)
}

fn refused(file: &Path) -> Failure {
    Failure::input(format!("cannot simulate queue `{}`", file.display()))
}

/// Refuses flags that do not apply to a queue.
fn only_for_plans(arguments: &SimulateArguments) -> Result<(), Failure> {
    let given = [
        ("--trace", arguments.trace.is_some(), "`--plot GANTT.svg` draws the schedule of a queue"),
        ("--chakra", arguments.chakra.is_some(), "the step of a plan is written so: name the plan of a job"),
        ("--on", arguments.on.is_some(), "jobs of a queue say where they run"),
        ("--unfold", arguments.unfold, "jobs of a queue are simulated one by one anyway"),
        ("--campaign", arguments.campaign, "the whole training of a plan is drawn so: name the plan of a job"),
        ("--spread", arguments.spread > 0.0, "in a queue each [[job]] has its own `spread`"),
    ];
    let given = given.map(|(flag, given, advice)| (flag, given, advice.into()));
    flags::refuse(given, "is for plans, but this is a queue")
}

/// Reads the cluster file that the pool names, if it names one.
fn machines(spec: &QueueSpec, file: &Path) -> Result<Option<OwnMachines>, Failure> {
    let Some(path) = &spec.pool.file else { return Ok(None) };
    let path = files::beside(file, Path::new(path));
    let described = read::cluster(&path).map_err(|failure| failure.inside(refused(file), "in `pool.file`"))?;
    let machines = OwnMachines::new(described, catalog()).map_err(|error| {
        let because = format!("{error} (read from `{}`)", path.display());
        refused(file).because(because).maybe_hint(error.hint())
    })?;
    Ok(Some(machines))
}

/// Reads the plan documents that the jobs name, by their paths in the file.
fn plans(spec: &QueueSpec, file: &Path) -> Result<BTreeMap<String, PlanDocument>, Failure> {
    let named = spec.jobs.iter().enumerate().filter_map(|(index, job)| Some((index, job.plan.as_ref()?)));
    named
        .map(|(index, path)| {
            let document = read::plan(&files::beside(file, Path::new(path)))
                .map_err(|failure| failure.inside(refused(file), &format!("in `job[{index}].plan`")))?;
            Ok((path.clone(), document))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_known_by_its_name_or_by_its_content() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("room");
            is_queue(&path)
        };
        assert!(file("jobs.queue", "[pool]\ninstance = \"p3.2xlarge\"\n") && file("broken.toml", "["));
        assert!(!file("plan.json", "{\"schema\": \"trainyard.plan/1\"}") && !file("notes", "[model]\n"));
    }
}
