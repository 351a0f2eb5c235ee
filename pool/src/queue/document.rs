//! What became of a queue, as it is printed. Durations are seconds, money USD; the suffix of a field says so. Times
//! are those since the start of the queue.

use super::QueueSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_plan::document::PriceUsed;

/// The schema of queue documents that this version writes.
pub const QUEUE_SCHEMA: &str = "trainyard.queue/1";

/// A queue with what is predicted of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueDocument {
    /// `trainyard.queue/1`.
    pub schema: String,
    /// What was asked for.
    pub queue: QueueSpec,
    /// What the durations were drawn with.
    pub seed: u64,
    /// What is predicted.
    pub prediction: QueuePrediction,
    /// Each job, in the order of the file.
    pub jobs: Vec<JobRun>,
    /// Instances that were kept warm without a job, in the order in which that began.
    pub warm: Vec<WarmWait>,
    /// What the pool did, from each of these instants to the next.
    pub timeline: Vec<PoolState>,
    /// What to be careful about.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What is predicted of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuePrediction {
    /// From the first submission to the end of the last job.
    pub makespan_s: f64,
    /// What no schedule of these jobs can beat.
    pub bound: MakespanBound,
    /// How much longer than the largest bound it takes, as a fraction of the bound.
    pub gap: f64,
    /// From submission until a job gets its instances.
    pub waiting_s: Waiting,
    /// Jobs that started on new instances.
    pub cold_starts: u32,
    /// Jobs that started on instances that had been kept, or on machines of one's own.
    pub warm_starts: u32,
    /// Instances times seconds.
    pub instance_seconds: InstanceSeconds,
    /// Training over everything that is held.
    pub utilisation_of_held: f64,
    /// Training over the whole quota for the whole makespan.
    pub utilisation_of_quota: f64,
    /// What it costs, by the second; absent for machines without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<QueueCost>,
    /// The price that was used, with its date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceUsed>,
}

/// What no schedule of these jobs on this quota can beat; the largest counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakespanBound {
    /// The job that would end last if none waited.
    pub longest_s: f64,
    /// All work, spread over the quota evenly.
    pub work_s: f64,
    /// Jobs that need more than half of the quota, one after another.
    pub exclusive_s: f64,
}

impl MakespanBound {
    /// Returns the largest of the bounds, in seconds.
    pub(crate) fn largest_s(&self) -> f64 {
        self.longest_s.max(self.work_s).max(self.exclusive_s)
    }
}

/// How long jobs wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// On average.
    pub mean: f64,
    /// 95 % of them at most.
    pub p95: f64,
    /// All of them at most.
    pub max: f64,
}

/// What instances did, in instances times seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceSeconds {
    /// They trained.
    pub busy: f64,
    /// They started.
    pub startup: f64,
    /// They were kept warm without a job.
    pub idle: f64,
    /// All of it.
    pub held: f64,
    /// The part of it that is paid for, in whole seconds: waiting for new instances is not. Absent in older documents.
    #[serde(default)]
    pub paid: f64,
}

/// What a queue costs. Every job and every wait of a warm pool is billed in whole seconds, begun ones in full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueCost {
    /// Jobs, from when their instances are there: waiting for new ones is not paid for.
    pub jobs_usd: f64,
    /// Instances kept warm without a job.
    pub warm_usd: f64,
    /// Both.
    pub total_usd: f64,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRun {
    /// Its name in the file.
    pub name: String,
    /// Which of those of this name, from 1.
    pub number: u32,
    /// When it entered the queue.
    pub submit_s: f64,
    /// When it got its instances.
    pub start_s: f64,
    /// When it began to train.
    pub ready_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Whether its instances had been kept; those of one's own are.
    pub warm: bool,
    /// Which places of the quota it held, from 0.
    pub instances: Vec<u32>,
    /// What it costs, what is paid of its start-up included; absent for machines without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// A stretch in which instances were kept warm without a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmWait {
    /// From here.
    pub start_s: f64,
    /// To here.
    pub end_s: f64,
    /// Why it ended.
    pub end: WarmEnd,
    /// Which places of the quota, from 0.
    pub instances: Vec<u32>,
}

/// Why instances were no longer kept warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarmEnd {
    /// A job that matched took them.
    Reused,
    /// The time to keep them was over.
    Expired,
    /// A job that did not match needed their place.
    Released,
}

/// What the pool does at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolState {
    /// The instant.
    pub time_s: f64,
    /// Jobs that wait.
    pub waiting: u32,
    /// Instances that start.
    pub starting: u32,
    /// Instances that train.
    pub busy: u32,
    /// Instances kept warm without a job.
    pub idle: u32,
}
