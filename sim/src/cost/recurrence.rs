//! Products of recurrent layers, each of which needs the result of the one before.
//!
//! # Source
//!
//! Appleyard et al., arXiv:1604.01946, section 3: a product and a fused pointwise kernel for each step, both directions
//! at once. Diamos et al., "Persistent RNNs", ICML 2016, section 3: one kernel that keeps the weights in registers and
//! meets at a barrier after each step, where they fit. cuDNN has both.

use super::gemm;
use trainyard_hardware_profiles::{Gpu, Rate};
use trainyard_plan::operators::{Gemm, Sequential};
use trainyard_units::{Bytes, Seconds};

/// Registers of a multiprocessor: 65 536 of four bytes from Volta to Hopper (NVIDIA, "CUDA C++ Programming Guide",
/// table of technical specifications by compute capability).
const REGISTERS: u64 = 65_536 * 4;

/// Part of the registers that weights may take; the rest holds operands and sums. A stated default: Diamos et al. keep
/// weights in half of them.
const WEIGHTS_SHARE: f64 = 0.5;

/// Kernels of a step that keeps nothing on the chip.
const STEP_KERNELS: f64 = 2.0;

/// The time of all steps with elements of `element` bytes on an otherwise idle GPU.
pub(crate) fn duration(sequence: Sequential, gpu: &Gpu, rate: Rate, element: u64, stack_factor: f64) -> Seconds {
    let Sequential { steps, product } = sequence;
    let Gemm { batch, n, k, .. } = product;
    let weights = Bytes(batch * n * k * element);
    let floor = gpu.achieved.kernel_floor.value;
    let step = if fits_on_chip(weights, gpu, rate) {
        // The barrier takes what a kernel's start does.
        gemm::arithmetic(product, gpu, rate, stack_factor) + floor
    } else {
        gemm::duration(product, gpu, rate, element, stack_factor) + floor * (STEP_KERNELS - 1.0)
    };
    step * steps as f64
}

/// Kernels that keep weights are there for tensor cores in half precision alone.
fn fits_on_chip(weights: Bytes, gpu: &Gpu, rate: Rate) -> bool {
    let registers = Bytes(u64::from(gpu.multiprocessors.value) * REGISTERS).as_f64();
    matches!(rate, Rate::Fp16 | Rate::Bf16) && weights.as_f64() <= registers * WEIGHTS_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn time(steps: u64, hidden: u64, samples: u64, rate: Rate) -> f64 {
        let gpu = catalog().gpu("a100-sxm4-40gb").expect("in the catalog");
        let product = Gemm { batch: 1, m: samples, n: 4 * hidden, k: hidden };
        duration(Sequential { steps, product }, gpu, rate, 2, 1.0).0
    }

    #[test]
    fn steps_follow_one_another() {
        assert!((time(100, 1024, 128, Rate::Fp16) / time(10, 1024, 128, Rate::Fp16) - 10.0).abs() < 1e-9);
        // As one product of all steps they would take a fraction of it.
        assert!(time(100, 1024, 8, Rate::Fp16) > 5.0 * time(1, 1024, 800, Rate::Fp16));
    }

    #[test]
    fn weights_that_fit_into_registers_are_not_read_again() {
        // 8 MiB of weights fit into half of 27 MiB of registers, 34 MiB do not: more than four times the time.
        let (kept, read) = (time(1, 1024, 8, Rate::Fp16), time(1, 2048, 8, Rate::Fp16));
        assert!(read > 4.0 * kept, "{kept} {read}");
        assert!(time(1, 1024, 8, Rate::Fp32) > kept);
    }
}
