//! Context parallelism: the tokens of every sample are shared out, and keys and values go round the ranks that have
//! them.
//!
//! Tokens are dealt out in stripes: of n ranks, rank r has token r, r + n, r + 2n and so on. Under a causal mask every
//! rank then has the same work with every other rank's keys.
//!
//! Sources: Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite Context", arXiv:2310.01889,
//! section 3; Brandon et al., "Striped Attention", arXiv:2311.09431, section 3, for the stripes.

use super::attention::Mask;
use super::exchange::with_gradients;
use super::operators::{plain, single};
use super::peers::{Peers, from_host, to_host};
use crate::kernels::{AttentionShape, DropoutMask, Every, Partial, Sees, partial_attention, partial_gradients};
use crate::process_group::{GroupError, ProcessGroup, Tag};
use burn::tensor::{FloatDType, Tensor};
use std::borrow::Cow;
use trainyard_data::{Inputs, MicroBatch};

/// Messages that go round: keys with values, and their gradients.
const KEYS: Tag = Tag(0);
const GRADIENTS: Tag = Tag(1);

/// The ranks that share the tokens of each sample.
#[derive(Clone)]
pub(crate) struct ContextGroup(Peers);

impl ContextGroup {
    pub(crate) fn new(group: ProcessGroup) -> Self {
        Self(Peers::new(group))
    }

    pub(crate) fn size(&self) -> usize {
        self.0.size()
    }

    /// Returns an error if an exchange failed since the group was made; results after it mean nothing.
    pub(crate) fn check(&self) -> Result<(), GroupError> {
        self.0.check()
    }

    /// Returns the place in its sample of the first of this rank's tokens; the next ones follow at a distance of
    /// [`Self::size`].
    pub(super) fn first_token(&self) -> usize {
        self.0.rank()
    }

    /// Returns the own tokens of whole samples: (tokens, width) → (own tokens, width).
    pub(super) fn own_rows(&self, rows: Tensor<2>) -> Tensor<2> {
        let (ranks, [tokens, width]) = (self.size(), rows.dims());
        if ranks == 1 {
            return rows;
        }
        let own = tokens / ranks;
        rows.reshape([own, ranks, width]).narrow(1, self.first_token(), 1).reshape([own, width])
    }

    /// Returns numbers of the tokens of all ranks, `each` of a token, in the order of tokens, from those of the own ones.
    pub(super) fn all_tokens(&self, own: &[i32], each: usize) -> Vec<i32> {
        if self.size() == 1 {
            return own.to_vec();
        }
        let values: Vec<f32> = own.iter().map(|number| *number as f32).collect();
        let all = self.0.exchange(|group| group.all_gather(&values));
        let all = all.unwrap_or_else(|| vec![0.0; own.len() * self.size()]);
        let token = |at: usize| all.chunks(own.len()).flat_map(move |rank| &rank[at..at + each]);
        (0..own.len()).step_by(each).flat_map(token).map(|number| *number as i32).collect()
    }

    /// Returns what belongs to the own tokens of what belongs to all, `each` to a token.
    pub(super) fn own_tokens<T: Copy>(&self, all: &[T], each: usize) -> Vec<T> {
        all.chunks(each).skip(self.first_token()).step_by(self.size()).flatten().copied().collect()
    }

