//! Recurrent layers, and the additive attention that goes with them.

use super::{Gemm, Pass, Storage, elements};
use serde::{Deserialize, Serialize};

/// What a recurrent layer does at each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// Long short-term memory with a forget gate (Gers et al., 2000): four products, a hidden and a cell state.
    Lstm,
    /// Gated recurrent unit (Cho et al., arXiv:1406.1078): three products, a hidden state.
    Gru,
}

impl Cell {
    /// Products of each step: gates, and what may become the state.
    pub(crate) fn gates(self) -> u64 {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// States that a step hands to the next.
    fn states(self) -> u64 {
        match self {
            Self::Lstm => 2,
            Self::Gru => 1,
        }
    }
}

/// A recurrent layer over (samples, steps, inputs) to (samples, steps, directions · hidden), as cuDNN computes it: the
/// products with inputs of all steps are one, those with hidden states one after another (Appleyard et al.,
/// arXiv:1604.01946, sections 3.1 and 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recurrent {
    /// What a step does.
    pub cell: Cell,
    /// Independent sequences.
    pub samples: u64,
    /// Steps of a sequence.
    pub steps: u64,
    /// Features of an input.
    pub inputs: u64,
    /// Features of a hidden state.
    pub hidden: u64,
    /// 2 if another set of weights reads the sequence from its end, 1 otherwise.
    pub directions: u64,
}

/// Products of which each needs the result of the one before, all with the same matrix on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequential {
    /// How many.
    pub steps: u64,
    pub product: Gemm,
}

impl Recurrent {
    pub(super) fn for_samples(self, samples: u64) -> Self {
        Self { samples: self.samples * samples, ..self }
    }

    fn rows(self) -> u64 {
        self.samples * self.steps
    }

    /// Results of the products of a step, of all gates and directions.
    fn gate_width(self) -> u64 {
        self.directions * self.cell.gates() * self.hidden
    }

    /// Two biases for each gate, one with the product of inputs and one with that of states, as cuDNN and PyTorch have.
    pub(super) fn parameters(self) -> u64 {
        self.gate_width() * (self.inputs + self.hidden + 2)
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        4 * self.directions as u32
    }

    /// Returns the products that are done for all steps at once. Backward the gradients of both matrices are one
    /// product.
    pub(super) fn gemms(self, pass: Pass) -> Vec<Gemm> {
        let Self { inputs, hidden, .. } = self;
        let (rows, gates) = (self.rows(), self.gate_width());
        match pass {
            Pass::Forward => vec![Gemm { batch: 1, m: rows, n: gates, k: inputs }],
            Pass::Backward => vec![
                Gemm { batch: 1, m: rows, n: inputs, k: gates },
                Gemm { batch: 1, m: inputs + hidden, n: gates, k: rows },
            ],
        }
    }

    /// Returns the products of hidden states, or of their gradients.
    pub(super) fn sequential(self, pass: Pass) -> Sequential {
        let Self { samples, steps, hidden, directions, .. } = self;
        let gates = self.cell.gates() * hidden;
        let (n, k) = if pass == Pass::Forward { (gates, hidden) } else { (hidden, gates) };
        Sequential { steps, product: Gemm { batch: directions, m: samples, n, k } }
    }

    /// Forward reads the products of inputs and writes gates and states; backward reads those and the gradient of the
    /// output, and writes the gradients of gates.
    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let gates_and_states = 2 * self.cell.gates() + self.cell.states();
        let others = u64::from(pass == Pass::Backward);
        elements(self.rows() * self.directions * self.hidden * (gates_and_states + others))
    }

    /// Inputs, gates and states of all steps.
    pub(super) fn stored(self) -> Storage {
        let step = self.directions * self.hidden * (self.cell.gates() + self.cell.states());
        elements(self.rows() * (self.inputs + step))
    }
}

/// Attention by a small network: softmax over keys of v · tanh(query + key), then a sum of the keys; v normalised
/// (Bahdanau et al., arXiv:1409.0473, section 3.1 and appendix A.1.2; Salimans and Kingma, arXiv:1602.07868). Queries
/// and keys are projected already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdditiveAttention {
    /// Independent sequences.
    pub samples: u64,
    /// Steps that attend.
    pub queries: u64,
    /// Steps that are attended to.
    pub keys: u64,
    /// Features of queries and keys.
    pub width: u64,
}

impl AdditiveAttention {
    pub(super) fn for_samples(self, samples: u64) -> Self {
        Self { samples: self.samples * samples, ..self }
    }

    fn pairs(self) -> u64 {
        self.samples * self.queries * self.keys
    }

    /// Returns the vector v, a bias of the sums, and the scale of v.
    pub(super) fn parameters(self) -> u64 {
        2 * self.width + 1
    }

    /// Returns the sum of keys. That over features is counted as traffic: it has no reuse.
    pub(super) fn gemms(self) -> Vec<Gemm> {
        vec![Gemm { batch: self.samples, m: self.queries, n: self.width, k: self.keys }]
    }

    /// Every pair of query and key has a vector: forward the sum, the bias, the tangent and the product with v write
    /// and read it; backward the gradients of the same do, and are summed over keys and over queries.
    pub(super) fn traffic(self, pass: Pass) -> Storage {
        let (vectors, softmax) = if pass == Pass::Forward { (6, 3) } else { (7, 4) };
        elements(self.pairs() * (self.width * vectors + softmax))
    }

    /// Returns the tangents and the softmax.
    pub(super) fn stored(self) -> Storage {
        elements(self.pairs() * (self.width + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::OperatorKind;

    fn layer(cell: Cell, directions: u64) -> Recurrent {
        Recurrent { cell, samples: 3, steps: 5, inputs: 16, hidden: 8, directions }
    }

    #[test]
    fn arithmetic_is_that_of_every_step_by_itself() {
        for (cell, gates) in [(Cell::Lstm, 4.0), (Cell::Gru, 3.0)] {
            for directions in [1, 2] {
                let mut flops = 0.0;
                for _step in 0..5 {
                    for _direction in 0..directions {
                        // Each gate multiplies the input and the state, two operations for each value of each.
                        flops += gates * 2.0 * 3.0 * 8.0 * (16.0 + 8.0);
                    }
                }
                let kind = OperatorKind::Recurrent(layer(cell, directions));
                assert!((kind.flops(Pass::Forward).0 - flops).abs() < 1e-9);
                assert_eq!(kind.flops(Pass::Backward), kind.flops(Pass::Forward) * 2.0);
            }
        }
    }

    #[test]
    fn parameters_are_those_of_pytorch() {
        // torch.nn.LSTM(16, 8) and torch.nn.GRU(16, 8, bidirectional=True): weights for inputs and states, two biases.
        assert_eq!(layer(Cell::Lstm, 1).parameters(), 4 * 8 * 16 + 4 * 8 * 8 + 2 * 4 * 8);
        assert_eq!(layer(Cell::Gru, 2).parameters(), 2 * (3 * 8 * 16 + 3 * 8 * 8 + 2 * 3 * 8));
    }

    #[test]
    fn a_longer_sequence_has_more_dependent_products_of_the_same_size() {
        let short = layer(Cell::Lstm, 1);
        let long = Recurrent { steps: 50, ..short };
        for pass in [Pass::Forward, Pass::Backward] {
            let (short, long) = (short.sequential(pass), long.sequential(pass));
            assert_eq!((short.product, short.steps * 10), (long.product, long.steps));
        }
    }
}
