//! Where the step of a plan goes, and what tells two plans apart: the document of `trainyard explain`.

use super::Prediction;
use crate::name::named;
use crate::spec::PlanSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of explanation documents that this version writes.
pub const EXPLANATION_SCHEMA: &str = "trainyard.explanation/1";

/// One plan explained, or two side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplanationDocument {
    /// `trainyard.explanation/1`.
    pub schema: String,
    /// The plan.
    pub plan: ExplainedPlan,
    /// The one that it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<ExplainedPlan>,
    /// Every field in which the two differ; empty for one plan.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// Which is faster and which cheaper, and why, in sentences; empty for one plan.
    #[serde(default)]
    pub verdict: Vec<String>,
    /// What to know before numbers are compared.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A plan with where its step goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainedPlan {
    /// The file that holds its document.
    pub file: String,
    /// The plan.
    pub plan: PlanSpec,
    /// Who holds what and who talks to whom, in sentences.
    pub description: Vec<String>,
    /// What is expected of it, simulated anew.
    pub prediction: Prediction,
    /// The critical path of a step by what it is spent on: together the step time.
    pub critical_path: Vec<PathPart>,
    /// The stage whose ranks fill most of their device's memory, counted from 0.
    pub fullest_stage: u32,
    /// What the price of the training consists of; empty for machines without a price.
    #[serde(default)]
    pub cost_parts: Vec<CostPart>,
    /// Why it was chosen, as its document says.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// What to be careful about, as its document says, and what was found anew.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathPart {
    /// What it is spent on.
    pub kind: PathKind,
    /// Whether it is communication in which several machines take part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub between_machines: bool,
    /// Seconds of one optimizer step.
    pub time_s: f64,
}

/// A part of a price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostPart {
    /// What is paid for.
    pub what: String,
    /// USD of the whole training.
    pub usd: f64,
}

/// A field that two plans do not share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Its path under `plan`, as in `--fix`.
    pub field: String,
    /// Its value in the plan; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Its value in the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
}

named! {
    /// What a stretch of the critical path is spent on.
    PathKind {
        /// Kernels of forward passes, launching them apart.
        Forward = "forward",
        /// Kernels of backward passes, with summing the gradients of micro-batches.
        Backward = "backward",
        /// Activations computed again.
        Recompute = "recompute",
        /// What launching kernels adds to them, and what the host does once a step.
        Launches = "launches",
        /// Waiting for other ranks inside layers: tensor, context and expert parallelism.
        LayerCollectives = "layer-collectives",
        /// What collectives that go on beside kernels add to them.
        OverlapSlowdown = "overlap-slowdown",
        /// Filling and draining the pipeline: passes of other stages that the busiest one waits for.
        FillAndDrain = "fill-and-drain",
        /// Activations and their gradients between stages.
        Transfers = "transfers",
        /// Gradients summed over replicas, or over the holders of a shared table.
        GradientReduction = "gradient-reduction",
        /// Weights gathered from those who share them out.
        WeightGathering = "weight-gathering",
        /// Between devices and the memory or disks of their machines.
        HostCopies = "host-copies",
        /// The optimizer's update.
        Update = "update",
        /// Samples that are not there in time.
        InputWait = "input-wait",
    }
}

impl PathPart {
    /// Returns the part's name for people: `gradient reduction between machines`.
    pub fn label(&self) -> String {
        let name = self.kind.name().replace('-', " ");
        if self.between_machines { format!("{name} between machines") } else { name }
    }
}
