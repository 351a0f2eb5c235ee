//! Operators over maps: (samples, depth, height, width, channels). An image has depth 1, a sequence depth and height 1.

use super::{Gemm, Operator, OperatorKind, Pass, Split, Storage, elements};

/// Depth, height and width of a map.
pub type Extent = [u64; 3];

/// What is computed over a map. `pixels` are depth × height × width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Image {
    Convolution(Convolution),
    /// Normalisation over samples (batch), channels (group) or pixels (instance), with scale and shift of each channel.
    Norm {
        /// Maps.
        samples: u64,
        /// Pixels of a map.
        pixels: u64,
        /// Normalised channels.
        channels: u64,
        /// `true` if it scales and shifts by what was learnt before, and measures and trains nothing.
        frozen: bool,
    },
    /// One value for each window of pixels.
    Pool {
        /// Maps.
        samples: u64,
        /// Pixels of the input.
        pixels: u64,
        /// Pixels of the output: windows.
        windows: u64,
        channels: u64,
        kind: Pool,
    },
    /// Repetition of pixels until there are more.
    Upsample {
        /// Maps.
        samples: u64,
        /// Pixels of the input.
        pixels: u64,
        /// Pixels of the output.
        repeated: u64,
        channels: u64,
    },
    /// Maps copied side by side into one.
    Concatenation {
        /// Maps.
        samples: u64,
        /// Elements of the result.
        elements: u64,
    },
    /// A function of each element by itself that its input is needed to derive: swish, sigmoid, hyperbolic tangent.
    Pointwise {
        /// Maps.
        samples: u64,
        /// Elements of a map.
        elements: u64,
    },
    /// Random zeros.
    Dropout {
        /// Maps.
        samples: u64,
        /// Elements of a map.
        elements: u64,
    },
    /// Each channel times one value: that of a gate of the sample, or a trained one.
    Scale {
        /// Maps.
        samples: u64,
        /// Pixels of a map.
        pixels: u64,
        channels: u64,
        /// `true` if the values are trained (Touvron et al., arXiv:2103.17239, section 2).
        trained: bool,
    },
    /// Regions cut out of a map, each brought to the same extent by bilinear sampling (He et al., arXiv:1703.06870,
    /// section 3).
    RegionAlign {
        /// Regions.
        samples: u64,
        /// Pixels of a region's result.
        pixels: u64,
        channels: u64,
    },
}

/// The value that stands for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    /// The largest.
    Max,
    Mean,
}

/// A convolution of (samples, input, inputs) with (kernel, inputs / groups, outputs) to (samples, output, outputs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Maps.
    pub samples: u64,
    pub input: Extent,
    /// Extent of the output, which stride, padding and dilation decide.
    pub output: Extent,
    /// Channels of the input.
    pub inputs: u64,
    /// Channels of the output.
    pub outputs: u64,
    pub kernel: Extent,
    /// Parts into which the channels fall, each convolved alone; as many as channels in a depthwise convolution.
    pub groups: u64,
    /// `true` if a bias is added.
    pub bias: bool,
    /// `true` if it is the transpose of a convolution, which spreads each input pixel over a window of the output.
    pub transposed: bool,
}

/// Pixels of a map of this extent.
pub(crate) fn pixels(extent: Extent) -> u64 {
    extent.iter().product()
}

impl Convolution {
    /// Returns the implicit product: output pixels × output channels, summed over the input channels of a group and the
    /// kernel (Chetlur et al., arXiv:1410.0759, section 3.1). Transposed, input pixels × a window of output channels,
    /// summed over input channels.
    pub fn gemm(self) -> Gemm {
        let (inputs, outputs) = (self.inputs / self.groups, self.outputs / self.groups);
        let (at, n, k) = if self.transposed {
            (self.input, outputs * pixels(self.kernel), inputs)
        } else {
            (self.output, outputs, inputs * pixels(self.kernel))
        };
        Gemm { batch: self.groups, m: self.samples * pixels(at), n, k }
    }

    /// Returns the elements of input, weight and output, one of which each of the three products of a step writes from the
    /// others.
    pub fn elements(self) -> u64 {
        self.input_elements() + self.weights() + self.output_elements()
    }

    fn input_elements(self) -> u64 {
        self.samples * pixels(self.input) * self.inputs
    }

