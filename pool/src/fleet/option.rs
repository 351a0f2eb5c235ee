//! The options of each kind of jobs: its best plan on every type and number of instances.

use super::valid::ValidKind;
use super::{FleetError, MILLENNIA};
use crate::queue::valid::{MOST_WORK, SHORTEST_JOB, too_long};
use trainyard_planner::{Evaluated, Limits, OnEach, on_each};
use trainyard_units::Seconds;

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
    /// Training time on these instances, the download included.
    pub(super) time: Seconds,
    /// Index among the kind's plans.
    pub(super) plan: usize,
}

/// Searches for the plans of a kind.
pub(super) fn plans(kind: &ValidKind, index: usize, limits: &Limits) -> Result<(Kind, OnEach), FleetError> {
    let found = on_each(&kind.problem, limits).map_err(|error| FleetError::NoPlan {
        index,
        name: kind.name.clone(),
        error: Box::new(error),
    })?;
    let option = |(plan, evaluated): (usize, &Evaluated)| JobOption {
        instance: evaluated.plan.cluster().instance.clone(),
        instances: evaluated.plan.cluster().instances,
        time: (Seconds(evaluated.time_s) + Seconds(evaluated.download_s)).max(SHORTEST_JOB),
        plan,
    };
    let options: Vec<JobOption> =
        found.best.iter().enumerate().map(option).filter(|option| option.time <= MOST_WORK).collect();
    if options.is_empty() {
        return Err(too_long(MILLENNIA).into());
    }
    let ValidKind { name, count, submit, priority, deadline, budget, .. } = kind.clone();
    Ok((Kind { name, count, submit, priority, deadline, budget, options }, found))
}
