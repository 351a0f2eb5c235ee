//! The options of each kind of jobs: the plan that is recommended on every type and number of instances.

use super::valid::ValidKind;
use super::{FleetError, MILLENNIA};
use crate::queue::valid::{MOST_WORK, SHORTEST_JOB, too_long};
use trainyard_planner::{Limits, OnEach, OnMachines, on_each, on_each_briefly};
use trainyard_units::{Invalid, Seconds};

/// A kind of jobs with the instances that it may run on.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) submit: Seconds,
    pub(super) priority: i32,
    pub(super) deadline: Option<Seconds>,
    pub(super) budget: Option<f64>,
    pub(super) options: Vec<JobOption>,
}

/// Instances on which a job could run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobOption {
    pub(super) instance: String,
    pub(super) instances: u32,
    /// Time on machines that have started, to the last checkpoint.
    pub(super) time: Seconds,
    /// Index among the kind's plans.
    pub(super) plan: usize,
}

/// Searches for the plans of a kind.
pub(super) fn plans(kind: &ValidKind, index: usize, limits: &Limits) -> Result<OnEach, FleetError> {
    on_each(&kind.problem, limits).map_err(|error| FleetError::NoPlan {
        index,
        name: kind.name.clone(),
        error: Box::new(error),
    })
}

/// Searches briefly for the plans of a kind; `None` if none is found.
pub(super) fn brief_plans(kind: &ValidKind, limits: &Limits) -> Option<OnEach> {
    on_each_briefly(&kind.problem, limits).ok()
}

/// Returns a kind with its plans as options.
pub(super) fn with_options(kind: &ValidKind, found: &OnEach) -> Result<Kind, Invalid> {
    let option = |(plan, on): (usize, &OnMachines)| JobOption {
        instance: on.best.plan.cluster().instance.clone(),
        instances: on.best.plan.cluster().instances,
        time: on.training.max(SHORTEST_JOB),
        plan,
    };
    let all = found.plans.iter().enumerate().map(option);
    let options: Vec<JobOption> = all.filter(|option| option.time <= MOST_WORK).collect();
    if options.is_empty() {
        return Err(too_long(MILLENNIA));
    }
    let ValidKind { name, count, submit, priority, deadline, budget, .. } = kind.clone();
    Ok(Kind { name, count, submit, priority, deadline, budget, options })
}
