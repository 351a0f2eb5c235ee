//! A plan, its machine and what the job says of the campaign, in the numbers that a campaign is drawn from.

use super::settings::{Every, Settings};
use crate::job::{JobError, invalid};
use trainyard_hardware_profiles::{Operations, SpotBand, Storage, catalog};
use trainyard_models::{ConvergenceCurve, Model, convergence_curve};
use trainyard_plan::document::{PlanDocument, PriceUsed};
use trainyard_plan::{CheckpointStorage, Plan, Pricing, StartKind, StateSharding, checkpoint_bytes};
use trainyard_sim::campaign::{
    Campaign, CampaignPrice, Checkpoint, Evaluation, Hazards, MONTH_HOURS, StartUp, StepTime, Steps, best_interval,
    reclaims_per_hour,
};
use trainyard_sim::{Copies, Machine, copies};
use trainyard_units::{Bytes, BytesPerSecond, Seconds, Usd, human_count, human_duration};

/// Standard normal quantile of 95 %: half of an interval that holds 90 %.
const NORMAL_95: f64 = 1.644_853_626_951_472_2;
/// Checkpoints that are kept: the last one, and the one that is being written.
const KEPT: f64 = 2.0;

/// Everything that a campaign follows from.
pub(super) struct Assembly<'a> {
    /// With its prediction made anew.
    pub(super) document: &'a PlanDocument,
    pub(super) plan: &'a Plan,
    pub(super) machine: &'a Machine,
    pub(super) settings: Settings,
}

