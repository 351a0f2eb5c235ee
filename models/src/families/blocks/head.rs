//! What is on top of the blocks.

use super::Blocks;
use crate::families::HeadKind;
use crate::families::parts::{Stream, operator};
use crate::graph::Layer;
use crate::operator::{Operator, OperatorKind, Split, replicated};

impl Blocks {
    pub(super) fn head_layer(&self) -> Layer {
        let stream = self.stream();
        let mut operators: Vec<Operator> = self.final_norm.then(|| stream.norm()).into_iter().collect();
        operators.extend(match self.head {
            HeadKind::Classifier => self.classifier(),
            HeadKind::MaskedLanguageModel => {
                let mut operators = self.transform(self.seq_len);
                operators.extend(self.vocabulary());
                operators
            }
            _ => self.vocabulary(),
        });
        Stream::head(self.seq_len, operators)
    }

    /// A product and an activation in front of the vocabulary or the classes.
    fn transform(&self, rows: u64) -> Vec<Operator> {
        let stream = Stream { tokens: rows, ..self.stream() };
        let activation = OperatorKind::Activation { rows, width: self.hidden };
        let mut operators =
            vec![stream.linear(self.hidden, self.hidden, Split::Tokens), operator(activation, Split::Tokens)];
        operators.extend(self.head_norm.then(|| stream.norm()));
        operators
    }

    /// Logits of the vocabulary, their bound, and the loss.
    fn vocabulary(&self) -> Vec<Operator> {
        let stream = Stream { hidden: self.embedding_width, ..self.stream() };
        let mut operators = Vec::new();
        if self.embedding_width != self.hidden {
            let narrowed = Stream { bias: false, ..self.stream() };
            operators.push(narrowed.linear(self.hidden, self.embedding_width, Split::Tokens));
        }
        let [logits, loss] = stream.logits(self.vocab, self.tied_head, self.head_bias);
        let capped = OperatorKind::Activation { rows: self.seq_len, width: self.vocab };
        operators.push(logits);
        operators.extend(self.logit_cap.map(|_| operator(capped, Split::Width)));
        operators.push(loss);
        operators
    }

    /// Classes: of every token of a decoder, of which only the last one's count, or of an encoder's first token.
    fn classifier(&self) -> Vec<Operator> {
        let classes = self.classes.unwrap_or(2);
        let rows = if self.causal { self.seq_len } else { 1 };
        let linear = OperatorKind::Linear { rows, inputs: self.hidden, outputs: classes, bias: self.head_bias };
        let mut operators = if self.causal { Vec::new() } else { self.transform(1) };
        operators.extend([linear, OperatorKind::CrossEntropy { rows: 1, vocab: classes }].map(replicated));
        operators
    }
}
