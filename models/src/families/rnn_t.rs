//! Recurrent transducers for speech.

use super::gnmt::lstm;
use super::transformer::operator;
use crate::fields::{Fields, LAYERS_MAX, STEPS_MAX, VOCABULARY_MAX, WIDTH_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Operator, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 11] = [
    "layers",
    "stacked_layers",
    "decoder_layers",
    "hidden",
    "decoder_hidden",
    "joint",
    "stack",
    "inputs",
    "vocab",
    "seq_len",
    "decoder_seq_len",
];

/// An encoder of LSTM layers over frames of features, which stacks neighbouring frames behind its first layers; a
/// prediction network of LSTM layers over the tokens written so far; and a joint network that scores every token for
/// every pair of a frame and a number of tokens.
///
/// Source: Graves, arXiv:1211.3711, section 2; dimensions and stacking as in the reference of MLPerf Training 1.0
/// (mlcommons/training, rnn_speech_recognition/pytorch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RnnT {
    /// Catalog id or the user's name.
    pub name: String,
    /// Layers of the encoder before frames are stacked.
    pub layers: u32,
    /// Layers of the encoder behind that.
    pub stacked_layers: u32,
    /// Layers of the prediction network.
    pub decoder_layers: u32,
    /// Features of the encoder's states.
    pub hidden: u64,
    /// Features of the prediction network's states and embeddings.
    pub decoder_hidden: u64,
    /// Features of the joint network.
    pub joint: u64,
    /// Frames that are stacked.
    pub stack: u64,
    /// Features of a frame.
    pub inputs: u64,
    /// Tokens that are told apart, the blank among them.
    pub vocab: u64,
    /// Frames that the encoder reads.
    pub seq_len: u64,
    /// Tokens of a transcript.
    pub decoder_seq_len: u64,
}

impl RnnT {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let layers = fields.layers()?;
        let (hidden, seq_len) = (fields.hidden()?, fields.needed("seq_len", spec.seq_len, STEPS_MAX)?);
        let decoder_hidden = fields.or("decoder_hidden", spec.decoder_hidden, hidden.div_ceil(2), WIDTH_MAX)?;
        let stacked = spec.stacked_layers.map(u64::from);
        Ok(Self {
            name: spec.name.clone(),
            layers,
            stacked_layers: fields.needed("stacked_layers", stacked, LAYERS_MAX)? as u32,
            decoder_layers: fields.decoder_layers(layers)?,
            hidden,
            decoder_hidden,
            joint: fields.or("joint", spec.joint, decoder_hidden, WIDTH_MAX)?,
            stack: fields.or("stack", spec.stack, 2, seq_len)?,
            inputs: fields.needed("inputs", spec.inputs, WIDTH_MAX)?,
            vocab: fields.needed("vocab", spec.vocab, VOCABULARY_MAX)?,
            seq_len,
            decoder_seq_len: fields.needed("decoder_seq_len", spec.decoder_seq_len, STEPS_MAX)?,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            stacked_layers: Some(self.stacked_layers),
            decoder_layers: Some(self.decoder_layers),
            hidden: Some(self.hidden),
            decoder_hidden: Some(self.decoder_hidden),
            joint: Some(self.joint),
            stack: Some(self.stack),
            inputs: Some(self.inputs),
            vocab: Some(self.vocab),
            seq_len: Some(self.seq_len),
            decoder_seq_len: Some(self.decoder_seq_len),
            ..ModelSpec::new(&self.name, Family::RnnT)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let (hidden, frames) = (self.hidden, self.stacked_frames());
        let encoder = |name, role, steps, inputs| {
            Layer::undivided(name, role, vec![lstm(steps, inputs, hidden, 1)], steps * hidden)
        };
        let mut layers = vec![encoder("frames", LayerRole::Input, self.seq_len, self.inputs)];
        layers.extend((1..self.layers).map(|_| encoder("encoder layer", LayerRole::Block, self.seq_len, hidden)));
        layers.extend((0..self.stacked_layers).map(|index| {
            let inputs = if index == 0 { self.stack * hidden } else { hidden };
            encoder("encoder layer", LayerRole::Block, frames, inputs)
        }));
        layers.extend([self.prediction(), self.joint_network()]);
        OperatorGraph::of_layers(layers)
    }

    /// Frames behind the stacking.
    fn stacked_frames(&self) -> u64 {
        self.seq_len.div_ceil(self.stack)
    }

    /// Numbers of tokens written so far: none, one, and so on up to all.
    fn prefixes(&self) -> u64 {
        self.decoder_seq_len + 1
    }

    /// The blank is never read.
    fn prediction(&self) -> Layer {
        let (steps, width) = (self.prefixes(), self.decoder_hidden);
        let vocab = (self.vocab - 1).max(1);
        let lookup = OperatorKind::Embedding { rows: steps, vocab, positions: 0, segments: 0, width, dropout: false };
        let mut operators = vec![operator(lookup, Split::Replicated)];
        operators.extend((0..self.decoder_layers).map(|_| lstm(steps, width, width, 1)));
        let handed_on = self.stacked_frames() * self.hidden + steps * width;
        Layer::undivided("prediction network", LayerRole::Block, operators, handed_on)
    }

    /// Frames and prefixes are projected apart and added for every pair; what is positive is scored.
    fn joint_network(&self) -> Layer {
        let (frames, prefixes) = (self.stacked_frames(), self.prefixes());
        let pairs = frames * prefixes;
        let linear = |rows, inputs, outputs| {
            operator(OperatorKind::Linear { rows, inputs, outputs, bias: true }, Split::Replicated)
        };
        let operators: Vec<Operator> = vec![
            linear(frames, self.hidden, self.joint),
            linear(prefixes, self.decoder_hidden, self.joint),
            operator(OperatorKind::Relu { rows: pairs, width: self.joint }, Split::Replicated),
            linear(pairs, self.joint, self.vocab),
            operator(OperatorKind::CrossEntropy { rows: pairs, vocab: self.vocab }, Split::Replicated),
        ];
        Layer::undivided("joint network", LayerRole::Output, operators, pairs)
    }
}
