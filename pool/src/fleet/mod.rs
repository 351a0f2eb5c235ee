//! Fleets: jobs that are planned together, from files to a plan for each kind of them and a schedule for all
//! (`docs/design/004-fleets.md`).

mod choose;
mod document;
mod error;
mod found;
mod machines;
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

use crate::queue::PoolSpec;
use crate::queue::plot::gantts;
use crate::queue::valid::{too_long, too_wide};
use choose::{Judge, Worth, are_best, choose, or_much_better, or_simpler};
use found::{Found, document};
use option::{plans, with_options};
use schedule::{Placed, Pools};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Fixed, JobSpec};
use trainyard_planner::{INDISTINCT, Limits, OnEach, Resources, recommend};
use valid::{ValidFleet, ValidKind, valid_fleet};

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
    kinds: Vec<PlannedKind>,
}

/// A kind of jobs as it is planned by itself on the instances that it has in the fleet.
#[derive(Clone, Debug)]
struct PlannedKind {
    kind: ValidKind,
    limits: Limits,
}

impl PlannedKind {
    /// Holds a kind to the instances of its plan in the fleet, and to the deadline with which that plan is recommended.
    fn new(mut kind: ValidKind, found: &OnEach, plan: &FleetPlan) -> Self {
        let cluster = &plan.plan.cluster;
        let own = found.plans.iter().find(|on| on.best.plan.spec() == &plan.plan);
        kind.problem.deadline = own.and_then(|on| on.within);
        let (instance, instances) = (Some(cluster.instance.clone()), Some(cluster.instances));
        let fixed = Fixed { instance, instances, ..found.limits.fixed.clone() };
        Self { kind, limits: Limits { top: 1, fixed, ..found.limits.clone() } }
    }
}

/// Plans a fleet. `pool` is the content of the files that its pool names; `jobs` are the jobs of its entries, in their order;
/// `limits` hold for the plans of each; `done` is called whenever the plans of a kind of jobs are known.
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
    pool: Resources,
    jobs: Vec<FleetJob>,
    limits: &Limits,
    done: &dyn Fn(),
) -> Result<PlannedFleet, FleetError> {
    assert_eq!(spec.jobs.len(), jobs.len(), "every entry of a fleet is a job");
    let fleet = valid_fleet(spec, pool, jobs)?;
    if let (Some(instances), Some(largest)) = (limits.fixed.instances, largest(&fleet, &limits.fixed))
        && instances > largest.quota()
    {
        return Err(too_wide("--fix instances", instances, largest).into());
    }
    let mut found: Vec<OnEach> = Vec::new();
    for (index, kind) in fleet.kinds.iter().enumerate() {
        found.push(plans(kind, index, limits)?);
        done();
    }
    let first = fleet.kinds.iter().map(|kind| kind.submit.0).fold(f64::INFINITY, f64::min);
    let judge = Judge { goal: fleet.goal, first };
    let usual = Scheduled::new(spec, &fleet, &found, judge)?;
    let document = if usual.pressed {
        for (kind, plans) in fleet.kinds.iter().zip(&mut found) {
            plans.hurry(&kind.problem);
        }
        Scheduled::new(spec, &fleet, &found, judge)?.if_better_than(usual).document
    } else {
        usual.document
    };
    let planned = fleet.kinds.into_iter().zip(&found).zip(&document.plans);
    let kinds = planned.map(|((kind, found), plan)| PlannedKind::new(kind, found, plan)).collect();
    Ok(PlannedFleet { document, kinds })
}

/// Returns the largest of the pools that may be used.
fn largest<'a>(fleet: &'a ValidFleet, fixed: &Fixed) -> Option<&'a PoolSpec> {
    let wanted = |pool: &&PoolSpec| fixed.instance.as_ref().is_none_or(|held| *held == pool.instance);
    fleet.shared.pools.values().filter(wanted).max_by_key(|pool| pool.quota())
}

/// A fleet with some plans of each kind, scheduled.
struct Scheduled {
    document: FleetDocument,
    worth: Worth,
    /// Whether deadlines and budgets are missed, or keep a kind from the plan that is best for the objective.
    pressed: bool,
}

impl Scheduled {
    fn new(spec: &FleetSpec, fleet: &ValidFleet, found: &[OnEach], judge: Judge) -> Result<Self, FleetError> {
        let kinds = fleet.kinds.iter().zip(found).map(|(kind, found)| with_options(kind, found));
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        let mut pools = Pools::new(spec, &fleet.shared, &kinds)?;
        let solution = choose(&mut pools, judge).ok_or_else(|| too_long(MILLENNIA))?;
        let worth = solution.best.worth;
        let has_goal =
            judge.goal.is_limited() || kinds.iter().any(|kind| kind.deadline.is_some() || kind.budget.is_some());
        let pressed = has_goal && (worth.excess > 0.0 || !are_best(&pools, &solution.best.choice, judge));
        let solution = or_much_better(&mut pools, judge, solution);
        let plan = |placed: Placed| &found[placed.kind].plans[kinds[placed.kind].options[placed.option].plan];
        let gives_up = |one: Placed, other: Placed| {
            let kind = &fleet.kinds[one.kind];
            plan(one).preferred_by(plan(other), &kind.problem, kind.count)
        };
        let solution = or_simpler(&mut pools, judge, solution, gives_up);
        let document = document(Found { spec, fleet, plans: found, pools: &mut pools, judge, solution: &solution })?;
        Ok(Self { document, worth, pressed })
    }

    /// Returns this one, whose plans are less simple, if it misses less, or saves more than nothing by the objective or in
    /// both time and cost.
    fn if_better_than(self, other: Self) -> Self {
        let (own, others) = (self.worth, other.worth);
        let least = 1.0 - INDISTINCT;
        let saves = own.value < others.value * least || own.value <= others.value && own.other < others.other * least;
        if own.excess < others.excess || own.excess <= others.excess && saves { self } else { other }
    }
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
        let kinds = self.kinds.iter().enumerate();
        kinds
            .map(|(index, PlannedKind { kind, limits })| {
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
