//! Whole trainings: start-up, segments between checkpoints, interruptions, restarts, and what all of it costs.
//!
//! [`simulate_campaign`] draws a number of possible courses of a [`Campaign`]. A course jumps from interruption to
//! interruption: what lies between two of them follows from arithmetic, however many steps it has. Each course has its
//! own random numbers, so the result is the same on any number of threads; two campaigns drawn with the same seed share
//! the luck of step time, of the samples that they need and of the price, so that their difference is not noise.

mod course;
mod interval;
mod jobs;
mod losses;
mod random;
mod split;
mod straggler;
mod stretch;

pub use course::{RunPhases, SimulatedRun, simulate_campaign};
pub use interval::{best_interval, checkpoints, expected_time, longest_interval, open_interval};
pub use jobs::{JobChain, JobLimit};
pub use losses::{Exposure, Losses};
pub use split::SplitLognormal;

use straggler::slowest;
use trainyard_units::{Seconds, Usd};

/// Hours of an average month, for which reclaimed shares of capacity and prices of storage are published.
pub const MONTH_HOURS: f64 = 730.0;

/// A whole training, in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    /// Machines that train together.
    pub instances: u32,
    /// Steps to train.
    pub steps: Steps,
    pub step_time: StepTime,
    /// Before the first step.
    pub start: StartUp,
    /// After an interruption, when the machine that was lost has been replaced.
    pub restart: StartUp,
    /// Copying the data set to the machines, whenever one of them is new.
    pub download: Seconds,
    /// Saving progress.
    pub checkpoint: Checkpoint,
    /// Testing the model on held-out samples.
    pub evaluation: Option<Evaluation>,
    /// Events that end a machine.
    pub hazards: Hazards,
    /// The scheduler's limit of one job, if it has one.
    pub jobs: Option<JobLimit>,
    /// Its prices; none on machines that are not rented.
    pub price: Option<CampaignPrice>,
}

/// Optimizer steps of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Mean over seeds.
    pub mean: u64,
    /// Standard deviation over the mean; zero where the number of steps is a decision.
    pub spread: f64,
}

/// The time of an optimizer step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// As simulated.
    pub median: Seconds,
    /// How far the prediction may be off, in all steps alike.
    pub spread: SplitLognormal,
    /// Standard deviation of the logarithm of one machine's time for one step, in each step anew.
    pub straggler: f64,
}

/// Times of what happens before a step, one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartUp {
    /// Median time in a scheduler's queue, where a job holds no machine.
    pub queue: Seconds,
    /// Median time from there until the machines are there.
    pub machines: Seconds,
    /// Median time from there until training can begin: image and framework.
    pub software: Seconds,
    /// Standard deviation of the logarithm: one of the wait for machines, queue included, and one of the software.
    pub spread: f64,
}

/// Saving progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checkpoint {
    /// Writing one, during which training stands still.
    pub write: Seconds,
    /// Reading one after a restart.
    pub read: Seconds,
    /// Training time from one to the next.
    pub interval: Seconds,
}

/// Testing the model on held-out samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Steps from one to the next.
    pub every: u64,
    pub time: Seconds,
}

/// Events that end a machine: both are Poisson processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hazards {
    /// Reclaims of one machine in an hour.
    pub reclaims_per_hour: f64,
    /// Time from the announcement of a reclaim to the reclaim.
    pub notice: Seconds,
    /// Median time until a reclaimed machine is replaced.
    pub wait: Seconds,
    /// Failures of one machine in an hour.
    pub failures_per_hour: f64,
}

/// Prices of a campaign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CampaignPrice {
    /// Least and most that one machine may cost for an hour.
    pub instance_hour: [Usd; 2],
    /// Everything that is stored, for an hour.
    pub storage_hour: Usd,
    /// `true` if machines are paid for by capacity blocks instead of the time for which they are held.
    pub by_block: bool,
}

