//! A generator that replaces masked tokens, and a discriminator that finds them, as ELECTRA.

use super::parts::{Heads, Stream, operator};
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, dimensions, kernel, needed, or,
    positions,
};
use crate::families::model::{Architecture, Sample};
use crate::graph::{Layer, LayerRole, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator, OperatorKind, Split};
use trainyard_units::Invalid;

/// Of a hundred tokens so many are masked (Clark et al., section 3.1).
const MASKED_PERCENT: u64 = 15;

dimensions! {
    /// Two encoders as BERT that share token, position and segment tables: a narrower generator, which predicts masked
    /// tokens, and a discriminator, which says of each token whether the generator replaced it. Tables are as wide as the
    /// discriminator; a product brings them to the generator's width and back.
    ///
    /// Source: Clark et al., arXiv:2003.10555, sections 2 and 3.2.
    pub struct Electra {
        name,
        /// Width of the discriminator's residual stream, and of the tables.
        hidden: u64 = needed(WIDTH_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        /// Attention heads of the discriminator.
        heads: u64 = attention_heads(hidden),
        /// Width of the generator's residual stream: heads of the same width as the discriminator's.
        generator_hidden: u64 = whole_heads(hidden, hidden / heads),
        /// Blocks of each encoder.
        layers: u32 = needed(LAYERS_MAX),
        /// Width inside the discriminator's feed-forward part.
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        type_vocab: u64 = or(2, VOCABULARY_MAX),
        positions: u64 = positions(&[("seq_len", seq_len)]),
        attention: AttentionKernel = kernel(),
    }
}

/// Reads a width of whole heads, a quarter of the discriminator's unless it is stated.
fn whole_heads(at: Field, written: Option<u64>, hidden: u64, head_width: u64) -> Result<u64, Invalid> {
    let generator_hidden = or(at, written, (hidden / 4).max(head_width), hidden)?;
    if generator_hidden.is_multiple_of(head_width) {
        return Ok(generator_hidden);
    }
    Err(Invalid::value(at.name, generator_hidden, format!("divisible by the {head_width} features of a head"))
        .with_hint(format!("generator_hidden {} is divisible", generator_hidden.next_multiple_of(head_width))))
}

impl Architecture for Electra {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.generator_heads())
    }

    /// Tables, generator, its prediction of masked tokens, discriminator, its decision.
    fn graph(&self) -> OperatorGraph {
        let (generator, discriminator) = (self.stream(self.generator_hidden), self.stream(self.hidden));
        let width = self.hidden / self.heads;
        let heads = |heads| Heads::equal(heads, width, self.attention, Mask::Full);
        let narrow = self.ffn * self.generator_hidden / self.hidden;
        let runs = [
            (self.embedding(), 1),
            (generator.block(heads(self.generator_heads()), generator.feed_forward(narrow.max(1)), 0), self.layers),
            (self.replacement(), 1),
            (discriminator.block(heads(self.heads), discriminator.feed_forward(self.ffn), 0), self.layers),
            (self.decision(), 1),
        ];
        OperatorGraph::of_runs(runs, 0)
    }
}

impl Electra {
    /// Returns the attention heads of the generator, the fewer of the two.
    fn generator_heads(&self) -> u64 {
        self.generator_hidden * self.heads / self.hidden
    }

    fn stream(&self, hidden: u64) -> Stream {
        Stream::gelu(self.seq_len, hidden, true)
    }

    fn embedding(&self) -> Layer {
        let (generator, tables) = (self.stream(self.generator_hidden), self.stream(self.hidden));
        let narrowed = tables.linear(self.hidden, self.generator_hidden, Split::Tokens);
        generator.input(vec![tables.lookup(self.vocab, self.positions, self.type_vocab), tables.norm(), narrowed])
    }

    /// Returns the generator's prediction at masked positions, and the discriminator's lookup of what it wrote.
    fn replacement(&self) -> Layer {
        let masked = Stream { tokens: (self.seq_len * MASKED_PERCENT).div_ceil(100), ..self.stream(self.hidden) };
        let lookup = OperatorKind::TiedEmbedding { rows: self.seq_len, width: self.hidden };
        let mut operators = masked.masked_tokens(self.generator_hidden, self.vocab);
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
