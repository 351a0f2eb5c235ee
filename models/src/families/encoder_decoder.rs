//! The two stacks that all encoder-decoders have.

use super::parts::{FeedForward, Heads, Norm, Stream, operator};
use crate::families::fields::{
    LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, dimensions, kernel, needed, or,
};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};

/// An encoder and a decoder that attends to it.
pub(super) struct Stacks {
    pub(super) encoder: Stream,
    pub(super) decoder: Stream,
    /// Blocks of the encoder.
    pub(super) layers: u32,
    /// Blocks of the decoder.
    pub(super) decoder_layers: u32,
    /// Heads of self-attention; attention to the encoder has the same, without a bias of scores.
    pub(super) heads: Heads,
    /// Width inside feed-forward parts.
    pub(super) ffn: u64,
    /// The operators that end the encoder and look up the decoder's tokens.
    pub(super) seam: Vec<Operator>,
}

impl Stacks {
    /// Embedding, encoder blocks, the decoder's first block, its other blocks, head.
    pub(super) fn graph(&self, embedding: Layer, head: Layer, shared: u64) -> OperatorGraph {
        let block = self.encoder.block(self.heads, self.encoder.feed_forward(self.ffn), 0);
        let decoder = [(self.decoder_block(true), 1), (self.decoder_block(false), self.decoder_layers - 1)];
        let encoder = [(embedding, 1), (block, self.layers)];
        OperatorGraph::of_runs(encoder.into_iter().chain(decoder).chain([(head, 1)]), shared)
    }

    /// Self-attention, attention to the encoder's output, feed-forward part. The first block has the seam besides, and
    /// keeps what the other blocks attend to.
    fn decoder_block(&self, first: bool) -> Layer {
        let Self { encoder, decoder, heads, .. } = *self;
        let mut operators = if first { self.seam.clone() } else { Vec::new() };
        operators.push(decoder.norm());
        operators.extend(decoder.attention(Heads { mask: Mask::Causal, ..heads }));
        operators.extend([decoder.residual(), decoder.norm()]);
        operators.extend(decoder.cross_attention(Heads { biased: false, ..heads }, encoder, first));
        operators.extend([decoder.residual(), decoder.norm()]);
        operators.extend(decoder.feed_forward(self.ffn));
        operators.push(decoder.residual());
        Layer {
            name: "decoder block".into(),
            role: LayerRole::Block,
            operators,
            output_elements: decoder.elements() + encoder.elements(),
            stream_elements: decoder.elements(),
            tensor_reductions: 3,
            exchanged_elements: 0,
            context_elements: decoder.tokens * heads.kv_width(),
            frozen: false,
            loss_in_tiles: false,
        }
    }
}

dimensions! {
    /// The dimensions that BART and the first transformer have in common: one token table for both sides and the head,
    /// post-normalisation, biases.
    pub struct EncoderDecoder {
        layers: u32 = needed(LAYERS_MAX),
        hidden: u64 = needed(WIDTH_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        decoder_layers: u32 = or(layers, LAYERS_MAX),
        heads: u64 = attention_heads(hidden),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        decoder_seq_len: u64 = or(seq_len, SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
    }
}

impl EncoderDecoder {
    pub(super) fn stream(&self, tokens: u64, feed_forward: FeedForward) -> Stream {
        Stream { tokens, hidden: self.hidden, norm: Norm::Layer, feed_forward, dropout: true.into(), bias: true }
    }

    /// Returns the tokens of the decoder, looked up in the same table.
    pub(super) fn tied_lookup(&self) -> Operator {
        let kind = OperatorKind::TiedEmbedding { rows: self.decoder_seq_len, width: self.hidden };
        operator(kind, Split::Tokens)
    }

    pub(super) fn graph(
        &self,
        feed_forward: FeedForward,
        embedding: Vec<Operator>,
        seam: Vec<Operator>,
    ) -> OperatorGraph {
        let encoder = self.stream(self.seq_len, feed_forward);
        let decoder = self.stream(self.decoder_seq_len, feed_forward);
        let stacks = Stacks {
            encoder,
            decoder,
            layers: self.layers,
            decoder_layers: self.decoder_layers,
            heads: Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Full),
            ffn: self.ffn,
            seam,
        };
        let head = Stream::head(self.decoder_seq_len, decoder.logits(self.vocab, true, false).into());
        stacks.graph(encoder.input(embedding), head, self.vocab * self.hidden)
    }
}
