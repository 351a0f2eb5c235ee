//! What would let a fleet keep to deadlines and budgets that it misses: more instances, spot prices, or the deadline or the
//! budget alone.

use super::choose::Judge;
use super::option::brief_plans;
use super::valid::{Goal, ValidFleet, valid_fleet};
use super::{FleetJob, FleetOutcome, FleetPoolSpec, FleetSpec, Question};
use trainyard_plan::Pricing;
use trainyard_planner::{Cancellation, Limits, OnEach, Resources, usd};
use trainyard_units::{Seconds, human_count, human_duration};

/// How many times the quota of each type is tried.
const TIMES: [u32; 3] = [2, 4, 8];

/// A fleet that misses its goal, with all that planning it otherwise takes.
pub(super) struct WaysOut<'a> {
    pub(super) question: &'a Question<'a>,
    /// The content of the files that its pool names.
    pub(super) pool: &'a Resources,
    /// The jobs of its entries.
    pub(super) jobs: &'a [FleetJob],
    pub(super) limits: &'a Limits,
    pub(super) cancellation: &'a Cancellation,
}

impl WaysOut<'_> {
    /// Says what would do, in sentences; nothing if nothing that is tried does.
    pub(super) fn told(&self) -> Vec<String> {
        [self.more_instances(), self.at_spot_prices(), self.deadline_alone(), self.budget_alone()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn spec(&self) -> &FleetSpec {
        self.question.spec
    }

    /// Finds the fewest instances of each type that would be enough.
    fn more_instances(&self) -> Option<String> {
        let quota = self.spec().pool.max_instances?;
        if self.limits.fixed.instances.is_some() {
            return None;
        }
        let with = |most: u32| {
            let pool = FleetPoolSpec { max_instances: Some(most), ..self.spec().pool.clone() };
            FleetSpec { pool, ..self.spec().clone() }
        };
        let mut missed = quota;
        for most in TIMES.into_iter().filter_map(|times| quota.checked_mul(times)) {
            let other = self.planned(&with(most))?;
            if let Some(mut enough) = other.meeting(&with(most), u32::MAX) {
                let mut fewest = most;
                while fewest - missed > 1 {
                    let middle = u32::midpoint(missed, fewest);
                    match other.meeting(&with(middle), middle) {
                        Some(outcome) => (fewest, enough) = (middle, outcome),
                        None => missed = middle,
                    }
                }
                let [fewest, quota] = [fewest, quota].map(|own| human_count(own.into()));
                let told = of_all(&enough);
                return Some(format!(
                    "pool.max_instances {quota} stands in the way: with {fewest} instances of each type {told}"
                ));
            }
            missed = most;
        }
        None
    }

    /// Plans the jobs on spot instances, where money decides.
    fn at_spot_prices(&self) -> Option<String> {
        let own = &self.spec().pool;
        let has_budget = self.question.judge.goal.budget.is_some() || self.kinds().any(|budget| budget.is_some());
        if own.file.is_some() || !has_budget || own.pricing.unwrap_or(Pricing::OnDemand) == Pricing::Spot {
            return None;
        }
        let pool = FleetPoolSpec { pricing: Some(Pricing::Spot), ..own.clone() };
        let spec = FleetSpec { pool, ..self.spec().clone() };
        let enough = self.planned(&spec)?.meeting(&spec, u32::MAX)?;
        Some(format!("on spot instances {}, if none of them is reclaimed", of_all(&enough)))
    }

    /// Returns the budget of each kind of jobs.
    fn kinds(&self) -> impl Iterator<Item = Option<f64>> {
        self.question.fleet.kinds.iter().map(|kind| kind.budget)
    }

    fn deadline_alone(&self) -> Option<String> {
        let goal = self.question.judge.goal;
        let budget = goal.budget.filter(|_| goal.deadline.is_some())?;
        let enough = self.with_goal(Goal { budget: None, ..goal })?;
        Some(format!("without the budget of {} {}", usd(budget), of_all(&enough)))
    }

    fn budget_alone(&self) -> Option<String> {
        let goal = self.question.judge.goal;
        let deadline = goal.deadline.filter(|_| goal.budget.is_some())?;
        let enough = self.with_goal(Goal { deadline: None, ..goal })?;
        Some(format!("without the deadline of {} {}", human_duration(deadline), of_all(&enough)))
    }

    /// Returns what all jobs take and cost with another goal, if that is met.
    fn with_goal(&self, goal: Goal) -> Option<FleetOutcome> {
        let own = self.question;
        let judge = Judge { goal, ..own.judge };
        let other = Question { judge, kinds: own.kinds.clone(), ..*own };
        other.outcome(own.spec, &own.fleet.shared).ok().filter(|outcome| !outcome.misses_goal)
    }

    /// Searches briefly for the plans of all kinds in another pool; `None` if a kind has none there.
    fn planned(&self, spec: &FleetSpec) -> Option<Planned> {
        let mut fleet = valid_fleet(spec, self.pool.clone(), self.jobs.to_vec()).ok()?;
        for kind in &mut fleet.kinds {
            kind.problem = kind.problem.clone().until(self.cancellation.clone());
        }
        let found = fleet.kinds.iter().map(|kind| brief_plans(kind, self.limits));
        let found = found.collect::<Option<_>>().filter(|_| !self.cancellation.is_cancelled())?;
        Some(Planned { fleet, found })
    }
}

/// The plans of a fleet in another pool.
struct Planned {
    fleet: ValidFleet,
    found: Vec<OnEach>,
}

impl Planned {
    /// Returns what all jobs take and cost in a pool of these instances, each job on so many of them at most, if the goal is met.
    fn meeting(&self, spec: &FleetSpec, most: u32) -> Option<FleetOutcome> {
        let found: Vec<OnEach> = self.found.iter().map(|own| own.on_at_most(most)).collect();
        let question = Question::new(spec, &self.fleet, &found).ok()?;
        let shared = self.fleet.shared.within(spec);
        question.outcome(spec, &shared).ok().filter(|outcome| !outcome.misses_goal)
    }
}

/// Says what all jobs would take and cost.
fn of_all(outcome: &FleetOutcome) -> String {
    let time = human_duration(Seconds(outcome.makespan_s));
    let cost = if outcome.cost_usd > 0.0 { format!(" and cost {}", usd(outcome.cost_usd)) } else { String::new() };
    format!("all jobs would take {time}{cost}")
}
