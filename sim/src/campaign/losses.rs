//! Mean time that reclaims of spot machines and failures of any add to a training, in closed form.

use super::Hazards;
use trainyard_units::Seconds;

/// The largest power of e that is taken: a training that is interrupted more often does not get on, and no plan with
/// one is ever recommended; the result stays a number.
const MOST: f64 = 200.0;

/// Machines that are exposed to reclaims and failures, the training apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// Machines that train together: when one is lost, all stop.
    pub instances: u32,
    /// Events that end a machine.
    pub hazards: Hazards,
    /// Making a replaced machine ready, copying the data set to it and reading a checkpoint.
    pub restart: Seconds,
    /// Time in a scheduler's queue after a failure, where the job holds no machine.
    pub queue: Seconds,
    /// Time besides until a failure is noticed and the machine replaced.
    pub replacing: Seconds,
    /// Writing a checkpoint.
    pub write: Seconds,
    /// Training time from one checkpoint to the next; nothing if only the last step is followed by one.
    pub interval: Option<Seconds>,
}

/// Expected values of what machines that are lost add to a training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Machines that are lost.
    pub expected: f64,
    /// In a scheduler's queue; no machine is paid for.
    pub queued: Seconds,
    /// Until lost machines are replaced, the queue apart; the others are paid for.
    pub waiting: Seconds,
    /// Making replaced machines ready and reading checkpoints.
    pub restarts: Seconds,
    /// Work that is done again.
    pub lost: Seconds,
    /// Writing checkpoints when a reclaim is announced.
    pub saving: Seconds,
}

impl Losses {
    /// All that is added.
    pub fn total(&self) -> Seconds {
        self.queued + self.waiting + self.restarts + self.lost + self.saving
    }
}

fn power(exponent: f64) -> f64 {
    exponent.min(MOST).exp_m1()
}

impl Exposure {
    /// Returns what reclaims add to `training`, whose steps take `step` each and in which nothing else goes wrong. It
    /// grows with the time of a step.
    ///
    /// With λ reclaims a second of any machine, a restart R and a time L of training and checkpoints, λL reclaims meet
    /// the training if each saves what is done; each is followed by exp(λR) − 1 more that meet a restart. Where a
    /// checkpoint takes longer than the notice, work is lost as in [`Self::failures`].
    pub fn reclaims(&self, training: Seconds, step: Seconds) -> Losses {
        let rate = self.hazards.reclaim_rate(self.instances);
        if !self.hazards.leave_time_for(self.write) {
            return self.unannounced(rate, self.hazards.wait, training, step);
        }
        if rate == 0.0 || training.0 <= 0.0 {
            return Losses::default();
        }
        let (segments, length) = self.segments(training, step);
        let met = rate * segments * length;
        Losses {
            // On average half of the step in which it is announced.
            lost: Seconds(met * step.0.min(training.0) / 2.0),
            saving: Seconds(met * self.write.0),
            ..self.met(met, rate, self.hazards.wait)
        }
    }

    /// Returns what failures of machines add to `training`, as [`Self::reclaims`] does: the time τ + δ from one checkpoint to
    /// the next is done again until it passes without a failure, (exp(λ(τ+δ)) − 1) / λ on average (Daly 2006,
    /// doi:10.1016/j.future.2004.11.016, section 3). While a machine is replaced, nothing can fail.
    pub fn failures(&self, training: Seconds, step: Seconds) -> Losses {
        let rate = self.hazards.failure_rate(self.instances);
        let losses = self.unannounced(rate, self.replacing, training, step);
        Losses { queued: Seconds(losses.expected * self.queue.0), ..losses }
    }

    fn unannounced(&self, rate: f64, replacing: Seconds, training: Seconds, step: Seconds) -> Losses {
        if rate == 0.0 || training.0 <= 0.0 {
            return Losses::default();
        }
        let (segments, length) = self.segments(training, step);
        let met = segments * power(rate * length);
        let lost = met / rate - segments * length;
        Losses { lost: Seconds(lost.max(0.0)), ..self.met(met, rate, replacing) }
    }

    /// Returns the number of segments, each of which ends in a checkpoint, and the seconds of one.
    fn segments(&self, training: Seconds, step: Seconds) -> (f64, f64) {
        let longest = training.0.max(step.0);
        let between = self.interval.map_or(longest, |interval| interval.0.max(step.0).min(longest));
        (training.0 / between, between + self.write.0)
    }

