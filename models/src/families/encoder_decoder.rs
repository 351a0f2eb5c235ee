//! Encoder-decoders: the two stacks that all of them have, and the families of BART and of the first transformer.

use super::transformer::{FeedForward, Heads, Norm, Stream, operator};
use crate::fields::{Fields, SEQUENCE_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 9] =
    ["layers", "decoder_layers", "hidden", "heads", "ffn", "vocab", "seq_len", "decoder_seq_len", "attention"];

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
    /// What ends the encoder and looks up the decoder's tokens.
    pub(super) seam: Vec<Operator>,
}

impl Stacks {
    /// Embedding, encoder blocks, the decoder's first block, its other blocks, head.
    pub(super) fn graph(&self, embedding: Layer, head: Layer, shared: u64) -> OperatorGraph {
        let block = self.encoder.block(self.heads, self.encoder.feed_forward(self.ffn), 0);
        let layers = vec![embedding, block, self.decoder_block(true), self.decoder_block(false), head];
        let mut order = vec![0];
        order.extend(std::iter::repeat_n(1, self.layers as usize));
        order.push(2);
        order.extend(std::iter::repeat_n(3, self.decoder_layers as usize - 1));
        order.push(4);
        OperatorGraph::new(layers, order, shared)
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
        }
    }
}

/// The dimensions that BART and the first transformer have in common: one token table for both sides and the head,
/// post-normalisation, biases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderDecoder {
    /// Blocks of the encoder.
    pub layers: u32,
    /// Blocks of the decoder.
    pub decoder_layers: u32,
    /// Width of the residual streams.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Width inside the feed-forward part.
    pub ffn: u64,
    /// Entries of the token table.
    pub vocab: u64,
    /// Tokens that the encoder reads.
    pub seq_len: u64,
    /// Tokens that the decoder writes.
    pub decoder_seq_len: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
}

impl EncoderDecoder {
    fn read(fields: &Fields) -> Result<Self, ModelError> {
        let spec = fields.spec();
        let (layers, hidden, seq_len) = (fields.layers()?, fields.hidden()?, fields.seq_len()?);
        Ok(Self {
            layers,
            decoder_layers: fields.decoder_layers(layers)?,
            hidden,
            heads: fields.dividing_heads(hidden)?,
            ffn: fields.ffn(hidden)?,
            vocab: fields.vocab()?,
            seq_len,
            decoder_seq_len: fields.or("decoder_seq_len", spec.decoder_seq_len, seq_len, SEQUENCE_MAX)?,
            attention: fields.attention(),
        })
    }

    fn spec(&self, name: &str, family: Family) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            decoder_layers: Some(self.decoder_layers),
            hidden: Some(self.hidden),
            heads: Some(self.heads),
            ffn: Some(self.ffn),
            vocab: Some(self.vocab),
            seq_len: Some(self.seq_len),
            decoder_seq_len: Some(self.decoder_seq_len),
            attention: Some(self.attention),
            ..ModelSpec::new(name, family)
        }
    }

    fn stream(&self, tokens: u64, feed_forward: FeedForward) -> Stream {
        Stream { tokens, hidden: self.hidden, norm: Norm::Layer, feed_forward, dropout: true, bias: true }
    }

    /// The tokens of the encoder, looked up.
    fn lookup(&self, positions: u64) -> Operator {
        let kind = OperatorKind::Embedding {
            rows: self.seq_len,
            vocab: self.vocab,
            positions,
            segments: 0,
            width: self.hidden,
            dropout: true,
        };
        operator(kind, Split::Width)
    }

    /// The tokens of the decoder, looked up in the same table.
    fn tied_lookup(&self) -> Operator {
        let kind = OperatorKind::TiedEmbedding { rows: self.decoder_seq_len, width: self.hidden };
        operator(kind, Split::Tokens)
    }

    fn graph(&self, feed_forward: FeedForward, embedding: Vec<Operator>, seam: Vec<Operator>) -> OperatorGraph {
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

/// An encoder-decoder as BART: learned positions on each side, normalised embeddings, GELU.
///
/// Source: Lewis et al., arXiv:1910.13461, section 2.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bart {
    /// Catalog id or the user's name.
    pub name: String,
    /// Its dimensions.
    pub stacks: EncoderDecoder,
    /// Entries of each position table.
    pub positions: u64,
}

impl Bart {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS, &["positions"]])?;
        let stacks = EncoderDecoder::read(&fields)?;
        let sequences = [("seq_len", stacks.seq_len), ("decoder_seq_len", stacks.decoder_seq_len)];
        let positions = fields.positions(&sequences)?;
        Ok(Self { name: spec.name.clone(), stacks, positions })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec { positions: Some(self.positions), ..self.stacks.spec(&self.name, Family::Bart) }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let Self { stacks, positions, .. } = self;
        let norm = |tokens| stacks.stream(tokens, FeedForward::Smooth).norm();
        let learned = OperatorKind::Embedding {
            rows: stacks.decoder_seq_len,
            vocab: *positions,
            positions: 0,
            segments: 0,
            width: stacks.hidden,
            dropout: true,
        };
        let embedding = vec![stacks.lookup(*positions), norm(stacks.seq_len)];
        let seam = vec![stacks.tied_lookup(), operator(learned, Split::Tokens), norm(stacks.decoder_seq_len)];
        stacks.graph(FeedForward::Smooth, embedding, seam)
    }
}

/// The encoder-decoder that was called transformer first: sinusoidal positions, which are added where tokens are looked
/// up, ReLU.
///
/// Source: Vaswani et al., arXiv:1706.03762, section 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformer {
    /// Catalog id or the user's name.
    pub name: String,
    /// Its dimensions.
    pub stacks: EncoderDecoder,
}

impl Transformer {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        Ok(Self { name: spec.name.clone(), stacks: EncoderDecoder::read(&Fields::new(spec, &[&FIELDS])?)? })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        self.stacks.spec(&self.name, Family::Transformer)
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let Self { stacks, .. } = self;
        stacks.graph(FeedForward::Relu, vec![stacks.lookup(0)], vec![stacks.tied_lookup()])
    }
}
