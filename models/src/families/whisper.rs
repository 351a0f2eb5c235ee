//! Encoder-decoders from sound to text as Whisper.

use super::encoder_decoder::Stacks;
use super::parts::{Heads, Stream, operator};
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, dimensions, kernel, needed, or,
    positions,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Convolution, Image, Mask, Operator, OperatorKind, Split, replicated};
use trainyard_units::Invalid;

/// Frames that the second convolution of the stem makes one of.
const FRAMES: u64 = 2;

/// Frames that a convolution of the stem sees at once.
const WINDOW: u64 = 3;

dimensions! {
    /// An encoder of frames of sound behind two convolutions, the second of which halves them, and a decoder that writes
    /// text: pre-normalisation, GELU, projections of keys without biases, a head tied to the decoder's token table.
    ///
    /// Source: Radford et al., arXiv:2212.04356, section 2.2. The sinusoids that the encoder adds are a table among the
    /// parameters, as in Hugging Face transformers, though they are not trained.
    pub struct Whisper {
        name,
        layers: u32 = needed(LAYERS_MAX),
        hidden: u64 = needed(WIDTH_MAX),
        /// Frames that the encoder reads.
        seq_len: u64 = pairs(),
        decoder_layers: u32 = or(layers, LAYERS_MAX),
        heads: u64 = attention_heads(hidden),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        decoder_seq_len: u64 = needed(SEQUENCE_MAX),
        /// Entries of the decoder's position table.
        positions: u64 = positions(&[("decoder_seq_len", decoder_seq_len)]),
        /// Features of a frame.
        inputs: u64 = needed(WIDTH_MAX),
        attention: AttentionKernel = kernel(),
    }
}

/// Reads frames, of which two become one.
fn pairs(at: Field, written: Option<u64>) -> Result<u64, Invalid> {
    let frames = needed(at, written, SEQUENCE_MAX)?;
    if frames.is_multiple_of(FRAMES) { Ok(frames) } else { Err(Invalid::value(at.name, frames, "an even number")) }
}

impl Architecture for Whisper {
    fn sample(&self) -> Sample {
        Sample::Sound
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    fn graph(&self) -> OperatorGraph {
        let (encoder, decoder) = (self.stream(self.seq_len / FRAMES), self.stream(self.decoder_seq_len));
        let heads = Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Full);
        let stacks = Stacks {
            encoder,
            decoder,
            layers: self.layers,
            decoder_layers: self.decoder_layers,
            heads: Heads { key_bias: false, ..heads },
            ffn: self.ffn,
            seam: vec![encoder.norm(), decoder.lookup(self.vocab, self.positions, 0)],
        };
        let head = decoder.language_model_head(self.vocab, true);
        // The decoder's table stands behind the encoder; for a cut into stages it counts as the first layer's.
        stacks.graph(self.stem(encoder), head, self.vocab * self.hidden)
    }
}

impl Whisper {
    fn stream(&self, tokens: u64) -> Stream {
        Stream::gelu(tokens, self.hidden, false)
    }

    /// Two convolutions over frames, each with its activation, and sinusoids.
    fn stem(&self, encoder: Stream) -> Layer {
        let convolution = |frames, outputs: u64, inputs| {
            let convolution = Convolution {
                samples: 1,
                input: [1, 1, frames],
                output: [1, 1, outputs],
                inputs,
                outputs: self.hidden,
                kernel: [1, 1, WINDOW],
                groups: 1,
                bias: true,
                transposed: false,
            };
            let activation = OperatorKind::Activation { rows: outputs, width: self.hidden };
            [OperatorKind::Image(Image::Convolution(convolution)), activation].map(replicated)
        };
        let sinusoids = Operator { split: Split::Tokens, ..encoder.lookup(encoder.tokens, 0, 0) };
        let mut operators = Vec::from(convolution(self.seq_len, self.seq_len, self.inputs));
        operators.extend(convolution(self.seq_len, encoder.tokens, self.hidden));
        let added = OperatorKind::Residual { rows: encoder.tokens, width: self.hidden, dropout: false };
        operators.extend([sinusoids, operator(added, Split::Tokens)]);
        Layer { tensor_reductions: 0, ..encoder.input(operators) }
    }
}
