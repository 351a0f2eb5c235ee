//! Mean time and cost that reclaims of spot machines add to a training, in closed form.

use super::Hazards;
use trainyard_units::Seconds;

/// The largest power of e that is taken: a training that is interrupted more often does not get on, and no plan with
/// one is ever recommended; the result stays a number.
const MOST: f64 = 200.0;

/// Machines that are exposed to reclaims, the training apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// Machines that train together: when one is reclaimed, all stop.
    pub instances: u32,
    /// Events that end a machine, of which reclaims are counted.
    pub hazards: Hazards,
    /// Making a replaced machine ready, copying the data set to it and reading a checkpoint.
    pub restart: Seconds,
    /// Writing a checkpoint.
    pub write: Seconds,
    /// Training time from one checkpoint to the next; nothing if only the last step is followed by one.
    pub interval: Option<Seconds>,
}

/// Expected values of what reclaims add to a training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reclaims {
    /// Machines that are reclaimed.
    pub expected: f64,
    /// Until reclaimed machines are replaced; the others are paid for.
    pub waiting: Seconds,
    /// Making replaced machines ready and reading checkpoints.
    pub restarts: Seconds,
    /// Work that is done again.
    pub lost: Seconds,
    /// Writing checkpoints when a reclaim is announced.
    pub saving: Seconds,
}

impl Reclaims {
    /// All that is added.
    pub fn total(&self) -> Seconds {
        self.waiting + self.restarts + self.lost + self.saving
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
    /// checkpoint takes longer than the notice, the time τ + δ from one to the next is done again until it passes
    /// without a reclaim, (exp(λ(τ+δ)) − 1) / λ on average (Daly 2006, doi:10.1016/j.future.2004.11.016, section 3).
    /// While a machine is waited for, nothing can be reclaimed.
    pub fn reclaims(&self, training: Seconds, step: Seconds) -> Reclaims {
        let rate = self.hazards.reclaim_rate(self.instances);
        if rate == 0.0 || training.0 <= 0.0 {
            return Reclaims::default();
        }
        let longest = training.0.max(step.0);
        let between = self.interval.map_or(longest, |interval| interval.0.max(step.0).min(longest));
        let segments = training.0 / between;
        let length = between + self.write.0;
        let again = power(rate * self.restart.0);
        let saves = self.hazards.leave_time_for(self.write);
        let (met, lost, saving) = if saves {
            let met = rate * segments * length;
            // On average half of the step in which it is announced.
            (met, met * step.0.min(training.0) / 2.0, met * self.write.0)
        } else {
            let met = segments * power(rate * length);
            (met, met / rate - segments * length, 0.0)
        };
        let expected = met * (1.0 + again);
        Reclaims {
            expected,
            waiting: Seconds(expected * self.hazards.wait.0),
            restarts: Seconds(met * again / rate),
            lost: Seconds(lost.max(0.0)),
            saving: Seconds(saving),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::calm;
    use crate::campaign::{Campaign, StartUp, best_interval, simulate_campaign};
    use proptest::prelude::*;

    /// Reclaims of any machine every so many seconds, of a training of 100 000 steps of two seconds.
    fn reclaimed(mean_time: f64, write: f64) -> Campaign {
        let mut campaign = calm();
        campaign.steps.mean = 100_000;
        campaign.step_time.median = Seconds(2.0);
        campaign.restart = StartUp { machines: Seconds(0.0), software: Seconds(200.0), spread: 0.0 };
        campaign.checkpoint.write = Seconds(write);
        campaign.checkpoint.read = Seconds(write);
        campaign.download = Seconds(30.0);
        campaign.hazards.wait = Seconds(300.0);
        campaign.hazards.reclaims_per_hour = 3600.0 / mean_time / f64::from(campaign.instances);
        campaign.checkpoint.interval = best_interval(&campaign);
        campaign
    }

    fn of(campaign: &Campaign) -> Reclaims {
        let training = campaign.steps.mean as f64 * campaign.step_time.median.0;
        let restart = campaign.restart.software + campaign.download + campaign.checkpoint.read;
        let (hazards, write) = (campaign.hazards, campaign.checkpoint.write);
        let interval = Some(campaign.checkpoint.interval);
        let exposure = Exposure { instances: campaign.instances, hazards, restart, write, interval };
        exposure.reclaims(Seconds(training), campaign.step_time.median)
    }

    #[test]
    fn drawn_campaigns_are_interrupted_as_often_and_as_long() {
        for (mean_time, write) in [(20_000.0, 10.0), (5_000.0, 60.0), (20_000.0, 200.0), (4_000.0, 150.0)] {
            let campaign = reclaimed(mean_time, write);
            let mut calm = campaign.clone();
            calm.hazards.reclaims_per_hour = 0.0;
            let undisturbed = simulate_campaign(&calm, 1, 3).expect("it gets on")[0].time().0;
            let courses = simulate_campaign(&campaign, 2_000, 3).expect("it gets on");
            let mean = |value: &dyn Fn(&crate::campaign::SimulatedRun) -> f64| {
                courses.iter().map(value).sum::<f64>() / courses.len() as f64
            };
            let (expected, drawn) = (of(&campaign), mean(&|course| course.reclaims as f64));
            assert!((expected.expected / drawn - 1.0).abs() < 0.02, "{mean_time} {write}: {expected:?} {drawn}");
            let added = mean(&|course| course.time().0) - undisturbed;
            assert!((expected.total().0 / added - 1.0).abs() < 0.03, "{mean_time} {write}: {expected:?} {added}");
        }
    }

    #[test]
    fn what_nothing_reclaims_is_not_longer() {
        assert_eq!(of(&calm()), Reclaims::default());
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
                write: Seconds(write),
                interval: interval.map(Seconds),
            };
            let added = |step: f64| exposure.reclaims(Seconds(step * steps as f64), Seconds(step)).total().0;
            prop_assert!(added(step * longer) >= added(step) * (1.0 - 1e-9));
        }
    }
}
