//! The way of samples to the devices: from storage, through what decodes them, over PCIe, into the step.
//!
//! Each machine has three stages of loading, one batch at a time in each, and the step is the fourth, which all
//! machines share. How long a stage takes for the samples of one step follows from rates ([`LoaderRates::new`]); when
//! batches pass from one to the next follows from a recursion (`line`). Nothing here is part of the step that the
//! engine simulates: the step is one stage here, of the length that the engine found.

mod copies;
mod decode;
mod line;
mod stall;
mod store;

pub use copies::{Copies, copies};
pub use decode::image_decoding;
pub use stall::{InputStall, StageTimes};

use crate::cost::device_costs;
use crate::layout::Layout;
use crate::machine::Machine;
use decode::{Sample, seconds_per_sample};
use std::collections::BTreeMap;
use store::{Reading, Store, bytes, least};
use trainyard_hardware_profiles::{Gpu, Host, Pool, Processors, Remote, SharedStorage, Storage, catalog};
use trainyard_plan::{Cache, Coordinates, DecodePlace, InputSpec, Mesh, SampleFormat, StorageMode};
use trainyard_units::{Bytes, BytesPerSecond, Invalid, Seconds, human_bytes};

/// Bytes of a file where nobody says how many there are. A stated default: the size of shards that tools write.
const FILE_BYTES: f64 = (128_u64 << 20) as f64;

/// The part of main memory that a cache may take. A stated default.
const CACHED_SHARE: u64 = 2;

/// What to do where GPUs have no JPEG engine. NVIDIA DALI decodes there too, by multiprocessors that then train less and by
/// processors; no rate was found that comes with the parts of both.
const NO_ENGINE: &str = "A100, H100 and H200 have one; otherwise decode on the cpu. NVIDIA DALI's `mixed` decoder shares \
                         processors and multiprocessors of other GPUs with the training: `what-if --vary \
                         gpu.jpeg_decode=0.3GB/s` supposes the rate that you measured";

/// How disks of machines of one's own are told.
const OWN_DISKS: &str = "machines.host.disk and disk_bandwidth of the cluster file";

/// What to do where machines of one's own have no room for a data set.
const OWN_STREAM: &str = "read it from a file system that all machines mount: [shared_storage] in the cluster file";

/// How a file system of one's own is told.
const OWN_SHARED: &str = "[shared_storage] in the cluster file";

/// A data set as it is stored, and what was rented to keep it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSet {
    /// Samples of one pass, if it is known.
    pub samples: Option<u64>,
    /// Mean bytes of a sample as stored; above 0.
    pub bytes_per_sample: f64,
    /// Standard deviation of these bytes from sample to sample.
    pub bytes_deviation: f64,
    /// Bytes of a sample that training gets.
    pub decoded_bytes: f64,
    /// The format that has to be decoded.
    pub format: SampleFormat,
    /// Files that hold it.
    pub files: Option<u64>,
    /// Throughput of a shared file system for each TiB, one of those that are sold.
    pub fsx_throughput: BytesPerSecond,
    /// Its size; the least that holds the data set if nobody says.
    pub fsx_size: Option<Bytes>,
    /// Throughput of each machine's volume.
    pub ebs_throughput: BytesPerSecond,
    /// Size of each machine's volume; as large as the data set if nobody says.
    pub volume: Option<Bytes>,
}

impl DataSet {
    pub fn bytes(&self) -> Option<Bytes> {
        Some(bytes(self.samples? as f64 * self.bytes_per_sample))
    }

    /// Returns the requests to S3 with which one sample is read: one for each file, or for each part of a large one.
    fn requests_per_sample(&self, part: Bytes) -> f64 {
        let files = self.files_per_sample();
        files * (self.bytes_per_sample / files / part.as_f64()).ceil().max(1.0)
    }

    fn files_per_sample(&self) -> f64 {
        match (self.files, self.samples) {
            (Some(files), Some(samples)) => files as f64 / samples.max(1) as f64,
            _ => (self.bytes_per_sample / FILE_BYTES).min(1.0),
        }
    }
}