    /// Returns this rank's part of a micro-batch, and the factor by which the mean loss over it counts in the mean over
    /// all ranks: one, unless ranks have more or fewer of the tokens that are scored.
    pub(crate) fn own_part<'a>(&self, batch: &'a MicroBatch) -> (Cow<'a, MicroBatch>, f32) {
        let (ranks, first) = (self.size(), self.first_token());
        if ranks == 1 {
            return (Cow::Borrowed(batch), 1.0);
        }
        let Inputs::Tokens { ids, sequence } = &batch.inputs else {
            // An image has one target, that of its first token.
            return (Cow::Borrowed(batch), if first == 0 { ranks as f32 } else { 0.0 });
        };
        let inputs = Inputs::Tokens { ids: self.own_tokens(ids, 1), sequence: sequence / ranks };
        let Some(scored) = &batch.scored else {
            let targets = self.own_tokens(&batch.targets, 1);
            return (Cow::Owned(MicroBatch { samples: batch.samples, inputs, targets, scored: None }), 1.0);
        };
        let is_own = |row: i32| row as usize % ranks == first;
        let (mut rows, mut targets): (Vec<i32>, Vec<i32>) = scored
            .iter()
            .zip(&batch.targets)
            .filter(|(row, _)| is_own(**row))
            .map(|(row, target)| (*row / ranks as i32, *target))
            .unzip();
        let share = (ranks * rows.len()) as f32 / scored.len() as f32;
        if rows.is_empty() {
            // Layers compute with at least one, whose loss counts for nothing.
            (rows, targets) = (vec![0], vec![0]);
        }
        (Cow::Owned(MicroBatch { samples: batch.samples, inputs, targets, scored: Some(rows) }), share)
    }

    /// Computes attention of this rank's queries to the keys and values of all ranks: (own tokens, heads × width) each.
    pub(super) fn attention(&self, operands: [Tensor<2>; 3], shape: AttentionShape, mask: Mask) -> Tensor<2> {
        let ring = Ring { group: self.clone(), shape, mask };
        let kept = operands.each_ref().map(|operand| plain(operand.clone()));
        let whole = ring.forward(&kept);
        let result = whole.result.clone().cast(FloatDType::from(operands[0].dtype()));
        with_gradients(operands, |_| result, move |gradient| ring.backward(&kept, &whole, gradient))
    }

    /// Hands a tensor to the next rank of the ring.
    fn pass_on(&self, tensor: Tensor<2>, tag: Tag) {
        let next = (self.0.rank() + 1) % self.size();
        let (values, _) = to_host(tensor);
        self.0.exchange(|group| group.send(next, tag, values));
    }

    /// Returns what the rank before this one handed on, which is like `tensor`.
    fn take_over(&self, like: &Tensor<2>, tag: Tag) -> Tensor<2> {
        let before = (self.0.rank() + self.size() - 1) % self.size();
        match self.0.exchange(|group| group.recv(before, tag)) {
            Some(values) => from_host(values, like.dims(), like.dtype().into(), &like.device()),
            None => like.zeros_like(),
        }
    }
}

/// One attention part of a layer, around which keys and values go.
#[derive(Clone)]
struct Ring {
    group: ContextGroup,
    /// Of the own tokens.
    shape: AttentionShape,
    mask: Mask,
}

impl Ring {
    /// Returns the shape of attention to the keys that come after so many turns; `None` if none of them is seen.
    fn after(&self, turns: usize) -> Option<AttentionShape> {
        let (ranks, rank) = (self.group.size(), self.group.first_token());
        let holder = (rank + ranks - turns) % ranks;
        let sees = seen(self.mask, (rank, holder, ranks))?;
        let columns = Every { first: holder, step: ranks };
        let dropout = self.shape.dropout.map(|mask| DropoutMask { columns, ..mask });
        Some(AttentionShape { sees, dropout, ..self.shape })
    }

    fn forward(&self, [queries, keys, values]: &[Tensor<2>; 3]) -> Partial {
        let mut block = Tensor::cat(vec![keys.clone(), values.clone()], 1);
        let mut whole: Option<Partial> = None;
        let last = self.group.size() - 1;
        for turn in 0..=last {
            if turn < last {
                self.group.pass_on(block.clone(), KEYS);
            }
            if let Some(shape) = self.after(turn) {
                let [keys, values] = halves(&block);
                let found = partial_attention([queries.clone(), keys, values], &shape);
                whole = Some(match whole {
                    Some(before) => before.joined(found, &shape),
                    None => found,
                });
            }
            if turn < last {
                block = self.group.take_over(&block, KEYS);
            }
        }
        whole.expect("every token sees itself")
    }

    /// Keys and values go round again, and after them what their gradients have come to so far.
    fn backward(
        &self,
        [queries, keys, values]: &[Tensor<2>; 3],
        whole: &Partial,
        gradient: Tensor<2>,
    ) -> [Tensor<2>; 3] {
        let gradient = single(gradient);
        let mut block = Tensor::cat(vec![keys.clone(), values.clone()], 1);
        let mut of_queries = single(queries.zeros_like());
        let mut of_block = single(block.zeros_like());
        let last = self.group.size() - 1;
        for turn in 0..=last {
            if turn < last {
                self.group.pass_on(block.clone(), KEYS);
            }
            let found = self.after(turn).map(|shape| {
                let [keys, values] = halves(&block);
                partial_gradients([queries.clone(), keys, values], whole, gradient.clone(), &shape)
            });
            if turn > 0 {
                of_block = self.group.take_over(&of_block, GRADIENTS);
            }
            if let Some([own, of_keys, of_values]) = found {
                of_queries = of_queries + own;
                of_block = of_block + Tensor::cat(vec![of_keys, of_values], 1);
            }
            self.group.pass_on(of_block.clone(), GRADIENTS);
            if turn < last {
                block = self.group.take_over(&block, KEYS);
            }
        }
        let [of_keys, of_values] = halves(&self.group.take_over(&of_block, GRADIENTS));
        let format = FloatDType::from(queries.dtype());
        [of_queries, of_keys, of_values].map(|gradient| gradient.cast(format))
    }
}

