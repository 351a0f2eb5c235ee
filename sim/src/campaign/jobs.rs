//! Trainings that a scheduler runs as a chain of jobs, because it ends each after some time.

use super::StartUp;
use trainyard_plan::{CHECKPOINT_MARGIN, longest_lead, signal_lead};
use trainyard_units::Seconds;

/// The jobs of a scheduler in which a training runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobLimit {
    /// The time from the start of one until the scheduler signals that its end is near.
    pub usable: Seconds,
    /// Before the first step of each job but the first.
    pub start: StartUp,
}

/// Jobs for each step of a training that does not get on in the time of one: so many that any that gets on is better.
const NO_PROGRESS: u64 = 100;

/// What a job of a chain does besides training, within its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobChain {
    /// The longest that one may run.
    pub longest: Seconds,
    /// Making machines ready.
    pub start: Seconds,
    /// Reading the checkpoint of the job before.
    pub read: Seconds,
    /// Writing the checkpoint with which it ends, after the scheduler's signal.
    pub write: Seconds,
}

impl JobChain {
    /// Returns the time from the start of a job until the scheduler signals it, if a step takes `step`.
    pub fn usable(&self, step: Seconds) -> Seconds {
        self.longest - Seconds(self.lead(step).0.min(longest_lead(self.longest).0))
    }

    fn lead(&self, step: Seconds) -> Seconds {
        signal_lead(step, Seconds(step.0 + CHECKPOINT_MARGIN * self.write.0))
    }

    /// Returns the least limit with which each job gets on, by a step that takes `step`.
    pub fn least(&self, step: Seconds) -> Seconds {
        let usable = self.start + self.read + step;
        // Of a short job the lead is at most half of it, in whole minutes.
        let half = Seconds(((usable.0 / 60.0).ceil() - 1.0) * 60.0);
        usable + Seconds(half.0.min(self.lead(step).0))
    }

    /// Counts the jobs of so many steps that take `step` each, with what lies between them. Where one cannot even do a step,
    /// they are a hundred for each step. The number does not fall as a step gets longer.
    pub fn jobs(&self, steps: u64, step: Seconds) -> u64 {
        if self.least(step) > self.longest {
            return steps.saturating_mul(NO_PROGRESS);
        }
        let usable = self.usable(step);
        let in_job = |besides: Seconds| ((usable.0 - besides.0) / step.0).floor().max(1.0) as u64;
        let (first, later) = (in_job(self.start), in_job(self.start + self.read));
        1 + steps.saturating_sub(first).div_ceil(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, step by step.
    fn walked(chain: &JobChain, steps: u64, step: f64) -> u64 {
        let usable = chain.usable(Seconds(step)).0;
        let (mut jobs, mut done) = (0, 0);
        while done < steps {
            let mut time = chain.start.0 + if jobs > 0 { chain.read.0 } else { 0.0 };
            jobs += 1;
            let before = done;
            while done < steps && time + step <= usable {
                time += step;
                done += 1;
            }
            assert!(done > before, "{chain:?}");
        }
        jobs
    }

    proptest! {
        // Times are multiples of a power of two, so that sums are exact in any order.
        #[test]
        fn jobs_are_those_of_a_walk(
            steps in 1_u64..400, step in 1_u32..40, start in 0_u32..40, read in 0_u32..20, write in 0_u32..20, more in 0_u32..400,
        ) {
            let quarter = |count: u32| Seconds(f64::from(count) / 4.0);
            let chain = JobChain { longest: Seconds(0.0), start: quarter(start), read: quarter(read), write: quarter(write) };
            let chain = JobChain { longest: chain.least(quarter(step)) + quarter(more), ..chain };
            prop_assert_eq!(chain.jobs(steps, quarter(step)), walked(&chain, steps, quarter(step).0));
            prop_assert!(chain.jobs(steps, quarter(step + 1)) >= chain.jobs(steps, quarter(step)));
            let shorter = JobChain { longest: Seconds(chain.least(quarter(step)).0 - 0.25), ..chain };
            prop_assert_eq!(shorter.jobs(steps, quarter(step)), NO_PROGRESS * steps);
        }
    }

    /// Of two hours the last eleven minutes are for a step of 20 s and a checkpoint; half a minute of start-up leaves 325 steps.
    #[test]
    fn a_job_trains_until_the_signal() {
        let [start, step] = [30.0, 20.0].map(Seconds);
        let chain = JobChain { longest: Seconds(7_200.0), start, read: Seconds(0.0), write: Seconds(10.0) };
        assert_eq!(chain.usable(step), Seconds(7_200.0 - 660.0));
        assert_eq!([325, 326, 650, 651].map(|steps| chain.jobs(steps, step)), [1, 2, 2, 3]);
        // A checkpoint that may take 15 minutes has so much time, and two minutes besides; a short job half of its time.
        let slow = JobChain { write: Seconds(600.0), ..chain };
        assert_eq!(slow.usable(step), Seconds(7_200.0 - 1_080.0));
        assert_eq!(JobChain { longest: Seconds(600.0), ..slow }.usable(step), Seconds(300.0));
    }
}
