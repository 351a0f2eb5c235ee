//! Trainings that a scheduler runs as a chain of jobs, because it ends each after some time.

use super::StartUp;
use trainyard_units::Seconds;

/// The longest that one job of a scheduler may run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobLimit {
    pub longest: Seconds,
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
    /// Writing the checkpoint with which it ends.
    pub write: Seconds,
}

impl JobChain {
    /// Returns the least limit with which each job gets on, by a step that takes `step`.
    pub fn least(&self, step: Seconds) -> Seconds {
        self.start + self.read + self.write + step
    }

    /// Counts the jobs of so many steps that take `step` each, with what lies between them. Where one cannot even do a step,
    /// they are a hundred for each step. The number does not fall as a step gets longer.
    pub fn jobs(&self, steps: u64, step: Seconds) -> u64 {
        if self.least(step) > self.longest {
            return steps.saturating_mul(NO_PROGRESS);
        }
        let in_job = |besides: Seconds| ((self.longest.0 - besides.0) / step.0).floor().max(1.0) as u64;
        let first = in_job(self.start + self.write);
        let later = in_job(self.start + self.read + self.write);
        1 + steps.saturating_sub(first).div_ceil(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, step by step.
    fn walked(chain: &JobChain, steps: u64, step: f64) -> u64 {
        let (mut jobs, mut done) = (0, 0);
        while done < steps {
            let mut time = chain.start.0 + if jobs > 0 { chain.read.0 } else { 0.0 };
            jobs += 1;
            let before = done;
            while done < steps && time + step + chain.write.0 <= chain.longest.0 {
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
        }
    }
}
