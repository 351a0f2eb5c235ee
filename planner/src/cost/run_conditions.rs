//! What surrounds the steps of a training, as far as it follows from its machines and from what is saved: starting,
//! saving, breaking, storing.

use crate::problem::{DEFAULT_REGION, Settings};
use trainyard_hardware_profiles::{Operations, Price, SpotBand, Storage, catalog};
use trainyard_plan::document::PriceUsed;
use trainyard_plan::{
    CheckpointStorage, ParallelSpec, Plan, Pricing, StartKind, StateSharding, StorageMode, checkpoint_bytes,
};
use trainyard_sim::campaign::{Hazards, MONTH_HOURS, StartUp, reclaims_per_hour};
use trainyard_sim::{Copies, Machine, copies};
use trainyard_units::{Bytes, BytesPerSecond, Invalid, Seconds, Usd, counted, human_bytes};

/// Number of checkpoints stored: the last one, and the one that is being written.
const KEPT: f64 = 2.0;

/// The checkpoint of a plan, and the ranks that write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Weights, moments and master weights of the whole model, each once.
    pub(crate) bytes: Bytes,
    /// Number of ranks of a replica, each of which writes its own part.
    pub(crate) ranks: u32,
    /// `true` if replicas shard their state, so that each of them writes a part.
    pub(crate) shards_state: bool,
}

/// The machines of a training, and what the job says of its campaign.
#[derive(Clone, Copy)]
pub(crate) struct RunConditions<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) settings: &'a Settings,
    pub(crate) saved: Saved,
    pub(crate) pricing: Pricing,
    /// Where the machines are rented; `None` for owned ones, which may have a price all the same.
    pub(crate) rented: Option<Rented<'a>>,
    /// The storage from which samples are read; `None` if they are assumed to be at hand.
    pub(crate) input: Option<StorageMode>,
}

/// Where machines are rented, and what the table of prices says of reclaims there.
#[derive(Clone, Copy)]
pub(crate) struct Rented<'a> {
    pub(crate) region: &'a str,
    interruptions: Option<SpotBand>,
}

impl<'a> From<&'a Price> for Rented<'a> {
    fn from(price: &'a Price) -> Self {
        Self { region: &price.region, interruptions: price.interruptions }
    }
}

impl<'a> Rented<'a> {
    /// Returns where the machines of a price are rented; `None` for those of a cluster file.
    pub(crate) fn at(price: &'a PriceUsed) -> Option<Self> {
        let interruptions = price.interruptions.as_deref().and_then(SpotBand::named);
        Some(Self { region: price.offered()?.region, interruptions })
    }

    /// Returns the share of an instance type's capacity that is reclaimed in a month, and who says so and when: the
    /// table of prices, else what is published.
    pub(crate) fn band(&self, instance: &str) -> Option<(SpotBand, String)> {
        if let Some(band) = self.interruptions {
            return Some((band, "the table of prices".into()));
        }
        let advisor = catalog().spot_advisor();
        advisor.band(self.region, instance).map(|band| (band, format!("{}, {}", advisor.source, advisor.date)))
    }
}

impl Saved {
    /// Returns the checkpoint of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let shards_state = plan.state_sharding() != StateSharding::None;
        Self { bytes: checkpoint_bytes(plan), ranks: ranks_of_state(plan.mesh().parallel()), shards_state }
    }
}

/// Counts the ranks of a replica, or of replicas that share experts, each of which has its own part of the state.
pub(crate) fn ranks_of_state(parallel: ParallelSpec) -> u32 {
    parallel.tensor * parallel.pipeline * parallel.expert
}

impl<'a> RunConditions<'a> {
    /// Collects the conditions of a plan on machines that are rented, if they are.
    pub(crate) fn of(plan: &Plan, machine: &'a Machine, settings: &'a Settings, rented: Option<Rented<'a>>) -> Self {
        let input = plan.input().map(|input| input.storage);
        Self { machine, settings, saved: Saved::of(plan), pricing: plan.pricing(), rented, input }
    }
}

