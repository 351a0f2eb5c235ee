//! What surrounds the steps of a plan and what all of it costs, as a prediction states it.

use super::overheads::{Overheads, Work};
use super::run_conditions::RunConditions;
use crate::problem::{ForwardTimes, settings};
use trainyard_hardware_profiles::Service;
use trainyard_plan::document::{ExpectedInterruptions, Prediction, PriceUsed};
use trainyard_plan::{JobSpec, Plan, StorageMode};
use trainyard_sim::Machine;
use trainyard_units::{Invalid, Seconds, UsdPerHour};

/// The price of an hour of a plan's machines, and the overheads that it applies to besides the steps.
#[derive(Clone, Debug)]
pub(crate) struct Rent {
    /// `None` for machines of one's own.
    pub(crate) price: Option<PriceUsed>,
    pub(crate) overheads: Overheads,
}

/// Returns the time of the forward passes of a prediction besides its steps.
pub(crate) fn forward_of(prediction: &Prediction) -> ForwardTimes {
    let seconds = |seconds: Option<f64>| Seconds(seconds.unwrap_or(0.0));
    ForwardTimes { evaluations: seconds(prediction.evaluations_s), reference: seconds(prediction.reference_s) }
}

impl Rent {
    /// Computes the rent of a plan's machines, with the job's campaign; `None` for machines of one's own of which nothing
    /// is known that surrounds the steps.
    ///
    /// # Errors
    ///
    /// When that is wrong, or does not go with the terms.
    pub(crate) fn new(
        job: &JobSpec,
        plan: &Plan,
        machine: &Machine,
        price: Option<PriceUsed>,
    ) -> Result<Option<Self>, Invalid> {
        if price.is_none() && machine.cluster.first().device.gpu().is_none() {
            return Ok(None);
        }
        let service = price.as_ref().and_then(|price| Service::named(&price.service));
        let settings = settings(job, plan.model(), plan.pricing(), service)?;
        let conditions = RunConditions::of(plan, machine, &settings, price.as_ref());
        let overheads = conditions.are_known().then(|| Overheads::new(&conditions));
        Ok(overheads.map(|overheads| Self { price, overheads }))
    }

    /// Adds the overheads and the cost of the whole training to a prediction; `time_of` gives the time of all steps for
    /// a step time.
    pub(crate) fn add_to(self, prediction: &mut Prediction, input: Option<StorageMode>, time_of: impl Fn(f64) -> f64) {
        let download = Seconds(prediction.input.map_or(0.0, |input| input.download_s));
        let forward = forward_of(prediction);
        let spent = |time: f64| {
            self.overheads.training_cost(prediction.steps, Work { steps: Seconds(time), forward, download })
        };
        let own = spent(prediction.time_s);
        (prediction.start_up_s, prediction.checkpoints_s) = (Some(own.start_up.0), Some(own.checkpoints.0));
        prediction.interruptions = own.reclaims.map(|reclaims| ExpectedInterruptions {
            expected: reclaims.expected,
            waiting_s: reclaims.waiting.0,
            restarts_s: reclaims.restarts.0,
            lost_s: (reclaims.lost + reclaims.saving).0,
        });
        prediction.checkpoint_interval_s = self.overheads.interval.map(|interval| interval.0);
        let Some(price) = self.price else { return };
        let cost = |time: f64, usd: f64| self.overheads.cost(&spent(time), UsdPerHour(usd), input);
        let parts = cost(prediction.time_s, price.usd_per_hour);
        let [low, high] = prediction.interval_s.map(time_of);
        let ends = [cost(low, price.low_usd_per_hour), cost(high, price.high_usd_per_hour)];
        (prediction.cost_usd, prediction.cost_parts) = (Some(parts.total()), Some(parts));
        prediction.cost_interval_usd = Some(ends.map(|parts| parts.total()));
        prediction.price = Some(price);
    }
}
