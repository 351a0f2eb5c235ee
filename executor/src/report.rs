//! What a run measured.

use serde::{Deserialize, Serialize};

/// The schema of measurement files that this version writes.
pub const MEASUREMENT_SCHEMA: &str = "trainyard.measurement/1";

/// What a rank does during a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Forward of a micro-batch.
    Forward,
    /// Backward of a micro-batch, with the gathering of its gradients.
    Backward,
    /// Waiting for other ranks and moving bytes.
    Communication,
    /// The optimizer's update.
    Optimizer,
}

/// One span of one rank's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The rank.
    pub rank: u32,
    /// Its stage.
    pub stage: u32,
    /// The micro-batch, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u32>,
    /// What was done.
    pub phase: Phase,
    /// Seconds from the start of the step on the first rank.
    pub start_s: f64,
    /// The same for its end.
    pub end_s: f64,
}

/// Where the step goes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepPhases {
    /// Forward passes.
    pub forward_s: f64,
    /// Backward passes.
    pub backward_s: f64,
    /// Waiting for other ranks and moving bytes.
    pub communication_s: f64,
    /// The optimizer's update.
    pub optimizer_s: f64,
    /// The rest.
    pub other_s: f64,
}

impl StepPhases {
    /// The phases of a rank's spans in a step that took `seconds`.
    pub(crate) fn of(spans: &[Span], seconds: f64) -> Self {
        let sum = |phase| spans.iter().filter(|s| s.phase == phase).map(|s| s.end_s - s.start_s).sum::<f64>();
        let [forward_s, backward_s, communication_s, optimizer_s] =
            [Phase::Forward, Phase::Backward, Phase::Communication, Phase::Optimizer].map(sum);
        let other_s = (seconds - forward_s - backward_s - communication_s - optimizer_s).max(0.0);
        Self { forward_s, backward_s, communication_s, optimizer_s, other_s }
    }

    /// The mean of several.
    pub(crate) fn mean(all: &[Self]) -> Self {
        let mean = |field: fn(&Self) -> f64| all.iter().map(field).sum::<f64>() / all.len().max(1) as f64;
        Self {
            forward_s: mean(|p| p.forward_s),
            backward_s: mean(|p| p.backward_s),
            communication_s: mean(|p| p.communication_s),
            optimizer_s: mean(|p| p.optimizer_s),
            other_s: mean(|p| p.other_s),
        }
    }
}

/// One optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    /// Which one, from 1 at the start of training.
    pub step: u64,
    /// Mean loss over the global batch before the update, in nats per token.
    pub loss: f64,
    /// Seconds it took.
    pub seconds: f64,
}

/// One rank's step on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankReport {
    /// The rank.
    pub rank: u32,
    /// Its stage.
    pub stage: u32,
    /// Its replica.
    pub replica: u32,
    /// Where its step went.
    pub phases: StepPhases,
}

/// What the run ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceReport {
    /// The processor.
    pub processor: String,
    /// Processor threads of the machine.
    pub cores: u32,
    /// Ranks of the run.
    pub ranks: u32,
    /// Processor threads of each rank.
    pub threads_per_rank: u32,
    /// The framework, with its version.
    pub framework: String,
}

/// What was learnt: mean cross-entropy in nats per token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossReport {
    /// Of the first step's global batch.
    pub first: f64,
    /// Of the last step's global batch.
    pub last: f64,
    /// Of the held-out part after the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<f64>,
}

/// The data of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataReport {
    /// Where it was read.
    pub path: String,
    /// What made tokens of it; absent for text that was read as bytes, and for what is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// What it is: text, images, and so on.
    #[serde(default)]
    pub kind: String,
    /// Files that were read, or that will be.
    pub files: usize,
    /// Files that are of another kind.
    pub skipped_files: usize,
    /// Samples that could not be decoded, for which others were taken.
    #[serde(default)]
    pub corrupt_samples: usize,
    /// Seconds that the computation waited for samples, of the rank that waited longest.
    #[serde(default)]
    pub waited_s: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Samples of an epoch.
    pub training_samples: usize,
    /// Samples that were evaluated.
    pub held_out_samples: usize,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// All steps were done.
    Finished,
    /// It was asked to stop, and did so after a whole step.
    Interrupted,
}

/// The measurement file of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// `trainyard.measurement/1`.
    pub schema: String,
    /// The plan that ran, as the caller wrote it.
    pub plan: serde_json::Value,
    /// What it ran on.
    pub device: DeviceReport,
    /// What it was trained on.
    pub data: DataReport,
    /// Seed of parameters and data order.
    pub seed: u64,
    /// How it ended.
    pub end: RunEnd,
    /// Steps done before this run, by the one that was resumed.
    pub resumed_from: u64,
    /// Every step of this run.
    pub steps: Vec<StepReport>,
    /// Median seconds of a step after warm-up.
    pub step_time_s: f64,
    /// The interval that holds 90 % of steps after warm-up.
    pub interval_s: [f64; 2],
    /// Samples per second at the median step.
    pub samples_per_s: f64,
    /// Tokens per second at the median step.
    pub tokens_per_s: f64,
    /// The most memory that training took beyond what the process had before the model was built; absent where the
    /// system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Where the step goes, mean over ranks and steps after warm-up.
    pub phases: StepPhases,
    /// The same by rank.
    pub ranks: Vec<RankReport>,
    /// What was learnt.
    pub loss: LossReport,
    /// All spans of the step whose time is nearest the median.
    pub timeline: Vec<Span>,
}
