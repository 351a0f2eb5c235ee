//! Operators that some software computes in another way.

use super::OperatorKind;

impl OperatorKind {
    /// Returns `true` for a product that software computes in eight bits, if it stands in a block.
    pub fn may_be_in_eight_bits(self) -> bool {
        matches!(self, Self::Linear { .. } | Self::ExpertLinear { .. })
    }

    /// Returns `true` for what a head computes of logits beside the product that they are: their bound and the loss.
    pub fn is_over_vocabulary(self) -> bool {
        matches!(self, Self::CrossEntropy { .. } | Self::Activation { .. })
    }
}
