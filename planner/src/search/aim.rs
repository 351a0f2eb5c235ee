//! The plan that a search looks for: its objective, its limits, and the order in which a user prefers plans.

use super::complexity::Complexity;
use super::space::Candidate;
use super::totals::{Evaluated, Totals};
use crate::problem::Problem;
use trainyard_plan::Objective;
use trainyard_units::Seconds;

/// The limits of the job that a search respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Goal,
    Deadline,
    Budget,
    Anything,
}

/// The aim of a search: the objective and the limits.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    pub(crate) objective: Objective,
    /// Number of different clusters to rank.
    pub(crate) top: usize,
    pub(crate) max_simulations: Option<u64>,
    pub(crate) within: Within,
    /// A GPU that is left out.
    pub(crate) without_gpu: Option<&'static str>,
    /// `true` if plans on several machines are left out.
    pub(crate) on_one_machine: bool,
    /// Index of the only stack to consider, among those of the problem.
    pub(crate) stack: Option<usize>,
    /// Upper limits of plans, besides the deadline and the budget.
    pub(crate) ceilings: Ceilings,
    /// The share of the deadline and of the budget that plans leave over.
    pub(crate) left_over: f64,
    /// The complexity that plans must have; `None` admits any.
    pub(crate) complexity: Option<Complexity>,
    /// The only global batch to consider.
    pub(crate) global: Option<u64>,
    /// The only candidate to consider.
    pub(crate) only: Option<Candidate>,
}

impl Aim {
    /// Returns the aim of one plan with the lowest objective, without deadline and budget.
    pub(crate) fn best(objective: Objective) -> Self {
        Self {
            objective,
            top: 1,
            max_simulations: None,
            within: Within::Anything,
            without_gpu: None,
            on_one_machine: false,
            stack: None,
            ceilings: Ceilings::NONE,
            left_over: 0.0,
            complexity: None,
            global: None,
            only: None,
        }
    }
}

/// Upper limits of a training run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ceilings {
    /// [`Totals::elapsed_s`].
    elapsed_s: f64,
    /// [`Totals::worth_usd`].
    worth_usd: f64,
}

impl Ceilings {
    pub(crate) const NONE: Self = Self { elapsed_s: f64::INFINITY, worth_usd: f64::INFINITY };

    /// Limits the objective to `times` that of a training. Of its time only what lies beyond the scheduler's queue is
    /// multiplied: a day that all plans wait makes none of them as good as another.
    pub(crate) fn near(objective: Objective, totals: Totals, times: f64) -> Self {
        match objective {
            Objective::Cost => Self { worth_usd: totals.worth_usd * times, ..Self::NONE },
            Objective::Time => {
                let Totals { elapsed_s, queued_s, .. } = totals;
                Self { elapsed_s: queued_s + (elapsed_s - queued_s) * times, ..Self::NONE }
            }
        }
    }

    /// Limits the time of a training.
    pub(crate) fn within(elapsed_s: f64) -> Self {
        Self { elapsed_s, ..Self::NONE }
    }

    /// Limits what a training is worth to so much more than another.
    pub(crate) fn affordable(totals: Totals, more_usd: f64) -> Self {
        Self { worth_usd: totals.worth_usd + more_usd, ..Self::NONE }
    }

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { elapsed_s: self.elapsed_s.min(other.elapsed_s), worth_usd: self.worth_usd.min(other.worth_usd) }
    }

    /// Returns the limit of an objective's value.
    pub(crate) fn of(self, objective: Objective) -> f64 {
        match objective {
            Objective::Time => self.elapsed_s,
            Objective::Cost => self.worth_usd,
        }
    }

    pub(crate) fn admit(self, totals: Totals) -> bool {
        totals.elapsed_s <= self.elapsed_s && totals.worth_usd <= self.worth_usd
    }
}

impl Within {
    /// Returns the deadline and the budget, each if it counts.
    pub(crate) fn of(self, deadline: Option<Seconds>, budget: Option<f64>) -> (Option<Seconds>, Option<f64>) {
        let in_time = matches!(self, Self::Goal | Self::Deadline);
        (deadline.filter(|_| in_time), budget.filter(|_| matches!(self, Self::Goal | Self::Budget)))
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

    /// Returns the objective's value: seconds or USD.
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

/// Returns the objective that is not minimized.
pub(crate) fn other(objective: Objective) -> Objective {
    match objective {
        Objective::Cost => Objective::Time,
        Objective::Time => Objective::Cost,
    }
}

/// Returns the value of an objective: seconds or USD, of the whole training.
pub(crate) fn amount(objective: Objective, totals: Totals) -> f64 {
    match objective {
        Objective::Time => totals.elapsed_s,
        Objective::Cost => totals.worth_usd,
    }
}

#[cfg(test)]
mod tests {
    use super::super::totals::Surrounded;
    use super::*;

    #[test]
    fn a_wait_that_plans_share_is_not_part_of_what_they_are_compared_by() {
        let day = 86_400.0;
        let of = |trains: f64, waits: f64| {
            let surrounded = Surrounded { elapsed_s: waits + trains, queued_s: waits, cost_usd: None };
            Totals::new((1.0, trains), surrounded, 8)
        };
        let best = of(3_600.0, day);
        let near = Ceilings::near(Objective::Time, best, 1.05);
        assert!(near.admit(of(3_700.0, day)) && !near.admit(of(3_800.0, day)));
        // Who waits twice is later by the whole wait.
        assert!(!near.admit(of(3_600.0, 2.0 * day)));
        assert!((of(7_200.0, day).times_as_long_as(best) - 2.0).abs() < 1e-9);
        assert!(of(3_600.0, 2.0 * day).times_as_long_as(best) > 20.0);
        // Nobody holds GPUs in the queue.
        assert_eq!(best.worth_usd.to_bits(), of(3_600.0, 0.0).worth_usd.to_bits());
    }

    #[test]
    fn a_plan_that_meets_the_goal_goes_before_a_cheaper_one_that_does_not() {
        let ranking = Ranking { objective: Objective::Cost, deadline: Some(Seconds(100.0)), budget: Some(50.0) };
        let totals = |time_s, cost| {
            Totals::new((1.0, time_s), Surrounded { elapsed_s: time_s, queued_s: 0.0, cost_usd: Some(cost) }, 8)
        };
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