/// The samples of one step, and which ranks read them: the first of each replica reads for all that share them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intake {
    /// Where ranks stand.
    pub mesh: Mesh,
    /// Samples of a step.
    pub global_batch: u64,
    /// Samples that a replica computes, and a worker loads, at once.
    pub micro_batch: u64,
}

/// Times of bringing in the samples of a step on each machine, the step itself apart.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderRates {
    /// Machines that read the same in the same way.
    kinds: Vec<Kind>,
    global_batch: u64,
    /// Samples of one pass.
    data_samples: Option<u64>,
    prefetch: u32,
    /// Samples of the largest micro-batch that loaders have room ahead for.
    largest_micro_batch: u64,
    /// Standard deviation of a sample's bytes over their mean.
    deviation: f64,
    /// The download before the first step.
    download: Seconds,
    requests: Requests,
}

/// Requests that read objects of S3.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Requests {
    /// Before the first step, of all machines.
    before: f64,
    /// For each sample while the data set is read for the first time.
    first: f64,
    /// For each sample afterwards.
    later: f64,
}

/// Machines that read the same in the same way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    /// A step's samples while the data set is read for the first time.
    first: StageTimes,
    /// The same afterwards.
    later: StageTimes,
    /// Samples of a step that each of them reads.
    samples: f64,
    machines: u32,
}

/// The readers on one machine: how many share each PCIe switch.
type Readers = BTreeMap<u32, u32>;

impl LoaderRates {
    /// Returns the times in which `machine` brings in the samples of `intake` as `input` says.
    ///
    /// # Errors
    ///
    /// When the machine does not have what the input wants, or something does not fit.
    pub fn new(intake: Intake, machine: &Machine, data: &DataSet, input: InputSpec) -> Result<Self, Invalid> {
        Self::of_readers(&readers(intake.mesh, machine), intake, machine, data, input)
    }

    /// Returns the times for each of several inputs.
    pub fn of_each(
        intake: Intake,
        machine: &Machine,
        data: &DataSet,
        inputs: impl IntoIterator<Item = InputSpec>,
    ) -> impl Iterator<Item = (InputSpec, Result<Self, Invalid>)> {
        let readers = readers(intake.mesh, machine);
        inputs.into_iter().map(move |input| (input, Self::of_readers(&readers, intake, machine, data, input)))
    }

    fn of_readers(
        readers: &BTreeMap<(usize, Readers), u32>,
        intake: Intake,
        machine: &Machine,
        data: &DataSet,
        input: InputSpec,
    ) -> Result<Self, Invalid> {
        let each = intake.global_batch as f64 / f64::from(intake.mesh.data());
        let mut supply = Self {
            kinds: Vec::new(),
            global_batch: intake.global_batch,
            data_samples: data.samples,
            prefetch: input.prefetch,
            largest_micro_batch: u64::MAX,
            deviation: data.bytes_deviation / data.bytes_per_sample,
            download: Seconds::ZERO,
            requests: Requests::default(),
        };
        for ((pool, switches), machines) in readers {
            let pool = &machine.cluster.pools[*pool];
            let loaders = switches.values().sum();
            let samples = each * f64::from(loaders);
            let shared = machine.cluster.shared_storage;
            let site = Site::new((pool, shared), data, input, (samples, loaders))?;
            site.has_room_ahead(intake.micro_batch)?;
            supply.largest_micro_batch = supply.largest_micro_batch.min(site.largest_micro_batch());
            let rest = intake.global_batch as f64 / samples;
            let (decode, copy) = (site.decode()?, site.copy(switches));
            let times = |read| StageTimes { read, decode, copy };
            let (first, later) = (times(site.read(rest)?), times(site.read_again(rest)?));
            supply.kinds.push(Kind { first, later, samples, machines: *machines });
            supply.download = supply.download.max(site.download(machine.cluster.machines())?);
            supply.requests = site.requests(machine.cluster.machines());
        }
        Ok(supply)
    }
}