impl RunConditions<'_> {
    pub(crate) fn instances(&self) -> u32 {
        self.machine.cluster.machines()
    }

    /// Returns `true` if what surrounds the steps is known: of rented machines always, of owned ones where somebody said
    /// how fast checkpoints are written, and not of a measured one, on which that is measured too.
    pub(crate) fn are_known(&self) -> bool {
        let measured = self.machine.cluster.first().device.gpu().is_none();
        self.rented.is_some() || !measured && self.transfer_time().is_ok()
    }

    /// Returns the start-up before the first step of a job, the wait in the queue included. Owned machines are taken to be ready
    /// unless the job says otherwise.
    pub(crate) fn start(&self) -> StartUp {
        let usual = if self.rented.is_some() { StartKind::Cold } else { StartKind::WarmPool };
        let mut start = start_up(self.settings.start.unwrap_or(usual));
        if self.pricing == Pricing::CapacityBlock {
            // Machines of a block are there when it begins, from which its time counts.
            start.machines = Seconds(0.0);
        }
        let software = start.software + self.loading();
        StartUp { queue: self.settings.queue_wait, software, ..start }
    }

    /// Returns the time in which every machine reads the trained weights that training begins with; nothing where the rate of
    /// its storage is not known.
    pub(super) fn loading(&self) -> Seconds {
        let shared = self.machine.cluster.shared_storage;
        let shared = shared.map(|own| BytesPerSecond(own.machine.0.min(own.read.0 / f64::from(self.instances()))));
        let rate = shared.or_else(|| self.object_storage_rate().ok());
        rate.filter(|_| self.settings.weights > Bytes(0)).map_or(Seconds(0.0), |rate| self.settings.weights / rate)
    }

    /// Returns the start-up after a failure, before training resumes: the time until the failure is noticed and the wait in the
    /// queue with a cold start of rented machines, because one is new, or with a start of the framework on machines of one's
    /// own, as if a spare one stood by. If the job says how long it takes, its parts are those of so long a one.
    pub(crate) fn restart(&self) -> StartUp {
        let start = start_up(if self.rented.is_some() { StartKind::Cold } else { StartKind::WarmPool });
        let machines = operations().hang_timeout.value + start.machines;
        let software = start.software + self.loading();
        let usual = StartUp { queue: self.settings.queue_wait, machines, software, ..start };
        self.settings.restart.map_or(usual, |stated| lasting(usual, stated))
    }

    /// Counts the machines that write a part of a checkpoint that no other writes: those of one replica or, if replicas
    /// shard their state, all.
    fn writers(&self) -> u32 {
        if self.saved.shards_state {
            return self.instances();
        }
        let devices = self.machine.cluster.first().devices_per_instance;
        self.saved.ranks.div_ceil(devices).min(self.instances())
    }

    /// Returns the time to write or read a checkpoint, by all machines with a part of it in parallel.
    pub(crate) fn transfer_time(&self) -> Result<Seconds, Invalid> {
        Ok(self.saved.bytes / self.checkpoint_rate()?.0)
    }

    /// Returns the rate at which all machines together write or read a checkpoint, and who says so.
    pub(crate) fn checkpoint_rate(&self) -> Result<(BytesPerSecond, String), Invalid> {
        let (count, each) = (self.writers(), counted(self.writers().into(), "machine"));
        let writers = f64::from(count);
        Ok(match (self.settings.bandwidth, self.machine.cluster.shared_storage, self.settings.storage) {
            (Some(rate), ..) => (rate, "the job".into()),
            (None, Some(shared), _) => {
                let rate = BytesPerSecond((shared.machine.0 * writers).min(shared.write.0));
                (rate, "[shared_storage] of the cluster file".into())
            }
            (None, None, CheckpointStorage::S3) => {
                let machines = self.object_storage_rate()? * writers;
                let (all, one) = (&storage().checkpoints, &storage().checkpoints_of_each);
                let (most, source) = match one.value * writers {
                    several if several > all.value => (several, &one.source),
                    _ => (all.value, &all.source),
                };
                if machines < most {
                    (machines, format!("the S3 rate of {each} with a part of it"))
                } else {
                    (most, source.clone())
                }
            }
            (None, None, CheckpointStorage::Ebs) => {
                (storage().ebs.throughput.value * writers, format!("the rate of a volume at {each} with a part of it"))
            }
        })
    }

    /// Returns the rate at which one machine reads or writes object storage.
    fn object_storage_rate(&self) -> Result<BytesPerSecond, Invalid> {
        let remote = self.machine.cluster.first().host.as_ref().and_then(|host| host.remote).map(|remote| remote.s3);
        remote.ok_or_else(|| {
            let why = "nothing is known of the storage of these machines; write how fast all of them together write, say \
                       \"1 GB/s\"";
            Invalid::missing("campaign.checkpoint_bandwidth", why)
                .with_hint("or describe the file system that all machines mount: [shared_storage] in the cluster file")
        })
    }

    /// Returns the rates of reclaims and failures, if spot instances are reclaimed `scenario` times as often as
    /// published.
    pub(crate) fn hazards(&self, scenario: u32) -> Result<Hazards, Invalid> {
        let reclaims_per_hour = match self.pricing {
            Pricing::Spot => f64::from(scenario) * reclaims_per_hour(self.monthly_reclaims()?.0),
            Pricing::OnDemand | Pricing::Reserved | Pricing::ReservedThreeYears | Pricing::CapacityBlock => 0.0,
        };
        Ok(Hazards { reclaims_per_hour, ..self.failures() })
    }

    /// Returns the rate of failures, without reclaims.
    pub(crate) fn failures(&self) -> Hazards {
        let operations = operations();
        Hazards {
            reclaims_per_hour: 0.0,
            notice: operations.spot_notice.value,
            wait: self.settings.spot_wait.unwrap_or(operations.spot_wait.value),
            failures_per_hour: 3600.0 / self.node_mtbf().0,
        }
    }

    pub(crate) fn node_mtbf(&self) -> Seconds {
        self.settings.node_mtbf.unwrap_or(operations().node_mtbf.value)
    }

    /// Returns the share of capacity that is reclaimed in a month, and who says so: the job, the table of prices, or what
    /// is published.
    pub(crate) fn monthly_reclaims(&self) -> Result<(f64, String), Invalid> {
        if let Some(share) = self.settings.monthly_reclaims {
            return Ok((share, "the job".into()));
        }
        let instance = &self.machine.cluster.instance;
        let rented = self.rented.unwrap_or(Rented { region: DEFAULT_REGION, interruptions: None });
        let (band, source) = rented.band(instance).ok_or_else(|| {
            let region = rented.region;
            let hint = match catalog().spot_advisor().regions(instance).as_slice() {
                [] => "write campaign.monthly_reclaims".into(),
                regions => format!("write campaign.monthly_reclaims, or use one of {}", regions.join(", ")),
            };
            let why = format!("how often spot instances {instance} are reclaimed in {region} is not known");
            Invalid::missing("campaign.monthly_reclaims", why).with_hint(hint)
        })?;
        Ok((band.monthly_share(), format!("band {} of {source}", band.name())))
    }

    /// Returns the price of storing checkpoints for an hour; nothing where storage is not rented.
    pub(crate) fn checkpoints_hour(&self) -> Usd {
        let storage = storage();
        let gigabyte_month = match self.settings.storage {
            _ if self.rented.is_none() => return Usd(0.0),
            CheckpointStorage::S3 => storage.s3.price.value,
            CheckpointStorage::Ebs => storage.ebs.price.value,
        };
        Usd(KEPT * self.saved.bytes.as_f64() / 1e9 * gigabyte_month.0 / MONTH_HOURS)
    }

    /// Returns the price of storing the data set near the machines for an hour, as far as it is known.
    pub(crate) fn copies_hour(&self) -> Usd {
        let gigabytes = match self.copies() {
            Copies::Volumes(Some(size)) => size.as_f64() / 1e9,
            Copies::Volumes(None) | Copies::FileSystem(_) | Copies::Nothing => 0.0,
        };
        Usd(gigabytes * storage().ebs.price.value.0 / MONTH_HOURS)
    }

    /// Returns the storage that is rented to keep the data set near the machines.
    fn copies(&self) -> Copies {
        match (self.input, &self.settings.data) {
            (Some(input), Some(data)) => copies(self.machine, data, input),
            _ => Copies::Nothing,
        }
    }

    /// Names the storage of the data set on rented machines that is missing from the cost, if there is any.
    pub(crate) fn unpriced_copies(&self) -> Option<String> {
        self.rented?;
        match self.copies() {
            Copies::FileSystem(size) => {
                let size = human_bytes(size);
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

pub(crate) fn operations() -> &'static Operations {
    catalog().operations()
}

fn storage() -> &'static Storage {
    catalog().storage()
}

/// Returns a restart like the usual one that takes so long in all. Where jobs wait in a queue, what is longer than the rest of the
/// usual one is spent there; all else keeps its proportions.
fn lasting(usual: StartUp, stated: Seconds) -> StartUp {
    let held = usual.machines + usual.software;
    let queued = if usual.queue > Seconds(0.0) { (stated.0 - held.0).max(0.0) } else { 0.0 };
    let share = (stated.0 - queued) / held.0;
    let part = |usual: Seconds| Seconds(usual.0 * share);
    StartUp { queue: Seconds(queued), machines: part(usual.machines), software: part(usual.software), ..usual }
}

/// Returns the phases of a start-up.
fn start_up(kind: StartKind) -> StartUp {
    let operations = operations();
    let phases = match kind {
        StartKind::Cold => &operations.cold,
        StartKind::WarmPool => &operations.warm_pool,
    };
    StartUp {
        queue: Seconds(0.0),
        machines: phases.machines.value,
        software: phases.image.value + phases.framework.value,
        spread: operations.start_spread.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten minutes until a failure is noticed, five of machines and software, and an hour in the queue or none.
    #[test]
    fn a_stated_restart_has_the_parts_of_the_usual_one() {
        let usual = |queue: f64| StartUp {
            queue: Seconds(queue),
            machines: Seconds(750.0),
            software: Seconds(150.0),
            spread: 0.4,
        };
        let parts = |queue: f64, stated: f64| {
            let restart = lasting(usual(queue), Seconds(stated));
            assert!((restart.total().0 - stated).abs() < 1e-9, "{restart:?}");
            [restart.queue, restart.machines, restart.software].map(|part| part.0)
        };
        for queue in [0.0, 3_600.0] {
            assert_eq!(lasting(usual(queue), usual(queue).total()), usual(queue));
            // As if a spare machine stood by: the job is not queued again.
            assert_eq!(parts(queue, 90.0).map(f64::to_bits), [0.0, 75.0, 15.0].map(f64::to_bits));
        }
        assert_eq!(parts(3_600.0, 8_100.0).map(f64::to_bits), [7_200.0, 750.0, 150.0].map(f64::to_bits));
        assert_eq!(parts(0.0, 1_800.0).map(f64::to_bits), [0.0, 1_500.0, 300.0].map(f64::to_bits));
    }
}
