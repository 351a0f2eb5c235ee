//! What a job says of a whole training, checked.

use super::evaluations::{ForwardPlan, forward_plan};
use super::input::data_set;
use super::terms::{NoWarmPool, no_warm_pool, service_of};
use std::fmt::Display;
use std::str::FromStr;
use trainyard_hardware_profiles::Service;
use trainyard_models::Model;
use trainyard_plan::document::PriceUsed;
use trainyard_plan::{CampaignSpec, CheckpointStorage, JobSpec, Plan, Pricing, StartKind, TuningObjective};
use trainyard_sim::DataSet;
use trainyard_units::{Bytes, BytesPerSecond, Invalid, Seconds};

/// Multiples of the published reclaims that are shown.
pub(crate) const SCENARIOS: [u32; 3] = [1, 5, 20];

/// The settings of a campaign, where the job states them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) start: Option<StartKind>,
    pub(crate) interval: Option<Seconds>,
    pub(crate) storage: CheckpointStorage,
    pub(crate) bandwidth: Option<BytesPerSecond>,
    pub(crate) forward: ForwardPlan,
    pub(crate) scenario: u32,
    pub(crate) monthly_reclaims: Option<f64>,
    pub(crate) spot_wait: Option<Seconds>,
    pub(crate) node_mtbf: Option<Seconds>,
    pub(crate) restart: Option<Seconds>,
    /// The longest that one job of the scheduler may run.
    pub(crate) job_limit: Option<Seconds>,
    /// The same as the job has it, for messages.
    pub(crate) job_limit_text: String,
    /// The wait before each job.
    pub(crate) queue_wait: Seconds,
    pub(crate) straggler: f64,
    /// The data set; `None` if samples are assumed to be at hand.
    pub(crate) data: Option<DataSet>,
    /// Trained weights that each machine reads before the first step, in 16 bits; nothing where training begins without.
    pub(crate) weights: Bytes,
}

/// Reads a job's campaign, for the machines of a plan at a price.
///
/// # Errors
///
/// When a value is out of range or contradicts another.
pub(crate) fn settings_of(job: &JobSpec, plan: &Plan, price: Option<&PriceUsed>) -> Result<Settings, Invalid> {
    settings(job, plan.model(), plan.pricing(), service_of(price))
}

/// Reads a job's campaign, for machines with this pricing, rented from `service` if they are rented.
///
/// # Errors
///
/// When a value is out of range or contradicts another.
pub(super) fn settings(
    job: &JobSpec,
    model: &Model,
    pricing: Pricing,
    service: Option<Service>,
) -> Result<Settings, Invalid> {
    let default = CampaignSpec::default();
    let spec = job.campaign.as_ref().unwrap_or(&default);
    terms(spec, pricing, service)?;
    let scenario = spec.spot_scenario.unwrap_or(1);
    if !SCENARIOS.contains(&scenario) {
        return Err(Invalid::value("campaign.spot_scenario", scenario, "1, 5 or 20"));
    }
    if let Some(share) = spec.monthly_reclaims.filter(|share| !(0.0..1.0).contains(share)) {
        return Err(Invalid::value("campaign.monthly_reclaims", share, "from 0 to below 1"));
    }
    let straggler = spec.straggler.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&straggler) {
        return Err(Invalid::value("campaign.straggler", straggler, "from 0 to 1"));
    }
    let duration = |field, text| above_zero(field, text, "a duration such as 10 min", |time: &Seconds| time.0);
    let rate = |field, text| above_zero(field, text, "a rate such as 1 GB/s", |rate: &BytesPerSecond| rate.0);
    Ok(Settings {
        start: spec.start,
        interval: duration("campaign.checkpoint_interval", spec.checkpoint_interval.as_deref())?,
        storage: spec.checkpoint_storage.unwrap_or_default(),
        bandwidth: rate("campaign.checkpoint_bandwidth", spec.checkpoint_bandwidth.as_deref())?,
        forward: forward_plan(job, model)?,
        scenario,
        monthly_reclaims: spec.monthly_reclaims,
        spot_wait: duration("campaign.spot_wait", spec.spot_wait.as_deref())?,
        node_mtbf: duration("campaign.node_mtbf", spec.node_mtbf.as_deref())?,
        restart: duration("campaign.restart", spec.restart.as_deref())?,
        job_limit: duration("campaign.job_limit", spec.job_limit.as_deref())?,
        job_limit_text: spec.job_limit.clone().unwrap_or_default(),
        queue_wait: queue_wait(spec.queue_wait.as_deref())?,
        straggler,
        data: data_set(job, model)?.map(|data| data.set),
        weights: weights(job, model),
    })
}

/// Returns the trained weights that a job begins with, in 16 bits.
fn weights(job: &JobSpec, model: &Model) -> Bytes {
    let training = &job.training;
    let begins_with_some = training.method.is_some() || training.objective == Some(TuningObjective::Dpo);
    if begins_with_some { Bytes(2 * model.graph().parameters()) } else { Bytes(0) }
}

