//! Of plans that cannot be told apart by what they cost, one that is likely to end in time.

use super::aim::{Aim, Ceilings, Within};
use super::near_optimal::{Among, INDISTINCT};
use super::prepared::Prepared;
use super::totals::{Evaluated, Totals, is_quick};
use crate::problem::Problem;
use std::sync::Arc;
use trainyard_calibration::{NORMAL_95, interval};
use trainyard_plan::Objective;
use trainyard_sim::simulate;

/// Standard deviations above the median below which nine of ten values of a normal distribution lie.
const NORMAL_90: f64 = 1.2816;

/// Returns, where cost is minimized and the `chosen` plan is less than 90 % likely to end within the deadline, the cheapest of the
/// simplest plans that is likely to, for which no more has to be set up and that costs little more; `None` if there is none. `one`
/// is the aim of a plan within the goal.
pub(super) fn surer(among: Among<'_, '_>, problem: &Problem, one: Aim, chosen: &Evaluated) -> Option<Evaluated> {
    let deadline = problem.deadline.filter(|_| one.objective == Objective::Cost)?.0;
    let in_time = |plan: &Evaluated| slow(problem, plan).is_none_or(|factor| plan.elapsed_s * factor <= deadline);
    if in_time(chosen) {
        return None;
    }
    let totals = Totals::found(chosen);
    let near = Ceilings::near(Objective::Cost, totals, 1.0 + INDISTINCT);
    let early = Ceilings::within(deadline / slow(problem, chosen)?);
    let own = among.prepared.complexity(chosen);
    let global = Some(chosen.plan.batch().global);
    let aim = Aim { ceilings: one.ceilings.and(near).and(early), global, ..one };
    // The same software first: the interval of another one may be wider.
    let stack = problem.place.software(chosen.choice);
    let own_stack = problem.place.stacks().iter().position(|other| other.name == stack.name);
    [own_stack.or(one.stack), one.stack].into_iter().find_map(|stack| {
        let aim = Aim { stack, ..aim };
        let plain = among.complexities(aim).into_iter().filter(|class| class.set_up() <= own.set_up());
        plain.filter_map(|class| among.best(Aim { complexity: Some(class), ..aim })).find(in_time)
    })
}

/// Returns the best plan within the goal that ends by a time.
pub(crate) fn best_by(prepared: &Prepared<'_>, problem: &Problem, elapsed_s: f64) -> Option<Evaluated> {
    let aim = Aim { within: Within::Goal, ceilings: Ceilings::within(elapsed_s), ..Aim::best(problem.objective) };
    prepared.search(aim).best.into_iter().next()
}

/// Returns how many times as long as predicted a step takes that is slower than nine of ten; `None` of a plan whose step takes long
/// to simulate.
fn slow(problem: &Problem, plan: &Evaluated) -> Option<f64> {
    let machine = plan.machine(problem);
    let simulated = || is_quick(&plan.plan).then(|| simulate(&plan.plan, &machine).ok()).flatten().map(Arc::new);
    let outcome = plan.outcome.clone().or_else(simulated)?;
    let [_, high] = interval(&plan.plan, &machine, &outcome);
    Some((high / plan.step_time_s).max(1.0).powf(NORMAL_90 / NORMAL_95))
}

#[cfg(test)]
mod tests {
    use crate::asking;

    /// Two machines end in time by their prediction, but may well not; four cost little more.
    #[test]
    fn what_costs_little_more_and_is_likely_to_end_in_time_is_preferred() {
        let planned = |deadline: &str| {
            let mut job = asking::job("gpt2-xl", 512, &["p4d.24xlarge"], 4);
            job.data.tokens = Some(5e9);
            job.goal.deadline = Some(deadline.into());
            let document = asking::planned(&job);
            let likely = document.prediction.within_deadline.expect("a deadline");
            (document.plan.cluster.instances, likely, document.prediction.cost_usd.expect("rented"))
        };
        let [(two, sure, cost), (four, surer, more)] = ["7 d", "5.5 h"].map(planned);
        assert_eq!((two, four), (2, 4));
        assert!(sure > 0.9 && surer > 0.9 && more < 1.05 * cost, "{sure} {surer} {cost} {more}");
    }
}
