//! Execution graphs of any program, and what is said of those that were simulated.

use crate::collective::Collective;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, Seconds};

/// The nodes of one rank, in an order in which they could run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankGraph {
    /// The nodes, each after those that it waits for.
    pub nodes: Vec<GraphNode>,
}

/// A node of an execution trace.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// The number of the node in the file.
    pub id: u64,
    pub name: String,
    pub work: GraphWork,
    /// Nodes that end before this one starts, as indices into [`RankGraph::nodes`].
    pub after: Vec<u32>,
}

/// The work of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphWork {
    /// No work: the node takes no time.
    Nothing,
    /// Computation.
    Compute {
        /// Duration in seconds; `None` where it was not recorded.
        time: Option<Seconds>,
        /// Floating-point operations.
        flops: f64,
        /// Bytes read and written.
        bytes: f64,
        /// `true` if the machine's processor does it.
        on_host: bool,
    },
    /// A copy between a device and its machine.
    Copy {
        /// Duration in seconds; `None` where it was not recorded.
        time: Option<Seconds>,
        /// Bytes copied.
        bytes: Bytes,
    },
    Send {
        /// The receiving rank.
        peer: u32,
        /// Bytes sent.
        bytes: Bytes,
        /// A tag that tells messages between two ranks apart.
        tag: i64,
    },
    Receive {
        /// The sending rank.
        peer: u32,
        /// Bytes received.
        bytes: Bytes,
        /// A tag that tells messages between two ranks apart.
        tag: i64,
    },
    /// A collective operation of the ranks of a group.
    Collective {
        /// The operation.
        kind: Collective,
        /// Bytes that each rank puts in.
        bytes: Bytes,
        /// The name of the process group; `None` for all ranks.
        group: Option<String>,
    },
}

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
