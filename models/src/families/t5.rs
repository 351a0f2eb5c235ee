//! Encoder-decoders as T5.

use super::encoder_decoder::Stacks;
use super::parts::{FeedForward, Heads, Norm, Stream, operator};
use crate::families::fields::{
    LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, choice, dimensions, kernel, needed, or,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};

/// Ranges of distances that share a bias (Raffel et al., section 2.1).
const BUCKETS: u64 = 32;

dimensions! {
    /// An encoder-decoder: relative position biases that all layers of a side share, root-mean-square pre-normalisation,
    /// no biases, one token table for both sides and, where tied, the head.
    ///
    /// Source: Raffel et al., arXiv:1910.10683, section 2.1; gated and untied in version 1.1.
    pub struct T5 {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        heads: u64 = attention_heads(hidden),
        head_width: u64 = or(hidden / heads, WIDTH_MAX),
        layers: u32 = needed(LAYERS_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        decoder_layers: u32 = or(layers, LAYERS_MAX),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        gated: bool = choice(false),
        vocab: u64 = needed(VOCABULARY_MAX),
        decoder_seq_len: u64 = or(seq_len, SEQUENCE_MAX),
        attention: AttentionKernel = kernel(),
        tied_head: bool = choice(true),
    }
}

impl Architecture for T5 {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    /// Source: huggingface/transformers, pull request 10956, and google-research/text-to-text-transfer-transformer, issue 539:
    /// the weights were trained in bfloat16, and feed-forward parts exceed 65,504 from t5-large and mt5-small (gated) on.
    fn overflows_half(&self) -> bool {
        self.gated || self.hidden >= 1024
    }

    fn graph(&self) -> OperatorGraph {
        let (encoder, decoder) = (self.stream(self.seq_len), self.stream(self.decoder_seq_len));
        let heads = Heads::equal(self.heads, self.head_width, self.attention, Mask::Full);
        let lookup = OperatorKind::TiedEmbedding { rows: self.decoder_seq_len, width: self.hidden };
        let stacks = Stacks {
            encoder,
            decoder,
            layers: self.layers,
            decoder_layers: self.decoder_layers,
            heads: Heads { biased: true, ..heads },
            ffn: self.ffn,
            seam: vec![encoder.norm(), operator(lookup, Split::Tokens), self.relative_bias(self.decoder_seq_len)],
        };
        let shared = if self.tied_head { self.vocab * self.hidden } else { 0 };
        stacks.graph(self.embedding(), self.head(), shared)
    }
}

impl T5 {
    fn stream(&self, tokens: u64) -> Stream {
        let feed_forward = if self.gated { FeedForward::Gated } else { FeedForward::Relu };
        Stream { tokens, hidden: self.hidden, norm: Norm::Rms, feed_forward, dropout: true.into(), bias: false }
    }

    fn relative_bias(&self, tokens: u64) -> Operator {
        let kind = OperatorKind::RelativeBias { heads: self.heads, buckets: BUCKETS, queries: tokens, keys: tokens };
        operator(kind, Split::Width)
    }

    fn embedding(&self) -> Layer {
        let encoder = self.stream(self.seq_len);
        encoder.input(vec![encoder.lookup(self.vocab, 0, 0), self.relative_bias(self.seq_len)])
    }

    fn head(&self) -> Layer {
        self.stream(self.decoder_seq_len).language_model_head(self.vocab, self.tied_head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Sharing;
    use crate::{Model, ModelSpec};

    #[test]
    fn the_encoders_output_is_kept_once_for_all_blocks_of_the_decoder() {
        let spec = crate::find("t5-small").expect("in the catalog").model.spec();
        let spec = ModelSpec { decoder_seq_len: Some(128), ..spec };
        let graph = Model::try_from(spec).expect("valid").graph();
        let kept: u64 = graph
            .layers()
            .filter(|layer| layer.name == "decoder block")
            .flat_map(|layer| &layer.operators)
            .filter(|operator| matches!(operator.kind, OperatorKind::Linear { rows: 512, .. }))
            .map(|operator| operator.stored(1, Sharing::WHOLE).elements)
            .sum();
        assert_eq!(kept, 512 * 512);
        // Blocks hand on both streams, but reduce and recompute from the decoder's alone.
        let block = graph.layer(graph.len() - 2);
        assert_eq!((block.output_elements, block.stream_elements), ((512 + 128) * 512, 128 * 512));
    }
}