/// Keys and values that lie side by side.
fn halves(block: &Tensor<2>) -> [Tensor<2>; 2] {
    let width = block.dims()[1] / 2;
    [0, width].map(|start| block.clone().narrow(1, start, width))
}

/// Returns which keys of the rank `holder` the queries of `rank` see, of so many ranks; `None` if none.
fn seen(mask: Mask, (rank, holder, ranks): (usize, usize, usize)) -> Option<Sees> {
    // Token j of the holder is at j · ranks + holder in its sample, query i at i · ranks + rank.
    let behind = usize::from(holder > rank);
    match mask {
        Mask::Full => Some(Sees::All),
        Mask::Causal => Some(Sees::Past { behind, reach: usize::MAX }),
        Mask::Window(tokens) => {
            let reach = (tokens + holder).saturating_sub(rank).div_ceil(ranks);
            (reach > behind).then_some(Sees::Past { behind, reach })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_group::{World, run_ranks};
    use std::collections::BTreeSet;

    #[test]
    fn queries_see_the_keys_of_all_ranks_that_they_would_see_on_one() {
        for (mask, reach) in [(Mask::Causal, 24), (Mask::Window(1), 1), (Mask::Window(5), 5), (Mask::Window(23), 23)] {
            for ranks in [2, 3, 4] {
                let mut pairs = BTreeSet::new();
                for (rank, holder) in (0..ranks).flat_map(|rank| (0..ranks).map(move |holder| (rank, holder))) {
                    let Some(Sees::Past { behind, reach }) = seen(mask, (rank, holder, ranks)) else { continue };
                    let own = 24 / ranks;
                    let here = (0..own).flat_map(|i| (0..own).map(move |j| (i, j)));
                    let here = here.filter(|(i, j)| j + behind <= *i && i - j < reach);
                    pairs.extend(here.map(|(i, j)| (i * ranks + rank, j * ranks + holder)));
                }
                let whole = (0..24).flat_map(|i| (0..24).map(move |j| (i, j)));
                let whole: BTreeSet<_> = whole.filter(|(i, j)| j <= i && i - j < reach).collect();
                assert_eq!(pairs, whole, "{mask:?} over {ranks} ranks");
            }
        }
    }

    #[test]
    fn parts_of_a_micro_batch_make_up_the_whole() {
        let inputs = Inputs::Tokens { ids: (0..12).collect(), sequence: 6 };
        let masked = MicroBatch { samples: 2, inputs, targets: vec![31, 33, 38], scored: Some(vec![1, 3, 8]) };
        let parts = run_ranks(&World::threads(3), |group| {
            let (part, share) = ContextGroup::new(group).own_part(&masked);
            Ok::<_, GroupError>((part.into_owned(), share))
        });
        let parts: Vec<_> = parts.into_iter().map(|part| part.expect("no rank fails")).collect();
        let ids = |part: &MicroBatch| match &part.inputs {
            Inputs::Tokens { ids, sequence: 2 } => ids.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            parts.iter().map(|(part, _)| ids(part)).collect::<Vec<_>>(),
            [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
        );
        let scored: Vec<_> = parts.iter().map(|(part, _)| (part.scored.clone(), part.targets.clone())).collect();
        assert_eq!(scored[0], (Some(vec![1]), vec![33]));
        assert_eq!(scored[1], (Some(vec![0]), vec![31]));
        assert_eq!(scored[2], (Some(vec![2]), vec![38]));
        let alone = MicroBatch { targets: vec![31], scored: Some(vec![1]), ..masked };
        let shares = run_ranks(&World::threads(3), |group| {
            let (part, share) = ContextGroup::new(group).own_part(&alone);
            Ok::<_, GroupError>((part.targets.len(), share))
        });
        let shares: Vec<_> = shares.into_iter().map(|share| share.expect("no rank fails")).collect();
        assert_eq!(shares, [(1, 0.0), (1, 3.0), (1, 0.0)]);
    }
}
