//! Plans as written: the `plan` of a plan document, before anything is checked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_models::ModelSpec;

/// How a training job is laid out: model, machines, degrees, batch, schedule and precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSpec {
    /// The model, with every dimension.
    pub model: ModelSpec,
    /// The machines.
    pub cluster: ClusterSpec,
    /// Degrees of parallelism; their product is the number of ranks.
    pub parallel: ParallelSpec,
    /// Batch sizes in samples.
    pub batch: BatchSpec,
    /// The order of micro-batches in the pipeline.
    pub schedule: ScheduleName,
    /// Layers of each pipeline stage.
    pub stages: Vec<StageSpec>,
    /// Number formats of compute and of the master weights.
    pub precision: Precision,
    /// What is computed again in backward instead of being kept.
    pub recompute: Recompute,
    /// How gradients are summed over replicas.
    pub collectives: Collectives,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// How the machines are paid.
    pub pricing: Pricing,
}

/// Which machines, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Catalog name of the instance type, or the name inside `profile`.
    pub instance: String,
    /// How many of them.
    pub instances: u32,
    /// A calibrated profile file that describes the machine, for machines that no catalog has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Degrees of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Replicas, each with its part of the global batch.
    pub data: u32,
    /// Ranks that share each layer's weights.
    pub tensor: u32,
    /// Stages.
    pub pipeline: u32,
}

/// Batch sizes. `global = micro × accumulation × parallel.data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// Samples of an optimizer step, over all replicas.
    pub global: u64,
    /// Samples that one replica computes at once.
    pub micro: u64,
    /// Micro-batches of one replica in a step.
    pub accumulation: u64,
}

/// A pipeline stage: layers `first .. first + layers`, the embedding being layer 0 and the head the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Index of the first layer.
    pub first: usize,
    /// Number of layers.
    pub layers: usize,
}

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }
        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value as it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }
        impl std::str::FromStr for $name {
            type Err = UnknownName;
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| UnknownName {
                    text: text.into(),
                    allowed: Self::ALL.iter().map(|value| value.name()).collect(),
                })
            }
        }
    };
}

/// A word that is not one of a closed list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not one of {}", allowed.join(", "))]
pub struct UnknownName {
    /// What was written.
    pub text: String,
    /// The closed list.
    pub allowed: Vec<&'static str>,
}

named! {
    /// The order in which a stage works on its micro-batches.
    ScheduleName {
        /// One stage: each micro-batch forward, then backward.
        None = "none",
        /// All micro-batches forward, then all backward (Huang et al., arXiv:1811.06965).
        GPipe = "gpipe",
        /// Forwards and backwards alternate after a warm-up (PipeDream-Flush; Narayanan et al., arXiv:2104.04473).
        OneForwardOneBackward = "1f1b",
    }
}

named! {
    /// Number formats.
    Precision {
        /// Single precision throughout.
        Fp32 = "fp32",
        /// Half-precision compute, single-precision master weights, loss scaling.
        Fp16Mixed = "fp16-mixed",
    }
}

named! {
    /// What is computed again in backward.
    Recompute {
        /// Nothing: all activations are kept.
        None = "none",
        /// Every layer from its input (Chen et al., arXiv:1604.06174).
        Full = "full",
    }
}

named! {
    /// How gradients are summed over replicas.
    Collectives {
        /// Rings or trees over all ranks, whichever is faster, as NCCL does.
        Nccl = "nccl",
        /// Inside each machine first, then between machines (Jia et al., arXiv:1807.11205, section 3.3).
        Hierarchical = "hierarchical",
        /// Rings over all ranks.
        Ring = "ring",
        /// Trees over all ranks.
        Tree = "tree",
        /// Parameter servers on all machines, as SageMaker's data parallel library (Thangakrishnan et al., SC20).
        Smddp = "smddp",
    }
}

named! {
    /// Optimizers, by the state they keep.
    Optimizer {
        /// Two moments per parameter, weight decay apart (Loshchilov and Hutter, arXiv:1711.05101).
        AdamW = "adamw",
        /// No state.
        Sgd = "sgd",
    }
}

named! {
    /// How instances are paid.
    Pricing {
        /// By the second at the list price.
        OnDemand = "on-demand",
        /// Spare capacity at a discount; it can be reclaimed.
        Spot = "spot",
    }
}

impl Precision {
    /// Bytes of an element in compute.
    pub fn element_bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Fp16Mixed => 2,
        }
    }
}
