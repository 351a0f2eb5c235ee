//! What surrounds the steps of a training, as far as it follows from its machines and from what is saved: starting,
//! saving, breaking, storing.

use super::settings::Settings;
use crate::job::{DEFAULT_REGION, JobError};
use trainyard_hardware_profiles::{Operations, SpotBand, Storage, catalog};
use trainyard_plan::{
    CheckpointStorage, ParallelSpec, Plan, Pricing, StartKind, StateSharding, StorageMode, checkpoint_bytes,
};
use trainyard_sim::campaign::{Hazards, MONTH_HOURS, StartUp, reclaims_per_hour};
use trainyard_sim::{Copies, Machine, copies};
use trainyard_units::{Bytes, BytesPerSecond, Seconds, Usd};

/// Checkpoints that are kept: the last one, and the one that is being written.
const KEPT: f64 = 2.0;

/// What is saved, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Weights, moments and master weights of the whole model, each once.
    pub(crate) bytes: Bytes,
    /// Ranks of a replica, each with its own part.
    pub(crate) ranks: u32,
    /// Whether replicas share out their state, so that all of them have something of it.
    pub(crate) shared_out: bool,
}

/// Machines on which something is trained, and what the job says of that.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) settings: &'a Settings,
    pub(crate) saved: Saved,
    pub(crate) pricing: Pricing,
    /// Where the machines are rented; nothing for one's own.
    pub(crate) region: Option<&'a str>,
    /// Where samples are read from; nothing if they are taken to be there.
    pub(crate) input: Option<StorageMode>,
}

impl Saved {
    /// What is saved of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let shared_out = plan.state_sharding() != StateSharding::None;
        Self { bytes: checkpoint_bytes(plan), ranks: ranks_of_state(plan.mesh().parallel()), shared_out }
    }
}

/// Ranks of a replica, or of replicas that share experts, each of which has a part of the state of its own.
pub(crate) fn ranks_of_state(parallel: ParallelSpec) -> u32 {
    parallel.tensor * parallel.pipeline * parallel.expert
}

impl Surroundings<'_> {
    pub(crate) fn instances(&self) -> u32 {
        self.machine.cluster.machines()
    }

    /// What comes before the first step. Machines of one's own are there unless the job says otherwise.
    pub(crate) fn start(&self) -> StartUp {
        let usual = if self.region.is_some() { StartKind::Cold } else { StartKind::WarmPool };
        start_up(self.settings.start.unwrap_or(usual))
    }

    /// What comes before training goes on, when a machine has been replaced: it is a new one.
    pub(crate) fn restart() -> StartUp {
        start_up(StartKind::Cold)
    }

    /// Machines that hold a part of a checkpoint that no other holds: those of one replica, or, where replicas share out
    /// their state, all.
    fn writers(&self) -> u32 {
        if self.saved.shared_out {
            return self.instances();
        }
        let devices = self.machine.cluster.first().devices_per_instance;
        self.saved.ranks.div_ceil(devices).min(self.instances())
    }

    /// Writing or reading a checkpoint, all machines with a part of it at once.
    pub(crate) fn transfer_time(&self) -> Result<Seconds, JobError> {
        let rate = match (self.settings.bandwidth, self.settings.storage) {
            (Some(rate), _) => rate,
            (None, CheckpointStorage::S3) => self.object_storage_rate()?,
            (None, CheckpointStorage::Ebs) => storage().ebs.throughput.value,
        };
        Ok(self.saved.bytes / (rate * f64::from(self.writers())))
    }

    /// What one machine moves from or to object storage; what the job says where nothing else is known.
    fn object_storage_rate(&self) -> Result<BytesPerSecond, JobError> {
        let remote = self.machine.cluster.first().host.as_ref().and_then(|host| host.remote).map(|remote| remote.s3);
        remote.or(self.settings.bandwidth).ok_or(JobError::Missing {
            field: "campaign.checkpoint_bandwidth",
            why: "nothing is known of the storage of this machine; write \"1 GB/s\", say",
        })
    }

    /// What ends a machine, if spot instances are reclaimed `scenario` times as often as published.
    pub(crate) fn hazards(&self, scenario: u32) -> Result<Hazards, JobError> {
        let operations = operations();
        let reclaims_per_hour = match self.pricing {
            Pricing::Spot => f64::from(scenario) * reclaims_per_hour(self.monthly_reclaims()?.0),
            Pricing::OnDemand | Pricing::Reserved | Pricing::ReservedThreeYears => 0.0,
        };
        Ok(Hazards {
            reclaims_per_hour,
            notice: operations.spot_notice.value,
            wait: operations.spot_wait.value,
            failures_per_hour: 3600.0 / self.node_mtbf().0,
        })
    }

    pub(crate) fn node_mtbf(&self) -> Seconds {
        self.settings.node_mtbf.unwrap_or(operations().node_mtbf.value)
    }

    /// The share of capacity that is reclaimed in a month: the job's, or that of the published band.
    pub(crate) fn monthly_reclaims(&self) -> Result<(f64, Option<SpotBand>), JobError> {
        if let Some(share) = self.settings.monthly_reclaims {
            return Ok((share, None));
        }
        let (instance, region) = (&self.machine.cluster.instance, self.region.unwrap_or(DEFAULT_REGION));
        let band = catalog().spot_advisor().band(region, instance).ok_or_else(|| JobError::NoSpotBand {
            instance: instance.clone(),
            region: region.into(),
            regions: catalog().spot_advisor().regions(instance).into_iter().map(Into::into).collect(),
        })?;
        Ok((band.monthly_share(), Some(band)))
    }

    /// What keeps checkpoints, for an hour.
    pub(crate) fn checkpoints_hour(&self) -> Usd {
        let storage = storage();
        let gigabyte_month = match self.settings.storage {
            CheckpointStorage::S3 => storage.s3.price.value,
            CheckpointStorage::Ebs => storage.ebs.price.value,
        };
        Usd(KEPT * self.saved.bytes.as_f64() / 1e9 * gigabyte_month.0 / MONTH_HOURS)
    }

    /// What keeps the data set near the machines, for an hour, as far as its price is known.
    pub(crate) fn copies_hour(&self) -> Usd {
        let gigabytes = match self.copies() {
            Copies::Volumes(Some(size)) => size.as_f64() / 1e9,
            Copies::Volumes(None) | Copies::FileSystem(_) | Copies::Nothing => 0.0,
        };
        Usd(gigabytes * storage().ebs.price.value.0 / MONTH_HOURS)
    }

    /// What is rented to keep the data set near the machines.
    fn copies(&self) -> Copies {
        match (self.input, &self.settings.data) {
            (Some(input), Some(data)) => copies(self.machine, data, input),
            _ => Copies::Nothing,
        }
    }

    /// What keeps the data set of rented machines and is not in the cost.
    pub(crate) fn unpriced_copies(&self) -> Option<String> {
        self.region?;
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
}

pub(super) fn operations() -> &'static Operations {
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
