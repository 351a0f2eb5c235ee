//! Operators: what one layer computes, with shapes; their FLOPs, traffic, kernels, parameters and stored activations.
//!
//! The counts of traffic and kernels are those of eager mixed-precision training with fused bias-dropout-add and
//! fused scale-mask-softmax, written out per operator so that a block sums to
//! 22·T·h + 8·T·h + 4·T·f + 9·b·a·s² bytes forward and 34·T·h + 10·T·h + 8·T·f + 11·b·a·s² backward at two bytes an
//! element, and its stored activations to s·b·h·(34 + 5·a·s/h) bytes.
//!
//! # Source
//!
//! Stored activations: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
//! arXiv:2205.05198, equation 1. FLOPs: Narayanan et al., arXiv:2104.04473, appendix.

use serde::{Deserialize, Serialize};
use trainyard_units::{Bytes, Flops};

/// How the attention core is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKernel {
    /// Scores, softmax and values as separate kernels; the s × s matrices go through memory.
    Unfused,
    /// One fused kernel (FlashAttention); the s × s matrices never leave the chip and are computed again backward.
    Flash,
}

/// A direction through the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// Inputs to loss.
    Forward,
    /// Loss to gradients, of inputs and of weights.
    Backward,
}

/// How an operator's work divides over the ranks of a tensor-parallel group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Every rank does all of it.
    Replicated,
    /// Each rank has a part of the outputs, columns of the weight.
    Columns,
    /// Each rank has a part of the inputs, rows of the weight.
    Rows,
    /// Each rank has a part of the heads, elements or vocabulary.
    Width,
}

/// One operator at the shape it has for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// What is computed.
    pub kind: OperatorKind,
    /// How it divides under tensor parallelism.
    pub split: Split,
}

/// What is computed and at which shape. `rows` are tokens: samples × sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperatorKind {
    /// (rows, inputs) · (inputs, outputs) + bias.
    Linear {
        /// Tokens.
        rows: u64,
        /// Input features.
        inputs: u64,
        /// Output features.
        outputs: u64,
        /// Whether a bias is added.
        bias: bool,
    },
    /// Scaled dot-product attention over (samples, heads, sequence, head width), from the joint QKV projection to the
    /// context that the output projection reads.
    Attention {
        /// Independent sequences.
        samples: u64,
        /// Heads.
        heads: u64,
        /// Tokens of a sequence.
        sequence: u64,
        /// Features of a head.
        head_width: u64,
        /// Fused or not.
        kernel: AttentionKernel,
    },
    /// Layer normalisation of (rows, width) with scale and shift.
    LayerNorm {
        /// Tokens.
        rows: u64,
        /// Normalised features.
        width: u64,
    },
    /// A pointwise non-linearity over (rows, width).
    Activation {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
    },
    /// Dropout and addition to the residual stream, over (rows, width).
    Residual {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
    },
    /// Rows of a (vocab, width) table looked up by token, plus learned positions of (positions, width).
    Embedding {
        /// Tokens.
        rows: u64,
        /// Entries of the token table.
        vocab: u64,
        /// Entries of the position table.
        positions: u64,
        /// Features.
        width: u64,
    },
    /// (rows, width) · (width, vocab) with the token table as its weight: it has no parameters of its own.
    TiedHead {
        /// Tokens.
        rows: u64,
        /// Features.
        width: u64,
        /// Entries of the token table.
        vocab: u64,
    },
    /// Softmax cross-entropy of (rows, vocab) logits, in single precision.
    CrossEntropy {
        /// Tokens.
        rows: u64,
        /// Classes.
        vocab: u64,
    },
}

/// A matrix product: `batch` times (m, k) · (k, n).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Independent products.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
}

impl Gemm {
    /// Two operations per multiply-add.
    pub fn flops(self) -> Flops {
        Flops(2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64)
    }

    /// Elements read and written once: both operands and the result.
    pub fn elements(self) -> u64 {
        self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)
    }
}

/// An amount of data in elements of the compute precision, in single-precision elements, and in plain bytes (masks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Elements in the compute precision (two bytes each in half precision).
    pub elements: u64,
    /// Elements that stay in single precision whatever the compute precision is.
    pub single: u64,
    /// Bytes of masks and indices.
    pub masks: u64,
}

impl Storage {
    /// The size at `element` bytes for an element of the compute precision.
    pub fn bytes(self, element: u64) -> Bytes {
        Bytes(self.elements * element + self.single * 4 + self.masks)
    }
}

impl std::ops::Add for Storage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            elements: self.elements + other.elements,
            single: self.single + other.single,
            masks: self.masks + other.masks,
        }
    }
}

