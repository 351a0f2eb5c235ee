//! Feed-forward parts with experts.

use super::Blocks;
use crate::families::parts::{Stream, operator};
use crate::operator::{Operator, OperatorKind, Split};

impl Blocks {
    /// Experts among which tokens are sent, and beside them the one that every token goes to.
    ///
    /// # Source
    ///
    /// Dai et al., "DeepSeekMoE", arXiv:2401.06066, section 3.
    pub(super) fn routed_feed_forward(&self) -> Vec<Operator> {
        let stream = self.stream();
        let Some(experts) = self.experts else { return Vec::new() };
        let width = self.expert_ffn.unwrap_or(self.ffn);
        let mut operators = stream.expert_feed_forward(experts, width, self.expert_bias);
        if let Some(shared) = self.shared_ffn {
            operators.extend(stream.feed_forward(shared));
            operators.extend(self.shared_gate.then(|| self.gate()).into_iter().flatten());
            let added = OperatorKind::Residual { rows: self.seq_len, width: self.hidden, dropout: false };
            operators.push(operator(added, Split::Tokens));
        }
        operators
    }

    /// A weight for each token, and what the shared expert made times it.
    fn gate(&self) -> [Operator; 2] {
        let stream = Stream { bias: false, ..self.stream() };
        let weighted = OperatorKind::Activation { rows: self.seq_len, width: self.hidden };
        [stream.linear(self.hidden, 1, Split::Tokens), operator(weighted, Split::Tokens)]
    }
}
