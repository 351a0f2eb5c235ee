//! How likely a schedule is to keep deadlines and budgets, and between which ends its time and cost are expected to lie.
//!
//! Predictions of jobs with the same software on the same machines are off alike, so all of them are taken to be off by the same
//! number of standard deviations at once. The schedule is run with the times that jobs take then: in the same order, by the same
//! policy, which knows the predicted times only.

use super::choose::{Chosen, Judge};
use super::schedule::{Again, AllMissed, Pools};
use statrs::distribution::{ContinuousCDF, Normal};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use trainyard_planner::{NORMAL_95, chance_of_deviations, interval_between};
use trainyard_units::{Invalid, Seconds};

/// Prices between the lowest and the highest over which a probability is averaged.
const PRICES: u32 = 16;

/// The same for the ends of the cost, and halvings of the range in which they are sought.
const FEWER_PRICES: u32 = 8;
const HALVINGS: u32 = 8;

/// Standard deviations beyond those at which a goal is still kept.
const A_LITTLE: f64 = 1e-3;

/// A chosen schedule, with how far the times of its jobs may be off.
pub(super) struct Doubt<'s, 'a> {
    pub(super) pools: &'s Pools<'a>,
    pub(super) judge: Judge,
    pub(super) chosen: &'s Chosen,
    /// What a job of a kind trains if its prediction is off by so many standard deviations.
    pub(super) time: &'s dyn Fn(usize, f64) -> Seconds,
}

/// What a schedule may take and cost.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Likely {
    /// The probability that all deadlines and budgets are kept; `None` where there are none.
    pub(super) within_goal: Option<f64>,
    /// What is missed first where jobs take longer than predicted.
    pub(super) first_missed: Option<AllMissed>,
    /// Ends of the time from the first submission to the last end, in seconds: 5 % lies below, and 5 % above.
    pub(super) makespan_s: [f64; 2],
    /// The same of the cost, in USD, whatever price of those that machines may have; `None` where nothing has a price.
    pub(super) cost_usd: Option<[f64; 2]>,
}

/// Schedules that were run, by the bits of the standard deviations that times are off.
type Known = RefCell<BTreeMap<u64, Rc<Vec<Again>>>>;

/// Averages a probability over so many prices between the lowest, 0, and the highest, 1.
fn average(prices: u32, chance: impl Fn(f64) -> f64) -> f64 {
    (0..prices).map(|number| chance((f64::from(number) + 0.5) / f64::from(prices))).sum::<f64>() / f64::from(prices)
}

impl Doubt<'_, '_> {
    pub(super) fn likely(&self) -> Result<Likely, Invalid> {
        let known = Known::default();
        let [low, high] = [self.run(&known, -NORMAL_95)?, self.run(&known, NORMAL_95)?];
        let ends = [self.pools.figures_again(&low, 0.0), self.pools.figures_again(&high, 1.0)];
        let within_goal = self.has_goal().then(|| self.within_goal(&known, &low));
        Ok(Likely {
            within_goal,
            first_missed: within_goal.and_then(|chance| self.first_missed(&known, chance)),
            makespan_s: ends.map(|own| own.end - self.judge.first),
            cost_usd: self.pools.are_priced().then(|| self.cost(&known, &low, ends.map(|own| own.cost))),
        })
    }

    /// Returns the ends of the cost, given those at the lowest price and the highest: both ends of price and time at once are less
    /// likely than either.
    fn cost(&self, known: &Known, any: &[Again], [least, most]: [f64; 2]) -> [f64; 2] {
        if !any.iter().any(Again::has_open_price) {
            return [least, most];
        }
        let within = |usd: f64| {
            let keeps = |deviations: f64, dear: f64| {
                self.run(known, deviations).is_ok_and(|all| self.pools.figures_again(&all, dear).cost <= usd)
            };
            average(FEWER_PRICES, |dear| chance_of_deviations(|deviations| keeps(deviations, dear)))
        };
        interval_between([least, most], HALVINGS, within)
    }

    fn has_goal(&self) -> bool {
        let goal = self.judge.goal;
        let of_each = self.pools.kinds.iter().any(|kind| kind.deadline.is_some() || kind.budget.is_some());
        goal.deadline.is_some() || goal.budget.is_some() || of_each
    }

    /// Returns the probability that the goal is kept, of all prices that machines may have. `any` is one of the schedules.
    fn within_goal(&self, known: &Known, any: &[Again]) -> f64 {
        let prices = if any.iter().any(Again::has_open_price) { PRICES } else { 1 };
        let keeps = |deviations: f64, dear: f64| {
            self.run(known, deviations)
                .is_ok_and(|all| self.judge.worth(&self.pools.figures_again(&all, dear)).excess <= 0.0)
        };
        average(prices, |dear| chance_of_deviations(|deviations| keeps(deviations, dear)))
    }

    /// Returns what is missed where times are off by a little more than they may be.
    fn first_missed(&self, known: &Known, within_goal: f64) -> Option<AllMissed> {
        let chance = Some(within_goal).filter(|chance| *chance > 0.0 && *chance < 1.0)?;
        let all = self.run(known, Normal::standard().inverse_cdf(chance) + A_LITTLE).ok()?;
        Some(self.pools.missed_again(self.judge, &all, 0.5))
    }

    /// Runs the schedule with times that are off by so many standard deviations.
    fn run(&self, known: &Known, deviations: f64) -> Result<Rc<Vec<Again>>, Invalid> {
        let key = deviations.to_bits();
        if let Some(all) = known.borrow().get(&key) {
            return Ok(all.clone());
        }
        let time = |kind: usize| (self.time)(kind, deviations);
        let all = Rc::new(self.pools.run_again(&self.chosen.schedule, &self.chosen.choice, &time)?);
        known.borrow_mut().insert(key, all.clone());
        Ok(all)
    }
}
