//! Asking the planner, as every test does.

use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Fixed, JobSpec};
use trainyard_planner::{JobError, Limits, NoPlan, Resources, problem, recommend};

/// The best plans, as many as `top`, in which these fields are held.
pub(crate) fn limits<T: ToString>(held: &[T], top: usize) -> Limits {
    let held: Vec<String> = held.iter().map(ToString::to_string).collect();
    Limits { top, max_simulations: None, fixed: Fixed::parse(&held).expect("fields of a plan") }
}

pub(crate) fn plan<T: ToString>(job: &JobSpec, held: &[T], top: usize) -> Result<PlanDocument, NoPlan> {
    let problem = problem(job, Resources::default()).expect("a solvable job");
    recommend(&problem, &limits(held, top), job)
}

pub(crate) fn refused(job: &JobSpec) -> JobError {
    problem(job, Resources::default()).expect_err("the job is wrong")
}
