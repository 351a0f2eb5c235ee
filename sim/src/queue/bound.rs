//! Lower bounds on any schedule.

use super::{Job, Queue};
use trainyard_units::{Instant, Seconds};

/// Lower bounds on the makespan, which every schedule of these jobs on this quota obeys.
///
/// For jobs that come at different times, each bound is the largest over all instants of what it says about the jobs
/// that come then or later, plus the time until then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The job that would end last if none waited.
    pub longest: Seconds,
    /// All work, spread over the quota evenly.
    pub work: Seconds,
    /// Jobs that need more than half of the quota: no two of them run at once.
    pub exclusive: Seconds,
}

impl Bound {
    /// The largest.
    pub fn largest(&self) -> Seconds {
        self.longest.max(self.work).max(self.exclusive)
    }
}

/// Lower bounds on the makespan of a queue, from the actual durations and the shortest start-up that the rules allow.
pub fn makespan_bound(queue: &Queue) -> Bound {
    let start = queue.shortest_start();
    let time = |job: &Job| (start + job.actual).seconds().0;
    let first = queue.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    let mut jobs: Vec<&Job> = queue.jobs.iter().collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.submit));
    let later = |submit: Instant| submit.since(first).seconds().0;
    let one_after_another = |time: &dyn Fn(&Job) -> f64| {
        let (mut sum, mut most) = (0.0, 0.0_f64);
        for job in &jobs {
            sum += time(job);
            most = most.max(later(job.submit) + sum);
        }
        Seconds(most)
    };
    Bound {
        longest: Seconds(jobs.iter().map(|job| later(job.submit) + time(job)).fold(0.0, f64::max)),
        work: one_after_another(&|job| time(job) * f64::from(job.instances) / f64::from(queue.quota)),
        exclusive: one_after_another(&|job| {
            if 2 * u64::from(job.instances) > u64::from(queue.quota) { time(job) } else { 0.0 }
        }),
    }
}
