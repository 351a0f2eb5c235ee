//! The best plan on each type and number of machines.

use super::limits::Limits;
use super::no_plan::{NoPlan, no_plan};
use super::solve::aim;
use crate::problem::Problem;
use crate::search::{Aim, Evaluated, search};
use rayon::prelude::*;
use trainyard_plan::Fixed;
use trainyard_units::Seconds;

/// More machines of a type pay off if they take at most this much of the time of fewer.
const WORTH_WHILE: f64 = 0.95;

/// The best plan on each type and number of machines that pays off, and the effort of finding them.
#[derive(Clone, Debug)]
pub struct OnEach {
    /// By type, then by number.
    pub best: Vec<Evaluated>,
    /// Plans in the spaces that were searched.
    pub candidates: u64,
    /// Plans that were simulated.
    pub simulated: u64,
    /// Fields that were held.
    pub limits: Limits,
}

/// Finds the best plan on each type and number of machines, without deadline and budget. Larger numbers that are hardly
/// faster than smaller ones are left out: they cost more and leave less to other jobs. Where twice as many do not pay
/// off, no more are tried: there communication takes what they save, and it grows with them.
///
/// # Errors
///
/// Fails if there is no plan on any of them.
pub fn on_each(problem: &Problem, limits: &Limits) -> Result<OnEach, NoPlan> {
    let wanted = |name: &String| limits.fixed.instance.as_ref().is_none_or(|held| held == name);
    let types = problem.place.types();
    let types: Vec<OnEach> =
        types.par_iter().filter(|(name, _)| wanted(name)).map(|own| on_type(problem, limits, own)).collect();
    let none = OnEach { best: Vec::new(), candidates: 0, simulated: 0, limits: limits.clone() };
    let all = types.into_iter().fold(none, |mut all, own| {
        all.best.extend(own.best);
        all.candidates += own.candidates;
        all.simulated += own.simulated;
        all
    });
    if all.best.is_empty() {
        let found = search(problem, &limits.fixed, aim(problem, limits));
        return Err(no_plan(problem, limits, &found));
    }
    Ok(all)
}

/// Does the same for one type: a search for each number, within the time that it may take at most.
fn on_type(problem: &Problem, limits: &Limits, (name, most): &(String, u32)) -> OnEach {
    let mut all = OnEach { best: Vec::new(), candidates: 0, simulated: 0, limits: limits.clone() };
    let mut problem = Problem { deadline: None, budget: None, ..problem.clone() };
    let held = limits.fixed.instances;
    for instances in (1..=*most).filter(|count| held.is_none_or(|held| held == *count)) {
        let fixed = Fixed { instance: Some(name.clone()), instances: Some(instances), ..limits.fixed.clone() };
        let found = search(&problem, &fixed, Aim { top: 1, ..aim(&problem, limits) });
        all.candidates += found.candidates;
        all.simulated += found.simulated;
        if let Some(best) = found.best.into_iter().next() {
            // The time around the steps hardly depends on the number of machines.
            problem.deadline = Some(Seconds(best.elapsed_s - best.time_s * (1.0 - WORTH_WHILE)));
            all.best.push(best);
        } else if found.candidates > 0
            && all.best.last().is_some_and(|last| 2 * last.plan.cluster().instances <= instances)
        {
            break;
        }
    }
    all
}
