//! Machines that were measured: the profile that calibration writes and simulation reads.

use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond};

/// Operators as calibration times them. The shape is named in each variant's text, outermost dimension first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorClass {
    /// Linear layer with bias: rows, inputs, outputs.
    Linear,
    /// Attention core in which queries see earlier tokens only: samples, heads, sequence, head width.
    Attention,
    /// Attention core in which queries see all tokens: samples, heads, sequence, head width.
    FullAttention,
    /// Layer normalisation: rows, width.
    LayerNorm,
    /// Division by the root mean square, with scale: rows, width.
    RmsNorm,
    /// GELU: rows, width.
    Activation,
    /// The positive part: rows, width.
    Relu,
    /// An activated half of the input times the other half: rows, width of the result.
    GatedActivation,
    /// Rotation of queries and keys by their positions: rows, width of both together.
    Rotary,
    /// Addition to the residual stream: rows, width.
    Residual,
    /// Token and position lookup: rows, vocabulary, positions, width.
    Embedding,
    /// A learned token put before patches, and learned positions added to all: rows, width.
    ClassToken,
    /// Product with the transposed token table: rows, width, vocabulary.
    TiedHead,
    /// Convolution with square kernels: samples, pixels of an output, input channels, output channels, side of the
    /// kernel, stride.
    Convolution,
    /// Normalisation of channels over samples and pixels: samples, pixels, channels.
    BatchNorm,
    /// The largest value of each window of three by three pixels: samples, windows, channels.
    MaxPool,
    /// The mean of all pixels: samples, pixels, channels.
    MeanPool,
    /// Softmax cross-entropy: rows, vocabulary.
    CrossEntropy,
    /// One AdamW update: parameters, tensors.
    AdamW,
    /// One plain gradient-descent update: parameters, tensors.
    Sgd,
    /// One update with momentum: parameters, tensors.
    Momentum,
    /// One LARS update, with norms of each tensor: parameters, tensors.
    Lars,
    /// One LAMB update, with norms of each tensor: parameters, tensors.
    Lamb,
    /// Adding one micro-batch's gradients to the sum: parameters, tensors.
    Accumulate,
    /// Copying gradients into one flat buffer and back: parameters, tensors.
    Flatten,
    /// Rounding single-precision parameters to the format in which layers compute: parameters, tensors.
    Rounding,
}

impl OperatorClass {
    /// Every class.
    pub const ALL: [Self; 26] = [
        Self::Linear,
        Self::Attention,
        Self::FullAttention,
        Self::LayerNorm,
        Self::RmsNorm,
        Self::Activation,
        Self::Relu,
        Self::GatedActivation,
        Self::Rotary,
        Self::Residual,
        Self::Embedding,
        Self::ClassToken,
        Self::TiedHead,
        Self::Convolution,
        Self::BatchNorm,
        Self::MaxPool,
        Self::MeanPool,
        Self::CrossEntropy,
        Self::AdamW,
        Self::Sgd,
        Self::Momentum,
        Self::Lars,
        Self::Lamb,
        Self::Accumulate,
        Self::Flatten,
        Self::Rounding,
    ];

    /// How many sizes say what an operator of the class worked on.
    pub fn dimensions(self) -> usize {
        match self {
            Self::Convolution => 6,
            Self::Attention | Self::FullAttention | Self::Embedding => 4,
            Self::Linear | Self::TiedHead | Self::BatchNorm | Self::MaxPool | Self::MeanPool => 3,
            Self::LayerNorm
            | Self::RmsNorm
            | Self::Activation
            | Self::Relu
            | Self::GatedActivation
            | Self::Rotary
            | Self::Residual
            | Self::ClassToken
            | Self::CrossEntropy
            | Self::AdamW
            | Self::Sgd
            | Self::Momentum
            | Self::Lars
            | Self::Lamb
            | Self::Accumulate
            | Self::Flatten
            | Self::Rounding => 2,
        }
    }

    /// Whether it works on parameters or their gradients, once, instead of having a forward and a backward pass.
    pub fn is_over_parameters(self) -> bool {
        matches!(
            self,
            Self::AdamW
                | Self::Sgd
                | Self::Momentum
                | Self::Lars
                | Self::Lamb
                | Self::Accumulate
                | Self::Flatten
                | Self::Rounding
        )
    }
}

