//! A goal that the recommended plan keeps by its prediction, but not by enough to be sure: how likely it is, and what would be
//! surer.

use super::pareto::pareto;
use super::solve::{alternative, prediction};
use crate::amount::{likelihood, usd};
use crate::problem::Problem;
use crate::search::{Evaluated, Ranking, Totals, is_quick};
use trainyard_plan::document::{Alternative, Prediction};
use trainyard_plan::{JobSpec, Objective};
use trainyard_units::{Seconds, human_duration};

/// The probability from which a goal is taken to be kept: a stated default, that of the intervals.
const LIKELY: f64 = 0.9;

/// The probability from which a goal is as good as certain to be kept, so that it is not told.
pub const CERTAIN: f64 = 0.99;

/// Says how likely a plan is to keep to the goal: `60 % likely to end within 2 h 00 min`; `None` without a goal, and where that is
/// as good as certain.
pub fn likely(job: &JobSpec, prediction: &Prediction) -> Option<String> {
    let told = |chance: Option<f64>| chance.filter(|chance| *chance <= CERTAIN).map(likelihood);
    let deadline = job.goal.deadline().map(human_duration);
    let in_time = told(prediction.within_deadline).zip(deadline);
    let in_time = in_time.map(|(likely, most)| format!("{likely} likely to end within {most}"));
    let affordable = told(prediction.within_budget).zip(job.goal.budget.map(usd));
    let affordable = affordable.map(|(likely, most)| format!("{likely} likely to cost at most {most}"));
    in_time.into_iter().chain(affordable).reduce(|time, cost| format!("{time}, {cost}"))
}

/// Returns the least of the probabilities of the parts of the goal.
fn least(prediction: &Prediction) -> f64 {
    [prediction.within_deadline, prediction.within_budget].into_iter().flatten().fold(1.0, f64::min)
}

/// Warns of a plan that meets the goal and is less likely than [`LIKELY`] to keep to it, and names the best of the plans that were
/// `found` that is likely. `front` holds those that `--point` takes.
pub(super) fn unlikely(
    problem: &Problem,
    job: &JobSpec,
    (chosen, own): (&Evaluated, &Prediction),
    (found, front): (Vec<Evaluated>, &[Alternative]),
) -> Option<String> {
    let goal = Ranking::goal(problem);
    let meets = |plan: &Evaluated| goal.meets_goal(Totals::found(plan));
    if least(own) >= LIKELY || !meets(chosen) {
        return None;
    }
    let known = |plan: &Evaluated| plan.outcome.is_some() || is_quick(&plan.plan);
    let mut others: Vec<Evaluated> = pareto(found).into_iter().filter(|plan| meets(plan) && known(plan)).collect();
    let worth = |plan: &Evaluated| goal.worth(Totals::found(plan));
    others.sort_by(|one, other| worth(one).total_cmp(&worth(other)));
    let safe = others.into_iter().find_map(|plan| {
        let (expected, _) = prediction(problem, job, &plan).ok()?;
        (least(&expected) >= LIKELY).then_some((plan, expected))
    });
    let best = if problem.objective == Objective::Cost { "cheapest" } else { "fastest" };
    let other = match safe {
        None => format!("none of the plans that were compared is {:.0} % likely to", 100.0 * LIKELY),
        Some((plan, expected)) => {
            let number = front.iter().position(|point| point.plan == alternative(&plan).plan);
            let take = number.map_or_else(String::new, |number| format!("; --point {} takes it", number + 1));
            let cost = plan.cost_usd.map_or_else(String::new, |cost| format!(", {}", usd(cost)));
            format!(
                "the {best} that is {:.0} % likely to: {} ({}{cost}), at {}{take}",
                100.0 * LIKELY,
                plan.machines(),
                human_duration(Seconds(plan.elapsed_s)),
                likelihood(least(&expected)),
            )
        }
    };
    Some(format!("the plan is {}; {other}", likely(job, own)?))
}
