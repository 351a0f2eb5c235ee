//! Convolutions on a GPU: implicit matrix products, and direct kernels where groups leave too little to multiply.
//!
//! # Source
//!
//! Chetlur et al., arXiv:1410.0759, section 3: the matrix of windows is never written; tiles of it are made on the
//! chip. Lavin and Gray, arXiv:1509.09308: small kernels with fewer multiplications. NVIDIA, "Convolutional Layers
//! User's Guide" (DU-09798): channels are padded to what tensor cores read. See docs/physics.md.

use super::gemm;
use trainyard_hardware_profiles::{Gpu, Rate};
use trainyard_plan::operators::{Convolution, Gemm, Image, OperatorKind, Pass};
use trainyard_units::Seconds;

/// The factor by which kernels of 3 × 3 need fewer multiplications where they are computed on tiles of 2 × 2 pixels by
/// minimal filtering: Lavin and Gray, section 4.1. Tensor cores do nothing of the kind, and libraries have it for
/// channels that come first (cuDNN Developer Guide, algorithms of cudnnConvolutionForward).
const FILTERING: f64 = 2.25;

/// Time of depthwise convolutions relative to reading and writing their maps. Fitted on step times of
/// EfficientNet in three number formats and two frameworks; see docs/physics.md.
const DEPTHWISE: f64 = 6.0;

/// A GPU as the convolutions of a framework use it.
#[derive(Clone, Copy)]
pub(super) struct Library<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) rate: Rate,
    /// Bytes of an element.
    pub(super) element: u64,
    /// Part of the products' rate that the framework reaches.
    pub(super) stack_factor: f64,
    /// Set if all pixels of a channel lie together.
    pub(super) channels_first: bool,
}

impl Library<'_> {
    /// The time of each product of a pass on an otherwise idle GPU: forward one, backward that of the input's gradient
    /// and that of the weight's.
    pub(super) fn products(self, convolution: Convolution, pass: Pass) -> Vec<Seconds> {
        self.chosen(convolution, pass).own_products(convolution, pass)
    }

    /// Returns what computes a pass where single precision may be rounded to TF32: kernels of either, whichever take less time
    /// (cuDNN Developer Guide, `CUDNN_DEFAULT_MATH` admits both).
    fn chosen(self, convolution: Convolution, pass: Pass) -> Self {
        if self.rate != Rate::Tf32 {
            return self;
        }
        let time = |library: Self| {
            let products: f64 = library.own_products(convolution, pass).iter().map(|product| product.0).sum();
            products + library.own_transposes(convolution, pass).0
        };
        let single = Self { rate: Rate::Fp32, ..self };
        if time(single) < time(self) { single } else { self }
    }

    fn own_products(self, convolution: Convolution, pass: Pass) -> Vec<Seconds> {
        let Self { gpu, rate, element, stack_factor, .. } = self;
        // Each product reads two of input, weight and output, and writes the third.
        let passes = if depthwise(convolution) { DEPTHWISE } else { 1.0 };
        let traffic = gemm::traffic(convolution.elements(), gpu, element) * passes;
        let single = gpu.peak(Rate::Fp32) * (gpu.gemm_fraction(Rate::Fp32) * stack_factor);
        let direct = convolution.gemm().flops() / single;
        let dense = Convolution { groups: 1, ..convolution };
        let arithmetic =
            |product, of: Convolution| gemm::arithmetic(product, gpu, rate, stack_factor * self.filtering(of));
        implicit(convolution, pass, rate)
            .into_iter()
            .zip(implicit(dense, pass, rate))
            .map(|(grouped, whole)| {
                // Groups by themselves, or as one product in which the weights of others are zero, or one by one.
                let least = arithmetic(grouped, convolution).0.min(arithmetic(whole, dense).0);
                let fastest = if convolution.groups > 1 { least.min(direct.0) } else { least };
                Seconds(fastest).max(traffic) + gpu.achieved.kernel_floor.value
            })
            .collect()
    }

    /// The time in which what a pass's products read and write of maps is transposed, before and after, where channels
    /// come first and tensor cores need them last.
    pub(super) fn transposes(self, convolution: Convolution, pass: Pass) -> Seconds {
        self.chosen(convolution, pass).own_transposes(convolution, pass)
    }

    fn own_transposes(self, convolution: Convolution, pass: Pass) -> Seconds {
        if !self.channels_first || !self.on_tensor_cores() || depthwise(convolution) {
            return Seconds::ZERO;
        }
        let products = if pass == Pass::Forward { 1 } else { 2 };
        gemm::traffic(2 * products * convolution.elements(), self.gpu, self.element)
    }

    fn on_tensor_cores(self) -> bool {
        self.rate != Rate::Fp32 && self.gpu.has(self.rate)
    }

    /// The factor by which a convolution takes fewer multiplications than counted.
    fn filtering(self, convolution: Convolution) -> f64 {
        let dense = convolution.groups == 1 && !convolution.transposed && convolution.kernel == [1, 3, 3];
        // A stride leaves half the pixels or fewer; where nothing is padded, two in each direction are missing.
        let near = convolution.output.iter().zip(&convolution.input).all(|(output, input)| output + 2 >= *input);
        if dense && near && self.channels_first && !self.on_tensor_cores() { FILTERING } else { 1.0 }
    }
}

