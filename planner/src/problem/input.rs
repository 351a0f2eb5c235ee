//! The data of a job: from what a person wrote to how samples are brought in.

use super::stored::{Samples, Stored, stored};
use super::training::epoch;
use trainyard_hardware_profiles::{Storage, catalog};
use trainyard_models::{Model, Sample};
use trainyard_plan::{
    BatchSpec, Cache, DataSpec, DecodePlace, Fixed, INPUT_COUNT_MAX, InputSpec, JobSpec, Mesh, ParallelSpec, Placement,
    SampleFormat, StorageMode,
};
use trainyard_sim::{DataSet, Intake, LoaderRates, Machine};
use trainyard_units::{Bytes, Invalid, Seconds, human_count};

/// Batches to prefetch if the job does not say. A stated default: that of PyTorch's `DataLoader`, for each worker.
const PREFETCH: u32 = 2;

const BYTES_MAX: f64 = 1e15;

const FILES_MAX: u64 = 1_000_000_000_000_000;

/// The part of the training time that an input must save to be preferred to a simpler one.
const WORTHWHILE: f64 = 0.01;

/// Bytes of a token as training reads it, and of a value of an image.
const TOKEN_BYTES: f64 = 8.0;

const PIXEL_BYTES: f64 = 4.0;

/// The data set of a job, and how the job wants it loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Data {
    /// As it is stored.
    pub set: DataSet,
    /// The fields of the input that the job holds.
    pub held: InputChoice,
    /// `true` if the job says nothing of its samples, so that they are taken to be those of the model's usual data set.
    pub assumed: bool,
}

/// The fields of an input that are held; the search chooses the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputChoice {
    /// The storage from which samples are read.
    pub storage: Option<StorageMode>,
    /// The device that decodes samples: CPU or GPU.
    pub decode: Option<DecodePlace>,
    /// Processes for one replica.
    pub workers: Option<u32>,
    /// Batches ahead.
    pub prefetch: Option<u32>,
    /// The cache of samples.
    pub cache: Option<Cache>,
}

/// Returns the data set that a job describes; `None` if its samples are assumed to be at hand, or if nothing is known
/// of them.
///
/// # Errors
///
/// When a field is out of range or contradicts another.
pub(crate) fn data(job: &JobSpec, model: &Model, samples: Option<u64>) -> Result<Option<Data>, Invalid> {
    let spec = &job.data;
    let Stored::As(Samples { bytes, deviation, format: usual, count, assumed }) = stored(job, model)? else {
        return Ok(None);
    };
    if !(1.0..=BYTES_MAX).contains(&bytes) {
        return Err(Invalid::value("data.bytes_per_sample", bytes, "from 1 to 1e15"));
    }
    let bytes_deviation = spec.bytes_deviation.unwrap_or(deviation);
    if !(0.0..=bytes).contains(&bytes_deviation) {
        return Err(Invalid::value("data.bytes_deviation", bytes_deviation, "from 0 to data.bytes_per_sample"));
    }
    let samples = samples.or(count);
    counts(spec, samples)?;
    let storage = catalog().storage();
    provisioned(spec, storage)?;
    let set = DataSet {
        samples,
        bytes_per_sample: bytes,
        bytes_deviation,
        decoded_bytes: decoded_bytes(model, bytes),
        format: format(spec, usual, model)?,
        files: spec.files,
        fsx_throughput: spec.fsx_throughput.unwrap_or(storage.fsx.tiers[0].throughput.value),
        fsx_size: spec.fsx_size,
        ebs_throughput: spec.ebs_throughput.unwrap_or(storage.ebs.throughput.value),
        volume: spec.volume,
    };
    let DataSpec { storage, decode, workers, prefetch, cache, .. } = *spec;
    Ok(Some(Data { set, held: InputChoice { storage, decode, workers, prefetch, cache }, assumed }))
}

fn counts(spec: &DataSpec, samples: Option<u64>) -> Result<(), Invalid> {
    if let Some(workers) = spec.workers.filter(|workers| !(1..=INPUT_COUNT_MAX).contains(workers)) {
        return Err(Invalid::range("data.workers", workers, 1..=INPUT_COUNT_MAX));
    }
    if let Some(prefetch) = spec.prefetch.filter(|prefetch| *prefetch > INPUT_COUNT_MAX) {
        return Err(Invalid::range("data.prefetch", prefetch, 0..=INPUT_COUNT_MAX));
    }
    let most = samples.unwrap_or(FILES_MAX);
    match spec.files.filter(|files| !(1..=most).contains(files)) {
        None => Ok(()),
        Some(files) => {
            Err(Invalid::value("data.files", files, format!("from 1 to {most}, the samples that there are")))
        }
    }
}