fn elements(elements: u64) -> Storage {
    Storage { elements, ..Storage::default() }
}

impl Operator {
    /// The part of the operator that one of `tensor` ranks computes for `samples` samples.
    ///
    /// Widths that do not divide are rounded up: the slowest rank decides.
    pub fn on_rank(&self, samples: u64, tensor: u64) -> OperatorKind {
        self.kind.for_samples(samples).split(self.split, tensor)
    }
}

impl OperatorKind {
    /// The same operator over `samples` samples.
    #[must_use]
    pub fn for_samples(self, samples: u64) -> Self {
        let mut scaled = self;
        match &mut scaled {
            Self::Attention { samples: n, .. } => *n *= samples,
            Self::Linear { rows, .. }
            | Self::LayerNorm { rows, .. }
            | Self::Activation { rows, .. }
            | Self::Residual { rows, .. }
            | Self::Embedding { rows, .. }
            | Self::TiedHead { rows, .. }
            | Self::CrossEntropy { rows, .. } => *rows *= samples,
        }
        scaled
    }

    fn split(self, split: Split, tensor: u64) -> Self {
        let mut part = self;
        match (&mut part, split) {
            (_, Split::Replicated) => {}
            (Self::Linear { inputs, .. }, Split::Rows) => *inputs = inputs.div_ceil(tensor),
            (Self::Linear { outputs, .. }, _) => *outputs = outputs.div_ceil(tensor),
            (Self::Attention { heads, .. }, _) => *heads = heads.div_ceil(tensor),
            (Self::LayerNorm { width, .. } | Self::Activation { width, .. } | Self::Residual { width, .. }, _) => {
                *width = width.div_ceil(tensor);
            }
            (Self::Embedding { vocab, .. } | Self::TiedHead { vocab, .. } | Self::CrossEntropy { vocab, .. }, _) => {
                *vocab = vocab.div_ceil(tensor);
            }
        }
        part
    }

    /// Trainable values.
    pub fn parameters(self) -> u64 {
        match self {
            Self::Linear { inputs, outputs, bias, .. } => inputs * outputs + if bias { outputs } else { 0 },
            Self::LayerNorm { width, .. } => 2 * width,
            Self::Embedding { vocab, positions, width, .. } => (vocab + positions) * width,
            Self::Attention { .. }
            | Self::Activation { .. }
            | Self::Residual { .. }
            | Self::TiedHead { .. }
            | Self::CrossEntropy { .. } => 0,
        }
    }

    /// Trainable tensors, each of which an optimizer or a collective may handle on its own.
    pub fn parameter_tensors(self) -> u32 {
        match self {
            Self::Linear { bias, .. } => 1 + u32::from(bias),
            Self::LayerNorm { .. } | Self::Embedding { .. } => 2,
            _ => 0,
        }
    }

    /// The matrix products of a pass. Backward has two for each of forward's: gradients of inputs and of weights.
    pub fn gemms(self, pass: Pass) -> Vec<Gemm> {
        let forward = match self {
            Self::Linear { rows, inputs, outputs, .. } => vec![Gemm { batch: 1, m: rows, n: outputs, k: inputs }],
            Self::TiedHead { rows, width, vocab } => vec![Gemm { batch: 1, m: rows, n: vocab, k: width }],
            Self::Attention { samples, heads, sequence, head_width, kernel: AttentionKernel::Unfused } => {
                let batch = samples * heads;
                vec![
                    Gemm { batch, m: sequence, n: sequence, k: head_width },
                    Gemm { batch, m: sequence, n: head_width, k: sequence },
                ]
            }
            _ => Vec::new(),
        };
        match pass {
            Pass::Forward => forward,
            Pass::Backward => forward
                .into_iter()
                .flat_map(|Gemm { batch, m, n, k }| [Gemm { batch, m, n: k, k: n }, Gemm { batch, m: k, n, k: m }])
                .collect(),
        }
    }

    /// Arithmetic of a pass that is done in matrix products, the fused attention kernel's included. The causal half of
    /// attention that a kernel may skip is counted, as the field's formulas do.
    pub fn flops(self, pass: Pass) -> Flops {
        let fused = match self {
            Self::Attention { samples, heads, sequence, head_width, kernel: AttentionKernel::Flash } => {
                let forward = 4.0 * (samples * heads) as f64 * (sequence * sequence) as f64 * head_width as f64;
                if pass == Pass::Forward { forward } else { 2.0 * forward }
            }
            _ => 0.0,
        };
        Flops(fused) + self.gemms(pass).into_iter().map(Gemm::flops).sum()
    }

