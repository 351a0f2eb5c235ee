//! Convolutions on a GPU: implicit matrix products whose operands are maps, which are read once and not as often as the
//! kernel covers a pixel.
//!
//! # Source
//!
//! Implicit products: Chetlur et al., arXiv:1410.0759, section 3.1. Channels padded to what tensor cores need: NVIDIA,
//! "Convolutional Layers User's Guide" (DU-09797), section 2.1. Minimal filtering: Lavin and Gray, arXiv:1509.09308.

use super::gemm::{self, ALIGNMENT};
use trainyard_hardware_profiles::{Gpu, Rate};
use trainyard_plan::operators::{Convolution, Gemm, Image, OperatorKind, Pass};
use trainyard_units::Seconds;

/// How many fewer multiplications single-precision convolutions with kernels of 3 × 3 need where they are computed on
/// tiles of 2 × 2 pixels by minimal filtering: Lavin and Gray, section 4.1.
const WINOGRAD: f64 = 2.25;

/// Channels of the narrowest tile: groups of fewer are computed together, as if they were one, and what the others'
/// weights would be is zero.
const TILE_CHANNELS: u64 = 64;

/// A GPU as a library of convolutions uses it.
#[derive(Clone, Copy)]
pub(super) struct Library<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) rate: Rate,
    /// Bytes of an element.
    pub(super) element: u64,
    /// Part of the products' rate that a stack reaches.
    pub(super) stack_factor: f64,
}

impl Library<'_> {
    /// The products of one pass, one after another: forward one; backward that of the input's gradient, then that of the
    /// weight's.
    pub(super) fn products(self, convolution: Convolution, pass: Pass) -> Vec<Seconds> {
        let moved = gemm::moving(convolution.elements() * self.element, self.gpu);
        let floor = self.gpu.achieved.kernel_floor.value;
        let products = OperatorKind::Image(Image::Convolution(self.packed(convolution))).gemms(pass);
        let depthwise = convolution.groups > 1 && convolution.groups == convolution.inputs;
        let rate = self.stack_factor * self.filtering(convolution);
        let seconds = |product: Gemm| {
            // A multiplication or two for each element that is read leave nothing to do but to read it.
            if depthwise { moved } else { moved.max(gemm::arithmetic(aligned(product), self.gpu, self.rate, rate)) }
        };
        products.into_iter().map(|product| seconds(product) + floor).collect()
    }

    /// Bytes that transposing all operands of a pass's products moves, if channels come first.
    pub(super) fn transposed(self, convolution: Convolution, pass: Pass) -> u64 {
        if !self.on_tensor_cores() || convolution.groups > 1 {
            return 0;
        }
        let products = if pass == Pass::Forward { 1 } else { 2 };
        2 * products * convolution.elements() * self.element
    }

    fn on_tensor_cores(self) -> bool {
        self.rate != Rate::Fp32 && self.gpu.has(self.rate)
    }

    /// The convolution with channels and groups that fill what computes them.
    fn packed(self, convolution: Convolution) -> Convolution {
        let Convolution { inputs, outputs, groups, .. } = convolution;
        let together = (TILE_CHANNELS * groups / outputs.max(inputs).max(1)).clamp(1, groups);
        let groups = groups.div_ceil(together);
        let unit = groups * if self.on_tensor_cores() { ALIGNMENT } else { 1 };
        Convolution {
            inputs: inputs.next_multiple_of(unit),
            outputs: outputs.next_multiple_of(unit),
            groups,
            ..convolution
        }
    }

    /// How many times fewer multiplications than counted a convolution takes.
    fn filtering(self, convolution: Convolution) -> f64 {
        let dense = convolution.groups == 1 && !convolution.transposed && convolution.kernel == [1, 3, 3];
        // A stride leaves half the pixels or fewer; where nothing is padded, two in each direction are missing.
        let near = convolution.output.iter().zip(&convolution.input).all(|(output, input)| output + 2 >= *input);
        if dense && near && !self.on_tensor_cores() { WINOGRAD } else { 1.0 }
    }
}

/// A product whose pixels, which kernels gather one by one anyway, fill rows of operands.
fn aligned(product: Gemm) -> Gemm {
    let [m, n, k] = [product.m, product.n, product.k].map(|size| size.next_multiple_of(ALIGNMENT));
    Gemm { m, n, k, ..product }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn convolution(kernel: u64, groups: u64) -> Convolution {
        Convolution {
            samples: 64,
            input: [1, 56, 56],
            output: [1, 56, 56],
            inputs: 256,
            outputs: 256,
            kernel: [1, kernel, kernel],
            groups,
            bias: false,
            transposed: false,
        }
    }

    fn library(rate: Rate) -> Library<'static> {
        let element = if rate == Rate::Fp32 { 4 } else { 2 };
        Library { gpu: catalog().gpu("v100-sxm2-16gb").expect("in the catalog"), rate, element, stack_factor: 1.0 }
    }

    fn forward(rate: Rate, convolution: Convolution) -> f64 {
        library(rate).products(convolution, Pass::Forward).iter().map(|time| time.0).sum()
    }

    #[test]
    fn minimal_filtering_is_for_single_precision() {
        let ratio = |rate| forward(rate, convolution(3, 1)) / forward(rate, convolution(1, 1));
        // Nine times the multiplications, of which filtering leaves four.
        assert!((3.5..4.5).contains(&ratio(Rate::Fp32)), "{}", ratio(Rate::Fp32));
        assert!(ratio(Rate::Fp16) > 5.0, "{}", ratio(Rate::Fp16));
    }

    #[test]
    fn no_convolution_beats_the_memory() {
        let gpu = library(Rate::Fp16).gpu;
        for (kernel, groups) in [(1, 1), (3, 1), (3, 32), (3, 256)] {
            let convolution = convolution(kernel, groups);
            let least = convolution.elements() as f64 * 2.0 / gpu.memory_bandwidth.value.0;
            assert!(forward(Rate::Fp16, convolution) >= least, "{kernel} {groups}");
        }
    }

    #[test]
    fn narrow_groups_cost_as_much_as_those_that_fill_a_tile() {
        let of = |groups| forward(Rate::Fp16, convolution(3, groups));
        assert!((of(4) / of(32) - 1.0).abs() < 1e-9);
        assert!(of(32) < of(1) && of(256) < of(32));
    }

    #[test]
    fn three_channels_are_padded_for_tensor_cores() {
        let stem = Convolution { inputs: 3, ..convolution(7, 1) };
        let padded = Convolution { inputs: 8, ..convolution(7, 1) };
        assert!((forward(Rate::Fp16, stem) / forward(Rate::Fp16, padded) - 1.0).abs() < 0.01);
        assert!(forward(Rate::Fp32, stem) < 0.6 * forward(Rate::Fp32, padded));
    }

    #[test]
    fn only_tensor_cores_transpose() {
        assert_eq!(library(Rate::Fp32).transposed(convolution(3, 1), Pass::Forward), 0);
        let bytes = library(Rate::Fp16).transposed(convolution(3, 1), Pass::Forward);
        assert_eq!(bytes, 4 * convolution(3, 1).elements());
    }
}
