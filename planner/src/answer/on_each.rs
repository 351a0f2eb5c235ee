//! The plan to recommend on each type and number of machines.

use super::limits::Limits;
use super::no_plan::{NoPlan, no_plan};
use super::solve::{Solved, aim, solve};
use crate::problem::Problem;
use crate::search::{Aim, Complexity, Evaluated, Found, SIMPLER_FOR_USD, given_up_for_set_up, indistinct, search};
use rayon::prelude::*;
use trainyard_plan::{Fixed, Objective};
use trainyard_units::Seconds;

/// More machines of a type pay off if they take at most this much of the time of fewer.
const WORTH_WHILE: f64 = 0.95;

/// A deadline is this part later than the plan that is to meet it ends, as sums may be rounded.
const ROUNDING: f64 = 1e-9;

/// A plan that is recommended on some machines.
#[derive(Clone, Debug)]
pub struct OnMachines {
    pub best: Evaluated,
    /// The deadline with which it is recommended; `None` if it is without one.
    pub within: Option<Seconds>,
    /// The fields with which it is recommended.
    pub fixed: Fixed,
    /// Time on machines that have started, to the last checkpoint: reading weights, download, steps, evaluation, checkpoints and expected
    /// failures. Reclaims are left out.
    pub training: Seconds,
    complexity: Complexity,
}

impl OnMachines {
    /// Returns what may be given up for this plan instead of another one of the same job, which is done so many times; `None`
    /// if this one is not simpler.
    pub fn preferred_by(&self, other: &Self, problem: &Problem, times: u32) -> Option<GivenUp> {
        // Of plans that are as simple, that with the smaller batch is nearer to what people train with.
        let order = |on: &Self| (on.complexity, on.best.plan.batch().global);
        if order(self) >= order(other) {
            return None;
        }
        let [own, others] = [self, other].map(|on| problem.place.software(on.best.choice));
        let cost = other.best.cost_usd.filter(|_| problem.objective == Objective::Cost);
        let for_set_up =
            cost.map_or(0.0, |cost| given_up_for_set_up(cost * f64::from(times), self.complexity, other.complexity));
        let part = indistinct(own, others).max(for_set_up);
        Some(GivenUp { part, usd: if own.name == others.name { f64::INFINITY } else { SIMPLER_FOR_USD } })
    }
}

/// What may be given up at most for a plan that is simpler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GivenUp {
    /// A part of the objective.
    pub part: f64,
    /// USD, by which all jobs may cost more than without any plan that is preferred for being simpler.
    pub usd: f64,
}

/// The plans on each type and number of machines that pays off, and the effort of finding them.
#[derive(Clone, Debug, Default)]
pub struct OnEach {
    /// By type, then by number.
    pub plans: Vec<OnMachines>,
    /// Plans in the spaces that were searched.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
}

/// Finds the plans that a job may have on each type and number of machines, without deadline and budget: the one that
/// [`crate::recommend`] recommends, and the best one by the objective if that is another; and the fastest plan on any number of
/// each type. Numbers on which no plan is more than a little faster than on fewer are left out: they cost more and leave less to
/// other jobs. Where twice as many do not pay off, no more are tried: there communication takes what they save, and it grows
/// with them.
///
/// # Errors
///
/// Fails if there is no plan on any of them.
pub fn on_each(problem: &Problem, limits: &Limits) -> Result<OnEach, NoPlan> {
    let all = on_types(problem, limits);
    if all.plans.is_empty() {
        let found = search(problem, &limits.fixed, aim(problem, limits));
        return Err(no_plan(problem, limits, &found));
    }
    Ok(all)
}

/// Does the same with the effort of a draft: a plan that is found need not be the best.
///
/// # Errors
///
/// Fails if no plan is found on any of them.
pub fn on_each_briefly(problem: &Problem, limits: &Limits) -> Result<OnEach, NoPlan> {
    on_each(&problem.briefly(), limits)
}

impl OnEach {
    /// Returns the same without the plans on more machines.
    #[must_use]
    pub fn on_at_most(&self, machines: u32) -> Self {
        let few = self.plans.iter().filter(|on| on.best.plan.cluster().instances <= machines);
        Self { plans: few.cloned().collect(), ..*self }
    }

    fn add(&mut self, other: Self) {
        self.plans.extend(other.plans);
        self.candidates += other.candidates;
        self.simulated += other.simulated;
    }
}

