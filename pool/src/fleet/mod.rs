//! Fleets: jobs that are planned together, from files to a plan for each kind of them and a schedule for all
//! (`docs/design/004-fleets.md`).

mod caveats;
mod chance;
mod choose;
mod document;
mod error;
mod found;
mod machines;
mod option;
mod page;
mod schedule;
mod shared_quotas;
mod spec;
mod valid;
mod ways_out;

pub use document::{FLEET_SCHEMA, FleetDocument, FleetOutcome, FleetPlan, FleetPrediction, FleetSearch};
pub use error::FleetError;
pub use page::page;
pub use spec::{FleetJobSpec, FleetPoolSpec, FleetSpec};

use crate::queue::PoolSpec;
use crate::queue::plot::gantts;
use crate::queue::valid::{too_long, too_wide};
use chance::{Doubt, Likely};
use choose::{Judge, Preferences, Solution, choose, or_much_better, or_nearly_as_near, or_simpler};
use found::{Found, document};
use machines::Shared;
use option::{Kind, plans, with_options};
use schedule::{Placed, Pools};
use shared_quotas::Solved;
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Fixed, JobSpec};
use trainyard_planner::{Cancellation, Limits, NoPlan, OnEach, OnMachines, Resources, TrainingSpread, recommend};
use trainyard_units::Invalid;
use valid::{ValidFleet, ValidKind, valid_fleet};
use ways_out::WaysOut;

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
    /// Holds a kind to the fields with which its plan in the fleet is recommended, and to the deadline.
    fn new(mut kind: ValidKind, limits: &Limits, plan: &OnMachines) -> Self {
        kind.problem.deadline = plan.within;
        Self { kind, limits: Limits { top: 1, fixed: plan.fixed.clone(), ..limits.clone() } }
    }
}

/// Plans a fleet. `pool` is the content of the files that its pool names; `jobs` are the jobs of its entries, in their order;
/// `limits` hold for the plans of each; `cancellation` is the flag by which the caller stops the searches; `done` is called
/// whenever the plans of a kind of jobs are known.
///
/// If no schedule that was found meets deadlines and budgets, the document holds the one that comes nearest, and says so.
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
    pool: &Resources,
    jobs: &[FleetJob],
    limits: &Limits,
    cancellation: &Cancellation,
    done: &dyn Fn(),
) -> Result<PlannedFleet, FleetError> {
    assert_eq!(spec.jobs.len(), jobs.len(), "every entry of a fleet is a job");
    let mut fleet = valid_fleet(spec, pool.clone(), jobs.to_vec())?;
    for kind in &mut fleet.kinds {
        kind.problem = kind.problem.clone().until(cancellation.clone());
    }
    if let (Some(instances), Some(largest)) = (limits.fixed.instances, largest(&fleet, &limits.fixed))
        && instances > largest.quota()
    {
        return Err(too_wide("--fix instances", instances, largest).into());
    }
    let mut found: Vec<OnEach> = Vec::new();
    for (index, kind) in fleet.kinds.iter().enumerate() {
        found.push(plans(kind, index, limits)?);
        if cancellation.is_cancelled() {
            return Err(FleetError::NoPlan { index, name: kind.name.clone(), error: Box::new(NoPlan::Cancelled) });
        }
        done();
    }
    let question = Question::new(spec, &fleet, &found)?;
    let mut document = question.answer()?;
    if document.missed.is_some() {
        let nearest = &document.prediction;
        document.to_meet_goal = WaysOut { question: &question, nearest, pool, jobs, limits, cancellation }.told();
    }
    let chosen = found.iter().zip(&document.plans).map(|(found, plan)| {
        let own = found.plans.iter().find(|on| on.best.plan.spec() == &plan.plan);
        own.expect("a plan of a fleet is one of the options")
    });
    let kinds = fleet.kinds.into_iter().zip(chosen).map(|(kind, plan)| PlannedKind::new(kind, limits, plan)).collect();
    Ok(PlannedFleet { document, kinds })
}

/// Returns the largest of the pools that may be used.
fn largest<'a>(fleet: &'a ValidFleet, fixed: &Fixed) -> Option<&'a PoolSpec> {
    let wanted = |pool: &&PoolSpec| fixed.instance.as_ref().is_none_or(|held| *held == pool.instance);
    fleet.shared.pools.values().filter(wanted).max_by_key(|pool| pool.quota())
}

