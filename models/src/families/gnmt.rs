//! Recurrent encoder-decoders for translation, as GNMT.

use crate::families::fields::{LAYERS_MAX, STEPS_MAX, VOCABULARY_MAX, WIDTH_MAX, dimensions, needed, or};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AdditiveAttention, Cell, Operator, OperatorKind, Recurrent, replicated};

dimensions! {
    /// A stack of LSTM layers that reads, the first of them in both directions, and one that writes. The first layer of the
    /// decoder attends to the encoder's output; all others read what it found beside their input. Residual connections from
    /// the third layer of the encoder and the second of the decoder on. One token table for both sides, a head of its own.
    ///
    /// Source: Wu et al., arXiv:1609.08144, sections 3 and 3.1, with the changes of version 2 in NVIDIA/DeepLearningExamples
    /// (PyTorch/Translation/GNMT): four layers a side, and attention from the first layer of the decoder.
    pub struct Gnmt {
        name,
        layers: u32 = needed(LAYERS_MAX),
        seq_len: u64 = needed(STEPS_MAX),
        decoder_layers: u32 = or(layers, LAYERS_MAX),
        /// Features of states and embeddings.
        hidden: u64 = needed(WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        decoder_seq_len: u64 = or(seq_len, STEPS_MAX),
    }
}

/// Returns an LSTM layer over one sample.
pub(super) fn lstm(steps: u64, inputs: u64, hidden: u64, directions: u64) -> Operator {
    let layer = Recurrent { cell: Cell::Lstm, samples: 1, steps, inputs, hidden, directions };
    replicated(OperatorKind::Recurrent(layer))
}

impl Architecture for Gnmt {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn graph(&self) -> OperatorGraph {
        let mut layers = vec![self.embedding()];
        layers.extend((0..self.layers).map(|index| self.encoder_layer(index)));
        layers.extend((0..self.decoder_layers).map(|index| self.decoder_layer(index)));
        layers.push(self.head());
        OperatorGraph::of_layers(layers)
    }
}

impl Gnmt {
    fn residual(&self, rows: u64) -> Operator {
        replicated(OperatorKind::Residual { rows, width: self.hidden, dropout: true })
    }

    fn linear(rows: u64, inputs: u64, outputs: u64, bias: bool) -> Operator {
        replicated(OperatorKind::Linear { rows, inputs, outputs, bias })
    }

    fn embedding(&self) -> Layer {
        let kind = OperatorKind::Embedding {
            rows: self.seq_len,
            vocab: self.vocab,
            positions: 0,
            segments: 0,
            width: self.hidden,
            dropout: true,
        };
        let operators = vec![replicated(kind)];
        Layer::undivided("embedding", LayerRole::Input, operators, self.seq_len * self.hidden)
    }

    fn encoder_layer(&self, index: u32) -> Layer {
        let (hidden, steps) = (self.hidden, self.seq_len);
        let (inputs, directions) = match index {
            0 => (hidden, 2),
            1 => (2 * hidden, 1),
            _ => (hidden, 1),
        };
        let mut operators = vec![lstm(steps, inputs, hidden, directions)];
        if index > 1 {
            operators.push(self.residual(steps));
        }
        Layer::undivided("encoder layer", LayerRole::Block, operators, steps * directions * hidden)
    }

    /// Layers hand on their states and what attention found.
    fn decoder_layer(&self, index: u32) -> Layer {
        let (hidden, steps) = (self.hidden, self.decoder_seq_len);
        let operators = if index == 0 {
            let lookup = OperatorKind::TiedEmbedding { rows: steps, width: hidden };
            // A single layer reads both directions.
            let read = if self.layers == 1 { 2 * hidden } else { hidden };
            let attention = AdditiveAttention { samples: 1, queries: steps, keys: self.seq_len, width: hidden };
            vec![
                replicated(lookup),
                lstm(steps, hidden, hidden, 1),
                Self::linear(steps, hidden, hidden, false),
                Self::linear(self.seq_len, read, hidden, false),
                replicated(OperatorKind::AdditiveAttention(attention)),
            ]
        } else {
            vec![lstm(steps, 2 * hidden, hidden, 1), self.residual(steps)]
        };
        Layer::undivided("decoder layer", LayerRole::Block, operators, 2 * steps * hidden)
    }

    fn head(&self) -> Layer {
        let (rows, vocab) = (self.decoder_seq_len, self.vocab);
        let operators =
            vec![Self::linear(rows, self.hidden, vocab, true), replicated(OperatorKind::CrossEntropy { rows, vocab })];
        Layer::undivided("head", LayerRole::Output, operators, rows)
    }
}
