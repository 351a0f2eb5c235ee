//! A goal that the recommended plan keeps by its prediction, but not by enough to be sure: how likely it is, and what would be
//! surer.

use super::pareto::pareto;
use super::solve::{alternative, prediction};
use crate::amount::{likelihood, usd};
use crate::problem::Problem;
use crate::search::{Evaluated, Prepared, Ranking, Totals, best_by, is_quick};
use trainyard_plan::document::{Alternative, Prediction};
use trainyard_plan::{JobSpec, Objective};
use trainyard_units::{Seconds, human_duration};

/// The probability from which a goal is taken to be kept: a stated default, that of the intervals.
pub const LIKELY: f64 = 0.9;

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

/// By how much a plan must be likelier to be named.
const WORTH_NAMING: f64 = 0.05;

/// How much earlier a plan is sought than one that is not likely to end in time, and how often: stated defaults.
const EARLIER: f64 = 0.95;
const SEARCHES: usize = 10;

/// A plan that meets the goal and is less likely than [`LIKELY`] to keep to it.
pub(super) struct Unlikely<'a> {
    pub(super) problem: &'a Problem,
    pub(super) job: &'a JobSpec,
    pub(super) chosen: &'a Evaluated,
    pub(super) own: &'a Prediction,
}

impl Unlikely<'_> {
    /// Returns `true` if there is something to warn of.
    fn is(&self) -> bool {
        least(self.own) < LIKELY && self.meets(self.chosen)
    }

    fn meets(&self, plan: &Evaluated) -> bool {
        Ranking::goal(self.problem).meets_goal(Totals::found(plan))
    }

    fn likelihood(&self, plan: &Evaluated) -> Option<f64> {
        let (expected, _) = prediction(self.problem, self.job, plan).ok()?;
        Some(least(&expected))
    }

    /// Searches for the best plan that is likely to keep to the goal: for one that ends earlier and earlier.
    pub(super) fn surer(&self, prepared: &Prepared<'_>) -> Option<Evaluated> {
        if !self.is() || self.problem.deadline.is_none() || self.problem.effort.is_some() {
            return None;
        }
        let earlier = |plan: &Evaluated| best_by(prepared, self.problem, plan.elapsed_s * EARLIER);
        std::iter::successors(earlier(self.chosen), earlier)
            .take(SEARCHES)
            .find(|plan| self.likelihood(plan).is_some_and(|likely| likely >= LIKELY))
    }

    /// Warns, and names the best of the plans that were `found` that is likely. `front` holds those that `--point` takes.
    pub(super) fn warning(&self, found: Vec<Evaluated>, front: &[Alternative]) -> Option<String> {
        if !self.is() {
            return None;
        }
        let goal = Ranking::goal(self.problem);
        let known = |plan: &Evaluated| plan.outcome.is_some() || is_quick(&plan.plan);
        let mut others = pareto(found);
        others.retain(|plan| self.meets(plan) && known(plan));
        let worth = |plan: &Evaluated| goal.worth(Totals::found(plan));
        others.sort_by(|one, other| worth(one).total_cmp(&worth(other)));
        let other = self.surest_of(others, front);
        Some(format!("the plan is {}; {other}", likely(self.job, self.own)?))
    }

    /// Names the first of these plans that is likely, or that is likelier than the recommended one where none is.
    fn surest_of(&self, others: Vec<Evaluated>, front: &[Alternative]) -> String {
        let mut surest: Option<(Evaluated, f64)> = None;
        for plan in others {
            let Some(chance) = self.likelihood(&plan) else { continue };
            if chance >= LIKELY {
                let best = if self.problem.objective == Objective::Cost { "cheapest" } else { "fastest" };
                let told = told(&plan, chance, front);
                return format!("the {best} that is {:.0} % likely to: {told}", 100.0 * LIKELY);
            }
            let worst = surest.as_ref().map_or(least(self.own) + WORTH_NAMING, |(_, chance)| *chance);
            if chance > worst {
                surest = Some((plan, chance));
            }
        }
        let none = format!("none of the plans that were compared is {:.0} % likely to", 100.0 * LIKELY);
        let surest = surest.map(|(plan, chance)| format!("; the likeliest: {}", told(&plan, chance, front)));
        none + &surest.unwrap_or_default()
    }
}

/// Tells the machines of a plan, what it takes and costs, how likely it is to keep to the goal, and where it is on the front.
fn told(plan: &Evaluated, likely: f64, front: &[Alternative]) -> String {
    let number = front.iter().position(|point| point.plan == alternative(plan).plan);
    let take = number.map_or_else(String::new, |number| format!("; --point {} takes it", number + 1));
    let cost = plan.cost_usd.map_or_else(String::new, |cost| format!(", {}", usd(cost)));
    let time = human_duration(Seconds(plan.elapsed_s));
    format!("{} ({time}{cost}), at {}{take}", plan.machines(), likelihood(likely))
}

#[cfg(test)]
mod tests {
    use crate::answer::{Limits, recommend};
    use crate::asking;
    use trainyard_plan::Fixed;
    use trainyard_plan::document::PlanDocument;

    fn planned(instances: Option<u32>) -> PlanDocument {
        let mut job = asking::job("gpt2-large", 240, &["g4dn.12xlarge"], 6);
        job.data.tokens = Some(2e9);
        job.goal.deadline = Some("26 h".into());
        let problem = asking::solvable(&job);
        let limits = Limits { fixed: Fixed { instances, ..Fixed::default() }, ..Limits::default() };
        recommend(&problem, &limits, &job).expect("a plan")
    }

    #[test]
    fn no_number_of_machines_is_likely_to_keep_a_goal_for_less_than_what_is_named() {
        let told = planned(None).warnings.swap_remove(0);
        let (named, usd) =
            told.split_once("90 % likely to: ").expect("a surer plan").1.split_once(", ").expect("a cost");
        let named: u32 = named.split_once(' ').and_then(|(count, _)| count.parse().ok()).expect("machines");
        let usd: f64 = usd.split_once(' ').and_then(|(usd, _)| usd.parse().ok()).expect("an amount");
        let likely = (1..=6)
            .map(|count| (count, planned(Some(count)).prediction))
            .filter(|(_, own)| own.within_deadline.is_some_and(|likely| likely >= 0.9));
        let costs: Vec<(u32, f64)> = likely.map(|(count, own)| (count, own.cost_usd.expect("rented"))).collect();
        assert!(costs.iter().any(|(count, _)| *count == named), "{told} {costs:?}");
        assert!(costs.iter().all(|(_, cost)| usd <= cost * 1.001), "{told} {costs:?}");
    }
}
