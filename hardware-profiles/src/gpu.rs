//! GPUs: datasheet rates, and which part of them kernels reach.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds};

/// The arithmetic unit that a matrix product runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Single-precision cores.
    Fp32,
    /// Half-precision tensor cores.
    Fp16,
}

/// One model of GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Catalog id, `v100-sxm2-16gb`.
    pub name: String,
    /// Generation, `Volta`.
    pub generation: String,
    /// Memory that the driver shows.
    pub memory: Sourced<Bytes>,
    /// Peak memory bandwidth.
    pub memory_bandwidth: Sourced<BytesPerSecond>,
    /// Second-level cache.
    pub cache: Sourced<Bytes>,
    /// Streaming multiprocessors.
    pub multiprocessors: Sourced<u32>,
    /// Peak single-precision rate.
    pub peak_fp32: Sourced<FlopsPerSecond>,
    /// Peak half-precision rate of the tensor cores, without sparsity.
    pub peak_fp16: Sourced<FlopsPerSecond>,
    /// Host link, one direction, as the cloud wires it.
    pub host_bandwidth: Sourced<BytesPerSecond>,
    /// What kernels reach of the peaks.
    pub achieved: Achieved,
}

/// What kernels reach of the peaks. These are fitted or carried over; each says from what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Achieved {
    /// Fraction of the half-precision peak inside the main loop of a full-size tile.
    pub gemm_fp16: Sourced<f64>,
    /// The same in single precision.
    pub gemm_fp32: Sourced<f64>,
    /// Prologue and epilogue of a tile, in units of the depth k.
    pub gemm_depth: Sourced<f64>,
    /// Fraction of the peak memory bandwidth.
    pub memory: Sourced<f64>,
    /// The shortest a kernel can be.
    pub kernel_floor: Sourced<Seconds>,
    /// Half-width of the 90 % interval of a step time that rests on these numbers, as a fraction.
    pub uncertainty: Sourced<f64>,
}

impl Gpu {
    /// The peak rate of a unit.
    pub fn peak(&self, rate: Rate) -> FlopsPerSecond {
        match rate {
            Rate::Fp32 => self.peak_fp32.value,
            Rate::Fp16 => self.peak_fp16.value,
        }
    }

    /// The fraction of a unit's peak that large tiles reach.
    pub fn gemm_fraction(&self, rate: Rate) -> f64 {
        match rate {
            Rate::Fp32 => self.achieved.gemm_fp32.value,
            Rate::Fp16 => self.achieved.gemm_fp16.value,
        }
    }
}
