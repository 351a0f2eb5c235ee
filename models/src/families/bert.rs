//! Encoders as BERT and RoBERTa.

use super::parts::{Heads, Stream, classifier, pooler};
use crate::families::fields::{
    Field, LAYERS_MAX, SEQUENCE_MAX, VOCABULARY_MAX, WIDTH_MAX, attention_heads, choice, dimensions, head_classes,
    kernel, needed, optional, or, positions,
};
use crate::families::model::{Architecture, Sample};
use crate::families::{Dropout, HeadKind};
use crate::graph::{Layer, OperatorGraph};
use crate::operator::{AttentionKernel, Mask, Operator};
use trainyard_units::Invalid;

dimensions! {
    /// An encoder-only transformer: learned positions and segments, post-normalisation, GELU.
    ///
    /// Source: Devlin et al., arXiv:1810.04805, section 3; Liu et al., arXiv:1907.11692, for RoBERTa.
    pub struct Bert {
        name,
        hidden: u64 = needed(WIDTH_MAX),
        seq_len: u64 = needed(SEQUENCE_MAX),
        head: HeadKind = of_an_encoder(),
        layers: u32 = needed(LAYERS_MAX),
        heads: u64 = attention_heads(hidden),
        ffn: u64 = or(4 * hidden, 4 * WIDTH_MAX),
        vocab: u64 = needed(VOCABULARY_MAX),
        type_vocab: u64 = or(2, VOCABULARY_MAX),
        positions: u64 = positions(&[("seq_len", seq_len)]),
        attention: AttentionKernel = kernel(),
        predictions: Option<u64> = optional(seq_len),
        classes: Option<u64> = head_classes(head),
        /// The shares that are dropped out.
        @part dropout: Dropout = (),
    }
}

/// Share of a text's tokens that are predicted.
/// Source: Devlin et al., arXiv:1810.04805, section 3.1.
const PREDICTED_SHARE: f64 = 0.15;

/// Returns how many tokens of a text are hidden and predicted: what a model says, or 15 %, and at least one.
pub fn predicted_tokens(said: Option<u64>, tokens: u64) -> u64 {
    said.unwrap_or_else(|| (tokens as f64 * PREDICTED_SHARE).round() as u64).clamp(1, tokens)
}

/// Reads what is on top of an encoder, which predicts no next tokens.
fn of_an_encoder(at: Field, written: Option<HeadKind>) -> Result<HeadKind, Invalid> {
    match written {
        Some(HeadKind::LanguageModel) => {
            Err(Invalid::breaks(at.name, HeadKind::LanguageModel, "an encoder sees later tokens")
                .with_hint("set head = \"masked-language-model\""))
        }
        written => choice(at, written, HeadKind::Pretraining),
    }
}

impl Architecture for Bert {
    fn sample(&self) -> Sample {
        Sample::Tokens(self.seq_len)
    }

    fn tensor_heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    fn dropout(&self) -> Dropout {
        self.dropout
    }

    fn graph(&self) -> OperatorGraph {
        let stream = self.stream();
        let heads = Heads::equal(self.heads, self.hidden / self.heads, self.attention, Mask::Full);
        // Normalisation after each part instead of before it: the same operators, so that only the order differs.
        let block = stream.block(heads, stream.feed_forward(self.ffn), 0);
        let tied = matches!(self.head, HeadKind::Pretraining | HeadKind::MaskedLanguageModel);
        let shared = if tied { self.vocab * self.hidden } else { 0 };
        OperatorGraph::of_equal_blocks(self.embedding(), block, self.layers, self.head_layer(), shared)
    }
}

impl Bert {
    fn stream(&self) -> Stream {
        Stream::gelu(self.seq_len, self.hidden, self.dropout.counted(true))
    }

    fn embedding(&self) -> Layer {
        let looked_up = self.stream().lookup(self.vocab, self.positions, self.type_vocab);
        self.stream().input(vec![looked_up, self.stream().norm()])
    }

    fn head_layer(&self) -> Layer {
        let mut operators = Vec::new();
        match self.head {
            HeadKind::Pretraining => {
                operators.extend(self.masked_tokens());
                operators.extend(pooler(self.hidden));
                operators.extend(classifier(self.hidden, 2));
            }
            HeadKind::MaskedLanguageModel | HeadKind::LanguageModel => operators.extend(self.masked_tokens()),
            HeadKind::Pooler => operators.extend(pooler(self.hidden)),
            HeadKind::Classifier => {
                operators.extend(pooler(self.hidden));
                operators.extend(classifier(self.hidden, self.classes.unwrap_or(2)));
            }
        }
        Stream::head(self.seq_len, operators)
    }

    /// Returns the prediction of masked tokens.
    fn masked_tokens(&self) -> Vec<Operator> {
        let stream = Stream { tokens: self.predictions.unwrap_or(self.seq_len), ..self.stream() };
        stream.masked_tokens(self.hidden, self.vocab)
    }
}
