//! A generator that replaces masked tokens, and a discriminator that finds them, as ELECTRA.

use super::transformer::{Heads, Stream, operator};
use crate::fields::{Fields, VOCABULARY_MAX};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};
use crate::spec::{Family, ModelError, ModelSpec};

const FIELDS: [&str; 10] = [
    "layers",
    "hidden",
    "heads",
    "ffn",
    "vocab",
    "type_vocab",
    "positions",
    "seq_len",
    "attention",
    "generator_hidden",
];

/// Of a hundred tokens so many are masked (Clark et al., section 3.1).
const MASKED_PERCENT: u64 = 15;

/// Two encoders as BERT that share token, position and segment tables: a narrower generator, which predicts masked
/// tokens, and a discriminator, which says of each token whether the generator replaced it. Tables are as wide as the
/// discriminator; a product brings them to the generator's width and back.
///
/// Source: Clark et al., arXiv:2003.10555, sections 2 and 3.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Electra {
    /// Catalog id or the user's name.
    pub name: String,
    /// Blocks of each encoder.
    pub layers: u32,
    /// Width of the discriminator's residual stream, and of the tables.
    pub hidden: u64,
    /// Attention heads of the discriminator.
    pub heads: u64,
    /// Width inside the discriminator's feed-forward part.
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
    /// Width of the generator's residual stream: heads of the same width as the discriminator's.
    pub generator_hidden: u64,
}

impl Electra {
    pub(crate) fn from_spec(spec: &ModelSpec) -> Result<Self, ModelError> {
        let fields = Fields::new(spec, &[&FIELDS])?;
        let (hidden, seq_len) = (fields.hidden()?, fields.seq_len()?);
        let heads = fields.dividing_heads(hidden)?;
        let generator_hidden =
            fields.or("generator_hidden", spec.generator_hidden, (hidden / 4).max(hidden / heads), hidden)?;
        if !generator_hidden.is_multiple_of(hidden / heads) {
            return Err(ModelError::IndivisibleGenerator {
                model: spec.name.clone(),
                generator_hidden,
                head_width: hidden / heads,
            });
        }
        Ok(Self {
            name: spec.name.clone(),
            layers: fields.layers()?,
            hidden,
            heads,
            ffn: fields.ffn(hidden)?,
            vocab: fields.vocab()?,
            type_vocab: fields.or("type_vocab", spec.type_vocab, 2, VOCABULARY_MAX)?,
            positions: fields.positions(&[("seq_len", seq_len)])?,
            seq_len,
            attention: fields.attention(),
            generator_hidden,
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
            generator_hidden: Some(self.generator_hidden),
            ..ModelSpec::new(&self.name, Family::Electra)
        }
    }

    /// Tables, generator, its prediction of masked tokens, discriminator, its decision.
    pub(crate) fn graph(&self) -> OperatorGraph {
        let (generator, discriminator) = (self.stream(self.generator_hidden), self.stream(self.hidden));
        let width = self.hidden / self.heads;
        let heads = |heads| Heads::equal(heads, width, self.attention, Mask::Full);
        let narrow = self.ffn * self.generator_hidden / self.hidden;
        let layers = vec![
            self.embedding(),
            generator.block(heads(self.generator_heads()), generator.feed_forward(narrow.max(1)), 0),
            self.replacement(),
            discriminator.block(heads(self.heads), discriminator.feed_forward(self.ffn), 0),
            self.decision(),
        ];
        let mut order = vec![0];
        order.extend(std::iter::repeat_n(1, self.layers as usize));
        order.push(2);
        order.extend(std::iter::repeat_n(3, self.layers as usize));
        order.push(4);
        OperatorGraph::new(layers, order, 0)
    }

    /// Attention heads of the generator, the fewer of the two.
    pub(crate) fn generator_heads(&self) -> u64 {
        self.generator_hidden * self.heads / self.hidden
    }

    fn stream(&self, hidden: u64) -> Stream {
        Stream::gelu(self.seq_len, hidden, true)
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
        let (generator, tables) = (self.stream(self.generator_hidden), self.stream(self.hidden));
        let narrowed = tables.linear(self.hidden, self.generator_hidden, Split::Tokens);
        generator.input(vec![operator(kind, Split::Width), tables.norm(), narrowed])
    }

    /// The generator's prediction at masked positions, and the discriminator's lookup of what it wrote.
    fn replacement(&self) -> Layer {
        let masked = Stream { tokens: (self.seq_len * MASKED_PERCENT).div_ceil(100), ..self.stream(self.hidden) };
        let activation = OperatorKind::Activation { rows: masked.tokens, width: self.hidden };
        let lookup = OperatorKind::TiedEmbedding { rows: self.seq_len, width: self.hidden };
        let mut operators = vec![
            masked.linear(self.generator_hidden, self.hidden, Split::Tokens),
            operator(activation, Split::Tokens),
            masked.norm(),
        ];
        operators.extend(masked.logits(self.vocab, true, true));
        operators.extend([operator(lookup, Split::Tokens), self.stream(self.hidden).norm()]);
        Layer { name: "replacement".into(), role: LayerRole::Block, ..self.stream(self.hidden).input(operators) }
    }

    fn decision(&self) -> Layer {
        let stream = self.stream(self.hidden);
        let (rows, width) = (self.seq_len, self.hidden);
        let operators: Vec<Operator> = vec![
            stream.linear(width, width, Split::Tokens),
            operator(OperatorKind::Activation { rows, width }, Split::Tokens),
            stream.linear(width, 1, Split::Tokens),
            operator(OperatorKind::CrossEntropy { rows, vocab: 1 }, Split::Tokens),
        ];
        Layer { tensor_reductions: 0, ..Stream::head(rows, operators) }
    }
}
