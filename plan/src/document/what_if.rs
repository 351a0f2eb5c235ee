//! What would be if something were otherwise: the document of `trainyard what-if`.

use super::PriceUsed;
use crate::input::Bottleneck;
use crate::job::{JobSpec, Objective};
use crate::spec::PlanSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of what-if documents that this version writes.
pub const WHAT_IF_SCHEMA: &str = "trainyard.what-if/1";

/// A job or a plan with something varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfDocument {
    /// `trainyard.what-if/1`.
    pub schema: String,
    /// What was asked for, before anything is varied.
    pub job: JobSpec,
    /// Whether one plan was held and simulated; otherwise the best one was sought each time.
    pub held: bool,
    /// What is sought.
    pub objective: Objective,
    /// What is varied: one key or two.
    pub axes: Vec<VariedKey>,
    /// What is expected without any variation; absent if there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<WhatIfFigures>,
    /// Why there is no plan without any variation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_reason: Option<String>,
    /// The training framework of the unvaried plan that all cases keep that have a plan with it; absent where it is varied,
    /// where the job leaves no choice, and where a plan is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// One for each combination of values, the last key varying fastest.
    pub cases: Vec<WhatIfCase>,
    /// What each assumption does to the plan, the one with the greatest effect first; empty unless asked for.
    #[serde(default)]
    pub sensitivities: Vec<Sensitivity>,
}

/// A key that is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariedKey {
    /// Its name, `cluster.network`.
    pub key: String,
    /// Unit of the amounts: `B/s`, `1`, or `×` for factors on the present value; absent for words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its values as written, ranges written out.
    pub values: Vec<String>,
    /// The values in that unit; empty for words, and where factors and values are mixed.
    #[serde(default)]
    pub amounts: Vec<f64>,
    /// What the machines of the unvaried plan have of it, `8 × 400 Gbit/s = 3,200 Gbit/s a machine`; absent for what is
    /// no figure of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<String>,
}

/// One combination of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfCase {
    /// The value of each key.
    pub values: Vec<String>,
    /// What is expected; absent if there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<WhatIfFigures>,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the plan is not within deadline or budget, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_goal: Option<String>,
    /// Why `plan` refuses the plan, although it fits, if it does: the memory that it leaves free is less than the margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_margin: Option<String>,
    /// Why it compares otherwise with the unvaried plan than the plans with the lowest objective of both do, if it does:
    /// of plans that predictions cannot tell apart the simplest is recommended. Or that predictions cannot tell the plan from
    /// the unvaried one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// What `plan` warns of in this case: a reservation and what it commits to, reclaims, a quota that is too small, types
    /// that are left out, and what else it takes to be as good as it looks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Time in all over that without variation, minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_change: Option<f64>,
    /// Cost over that without variation, minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_change: Option<f64>,
    /// Throughput of a device over that in the case with the fewest devices and otherwise the same values; absent where
    /// the number of devices is not varied, and on machines of another type than in that case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling_efficiency: Option<f64>,
}

/// A plan and what is expected of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfFigures {
    /// The plan.
    pub plan: PlanSpec,
    /// Devices that it uses.
    pub devices: u32,
    /// Seconds of one optimizer step.
    pub step_time_s: f64,
    /// The interval that should hold 90 % of measurements.
    pub interval_s: [f64; 2],
    /// Samples per second, all replicas together.
    pub samples_per_s: f64,
    /// Samples per second of one device.
    pub samples_per_s_per_device: f64,
    /// Model FLOPs over peak FLOPs; absent where no peak is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// What communication adds to the step.
    pub exposed_communication_s: f64,
    /// What limits the training.
    pub bottleneck: Bottleneck,
    /// What the fullest rank needs, in bytes.
    pub memory_peak_bytes: u64,
    /// Optimizer steps of the whole training.
    pub steps: u64,
    /// Seconds of all steps.
    pub time_s: f64,
    /// Seconds from the request for machines to the last checkpoint, with evaluation and expected reclaims: the time in
    /// all, with which a deadline is compared.
    pub in_all_s: f64,
    /// Price of the whole training; absent for machines without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The interval of the price that follows from that of the step time and from the range of the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_interval_usd: Option<[f64; 2]>,
    /// What the machines cost by the hour, on which terms, where and when; absent for machines without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceUsed>,
    /// The probability, 0 to 1, that the time in all is within the deadline of the case; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_deadline: Option<f64>,
    /// The probability that the cost is within its budget; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_budget: Option<f64>,
}

/// What an assumption does to a plan when it is varied by its own uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sensitivity {
    /// The key that is varied.
    pub key: String,
    /// What it is, in a few words.
    pub what: String,
    /// The factors on its present value.
    pub factors: [f64; 2],
    /// Why these factors.
    pub basis: String,
    /// Seconds in all (`in_all_s` of a case) at each factor.
    pub time_s: [f64; 2],
    /// Price of the whole training at each factor; absent for machines without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<[f64; 2]>,
    /// Times over that of the plan, minus one.
    pub time_change: [f64; 2],
    /// Costs over that of the plan, minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_change: Option<[f64; 2]>,
}