    fn output_elements(self) -> u64 {
        self.samples * pixels(self.output) * self.outputs
    }

    fn weights(self) -> u64 {
        self.inputs / self.groups * pixels(self.kernel) * self.outputs
    }
}

impl Image {
    pub(super) fn for_samples(self, count: u64) -> Self {
        let mut scaled = self;
        match &mut scaled {
            Self::Convolution(Convolution { samples, .. })
            | Self::Norm { samples, .. }
            | Self::Pool { samples, .. }
            | Self::Upsample { samples, .. }
            | Self::Concatenation { samples, .. }
            | Self::Pointwise { samples, .. }
            | Self::Dropout { samples, .. }
            | Self::Scale { samples, .. }
            | Self::RegionAlign { samples, .. } => *samples *= count,
        }
        scaled
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Convolution(_) => "convolution",
            Self::Norm { .. } => "normalisation of channels",
            Self::Pool { .. } => "pooling",
            Self::Upsample { .. } => "upsampling",
            Self::Concatenation { .. } => "concatenation",
            Self::Pointwise { .. } => "pointwise function",
            Self::Dropout { .. } => "dropout",
            Self::Scale { .. } => "scaling of channels",
            Self::RegionAlign { .. } => "alignment of regions",
        }
    }

    pub(super) fn parameters(self) -> u64 {
        match self {
            Self::Convolution(convolution) => {
                convolution.weights() + if convolution.bias { convolution.outputs } else { 0 }
            }
            Self::Norm { channels, .. } => 2 * channels,
            Self::Scale { channels, trained: true, .. } => channels,
            _ => 0,
        }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        match self {
            Self::Convolution(convolution) => 1 + u32::from(convolution.bias),
            Self::Norm { frozen, .. } => {
                if frozen {
                    0
                } else {
                    2
                }
            }
            Self::Scale { trained, .. } => u32::from(trained),
            _ => 0,
        }
    }

    pub(super) fn gemms(self) -> Vec<Gemm> {
        match self {
            Self::Convolution(convolution) => vec![convolution.gemm()],
            _ => Vec::new(),
        }
    }

    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        match self {
            // Forward, the product adds the bias to what it writes; backward, its gradient is a sum over the output's.
            Self::Convolution(convolution) if convolution.bias && !forward => elements(convolution.output_elements()),
            Self::Convolution(_) => Storage::default(),
            // Forward reads for the statistics, reads again and writes; backward reads input and gradient twice.
            Self::Norm { samples, pixels, channels, frozen: true } => elements(samples * pixels * channels * 2),
            Self::Norm { samples, pixels, channels, frozen: false } => {
                elements(samples * pixels * channels * if forward { 3 } else { 5 })
            }
            Self::Pool { samples, pixels, windows, channels, .. } => elements(samples * (pixels + windows) * channels),
            Self::Upsample { samples, pixels, repeated, channels } => {
                elements(samples * (pixels + repeated) * channels)
            }
            Self::Concatenation { samples, elements: count } => elements(samples * count * 2),
            Self::Pointwise { samples, elements: count } => elements(samples * count * if forward { 2 } else { 3 }),
            Self::Dropout { samples, elements: count } => {
                Storage { elements: samples * count * 2, single: 0, masks: samples * count }
            }
            // Backward the gradient is scaled, and, times the input, summed over pixels.
            Self::Scale { samples, pixels, channels, .. } => {
                elements(samples * pixels * channels * if forward { 2 } else { 4 })
            }
            // Four samples of each result pixel, neighbours of which share what they read, so that about one input pixel
            // is fetched for each; backward their gradients are added one by one, in single precision.
            Self::RegionAlign { samples, pixels, channels } => {
                let results = samples * pixels * channels;
                if forward {
                    elements(5 * results)
                } else {
                    Storage { elements: results, single: 8 * results, masks: 0 }
                }
            }
        }
    }

    pub(super) fn kernels(self, pass: Pass) -> u32 {
        match (self, pass) {
            (Self::Convolution(convolution), Pass::Backward) => 2 + u32::from(convolution.bias),
            (Self::Scale { .. }, Pass::Backward) => 3,
            _ => 1,
        }
    }

    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Convolution(convolution) => elements(convolution.input_elements()),
            Self::Norm { samples, pixels, channels, frozen: false }
            | Self::Pool { samples, pixels, channels, kind: Pool::Max, .. }
            | Self::Scale { samples, pixels, channels, .. } => elements(samples * pixels * channels),
            Self::Pointwise { samples, elements: count } => elements(samples * count),
            Self::Dropout { samples, elements: count } => Storage { masks: samples * count, ..Storage::default() },
            Self::Norm { frozen: true, .. }
            | Self::Pool { kind: Pool::Mean, .. }
            | Self::Upsample { .. }
            | Self::Concatenation { .. }
            | Self::RegionAlign { .. } => Storage::default(),
        }
    }
}