/// Checks rented storage for the data set: it must be for sale, and samples must be readable from it.
fn provisioned(spec: &DataSpec, storage: &Storage) -> Result<(), Invalid> {
    let unused = |first, wanted: &[StorageMode], rule| match spec.storage {
        Some(other) if !wanted.contains(&other) => Err(Invalid::conflict(first, "data.storage", rule)),
        _ => Ok(()),
    };
    let lustre = "it is for fsx-lustre";
    if let Some(throughput) = spec.fsx_throughput {
        unused("data.fsx_throughput", &[StorageMode::FsxLustre], lustre)?;
        if storage.fsx.tier(throughput).is_none() {
            let sold: Vec<String> = storage.fsx.tiers.iter().map(|tier| tier.throughput.value.to_string()).collect();
            return Err(Invalid::value(
                "data.fsx_throughput",
                throughput,
                format!("one of {} for each TiB", sold.join(", ")),
            ));
        }
    }
    if let Some(size) = spec.fsx_size {
        unused("data.fsx_size", &[StorageMode::FsxLustre], lustre)?;
        if !storage.fsx.is_sold(size) {
            return Err(Invalid::value("data.fsx_size", size, "1.2 TiB or a multiple of 2.4 TiB"));
        }
    }
    let volumes = [StorageMode::Ebs, StorageMode::S3File];
    let volume = "it is for ebs and s3-file";
    if let Some(throughput) = spec.ebs_throughput {
        unused("data.ebs_throughput", &volumes, volume)?;
        let (least, most) = (storage.ebs.throughput.value, storage.ebs.most.value);
        if !(least.0..=most.0).contains(&throughput.0) {
            // As they are sold.
            let [least, most] = [least, most].map(|rate| human_count((rate.0 / f64::from(1 << 20)).round() as u64));
            return Err(Invalid::value("data.ebs_throughput", throughput, format!("from {least} to {most} MiB/s")));
        }
    }
    match spec.volume {
        None => Ok(()),
        Some(Bytes(0)) => Err(Invalid::value("data.volume", "0 B", "above 0")),
        Some(_) => unused("data.volume", &volumes, volume),
    }
}

/// Returns the format of the samples: the job's, the data set's, or the usual one of what the model reads.
fn format(spec: &DataSpec, of_set: Option<SampleFormat>, model: &Model) -> Result<SampleFormat, Invalid> {
    let sample = model.sample();
    let usual = match sample {
        Sample::Tokens(_) => SampleFormat::Tokens,
        Sample::Image(_) => SampleFormat::Jpeg,
        Sample::Volume(_) | Sample::Sound | Sample::Record => SampleFormat::Raw,
    };
    let format = spec.format.or(of_set).unwrap_or(usual);
    let fits = match format {
        SampleFormat::Tokens => matches!(sample, Sample::Tokens(_)),
        SampleFormat::Jpeg => matches!(sample, Sample::Image(_)),
        SampleFormat::Raw | SampleFormat::Npz => true,
    };
    if fits {
        return Ok(format);
    }
    let rule = "tokens are for models that read them, jpeg for those that see images";
    Err(Invalid::conflict("data.format", "model", rule))
}

/// Returns the bytes of a sample as training reads it: tokens as 64-bit integers, images as single-precision values;
/// other samples as they are stored.
fn decoded_bytes(model: &Model, stored: f64) -> f64 {
    match model.sample() {
        Sample::Tokens(tokens) => tokens as f64 * TOKEN_BYTES,
        Sample::Image(values) | Sample::Volume(values) => values as f64 * PIXEL_BYTES,
        Sample::Sound | Sample::Record => stored,
    }
}

impl InputChoice {
    /// Returns the held fields of the search and the job; those of the search come first.
    fn under(self, fixed: &Fixed) -> Self {
        Self {
            storage: fixed.input_storage.or(self.storage),
            decode: fixed.input_decode.or(self.decode),
            workers: fixed.input_workers.or(self.workers),
            prefetch: fixed.input_prefetch.or(self.prefetch),
            cache: fixed.input_cache.or(self.cache),
        }
    }