    /// Data that the kernels other than matrix products read and write in a pass.
    pub fn traffic(self, pass: Pass) -> Storage {
        let forward = pass == Pass::Forward;
        match self {
            // Bias gradients are counted with the activation and attention that stand next to the product.
            Self::Linear { .. } | Self::TiedHead { .. } => Storage::default(),
            Self::LayerNorm { rows, width } => elements(rows * width * if forward { 2 } else { 5 }),
            Self::Activation { rows, width } => elements(rows * width * if forward { 2 } else { 4 }),
            Self::Residual { rows, width } => Storage { elements: rows * width * 3, single: 0, masks: rows * width },
            Self::Attention { samples, heads, sequence, head_width, kernel } => {
                let stream = samples * sequence * heads * head_width;
                let scores = samples * heads * sequence * sequence;
                let transposes = elements(stream * if forward { 4 } else { 5 });
                match kernel {
                    AttentionKernel::Unfused => {
                        transposes
                            + Storage { elements: scores * if forward { 4 } else { 5 }, single: 0, masks: scores }
                    }
                    AttentionKernel::Flash => transposes + elements(stream * if forward { 4 } else { 8 }),
                }
            }
            Self::Embedding { rows, width, .. } => elements(rows * width * if forward { 3 } else { 4 }),
            // Logits are cast to single precision, reduced twice and exponentiated; backward writes their gradient.
            Self::CrossEntropy { rows, vocab } => {
                Storage { elements: rows * vocab, single: rows * vocab * 4, masks: 0 }
            }
        }
    }

    /// Kernels that a framework launches for a pass when it fuses nothing beyond bias, dropout and softmax. A block
    /// has 24 forward and 40 backward.
    pub fn kernels(self, pass: Pass) -> u32 {
        let (forward, backward) = match self {
            Self::Linear { .. } | Self::LayerNorm { .. } => (1, 3),
            Self::TiedHead { .. } => (1, 2),
            Self::Activation { .. } => (2, 2),
            Self::Residual { .. } => (3, 2),
            Self::Attention { kernel: AttentionKernel::Unfused, .. } => (10, 16),
            Self::Attention { kernel: AttentionKernel::Flash, .. } => (5, 6),
            Self::Embedding { .. } => (4, 3),
            Self::CrossEntropy { .. } => (8, 6),
        };
        if pass == Pass::Forward { forward } else { backward }
    }

    /// What must be kept from forward until backward.
    pub fn stored(self) -> Storage {
        match self {
            Self::Linear { rows, inputs, .. } => elements(rows * inputs),
            Self::TiedHead { rows, width, .. } | Self::LayerNorm { rows, width } | Self::Activation { rows, width } => {
                elements(rows * width)
            }
            Self::Residual { rows, width } | Self::Embedding { rows, width, .. } => {
                Storage { masks: rows * width, ..Storage::default() }
            }
            Self::Attention { samples, heads, sequence, head_width, kernel } => {
                let stream = samples * sequence * heads * head_width;
                let scores = samples * heads * sequence * sequence;
                match kernel {
                    AttentionKernel::Unfused => Storage { elements: 3 * stream + 2 * scores, single: 0, masks: scores },
                    // The output and one statistic per row take the place of the scores.
                    AttentionKernel::Flash => {
                        Storage { elements: 4 * stream, single: samples * heads * sequence, masks: 0 }
                    }
                }
            }
            Self::CrossEntropy { rows, vocab } => Storage { single: rows * vocab, ..Storage::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backward_has_twice_the_arithmetic_of_forward() {
        for kernel in [AttentionKernel::Unfused, AttentionKernel::Flash] {
            let attention = OperatorKind::Attention { samples: 2, heads: 4, sequence: 8, head_width: 16, kernel };
            assert_eq!(attention.flops(Pass::Backward), attention.flops(Pass::Forward) * 2.0);
        }
        let linear = OperatorKind::Linear { rows: 6, inputs: 10, outputs: 14, bias: true };
        assert_eq!(linear.flops(Pass::Backward), linear.flops(Pass::Forward) * 2.0);
    }

    #[test]
    fn tensor_parallel_parts_add_up_to_the_whole() {
        for (split, parts) in [(Split::Columns, 4), (Split::Rows, 2)] {
            let kind = OperatorKind::Linear { rows: 6, inputs: 16, outputs: 64, bias: false };
            let part = Operator { kind, split }.on_rank(1, parts);
            assert_eq!(part.parameters() * parts, kind.parameters());
            assert_eq!(part.flops(Pass::Forward) * parts as f64, kind.flops(Pass::Forward));
        }
    }
}