/// Returns a gate for each channel from the means of all: mean, product to `squeezed` features, activation, product
/// back, sigmoid, scaling (Hu et al., arXiv:1709.01507, section 3).
pub(crate) fn squeeze_excite(
    (samples, pixels, channels): (u64, u64, u64),
    squeezed: u64,
    activation: OperatorKind,
) -> [OperatorKind; 6] {
    let linear = |inputs, outputs| OperatorKind::Linear { rows: samples, inputs, outputs, bias: true };
    [
        OperatorKind::Image(Image::Pool { samples, pixels, windows: 1, channels, kind: Pool::Mean }),
        linear(channels, squeezed),
        activation,
        linear(squeezed, channels),
        OperatorKind::Image(Image::Pointwise { samples, elements: channels }),
        OperatorKind::Image(Image::Scale { samples, pixels, channels, trained: false }),
    ]
}

/// Returns an operator that every rank computes in full.
pub(crate) fn replicated(kind: OperatorKind) -> Operator {
    Operator::new(kind, Split::Replicated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolution(groups: u64) -> Convolution {
        Convolution {
            samples: 2,
            input: [1, 9, 12],
            output: [1, 5, 6],
            inputs: 6,
            outputs: 8,
            kernel: [1, 3, 5],
            groups,
            bias: true,
            transposed: false,
        }
    }

    #[test]
    fn the_implicit_product_counts_every_multiplication_of_the_sliding_window() {
        // One by one: each output value of each image sums over a window of its group's input channels.
        let mut products = 0.0;
        for _image in 0..2 {
            for _row in (0..9).step_by(2) {
                for _column in (0..12).step_by(2) {
                    products += 8.0 * (6.0 / 2.0) * 15.0;
                }
            }
        }
        let counted = convolution(2).gemm().flops().0;
        assert!((counted - 2.0 * products).abs() < 1e-9, "{counted}");
    }

    #[test]
    fn a_transposed_convolution_does_the_arithmetic_of_the_one_it_transposes() {
        let forward = convolution(2);
        let transpose = Convolution {
            input: forward.output,
            output: forward.input,
            inputs: forward.outputs,
            outputs: forward.inputs,
            transposed: true,
            ..forward
        };
        assert_eq!(transpose.gemm().flops(), forward.gemm().flops());
        assert_eq!(transpose.elements(), forward.elements());
    }

    #[test]
    fn groups_divide_parameters() {
        let parameters = |groups| Image::Convolution(convolution(groups)).parameters();
        assert_eq!(parameters(1), 6 * 15 * 8 + 8);
        assert_eq!(parameters(2), 3 * 15 * 8 + 8);
    }

    #[test]
    fn the_mean_of_a_window_keeps_nothing_and_the_largest_value_keeps_where_it_was() {
        let pool = |kind| Image::Pool { samples: 2, pixels: 16, windows: 4, channels: 3, kind };
        assert_eq!(pool(Pool::Mean).stored(), Storage::default());
        assert_eq!(pool(Pool::Max).stored(), elements(2 * 16 * 3));
        assert_eq!(pool(Pool::Max).traffic(Pass::Forward), elements(2 * 20 * 3));
    }

    #[test]
    fn an_excitation_has_two_small_matrices() {
        let squeezed = squeeze_excite((3, 49, 64), 4, OperatorKind::Relu { rows: 3, width: 4 });
        assert_eq!(squeezed.map(OperatorKind::parameters).iter().sum::<u64>(), 64 * 4 + 4 + 4 * 64 + 64);
    }
}
