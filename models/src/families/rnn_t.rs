//! Recurrent transducers for speech.

use super::gnmt::lstm;
use crate::families::fields::{LAYERS_MAX, STEPS_MAX, VOCABULARY_MAX, WIDTH_MAX, dimensions, needed, or};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{Operator, OperatorKind, replicated};

dimensions! {
    /// An encoder of LSTM layers over frames of features, which stacks neighbouring frames behind its first layers; a
    /// prediction network of LSTM layers over the tokens written so far; and a joint network that scores every token for
    /// every pair of a frame and a number of tokens.
    ///
    /// Source: Graves, arXiv:1211.3711, section 2; dimensions and stacking as in the reference of MLPerf Training 1.0
    /// (mlcommons/training, rnn_speech_recognition/pytorch).
    pub struct RnnT {
        name,
        /// Layers of the encoder before frames are stacked.
        layers: u32 = needed(LAYERS_MAX),
        /// Features of the encoder's states.
        hidden: u64 = needed(WIDTH_MAX),
        /// Frames that the encoder reads.
        seq_len: u64 = needed(STEPS_MAX),
        /// Features of the prediction network's states and embeddings.
        decoder_hidden: u64 = or(hidden.div_ceil(2), WIDTH_MAX),
        stacked_layers: u32 = needed(LAYERS_MAX),
        /// Layers of the prediction network.
        decoder_layers: u32 = or(layers, LAYERS_MAX),
        joint: u64 = or(decoder_hidden, WIDTH_MAX),
        stack: u64 = or(2, seq_len),
        /// Features of a frame.
        inputs: u64 = needed(WIDTH_MAX),
        /// Tokens that are told apart, the blank among them.
        vocab: u64 = needed(VOCABULARY_MAX),
        /// Tokens of a transcript.
        decoder_seq_len: u64 = needed(STEPS_MAX),
    }
}

impl Architecture for RnnT {
    fn sample(&self) -> Sample {
        Sample::Sound
    }

    fn graph(&self) -> OperatorGraph {
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
}

impl RnnT {
    /// Returns the frames behind the stacking.
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
        let mut operators = vec![replicated(lookup)];
        operators.extend((0..self.decoder_layers).map(|_| lstm(steps, width, width, 1)));
        let handed_on = self.stacked_frames() * self.hidden + steps * width;
        Layer::undivided("prediction network", LayerRole::Block, operators, handed_on)
    }

    /// Frames and prefixes are projected apart and added for every pair; what is positive is scored.
    fn joint_network(&self) -> Layer {
        let (frames, prefixes) = (self.stacked_frames(), self.prefixes());
        let pairs = frames * prefixes;
        let linear = |rows, inputs, outputs| replicated(OperatorKind::Linear { rows, inputs, outputs, bias: true });
        let operators: Vec<Operator> = vec![
            linear(frames, self.hidden, self.joint),
            linear(prefixes, self.decoder_hidden, self.joint),
            replicated(OperatorKind::Relu { rows: pairs, width: self.joint }),
            linear(pairs, self.joint, self.vocab),
            replicated(OperatorKind::CrossEntropy { rows: pairs, vocab: self.vocab }),
        ];
        Layer::undivided("joint network", LayerRole::Output, operators, pairs)
    }
}
