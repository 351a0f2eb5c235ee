//! Jobs that unit tests ask about, and what they are answered.

use crate::answer::{Limits, NoPlan, recommend};
use crate::problem::{Problem, Resources, problem};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Fixed, GlobalBatch, JobSpec};

/// Returns a job that trains a model with this global batch. How much it trains on, and where, is left to the test.
pub(crate) fn training(model: &str, batch: u64) -> JobSpec {
    let mut job = JobSpec::default();
    job.model.name = Some(model.into());
    job.training.global_batch = Some(GlobalBatch::Exactly(batch));
    job
}

/// Returns such a job on machines of one's own, and what it reads: this text as its cluster file.
pub(crate) fn on_own(model: &str, batch: u64, machines: &str) -> (JobSpec, Resources) {
    let mut job = training(model, batch);
    job.cluster.file = Some("own.toml".into());
    let cluster_file = Some(toml::from_str(machines).expect("the form of a cluster file"));
    (job, Resources { cluster_file, cluster_path: Some("own.toml".into()), ..Resources::default() })
}

/// Returns such a job on up to `most` instances of these types.
pub(crate) fn job(model: &str, batch: u64, instances: &[&str], most: u32) -> JobSpec {
    let mut job = training(model, batch);
    job.cluster.instances = Some(instances.iter().map(ToString::to_string).collect());
    job.cluster.max_instances = Some(most);
    job
}

/// Returns the problem of a job of which everything is in the catalogs.
pub(crate) fn solvable(job: &JobSpec) -> Problem {
    problem(job, Resources::default()).expect("a solvable job")
}

/// Returns these fields of a plan, held.
pub(crate) fn held(fields: &[&str]) -> Fixed {
    Fixed::parse(&fields.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("fields of a plan")
}

/// Returns what is recommended for such a job with these fields held.
pub(crate) fn answered(problem: &Problem, job: &JobSpec, fields: &[&str]) -> Result<PlanDocument, NoPlan> {
    recommend(problem, &Limits { fixed: held(fields), ..Limits::default() }, job)
}

/// Returns the plan that is recommended for such a job: of one that misses its goal, the nearest.
pub(crate) fn planned(job: &JobSpec) -> PlanDocument {
    answered(&solvable(job), job, &[]).expect("a plan")
}
