//! Convolutions on a GPU: implicit matrix products, and direct kernels where groups leave too little to multiply.
//!
//! # Source
//!
//! Chetlur et al., arXiv:1410.0759, section 3: the matrix of windows is never written; tiles of it are made on the chip.
//! NVIDIA, "Convolutional Layers User's Guide" (DU-09798): channels are padded to what tensor cores read. See
//! docs/physics.md.

use super::gemm;
use trainyard_hardware_profiles::{Gpu, Rate};
use trainyard_plan::operators::{Convolution, Image, OperatorKind, Pass};
use trainyard_units::Seconds;

/// The time of each product of a pass with elements of `element` bytes on an otherwise idle GPU: forward one, backward
/// that of the input's gradient and that of the weight's.
pub(crate) fn durations(
    convolution: Convolution,
    pass: Pass,
    gpu: &Gpu,
    rate: Rate,
    element: u64,
    stack_factor: f64,
) -> Vec<Seconds> {
    // Each product reads two of input, weight and output, and writes the third.
    let traffic = gemm::traffic(convolution.elements(), gpu, element);
    let direct = convolution.gemm().flops() / (gpu.peak(Rate::Fp32) * (gpu.gemm_fraction(Rate::Fp32) * stack_factor));
    let products = OperatorKind::Image(Image::Convolution(padded(convolution, rate))).gemms(pass).into_iter();
    products
        .map(|product| {
            let implicit = gemm::arithmetic(product, gpu, rate, stack_factor);
            let arithmetic = if convolution.groups > 1 && direct < implicit { direct } else { implicit };
            arithmetic.max(traffic) + gpu.achieved.kernel_floor.value
        })
        .collect()
}

/// Channels of each group as tensor cores read them.
fn padded(convolution: Convolution, rate: Rate) -> Convolution {
    if rate == Rate::Fp32 {
        return convolution;
    }
    let groups = convolution.groups;
    let pad = |channels: u64| (channels / groups).next_multiple_of(gemm::ALIGNMENT) * groups;
    Convolution { inputs: pad(convolution.inputs), outputs: pad(convolution.outputs), ..convolution }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trainyard_hardware_profiles::catalog;

    fn a100() -> &'static Gpu {
        catalog().gpu("a100-sxm4-40gb").expect("in the catalog")
    }

    fn convolution(channels: u64, kernel: u64, groups: u64) -> Convolution {
        Convolution {
            samples: 64,
            input: [1, 56, 56],
            output: [1, 56, 56],
            inputs: channels,
            outputs: channels,
            kernel: [1, kernel, kernel],
            groups,
            bias: false,
            transposed: false,
        }
    }

    fn forward(convolution: Convolution, rate: Rate) -> f64 {
        durations(convolution, Pass::Forward, a100(), rate, 2, 1.0)[0].0
    }

    #[test]
    fn the_matrix_of_windows_is_not_read_from_memory() {
        // 64 channels at a kernel of 3 × 3: read as a matrix, the windows are nine times the input and would take
        // longer than the arithmetic of the product.
        let convolution = convolution(64, 3, 1);
        let matrix = gemm::traffic(convolution.gemm().elements(), a100(), 2).0;
        let time = forward(convolution, Rate::Fp16);
        assert!(time < 0.5 * matrix, "{time} against {matrix}");
    }

    #[test]
    fn a_depthwise_convolution_takes_as_long_as_reading_and_writing_its_maps() {
        let depthwise = convolution(256, 3, 256);
        let maps = 2.0 * 64.0 * 56.0 * 56.0 * 256.0 * 2.0;
        let bandwidth = a100().memory_bandwidth.value.0 * a100().achieved.memory.value;
        let ratio = forward(depthwise, Rate::Fp16) / (maps / bandwidth);
        assert!((1.0..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn three_channels_are_padded_and_do_not_fall_off_the_tensor_cores() {
        let stem = Convolution { inputs: 3, ..convolution(64, 7, 1) };
        let eight = Convolution { inputs: 8, ..stem };
        assert!(forward(stem, Rate::Fp16) <= forward(eight, Rate::Fp16));
        assert!(forward(stem, Rate::Fp16) > 0.9 * forward(eight, Rate::Fp16));
    }

    proptest! {
        #[test]
        fn groups_never_make_a_convolution_slower(channels in 1u64..9, halvings in 0u32..4, kernel in 1u64..6) {
            let (channels, groups) = (channels * 16, 1 << halvings);
            for rate in [Rate::Fp16, Rate::Fp32] {
                let (dense, grouped) = (convolution(channels, kernel, 1), convolution(channels, kernel, groups));
                prop_assert!(forward(grouped, rate) <= forward(dense, rate) * 1.01);
            }
        }
    }
}