    /// Lists every input with the held fields, the simpler and cheaper first. Data that a machine has already is not
    /// chosen: a job says so if its samples are there. Nor is decoding by GPUs: no loader does it by itself, so that a script
    /// has to be written for it.
    fn options(self, machine: &Machine, data: &DataSet, replicas: u32) -> Vec<InputSpec> {
        fn each<T: Copy>(held: Option<T>, open: &[T]) -> Vec<T> {
            held.map_or_else(|| open.to_vec(), |held| vec![held])
        }
        let host = machine.cluster.first().host.as_ref();
        let rented = host.is_some_and(|host| host.remote.is_some());
        // A stream of all files one behind the other tells nothing of where a sample ends that is a file.
        let streams = data.files.zip(data.samples).is_none_or(|(files, samples)| files.saturating_mul(2) <= samples);
        let storages: &[StorageMode] = if rented && streams {
            &[StorageMode::S3FastFile, StorageMode::S3Pipe, StorageMode::S3File, StorageMode::FsxLustre]
        } else if rented {
            &[StorageMode::S3FastFile, StorageMode::S3File, StorageMode::FsxLustre]
        } else if machine.cluster.shared_storage.is_some() {
            &[StorageMode::Shared]
        } else {
            &[StorageMode::Nvme, StorageMode::Memory]
        };
        let processors = host.and_then(|host| host.processors).map_or(1, |processors| processors.vcpus);
        let share = processors / replicas.div_ceil(machine.cluster.machines()).max(1);
        let workers = self.workers.unwrap_or(share.clamp(1, INPUT_COUNT_MAX));
        let prefetch = self.prefetch.unwrap_or(PREFETCH);
        let decode = self.decode.unwrap_or(DecodePlace::Cpu);
        let mut all = Vec::new();
        for storage in each(self.storage, storages) {
            for cache in each(self.cache, Cache::ALL) {
                all.push(InputSpec { storage, decode, workers, prefetch, cache });
            }
        }
        all
    }
}

impl Data {
    /// Lists the ways of loading samples that the machines allow, each with its supply, the simplest first.
    ///
    /// # Errors
    ///
    /// When the machines allow none: the reason against the first.
    pub(crate) fn supplies(
        &self,
        fixed: &Fixed,
        machine: &Machine,
        parallel: ParallelSpec,
        batch: BatchSpec,
    ) -> Result<Vec<(InputSpec, LoaderRates)>, Invalid> {
        let mesh = Mesh::new(parallel, fixed.placement.unwrap_or(Placement::Cluster), None);
        // Plans with other micro-batches share what is found here, and each asks for its own room.
        let intake = Intake { mesh, global_batch: batch.global, micro_batch: 1 };
        let (mut there, mut refused) = (Vec::new(), None);
        let inputs = self.held.under(fixed).options(machine, &self.set, parallel.data);
        for (input, rates) in LoaderRates::of_each(intake, machine, &self.set, inputs) {
            match rates {
                Ok(supply) => there.push((input, supply.of_equal_samples())),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if there.is_empty() => Err(error),
            _ => Ok(there),
        }
    }

    /// Returns the reason why one machine cannot load samples with the held fields, whatever the plan.
    pub(crate) fn refusal(&self, fixed: &Fixed, machine: &Machine) -> Option<Invalid> {
        let batch = BatchSpec { global: 1, micro: 1, accumulation: 1 };
        self.supplies(fixed, machine, ParallelSpec::default(), batch).err()
    }
}

/// Returns the index of the supply with which a training of `steps` steps of `step` ends first, downloads included, or
/// of a simpler one that is nearly as fast.
pub(crate) fn chosen(
    supplies: &[(InputSpec, LoaderRates)],
    (step, micro_batch): (Seconds, u64),
    steps: u64,
) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (index, (_, supply)) in supplies.iter().enumerate().filter(|(_, (_, own))| own.has_room_ahead(micro_batch)) {
        let feed = supply.feed(step, steps);
        let total = feed.download.0 + feed.time.0;
        if best.is_none_or(|(least, _)| total < least * (1.0 - WORTHWHILE)) {
            best = Some((total, index));
        }
    }
    best.map(|(_, index)| index)
}

/// Returns the data set of a job, with its input; `None` if its samples are assumed to be at hand.
pub(crate) fn data_set(job: &JobSpec, model: &Model) -> Result<Option<Data>, Invalid> {
    data(job, model, epoch(job, model)?)
}

/// Returns the bytes of a job's data set as stored, if its size is known.
pub fn stored_bytes(job: &JobSpec, model: &Model) -> Option<Bytes> {
    data_set(job, model).ok()??.set.bytes()
}
