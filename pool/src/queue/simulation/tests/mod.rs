//! Hand-computed schedules, theorems of list scheduling, and a slow obvious twin.

mod twin;

use super::*;
use crate::queue::WarmEnd;
use proptest::prelude::*;

pub(super) fn seconds(count: u64) -> Span {
    Span::from_nanoseconds(count * 1_000_000_000)
}

pub(super) fn at(count: u64) -> Instant {
    Instant::START.after_span(seconds(count))
}

/// A job of this many instances and seconds that is there from the start.
fn job(instances: u32, duration: u64) -> Job {
    let duration = seconds(duration);
    Job { submit: at(0), instances, expected: duration, actual: duration, priority: 0, environment: 0 }
}

/// A queue whose jobs start in no time.
fn queue(quota: u32, jobs: Vec<Job>) -> Queue {
    Queue {
        quota,
        cold_start: Span::ZERO,
        unpaid_start: Span::ZERO,
        warm_start: Span::ZERO,
        warm_pools: None,
        order: QueueOrder::Fifo,
        backfill: false,
        jobs,
    }
}

/// Start and end of each job in seconds.
fn times(queue: &Queue) -> Vec<(u64, u64)> {
    let whole = |instant: Instant| instant.nanoseconds() / 1_000_000_000;
    simulate_queue(queue).runs.iter().map(|run| (whole(run.start), whole(run.end))).collect()
}

fn makespan(queue: &Queue) -> Span {
    simulate_queue(queue).makespan(queue)
}

#[test]
fn list_scheduling_goes_as_in_the_textbook() {
    // Graham 1969, figure for m = 3: durations 2m−1, 2m−1, …, m, m, m in the longest-first order end at 4m − 1 = 11,
    // while 3m = 9 is possible.
    let durations = [5, 5, 4, 4, 3, 3, 3];
    let mut jobs = queue(3, durations.iter().map(|duration| job(1, *duration)).collect());
    jobs.order = QueueOrder::LongestFirst;
    assert_eq!(makespan(&jobs), seconds(11));
    assert!(makespan_bound(&jobs).largest_s().total_cmp(&9.0).is_eq());
}

#[test]
fn the_order_decides_who_goes_first() {
    let jobs = [(5, 0), (1, 0), (3, 2)].map(|(duration, priority)| Job { priority, ..job(1, duration) });
    let starts = |order| {
        let queue = Queue { order, ..queue(1, jobs.to_vec()) };
        times(&queue).iter().map(|(start, _)| *start).collect::<Vec<_>>()
    };
    assert_eq!(starts(QueueOrder::Fifo), [0, 5, 6]);
    assert_eq!(starts(QueueOrder::ShortestFirst), [4, 0, 1]);
    assert_eq!(starts(QueueOrder::LongestFirst), [0, 8, 5]);
    assert_eq!(starts(QueueOrder::Priority), [3, 8, 0]);
}

#[test]
fn backfilling_fills_the_gap_before_a_wide_job_and_does_not_delay_it() {
    // The second job waits for all four instances until 10. The third ends by then, the fourth would not.
    let mut jobs = queue(4, vec![job(3, 10), job(4, 5), job(1, 10), job(1, 11)]);
    assert_eq!(times(&jobs), [(0, 10), (10, 15), (15, 25), (15, 26)]);
    jobs.backfill = true;
    assert_eq!(times(&jobs), [(0, 10), (10, 15), (0, 10), (15, 26)]);
}

#[test]
fn a_long_job_is_backfilled_on_instances_that_the_first_one_does_not_need() {
    let mut jobs = queue(4, vec![job(3, 10), job(3, 5), job(1, 100)]);
    jobs.backfill = true;
    assert_eq!(times(&jobs), [(0, 10), (10, 15), (0, 100)]);
}

#[test]
fn instances_are_handed_on_only_to_jobs_that_match_and_in_time() {
    let warm = |second: Job, keep_alive| {
        let jobs = vec![job(2, 10), second];
        let pools = WarmPools { keep_alive: seconds(keep_alive), lifetime: seconds(1000), quota: 4 };
        let queue = Queue { cold_start: seconds(4), warm_start: seconds(1), warm_pools: Some(pools), ..queue(4, jobs) };
        let outcome = simulate_queue(&queue);
        (outcome.runs[1].warm, outcome.kept[0].ended)
    };
    let later = Job { submit: at(20), ..job(2, 10) };
    assert_eq!(warm(later, 7), (true, WarmEnd::Reused));
    assert_eq!(warm(later, 6), (false, WarmEnd::Expired));
    assert_eq!(warm(Job { environment: 1, ..later }, 60), (false, WarmEnd::Expired));
    assert_eq!(warm(Job { instances: 1, ..later }, 60), (false, WarmEnd::Expired));
    assert_eq!(warm(Job { instances: 3, ..later }, 60), (false, WarmEnd::Released));
}