/// Finds the plans on each type of machines that may be used.
fn on_types(problem: &Problem, limits: &Limits) -> OnEach {
    let wanted = |name: &String| limits.fixed.instance.as_ref().is_none_or(|held| held == name);
    let problem = &Problem { deadline: None, budget: None, ..problem.clone() };
    let types = problem.place.types();
    let on_type = |(name, most): &(String, u32)| {
        let mut on_type = OnType { problem, limits, name, most: *most, found: OnEach::default() };
        on_type.each_number();
        on_type.fastest();
        on_type.found
    };
    let types: Vec<OnEach> = types.par_iter().filter(|(name, _)| wanted(name)).map(on_type).collect();
    types.into_iter().fold(OnEach::default(), |mut all, own| {
        all.add(own);
        all
    })
}

/// The plans on one type of machines.
struct OnType<'a> {
    /// The problem, without deadline and budget.
    problem: &'a Problem,
    limits: &'a Limits,
    name: &'a str,
    /// The most machines of the type.
    most: u32,
    found: OnEach,
}

impl OnType<'_> {
    /// Returns the limits of plans on so many machines, or on any number of them.
    fn limits(&self, instances: Option<u32>) -> Limits {
        let own = &self.limits.fixed;
        let fixed = Fixed { instance: Some(self.name.into()), instances: instances.or(own.instances), ..own.clone() };
        Limits { top: 1, fixed, ..self.limits.clone() }
    }

    /// Finds the plans on each number of machines, or on the one that is held: a search within the time that it may take at
    /// most, then the choice.
    fn each_number(&mut self) {
        let held = self.limits.fixed.instances;
        let mut in_time = self.problem.clone();
        let mut last = 0;
        for instances in (1..=self.most).filter(|count| held.is_none_or(|held| held == *count)) {
            let limits = self.limits(Some(instances));
            let found = self.search(&in_time, &limits, aim(&in_time, &limits));
            if let Some(best) = found.best.first() {
                // The time around the steps hardly depends on the number of machines.
                in_time.deadline = Some(Seconds(best.elapsed_s - best.time_s * (1.0 - WORTH_WHILE)));
                last = instances;
                let recommended = recommended(self.problem, &limits);
                let batch = recommended.as_ref().map(|on| on.best.plan.batch().global);
                self.keep(recommended);
                self.keep_best_with(batch, best, &limits);
            } else if found.candidates > 0 && last > 0 && 2 * last <= instances {
                break;
            }
        }
    }

    /// Keeps the best plan on these machines with a global batch, that which is recommended there: larger ones are no options,
    /// as they are none where the job is planned by itself.
    fn keep_best_with(&mut self, batch: Option<u64>, best: &Evaluated, limits: &Limits) {
        if batch.is_none_or(|batch| batch == best.plan.batch().global) {
            return self.keep_as_fast_as(best, limits);
        }
        let held = Limits { fixed: Fixed { global: batch, ..limits.fixed.clone() }, ..limits.clone() };
        let found = self.search(self.problem, &held, aim(self.problem, &held));
        if let Some(best) = found.best.first() {
            self.keep_as_fast_as(best, &held);
        }
    }

    /// Finds the fastest plan on any number of machines.
    fn fastest(&mut self) {
        let found = self.search(self.problem, &self.limits(None), Aim::best(Objective::Time));
        if let Some(fastest) = found.best.first() {
            self.keep_as_fast_as(fastest, &self.limits(Some(fastest.plan.cluster().instances)));
        }
    }

    fn search(&mut self, problem: &Problem, limits: &Limits, aim: Aim) -> Found {
        let found = search(problem, &limits.fixed, Aim { top: 1, ..aim });
        self.found.candidates += found.candidates;
        self.found.simulated += found.simulated;
        found
    }

    /// Keeps the plan that is recommended within these limits where no more time is left than this one takes.
    fn keep_as_fast_as(&mut self, plan: &Evaluated, limits: &Limits) {
        if self.knows(plan) {
            return;
        }
        let deadline = Some(Seconds(plan.elapsed_s * (1.0 + ROUNDING)));
        self.keep(recommended(&Problem { deadline, ..self.problem.clone() }, limits));
    }

    /// Keeps a plan, unless it is known.
    fn keep(&mut self, on: Option<OnMachines>) {
        self.found.plans.extend(on.filter(|on| !self.knows(&on.best)));
    }

    fn knows(&self, plan: &Evaluated) -> bool {
        self.found.plans.iter().any(|known| known.best.plan == plan.plan)
    }
}

/// Returns the plan that is recommended on the machines of these limits, if there is one.
fn recommended(problem: &Problem, limits: &Limits) -> Option<OnMachines> {
    let Solved { prepared, found, .. } = solve(problem, limits);
    let best = found.best.into_iter().next()?;
    let (training, complexity) = (best.training(problem), prepared.complexity(&best));
    Some(OnMachines { best, within: problem.deadline, fixed: limits.fixed.clone(), training, complexity })
}