/// Reclaims of one machine in an hour, −ln(1 − p) / 730, if in a month a share p of the capacity is reclaimed.
///
/// The published share is one of capacity, not the chance of an instance, and of all regions and sizes of job alike: an
/// optimistic floor.
///
/// # Panics
///
/// When the share is not from 0 to below 1: it is checked where it is read.
pub fn reclaims_per_hour(monthly_share: f64) -> f64 {
    assert!((0.0..1.0).contains(&monthly_share), "a share of {monthly_share}");
    -(-monthly_share).ln_1p() / MONTH_HOURS
}

impl StartUp {
    /// Returns the median time of all of it.
    pub fn total(&self) -> Seconds {
        self.queue + self.machines + self.software
    }
}

impl Hazards {
    /// Tells whether a checkpoint that takes `write` can still be written when a reclaim is announced.
    fn leave_time_for(&self, write: Seconds) -> bool {
        write <= self.notice
    }

    /// Reclaims of any of so many machines in a second.
    fn reclaim_rate(&self, instances: u32) -> f64 {
        self.reclaims_per_hour * f64::from(instances) / 3600.0
    }

    /// Failures of any of so many machines in a second.
    fn failure_rate(&self, instances: u32) -> f64 {
        self.failures_per_hour * f64::from(instances) / 3600.0
    }

    /// Interruptions of any of so many machines in a second after which work is done again, if a checkpoint takes
    /// `write`.
    pub fn losing_rate(&self, instances: u32, write: Seconds) -> f64 {
        self.failure_rate(instances) + if self.leave_time_for(write) { 0.0 } else { self.reclaim_rate(instances) }
    }
}

impl Campaign {
    /// Mean seconds of a step, which waits for the slowest machine.
    fn mean_step(&self) -> f64 {
        self.step_time.median.0 * slowest(self.instances, self.step_time.straggler).0
    }

    /// Steps from a checkpoint to the next, at least one.
    fn steps_between_checkpoints(&self) -> u64 {
        interval::steps_between(Seconds(self.mean_step()), self.checkpoint.interval)
    }

    /// Tells whether work up to the announcement of a reclaim can still be saved.
    fn saves_on_notice(&self) -> bool {
        self.hazards.leave_time_for(self.checkpoint.write)
    }

    /// Reclaims of any machine in a second.
    fn reclaim_rate(&self) -> f64 {
        self.hazards.reclaim_rate(self.instances)
    }

    /// Failures of any machine in a second.
    fn failure_rate(&self) -> f64 {
        self.hazards.failure_rate(self.instances)
    }

    /// Interruptions in a second after which work is done again.
    fn losing_rate(&self) -> f64 {
        self.hazards.losing_rate(self.instances, self.checkpoint.write)
    }

    /// Interruptions in a second before which progress is saved.
    fn saving_rate(&self) -> f64 {
        if self.saves_on_notice() { self.reclaim_rate() } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A training of 10 000 seconds on 8 machines that nothing disturbs.
    pub(super) fn calm() -> Campaign {
        let at_once = StartUp { queue: Seconds(0.0), machines: Seconds(0.0), software: Seconds(0.0), spread: 0.0 };
        Campaign {
            instances: 8,
            steps: Steps { mean: 10_000, spread: 0.0 },
            step_time: StepTime { median: Seconds(1.0), spread: SplitLognormal::default(), straggler: 0.0 },
            start: StartUp { machines: Seconds(100.0), software: Seconds(50.0), ..at_once },
            restart: at_once,
            download: Seconds(0.0),
            checkpoint: Checkpoint { write: Seconds(10.0), read: Seconds(0.0), interval: Seconds(600.0) },
            evaluation: None,
            hazards: Hazards {
                reclaims_per_hour: 0.0,
                notice: Seconds(120.0),
                wait: Seconds(0.0),
                failures_per_hour: 0.0,
            },
            jobs: None,
            price: None,
        }
    }

    #[test]
    fn bands_become_the_rates_that_leave_their_share() {
        for share in [0.05, 0.1, 0.15, 0.2] {
            let left = (-reclaims_per_hour(share) * MONTH_HOURS).exp();
            assert!((left - (1.0 - share)).abs() < 1e-12, "{share}");
        }
        assert!((reclaims_per_hour(0.05) - 7.03e-5).abs() < 1e-7);
        assert!(reclaims_per_hour(0.0).abs() < 1e-12);
    }
}
