//! Rates that a plan's operators and collectives achieve, beside the peak rates of its machines.

/// The roofline of one rank of a plan: the rate that each operator can reach on the device, given the data that it
/// needs (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009).
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    pub device: String,
    /// Peak FLOP/s of the arithmetic units in the plan's number format.
    pub peak_flops_per_s: f64,
    /// Peak bytes per second of the device memory.
    pub memory_bytes_per_s: f64,
    /// One entry for each pass of each operator that has arithmetic.
    pub operators: Vec<OperatorRate>,
}

/// A pass of an operator over one micro-batch on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorRate {
    pub layer: String,
    pub operator: String,
    /// `true` for the backward pass.
    pub backward: bool,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read from memory and written to it.
    pub bytes: f64,
    /// Seconds of its kernels, without their launches.
    pub seconds: f64,
    /// Number of times that the operator occurs in the model.
    pub times: u64,
}

impl OperatorRate {
    /// Returns the arithmetic intensity, in FLOPs per byte.
    pub fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }

    /// Returns the rate, in FLOP/s.
    pub fn rate(&self) -> f64 {
        self.flops / self.seconds
    }
}

/// Times of a collective for messages of different sizes, alone on its links.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveCurve {
    /// The operation, `all-reduce`.
    pub operation: String,
    /// Number of devices that take part.
    pub devices: u32,
    pub machines: u32,
    /// Message sizes in bytes and times in seconds, the smallest first.
    pub points: Vec<(u64, f64)>,
}