/// Reads the wait before each job of a scheduler; nothing if it is left out.
fn queue_wait(text: Option<&str>) -> Result<Seconds, Invalid> {
    let Some(text) = text else { return Ok(Seconds(0.0)) };
    let wait: Option<Seconds> = text.parse().ok().filter(|wait: &Seconds| wait.0.is_finite() && wait.0 >= 0.0);
    wait.ok_or_else(|| Invalid::value("campaign.queue_wait", text, "a duration such as 2 h, or 0 h"))
}

/// Checks that the campaign agrees with the pricing and the service.
fn terms(spec: &CampaignSpec, pricing: Pricing, service: Option<Service>) -> Result<(), Invalid> {
    let conflict = |first, rule| Err(Invalid::conflict(first, "cluster.pricing", rule));
    if let (Some(StartKind::WarmPool), Some(service)) = (spec.start, service) {
        let rule = "no warm pool of spot instances is kept; write on-demand, or start = \"cold\"";
        match no_warm_pool(service, pricing) {
            Some(NoWarmPool::Spot) => return conflict("campaign.start", rule),
            Some(NoWarmPool::Service) => {
                let rule = "EC2 keeps no warm pools of trainings; write service = \"sagemaker\", or start = \"cold\"";
                return Err(Invalid::conflict("campaign.start", "cluster.service", rule));
            }
            None => {}
        }
    }
    if pricing == Pricing::Spot {
        return Ok(());
    }
    let rule = "only spot instances are reclaimed; write pricing = \"spot\", or leave it out";
    match (spec.spot_scenario, spec.monthly_reclaims, &spec.spot_wait) {
        (Some(_), ..) => conflict("campaign.spot_scenario", rule),
        (None, Some(_), _) => conflict("campaign.monthly_reclaims", rule),
        (None, None, Some(_)) => conflict("campaign.spot_wait", rule),
        (None, None, None) => Ok(()),
    }
}

