//! Execution traces of MLCommons Chakra: what each rank of a job computes and sends, as a graph. Other simulators read
//! and write them.
//!
//! A file holds one rank: a metadata message, then a message for each node, each behind its length. [`write()`] makes the
//! files of a simulated step, [`read()`] reads those of any program.
//!
//! # Source
//!
//! mlcommons/chakra, `schema/protobuf/et_def.proto`, commit 6dc63e1; attributes as astra-sim/astra-sim reads them:
//! `comm_type`, `comm_size` (bytes that each rank puts in), `comm_src`, `comm_dst`, `comm_tag`, `pg_name`, `num_ops`,
//! `tensor_size`, `is_cpu_op`. `runtime_ns` is our own: durations of the format are whole microseconds.

mod error;
mod proto;
mod read;
mod write;

pub use error::ChakraError;
pub use read::{groups, read};
pub use write::{ChakraFiles, write};

use crate::collective::Collective;
use trainyard_units::{Bytes, Seconds};

/// The largest number of nodes of all ranks together, which bounds memory.
pub const CHAKRA_NODES_MAX: usize = 2_000_000;

/// The largest size of a rank's file, in bytes.
pub const CHAKRA_BYTES_MAX: u64 = 1 << 30;

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
    /// The name of the node.
    pub name: String,
    /// The work of the node.
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
    /// A send.
    Send {
        /// The receiving rank.
        peer: u32,
        /// Bytes sent.
        bytes: Bytes,
        /// A tag that tells messages between two ranks apart.
        tag: i64,
    },
    /// A receive.
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

#[cfg(test)]
mod tests;
