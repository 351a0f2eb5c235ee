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
    /// Requests that read samples from Amazon S3.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests_usd: f64,
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

/// What a part of a cost is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostKind {
    Steps,
    StartUp,
    Checkpoints,
    Evaluations,
    Reference,
    Interruptions,
    Failures,
    Storage,
    Requests,
    Unused,
}

impl CostParts {
    /// Lists all parts, in USD.
    pub fn each(&self) -> [(CostKind, f64); 10] {
        let &Self {
            instances_usd,
            start_up_usd,
            storage_usd,
            requests_usd,
            checkpoints_usd,
            evaluations_usd,
            reference_usd,
            interruptions_usd,
            failures_usd,
            unused_usd,
        } = self;
        [
            (CostKind::Steps, instances_usd),
            (CostKind::StartUp, start_up_usd),
            (CostKind::Checkpoints, checkpoints_usd),
            (CostKind::Evaluations, evaluations_usd),
            (CostKind::Reference, reference_usd),
            (CostKind::Interruptions, interruptions_usd),
            (CostKind::Failures, failures_usd),
            (CostKind::Storage, storage_usd),
            (CostKind::Requests, requests_usd),
            (CostKind::Unused, unused_usd),
        ]
    }

    /// Returns the sum of the parts, in USD.
    pub fn total(&self) -> f64 {
        self.each().into_iter().map(|(_, usd)| usd).sum()
    }
}
