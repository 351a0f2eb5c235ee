//! Many independent jobs on one pool of instances: who runs when, on which instances, started cold or warm.
//!
//! Jobs are gangs: all instances of a job are taken at once, start together and are given back together. Whenever a job
//! comes or ends, the first jobs of the order get their instances as long as there are enough; with backfilling, later
//! ones may go before the first that does not fit, if by what is expected they do not delay it. Instances that are kept
//! warm take part of the quota, but never keep a job waiting: where one that does not match needs their place, they are
//! released, as whoever runs the queue can do at any time.

mod bound;
mod instances;
mod outcome;
mod scheduler;

pub(crate) use bound::makespan_bound;
pub(crate) use outcome::{Kept, QueueOutcome, State};
pub(crate) use scheduler::simulate_queue;

use crate::queue::QueueOrder;
use rand::SeedableRng;
use rand::distr::{Distribution, Uniform};
use rand_pcg::Pcg64;
use statrs::distribution::{ContinuousCDF, Normal};
use trainyard_units::{Instant, Seconds, Span};

/// The most by which a duration that is drawn differs from its mean, as a factor up or down.
pub(crate) const MOST_DEVIATION: f64 = 10.0;

/// Jobs, the instances that they share, and the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// The most instances that are held at once.
    pub(crate) quota: u32,
    /// From taking new instances to the first step.
    pub(crate) cold_start: Span,
    /// The part of it until the instances are there, which is not paid for.
    pub(crate) unpaid_start: Span,
    /// From taking instances that were kept to the first step.
    pub(crate) warm_start: Span,
    /// The pools of instances that are kept, if any.
    pub(crate) warm_pools: Option<WarmPools>,
    /// The rule that decides which waiting job is the first.
    pub(crate) order: QueueOrder,
    /// Set if later jobs may go before the first one where they do not delay it.
    pub(crate) backfill: bool,
    /// The jobs. Each needs at least one instance and at most the quota.
    pub(crate) jobs: Vec<Job>,
}

/// Instances that are kept for the next job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarmPools {
    /// For how long after a job.
    pub(crate) keep_alive: Span,
    /// Time after their cold start in which they may still be handed on.
    pub(crate) lifetime: Span,
    /// The most instances that are kept without a job.
    pub(crate) quota: u32,
}

/// A job of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// When it comes.
    pub(crate) submit: Instant,
    /// Instances that it needs.
    pub(crate) instances: u32,
    /// Expected time of training: the one that the scheduler knows.
    pub(crate) expected: Span,
    /// Time of training.
    pub(crate) actual: Span,
    /// Higher goes first where the order is by priority.
    pub(crate) priority: i32,
    /// The environment that must match for instances to be handed on: equal numbers match.
    pub(crate) environment: u32,
}

/// Factors of log-normal durations, one for each spread: of mean one, the spread being the standard deviation. Within
/// [`MOST_DEVIATION`] of one. Every job has a draw, so that the spread of one does not change another.
///
/// # Panics
///
/// When a spread is negative or not a number: it is checked where it is read.
pub(crate) fn duration_factors(spreads: impl IntoIterator<Item = f64>, seed: u64) -> Vec<f64> {
    let normal = Normal::standard();
    let uniform = Uniform::new(0.0, 1.0).expect("zero is less than one");
    let mut random = Pcg64::seed_from_u64(seed);
    let factor = |spread: f64| {
        let quantile = normal.inverse_cdf(uniform.sample(&mut random));
        assert!(spread >= 0.0, "a spread is not negative: {spread}");
        if spread == 0.0 {
            return 1.0;
        }
        let variance = spread.powi(2).ln_1p();
        (variance.sqrt() * quantile - variance / 2.0).exp().clamp(1.0 / MOST_DEVIATION, MOST_DEVIATION)
    };
    spreads.into_iter().map(factor).collect()
}

/// Runs a queue of which all jobs are known beforehand to its end: no instance is kept for nobody.
pub(crate) fn simulate_planned(queue: &Queue) -> QueueOutcome {
    simulate_queue(queue).without_unused()
}

impl Queue {
    /// The shortest start of any job.
    fn shortest_start(&self) -> Span {
        if self.warm_pools.is_some() { self.warm_start.min(self.cold_start) } else { self.cold_start }
    }
}

/// Instances times time, in instance-nanoseconds: sums of these do not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InstanceTime(u128);

impl InstanceTime {
    pub(crate) fn of(instances: u32, span: Span) -> Self {
        Self(u128::from(instances) * u128::from(span.nanoseconds()))
    }

    /// Instances times seconds.
    pub(crate) fn seconds(self) -> Seconds {
        Seconds(self.0 as f64 / 1e9)
    }
}

impl std::ops::Add for InstanceTime {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::iter::Sum for InstanceTime {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), std::ops::Add::add)
    }
}

#[cfg(test)]
mod tests;