#[test]
fn warm_pools_end_with_their_lifetime_and_their_quota() {
    let queue = |lifetime, quota| Queue {
        cold_start: seconds(4),
        warm_start: seconds(1),
        warm_pools: Some(WarmPools { keep_alive: seconds(60), lifetime: seconds(lifetime), quota }),
        ..queue(1, vec![job(1, 10), job(1, 10), job(1, 10)])
    };
    let warm =
        |lifetime, quota| simulate_queue(&queue(lifetime, quota)).runs.iter().map(|run| run.warm).collect::<Vec<_>>();
    assert_eq!(warm(1000, 1), [false, true, true]);
    // The first job ends after 14 seconds, the second after 25: then its instance is too old.
    assert_eq!(warm(25, 1), [false, true, false]);
    assert_eq!(warm(1000, 0), [false, false, false]);
}

#[test]
fn bounds_count_late_and_wide_jobs() {
    let late = Job { submit: at(100), ..job(1, 7) };
    let bound = makespan_bound(&queue(4, vec![job(3, 10), job(3, 20), late]));
    assert_eq!((bound.longest_s, bound.exclusive_s, bound.work_s), (107.0, 100.0, 101.75));
    let bound = makespan_bound(&queue(4, vec![job(3, 10), job(3, 20), job(2, 25)]));
    assert_eq!((bound.longest_s, bound.exclusive_s, bound.work_s), (25.0, 30.0, 35.0));
}

#[test]
fn begun_seconds_are_billed_in_full() {
    let half = Job { actual: Span::from_nanoseconds(1_500_000_000), ..job(3, 1) };
    let outcome = simulate_queue(&queue(3, vec![half]));
    assert_eq!((outcome.billed_jobs(), outcome.billed_warm()), (Seconds(6.0), Seconds(0.0)));
}

#[test]
fn waiting_for_new_instances_is_not_billed() {
    let pools = WarmPools { keep_alive: seconds(60), lifetime: seconds(1000), quota: 2 };
    let starts = Queue { cold_start: seconds(5), unpaid_start: seconds(3), ..queue(2, vec![job(2, 10), job(2, 10)]) };
    // Two seconds of either start are paid.
    assert_eq!(simulate_queue(&starts).billed_jobs(), Seconds(48.0));
    let kept = Queue { warm_start: seconds(1), warm_pools: Some(pools), ..starts };
    // The second start is a warm one, of which all is paid.
    assert_eq!(simulate_queue(&kept).billed_jobs(), Seconds(46.0));
}

