//! Where a model normalises by what all samples that it computes at once have in common.

use crate::layers::{Joined, Norm, OperatorSpec, Word};

/// Returns `true` if one of these operators is a batch normalisation that measures: its result then depends on how many
/// samples a device computes at once.
pub(super) fn normalises_over_batches(operators: &[OperatorSpec]) -> bool {
    operators.iter().any(|operator| match operator {
        OperatorSpec::Word(word) => *word == Word::BatchNorm,
        OperatorSpec::Conv(conv) => conv.norm == Some(Norm::Batch),
        OperatorSpec::Depthwise(conv) => conv.norm == Some(Norm::Batch),
        OperatorSpec::TransposedConv(conv) => conv.norm == Some(Norm::Batch),
        OperatorSpec::Add(add) => of_branches(&add.add),
        OperatorSpec::Concat(concat) => of_branches(&concat.concat),
        OperatorSpec::Side(side) => normalises_over_batches(&side.side),
        _ => false,
    })
}

fn of_branches(joined: &Joined) -> bool {
    match joined {
        Joined::Saved(_) => false,
        Joined::Branches(branches) => branches.iter().any(|branch| normalises_over_batches(branch)),
    }
}
