//! The plan to recommend on each type and number of machines.

use super::limits::Limits;
use super::no_plan::{NoPlan, no_plan};
use super::solve::{Solved, aim, best_and_optimum, solve};
use crate::problem::Problem;
use crate::search::{Aim, Complexity, Evaluated, Found, given_up_for_set_up, indistinct, search};
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
    /// Time from the end of the start-up to the last checkpoint: download, steps, evaluation, checkpoints and expected
    /// failures. Reclaims are left out.
    pub training: Seconds,
    complexity: Complexity,
}

impl OnMachines {
    /// Returns the part of the objective that may be given up for this plan instead of another one of the same job, which is
    /// done so many times; `None` if this one is not simpler.
    pub fn preferred_by(&self, other: &Self, problem: &Problem, times: u32) -> Option<f64> {
        let [own, others] = [self, other].map(|on| problem.place.software(on.best.choice));
        let less_set_up = problem.objective == Objective::Cost && self.complexity.set_up() < other.complexity.set_up();
        let cost = other.best.cost_usd.filter(|_| less_set_up).map(|cost| cost * f64::from(times));
        let part = indistinct(own, others).max(cost.map_or(0.0, given_up_for_set_up));
        (self.complexity < other.complexity).then_some(part)
    }
}

/// The plans on each type and number of machines that pays off, and the effort of finding them.
#[derive(Clone, Debug)]
pub struct OnEach {
    /// By type, then by number.
    pub plans: Vec<OnMachines>,
    /// Plans in the spaces that were searched.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Fields that were held.
    pub limits: Limits,
}

/// Finds the plan that [`crate::recommend`] recommends on each type and number of machines, without deadline and budget.
/// Larger numbers that are hardly faster than smaller ones are left out: they cost more and leave less to other jobs.
/// Where twice as many do not pay off, no more are tried: there communication takes what they save, and it grows with
/// them.
///
/// # Errors
///
/// Fails if there is no plan on any of them.
pub fn on_each(problem: &Problem, limits: &Limits) -> Result<OnEach, NoPlan> {
    let all = on_types(problem, limits, |on_type| on_type.each_number(limits.fixed.instances));
    if all.plans.is_empty() {
        let found = search(problem, &limits.fixed, aim(problem, limits));
        return Err(no_plan(problem, limits, &found));
    }
    Ok(all)
}

impl OnEach {
    /// Adds what is only wanted where these plans miss a deadline or a budget: on the same machines the best plan by the
    /// objective, where a simpler one is recommended, and the fastest plan on any number of machines of each type.
    pub fn hurry(&mut self, problem: &Problem) {
        let own = &self.plans;
        let all = on_types(problem, &self.limits, |on_type| on_type.hurry(own));
        self.add(all);
    }

    fn none(limits: &Limits) -> Self {
        Self { plans: Vec::new(), candidates: 0, simulated: 0, limits: limits.clone() }
    }

    fn add(&mut self, other: Self) {
        self.plans.extend(other.plans);
        self.candidates += other.candidates;
        self.simulated += other.simulated;
    }
}

/// Does the same on each type of machines that may be used.
fn on_types(problem: &Problem, limits: &Limits, search: impl Fn(&mut OnType<'_>) + Sync) -> OnEach {
    let wanted = |name: &String| limits.fixed.instance.as_ref().is_none_or(|held| held == name);
    let problem = &Problem { deadline: None, budget: None, ..problem.clone() };
    let types = problem.place.types();
    let on_type = |(name, most): &(String, u32)| {
        let mut on_type = OnType { problem, limits, name, most: *most, found: OnEach::none(limits) };
        search(&mut on_type);
        on_type.found
    };
    let types: Vec<OnEach> = types.par_iter().filter(|(name, _)| wanted(name)).map(on_type).collect();
    types.into_iter().fold(OnEach::none(limits), |mut all, own| {
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
    fn each_number(&mut self, held: Option<u32>) {
        let mut in_time = self.problem.clone();
        let mut last = 0;
        for instances in (1..=self.most).filter(|count| held.is_none_or(|held| held == *count)) {
            let limits = self.limits(Some(instances));
            let found = self.search(&in_time, &limits, aim(&in_time, &limits));
            let on = if found.best.is_empty() { None } else { recommended(self.problem, &limits) };
            if let Some(on) = on.filter(|on| in_time.deadline.is_none_or(|most| on.best.elapsed_s <= most.0)) {
                // The time around the steps hardly depends on the number of machines.
                in_time.deadline = Some(Seconds(on.best.elapsed_s - on.best.time_s * (1.0 - WORTH_WHILE)));
                last = instances;
                self.found.plans.push(on);
            } else if found.candidates > 0 && last > 0 && 2 * last <= instances {
                break;
            }
        }
    }

    /// Finds the best plans by the objective on the machines of these, and the fastest on any number.
    fn hurry(&mut self, known: &[OnMachines]) {
        let name = self.name;
        let of_type = known.iter().map(|known| known.best.plan.cluster()).filter(|own| own.instance == name);
        for own in of_type {
            let limits = self.limits(Some(own.instances));
            if let Ok((_, Some(optimum))) = best_and_optimum(self.problem, &limits) {
                self.keep_as_fast_as(&optimum, known);
            }
        }
        let limits = self.limits(None);
        let found = self.search(self.problem, &limits, Aim::best(Objective::Time));
        if let Some(fastest) = found.best.first() {
            self.keep_as_fast_as(fastest, known);
        }
    }

    fn search(&mut self, problem: &Problem, limits: &Limits, aim: Aim) -> Found {
        let found = search(problem, &limits.fixed, Aim { top: 1, ..aim });
        self.found.candidates += found.candidates;
        self.found.simulated += found.simulated;
        found
    }

    /// Keeps the plan that is recommended where no more time is left than this one takes, unless it is known.
    fn keep_as_fast_as(&mut self, plan: &Evaluated, known: &[OnMachines]) {
        let limits = self.limits(Some(plan.plan.cluster().instances));
        let deadline = Seconds(plan.elapsed_s * (1.0 + ROUNDING));
        let Some(on) = recommended(&Problem { deadline: Some(deadline), ..self.problem.clone() }, &limits) else {
            return;
        };
        if known.iter().chain(&self.found.plans).all(|known| known.best.plan != on.best.plan) {
            self.found.plans.push(on);
        }
    }
}

/// Returns the plan that is recommended on the machines of these limits, if there is one.
fn recommended(problem: &Problem, limits: &Limits) -> Option<OnMachines> {
    let Solved { prepared, found, .. } = solve(problem, limits);
    let best = found.best.into_iter().next()?;
    let (training, complexity) = (best.training(problem), prepared.complexity(&best));
    Some(OnMachines { best, within: problem.deadline, training, complexity })
}