#[test]
fn factors_have_mean_one_and_the_spread_and_follow_the_seed() {
    let draw = |seed| duration_factors([0.3].repeat(20_000), seed);
    let all = draw(1);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let deviation = (all.iter().map(|factor| (factor - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
    assert!((mean - 1.0).abs() < 0.01 && (deviation / 0.3 - 1.0).abs() < 0.03, "{mean} {deviation}");
    assert_eq!(all, draw(1));
    assert_ne!(all, draw(2));
    let second = |first: f64| duration_factors([first, 0.3], 1)[1].to_bits();
    assert_eq!(second(0.0), second(0.5));
}

/// Jobs of up to `quota` instances; those of `equal` durations are as long as expected.
fn jobs(quota: u32, exact: bool) -> impl Strategy<Value = Vec<Job>> {
    let one = (0u64..10, 1..=quota, 1u64..8, 1u64..8, -1i32..2, 0u32..2).prop_map(move |fields| {
        let (submit, instances, expected, actual, priority, environment) = fields;
        let actual = seconds(if exact { expected } else { actual });
        Job { submit: at(submit), instances, expected: seconds(expected), actual, priority, environment }
    });
    prop::collection::vec(one, 1..14)
}

pub(super) fn queues() -> impl Strategy<Value = Queue> {
    let rules = (1u32..6, 0u64..5, 0u64..5, any::<bool>(), prop::sample::select(QueueOrder::ALL), any::<bool>());
    let pools = (1u64..9, 3u64..40, 0u32..6);
    (rules, pools, any::<bool>()).prop_flat_map(|((quota, cold, faster, keeps, order, backfill), pools, exact)| {
        let (keep_alive, lifetime, warm_quota) = pools;
        let warm_pools = WarmPools { keep_alive: seconds(keep_alive), lifetime: seconds(lifetime), quota: warm_quota };
        jobs(quota, exact).prop_map(move |jobs| Queue {
            quota,
            cold_start: seconds(cold),
            unpaid_start: seconds(cold / 2),
            warm_start: seconds(cold.saturating_sub(faster)),
            warm_pools: keeps.then_some(warm_pools),
            order,
            backfill,
            jobs,
        })
    })
}

proptest! {
    #[test]
    fn a_slow_obvious_twin_schedules_the_same(queue in queues()) {
        let outcome = simulate_queue(&queue);
        let twin = twin::simulate(&queue);
        prop_assert_eq!(&outcome.runs, &twin.runs);
        prop_assert_eq!(&outcome.kept, &twin.kept);
    }

    #[test]
    fn what_instances_do_adds_up_to_what_is_held_and_stays_within_the_quota(queue in queues()) {
        for outcome in [simulate_queue(&queue), simulate_planned(&queue)] {
            let held = |state: &State| state.starting + state.busy + state.idle;
            let integral: InstanceTime = outcome
                .states
                .windows(2)
                .map(|pair| InstanceTime::of(held(&pair[0]), pair[1].at.since(pair[0].at)))
                .sum();
            prop_assert_eq!(integral, outcome.usage().held());
            let last = outcome.states.last().expect("a queue with jobs has states");
            prop_assert_eq!((held(last), last.waiting), (0, 0));
            prop_assert!(outcome.states.iter().all(|state| held(state) <= queue.quota));
            prop_assert!(
                queue.warm_pools.is_none_or(|pools| outcome.states.iter().all(|state| state.idle <= pools.quota))
            );
        }
    }

    /// The obvious way: at every instant those are idle that a later job takes over.
    #[test]
    fn a_planned_queue_runs_the_same_jobs_and_keeps_instances_for_somebody_only(queue in queues()) {
        let (usual, planned) = (simulate_queue(&queue), simulate_planned(&queue));
        prop_assert_eq!(&usual.runs, &planned.runs);
        let reused: Vec<Kept> = usual.kept.into_iter().filter(|kept| kept.ended == WarmEnd::Reused).collect();
        for state in &planned.states {
            let idle = reused.iter().filter(|kept| kept.since <= state.at && state.at < kept.until);
            prop_assert_eq!(state.idle, idle.map(|kept| kept.places.len() as u32).sum::<u32>(), "{:?}", state);
        }
        let is_new = |pair: &[State]| State { at: pair[0].at, ..pair[1] } != pair[0];
        prop_assert!(planned.states.windows(2).all(is_new));
        prop_assert_eq!(reused, planned.kept);
    }

    #[test]
    fn no_schedule_beats_the_bounds(queue in queues()) {
        prop_assert!(makespan(&queue).seconds().0 >= makespan_bound(&queue).largest_s() - 1e-9);
    }

    #[test]
    fn list_scheduling_is_within_two_of_the_bounds(
        durations in prop::collection::vec(1u64..50, 1..40),
        quota in 1u32..9,
        order in prop::sample::select(QueueOrder::ALL),
    ) {
        // Graham 1966: (2 − 1/m) times the best, whatever the order.
        let queue = Queue { order, ..queue(quota, durations.iter().map(|duration| job(1, *duration)).collect()) };
        let worst = (2.0 - 1.0 / f64::from(quota)) * makespan_bound(&queue).largest_s();
        prop_assert!(makespan(&queue).seconds().0 <= worst + 1e-9);
    }

    #[test]
    fn warm_pools_make_no_queue_of_equal_gangs_longer(queue in queues(), gang in 1u32..6, pools in any::<bool>()) {
        let jobs = queue.jobs.iter().map(|job| Job { instances: gang.min(queue.quota), ..*job }).collect();
        let without = Queue { jobs, order: QueueOrder::Fifo, warm_pools: None, ..queue.clone() };
        let everything = WarmPools { keep_alive: seconds(100), lifetime: seconds(1000), quota: queue.quota };
        let pools = if pools { queue.warm_pools } else { Some(everything) };
        let with = Queue { warm_pools: pools, ..without.clone() };
        prop_assert!(makespan(&with) <= makespan(&without));
    }

    #[test]
    fn backfilling_keeps_the_start_that_a_waiting_job_was_promised(jobs in jobs(4, true)) {
        // With exact expectations the job that comes first keeps the start that it has without backfilling as long as
        // nothing but it and what runs was there when it came.
        let (first, rest) = jobs.split_first().expect("at least one job");
        let runs = Job { submit: at(0), ..*first };
        let wide = Job { submit: at(0), instances: 4, ..*first };
        let later = rest.iter().map(|job| Job { submit: at(1 + job.submit.nanoseconds() / 1_000_000_000), ..*job });
        let queue = Queue { backfill: true, ..queue(4, [runs, wide].into_iter().chain(later).collect()) };
        prop_assert_eq!(simulate_queue(&queue).runs[1].start, at(0).after_span(runs.actual));
    }
}
