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

mod proto;
mod read;
mod write;

pub use read::{groups, read};
pub use write::{ChakraFiles, write};

use trainyard_units::Invalid;

/// The largest number of nodes of all ranks together, which bounds memory.
pub const CHAKRA_NODES_MAX: usize = 2_000_000;

/// The largest size of a rank's file, in bytes.
pub const CHAKRA_BYTES_MAX: u64 = 1 << 30;

/// Returns the error of a job that makes too many nodes.
fn too_many() -> Invalid {
    let hint = "fewer micro-batches or fewer ranks make fewer nodes";
    Invalid::inside("nodes", format!("there are more than {CHAKRA_NODES_MAX} nodes")).with_hint(hint)
}

#[cfg(test)]
mod tests;
