//! Convolutions on a GPU: implicit matrix products, and direct kernels where groups leave too little to multiply.
//!
//! # Source
//!
//! Chetlur et al., arXiv:1410.0759, section 3: the matrix of windows is never written; tiles of it are made on the chip.
//! Lavin and Gray, arXiv:1509.09308: small kernels with fewer multiplications.
//! NVIDIA, "Convolutional Layers User's Guide" (DU-09798): channels are padded to what tensor cores read. See
//! docs/physics.md.

use super::gemm;
use trainyard_hardware_profiles::{Gpu, MapLayout, Rate};
use trainyard_plan::operators::{Convolution, Image, OperatorKind, Pass};
use trainyard_units::Seconds;

/// How many fewer multiplications kernels of 3 × 3 need where they are computed on tiles of 2 × 2 pixels by minimal
/// filtering: Lavin and Gray, section 4.1. Tensor cores do nothing of the kind.
const FILTERING: f64 = 2.25;

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
    let passes = if depthwise(convolution) { DEPTHWISE } else { 1.0 };
    let traffic = gemm::traffic(convolution.elements(), gpu, element) * passes;
    let direct = convolution.gemm().flops() / (gpu.peak(Rate::Fp32) * (gpu.gemm_fraction(Rate::Fp32) * stack_factor));
    let products = OperatorKind::Image(Image::Convolution(padded(convolution, rate))).gemms(pass).into_iter();
    products
        .map(|product| {
            let implicit = gemm::arithmetic(product, gpu, rate, stack_factor * filtering(convolution, gpu, rate));
            let arithmetic = if convolution.groups > 1 && direct < implicit { direct } else { implicit };
            arithmetic.max(traffic) + gpu.achieved.kernel_floor.value
        })
        .collect()
}

/// How many times as long as reading and writing their maps depthwise convolutions take. Fitted on step times of
/// EfficientNet in three number formats and two frameworks; see docs/physics.md.
const DEPTHWISE: f64 = 6.0;

/// Bytes that are moved to transpose what a pass's products read and write of maps, before and after, where channels
/// come first and tensor cores need them last. Maps in single precision come so from every framework.
pub(crate) fn transposed(
    convolution: Convolution,
    pass: Pass,
    layout: MapLayout,
    gpu: &Gpu,
    rate: Rate,
    element: u64,
) -> u64 {
    let first = layout == MapLayout::ChannelsFirst || rate == Rate::Tf32;
    if !first || !on_tensor_cores(gpu, rate) || depthwise(convolution) {
        return 0;
    }
    let products = if pass == Pass::Forward { 1 } else { 2 };
    2 * products * convolution.elements() * element
}

fn depthwise(convolution: Convolution) -> bool {
    convolution.groups > 1 && convolution.groups == convolution.inputs
}

fn on_tensor_cores(gpu: &Gpu, rate: Rate) -> bool {
    rate != Rate::Fp32 && gpu.has(rate)
}

/// How many times fewer multiplications than counted a convolution takes.
fn filtering(convolution: Convolution, gpu: &Gpu, rate: Rate) -> f64 {
    let dense = convolution.groups == 1 && !convolution.transposed && convolution.kernel == [1, 3, 3];
    // A stride leaves half the pixels or fewer; where nothing is padded, two in each direction are missing.
    let near = convolution.output.iter().zip(&convolution.input).all(|(output, input)| output + 2 >= *input);
    if dense && near && !on_tensor_cores(gpu, rate) { FILTERING } else { 1.0 }
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
    fn a_depthwise_convolution_takes_some_passes_over_its_maps() {
        let depthwise = convolution(256, 3, 256);
        let maps = 2.0 * 64.0 * 56.0 * 56.0 * 256.0 * 2.0;
        let bandwidth = a100().memory_bandwidth.value.0 * a100().achieved.memory.value;
        let ratio = forward(depthwise, Rate::Fp16) / (DEPTHWISE * maps / bandwidth);
        assert!((1.0..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn three_channels_are_padded_and_do_not_fall_off_the_tensor_cores() {
        let stem = Convolution { inputs: 3, ..convolution(64, 7, 1) };
        let eight = Convolution { inputs: 8, ..stem };
        assert!(forward(stem, Rate::Fp16) <= forward(eight, Rate::Fp16));
        assert!(forward(stem, Rate::Fp16) > 0.9 * forward(eight, Rate::Fp16));
    }

    #[test]
    fn minimal_filtering_is_for_single_precision() {
        let ratio = |rate| forward(convolution(256, 3, 1), rate) / forward(convolution(256, 1, 1), rate);
        // Nine times the multiplications, of which filtering leaves four.
        assert!((3.5..4.5).contains(&ratio(Rate::Fp32)), "{}", ratio(Rate::Fp32));
        assert!(ratio(Rate::Tf32) > 5.0, "{}", ratio(Rate::Tf32));
    }

    #[test]
    fn only_tensor_cores_transpose() {
        let bytes = |layout, rate| transposed(convolution(64, 3, 1), Pass::Forward, layout, a100(), rate, 2);
        let twice = 4 * convolution(64, 3, 1).elements();
        assert_eq!([Rate::Fp32, Rate::Fp16].map(|rate| bytes(MapLayout::ChannelsFirst, rate)), [0, twice]);
        assert_eq!([Rate::Tf32, Rate::Fp16].map(|rate| bytes(MapLayout::ChannelsLast, rate)), [twice, 0]);
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
