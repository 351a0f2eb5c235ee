//! What would let a fleet keep to deadlines and budgets that it misses: jobs of a kind on two types, more instances, spot prices,
//! or the deadline or the budget alone.

use super::choose::Judge;
use super::option::brief_plans;
use super::valid::{Goal, ValidFleet, ValidKind, valid_fleet};
use super::{FleetJob, FleetOutcome, FleetPoolSpec, FleetPrediction, FleetSpec, Question};
use trainyard_plan::Pricing;
use trainyard_planner::{Cancellation, Limits, OnEach, Resources, usd};
use trainyard_units::{Seconds, human_count, human_duration};

/// How many times the quota of each type is tried.
const TIMES: [u32; 3] = [2, 4, 8];

/// A fleet that misses its goal, with all that planning it otherwise takes.
pub(super) struct WaysOut<'a> {
    pub(super) question: &'a Question<'a>,
    /// What the schedule that comes nearest takes and costs.
    pub(super) nearest: &'a FleetPrediction,
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
        let ways =
            [self.in_two(), self.more_instances(), self.at_spot_prices(), self.deadline_alone(), self.budget_alone()];
        let told: Vec<String> = ways.into_iter().flatten().collect();
        if told.is_empty() { self.more_on_spot().into_iter().collect() } else { told }
    }

    fn spec(&self) -> &FleetSpec {
        self.question.spec
    }

    /// Lets the jobs of each kind run in two ways, on two types perhaps.
    fn in_two(&self) -> Option<String> {
        let own = self.question;
        let halves = own.fleet.kinds.iter().zip(own.found).flat_map(|(kind, found)| {
            let half = kind.count / 2;
            let counts = [kind.count - half, half].into_iter().enumerate().filter(|(_, count)| *count > 0);
            counts.map(move |(part, count)| {
                let name = format!("{}, part {}", kind.name, part + 1);
                (ValidKind { name, count, ..kind.clone() }, found.clone())
            })
        });
        let (kinds, found): (Vec<ValidKind>, Vec<OnEach>) = halves.unzip();
        if kinds.len() == own.fleet.kinds.len() {
            return None;
        }
        let fleet = ValidFleet { kinds, ..own.fleet.clone() };
        let question = Question::new(own.spec, &fleet, &found).ok()?;
        let enough = question.outcome(own.spec, &fleet.shared).ok().filter(|outcome| !outcome.misses_goal)?;
        let told = of_all(&enough);
        Some(format!("all jobs of a [[job]] share one plan: with two [[job]] of half as many in place of each {told}"))
    }

    fn more_instances(&self) -> Option<String> {
        let (fewest, enough) = self.fewest(self.spec())?;
        let quota = human_count(self.spec().pool.max_instances?.into());
        let (fewest, told) = (human_count(fewest.into()), of_all(&enough));
        Some(format!("pool.max_instances {quota} stands in the way: with {fewest} instances of each type {told}"))
    }

    /// Finds the fewest instances of each type, more than the quota, that would be enough.
    fn fewest(&self, terms: &FleetSpec) -> Option<(u32, FleetOutcome)> {
        let quota = terms.pool.max_instances.filter(|_| self.limits.fixed.instances.is_none())?;
        let with = |most: u32| {
            let pool = FleetPoolSpec { max_instances: Some(most), ..terms.pool.clone() };
            FleetSpec { pool, ..terms.clone() }
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
                return Some((fewest, enough));
            }
            missed = most;
        }
        None
    }

    /// Returns the same fleet on spot instances, where money decides; `None` where it is on these already. They have quotas of
    /// their own.
    fn on_spot(&self) -> Option<FleetSpec> {
        let own = &self.spec().pool;
        let has_budget = self.question.judge.goal.budget.is_some() || self.kinds().any(|budget| budget.is_some());
        let other = own.file.is_none() && own.pricing.unwrap_or(Pricing::OnDemand) != Pricing::Spot;
        let pool = FleetPoolSpec { pricing: Some(Pricing::Spot), quotas: None, ..own.clone() };
        (has_budget && other).then(|| FleetSpec { pool, ..self.spec().clone() })
    }

    fn at_spot_prices(&self) -> Option<String> {
        let spec = self.on_spot()?;
        let enough = self.planned(&spec)?.meeting(&spec, u32::MAX)?;
        Some(format!("on spot instances {}, if none of them is reclaimed", of_all(&enough)))
    }

    fn more_on_spot(&self) -> Option<String> {
        let (fewest, enough) = self.fewest(&self.on_spot()?)?;
        let (fewest, told) = (human_count(fewest.into()), of_all(&enough));
        Some(format!("with {fewest} spot instances of each type {told}, if none of them is reclaimed"))
    }

    /// Returns the budget of each kind of jobs.
    fn kinds(&self) -> impl Iterator<Item = Option<f64>> {
        self.question.fleet.kinds.iter().map(|kind| kind.budget)
    }

    /// Says what keeps to the deadline where the schedule that comes nearest does not.
    fn deadline_alone(&self) -> Option<String> {
        let goal = self.question.judge.goal;
        let late = goal.deadline.is_some_and(|deadline| self.nearest.makespan_s > deadline.0);
        let budget = goal.budget.filter(|_| late)?;
        let enough = self.with_goal(Goal { budget: None, ..goal })?;
        Some(format!("without the budget of {} {}", usd(budget), of_all(&enough)))
    }

    /// Says what keeps to the budget where the schedule that comes nearest does not.
    fn budget_alone(&self) -> Option<String> {
        let goal = self.question.judge.goal;
        let cost = self.nearest.cost.map_or(0.0, |cost| cost.total_usd);
        let deadline = goal.deadline.filter(|_| goal.budget.is_some_and(|budget| cost > budget))?;
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

/// Says what all jobs would take and cost: about, for drafts are compared, and a plan that asks for it may prefer what is simpler.
fn of_all(outcome: &FleetOutcome) -> String {
    let time = human_duration(Seconds(outcome.makespan_s));
    let cost = if outcome.cost_usd > 0.0 { format!(" and cost {}", usd(outcome.cost_usd)) } else { String::new() };
    format!("all jobs would take about {time}{cost}")
}
