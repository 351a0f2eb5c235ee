//! Machines that were measured: the profile that calibration writes and simulation reads.

use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond, named};

/// Makes [`OperatorClass`] of its classes, each with the number of dimensions of its shape and with what it works on.
macro_rules! operator_classes {
    ($($(#[$doc:meta])* $class:ident: $dimensions:literal of $subject:ident,)*) => {
        /// Operators as calibration times them. Each variant's text names the dimensions of the shape, outermost first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum OperatorClass {
            $($(#[$doc])* $class,)*
        }

        impl OperatorClass {
            /// Every class.
            pub const ALL: [Self; [$($dimensions),*].len()] = [$(Self::$class),*];

            /// Returns the number of dimensions in the shape of an operator of the class.
            pub fn dimensions(self) -> usize {
                [$($dimensions),*][self as usize]
            }

            /// Returns `true` if it works on parameters or their gradients, once, instead of having a forward and a
            /// backward pass.
            pub fn is_over_parameters(self) -> bool {
                [$(operator_classes!(@is_over_parameters $subject)),*][self as usize]
            }
        }
    };
    (@is_over_parameters activations) => { false };
    (@is_over_parameters parameters) => { true };
}

operator_classes! {
    /// Linear layer with bias: rows, inputs, outputs.
    Linear: 3 of activations,
    /// Causal attention core, in which queries see earlier tokens only: samples, heads, sequence, head width.
    Attention: 4 of activations,
    /// Full attention core, in which queries see all tokens: samples, heads, sequence, head width.
    FullAttention: 4 of activations,
    /// Layer normalisation: rows, width.
    LayerNorm: 2 of activations,
    /// RMS normalisation with scale: rows, width.
    RmsNorm: 2 of activations,
    /// GELU: rows, width.
    Activation: 2 of activations,
    /// ReLU: rows, width.
    Relu: 2 of activations,
    /// Gated activation, an activated half of the input times the other half: rows, width of the result.
    GatedActivation: 2 of activations,
    /// Rotary position embedding of queries and keys: rows, width of both together.
    Rotary: 2 of activations,
    /// Addition to the residual stream: rows, width.
    Residual: 2 of activations,
    /// Dropout, with its random numbers made anew in each pass: rows, width.
    Dropout: 2 of activations,
    /// Token and position lookup: rows, vocabulary, positions, width.
    Embedding: 4 of activations,
    /// Class token, which is put before patches, and learned positions added to all: rows, width.
    ClassToken: 2 of activations,
    /// Product with the transposed token table (tied head): rows, width, vocabulary.
    TiedHead: 3 of activations,
    /// Convolution with square kernels: samples, pixels of an output, input channels, output channels, side of the
    /// kernel, stride.
    Convolution: 6 of activations,
    /// Batch normalisation of channels over samples and pixels: samples, pixels, channels.
    BatchNorm: 3 of activations,
    /// Max pooling with windows of three by three pixels: samples, windows, channels.
    MaxPool: 3 of activations,
    /// Mean pooling over all pixels: samples, pixels, channels.
    MeanPool: 3 of activations,
    /// Softmax cross-entropy: rows, vocabulary.
    CrossEntropy: 2 of activations,
    /// One AdamW update: parameters, tensors.
    AdamW: 2 of parameters,
    /// One plain gradient-descent update: parameters, tensors.
    Sgd: 2 of parameters,
    /// One update with momentum: parameters, tensors.
    Momentum: 2 of parameters,
    /// One LARS update, with norms of each tensor: parameters, tensors.
    Lars: 2 of parameters,
    /// One LAMB update, with norms of each tensor: parameters, tensors.
    Lamb: 2 of parameters,
    /// Addition of one micro-batch's gradients to the sum: parameters, tensors.
    Accumulate: 2 of parameters,
    /// Copy of gradients into one flat buffer that is sharded over ranks, and of the rank's own shard back: parameters,
    /// tensors.
    Flatten: 2 of parameters,
    /// Rounding of single-precision parameters to the format in which layers compute: parameters, tensors.
    Rounding: 2 of parameters,
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
    /// bfloat16: half precision with the exponent of single precision.
    Bf16,
}

impl NumberFormat {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Fp32, Self::Fp16, Self::Bf16];

    /// Returns `true` for single precision, which profiles omit.
    fn is_single(&self) -> bool {
        *self == Self::Fp32
    }
}

/// An operator at one shape, as calibration times it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperatorCase {
    pub operator: OperatorClass,
    pub format: NumberFormat,
    /// Number of ranks at work at the same time.
    pub ranks: u32,
    /// Dimensions, as the class names them.
    pub shape: Vec<u64>,
}

/// One timed operator on one rank, while every other rank did the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSample {
    pub operator: OperatorClass,
    /// The number format; single precision if left out.
    #[serde(default, skip_serializing_if = "NumberFormat::is_single")]
    pub format: NumberFormat,
    /// Number of ranks at work at the same time.
    pub ranks: u32,
    /// Processor threads of each rank.
    pub threads: u32,
    /// Dimensions, as the class names them.
    pub shape: Vec<u64>,
    /// Median seconds of the forward pass, or of the whole for operators without passes.
    pub forward_s: f64,
    /// Median seconds of the backward pass; zero for operators without passes.
    pub backward_s: f64,
    /// Inter-quartile range of the total time over its median.
    pub spread: f64,
}

