//! GPUs: datasheet rates, and which part of them kernels reach.

use crate::sourced::Sourced;
use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds};

/// The arithmetic unit that a matrix product runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// The single-precision cores.
    Fp32,
    /// The tensor cores on half-precision operands.
    Fp16,
    /// The tensor cores on TF32: single-precision operands of which ten bits of the mantissa count.
    Tf32,
    /// The tensor cores on bfloat16: operands with the exponent of single precision and seven bits of mantissa.
    Bf16,
    /// The tensor cores on eight-bit floating-point operands, accumulated in single precision.
    Fp8,
}

/// A GPU model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Catalog id, `v100-sxm2-16gb`.
    pub name: String,
    /// Generation, `Volta`.
    pub generation: String,
    /// Memory size that the driver shows.
    pub memory: Sourced<Bytes>,
    /// Peak memory bandwidth.
    pub memory_bandwidth: Sourced<BytesPerSecond>,
    /// Size of the second-level cache.
    pub cache: Sourced<Bytes>,
    /// Number of streaming multiprocessors.
    pub multiprocessors: Sourced<u32>,
    /// Peak single-precision rate.
    pub peak_fp32: Sourced<FlopsPerSecond>,
    /// Peak half-precision rate of the tensor cores, without sparsity.
    pub peak_fp16: Sourced<FlopsPerSecond>,
    /// Peak TensorFloat-32 rate, without sparsity; left out if the GPU does not have the format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_tf32: Option<Sourced<FlopsPerSecond>>,
    /// Peak bfloat16 rate of the tensor cores, without sparsity; left out if the GPU does not have the format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bf16: Option<Sourced<FlopsPerSecond>>,
    /// Peak eight-bit floating-point rate of the tensor cores, without sparsity; left out if they do not have the format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_fp8: Option<Sourced<FlopsPerSecond>>,
    /// Bandwidth of the host link, one direction, as the cloud wires it.
    pub host_bandwidth: Sourced<BytesPerSecond>,
    /// Rate of the JPEG engines, in bytes as stored; left out if there are none that are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg_decode: Option<Sourced<BytesPerSecond>>,
    /// Index of the newest packages of PyTorch with kernels for the GPU, `cu126`; left out if PyPI's have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pytorch_index: Option<Sourced<String>>,
    /// The fractions of the peaks that kernels achieve.
    pub achieved: Achieved,
}

/// The fractions of the peaks that kernels achieve. They are fitted or carried over; each says from what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Achieved {
    /// Fraction of the half-precision peak inside the main loop of a full-size tile.
    pub gemm_fp16: Sourced<f64>,
    /// The same fraction in single precision.
    pub gemm_fp32: Sourced<f64>,
    /// Fraction of the eight-bit peak, relative to the half-precision fraction of the half-precision one; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm_fp8: Option<Sourced<f64>>,
    /// Overhead of the prologue and epilogue of a tile, in units of the depth k.
    pub gemm_depth: Sourced<f64>,
    /// Fraction of the peak memory bandwidth.
    pub memory: Sourced<f64>,
    /// The shortest duration of a kernel.
    pub kernel_floor: Sourced<Seconds>,
    /// Half-width of the 90 % interval of a step time that rests on these numbers, as a fraction.
    pub uncertainty: Sourced<f64>,
}

impl Gpu {
    /// Returns the unit's own peak rate, or `None` if the GPU does not have the unit.
    fn own_peak(&self, rate: Rate) -> Option<FlopsPerSecond> {
        match rate {
            Rate::Fp32 => Some(self.peak_fp32.value),
            Rate::Fp16 => Some(self.peak_fp16.value),
            Rate::Tf32 => self.peak_tf32.as_ref().map(|peak| peak.value),
            Rate::Bf16 => self.peak_bf16.as_ref().map(|peak| peak.value),
            Rate::Fp8 => self.peak_fp8.as_ref().map(|peak| peak.value),
        }
    }

    /// Returns `true` if the GPU has this unit.
    pub fn has(&self, rate: Rate) -> bool {
        self.own_peak(rate).is_some()
    }

    /// Returns the peak rate of a unit; of a unit that the GPU does not have, that of its single-precision cores.
    pub fn peak(&self, rate: Rate) -> FlopsPerSecond {
        self.own_peak(rate).unwrap_or(self.peak_fp32.value)
    }

    /// Returns the fraction of [`Gpu::peak`] that large tiles reach; all formats of the tensor cores share one, but those of
    /// eight bits, which reach less of a higher peak.
    pub fn gemm_fraction(&self, rate: Rate) -> f64 {
        if rate == Rate::Fp32 || !self.has(rate) {
            self.achieved.gemm_fp32.value
        } else if rate == Rate::Fp8 {
            self.achieved.gemm_fp16.value * self.achieved.gemm_fp8.as_ref().map_or(1.0, |part| part.value)
        } else {
            self.achieved.gemm_fp16.value
        }
    }

    /// Returns the overhead of a tile's prologue and epilogue, in units of the depth k. They take as long in eight bits
    /// as in sixteen, in which more is computed.
    pub fn gemm_depth(&self, rate: Rate) -> f64 {
        let reached = |rate: Rate| self.peak(rate).0 * self.gemm_fraction(rate);
        let faster = if rate == Rate::Fp8 { reached(rate) / reached(Rate::Fp16) } else { 1.0 };
        self.achieved.gemm_depth.value * faster
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::catalog;

    #[test]
    fn formats_that_a_generation_lacks_run_on_its_single_precision_cores() {
        let gpu = |name| catalog().gpu(name).expect("in the catalog");
        for (name, has) in [("t4", false), ("v100-sxm2-16gb", false), ("a100-sxm4-40gb", true)] {
            for rate in [Rate::Tf32, Rate::Bf16] {
                assert_eq!(gpu(name).has(rate), has, "{name} {rate:?}");
                assert_eq!(gpu(name).peak(rate) == gpu(name).peak(Rate::Fp32), !has, "{name} {rate:?}");
            }
        }
        assert_eq!(gpu("a100-sxm4-40gb").peak(Rate::Tf32), FlopsPerSecond(156e12));
    }
}
