//! What a plan that is already laid out takes on some machines, and which of two plans a user would rather have.

use crate::overheads::Overheads;
use crate::problem::Problem;
use crate::search::{Evaluated, Within};
use trainyard_plan::{Objective, Plan};
use trainyard_sim::{Intake, LoaderRates, Machine, step_time};
use trainyard_units::Seconds;

/// The time and cost of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    /// Seconds of a step, including waiting for samples.
    pub(crate) step_time_s: f64,
    /// Seconds of all steps.
    pub(crate) time_s: f64,
    /// Seconds from the request for machines to the last checkpoint.
    pub(crate) elapsed_s: f64,
    /// Price of the training and its overheads, in USD.
    pub(crate) cost_usd: Option<f64>,
}

impl Totals {
    /// Returns the totals of a plan that a search found.
    pub(crate) fn found(evaluated: &Evaluated) -> Self {
        let Evaluated { step_time_s, time_s, elapsed_s, cost_usd, .. } = *evaluated;
        Self { step_time_s, time_s, elapsed_s, cost_usd }
    }

    /// Simulates any plan on any machines of a type of the problem; `None` if the machine does not admit the plan, or
    /// cannot load its samples.
    pub(crate) fn simulated(problem: &Problem, plan: &Plan, choice: usize, machine: &Machine) -> Option<Self> {
        let step = step_time(plan, machine).ok()?;
        let steps = problem.training.steps(plan.batch().global);
        let (step_time_s, time_s, download) = match (plan.input(), &problem.data) {
            (Some(input), Some(data)) => {
                let intake = Intake { mesh: plan.mesh(), global_batch: plan.batch().global };
                let supply = LoaderRates::new(intake, machine, &data.set, input).ok()?.of_equal_samples();
                let feed = supply.feed(step, steps);
                (feed.step_time.0, feed.time.0, feed.download)
            }
            _ => (step.0, step.0 * steps as f64, Seconds(0.0)),
        };
        let Some(price) = problem.place.price(choice) else {
            return Some(Self { step_time_s, time_s, elapsed_s: time_s, cost_usd: None });
        };
        let overheads = Overheads::of_plan(problem, plan, machine, price);
        let course = overheads.course(steps, Seconds(time_s), download);
        let storage = plan.input().map(|input| input.storage);
        let cost_usd = Some(overheads.cost(&course, price.hourly(), storage).total());
        Some(Self { step_time_s, time_s, elapsed_s: course.elapsed().0, cost_usd })
    }

    /// Returns the smaller of the two in each figure.
    pub(crate) fn least(self, other: Self) -> Self {
        let cost_usd = [self.cost_usd, other.cost_usd].into_iter().flatten().min_by(f64::total_cmp);
        Self {
            step_time_s: self.step_time_s.min(other.step_time_s),
            time_s: self.time_s.min(other.time_s),
            elapsed_s: self.elapsed_s.min(other.elapsed_s),
            cost_usd,
        }
    }
}

/// Returns the searches for a plan when none meets the goal, the nearest miss first: the cheapest that keeps the
/// deadline, the fastest that keeps the budget; then, of all plans, the fastest if there is a deadline, and the
/// cheapest if there is none.
pub(crate) fn nearest(deadline: Option<Seconds>, budget: Option<f64>) -> &'static [(Objective, Within)] {
    match (deadline, budget) {
        (Some(_), Some(_)) => &[
            (Objective::Cost, Within::Deadline),
            (Objective::Time, Within::Budget),
            (Objective::Time, Within::Anything),
        ],
        (Some(_), None) => &[(Objective::Time, Within::Anything)],
        (None, _) => &[(Objective::Cost, Within::Anything)],
    }
}

/// The order in which a user prefers plans: those that meet the goal first, then those with the lower objective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranking {
    pub(crate) objective: Objective,
    deadline: Option<Seconds>,
    budget: Option<f64>,
}

