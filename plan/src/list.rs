//! Lists of jobs that train side by side on one machine: trials of hyper-parameters, several models. As written, and
//! what became of them.

use crate::document::Loss;
use crate::job::{DataSpec, ModelChoice, TrainingSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A list of jobs as a TOML file describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobListSpec {
    /// Processor threads that the jobs share; all that the machine has if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// The jobs, each perhaps in several variants.
    #[serde(default, rename = "job")]
    pub jobs: Vec<ListedJobSpec>,
}

/// A job of a list: a JOB in a file of its own or in place, or a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedJobSpec {
    /// What it is called; after its file or its model if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A job file, relative to this file, instead of what a job says in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A plan document, relative to this file, that runs as it is, on `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Processor threads that it gets; 1 if left out, for a plan one for each of its ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// Seed of first parameters and of the order of data; that of the command line if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Values that are tried: for each path in a job, `training.learning_rate`, or `seed`, a list. Every combination is
    /// a job of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<serde_json::Value>>,
    /// What is trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// On what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataSpec>,
    /// How.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingSpec>,
}

/// The most jobs that an entry of a list may stand for. Each is planned, and runs in a process of its own.
pub const VARIANTS_MAX: usize = 1000;

/// One value for each path that varies.
pub type Variant = BTreeMap<String, serde_json::Value>;

impl ListedJobSpec {
    /// Returns the number of jobs that [`Self::variants`] would give, saturating.
    pub fn variant_count(&self) -> usize {
        self.vary.values().fold(1, |count, values| count.saturating_mul(values.len()))
    }

    /// Returns every combination of the values that vary, the last path's fastest; one empty variant if nothing varies.
    /// All are held in memory at once: check first that [`Self::variant_count`] is not more than [`VARIANTS_MAX`].
    pub fn variants(&self) -> Vec<Variant> {
        self.vary.iter().fold(vec![Variant::new()], |variants, (path, values)| {
            let with = |variant: &Variant, value: &serde_json::Value| {
                let mut variant = variant.clone();
                variant.insert(path.clone(), value.clone());
                variant
            };
            variants.iter().flat_map(|variant| values.iter().map(|value| with(variant, value))).collect()
        })
    }

    /// Returns the first field of a job that is written in place, if one is.
    pub fn first_in_place(&self) -> Option<&'static str> {
        let fields =
            [("model", self.model.is_some()), ("data", self.data.is_some()), ("training", self.training.is_some())];
        fields.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// The schema of documents of lists that this version writes.
pub const JOBS_SCHEMA: &str = "trainyard.jobs/1";

/// What became of a list of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsDocument {
    /// `trainyard.jobs/1`.
    pub schema: String,
    /// What was asked for.
    pub list: JobListSpec,
    /// Processor threads that the jobs shared.
    pub devices: u32,
    /// From the start of the first job to the end of the last.
    pub makespan_s: f64,
    /// Each job, in the order of the file.
    pub jobs: Vec<JobOutcome>,
}

/// How a job of a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobEnd {
    /// All its steps were done.
    Done,
    /// It ended with an error; the others went on.
    Failed,
    /// It was told to stop; its checkpoint is complete.
    Interrupted,
    /// The list was told to stop before it began.
    NotStarted,
}

/// What became of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOutcome {
    /// Its name: its entry's, with a number if the entry has several.
    pub name: String,
    /// Its entry in the file, from 0.
    pub entry: u32,
    /// What was tried.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub varied: Variant,
    /// Seed of first parameters and of the order of data.
    pub seed: u64,
    /// Its model.
    pub model: String,
    /// Processor threads that it had.
    pub devices: u32,
    /// How it ended.
    pub end: JobEnd,
    /// Whether its loss, on held-out data if there is some, is the least of its entry; of several only.
    pub best: bool,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it started, after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// What was measured of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<JobFigures>,
    /// Where all that it wrote is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// What was measured of a job of a list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFigures {
    /// Steps of the run.
    pub steps: u64,
    /// The predicted time of a step, where one was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_step_time_s: Option<f64>,
    /// The median time of a step.
    pub step_time_s: f64,
    /// Samples per second.
    pub samples_per_s: f64,
    /// What was learnt.
    pub loss: Loss,
}

