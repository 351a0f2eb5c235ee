//! What may become of a training.

use super::PriceUsed;
use crate::spec::PlanSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of campaign documents that this version writes.
pub const CAMPAIGN_SCHEMA: &str = "trainyard.campaign/1";

/// What may become of a training, over many simulated runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignDocument {
    /// `trainyard.campaign/1`.
    pub schema: String,
    /// What is trained, and how.
    pub plan: PlanSpec,
    /// Courses that were drawn.
    pub runs: u64,
    /// What they were drawn with.
    pub seed: u64,
    /// Mean optimizer steps.
    pub steps: u64,
    /// Seconds of one, as simulated.
    pub step_time_s: f64,
    /// Seconds from the start to the last checkpoint.
    pub time_s: Quantiles,
    /// Price of instances and of what is stored; absent for machines without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Quantiles>,
    /// How many runs take how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_histogram_s: Option<Histogram>,
    /// How many runs cost how many USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_histogram_usd: Option<Histogram>,
    /// Training that counts over time in which machines are held.
    pub goodput: Quantiles,
    /// Share of the runs that end within the job's deadline; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_deadline: Option<f64>,
    /// Share of the runs that cost no more than the job's budget; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_budget: Option<f64>,
    /// Where the time goes: means over the runs.
    pub phases: CampaignPhases,
    /// Interruptions of a course.
    pub interruptions: Interruptions,
    /// How progress is saved.
    pub checkpoint: CheckpointUse,
    /// The same for other frequencies of reclaims; only for spot instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
    /// The price that was used, with its date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceUsed>,
    /// What was assumed, with its source.
    pub assumptions: Vec<String>,
    /// What to be careful about.
    pub warnings: Vec<String>,
}

/// A quantity over many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// Twentieth part of the runs have less.
    pub p5: f64,
    /// Half of them.
    pub p50: f64,
    /// All but a twentieth part.
    pub p95: f64,
    /// Mean.
    pub mean: f64,
}

/// How a quantity is spread over many runs: its range in equal parts, and how many runs lie in each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// The least value.
    pub from: f64,
    /// The value that all but a hundredth part of the runs stay below or at.
    pub to: f64,
    /// Courses in each part of the range.
    pub courses: Vec<u64>,
    /// Courses beyond it.
    pub beyond: u64,
}

/// Mean seconds of a course; together, its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignPhases {
    /// Until machines are there.
    pub waiting_s: f64,
    /// Downloading images and starting software.
    pub start_up_s: f64,
    /// Copying the data set.
    pub download_s: f64,
    /// Steps, each counted once.
    pub training_s: f64,
    /// Writing and reading checkpoints.
    pub checkpoints_s: f64,
    /// Testing the model.
    pub evaluation_s: f64,
    /// Steps that had to be done again.
    pub lost_s: f64,
}

/// Mean number of interruptions of a course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interruptions {
    /// Spot instances that were reclaimed.
    pub reclaims: f64,
    /// Machines that failed.
    pub failures: f64,
}

/// How progress is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointUse {
    /// Weights and optimizer state.
    pub bytes: u64,
    /// Seconds of writing them.
    pub write_s: f64,
    /// Training time from one to the next.
    pub interval_s: f64,
    /// The one with which the mean time is least.
    pub best_interval_s: f64,
}

/// A campaign whose spot instances are reclaimed more or less often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Reclaims as a multiple of what is published.
    pub factor: u32,
    /// Seconds from the start to the last checkpoint.
    pub time_s: Quantiles,
    /// Price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Quantiles>,
    /// Training that counts over time in which machines are held.
    pub goodput: Quantiles,
    /// Interruptions of a course.
    pub interruptions: Interruptions,
    /// Training time from one checkpoint to the next.
    pub checkpoint_interval_s: f64,
}
