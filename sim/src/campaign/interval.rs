//! The mean time of a campaign, and the checkpoint interval with which it is least.

use super::Campaign;
use trainyard_units::Seconds;

/// Mean time of a campaign from when its first step begins, to first order in what varies between courses.
///
/// Between interruptions after which work is lost the time is Daly's (2006, doi:10.1016/j.future.2004.11.016, section
/// 3; M mean time to interruption, R restart, τ training and δ writing of a segment), with waiting w, in which nothing
/// can fail, besides: (M + w) exp(R/M) (exp((τ+δ)/M) − 1) for each segment. Interruptions that are announced in time
/// lose no work: with their rate μ the time grows by (1 + μ (w + δ)) exp(μR).
pub fn expected_time(campaign: &Campaign) -> Seconds {
    let (steps, step) = (campaign.steps.mean, campaign.mean_step());
    // The last step is followed by a checkpoint, however long the interval.
    let between = campaign.steps_between_checkpoints().min(steps.max(1));
    let evaluation = campaign.evaluation.map_or(0.0, |evaluation| evaluation.time.0 / evaluation.every as f64);
    let restart = campaign.restart.software.0 + campaign.download.0 + campaign.checkpoint.read.0;
    let segment = |steps: u64| steps as f64 * (step + evaluation) + campaign.checkpoint.write.0;
    let time = |length: f64| {
        let losing = campaign.losing_rate();
        if losing == 0.0 {
            return length;
        }
        let wait = (campaign.failure_rate() * (campaign.restart.queue + campaign.restart.machines).0
            + (losing - campaign.failure_rate()) * campaign.hazards.wait.0)
            / losing;
        (1.0 / losing + wait) * (losing * restart).exp() * (losing * length).exp_m1()
    };
    let whole = (steps / between) as f64 * time(segment(between));
    let rest = steps % between;
    let last = if rest > 0 { time(segment(rest)) } else { 0.0 };
    let saving = campaign.saving_rate();
    let announced = 1.0 + saving * (campaign.hazards.wait.0 + campaign.checkpoint.write.0);
    Seconds((whole + last) * announced * (saving * restart).exp())
}

/// The checkpoint interval with which [`expected_time`] is least, at least a step and at most the training: see
/// [`open_interval`].
pub fn best_interval(campaign: &Campaign) -> Seconds {
    let step = campaign.mean_step();
    let training = campaign.steps.mean as f64 * step;
    let open = open_interval(campaign.losing_rate(), campaign.checkpoint.write);
    Seconds(open.map_or(training, |open| open.0.clamp(step.min(training), training)))
}