/// Counts the machines of each pool that read, by the ranks that read on each of their PCIe switches.
fn readers(mesh: Mesh, machine: &Machine) -> BTreeMap<(usize, Readers), u32> {
    let layout = Layout { mesh, cluster: &machine.cluster };
    let mut all: BTreeMap<u32, Readers> = BTreeMap::new();
    for data in 0..mesh.data() {
        let position = layout.position(mesh.rank(Coordinates { data, tensor: 0, pipeline: 0, context: 0 }));
        let host = machine.cluster.pool_of(position.instance).host.as_ref();
        let switch = position.slot / host.map_or(1, |host| host.pcie.devices_per_switch);
        *all.entry(position.instance).or_default().entry(switch).or_insert(0) += 1;
    }
    let mut kinds = BTreeMap::new();
    for (instance, switches) in all {
        *kinds.entry((machine.cluster.pool_index(instance), switches)).or_insert(0) += 1;
    }
    kinds
}

/// One machine with what it reads in a step.
struct Site<'a> {
    pool: &'a Pool,
    host: &'a Host,
    /// The file system of one's own.
    shared: Option<SharedStorage>,
    processors: Processors,
    storage: &'static Storage,
    data: &'a DataSet,
    input: InputSpec,
    /// Samples of a step.
    samples: f64,
    /// Ranks that read.
    loaders: u32,
}

/// The GPU of machines whose loading is not inside their measurements.
fn gpu(pool: &Pool) -> Result<&Gpu, Invalid> {
    pool.device.gpu().ok_or_else(|| {
        let rule = format!(
            "it is for machines that a catalog or a cluster file describes, not for the measured machine `{}`",
            pool.name
        );
        let hint = "leave it out: its steps were measured with their input";
        Invalid::breaks("data.bytes_per_sample", "set", rule).with_hint(hint)
    })
}

fn unknown_size(why: &str) -> Invalid {
    Invalid::missing("data.samples", format!("{why}; data.tokens tells as much"))
}

/// A size that is no less when it is written with three digits.
fn with_room(needed: Bytes) -> Bytes {
    Bytes(needed.0 + needed.0 / 64)
}

