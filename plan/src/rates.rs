//! What a plan's operators and collectives reach of what its machines could do.

/// Operators of one rank of a plan under the roof of its device: how fast arithmetic can be that needs so much data
/// (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009).
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// The device.
    pub device: String,
    /// FLOPs a second of its arithmetic units in the plan's number format, at most.
    pub peak_flops_per_s: f64,
    /// Bytes a second of its memory, at most.
    pub memory_bytes_per_s: f64,
    /// One for each pass of each operator that has arithmetic.
    pub operators: Vec<OperatorRate>,
}

/// A pass of an operator over one micro-batch on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorRate {
    /// Its layer.
    pub layer: String,
    /// What it is called.
    pub operator: String,
    /// Whether it is a backward pass.
    pub backward: bool,
    /// Arithmetic.
    pub flops: f64,
    /// What is read from memory and written to it.
    pub bytes: f64,
    /// How long its kernels take, launching them apart.
    pub seconds: f64,
    /// How often the model has it.
    pub times: u64,
}

impl OperatorRate {
    /// FLOPs for each byte.
    pub fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }

    /// FLOPs a second.
    pub fn rate(&self) -> f64 {
        self.flops / self.seconds
    }
}

/// How long a collective takes for messages of different sizes, alone on its links.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveCurve {
    /// What is done, `all-reduce`.
    pub operation: String,
    /// How many devices take part.
    pub devices: u32,
    /// Over how many machines.
    pub machines: u32,
    /// Bytes of a message and seconds, the smallest first.
    pub points: Vec<(u64, f64)>,
}
