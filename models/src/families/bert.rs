//! Encoders as BERT and RoBERTa.

use super::transformer::{Heads, Stream, classifier, operator, pooler};
use crate::fields::{Fields, VOCABULARY_MAX};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};
use crate::spec::{Family, HeadKind, ModelError, ModelSpec};

const FIELDS: [&str; 12] = [
    "layers",
    "hidden",
    "heads",
    "ffn",
    "vocab",
    "type_vocab",
    "positions",
    "seq_len",
    "attention",
    "head",
    "predictions",
    "classes",
];

/// An encoder-only transformer: learned positions and segments, post-normalisation, GELU.
///
/// Source: Devlin et al., arXiv:1810.04805, section 3; Liu et al., arXiv:1907.11692, for RoBERTa.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bert {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Width inside the feed-forward part.
    pub ffn: u64,
    /// Entries of the token table.
    pub vocab: u64,
    /// Entries of the segment table.
    pub type_vocab: u64,
    /// Entries of the position table.
    pub positions: u64,
    /// Tokens of a sample.
    pub seq_len: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// What the encoder is trained on.
    pub head: HeadKind,
    /// Tokens of a sample for which the vocabulary is scored; all if nothing is said.
    pub predictions: Option<u64>,
    /// Classes, for a classifier.
    pub classes: Option<u64>,
}

impl Bert {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let hidden = fields.hidden()?;
        let seq_len = fields.seq_len()?;
        let head = spec.head.unwrap_or(HeadKind::Pretraining);
        Ok(Self {
            name: spec.name.clone(),
            layers: fields.layers()?,
            hidden,
            heads: fields.dividing_heads(hidden)?,
            ffn: fields.ffn(hidden)?,
            vocab: fields.vocab()?,
            type_vocab: fields.or("type_vocab", spec.type_vocab, 2, VOCABULARY_MAX)?,
            positions: fields.positions(&[("seq_len", seq_len)])?,
            seq_len,
            attention: fields.attention(),
            head,
            predictions: spec.predictions.map(|count| fields.range("predictions", count, seq_len)).transpose()?,
            classes: fields.classes(head)?,
        })
    }

    pub(crate) fn spec(&self) -> ModelSpec {
        ModelSpec {
            layers: Some(self.layers),
            hidden: Some(self.hidden),
            heads: Some(self.heads),
            ffn: Some(self.ffn),
            vocab: Some(self.vocab),
            type_vocab: Some(self.type_vocab),
            positions: Some(self.positions),
            seq_len: Some(self.seq_len),
            attention: Some(self.attention),
            head: Some(self.head),
            predictions: self.predictions,
            classes: self.classes,
            ..ModelSpec::new(&self.name, Family::Bert)
        }
    }

    pub(crate) fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let heads = Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Full);
        // Normalisation after each part instead of before it: the same operators, so that only the order differs.
        let block = stream.block(heads, stream.feed_forward(self.ffn), 0);
        let tied = matches!(self.head, HeadKind::Pretraining | HeadKind::MaskedLanguageModel);
        let shared = if tied { self.vocab * self.hidden } else { 0 };
        OperatorGraph::of_equal_blocks(self.embedding(), block, self.layers, self.head_layer(), shared)
    }

    fn stream(&self) -> Stream {
        Stream::gelu(self.seq_len, self.hidden, true)
    }

    fn embedding(&self) -> Layer {
        let kind = OperatorKind::Embedding {
            rows: self.seq_len,
            vocab: self.vocab,
            positions: self.positions,
            segments: self.type_vocab,
            width: self.hidden,
            dropout: true,
        };
        self.stream().input(vec![operator(kind, Split::Width), self.stream().norm()])
    }

    fn head_layer(&self) -> Layer {
        let mut operators = Vec::new();
        match self.head {
            HeadKind::Pretraining => {
                operators.extend(self.masked_tokens());
                operators.extend(pooler(self.hidden));
                operators.extend(classifier(self.hidden, 2));
            }
            HeadKind::MaskedLanguageModel => operators.extend(self.masked_tokens()),
            HeadKind::Pooler => operators.extend(pooler(self.hidden)),
            HeadKind::Classifier => {
                operators.extend(pooler(self.hidden));
                operators.extend(classifier(self.hidden, self.classes.unwrap_or(2)));
            }
        }
        Stream::head(self.seq_len, operators)
    }

    /// The prediction of masked tokens.
    fn masked_tokens(&self) -> Vec<Operator> {
        let stream = Stream { tokens: self.predictions.unwrap_or(self.seq_len), ..self.stream() };
        let activation = OperatorKind::Activation { rows: stream.tokens, width: self.hidden };
        let mut operators = vec![
            stream.linear(self.hidden, self.hidden, Split::Tokens),
            operator(activation, Split::Tokens),
            stream.norm(),
        ];
        operators.extend(stream.logits(self.vocab, true, true));
        operators
    }
}