/// Reads a quantity above zero; `what` describes its form.
pub(super) fn above_zero<T: FromStr<Err: Display>>(
    field: &str,
    text: Option<&str>,
    what: &str,
    amount: fn(&T) -> f64,
) -> Result<Option<T>, Invalid> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |allowed: String| Invalid::value(field, format!("`{text}`"), allowed);
    match text.parse::<T>() {
        Ok(value) if amount(&value) > 0.0 => Ok(Some(value)),
        Ok(_) => Err(wrong("above zero".into())),
        Err(error) => Err(wrong(what.into()).because(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::EvaluationSpec;

    fn job(change: impl FnOnce(&mut JobSpec, &mut CampaignSpec)) -> JobSpec {
        let mut job = JobSpec::default();
        let mut campaign = CampaignSpec::default();
        (job.data.samples, job.data.bytes_per_sample) = (Some(1000), Some(100.0));
        change(&mut job, &mut campaign);
        JobSpec { campaign: Some(campaign), ..job }
    }

    fn checked(pricing: Pricing, change: impl FnOnce(&mut JobSpec, &mut CampaignSpec)) -> Result<Settings, Invalid> {
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        settings(&job(change), model, pricing, Some(Service::Ec2))
    }

    fn refused(pricing: Pricing, change: impl FnOnce(&mut JobSpec, &mut CampaignSpec)) -> String {
        checked(pricing, change).expect_err("refused").to_string()
    }

    fn evaluated(epochs: Option<f64>, steps: Option<u64>, samples: u64) -> EvaluationSpec {
        EvaluationSpec { every_epochs: epochs, every_steps: steps, samples: Some(samples), share: None }
    }

    fn shared(share: f64, samples: Option<u64>) -> EvaluationSpec {
        EvaluationSpec { every_epochs: None, every_steps: Some(1), samples, share: Some(share) }
    }

    #[test]
    fn every_field_is_checked() {
        use Pricing::{OnDemand, Spot};
        let wrong = [
            refused(OnDemand, |_, c| c.checkpoint_interval = Some("10".into())),
            refused(OnDemand, |_, c| c.checkpoint_interval = Some("0 s".into())),
            refused(OnDemand, |_, c| c.checkpoint_bandwidth = Some("fast".into())),
            refused(OnDemand, |_, c| c.checkpoint_bandwidth = Some("0 B/s".into())),
            refused(OnDemand, |_, c| c.node_mtbf = Some("-1 h".into())),
            refused(OnDemand, |_, c| c.job_limit = Some("0 h".into())),
            refused(OnDemand, |_, c| c.job_limit = Some("-2 h".into())),
            refused(OnDemand, |_, c| c.queue_wait = Some("soon".into())),
            refused(OnDemand, |_, c| c.straggler = Some(f64::NAN)),
            refused(OnDemand, |_, c| c.spot_scenario = Some(5)),
            refused(OnDemand, |_, c| c.monthly_reclaims = Some(0.1)),
            refused(OnDemand, |_, c| c.spot_wait = Some("1 h".into())),
            refused(Spot, |_, c| c.spot_wait = Some("0 min".into())),
            refused(Spot, |_, c| c.spot_scenario = Some(2)),
            refused(Spot, |_, c| c.monthly_reclaims = Some(1.0)),
            refused(Spot, |_, c| c.start = Some(StartKind::WarmPool)),
            refused(OnDemand, |_, c| c.start = Some(StartKind::WarmPool)),
            refused(OnDemand, |_, c| c.evaluation = Some(evaluated(None, None, 1))),
            refused(OnDemand, |_, c| c.evaluation = Some(evaluated(Some(1.0), Some(1), 1))),
            refused(OnDemand, |_, c| c.evaluation = Some(evaluated(None, Some(0), 1))),
            refused(OnDemand, |_, c| c.evaluation = Some(evaluated(Some(0.0), None, 1))),
            refused(OnDemand, |_, c| c.evaluation = Some(evaluated(Some(1.0), None, 0))),
            refused(OnDemand, |_, c| c.evaluation = Some(shared(1.5, None))),
            refused(OnDemand, |_, c| c.evaluation = Some(shared(0.0, None))),
            refused(OnDemand, |_, c| c.evaluation = Some(shared(0.1, Some(10)))),
            refused(OnDemand, |_, c| {
                c.evaluation = Some(EvaluationSpec { samples: None, ..evaluated(None, Some(1), 1) });
            }),
            refused(OnDemand, |j, c| {
                (j.data.lengths, j.training.steps) = (Some("lengths.txt".into()), Some(10));
                c.evaluation = Some(evaluated(Some(1.0), None, 1));
            }),
            refused(OnDemand, |j, c| (j.data.samples, c.evaluation) = (None, Some(evaluated(Some(1.0), None, 1)))),
        ];
        assert!(wrong.iter().all(|message| message.contains("campaign") || message.contains("data")), "{wrong:#?}");
    }

    #[test]
    fn warm_pools_are_those_of_sagemaker_and_of_machines_of_ones_own() {
        let warm = job(|_, c| c.start = Some(StartKind::WarmPool));
        let model = &trainyard_models::find("gpt2").expect("in the catalog").model;
        let with = |pricing, service| settings(&warm, model, pricing, service);
        assert!(with(Pricing::OnDemand, Some(Service::Sagemaker)).is_ok());
        assert!(with(Pricing::OnDemand, None).is_ok());
        let refused = |pricing, service| with(pricing, Some(service)).expect_err("refused").to_string();
        assert!(refused(Pricing::OnDemand, Service::Ec2).contains("`cluster.service` exclude each other"));
        assert!(refused(Pricing::Spot, Service::Sagemaker).contains("`cluster.pricing` exclude each other"));
    }

    #[test]
    fn an_epoch_is_of_the_data_set_or_of_the_training() {
        let of = |change: fn(&mut JobSpec)| {
            let settings = checked(Pricing::OnDemand, |job, campaign| {
                change(job);
                campaign.evaluation =
                    Some(EvaluationSpec { every_epochs: Some(0.5), share: Some(0.1), ..EvaluationSpec::default() });
            });
            settings.expect("valid").forward
        };
        // 1,000 samples at 64 a step are 16 steps.
        let of_data = of(|_| {});
        let told = |forward: ForwardPlan, steps| {
            let own = forward.passes(steps, 64).evaluations.expect("it is said");
            (own.interval, own.count, own.samples)
        };
        assert_eq!(told(of_data, 47), (8, 5, 100));
        // Three passes of 30 steps: half of one is 5 steps, a tenth 64 samples.
        let of_training = of(|job| {
            (job.data.samples, job.data.bytes_per_sample) = (None, None);
            (job.data.lengths, job.training.epochs) = (Some("lengths.txt".into()), Some(3.0));
        });
        assert_eq!(told(of_training, 30), (5, 6, 64));
    }

    #[test]
    fn what_is_written_is_kept() {
        let settings = checked(Pricing::Spot, |_, c| {
            c.evaluation = Some(evaluated(Some(2.0), None, 50));
            c.checkpoint_interval = Some("10 min".into());
            c.spot_scenario = Some(20);
        });
        let settings = settings.expect("valid");
        let evaluations = settings.forward.passes(100, 64).evaluations.expect("it is said");
        assert_eq!((evaluations.interval, evaluations.count, evaluations.samples), (32, 3, 50));
        let bytes = settings.data.and_then(|data| data.bytes());
        assert_eq!((settings.interval, bytes), (Some(Seconds(600.0)), Some(Bytes(100_000))));
        assert_eq!(settings.scenario, 20);
    }
}
