//! What is said of execution traces that were simulated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of a [`ReplayDocument`].
pub const REPLAY_SCHEMA: &str = "trainyard.replay/1";

/// Execution traces on machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayDocument {
    /// [`REPLAY_SCHEMA`].
    pub schema: String,
    /// The folder of the traces.
    pub traces: String,
    /// The machine type.
    pub instance: String,
    /// How many of them.
    pub instances: u32,
    /// Ranks, which fill one machine after another.
    pub ranks: u32,
    /// Nodes of all ranks.
    pub nodes: u64,
    /// Nodes that compute or copy without a measured time: as fast as the device lets them be.
    pub estimated: u64,
    /// Collectives and messages between ranks, each counted once.
    pub messages: u64,
    /// From the first start to the last end.
    pub step_time_s: f64,
    /// Kernels of the rank that computes longest.
    pub compute_s: f64,
    /// What communication adds to the step.
    pub exposed_communication_s: f64,
    /// What was left out.
    pub not_modelled: Vec<String>,
}
