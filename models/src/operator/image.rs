//! Operators over square images: (samples, size, size, channels).

use super::{Gemm, Pass, Storage, elements};

/// What is computed over a square image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Image {
    /// A convolution without bias that pads its input such that the stride alone shrinks it.
    Convolution(Convolution),
    /// Batch normalisation of (samples, size, size, channels) with scale and shift.
    BatchNorm {
        /// Images.
        samples: u64,
        /// Height and width.
        size: u64,
        /// Normalised channels.
        channels: u64,
    },
    /// The largest or the mean value of each window, `stride` apart.
    Pool {
        /// Images.
        samples: u64,
        /// Height and width of the input.
        size: u64,
        /// Channels.
        channels: u64,
        /// Distance of windows.
        stride: u64,
    },
}

/// A convolution of (samples, size, size, inputs) with (kernel, kernel, inputs / groups, outputs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Images.
    pub samples: u64,
    /// Height and width of the input.
    pub size: u64,
    /// Channels of the input.
    pub inputs: u64,
    /// Channels of the output.
    pub outputs: u64,
    /// Height and width of the kernel.
    pub kernel: u64,
    /// Distance of windows.
    pub stride: u64,
    /// Parts into which the channels fall, each convolved alone.
    pub groups: u64,
    /// Whether a bias is added.
    pub bias: bool,
}

impl Convolution {
    /// Height and width of the output.
    pub fn output_size(self) -> u64 {
        self.size.div_ceil(self.stride)
    }
}

impl Image {
    pub(super) fn for_samples(self, count: u64) -> Self {
        let mut scaled = self;
        match &mut scaled {
            Self::Convolution(Convolution { samples, .. })
            | Self::BatchNorm { samples, .. }
            | Self::Pool { samples, .. } => *samples *= count,
        }
        scaled
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Convolution(_) => "convolution",
            Self::BatchNorm { .. } => "batch normalisation",
            Self::Pool { .. } => "pooling",
        }
    }

    pub(super) fn parameters(self) -> u64 {
        match self {
            Self::Convolution(Convolution { inputs, outputs, kernel, groups, bias, .. }) => {
                inputs / groups * kernel * kernel * outputs + if bias { outputs } else { 0 }
            }
            Self::BatchNorm { channels, .. } => 2 * channels,
            Self::Pool { .. } => 0,
        }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        match self {
            Self::Convolution(convolution) => 1 + u32::from(convolution.bias),
            Self::BatchNorm { .. } => 2,
            Self::Pool { .. } => 0,
        }
    }

    /// The implicit product: output pixels × output channels, summed over input channels and kernel (Chetlur et al.,
    /// arXiv:1410.0759, section 3.1).
    pub(super) fn gemms(self) -> Vec<Gemm> {
        let Self::Convolution(convolution) = self else { return Vec::new() };
        let Convolution { samples, inputs, outputs, kernel, groups, .. } = convolution;
        let pixels = samples * convolution.output_size() * convolution.output_size();
        vec![Gemm { batch: groups, m: pixels, n: outputs / groups, k: inputs / groups * kernel * kernel }]
    }

    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        match self {
            Self::Convolution(_) => Storage::default(),
            // Forward reads for the statistics, reads again and writes; backward reads input and gradient twice.
            Self::BatchNorm { samples, size, channels } => {
                elements(samples * size * size * channels * if forward { 3 } else { 5 })
            }
            Self::Pool { samples, size, channels, stride } => {
                let outputs = samples * size.div_ceil(stride) * size.div_ceil(stride) * channels;
                elements(samples * size * size * channels + outputs)
            }
        }
    }

    pub(super) fn kernels(self, pass: Pass) -> u32 {
        match (self, pass) {
            (Self::Convolution(convolution), Pass::Backward) => 2 + u32::from(convolution.bias),
            (Self::Convolution(_) | Self::BatchNorm { .. } | Self::Pool { .. }, _) => 1,
        }
    }

    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Convolution(Convolution { samples, size, inputs: channels, .. })
            | Self::BatchNorm { samples, size, channels }
            | Self::Pool { samples, size, channels, .. } => elements(samples * size * size * channels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_implicit_product_counts_every_multiplication_of_the_sliding_window() {
        let convolution =
            Convolution { samples: 2, size: 9, inputs: 6, outputs: 8, kernel: 3, stride: 2, groups: 2, bias: false };
        // One by one: each output value of each image sums over a window of its group's input channels.
        let mut products = 0.0;
        for _image in 0..2 {
            for _row in (0..9).step_by(2) {
                for _column in (0..9).step_by(2) {
                    products += 8.0 * (6.0 / 2.0) * 9.0;
                }
            }
        }
        let counted: f64 = Image::Convolution(convolution).gemms().into_iter().map(|gemm| gemm.flops().0).sum();
        assert!((counted - 2.0 * products).abs() < 1e-9, "{counted}");
    }

    #[test]
    fn groups_divide_parameters() {
        let dense =
            Convolution { samples: 1, size: 8, inputs: 16, outputs: 32, kernel: 3, stride: 1, groups: 1, bias: true };
        let parameters = |groups| Image::Convolution(Convolution { groups, ..dense }).parameters();
        assert_eq!(parameters(1), 16 * 9 * 32 + 32);
        assert_eq!(parameters(16), 9 * 32 + 32);
    }
}