    /// Returns what so many losses that meet the training lead to, those that meet restarts among them.
    fn met(&self, met: f64, rate: f64, replacing: Seconds) -> Losses {
        let again = power(rate * self.restart.0);
        let expected = met * (1.0 + again);
        Losses {
            expected,
            waiting: Seconds(expected * replacing.0),
            restarts: Seconds(met * again / rate),
            ..Losses::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::calm;
    use crate::campaign::{Campaign, SimulatedRun, StartUp, best_interval, simulate_campaign};
    use proptest::prelude::*;

    /// Reclaims of any machine every so many seconds, of a training of 100 000 steps of two seconds.
    fn reclaimed(mean_time: f64, write: f64) -> Campaign {
        let mut campaign = calm();
        campaign.steps.mean = 100_000;
        campaign.step_time.median = Seconds(2.0);
        campaign.restart.software = Seconds(200.0);
        campaign.checkpoint.write = Seconds(write);
        campaign.checkpoint.read = Seconds(write);
        campaign.download = Seconds(30.0);
        campaign.hazards.wait = Seconds(300.0);
        campaign.hazards.reclaims_per_hour = 3600.0 / mean_time / f64::from(campaign.instances);
        campaign.checkpoint.interval = best_interval(&campaign);
        campaign
    }

    fn exposure(campaign: &Campaign) -> Exposure {
        let restart = campaign.restart.software + campaign.download + campaign.checkpoint.read;
        let (hazards, write) = (campaign.hazards, campaign.checkpoint.write);
        let interval = Some(campaign.checkpoint.interval);
        let StartUp { queue, machines: replacing, .. } = campaign.restart;
        Exposure { instances: campaign.instances, hazards, restart, queue, replacing, write, interval }
    }

    fn of(campaign: &Campaign) -> Losses {
        exposure(campaign).reclaims(training(campaign), campaign.step_time.median)
    }

    fn training(campaign: &Campaign) -> Seconds {
        Seconds(campaign.steps.mean as f64 * campaign.step_time.median.0)
    }

    /// Draws courses of a campaign; returns the mean number of machines that are lost, and by how much courses are longer
    /// than where none is.
    fn drawn(campaign: &Campaign) -> (f64, f64) {
        let calm = Hazards { reclaims_per_hour: 0.0, failures_per_hour: 0.0, ..campaign.hazards };
        let calm = Campaign { hazards: calm, ..campaign.clone() };
        let undisturbed = simulate_campaign(&calm, 1, 3).expect("it gets on")[0].time().0;
        let courses = simulate_campaign(campaign, 2_000, 3).expect("it gets on");
        let mean = |value: &dyn Fn(&SimulatedRun) -> f64| courses.iter().map(value).sum::<f64>() / courses.len() as f64;
        let lost = mean(&|course| (course.reclaims + course.failures) as f64);
        (lost, mean(&|course| course.time().0) - undisturbed)
    }

    fn assert_near(expected: Losses, (lost, added): (f64, f64), tolerance: f64) {
        assert!((expected.expected / lost - 1.0).abs() < tolerance, "{expected:?} {lost}");
        assert!((expected.total().0 / added - 1.0).abs() < tolerance + 0.01, "{expected:?} {added}");
    }

    #[test]
    fn drawn_campaigns_are_interrupted_as_often_and_as_long() {
        for (mean_time, write) in [(20_000.0, 10.0), (5_000.0, 60.0), (20_000.0, 200.0), (4_000.0, 150.0)] {
            let campaign = reclaimed(mean_time, write);
            assert_near(of(&campaign), drawn(&campaign), 0.02);
        }
    }

    #[test]
    fn drawn_campaigns_fail_as_often_and_as_long() {
        for (mean_time, write) in [(20_000.0, 10.0), (5_000.0, 60.0), (8_000.0, 200.0)] {
            let mut campaign = reclaimed(mean_time, write);
            let often = campaign.hazards.reclaims_per_hour;
            campaign.hazards = Hazards { reclaims_per_hour: 0.0, failures_per_hour: often, ..campaign.hazards };
            campaign.restart.machines = Seconds(700.0);
            campaign.checkpoint.interval = best_interval(&campaign);
            let failures =
                |campaign: &Campaign| exposure(campaign).failures(training(campaign), campaign.step_time.median);
            let expected = failures(&campaign);
            assert_near(expected, drawn(&campaign), 0.03);
            // The queue adds nothing but itself.
            campaign.restart.queue = Seconds(4_000.0);
            let queued = Seconds(expected.expected * 4_000.0);
            assert_eq!(failures(&campaign), Losses { queued, ..expected });
            assert_near(failures(&campaign), drawn(&campaign), 0.03);
        }
    }

    #[test]
    fn what_nothing_reclaims_is_not_longer() {
        assert_eq!(of(&calm()), Losses::default());
    }

    #[test]
    fn what_hardly_gets_on_is_still_a_number() {
        let endless = of(&reclaimed(1.0, 200.0));
        assert!(endless.total().0.is_finite() && endless.total().0 > 1e9, "{endless:?}");
    }

    proptest! {
        /// Searches rely on it: a bound of the step time is one of the whole.
        #[test]
        fn longer_steps_add_no_less(
            steps in 1_u64..10_000, step in 1e-3_f64..1e3, longer in 1.0_f64..3.0,
            mean_time in 1e3_f64..1e7, write in 0.0_f64..400.0, interval in prop::option::of(1.0_f64..1e5),
        ) {
            let campaign = reclaimed(mean_time, write);
            let exposure = Exposure {
                instances: 8,
                hazards: campaign.hazards,
                restart: Seconds(200.0),
                queue: Seconds(5_000.0),
                replacing: Seconds(700.0),
                write: Seconds(write),
                interval: interval.map(Seconds),
            };
            let exposure = Exposure {
                hazards: Hazards { failures_per_hour: 0.3 * campaign.hazards.reclaims_per_hour, ..campaign.hazards },
                ..exposure
            };
            for losses in [Exposure::reclaims, Exposure::failures] {
                let added = |step: f64| losses(&exposure, Seconds(step * steps as f64), Seconds(step)).total().0;
                prop_assert!(added(step * longer) >= added(step) * (1.0 - 1e-9));
            }
        }
    }
}