impl JobsDocument {
    /// Marks the best job of each entry that has several, among those that are done.
    pub fn mark_best(&mut self) {
        let mut entries: BTreeMap<u32, Vec<(f64, usize)>> = BTreeMap::new();
        for (index, job) in self.jobs.iter().enumerate().filter(|(_, job)| job.end == JobEnd::Done) {
            let loss = job.measured.map(|figures| figures.loss.held_out.unwrap_or(figures.loss.last));
            entries.entry(job.entry).or_default().extend(loss.map(|loss| (loss, index)));
        }
        for jobs in entries.into_values().filter(|jobs| jobs.len() > 1) {
            // Of equals the first.
            let best = jobs.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, index)) = best {
                self.jobs[index].best = true;
            }
        }
    }

    /// Returns the number of jobs that ended in this way.
    pub fn count(&self, end: JobEnd) -> usize {
        self.jobs.iter().filter(|job| job.end == end).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_combination_is_a_variant() {
        let vary = [("training.learning_rate", vec![json!(0.1), json!(0.2)]), ("seed", vec![json!(1), json!(2)])];
        let job = ListedJobSpec {
            vary: vary.into_iter().map(|(path, values)| (path.to_owned(), values)).collect(),
            ..ListedJobSpec::default()
        };
        let pairs: Vec<(u64, f64)> = job
            .variants()
            .iter()
            .map(|v| (v["seed"].as_u64().expect("a seed"), v["training.learning_rate"].as_f64().expect("a rate")))
            .collect();
        assert_eq!(pairs, [(1, 0.1), (1, 0.2), (2, 0.1), (2, 0.2)]);
        assert_eq!(ListedJobSpec::default().variants(), [Variant::new()]);
        assert_eq!((job.variant_count(), ListedJobSpec::default().variant_count()), (4, 1));
    }

    #[test]
    fn combinations_are_counted_before_they_are_made() {
        let values: Vec<serde_json::Value> = (0..100).map(|value| json!(value)).collect();
        let vary = (0..40).map(|path| (format!("path.{path}"), values.clone())).collect();
        let job = ListedJobSpec { vary, ..ListedJobSpec::default() };
        assert_eq!(job.variant_count(), usize::MAX);
    }

    #[test]
    fn the_least_loss_of_an_entry_is_its_best() {
        let job = |entry: u32, end: JobEnd, last: f64, held_out: Option<f64>| JobOutcome {
            name: "job".into(),
            entry,
            varied: Variant::new(),
            seed: 1,
            model: "model".into(),
            devices: 1,
            end,
            best: false,
            error: None,
            start_s: None,
            end_s: None,
            measured: Some(JobFigures {
                steps: 1,
                predicted_step_time_s: None,
                step_time_s: 1.0,
                samples_per_s: 1.0,
                loss: Loss {
                    first: 5.0,
                    last,
                    held_out,
                    accuracy: None,
                    evaluated_samples: None,
                    held_out_samples: None,
                },
            }),
            folder: None,
        };
        let mut document = JobsDocument {
            schema: JOBS_SCHEMA.into(),
            list: JobListSpec { devices: None, jobs: Vec::new() },
            devices: 1,
            makespan_s: 1.0,
            jobs: vec![
                job(0, JobEnd::Done, 1.0, Some(3.0)),
                job(0, JobEnd::Done, 2.0, Some(2.5)),
                job(0, JobEnd::Failed, 0.5, None),
                job(1, JobEnd::Done, 0.1, None),
            ],
        };
        document.mark_best();
        assert_eq!(document.jobs.iter().map(|job| job.best).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(document.count(JobEnd::Done), 3);
    }
}
