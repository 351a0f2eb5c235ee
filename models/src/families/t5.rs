//! Encoder-decoders as T5.

use super::encoder_decoder::Stacks;
use super::transformer::{FeedForward, Heads, Norm, Stream, operator};
use crate::fields::{Fields, SEQUENCE_MAX};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 12] = [
    "layers",
    "decoder_layers",
    "hidden",
    "heads",
    "head_width",
    "ffn",
    "gated",
    "vocab",
    "seq_len",
    "decoder_seq_len",
    "attention",
    "tied_head",
];

/// Ranges of distances that share a bias (Raffel et al., section 2.1).
const BUCKETS: u64 = 32;

/// An encoder-decoder: relative position biases that all layers of a side share, root-mean-square pre-normalisation,
/// no biases, one token table for both sides and, where tied, the head.
///
/// Source: Raffel et al., arXiv:1910.10683, section 2.1; gated and untied in version 1.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct T5 {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks of the encoder.
    pub layers: u32,
    /// Blocks of the decoder.
    pub decoder_layers: u32,
    /// Width of the residual streams.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Features of a head.
    pub head_width: u64,
    /// Width inside the feed-forward part.
    pub ffn: u64,
    /// Whether feed-forward parts are gated.
    pub gated: bool,
    /// Entries of the token table.
    pub vocab: u64,
    /// Tokens that the encoder reads.
    pub seq_len: u64,
    /// Tokens that the decoder writes.
    pub decoder_seq_len: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// Whether the head's weight is the token table.
    pub tied_head: bool,
}

impl T5 {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let hidden = fields.hidden()?;
        let (heads, head_width) = fields.heads(hidden)?;
        let (layers, seq_len) = (fields.layers()?, fields.seq_len()?);
        Ok(Self {
            name: spec.name.clone(),
            layers,
            decoder_layers: fields.decoder_layers(layers)?,
            hidden,
            heads,
            head_width,
            ffn: fields.ffn(hidden)?,
            gated: spec.gated.unwrap_or(false),
            vocab: fields.vocab()?,
            seq_len,
            decoder_seq_len: fields.or("decoder_seq_len", spec.decoder_seq_len, seq_len, SEQUENCE_MAX)?,
            attention: fields.attention(),
            tied_head: spec.tied_head.unwrap_or(true),
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            decoder_layers: Some(self.decoder_layers),
            hidden: Some(self.hidden),
            heads: Some(self.heads),
            head_width: Some(self.head_width),
            ffn: Some(self.ffn),
            gated: Some(self.gated),
            vocab: Some(self.vocab),
            seq_len: Some(self.seq_len),
            decoder_seq_len: Some(self.decoder_seq_len),
            attention: Some(self.attention),
            tied_head: Some(self.tied_head),
            ..ModelSpec::new(&self.name, Family::T5)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
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

    fn stream(&self, tokens: u64) -> Stream {
        let feed_forward = if self.gated { FeedForward::Gated } else { FeedForward::Relu };
        Stream { tokens, hidden: self.hidden, norm: Norm::Rms, feed_forward, dropout: true, bias: false }
    }

    fn relative_bias(&self, tokens: u64) -> Operator {
        let kind = OperatorKind::RelativeBias { heads: self.heads, buckets: BUCKETS, queries: tokens, keys: tokens };
        operator(kind, Split::Width)
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
        self.stream(self.seq_len).input(vec![operator(kind, Split::Width), self.relative_bias(self.seq_len)])
    }

    fn head(&self) -> Layer {
        let decoder = self.stream(self.decoder_seq_len);
        let mut operators = vec![decoder.norm()];
        operators.extend(decoder.logits(self.vocab, self.tied_head, false));
        Stream::head(self.decoder_seq_len, operators)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::Sharing;

    #[test]
    fn the_encoders_output_is_kept_once_for_all_blocks_of_the_decoder() {
        let spec = crate::find("t5-small").expect("in the catalog").model.spec();
        let spec = ModelSpec { decoder_seq_len: Some(128), ..spec };
        let graph = T5::from_spec(&spec).expect("valid").graph();
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