impl<'a> Site<'a> {
    fn new(
        (pool, shared): (&'a Pool, Option<SharedStorage>),
        data: &'a DataSet,
        input: InputSpec,
        (samples, loaders): (f64, u32),
    ) -> Result<Self, Invalid> {
        gpu(pool)?;
        let unknown = || {
            let why = format!("processors read and decode the samples, and those of `{}` are not known", pool.name);
            let hint = "write the processors of one machine as `vcpus` in `[machines.host]` of the cluster file";
            Invalid::missing("machines.host.vcpus", why).with_hint(hint)
        };
        let host = pool.host.as_ref().ok_or_else(unknown)?;
        let processors = host.processors.ok_or_else(unknown)?;
        let storage = catalog().storage();
        let site = Self { pool, host, shared, processors, storage, data, input, samples, loaders };
        site.keeps()?;
        Ok(site)
    }

    /// Refuses more micro-batches ahead than main memory holds: each worker of a replica loads some, and one is at hand
    /// (PyTorch 2, `torch.utils.data.DataLoader`: `prefetch_factor` batches of each of `num_workers`).
    fn has_room_ahead(&self, micro_batch: u64) -> Result<(), Invalid> {
        let ahead = bytes(micro_batch as f64 * self.ahead_of_each());
        self.holds("input.prefetch", ("loading ahead", "main memory"), ahead, self.host.memory, |_| {
            "a smaller `prefetch` takes less".into()
        })
    }

    /// Returns the bytes ahead for each sample of a micro-batch.
    fn ahead_of_each(&self) -> f64 {
        let batches = f64::from(self.input.workers) * f64::from(self.input.prefetch) + 1.0;
        f64::from(self.loaders) * batches * self.data.decoded_bytes
    }

    fn largest_micro_batch(&self) -> u64 {
        (self.host.memory.as_f64() / self.ahead_of_each()) as u64
    }

    fn holds(
        &self,
        field: &str,
        (what, place): (&str, &str),
        needed: Bytes,
        available: Bytes,
        hint: impl Fn(Bytes) -> String,
    ) -> Result<(), Invalid> {
        if needed <= available {
            return Ok(());
        }
        let [needs, has] = [needed, available].map(human_bytes);
        let problem = format!("{what} takes {needs}, but {place} of `{}` has {has}", self.pool.name);
        Err(Invalid::inside(field, problem).with_hint(hint(needed)))
    }

    /// Refuses a store that does not hold all of the data set: every pass is shuffled over all machines.
    fn keeps_all(&self, field: &str, store: Cache) -> Result<(), Invalid> {
        let (place, available) = match store {
            Cache::None => return Ok(()),
            Cache::Memory => ("half of main memory", self.memory()),
            Cache::Nvme if self.host.disk.0 == 0 => {
                let rule = format!("`{}` has no local disk", self.pool.name);
                let rented = "g4dn, g5, g6, p3dn, p4d and p5 instances have local disks";
                let hint = if self.host.remote.is_some() { rented } else { OWN_DISKS };
                return Err(Invalid::breaks(field, "nvme", rule).with_hint(hint));
            }
            Cache::Nvme => ("the local disk", self.host.disk),
        };
        let needed = self.data.bytes().ok_or_else(|| unknown_size("a machine has to hold the data set"))?;
        let stream = |_| {
            (if self.host.remote.is_some() { "stream it with s3-fastfile or fsx-lustre" } else { OWN_STREAM }).into()
        };
        self.holds(field, ("the data set", place), needed, available, stream)
    }

    fn memory(&self) -> Bytes {
        Bytes(self.host.memory.0 / CACHED_SHARE)
    }

    fn keeps(&self) -> Result<(), Invalid> {
        let (storage, cache) = (self.input.storage, self.input.cache);
        let there = match storage {
            StorageMode::Memory => cache != Cache::None,
            StorageMode::Nvme => cache == Cache::Nvme,
            StorageMode::S3File => cache == Cache::Nvme && self.downloads_to_disk(),
            _ => false,
        };
        if there {
            let rule = format!("`input.storage` {storage} already keeps samples there");
            return Err(Invalid::breaks("input.cache", cache, rule).with_hint("set `cache` to none"));
        }
        self.keeps_all("input.cache", cache)?;
        match storage {
            StorageMode::Nvme => self.keeps_all("input.storage", Cache::Nvme),
            StorageMode::Memory => self.keeps_all("input.storage", Cache::Memory),
            StorageMode::S3File if self.downloads_to_disk() => self.keeps_all("input.storage", Cache::Nvme),
            StorageMode::S3File | StorageMode::Ebs => self.volume_holds(),
            StorageMode::FsxLustre => self.file_system_holds(),
            StorageMode::S3FastFile | StorageMode::S3Pipe | StorageMode::Shared => Ok(()),
        }
    }

    fn downloads_to_disk(&self) -> bool {
        self.data.downloads_to_disk(self.host)
    }

    fn volume_holds(&self) -> Result<(), Invalid> {
        let (Some(volume), Some(needed)) = (self.data.volume, self.data.bytes()) else { return Ok(()) };
        let enough = |needed| format!("a `data.volume` of {} holds it", human_bytes(with_room(needed)));
        self.holds("data.volume", ("the data set", "the volume"), needed, volume, enough)
    }

    fn file_system_holds(&self) -> Result<(), Invalid> {
        let (Some(size), Some(needed)) = (self.data.fsx_size, self.data.bytes()) else { return Ok(()) };
        let enough =
            |needed| format!("a `data.fsx_size` of {} holds it", human_bytes(self.storage.fsx.size_for(needed)));
        self.holds("data.fsx_size", ("the data set", "the file system"), needed, size, enough)
    }

    fn remote(&self) -> Result<Remote, Invalid> {
        self.host.remote.ok_or_else(|| {
            let rule = format!("`{}` is not a rented instance that reaches it", self.pool.name);
            let hint =
                format!("use shared-storage for a file system that all machines mount ({OWN_SHARED}), nvme for its own disks ({OWN_DISKS}), or memory");
            Invalid::breaks("input.storage", self.input.storage, rule).with_hint(hint)
        })
    }

    /// Reading a step's samples for the first time. All machines together read `rest` times what this one does.
    fn read(&self, rest: f64) -> Result<Seconds, Invalid> {
        Ok(self.store(false)?.seconds(self.reading(rest)))
    }

    /// The same after the first pass.
    fn read_again(&self, rest: f64) -> Result<Seconds, Invalid> {
        let store = match self.input.cache {
            Cache::None => self.store(true)?,
            Cache::Memory => self.main_memory(),
            Cache::Nvme => self.disk(),
        };
        Ok(store.seconds(self.reading(rest)))
    }

    fn reading(&self, rest: f64) -> Reading {
        Reading {
            bytes: self.samples * self.data.bytes_per_sample,
            files: self.samples * self.data.files_per_sample(),
            readers: self.input.workers.saturating_mul(self.loaders),
            machines: rest,
            shared_requests: matches!(self.input.storage, StorageMode::S3FastFile | StorageMode::S3Pipe),
        }
    }

    fn store(&self, read_before: bool) -> Result<Store, Invalid> {
        Ok(match self.input.storage {
            StorageMode::S3FastFile => {
                let s3 = &self.storage.s3;
                Store {
                    machine: Some(self.remote()?.s3),
                    reader: Some(s3.connection.value),
                    latency: s3.latency.value,
                    requests: Some(s3.requests.value),
                    shared: None,
                }
            }
            // Objects are fetched before they are wanted, with as many connections as it takes.
            StorageMode::S3Pipe => Store {
                machine: Some(self.remote()?.s3),
                requests: Some(self.storage.s3.requests.value),
                ..Store::default()
            },
            StorageMode::FsxLustre => self.file_system(read_before)?,
            StorageMode::Shared => self.shared()?,
            StorageMode::S3File if self.downloads_to_disk() => self.disk(),
            StorageMode::S3File | StorageMode::Ebs => self.volume()?,
            StorageMode::Nvme => self.disk(),
            StorageMode::Memory => self.main_memory(),
        })
    }

    fn file_system(&self, read_before: bool) -> Result<Store, Invalid> {
        let fsx = &self.storage.fsx;
        let tier = fsx.tier(self.data.fsx_throughput).expect("the throughput of a data set is one that is sold");
        let all = self.data.bytes().unwrap_or(fsx.smallest.value);
        let size = self.data.file_system_size();
        // What was read before may still be in the memory of the file system; what was not, is not.
        let wanted = if read_before { all } else { size };
        Ok(Store {
            machine: Some(self.remote()?.network),
            shared: Some(tier.rate(size, wanted)),
            latency: fsx.open.value,
            ..Store::default()
        })
    }

    fn shared(&self) -> Result<Store, Invalid> {
        let SharedStorage { read, machine, open, .. } = self.shared.ok_or_else(|| {
            let rule = format!("`{}` has no file system of your own", self.pool.name);
            let rented = "fsx-lustre is the shared file system of rented machines";
            let hint = if self.host.remote.is_some() { rented.into() } else { format!("describe it as {OWN_SHARED}") };
            Invalid::breaks("input.storage", StorageMode::Shared, rule).with_hint(hint)
        })?;
        Ok(Store { machine: Some(machine), shared: Some(read), latency: open, ..Store::default() })
    }

    fn volume(&self) -> Result<Store, Invalid> {
        let ebs = &self.storage.ebs;
        Ok(Store {
            machine: Some(least(self.remote()?.ebs, self.data.ebs_throughput)),
            latency: ebs.latency.value,
            requests: Some(ebs.requests.value),
            ..Store::default()
        })
    }

    fn disk(&self) -> Store {
        let rate = Some(self.host.disk_bandwidth).filter(|rate| rate.0 > 0.0);
        Store { machine: rate, latency: self.storage.local.open.value, ..Store::default() }
    }

    fn main_memory(&self) -> Store {
        Store { machine: Some(self.host.memory_bandwidth), ..Store::default() }
    }

    /// Returns the requests to S3 on so many machines, each of which downloads all samples or reads its own part of each pass;
    /// a file system in front of a bucket reads each object once.
    fn requests(&self, machines: u32) -> Requests {
        let each = self.data.requests_per_sample(self.storage.s3.part.value);
        let later = if self.input.cache == Cache::None { each } else { 0.0 };
        match self.input.storage {
            StorageMode::S3FastFile | StorageMode::S3Pipe => Requests { before: 0.0, first: each, later },
            StorageMode::FsxLustre => Requests { before: 0.0, first: each, later: 0.0 },
            StorageMode::S3File => {
                let all = self.data.samples.unwrap_or(0) as f64 * each;
                Requests { before: all * f64::from(machines), ..Requests::default() }
            }
            StorageMode::Shared | StorageMode::Ebs | StorageMode::Nvme | StorageMode::Memory => Requests::default(),
        }
    }

    fn decode(&self) -> Result<Seconds, Invalid> {
        match self.input.decode {
            DecodePlace::Cpu => {
                let sample = Sample {
                    stored: self.data.bytes_per_sample,
                    decoded: self.data.decoded_bytes,
                    format: self.data.format,
                };
                let each =
                    seconds_per_sample(catalog().loader(), self.processors, self.loaders, self.input.workers, sample);
                Ok(each * (self.samples / f64::from(self.loaders)))
            }
            DecodePlace::Gpu => {
                let rate = self.engine()?;
                Ok(Seconds(self.samples * self.data.bytes_per_sample / (rate.0 * f64::from(self.loaders))))
            }
        }
    }

    /// The JPEG engines of one GPU.
    fn engine(&self) -> Result<BytesPerSecond, Invalid> {
        let gpu = gpu(self.pool)?;
        let wrong = |rule, hint: &str| Invalid::breaks("input.decode", "gpu", rule).with_hint(hint);
        if self.data.format != SampleFormat::Jpeg {
            let rule = format!("`data.format` is {}, which GPUs do not decode", self.data.format);
            return Err(wrong(rule, "decode on the cpu"));
        }
        let engine = gpu.jpeg_decode.as_ref().ok_or_else(|| {
            let rule = format!("`{}` has no JPEG engine that is known", gpu.name);
            wrong(rule, NO_ENGINE)
        })?;
        Ok(engine.value)
    }

    /// The time of copies to devices: those of a switch share its uplink, each at its own rate.
    fn copy(&self, switches: &Readers) -> Seconds {
        let sample = match self.input.decode {
            DecodePlace::Cpu => self.data.decoded_bytes,
            DecodePlace::Gpu => self.data.bytes_per_sample,
        };
        let each = self.samples / f64::from(self.loaders) * sample;
        let busiest = switches.values().copied().max().unwrap_or(1);
        let uplink = each * f64::from(busiest) / self.host.pcie.uplink.0;
        Seconds(uplink.max(each / device_costs(&self.pool.device).host_bandwidth().0))
    }

    /// The download before the first step: in File mode all of the data set on every machine, in FastFile mode the list
    /// of its objects.
    fn download(&self, machines: u32) -> Result<Seconds, Invalid> {
        let s3 = &self.storage.s3;
        let samples = || self.data.samples.ok_or_else(|| unknown_size("the data set is downloaded"));
        match self.input.storage {
            StorageMode::S3File => {
                let samples = samples()? as f64;
                let from = self.remote()?.s3;
                let to = if self.downloads_to_disk() { self.disk() } else { self.volume()? };
                let connections = (from.0 / s3.connection.value.0).ceil().max(1.0);
                let download = Store {
                    machine: Some(to.machine.map_or(from, |to| least(from, to))),
                    reader: Some(s3.connection.value),
                    latency: s3.latency.value,
                    requests: Some(s3.requests.value),
                    shared: None,
                };
                Ok(download.seconds(Reading {
                    bytes: samples * self.data.bytes_per_sample,
                    files: samples * self.data.files_per_sample(),
                    readers: connections as u32,
                    machines: f64::from(machines),
                    shared_requests: true,
                }))
            }
            StorageMode::S3FastFile => {
                let files = self.data.samples.unwrap_or(0) as f64 * self.data.files_per_sample();
                Ok(s3.latency.value * (files / s3.listed.value).ceil())
            }
            _ => Ok(Seconds::ZERO),
        }
    }
}

#[cfg(test)]
mod tests;