/// The implicit products of a pass.
fn implicit(convolution: Convolution, pass: Pass, rate: Rate) -> Vec<Gemm> {
    OperatorKind::Image(Image::Convolution(padded(convolution, rate))).gemms(pass)
}

fn depthwise(convolution: Convolution) -> bool {
    convolution.groups > 1 && convolution.groups == convolution.inputs
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

    /// With elements of two bytes in every format, so that only arithmetic differs.
    fn library(rate: Rate, channels_first: bool) -> Library<'static> {
        Library { gpu: a100(), rate, element: 2, stack_factor: 1.0, channels_first }
    }

    fn forward(convolution: Convolution, rate: Rate) -> f64 {
        library(rate, true).products(convolution, Pass::Forward)[0].0
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
        // Nine times the multiplications, of which filtering leaves four, and one prologue for each tile of either.
        assert!((2.2..2.6).contains(&ratio(Rate::Fp32)), "{}", ratio(Rate::Fp32));
        assert!(ratio(Rate::Tf32) > 5.0, "{}", ratio(Rate::Tf32));
    }

    #[test]
    fn rounding_to_tf32_makes_no_convolution_slower() {
        let single = |name: &str, rate| {
            let gpu = catalog().gpu(name).expect("in the catalog");
            Library { gpu, rate, element: 4, stack_factor: 1.0, channels_first: true }
        };
        for name in ["a100-sxm4-40gb", "a10g", "l4", "l40s"] {
            for (channels, kernel) in [(64, 3), (64, 1), (512, 3), (16, 7)] {
                let convolution = convolution(channels, kernel, 1);
                let [tf32, fp32] = [Rate::Tf32, Rate::Fp32].map(|rate| {
                    let library = single(name, rate);
                    library.products(convolution, Pass::Forward)[0].0 + library.transposes(convolution, Pass::Forward).0
                });
                assert!(tf32 <= fp32, "{name} {channels} {kernel}: {tf32} {fp32}");
            }
        }
    }

    #[test]
    fn tensor_cores_transpose_where_channels_come_first() {
        let convolution = convolution(64, 3, 1);
        let time = |rate, first| library(rate, first).transposes(convolution, Pass::Forward);
        assert_eq!([time(Rate::Fp32, true), time(Rate::Fp16, false)], [Seconds::ZERO; 2]);
        let maps = gemm::traffic(convolution.elements(), a100(), 2).0;
        assert!((time(Rate::Fp16, true).0 / maps - 2.0).abs() < 1e-9);
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