impl Ranking {
    /// Returns the ranking of the job's goal.
    pub(crate) fn goal(problem: &Problem) -> Self {
        let Problem { objective, deadline, budget, .. } = *problem;
        Self { objective, deadline, budget }
    }

    /// Returns the ranking by which `chosen` was recommended: if it misses the goal, that of the nearest miss.
    pub(crate) fn of(problem: &Problem, chosen: &Evaluated) -> Self {
        let goal = Self::goal(problem);
        let totals = Totals::found(chosen);
        if goal.meets_goal(totals) { goal } else { goal.nearest_kept(totals).1 }
    }

    /// Returns the first ranking, from the nearest miss on, whose limits a plan keeps, with its index.
    fn nearest_kept(&self, totals: Totals) -> (usize, Self) {
        let rankings = nearest(self.deadline, self.budget).iter().map(|&(objective, within)| {
            let (deadline, budget) = within.of(self.deadline, self.budget);
            Self { objective, deadline, budget }
        });
        let mut kept = rankings.enumerate().filter(|(_, ranking)| ranking.meets_goal(totals));
        kept.next().expect("the last of them holds a plan to nothing")
    }

    pub(crate) fn meets_goal(&self, totals: Totals) -> bool {
        let late = self.deadline.is_some_and(|deadline| totals.elapsed_s > deadline.0);
        let dear = self.budget.zip(totals.cost_usd).is_some_and(|(budget, cost)| cost > budget);
        !late && !dear
    }

    /// Returns the objective's value: seconds, or USD where there is a price.
    pub(crate) fn worth(&self, totals: Totals) -> f64 {
        amount(self.objective, totals)
    }

    /// Returns `true` if the first is better than the second. If both miss the goal, the one that comes nearer is
    /// better.
    pub(crate) fn prefers(&self, first: Totals, second: Totals) -> bool {
        match (self.meets_goal(first), self.meets_goal(second)) {
            (true, false) => true,
            (false, true) => false,
            (true, true) => self.worth(first) < self.worth(second),
            (false, false) => {
                let missed = |totals| {
                    let (place, ranking) = self.nearest_kept(totals);
                    (place, ranking.worth(totals))
                };
                missed(first) < missed(second)
            }
        }
    }
}

pub(crate) fn amount(objective: Objective, totals: Totals) -> f64 {
    match objective {
        Objective::Time => totals.time_s,
        Objective::Cost => totals.cost_usd.unwrap_or(totals.time_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_meets_the_goal_goes_before_a_cheaper_one_that_does_not() {
        let ranking = Ranking { objective: Objective::Cost, deadline: Some(Seconds(100.0)), budget: Some(50.0) };
        let totals = |time_s, cost| Totals { step_time_s: 1.0, time_s, elapsed_s: time_s, cost_usd: Some(cost) };
        assert!(ranking.prefers(totals(90.0, 40.0), totals(110.0, 10.0)));
        assert!(ranking.prefers(totals(90.0, 40.0), totals(10.0, 60.0)));
        assert!(ranking.prefers(totals(99.0, 30.0), totals(10.0, 40.0)));
        assert!(!ranking.prefers(totals(10.0, 40.0), totals(99.0, 30.0)));
        // In time, but too dear: the cheaper one.
        assert!(ranking.prefers(totals(99.0, 60.0), totals(10.0, 70.0)));
        // One in time and too dear, one late and cheap.
        assert!(ranking.prefers(totals(99.0, 60.0), totals(110.0, 10.0)));
        // Both late: one that costs no more than may be, and of two of these the faster one.
        assert!(ranking.prefers(totals(120.0, 40.0), totals(110.0, 60.0)));
        assert!(ranking.prefers(totals(110.0, 40.0), totals(120.0, 10.0)));
        assert!(ranking.prefers(totals(110.0, 70.0), totals(120.0, 60.0)));
        let by_time = Ranking { objective: Objective::Time, deadline: None, budget: None };
        assert!(by_time.prefers(totals(10.0, 40.0), totals(99.0, 30.0)));
    }
}
