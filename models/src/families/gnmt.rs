//! Recurrent encoder-decoders for translation, as GNMT.

use super::transformer::operator;
use crate::fields::{Fields, STEPS_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AdditiveAttention, Cell, Operator, OperatorKind, Recurrent, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 6] = ["layers", "decoder_layers", "hidden", "vocab", "seq_len", "decoder_seq_len"];

/// A stack of LSTM layers that reads, the first of them in both directions, and one that writes. The first layer of the
/// decoder attends to the encoder's output; all others read what it found beside their input. Residual connections from
/// the third layer of the encoder and the second of the decoder on. One token table for both sides, a head of its own.
///
/// Source: Wu et al., arXiv:1609.08144, sections 3 and 3.1, with the changes of version 2 in NVIDIA/DeepLearningExamples
/// (PyTorch/Translation/GNMT): four layers a side, and attention from the first layer of the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gnmt {
    /// Catalog id or the user's name.
    pub name: String,
    /// Layers of the encoder.
    pub layers: u32,
    /// Layers of the decoder.
    pub decoder_layers: u32,
    /// Features of states and embeddings.
    pub hidden: u64,
    /// Entries of the token table.
    pub vocab: u64,
    /// Tokens that the encoder reads.
    pub seq_len: u64,
    /// Tokens that the decoder writes.
    pub decoder_seq_len: u64,
}

/// An LSTM layer over one sample.
pub(super) fn lstm(steps: u64, inputs: u64, hidden: u64, directions: u64) -> Operator {
    let layer = Recurrent { cell: Cell::Lstm, samples: 1, steps, inputs, hidden, directions };
    operator(OperatorKind::Recurrent(layer), Split::Replicated)
}

impl Gnmt {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let (layers, seq_len) = (fields.layers()?, fields.needed("seq_len", spec.seq_len, STEPS_MAX)?);
        Ok(Self {
            name: spec.name.clone(),
            layers,
            decoder_layers: fields.decoder_layers(layers)?,
            hidden: fields.hidden()?,
            vocab: fields.vocab()?,
            seq_len,
            decoder_seq_len: fields.or("decoder_seq_len", spec.decoder_seq_len, seq_len, STEPS_MAX)?,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            decoder_layers: Some(self.decoder_layers),
            hidden: Some(self.hidden),
            vocab: Some(self.vocab),
            seq_len: Some(self.seq_len),
            decoder_seq_len: Some(self.decoder_seq_len),
            ..ModelSpec::new(&self.name, Family::Gnmt)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let mut layers = vec![self.embedding()];
        layers.extend((0..self.layers).map(|index| self.encoder_layer(index)));
        layers.extend((0..self.decoder_layers).map(|index| self.decoder_layer(index)));
        layers.push(self.head());
        OperatorGraph::of_layers(layers)
    }

    fn residual(&self, rows: u64) -> Operator {
        operator(OperatorKind::Residual { rows, width: self.hidden, dropout: true }, Split::Replicated)
    }

    fn linear(rows: u64, inputs: u64, outputs: u64, bias: bool) -> Operator {
        operator(OperatorKind::Linear { rows, inputs, outputs, bias }, Split::Replicated)
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
        let operators = vec![operator(kind, Split::Replicated)];
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
                operator(lookup, Split::Replicated),
                lstm(steps, hidden, hidden, 1),
                Self::linear(steps, hidden, hidden, false),
                Self::linear(self.seq_len, read, hidden, false),
                operator(OperatorKind::AdditiveAttention(attention), Split::Replicated),
            ]
        } else {
            vec![lstm(steps, 2 * hidden, hidden, 1), self.residual(steps)]
        };
        Layer::undivided("decoder layer", LayerRole::Block, operators, 2 * steps * hidden)
    }

    fn head(&self) -> Layer {
        let (rows, vocab) = (self.decoder_seq_len, self.vocab);
        let operators = vec![
            Self::linear(rows, self.hidden, vocab, true),
            operator(OperatorKind::CrossEntropy { rows, vocab }, Split::Replicated),
        ];
        Layer::undivided("head", LayerRole::Output, operators, rows)
    }
}
