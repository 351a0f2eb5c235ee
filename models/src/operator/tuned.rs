//! Operators of fine-tuning: products whose weights stay as they are, and the adapters beside them.
//!
//! # Source
//!
//! Adapters: Hu et al., "LoRA", arXiv:2106.09685, section 4.1. Weights in four bits: Dettmers et al., "QLoRA",
//! arXiv:2305.14314, section 3.

use super::{Gemm, Operator, Pass, Sharing, Split, Storage, elements};

/// Weights that share a scale in NF4 (Dettmers et al., arXiv:2305.14314, section 3).
const BLOCK: u64 = 64;

/// Scales that share a scale of their own (double quantisation, the same section).
const SCALES: u64 = 256;

/// What becomes of an operator's weights in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weights {
    /// They are trained.
    #[default]
    Trained,
    /// They stay as they are.
    Frozen(FrozenWeights),
    /// They are those of another layer, which stay as they are and which it computes with once more.
    Borrowed(FrozenWeights),
}

/// A format of few bits in which weights that stay as they are can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantization {
    /// Four bits with double quantisation (Dettmers et al., arXiv:2305.14314, section 3).
    Nf4,
    /// Eight bits, with a scale in single precision for each output (Dettmers et al., arXiv:2208.07339, section 3).
    Int8,
}

impl Quantization {
    /// Returns the bytes of a matrix with so many inputs and outputs.
    pub fn bytes(self, inputs: u64, outputs: u64) -> u64 {
        match self {
            Self::Nf4 => nf4_bytes(inputs * outputs),
            Self::Int8 => inputs * outputs + 4 * outputs,
        }
    }
}

/// Weights that have neither gradients nor an optimizer's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrozenWeights {
    /// Values in the compute precision.
    pub values: u64,
    /// Bytes of quantised weights, with their scales.
    pub quantised: u64,
    /// Matrices, of either.
    pub matrices: u32,
}

impl std::ops::Add for FrozenWeights {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            values: self.values + other.values,
            quantised: self.quantised + other.quantised,
            matrices: self.matrices + other.matrices,
        }
    }
}

/// What fine-tuning computes that training from scratch does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tuned {
    /// As many products (rows / experts, inputs) · (inputs, outputs) + bias as there are experts, with weights that are
    /// not trained: backward has the gradients of inputs alone, for which it keeps nothing.
    Frozen {
        /// 1 for an ordinary product.
        experts: u64,
        /// Tokens.
        rows: u64,
        /// Input features.
        inputs: u64,
        /// Output features.
        outputs: u64,
        /// `true` if a bias is added.
        bias: bool,
        /// The format in which the weights are kept, if it is not the compute precision.
        quantised: Option<Quantization>,
    },
    /// (rows, inputs) · (inputs, rank) · (rank, outputs), scaled and added to what a frozen product puts out.
    Adapter {
        /// Tokens.
        rows: u64,
        /// Input features.
        inputs: u64,
        /// Output features.
        outputs: u64,
        /// Features between the two products.
        rank: u64,
        /// `true` if inputs are dropped out.
        dropout: bool,
    },
}

/// Returns the bytes of so many weights in NF4: half a byte each, a scale of one byte for each 64, and one of four bytes
/// for each 256 scales, 4.127 bits a weight.
pub fn nf4_bytes(weights: u64) -> u64 {
    let scales = weights.div_ceil(BLOCK);
    weights.div_ceil(2) + scales + 4 * scales.div_ceil(SCALES)
}

impl Operator {
    /// Returns its weights that stay as they are, on one of those ranks.
    pub fn frozen_weights(&self, sharing: Sharing) -> FrozenWeights {
        let Weights::Frozen(whole) = self.weights else { return FrozenWeights::default() };
        self.part_of(whole, sharing)
    }

    /// Returns the weights of another layer that it computes with, on one of those ranks.
    pub fn borrowed_weights(&self, sharing: Sharing) -> FrozenWeights {
        let Weights::Borrowed(whole) = self.weights else { return FrozenWeights::default() };
        self.part_of(whole, sharing)
    }

    /// Returns the part of its weights on one of those ranks.
    fn part_of(&self, whole: FrozenWeights, sharing: Sharing) -> FrozenWeights {
        let (all, own) = (self.kind.weights(), self.on_rank(1, sharing).weights());
        if own == all {
            return whole;
        }
        let part = |values: u64| (u128::from(values) * u128::from(own)).div_ceil(u128::from(all)) as u64;
        FrozenWeights { values: part(whole.values), quantised: part(whole.quantised), ..whole }
    }
}

impl Tuned {
    pub(super) fn rows_mut(&mut self) -> &mut u64 {
        match self {
            Self::Frozen { rows, .. } | Self::Adapter { rows, .. } => rows,
        }
    }

