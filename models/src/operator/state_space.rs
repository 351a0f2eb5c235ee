//! Selective state spaces, as Mamba-2 has them.

use super::{Gemm, Pass, Storage, elements};
use trainyard_units::Flops;

/// What a layer computes whose state goes along the sequence.
///
/// # Source
///
/// Dao and Gu, "Transformers are SSMs", arXiv:2405.21060, sections 6 and 7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateSpace {
    /// A convolution of each channel by itself over the last few tokens, with its activation: (samples, steps, channels).
    Convolution {
        /// Independent sequences.
        samples: u64,
        /// Tokens of a sequence.
        steps: u64,
        channels: u64,
        /// Tokens that it sees at once.
        taps: u64,
        /// `true` if a bias is added.
        bias: bool,
    },
    /// The states of all heads, chunk by chunk: products of tokens inside a chunk, of a chunk with its state, and of its
    /// state with its tokens.
    Scan(Scan),
}

/// The shape of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Independent sequences.
    pub samples: u64,
    /// Tokens of a sequence.
    pub steps: u64,
    /// Tokens that are computed at once.
    pub chunk: u64,
    pub heads: u64,
    /// Features of a head.
    pub width: u64,
    /// Groups of heads that share what is written into their states and read out of them.
    pub groups: u64,
    /// Features of a state, for each feature of a head.
    pub state: u64,
}

impl Scan {
    fn chunks(self) -> u64 {
        self.samples * self.steps.div_ceil(self.chunk)
    }

    /// Returns the elements of what heads are given, of what is written and read, and of the steps' sizes.
    fn inputs(self) -> u64 {
        self.outputs() + self.samples * self.steps * (2 * self.groups * self.state + self.heads)
    }

    fn outputs(self) -> u64 {
        self.samples * self.steps * self.heads * self.width
    }

    /// Returns the elements of the states between chunks, which are kept in single precision.
    fn states(self) -> u64 {
        self.chunks() * self.heads * self.width * self.state
    }
}

impl StateSpace {
    pub(super) fn for_samples(self, samples: u64) -> Self {
        let mut scaled = self;
        let (Self::Convolution { samples: own, .. } | Self::Scan(Scan { samples: own, .. })) = &mut scaled;
        *own *= samples;
        scaled
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Convolution { .. } => "convolution over tokens",
            Self::Scan(_) => "state space",
        }
    }

    /// Returns the number of trainable values: of a scan the decay, the step and the skip of each head.
    pub(super) fn parameters(self) -> u64 {
        match self {
            Self::Convolution { channels, taps, bias, .. } => channels * (taps + u64::from(bias)),
            Self::Scan(scan) => 3 * scan.heads,
        }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        match self {
            Self::Convolution { bias, .. } => 1 + u32::from(bias),
            Self::Scan(_) => 3,
        }
    }

    /// Returns the products of a scan forward; a sequence that is shorter than a chunk is one of its own length.
    pub(super) fn gemms(self) -> Vec<Gemm> {
        let Self::Scan(scan) = self else { return Vec::new() };
        let Scan { steps, chunk, heads, width, groups, state, .. } = scan;
        let (chunks, tokens) = (scan.chunks(), chunk.min(steps));
        vec![
            Gemm { batch: chunks * groups, m: tokens, n: tokens, k: state },
            Gemm { batch: chunks * heads, m: tokens, n: width, k: tokens },
            Gemm { batch: chunks * heads, m: width, n: state, k: tokens },
            Gemm { batch: chunks * heads, m: tokens, n: width, k: state },
        ]
    }

    /// Returns the arithmetic of a convolution, which is no product.
    pub(super) fn fused_flops(self, pass: Pass) -> Flops {
        let Self::Convolution { samples, steps, channels, taps, .. } = self else { return Flops(0.0) };
        let forward = 2.0 * (samples * steps * channels * taps) as f64;
        Flops(if pass == Pass::Forward { forward } else { 2.0 * forward })
    }

    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        match self {
            Self::Convolution { samples, steps, channels, .. } => {
                elements(samples * steps * channels * if forward { 2 } else { 4 })
            }
            // States are written, passed on from chunk to chunk, and read; backward they are made again, and have gradients.
            Self::Scan(scan) => Storage {
                elements: (scan.inputs() + scan.outputs()) * if forward { 1 } else { 2 },
                single: scan.states() * if forward { 4 } else { 8 },
                masks: 0,
            },
        }
    }

    /// Returns the kernels besides products: of a scan decays summed up, states passed on.
    pub(super) fn kernels(self, pass: Pass) -> u32 {
        let products = self.gemms().len() as u32 * if pass == Pass::Forward { 1 } else { 2 };
        match self {
            Self::Convolution { .. } => 1,
            Self::Scan(_) => products + 2,
        }
    }

    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Convolution { samples, steps, channels, .. } => elements(samples * steps * channels),
            Self::Scan(scan) => elements(scan.inputs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(steps: u64) -> StateSpace {
        StateSpace::Scan(Scan { samples: 2, steps, chunk: 64, heads: 8, width: 16, groups: 2, state: 32 })
    }

    fn flops(operator: StateSpace) -> f64 {
        operator.gemms().into_iter().map(Gemm::flops).sum::<Flops>().0
    }

    #[test]
    fn a_scan_is_linear_in_tokens_beyond_a_chunk() {
        let by_hand = |tokens: f64| 2.0 * 2.0 * tokens * (2.0 * 64.0 * 32.0 + 8.0 * (64.0 * 16.0 + 2.0 * 32.0 * 16.0));
        assert!((flops(scan(256)) - by_hand(256.0)).abs() < 1e-6);
        assert!((flops(scan(512)) - 2.0 * flops(scan(256))).abs() < 1e-6);
        assert!(flops(scan(32)) < flops(scan(64)) / 2.0);
    }

    #[test]
    fn twice_the_samples_are_twice_the_work() {
        let convolution = StateSpace::Convolution { samples: 1, steps: 64, channels: 48, taps: 4, bias: true };
        for operator in [scan(128), convolution] {
            let twice = operator.for_samples(2);
            for pass in [Pass::Forward, Pass::Backward] {
                assert_eq!(twice.traffic(pass), operator.traffic(pass) + operator.traffic(pass));
            }
            assert_eq!(
                (twice.parameters(), twice.stored()),
                (operator.parameters(), operator.stored() + operator.stored())
            );
        }
    }
}
