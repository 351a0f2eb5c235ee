//! What stands around a decision in a plan document: what would change it, what would make room, and how number formats
//! and batches compare.

use crate::name::named;
use crate::schedules::ScheduleName;
use crate::spec::{BatchSpec, ParallelSpec, Precision, Recompute, StateSharding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// What would have to be other than it is for another plan to be recommended.
    ChangedQuantity {
        /// The price of an instance type, in USD per hour.
        Price = "price",
        /// What machines send to each other at most, in bytes per second.
        Network = "network",
        /// The global batch, in samples.
        GlobalBatch = "global-batch",
    }
}

/// The nearest value of something at which another plan wins, of the plans that the document ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What would have to be other.
    pub what: ChangedQuantity,
    /// Of which instance type, where it is one of an instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// What it is, in the unit of `what`.
    pub present: f64,
    /// What it would have to be.
    pub at: f64,
    /// The plan that would then win.
    pub winner: PlanSummary,
}

/// A plan in a few words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSummary {
    /// The instance type, or the name of the machines.
    pub instance: String,
    /// How many of them.
    pub instances: u32,
    /// Degrees of parallelism.
    pub parallel: ParallelSpec,
    /// Batch sizes in samples.
    pub batch: BatchSpec,
    /// The order of micro-batches.
    pub schedule: ScheduleName,
    /// Number formats.
    pub precision: Precision,
    /// What is computed again in backward.
    pub recompute: Recompute,
    /// What replicas share out.
    pub state_sharding: StateSharding,
}

named! {
    /// The limit that plans did not keep.
    RejectedBy {
        /// The memory of a device.
        Memory = "memory",
        /// The deadline.
        Deadline = "deadline",
        /// The budget.
        Budget = "budget",
        /// The best plans: what is sought is more there, for certain.
        Objective = "objective",
        /// There is no price on these terms.
        Price = "price",
        /// A quota of the account.
        Quota = "quota",
        /// Nothing divides evenly.
        Division = "division",
        /// A number format, or something else that the machines do not have.
        Machine = "machine",
        /// Samples cannot be brought in.
        Data = "data",
    }
}

/// Something that makes room in the memory of a device, and how much. The first of a list is the plain plan: data
/// parallelism, a replica's batch at once, the widest number format asked for, nothing computed again, shared out or
/// kept elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// What it is.
    pub remedy: String,
    /// Whether it trains another model, or the same one otherwise: whoever trains decides that, and no plan does it by
    /// itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_training: bool,
    /// What the fullest device needs with this alone, in bytes.
    pub memory_bytes: u64,
    /// What it needs with this and everything before it that leaves the training as it is; absent where this does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_bytes: Option<u64>,
    /// What a device has, in bytes.
    pub available_bytes: u64,
    /// Whether it fits with this and, where `together_bytes` is there, everything before.
    pub fits: bool,
    /// What the recommended plan does of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
}

/// The best plan with a number format on the recommended machines, at the recommended global batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecisionChoice {
    /// The number format.
    pub precision: Precision,
    /// The software; absent where plans do not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Degrees of parallelism.
    pub parallel: ParallelSpec,
    /// What replicas share out.
    #[serde(default)]
    pub state_sharding: StateSharding,
    /// Batch sizes in samples.
    pub batch: BatchSpec,
    /// What is computed again in backward.
    pub recompute: Recompute,
    /// Seconds of one optimizer step.
    pub step_time_s: f64,
    /// Seconds in all (`prediction.in_all_s` of the plan): from the request for machines to the last checkpoint.
    pub time_s: f64,
    /// Price of the whole training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the fullest rank needs, in bytes.
    pub memory_peak_bytes: u64,
    /// Whether it is that of the recommended plan.
    pub recommended: bool,
}

/// A global batch, or, where the job allows one only, a micro-batch, on the recommended machines with the recommended
/// degrees and number format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchChoice {
    /// Batch sizes in samples.
    pub batch: BatchSpec,
    /// Optimizer steps of the whole training.
    pub steps: u64,
    /// Samples of the whole training: what convergence needs at this global batch, where the job has a target.
    pub samples: f64,
    /// Seconds of one optimizer step; absent where the plan does not fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time_s: Option<f64>,
    /// Samples per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// Model FLOPs over peak FLOPs, where a peak is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// Seconds in all (`prediction.in_all_s` of the plan): from the request for machines to the last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// Price of the whole training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the fullest rank needs, in bytes.
    pub memory_peak_bytes: u64,
    /// Whether it is that of the recommended plan.
    pub recommended: bool,
}
