//! What a training costs, part by part.

use super::is_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a training costs, in USD; together, its price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostParts {
    /// Instances while steps are done.
    pub instances_usd: f64,
    /// Instances from when they are there to the first step.
    pub start_up_usd: f64,
    /// What keeps checkpoints, and the data set near the machines.
    pub storage_usd: f64,
    /// Instances while checkpoints are written.
    pub checkpoints_usd: f64,
    /// Instances while the model is evaluated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub evaluations_usd: f64,
    /// Instances while a reference model scores the samples before the first step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reference_usd: f64,
    /// Instances while reclaimed ones are replaced, made ready, and lost work is done again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interruptions_usd: f64,
    /// The same of machines that fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures_usd: f64,
    /// Capacity blocks: the part of the block that the training does not use.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unused_usd: f64,
}

impl CostParts {
    /// Returns the sum of the parts, in USD.
    pub fn total(&self) -> f64 {
        let saved = self.instances_usd + self.start_up_usd + self.storage_usd + self.checkpoints_usd;
        let forward = self.evaluations_usd + self.reference_usd;
        saved + self.interruptions_usd + self.failures_usd + forward + self.unused_usd
    }
}