    /// Splits it as the product that it stands for, or stands beside.
    pub(super) fn split(mut self, split: Split, tensor: u64) -> Self {
        let (Self::Frozen { inputs, outputs, .. } | Self::Adapter { inputs, outputs, .. }) = &mut self;
        let divided = if split == Split::Rows { inputs } else { outputs };
        *divided = divided.div_ceil(tensor);
        self
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Frozen { experts: 1, quantised: None, .. } => "frozen linear",
            Self::Frozen { experts: 1, quantised: Some(Quantization::Int8), .. } => "int8 linear",
            Self::Frozen { experts: 1, .. } => "quantised linear",
            Self::Frozen { .. } => "frozen linear of experts",
            Self::Adapter { .. } => "adapter",
        }
    }

    /// Returns the number of trainable values.
    pub(super) fn parameters(self) -> u64 {
        match self {
            Self::Frozen { .. } => 0,
            Self::Adapter { inputs, outputs, rank, .. } => rank * (inputs + outputs),
        }
    }

    /// Returns the number of values of its matrices, trained or not.
    pub(super) fn weights(self) -> u64 {
        match self {
            Self::Frozen { experts, inputs, outputs, .. } => experts * inputs * outputs,
            Self::Adapter { .. } => self.parameters(),
        }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        if matches!(self, Self::Adapter { .. }) { 2 } else { 0 }
    }

    pub(super) fn gemms(self, pass: Pass) -> Vec<Gemm> {
        match (self, pass) {
            (Self::Frozen { experts, rows, inputs, outputs, .. }, _) => {
                let (n, k) = if pass == Pass::Forward { (outputs, inputs) } else { (inputs, outputs) };
                vec![Gemm { batch: experts, m: rows.div_ceil(experts), n, k }]
            }
            (Self::Adapter { rows, inputs, outputs, rank, .. }, Pass::Forward) => {
                vec![Gemm { batch: 1, m: rows, n: rank, k: inputs }, Gemm { batch: 1, m: rows, n: outputs, k: rank }]
            }
            // Of each product the gradient of its input and that of its weight.
            (Self::Adapter { rows, inputs, outputs, rank, .. }, Pass::Backward) => vec![
                Gemm { batch: 1, m: rows, n: inputs, k: rank },
                Gemm { batch: 1, m: inputs, n: rank, k: rows },
                Gemm { batch: 1, m: rows, n: rank, k: outputs },
                Gemm { batch: 1, m: rank, n: outputs, k: rows },
            ],
        }
    }

    /// Forward reads what the frozen product put out and what the adapter adds, and writes the sum; backward scales the
    /// gradient, and adds that of the adapter's input to that of the product's. Dropout reads and writes the input.
    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let Self::Adapter { rows, inputs, outputs, dropout, .. } = self else { return Storage::default() };
        let moved = if pass == Pass::Forward { 3 * outputs } else { 2 * outputs + 3 * inputs };
        let dropped =
            if dropout { Storage { masks: rows * inputs, ..elements(2 * rows * inputs) } } else { Storage::default() };
        elements(rows * moved) + dropped
    }

    /// Kernels of a pass: of frozen weights in NF4 two that bring their scales and one that brings them to the compute
    /// precision; of weights in int8 forward those that find outliers and quantise the input, scale the result and add the
    /// product of outliers, and backward two that bring them to the compute precision (bitsandbytes, `MatMul8bitLt`); of an
    /// adapter its products, scale and sum (backward the sum of gradients of inputs), and dropout.
    pub(super) fn kernels(self, pass: Pass) -> u32 {
        match self {
            Self::Frozen { quantised, .. } => match (quantised, pass) {
                (None, _) => 1,
                (Some(Quantization::Nf4), _) => 4,
                (Some(Quantization::Int8), Pass::Forward) => 8,
                (Some(Quantization::Int8), Pass::Backward) => 3,
            },
            Self::Adapter { dropout, .. } => u32::from(dropout) + if pass == Pass::Forward { 4 } else { 6 },
        }
    }

    /// An adapter keeps its own copy of its input, cast or dropped out, with the mask, and what is between its products.
    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Frozen { .. } => Storage::default(),
            Self::Adapter { rows, inputs, rank, dropout, .. } => {
                let masks = if dropout { rows * inputs } else { 0 };
                Storage { masks, ..elements(rows * (inputs + rank)) }
            }
        }
    }

    /// Returns the quantised weights that a pass backward, and of NF4 one forward, brings to the compute precision.
    pub(super) fn dequantised(self) -> u64 {
        match self {
            Self::Frozen { experts, inputs, outputs, quantised: Some(_), .. } => experts * inputs * outputs,
            _ => 0,
        }
    }

    pub(super) fn quantization(self) -> Option<Quantization> {
        if let Self::Frozen { quantised, .. } = self { quantised } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_units::Flops;

    #[test]
    fn a_weight_takes_four_bits_and_an_eighth() {
        // Section 3 of the paper: 0.5 bits a weight for scales become 8 / 64 + 32 / (64 · 256) = 0.127.
        let weights = 4096 * 4096;
        let bits = 8.0 * nf4_bytes(weights) as f64 / weights as f64;
        assert!((bits - (4.0 + 8.0 / 64.0 + 32.0 / (64.0 * 256.0))).abs() < 1e-9, "{bits}");
        assert_eq!(nf4_bytes(1), 1 + 1 + 4);
    }

    #[test]
    fn eight_bits_are_a_byte_and_a_scale_for_each_output() {
        assert_eq!(Quantization::Int8.bytes(4096, 11_008), 4096 * 11_008 + 4 * 11_008);
        assert_eq!(Quantization::Nf4.bytes(4096, 4096), nf4_bytes(4096 * 4096));
    }

    #[test]
    fn frozen_weights_have_two_of_three_products() {
        let frozen = Tuned::Frozen { experts: 1, rows: 6, inputs: 10, outputs: 14, bias: true, quantised: None };
        let flops = |kind: Tuned, pass| kind.gemms(pass).into_iter().map(Gemm::flops).sum::<Flops>().0;
        let same = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} and {other}");
        same(flops(frozen, Pass::Forward), flops(frozen, Pass::Backward));
        let adapter = Tuned::Adapter { rows: 6, inputs: 10, outputs: 14, rank: 2, dropout: true };
        same(2.0 * flops(adapter, Pass::Forward), flops(adapter, Pass::Backward));
        same(flops(adapter, Pass::Forward), 2.0 * 6.0 * 2.0 * (10.0 + 14.0));
        assert_eq!((adapter.parameters(), frozen.parameters()), (2 * 24, 0));
    }
}
