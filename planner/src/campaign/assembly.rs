//! A plan, its machine and what the job says of the campaign, in the numbers that a campaign is drawn from.

use crate::cost::{JOB_OF_A_STEP, Rented, RunConditions, operations, spread_of};
use crate::problem::{ForwardPasses, Settings, inside, target};
use trainyard_models::{ConvergenceCurve, Model};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{Plan, Pricing};
use trainyard_sim::campaign::{
    Campaign, CampaignPrice, Checkpoint, Evaluation, JobChain, JobLimit, StartUp, StepTime, Steps, best_interval,
    longest_interval,
};
use trainyard_sim::{Machine, evaluation_time};
use trainyard_units::{Bytes, Invalid, Seconds, Usd, human_count, human_duration};

/// The inputs of a campaign.
pub(super) struct Assembly<'a> {
    /// The document, predicted anew.
    pub(super) document: &'a PlanDocument,
    pub(super) plan: &'a Plan,
    pub(super) machine: &'a Machine,
    pub(super) settings: Settings,
}

impl Assembly<'_> {
    /// Builds the campaign in which spot instances are reclaimed `scenario` times as often as published.
    pub(super) fn campaign(&self, scenario: u32) -> Result<Campaign, Invalid> {
        let prediction = &self.document.prediction;
        let conditions = self.conditions();
        let write = conditions.transfer_time()?;
        let (evaluation, reference) = self.forward()?;
        let start = conditions.start();
        let mut campaign = Campaign {
            instances: conditions.instances(),
            steps: Steps { mean: prediction.steps, spread: self.curve()?.map_or(0.0, |curve| curve.seeds.deviation) },
            step_time: StepTime {
                // Steps of the first pass over the data may wait for it, and later ones not.
                median: Seconds(prediction.time_s / prediction.steps as f64),
                spread: spread_of(prediction),
                straggler: self.settings.straggler,
            },
            start: StartUp { software: start.software + reference, ..start },
            restart: conditions.restart(),
            download: Seconds(prediction.input.map_or(0.0, |input| input.download_s)),
            checkpoint: Checkpoint { write, read: write, interval: Seconds(0.0) },
            evaluation,
            hazards: conditions.hazards(scenario)?,
            jobs: None,
            price: prediction.price.as_ref().map(|price| CampaignPrice {
                instance_hour: [Usd(price.low_usd_per_hour), Usd(price.high_usd_per_hour)],
                storage_hour: conditions.checkpoints_hour() + conditions.copies_hour(),
                by_block: self.plan.pricing() == Pricing::CapacityBlock,
            }),
        };
        if let Some(longest) = self.settings.job_limit {
            let step = campaign.step_time.median;
            let chain = JobChain { longest, start: start.software + campaign.download, read: write, write };
            let least = chain.least(step);
            if least > longest {
                return Err(Invalid::value("campaign.job_limit", self.settings.job_limit_text.trim(), at_least(least)));
            }
            campaign.jobs = Some(JobLimit { usable: chain.usable(step), start });
        }
        campaign.checkpoint.interval = match self.settings.interval {
            None => Seconds(best_interval(&campaign).0.min(longest_interval(write).0)),
            Some(interval) if interval < write => {
                let allowed = format!("at least {}, the time of writing a checkpoint", human_duration(write));
                return Err(Invalid::value("campaign.checkpoint_interval", human_duration(interval), allowed));
            }
            Some(interval) => interval,
        };
        Ok(campaign)
    }

    /// Collects what the campaign depends on besides the steps.
    fn conditions(&self) -> RunConditions<'_> {
        let rented = self.document.prediction.price.as_ref().and_then(Rented::at);
        RunConditions::of(self.plan, self.machine, &self.settings, rented)
    }

    /// Returns the bytes of weights, moments and master weights of the whole model, each once.
    pub(super) fn checkpoint_bytes(&self) -> Bytes {
        self.conditions().saved.bytes
    }

    /// Returns the interval and the time of evaluations, and the time in which a reference model scores samples before the
    /// first step.
    fn forward(&self) -> Result<(Option<Evaluation>, Seconds), Invalid> {
        let steps = self.document.prediction.steps;
        let ForwardPasses { evaluations, reference } = self.settings.forward.passes(steps, self.plan.batch().global);
        let time = |samples| {
            evaluation_time(self.plan, self.machine, samples).map_err(|error| inside("plan", &error, error.hint()))
        };
        let evaluation =
            evaluations.map(|own| Ok::<_, Invalid>(Evaluation { every: own.interval, time: time(own.samples)? }));
        Ok((evaluation.transpose()?, reference.map_or(Ok(Seconds(0.0)), time)?))
    }

    fn curve(&self) -> Result<Option<&'static ConvergenceCurve>, Invalid> {
        target(&self.document.job.training, self.plan.model())
    }

    /// Lists the assumptions where nothing is known, or little.
    pub(super) fn assumptions(&self) -> Result<Vec<String>, Invalid> {
        let operations = operations();
        let conditions = self.conditions();
        let start = conditions.start();
        let mut assumptions = vec![
            match conditions.rented {
                Some(_) if self.plan.pricing() == Pricing::CapacityBlock => format!(
                    "machines are there when the capacity block begins, and ready after {} (median): {}",
                    human_duration(start.software),
                    operations.cold.image.source
                ),
                Some(_) => format!(
                    "machines are there after {} and ready {} later (medians): {}",
                    human_duration(start.machines),
                    human_duration(start.software),
                    operations.cold.machines.source
                ),
                None => format!(
                    "machines are there, and ready after {} (median): {}",
                    human_duration(start.software),
                    operations.warm_pool.framework.source
                ),
            },
            self.restarted(&conditions),
            self.written(&conditions)?,
            format!(
                "a machine fails every {}: {}",
                human_duration(conditions.node_mtbf()),
                match self.settings.node_mtbf {
                    Some(_) => "the job",
                    None => &operations.node_mtbf.source,
                }
            ),
        ];
        if self.settings.queue_wait > Seconds(0.0) {
            let wait = human_duration(self.settings.queue_wait);
            assumptions.push(format!("before that each job waits {wait} in the queue: the job"));
        }
        if let Some(longest) = self.settings.job_limit {
            let most = human_duration(longest);
            assumptions.push(format!(
                "one job runs for at most {most}, the time to save and be queued again included: the job"
            ));
        }
        if self.plan.pricing() == Pricing::Spot {
            let (share, source) = conditions.monthly_reclaims()?;
            assumptions.push(format!("{:.0} % of the capacity is reclaimed in a month: {source}", share * 100.0));
            let (wait, who) = match self.settings.spot_wait {
                Some(wait) => (wait, "the job"),
                None => (operations.spot_wait.value, operations.spot_wait.source.as_str()),
            };
            assumptions.push(format!("a reclaimed machine is replaced after {} (median): {who}", human_duration(wait)));
        }
        if let Some(curve) = self.curve()? {
            assumptions.push(format!("steps to {}: {}", curve.description, curve.source));
        }
        Ok(assumptions)
    }

    /// Tells how fast checkpoints are written.
    fn written(&self, conditions: &RunConditions<'_>) -> Result<String, Invalid> {
        let (rate, who) = conditions.checkpoint_rate()?;
        let other = match self.settings.bandwidth {
            Some(_) => "",
            None => "; campaign.checkpoint_bandwidth tells another rate",
        };
        let rate = (rate.0 / 1e7).round() / 100.0;
        Ok(format!("all machines together write a checkpoint at {rate} GB/s: {who}{other}"))
    }

    /// Tells how long a failure stops the training.
    fn restarted(&self, conditions: &RunConditions<'_>) -> String {
        let restart = conditions.restart();
        let why = match (self.settings.restart, conditions.rented) {
            (Some(_), _) if restart.queue > Seconds(0.0) => {
                format!("the job; {} of it are taken to be in the queue", human_duration(restart.queue))
            }
            (Some(_), _) => "the job".to_owned(),
            (None, rented) => {
                let machine = if rented.is_some() { "a new machine starts cold" } else { "a spare machine stands by" };
                let queue = if self.settings.queue_wait > Seconds(0.0) { ", after the wait in the queue" } else { "" };
                format!(
                    "ranks give up waiting for a failed one after ten minutes (PyTorch's default), and {machine}{queue}; \
                     campaign.restart tells another time"
                )
            }
        };
        let stops = human_duration(restart.total());
        format!("a failure stops the training for {stops} (median), reading the checkpoint apart: {why}")
    }

    pub(super) fn warnings(&self) -> Result<Vec<String>, Invalid> {
        let mut warnings = Vec::new();
        if self.plan.pricing() == Pricing::Spot {
            warnings.push(
                "published reclaims are shares of capacity, which for one training is optimistic: see the scenarios"
                    .into(),
            );
        }
        if let Some(curve) = self.curve()? {
            warnings.extend(extrapolated(curve, self.plan.model(), self.plan.batch().global));
        }
        warnings.extend(self.conditions().unpriced_copies());
        Ok(warnings)
    }
}

/// Describes the limits of one job with which a training gets on.
fn at_least(least: Seconds) -> String {
    format!("at least {}: {JOB_OF_A_STEP}", human_duration(least))
}

/// Warns if a curve was not measured with samples of this model's size, or not at this global batch.
pub(crate) fn extrapolated(curve: &ConvergenceCurve, model: &Model, global_batch: u64) -> Vec<String> {
    let target = &curve.target;
    let resized = curve.resized(model).map(|[measured, size]| {
        format!("{target} was measured with samples of size {measured}; for {size} it is taken to be the same")
    });
    let measured = curve.measured();
    let beyond = (!measured.contains(&global_batch)).then(|| {
        format!(
            "{target} was measured with global batches from {} to {}; for {} its samples are extrapolated",
            human_count(*measured.start()),
            human_count(*measured.end()),
            human_count(global_batch)
        )
    });
    resized.into_iter().chain(beyond).collect()
}
