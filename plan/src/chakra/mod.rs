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

/// Nodes of all ranks together, which bounds memory.
pub const CHAKRA_NODES_MAX: usize = 2_000_000;

/// Longest file of a rank.
pub const CHAKRA_BYTES_MAX: u64 = 1 << 30;

/// What one rank does, in an order in which it could.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankGraph {
    /// The nodes: each stands behind those that it waits for.
    pub nodes: Vec<GraphNode>,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// Its number in the file.
    pub id: u64,
    /// What it is called.
    pub name: String,
    /// What it does.
    pub work: GraphWork,
    /// Nodes that end before it starts, by their places.
    pub after: Vec<u32>,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphWork {
    /// Nothing that takes time.
    Nothing,
    /// It computes.
    Compute {
        /// How long it took; nothing where that was not recorded.
        time: Option<Seconds>,
        /// Arithmetic, in floating-point operations.
        flops: f64,
        /// Bytes that it reads and writes.
        bytes: f64,
        /// Whether the machine's processor does it.
        on_host: bool,
    },
    /// It copies between a device and its machine.
    Copy {
        /// How long it took; nothing where that was not recorded.
        time: Option<Seconds>,
        /// How much.
        bytes: Bytes,
    },
    /// It sends.
    Send {
        /// To which rank.
        peer: u32,
        /// How much.
        bytes: Bytes,
        /// Tells messages between two ranks apart.
        tag: i64,
    },
    /// It receives.
    Receive {
        /// From which rank.
        peer: u32,
        /// How much.
        bytes: Bytes,
        /// Tells messages between two ranks apart.
        tag: i64,
    },
    /// Ranks of a group do something together.
    Collective {
        /// What.
        kind: Collective,
        /// What each puts in.
        bytes: Bytes,
        /// The group's name; all ranks where there is none.
        group: Option<String>,
    },
}

#[cfg(test)]
mod tests;