/// The number format in which an operator computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumberFormat {
    /// Single precision.
    #[default]
    Fp32,
    /// IEEE half precision.
    Fp16,
    /// Half precision with the exponent of single precision.
    Bf16,
}

impl NumberFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Fp32, Self::Fp16, Self::Bf16];

    /// Whether it is single precision, which profiles leave unsaid.
    fn is_single(&self) -> bool {
        *self == Self::Fp32
    }
}

/// One timed operator on one rank, while every other rank did the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSample {
    /// What was timed.
    pub operator: OperatorClass,
    /// In which format; single precision if left out.
    #[serde(default, skip_serializing_if = "NumberFormat::is_single")]
    pub format: NumberFormat,
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
    /// Each has an equal part of a buffer and gets the whole.
    AllGather,
    /// Each has a whole buffer and gets an equal part of the sum.
    ReduceScatter,
}

/// One timed operation between ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSample {
    /// What was timed.
    pub operation: CollectiveOperation,
    /// Ranks that took part.
    pub ranks: u32,
    /// Bytes of the buffer on each rank; of the whole buffer, where each has a part before or after.
    pub bytes: u64,
    /// Median time.
    pub seconds: f64,
}

/// What computes on a measured machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// Threads of its processors.
    #[default]
    Cpu,
    /// NVIDIA's GPUs, through CUDA.
    Cuda,
}

impl DeviceKind {
    /// Its name in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// Whether it is processor threads, which files leave unsaid.
    pub fn is_cpu(&self) -> bool {
        *self == Self::Cpu
    }
}

/// What runs of a machine are corrected in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CorrectedPhase {
    /// Forward passes.
    Forward,
    /// Backward passes, with the gathering of their gradients.
    Backward,
    /// The optimizer's update.
    Optimizer,
    /// Operations between ranks.
    Communication,
}

impl CorrectedPhase {
    /// Every phase.
    pub const ALL: [Self; 4] = [Self::Forward, Self::Backward, Self::Optimizer, Self::Communication];

    /// Its name in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Communication => "communication",
        }
    }
}

/// What whole runs taught about one phase: by how much it takes longer in a step than its operators took apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    /// Which phase.
    pub phase: CorrectedPhase,
    /// Time in a step over the sum of the operators' times.
    pub factor: f64,
    /// Relative standard error of the factor.
    pub deviation: f64,
    /// Runs that taught it.
    pub runs: u32,
    /// When it was fitted, `2026-11-22`.
    pub measured: String,
    /// From what.
    pub source: String,
}

/// A machine described by measurements instead of datasheets: the content of a profile file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredMachine {
    /// `trainyard.profile/1`.
    pub schema: String,
    /// A name for the machine, `local`.
    pub name: String,
    /// The processor, or the GPU.
    pub processor: String,
    /// What computes; processor threads if left out.
    #[serde(default, skip_serializing_if = "DeviceKind::is_cpu")]
    pub device: DeviceKind,
    /// Devices that a plan may use: ranks that can work at the same time, with at least one thread each, or on a GPU.
    pub devices: u32,
    /// Memory of all devices together: main memory, which processor threads share, or that of the GPUs.
    pub memory: Bytes,
    /// When it was measured, `2026-11-21`.
    pub measured: String,
    /// The framework that was measured, with its version.
    pub framework: String,
    /// Rate of a plain copy by one thread, for what has no operator of its own.
    pub copy_bandwidth: BytesPerSecond,
    /// How much longer a kernel takes while a sum over ranks is under way beside it: 0.3 is 30 %, and large where the sum
    /// takes the very processors. Unknown if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_slowdown: Option<f64>,
    /// What whole runs taught, by phase; nothing where there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
    /// Timed operators.
    pub operators: Vec<OperatorSample>,
    /// Timed operations between ranks.
    pub collectives: Vec<CollectiveSample>,
}

impl MeasuredMachine {
    /// By how much a phase takes longer in a step than its operators took apart, as whole runs taught it; 1 where none
    /// did.
    pub fn correction(&self, phase: CorrectedPhase) -> f64 {
        let of_phase = self.corrections.iter().filter(|correction| correction.phase == phase);
        of_phase.map(|correction| correction.factor).product()
    }
}

/// The schema of profile files that this version reads and writes.
pub const PROFILE_SCHEMA: &str = "trainyard.profile/1";