/// The same for a training without end whose steps take no time, if so many interruptions a second lose work and a
/// checkpoint takes `write`; nothing if none does. It is the τ at which the derivative of
/// (exp((τ+δ)/M) − 1) / τ vanishes, 1 − τ/M = exp(−(τ+δ)/M).
///
/// Young (1974, doi:10.1145/361147.361115) has √(2δM) for δ ≪ M.
pub fn open_interval(losing: f64, write: Seconds) -> Option<Seconds> {
    if losing == 0.0 {
        return None;
    }
    let write = write.0 * losing;
    // In units of M: falls from above zero at 0 to below zero at 1.
    let slope = |interval: f64| -(-(interval + write)).exp_m1() - interval;
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-12 * high {
        let middle = f64::midpoint(low, high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    Some(Seconds(low / losing))
}

/// The longest interval that is taken unless the user says another: an hour, or a hundred times as long as a checkpoint
/// takes. A stated default: machines are rarely interrupted, and [`best_interval`] of a few is many hours, but a training
/// also ends for causes that have no rate, and nobody wants to lose half a day to one.
pub fn longest_interval(write: Seconds) -> Seconds {
    Seconds((100.0 * write.0).max(3600.0))
}

/// Checkpoints that are written in the course of a training that nothing interrupts: one after each `interval`, counted
/// in whole steps, and one after the last step. No longer steps make it fewer.
pub fn checkpoints(steps: u64, step: Seconds, interval: Seconds) -> u64 {
    steps.div_ceil(steps_between(step, interval))
}

/// Steps from a checkpoint to the next, at least one.
pub(super) fn steps_between(step: Seconds, interval: Seconds) -> u64 {
    // Where neither takes any time, as on machines of endless speed, the quotient is no number, and `max` takes 1.
    (interval.0 / step.0).round().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::straggler::slowest;
    use crate::campaign::tests::calm;

    fn failing(mean_time: f64, write: f64) -> Campaign {
        let mut campaign = calm();
        campaign.hazards.failures_per_hour = 3600.0 / mean_time / f64::from(campaign.instances);
        campaign.checkpoint.write = Seconds(write);
        campaign.steps.mean = 10_000_000;
        campaign
    }

    /// Young 1974.
    fn young(mean_time: f64, write: f64) -> f64 {
        (2.0 * write * mean_time).sqrt()
    }

    /// Daly 2006, equation 37, for δ < 2M.
    fn daly(mean_time: f64, write: f64) -> f64 {
        let share = write / (2.0 * mean_time);
        young(mean_time, write) * (1.0 + share.sqrt() / 3.0 + share / 9.0) - write
    }

    #[test]
    fn there_is_a_step_between_checkpoints_whatever_takes_no_time() {
        for (interval, step, between) in [(0.0, 0.0, 1), (0.0, 2.0, 1), (9.0, 2.0, 5), (1.0, 0.0, u64::MAX)] {
            assert_eq!(steps_between(Seconds(step), Seconds(interval)), between, "{interval} {step}");
        }
        assert_eq!(checkpoints(10, Seconds(0.0), Seconds(0.0)), 10);
    }

    #[test]
    fn the_best_interval_is_that_of_young_and_daly_where_theirs_hold() {
        for (mean_time, write) in [(86_400.0, 10.0), (86_400.0, 120.0), (20_000.0, 60.0), (604_800.0, 5.0)] {
            let best = best_interval(&failing(mean_time, write)).0;
            assert!((best / daly(mean_time, write) - 1.0).abs() < 0.002, "{best} {}", daly(mean_time, write));
            assert!((best / young(mean_time, write) - 1.0).abs() < 0.05, "{best} {}", young(mean_time, write));
        }
    }

    #[test]
    fn no_other_interval_is_expected_to_be_faster() {
        let mut campaign = failing(5_000.0, 30.0);
        let best = best_interval(&campaign).0;
        let mut at = |interval: f64| {
            campaign.checkpoint.interval = Seconds(interval);
            expected_time(&campaign).0
        };
        let least = at(best);
        for factor in [0.5, 0.8, 0.9, 1.1, 1.25, 2.0] {
            assert!(at(best * factor) > least, "{factor}");
        }
    }

    #[test]
    fn what_loses_no_work_needs_no_checkpoint() {
        let mut campaign = calm();
        campaign.hazards.reclaims_per_hour = 1.0;
        assert_eq!(best_interval(&campaign), Seconds(10_000.0));
        campaign.checkpoint.write = Seconds(121.0);
        assert!(best_interval(&campaign).0 < 1_000.0);
    }

    #[test]
    fn an_interval_longer_than_the_training_is_the_training() {
        let mut campaign = failing(450.0, 10.0);
        campaign.steps.mean = 600;
        let at = |campaign: &Campaign, interval: f64| {
            let checkpoint = crate::campaign::Checkpoint { interval: Seconds(interval), ..campaign.checkpoint };
            expected_time(&Campaign { checkpoint, ..campaign.clone() })
        };
        assert_eq!(at(&campaign, 5.0 * 86_400.0), at(&campaign, 600.0));
        campaign.steps.mean = 599;
        assert_eq!(at(&campaign, 600.0), at(&campaign, 599.0));
    }

    #[test]
    fn stragglers_lengthen_steps_and_so_leave_fewer_of_them_between_checkpoints() {
        let mut campaign = failing(5_000.0, 30.0);
        campaign.instances = 64;
        campaign.checkpoint.interval = Seconds(600.0);
        campaign.step_time.straggler = 1.0;
        let mut slower = campaign.clone();
        slower.step_time.median = Seconds(slowest(64, 1.0).0);
        slower.step_time.straggler = 0.0;
        assert!(slower.step_time.median.0 > 5.0);
        assert_eq!(campaign.steps_between_checkpoints(), slower.steps_between_checkpoints());
        assert_eq!(expected_time(&campaign), expected_time(&slower));
        campaign.steps.mean = 1;
        slower.steps.mean = 1;
        assert_eq!(best_interval(&campaign), best_interval(&slower));
    }

    #[test]
    fn longer_steps_never_make_fewer_checkpoints() {
        let mut before = 0;
        for step in 1..2_000 {
            let written = checkpoints(1_000, Seconds(f64::from(step) / 10.0), Seconds(600.0));
            assert!(written >= before, "{step}");
            before = written;
        }
        assert_eq!((checkpoints(10_000, Seconds(1.0), Seconds(600.0)), before), (17, 334));
    }

    #[test]
    fn without_interruptions_the_time_is_a_sum() {
        let mut campaign = calm();
        // 16 full segments and one of 400 steps.
        assert_eq!(expected_time(&campaign), Seconds(10_000.0 + 17.0 * 10.0));
        campaign.checkpoint.interval = Seconds(1000.0);
        assert_eq!(expected_time(&campaign), Seconds(10_000.0 + 10.0 * 10.0));
    }
}
