//! Fleets: jobs that are planned together, from files to a plan for each kind of them and a schedule for all
//! (`docs/design/004-fleets.md`).

mod choose;
mod document;
mod error;
mod found;
mod option;
mod page;
mod schedule;
mod spec;
mod valid;

pub use document::{ColdFleet, FLEET_SCHEMA, FleetDocument, FleetPlan, FleetPrediction, FleetSearch};
pub use error::FleetError;
pub use found::missed_fleet_goal;
pub use page::page;
pub use spec::{FleetJobSpec, FleetPoolSpec, FleetSpec};

use crate::queue::plot::gantts;
use crate::queue::valid::{too_long, too_wide};
use choose::{Judge, choose};
use found::{Found, document};
use option::plans;
use schedule::Pools;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Fixed, JobSpec};
use trainyard_planner::{Limits, OnEach, Resources, recommend};
use valid::{ValidKind, valid_fleet};

/// Draws the schedule of a fleet: the queues of its pools, one below the other.
///
/// # Errors
///
/// Returns a sentence if it cannot be drawn.
pub fn gantt(document: &FleetDocument) -> Result<trainyard_reports::Picture, String> {
    gantts(&document.pools)
}

/// A job of a fleet, written in place or read from its file, with the files that the job names.
#[derive(Clone, Debug, Default)]
pub struct FleetJob {
    pub spec: JobSpec,
    /// The content of the files that it names.
    pub resources: Resources,
}

/// A planned fleet.
#[derive(Clone, Debug)]
pub struct PlannedFleet {
    /// The plans and the schedule.
    pub document: FleetDocument,
    kinds: Vec<ValidKind>,
    limits: Vec<Limits>,
}

/// Plans a fleet. `jobs` are the jobs of its entries, in their order; `limits` hold for the plans of each; `done` is
/// called whenever the plans of a kind of jobs are known.
///
/// If no schedule that was found meets deadlines and budgets, the document holds the one that comes nearest, and
/// [`missed_fleet_goal`] says so.
///
/// # Errors
///
/// When something is missing, contradictory, out of range or unknown, or when a job has no plan; see [`FleetError`].
///
/// # Panics
///
/// When `jobs` are not as many as the fleet has entries.
pub fn plan_fleet(
    spec: &FleetSpec,
    jobs: Vec<FleetJob>,
    limits: &Limits,
    done: &dyn Fn(),
) -> Result<PlannedFleet, FleetError> {
    assert_eq!(spec.jobs.len(), jobs.len(), "every entry of a fleet is a job");
    let fleet = valid_fleet(spec, jobs)?;
    if let Some(instances) = limits.fixed.instances.filter(|held| *held > spec.pool.max_instances) {
        return Err(too_wide("--fix instances", instances, spec.pool.max_instances).into());
    }
    let mut kinds = Vec::new();
    let mut found: Vec<OnEach> = Vec::new();
    for (index, kind) in fleet.kinds.iter().enumerate() {
        let (kind, plans) = plans(kind, index, limits)?;
        kinds.push(kind);
        found.push(plans);
        done();
    }
    let first = kinds.iter().map(|kind| kind.submit.0).fold(f64::INFINITY, f64::min);
    let judge = Judge { goal: fleet.goal, first };
    let mut pools = Pools::new(spec, &kinds)?;
    let solution = choose(&mut pools, judge).ok_or_else(|| too_long(MILLENNIA))?;
    let document =
        document(Found { spec, fleet: &fleet, plans: &found, pools: &mut pools, judge, solution: &solution })?;
    let limits = found.iter().zip(&document.plans).map(|(own, plan)| {
        let cluster = &plan.plan.cluster;
        let (instance, instances) = (Some(cluster.instance.clone()), Some(cluster.instances));
        Limits { top: 1, fixed: Fixed { instance, instances, ..own.limits.fixed.clone() }, ..own.limits.clone() }
    });
    let limits = limits.collect();
    Ok(PlannedFleet { document, kinds: fleet.kinds, limits })
}

/// Jobs that would outlast the simulation's clock, whatever they run on, in words.
const MILLENNIA: &str = "jobs that take longer than a clock can tell";

impl PlannedFleet {
    /// Returns the plan document of each kind of jobs, with its name: as if its job had been planned by itself on the
    /// instances that it has in the fleet.
    ///
    /// # Errors
    ///
    /// When a search that was limited finds none.
    pub fn plan_documents(&self) -> Result<Vec<(String, PlanDocument)>, FleetError> {
        let kinds = self.kinds.iter().zip(&self.limits).enumerate();
        kinds
            .map(|(index, (kind, limits))| {
                let document = recommend(&kind.problem, limits, &kind.job);
                let document = document.map_err(|error| FleetError::NoPlan {
                    index,
                    name: kind.name.clone(),
                    error: Box::new(error),
                })?;
                Ok((kind.name.clone(), document))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
