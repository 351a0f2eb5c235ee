//! How samples reach the steps of a training, in words, and how much of its time the first pass over them takes.

use crate::predict::{LIMITING_SHARE, data_of, plan_of};
use trainyard_plan::document::{PlanDocument, Prediction};
use trainyard_plan::{Cache, DecodePlace, InputSpec, SampleFormat, StorageMode};
use trainyard_sim::DataSet;
use trainyard_units::{Seconds, counted, human_bytes, human_duration};

/// The part of the training time that a slow first pass must add to be reported.
const NOTICEABLE: f64 = 0.03;

/// How the samples of a plan are loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loading {
    input: InputSpec,
    data: DataSet,
    /// The first pass, where it is noticeably slower than those that follow.
    pub first_pass: Option<FirstPass>,
}

/// The first pass over a data set, during which samples come from slower storage than afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstPass {
    /// Seconds of it.
    pub time_s: f64,
    /// Seconds that it takes longer than a pass that follows.
    pub extra_s: f64,
    /// Seconds of all steps.
    pub all_s: f64,
    /// Bytes that it reads.
    bytes: f64,
}

/// Returns how the samples of a document's plan are loaded; `None` if they are assumed to be at hand.
pub fn loading(document: &PlanDocument) -> Option<Loading> {
    let plan = plan_of(document).ok()?;
    let (input, data) = (plan.input()?, data_of(&document.job, &plan).ok()??);
    let first_pass = FirstPass::of(&data, &document.prediction, plan.batch().global);
    Some(Loading { input, data, first_pass })
}

impl FirstPass {
    /// Returns the first pass of a training with this global batch, where it is noticeably slower than the others.
    pub(crate) fn of(data: &DataSet, prediction: &Prediction, global_batch: u64) -> Option<Self> {
        let samples = data.samples?;
        let steps = samples.div_ceil(global_batch);
        let first_s = prediction.input.as_ref()?.first_pass_step_time_s;
        let (time_s, extra_s) = (first_s * steps as f64, (first_s - prediction.step_time_s) * steps as f64);
        let all_s = prediction.time_s;
        let told = steps < prediction.steps && extra_s > NOTICEABLE * all_s;
        told.then_some(Self { time_s, extra_s, all_s, bytes: samples as f64 * data.bytes_per_sample })
    }

    /// Returns `true` if it limits the training, and not the steps that follow.
    pub(crate) fn limits(&self) -> bool {
        self.extra_s > LIMITING_SHARE * self.all_s
    }

    /// Tells its share of the time: `16 min of 24 min`.
    pub(crate) fn share(&self) -> String {
        let [own, all] = [self.time_s, self.all_s].map(|time| human_duration(Seconds(time)));
        format!("{own} of {all}")
    }
}

impl Loading {
    /// Tells what samples are, what decodes them, and where they are read.
    pub fn way(&self) -> String {
        let InputSpec { storage, decode, workers, cache, .. } = self.input;
        let workers = format!("{} a replica", counted(u64::from(workers), "worker"));
        let samples = match (self.data.format, decode) {
            (SampleFormat::Jpeg, DecodePlace::Gpu) => "JPEG images decoded by the GPUs (NVIDIA DALI)".to_owned(),
            (SampleFormat::Jpeg, DecodePlace::Cpu) => format!("JPEG images decoded by {workers}"),
            (SampleFormat::Npz, _) => format!("npz archives decoded by {workers}"),
            (SampleFormat::Raw, _) => format!("raw samples handed over by {workers}"),
            (SampleFormat::Tokens, _) => format!("tokens handed over by {workers}"),
        };
        let kept = if cache == Cache::None { String::new() } else { format!(", then from {cache}") };
        format!("{samples}, read from {}{kept}", storage.in_words())
    }

    /// Tells how long the first pass takes, what it reads how fast, and which fields change that; `None` if it is hardly
    /// slower than the others.
    pub fn first_pass_told(&self) -> Option<String> {
        let first = self.first_pass?;
        let fields = match self.input.storage {
            StorageMode::FsxLustre => "; data.fsx_throughput changes it",
            StorageMode::Ebs => "; data.ebs_throughput changes it",
            _ => "",
        };
        let (read, rate) = (decimal(first.bytes), decimal(first.bytes / first.time_s));
        Some(format!("{}: reads {read} at {rate}/s{fields}", first.share()))
    }

    /// Tells the size and the throughput of the storage that is rented for the data set, where a field of the job sets
    /// them.
    pub fn rented_storage(&self) -> Option<String> {
        let DataSet { fsx_throughput, ebs_throughput, .. } = self.data;
        match self.input.storage {
            StorageMode::FsxLustre => {
                let size = human_bytes(self.data.file_system_size());
                Some(format!("file system of {size}, {}/s for each TiB of it", decimal(fsx_throughput.0)))
            }
            StorageMode::Ebs => Some(format!("a volume of each machine, {}/s", decimal(ebs_throughput.0))),
            _ => None,
        }
    }
}

/// Formats bytes as data rates are written: `147 GB`.
fn decimal(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(value < 99.5 && unit > 0);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking;
    use crate::{Limits, recommend};

    fn planned(storage: StorageMode) -> PlanDocument {
        let mut job = asking::job("resnet50", 1024, &["p4d.24xlarge"], 1);
        (job.data.dataset, job.data.storage) = (Some("imagenet".into()), Some(storage));
        job.data.decode = Some(DecodePlace::Gpu);
        job.training.epochs = Some(10.0);
        let problem = asking::solvable(&job);
        recommend(&problem, &Limits { top: 1, ..Limits::default() }, &job).expect("a plan")
    }

    #[test]
    fn a_first_pass_is_told_where_it_is_slower() {
        let document = planned(StorageMode::FsxLustre);
        let own = loading(&document).expect("samples are loaded");
        let first = own.first_pass.expect("a file system of 1.2 TiB is slow");
        let prediction = &document.prediction;
        // What the steps do not take, the first pass does, and filling the line a little.
        let rest = prediction.time_s - prediction.step_time_s * prediction.steps as f64;
        assert!((first.extra_s / rest - 1.0).abs() < 0.01, "{first:?} {rest}");
        let told = own.first_pass_told().expect("told");
        assert!(told.contains("reads 147 GB at 150 MB/s; data.fsx_throughput"), "{told}");
        assert_eq!(own.rented_storage().as_deref(), Some("file system of 1.20 TiB, 125 MB/s for each TiB of it"));
        let way = "JPEG images decoded by the GPUs (NVIDIA DALI), read from fsx-lustre";
        assert!(own.way().starts_with(way), "{}", own.way());
        assert!(loading(&planned(StorageMode::S3FastFile)).is_some_and(|other| other.first_pass.is_none()));
    }

    #[test]
    fn amounts_are_decimal() {
        assert_eq!(decimal(146.9e9), "147 GB");
        assert_eq!(
            (decimal(12.5e6), decimal(999.9e6), decimal(12.0)),
            ("12.5 MB".into(), "1.0 GB".into(), "12 B".into())
        );
    }
}
