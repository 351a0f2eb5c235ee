//! Jobs that unit tests ask about, and what they are answered.

use crate::answer::{Limits, recommend};
use crate::problem::{Problem, Resources, problem};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{GlobalBatch, JobSpec};

/// Returns a job that trains a model with this global batch on up to `most` instances of these types. How much it trains
/// on is left to the test.
pub(crate) fn job(model: &str, batch: u64, instances: &[&str], most: u32) -> JobSpec {
    let mut job = JobSpec::default();
    job.model.name = Some(model.into());
    job.training.global_batch = Some(GlobalBatch::Exactly(batch));
    job.cluster.instances = Some(instances.iter().map(ToString::to_string).collect());
    job.cluster.max_instances = Some(most);
    job
}

/// Returns the problem of a job of which everything is in the catalogs.
pub(crate) fn solvable(job: &JobSpec) -> Problem {
    problem(job, Resources::default()).expect("a solvable job")
}

/// Returns the plan that is recommended for such a job: of one that misses its goal, the nearest.
pub(crate) fn planned(job: &JobSpec) -> PlanDocument {
    recommend(&solvable(job), &Limits::default(), job).expect("a plan")
}
