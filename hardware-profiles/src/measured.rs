//! Machines that were measured: the profile that calibration writes and simulation reads.

use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond};

/// Operators as calibration times them. The shape is named in each variant's text, outermost dimension first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorClass {
    /// Linear layer with bias: rows, inputs, outputs.
    Linear,
    /// Attention core: samples, heads, sequence, head width.
    Attention,
    /// Layer normalisation: rows, width.
    LayerNorm,
    /// GELU: rows, width.
    Activation,
    /// Addition to the residual stream: rows, width.
    Residual,
    /// Token and position lookup: rows, vocabulary, positions, width.
    Embedding,
    /// Product with the transposed token table: rows, width, vocabulary.
    TiedHead,
    /// Softmax cross-entropy: rows, vocabulary.
    CrossEntropy,
    /// One AdamW update: parameters, tensors.
    AdamW,
    /// One plain gradient-descent update: parameters, tensors.
    Sgd,
    /// Adding one micro-batch's gradients to the sum: parameters, tensors.
    Accumulate,
    /// Copying gradients into one flat buffer and back: parameters, tensors.
    Flatten,
}

/// One timed operator on one rank, while every other rank did the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSample {
    /// What was timed.
    pub operator: OperatorClass,
    /// Ranks at work at the same time.
    pub ranks: u32,
    /// Processor threads of each.
    pub threads: u32,
    /// Dimensions, as the class names them.
    pub shape: Vec<u64>,
    /// Median time of the forward pass, or of the whole for operators without passes.
    pub forward_s: f64,
    /// Median time of the backward pass; zero for operators without passes.
    pub backward_s: f64,
    /// Inter-quartile range of the total over its median.
    pub spread: f64,
}

/// Operations between ranks as calibration times them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveOperation {
    /// Sum over all ranks, to all ranks.
    AllReduce,
    /// One rank to another.
    Send,
}

/// One timed operation between ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSample {
    /// What was timed.
    pub operation: CollectiveOperation,
    /// Ranks that took part.
    pub ranks: u32,
    /// Bytes of the buffer on each rank.
    pub bytes: u64,
    /// Median time.
    pub seconds: f64,
}

/// A machine described by measurements instead of datasheets: the content of a profile file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredMachine {
    /// `trainyard.profile/1`.
    pub schema: String,
    /// A name for the machine, `local`.
    pub name: String,
    /// The processor.
    pub processor: String,
    /// Devices that a plan may use: ranks that can work at the same time with at least one thread each.
    pub devices: u32,
    /// Main memory, shared by all devices.
    pub memory: Bytes,
    /// When it was measured, `2026-11-21`.
    pub measured: String,
    /// The framework that was measured, with its version.
    pub framework: String,
    /// Rate of a plain copy by one thread, for what has no operator of its own.
    pub copy_bandwidth: BytesPerSecond,
    /// Timed operators.
    pub operators: Vec<OperatorSample>,
    /// Timed operations between ranks.
    pub collectives: Vec<CollectiveSample>,
}

/// The schema of profile files that this version reads and writes.
pub const PROFILE_SCHEMA: &str = "trainyard.profile/1";
