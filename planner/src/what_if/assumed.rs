//! What a plan assumes of its campaign where the job says nothing of it: what a factor multiplies.

use super::key::Key;
use crate::cost::{Rented, RunConditions};
use crate::edits::Setting;
use crate::problem::settings_of;
use trainyard_plan::document::Prediction;
use trainyard_plan::{JobSpec, Plan};
use trainyard_sim::Machine;
use trainyard_units::Seconds;

/// Returns the job with what the plan assumes of a key of its campaign, if a factor is to multiply it and the job does not say it.
pub(super) fn with_assumed(
    job: &JobSpec,
    (key, setting): (Key, &Setting),
    (plan, machine, prediction): (&Plan, &Machine, &Prediction),
) -> JobSpec {
    let mut job = job.clone();
    if !matches!(setting, Setting::Factor(_)) || !key.name.starts_with("campaign.") {
        return job;
    }
    let price = prediction.price.as_ref();
    let Ok(settings) = settings_of(&job, plan, price) else { return job };
    let conditions = RunConditions::of(plan, machine, &settings, price.and_then(Rented::at));
    let mut own = job.campaign.clone().unwrap_or_default();
    match key.name {
        "campaign.checkpoint_interval" if own.checkpoint_interval.is_none() => {
            own.checkpoint_interval = prediction.checkpoint_interval_s.map(|interval| Seconds(interval).to_string());
        }
        "campaign.monthly_reclaims" if own.monthly_reclaims.is_none() => {
            own.monthly_reclaims = conditions.monthly_reclaims().ok().map(|(share, _)| share);
        }
        "campaign.restart" if own.restart.is_none() => {
            own.restart = Some(conditions.restart().total().to_string());
        }
        _ => return job,
    }
    job.campaign = Some(own);
    job
}