impl OperatorSample {
    /// Returns what was timed.
    pub fn case(&self) -> OperatorCase {
        let Self { operator, format, ranks, ref shape, .. } = *self;
        OperatorCase { operator, format, ranks, shape: shape.clone() }
    }
}

/// Operations between ranks as calibration times them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveOperation {
    /// A sum over all ranks, which all ranks get.
    AllReduce,
    /// A message from one rank to another.
    Send,
    /// Each rank has an equal part of a buffer and gets the whole.
    AllGather,
    /// Each rank has a whole buffer and gets an equal part of the sum.
    ReduceScatter,
    /// Each rank hands every other an equal part of a buffer.
    AllToAll,
}

/// One timed operation between ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSample {
    pub operation: CollectiveOperation,
    /// Number of ranks that took part.
    pub ranks: u32,
    /// Bytes of the buffer on each rank; of the whole buffer, where each rank has a part before or after.
    pub bytes: u64,
    /// Median time in seconds.
    pub seconds: f64,
}

named! {
    /// The kind of device that computes on a measured machine.
    #[derive(Default)]
    DeviceKind {
        /// Threads of the machine's processors.
        #[default]
        Cpu = "cpu",
        /// NVIDIA GPUs, through CUDA.
        Cuda = "cuda",
        /// GPUs of any make, through wgpu: Vulkan, Metal or DirectX 12.
        Wgpu = "wgpu",
    }
}

impl DeviceKind {
    /// Returns `true` for processor threads, which files omit.
    pub fn is_cpu(&self) -> bool {
        *self == Self::Cpu
    }
}

named! {
    /// A phase of a step to which a correction from whole runs applies.
    CorrectedPhase {
        /// Forward passes.
        Forward = "forward",
        /// Backward passes, including the accumulation of their gradients.
        Backward = "backward",
        /// The optimizer's update.
        Optimizer = "optimizer",
        /// Operations between ranks.
        Communication = "communication",
    }
}

/// A correction of one phase, learnt from whole runs: how much longer it takes in a step than the sum of its operators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    pub phase: CorrectedPhase,
    /// Time in a step over the sum of the operators' times.
    pub factor: f64,
    /// Relative standard error of the factor.
    pub deviation: f64,
    /// Number of runs from which it was learnt.
    pub runs: u32,
    /// The date of the fit, `2026-11-22`.
    pub measured: String,
    /// The source: the runs from which it was learnt.
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
    /// The name of the processor, or of the GPU.
    pub processor: String,
    /// The kind of device; processor threads if left out.
    #[serde(default, skip_serializing_if = "DeviceKind::is_cpu")]
    pub device: DeviceKind,
    /// Number of devices that a plan may use: ranks that can work at the same time, each with at least one thread or on
    /// a GPU.
    pub devices: u32,
    /// Memory of all devices together: main memory, which processor threads share, or that of the GPUs.
    pub memory: Bytes,
    /// The date of the measurement, `2026-11-21`.
    pub measured: String,
    /// The framework that was measured, with its version.
    pub framework: String,
    /// Rate of a plain copy by one thread, for work that has no operator of its own.
    pub copy_bandwidth: BytesPerSecond,
    /// Slowdown of a kernel while an all-reduce runs beside it: 0.3 is 30 % longer; it is large where the all-reduce
    /// needs the same processors. Unknown if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_slowdown: Option<f64>,
    /// Corrections learnt from whole runs, by phase; none where there was no such run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
    /// Timed operators.
    pub operators: Vec<OperatorSample>,
    /// Timed operations between ranks.
    pub collectives: Vec<CollectiveSample>,
}

impl MeasuredMachine {
    /// Returns how many times longer a phase takes in a step than the sum of its operators, as learnt from whole runs;
    /// 1 where no run taught it.
    pub fn correction(&self, phase: CorrectedPhase) -> f64 {
        let of_phase = self.corrections.iter().filter(|correction| correction.phase == phase);
        of_phase.map(|correction| correction.factor).product()
    }
}

/// The schema of profile files that this version reads and writes.
pub const PROFILE_SCHEMA: &str = "trainyard.profile/1";
