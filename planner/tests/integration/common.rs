//! Asking the planner, as every test does.

use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Fixed, GlobalBatch, JobSpec};
use trainyard_planner::{JobError, Limits, NoPlan, Problem, Resources, problem, recommend};

/// A job that trains a model with this global batch on up to `most` instances of these types.
pub(crate) fn job(model: &str, batch: u64, instances: &[&str], most: u32) -> JobSpec {
    let mut job = JobSpec::default();
    job.model.name = Some(model.into());
    job.training.global_batch = Some(GlobalBatch::Exactly(batch));
    job.cluster.instances = Some(instances.iter().map(ToString::to_string).collect());
    job.cluster.max_instances = Some(most);
    job
}

pub(crate) fn solvable(job: &JobSpec) -> Problem {
    problem(job, Resources::default()).expect("a solvable job")
}

/// The best plans, as many as `top`, in which these fields are held.
pub(crate) fn limits<T: ToString>(held: &[T], top: usize) -> Limits {
    let held: Vec<String> = held.iter().map(ToString::to_string).collect();
    Limits { top, max_simulations: None, fixed: Fixed::parse(&held).expect("fields of a plan") }
}

pub(crate) fn plan<T: ToString>(job: &JobSpec, held: &[T], top: usize) -> Result<PlanDocument, NoPlan> {
    plan_with(job, Resources::default(), held, top)
}

/// The same of a job that rests on these files.
pub(crate) fn plan_with<T: ToString>(
    job: &JobSpec,
    files: Resources,
    held: &[T],
    top: usize,
) -> Result<PlanDocument, NoPlan> {
    recommend(&problem(job, files).expect("a solvable job"), &limits(held, top), job)
}

pub(crate) fn refused(job: &JobSpec) -> JobError {
    problem(job, Resources::default()).expect_err("the job is wrong")
}