/// A fleet whose kinds of jobs have plans to choose from.
struct Question<'a> {
    spec: &'a FleetSpec,
    fleet: &'a ValidFleet,
    found: &'a [OnEach],
    kinds: Vec<Kind>,
    judge: Judge,
}

impl<'a> Question<'a> {
    fn new(spec: &'a FleetSpec, fleet: &'a ValidFleet, found: &'a [OnEach]) -> Result<Self, FleetError> {
        let kinds = fleet.kinds.iter().zip(found).map(|(kind, found)| with_options(kind, found));
        let first = fleet.kinds.iter().map(|kind| kind.submit.0).fold(f64::INFINITY, f64::min);
        let judge = Judge { goal: fleet.goal, first, allowed: 0.0 };
        Ok(Self { spec, fleet, found, kinds: kinds.collect::<Result<_, _>>()?, judge })
    }

    fn answer(&self) -> Result<FleetDocument, FleetError> {
        let (spec, fleet, judge) = (self.spec, self.fleet, self.judge);
        let Solved { shared, kinds, solution, schedules, limited } = self.solved(spec, &fleet.shared)?;
        let mut pools = Pools::new(spec, &shared, &kinds)?;
        pools.schedules = schedules;
        let cold = if spec.pool.warm_pool { Some(self.without_warm_pool()?) } else { None };
        let likely = self.likely(&pools, &solution)?;
        let (pools, solution) = (&mut pools, &solution);
        Ok(document(Found { spec, fleet, plans: self.found, pools, judge, solution, cold, likely, limited })?)
    }

    fn likely(&self, pools: &Pools<'_>, solution: &Solution) -> Result<Likely, Invalid> {
        let spread = |placed: &Placed| {
            let kind = &self.fleet.kinds[placed.kind];
            self.found[placed.kind].plans[pools.option(*placed).plan].spread(&kind.problem, &kind.job)
        };
        let spreads: Vec<TrainingSpread> = solution.best.choice.iter().map(spread).collect::<Result<_, _>>()?;
        let time = |kind: usize, deviations: f64| spreads[kind].training(deviations);
        Doubt { pools, judge: self.judge, chosen: &solution.best, time: &time }.likely()
    }

    fn solve(&self, pools: &mut Pools<'_>) -> Result<Solution, FleetError> {
        let solution = choose(pools, self.judge).ok_or_else(|| too_long(MILLENNIA))?;
        let (judge, solution) = or_nearly_as_near(pools, self.judge, solution);
        let solution = or_much_better(pools, judge, solution, |_, _| true);
        let plan = |placed: Placed| &self.found[placed.kind].plans[self.kinds[placed.kind].options[placed.option].plan];
        let gives_up = |one: Placed, other: Placed| {
            let kind = &self.fleet.kinds[one.kind];
            plan(one).preferred_by(plan(other), &kind.problem, kind.count)
        };
        let software = |placed: Placed| plan(placed).best.plan.stack();
        let preferences = Preferences { gives_up: &gives_up, software: &software };
        let solution = or_simpler(pools, judge, solution, &preferences);
        let mut solution = or_much_better(pools, judge, solution, |own, other| gives_up(own, other).is_none());
        solution.best.worth = self.judge.worth(&solution.best.schedule.figures);
        solution.optimum.excess = solution.optimum.excess.max(solution.best.worth.excess);
        Ok(solution)
    }

    /// Plans the same fleet in a pool that keeps no instance warm.
    fn without_warm_pool(&self) -> Result<FleetOutcome, FleetError> {
        let spec = FleetSpec { pool: self.spec.pool.without_warm_pool(), ..self.spec.clone() };
        self.outcome(&spec, &self.fleet.shared.within(&spec))
    }

    /// Returns what all jobs take and cost in these pools.
    fn outcome(&self, spec: &FleetSpec, shared: &Shared) -> Result<FleetOutcome, FleetError> {
        let best = self.solved(spec, shared)?.solution.best;
        let figures = best.schedule.figures;
        Ok(FleetOutcome {
            makespan_s: figures.end - self.judge.first,
            cost_usd: figures.cost,
            misses_goal: best.worth.excess > 0.0,
        })
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
