//! Lower bounds on any schedule.

use super::{Job, Queue};
use crate::queue::MakespanBound;
use trainyard_units::Instant;

/// Returns lower bounds on the makespan, from the actual durations and the shortest start-up that the rules allow.
///
/// For jobs that come at different times, each bound is the largest over all instants of what it says about the jobs
/// that come then or later, plus the time until then.
pub(crate) fn makespan_bound(queue: &Queue) -> MakespanBound {
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
        most
    };
    MakespanBound {
        longest_s: jobs.iter().map(|job| later(job.submit) + time(job)).fold(0.0, f64::max),
        work_s: one_after_another(&|job| time(job) * f64::from(job.instances) / f64::from(queue.quota)),
        exclusive_s: one_after_another(&|job| {
            if 2 * u64::from(job.instances) > u64::from(queue.quota) { time(job) } else { 0.0 }
        }),
    }
}