impl Assembly<'_> {
    /// The campaign if spot instances are reclaimed `scenario` times as often as published.
    pub(super) fn campaign(&self, scenario: u32) -> Result<Campaign, JobError> {
        let prediction = &self.document.prediction;
        let [low, high] = prediction.interval_s;
        let write = self.transfer_time()?;
        let mut campaign = Campaign {
            instances: self.instances(),
            steps: Steps { mean: prediction.steps, spread: self.curve()?.map_or(0.0, |curve| curve.seeds.deviation) },
            step_time: StepTime {
                // Steps of the first pass over the data may wait for it, and later ones not.
                median: Seconds(prediction.time_s / prediction.steps as f64),
                spread: (high / low).ln() / (2.0 * NORMAL_95),
                straggler: self.settings.straggler,
            },
            start: start_up(self.start_kind()),
            restart: start_up(StartKind::Cold),
            download: Seconds(prediction.input.map_or(0.0, |input| input.download_s)),
            checkpoint: Checkpoint { write, read: write, interval: Seconds(0.0) },
            evaluation: self.evaluation(),
            hazards: self.hazards(scenario)?,
            price: prediction.price.as_ref().map(|price| self.price(price)),
        };
        campaign.checkpoint.interval = match self.settings.interval {
            None => best_interval(&campaign),
            Some(interval) if interval < write => {
                let allowed = format!("at least {}, the time of writing a checkpoint", human_duration(write));
                return Err(invalid("campaign.checkpoint_interval", human_duration(interval), allowed));
            }
            Some(interval) => interval,
        };
        Ok(campaign)
    }

    fn instances(&self) -> u32 {
        self.machine.cluster.machines()
    }

    /// Machines of one's own are there unless the job says otherwise.
    fn start_kind(&self) -> StartKind {
        let rented = self.document.prediction.price.is_some();
        self.settings.start.unwrap_or(if rented { StartKind::Cold } else { StartKind::WarmPool })
    }

    /// Weights, moments and master weights of the whole model, each once.
    pub(super) fn checkpoint_bytes(&self) -> Bytes {
        checkpoint_bytes(self.plan)
    }

    /// Machines that hold a part of a checkpoint that no other holds: those of one replica, or, where replicas share out
    /// their state, all.
    fn writers(&self) -> u32 {
        if self.plan.state_sharding() != StateSharding::None {
            return self.instances();
        }
        let parallel = self.plan.mesh().parallel();
        let devices = self.machine.cluster.first().devices_per_instance;
        (parallel.tensor * parallel.pipeline * parallel.expert).div_ceil(devices).min(self.instances())
    }

    /// Writing or reading a checkpoint, all machines with a part of it at once.
    fn transfer_time(&self) -> Result<Seconds, JobError> {
        let rate = match (self.settings.bandwidth, self.settings.storage) {
            (Some(rate), _) => rate,
            (None, CheckpointStorage::S3) => self.object_storage_rate()?,
            (None, CheckpointStorage::Ebs) => storage().ebs.throughput.value,
        };
        Ok(self.checkpoint_bytes() / (rate * f64::from(self.writers())))
    }

    /// What one machine moves from or to object storage; what the job says where nothing else is known.
    fn object_storage_rate(&self) -> Result<BytesPerSecond, JobError> {
        let remote = self.machine.cluster.first().host.as_ref().and_then(|host| host.remote).map(|remote| remote.s3);
        remote.or(self.settings.bandwidth).ok_or(JobError::Missing {
            field: "campaign.checkpoint_bandwidth",
            why: "nothing is known of the storage of this machine; write \"1 GB/s\", say",
        })
    }

    /// A test takes the forward passes of as many samples, the pipeline's idle time included.
    fn evaluation(&self) -> Option<Evaluation> {
        let evaluation = self.settings.evaluation?;
        let (batch, prediction) = (self.plan.batch().global, &self.document.prediction);
        let every = match evaluation.every {
            Every::Steps(steps) => steps,
            Every::Samples(samples) => (samples / batch as f64).ceil().max(1.0) as u64,
        };
        let forward = prediction.phases.forward_s * (1.0 + prediction.bubble) / batch as f64;
        Some(Evaluation { every, time: Seconds(forward * evaluation.samples as f64) })
    }

    fn hazards(&self, scenario: u32) -> Result<Hazards, JobError> {
        let operations = operations();
        let reclaims_per_hour = match self.plan.pricing() {
            Pricing::OnDemand => 0.0,
            Pricing::Spot => f64::from(scenario) * reclaims_per_hour(self.monthly_reclaims()?.0),
        };
        Ok(Hazards {
            reclaims_per_hour,
            notice: operations.spot_notice.value,
            wait: operations.spot_wait.value,
            failures_per_hour: 3600.0 / self.node_mtbf().0,
        })
    }

    fn node_mtbf(&self) -> Seconds {
        self.settings.node_mtbf.unwrap_or(operations().node_mtbf.value)
    }

    /// The share of capacity that is reclaimed in a month: the job's, or that of the published band.
    fn monthly_reclaims(&self) -> Result<(f64, Option<SpotBand>), JobError> {
        if let Some(share) = self.settings.monthly_reclaims {
            return Ok((share, None));
        }
        let (instance, region) = (&self.plan.cluster().instance, self.region());
        let band = catalog().spot_advisor().band(region, instance).ok_or_else(|| JobError::NoSpotBand {
            instance: instance.clone(),
            region: region.into(),
            regions: catalog().spot_advisor().regions(instance).into_iter().map(Into::into).collect(),
        })?;
        Ok((band.monthly_share(), Some(band)))
    }

    fn region(&self) -> &str {
        self.document.prediction.price.as_ref().map_or(crate::job::DEFAULT_REGION, |price| price.region.as_str())
    }

    fn price(&self, price: &PriceUsed) -> CampaignPrice {
        let storage = storage();
        let gigabyte_month = match self.settings.storage {
            CheckpointStorage::S3 => storage.s3.price.value,
            CheckpointStorage::Ebs => storage.ebs.price.value,
        };
        let gigabytes = KEPT * self.checkpoint_bytes().as_f64() / 1e9;
        let volumes = match self.copies() {
            Copies::Volumes(Some(size)) => size.as_f64() / 1e9,
            Copies::Volumes(None) | Copies::FileSystem(_) | Copies::Nothing => 0.0,
        };
        let month = gigabytes * gigabyte_month.0 + volumes * storage.ebs.price.value.0;
        CampaignPrice {
            instance_hour: [Usd(price.low_usd_per_hour), Usd(price.high_usd_per_hour)],
            storage_hour: Usd(month / MONTH_HOURS),
        }
    }

    /// What is rented to keep the data set near the machines.
    fn copies(&self) -> Copies {
        match (self.plan.input(), &self.settings.data) {
            (Some(input), Some(data)) => copies(self.machine, data, input.storage),
            _ => Copies::Nothing,
        }
    }

    /// What keeps the data set and is not in the cost.
    fn unpriced_copies(&self) -> Option<String> {
        self.document.prediction.price.as_ref()?;
        match self.copies() {
            Copies::FileSystem(size) => {
                Some(format!("the file system of {size} that keeps the data set is not in the cost"))
            }
            Copies::Volumes(None) => Some(
                "the volumes that keep the data set are not in the cost: write data.samples or data.volume, so that \
                 their size is known"
                    .into(),
            ),
            Copies::Volumes(Some(_)) | Copies::Nothing => None,
        }
    }

    fn curve(&self) -> Result<Option<&'static ConvergenceCurve>, JobError> {
        let target = self.document.job.training.target.as_deref();
        Ok(target.map(|target| convergence_curve(target, self.plan.model())).transpose()?)
    }

    /// What was assumed where nothing is known, or little.
    pub(super) fn assumptions(&self) -> Result<Vec<String>, JobError> {
        let operations = operations();
        let start = start_up(self.start_kind());
        let mut assumptions = vec![
            format!(
                "machines are there after {} and ready {} later (medians): {}",
                human_duration(start.machines),
                human_duration(start.software),
                operations.cold.machines.source
            ),
            format!(
                "a machine fails every {}: {}",
                human_duration(self.node_mtbf()),
                match self.settings.node_mtbf {
                    Some(_) => "the job",
                    None => &operations.node_mtbf.source,
                }
            ),
        ];
        if self.plan.pricing() == Pricing::Spot {
            let (share, band) = self.monthly_reclaims()?;
            let advisor = catalog().spot_advisor();
            let source = band.map_or("the job".into(), |band| {
                format!("band {} of {}, {}", band.name(), advisor.source, advisor.date)
            });
            assumptions.push(format!("{:.0} % of the capacity is reclaimed in a month: {source}", share * 100.0));
        }
        if let Some(curve) = self.curve()? {
            assumptions.push(format!("steps to {}: {}", curve.description, curve.source));
        }
        Ok(assumptions)
    }

    pub(super) fn warnings(&self) -> Result<Vec<String>, JobError> {
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
        warnings.extend(self.unpriced_copies());
        Ok(warnings)
    }
}

fn operations() -> &'static Operations {
    catalog().operations()
}

fn storage() -> &'static Storage {
    catalog().storage()
}

/// What comes before the first step.
fn start_up(kind: StartKind) -> StartUp {
    let operations = operations();
    let phases = match kind {
        StartKind::Cold => &operations.cold,
        StartKind::WarmPool => &operations.warm_pool,
    };
    StartUp {
        machines: phases.machines.value,
        software: phases.image.value + phases.framework.value,
        spread: operations.start_spread.value,
    }
}

/// Warnings if a curve was not measured with samples of this model's size, or not at this global batch.
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
