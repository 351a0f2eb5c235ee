//! Software stacks: what a training framework adds to the hardware.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, Seconds};

/// A training framework as it loads a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Catalog id, `megatron`.
    pub name: String,
    /// In a few words.
    pub description: String,
    /// Host time to launch one kernel, everything the framework does for it included. Zero if there is no host thread.
    pub launch: Sourced<Seconds>,
    /// Memory traffic of kernels other than matrix products, relative to the counts of `models`.
    pub traffic: Sourced<f64>,
    /// Part of matrix products' rate, relative to the GPU's own constants.
    pub gemm: Sourced<f64>,
    /// Gradients are reduced in buckets of this size while backward goes on; zero: in one piece after backward.
    pub bucket: Sourced<Bytes>,
    /// Part of a point-to-point transfer between stages that a stage waits for.
    pub exposed_transfer: Sourced<f64>,
    /// Memory of the driver's context, the framework and its libraries, on each device.
    pub resident: Sourced<Bytes>,
    /// Memory that the allocator holds without use, relative to what tensors take.
    pub fragmentation: Sourced<f64>,
    /// Fixed time of a step: data hand-over, loss read-back, counters.
    pub step_overhead: Sourced<Seconds>,
}
