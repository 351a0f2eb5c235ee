//! Attention that keeps no scores: FlashAttention's recomputation (Dao et al., arXiv:2205.14135, algorithms 1 and 4)
//! over blocks of queries, with all keys of a sample at once, as far as they may be seen.

mod partial;

pub(crate) use partial::{Partial, partial_attention, partial_gradients};

use super::dropout::{DropoutMask, drop_weights, multiply};
use super::linear::matrix_product;
use super::operation::{Kernel, Saves, apply, contiguous, extent, from_numbers, is_on_host};
use super::product::{add_product, product};
use super::vector::{exp, largest, sum_of, tanh, vectorized};
use burn::backend::flex::FlexTensor;
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, FloatDType, Tensor};
use rayon::prelude::*;

/// Queries of a head that are taken together. Their scores stay in a core's cache, and under a causal mask fewer keys
/// that none of them sees are looked at.
const BLOCK: usize = 128;

/// The division of rows of features into samples and heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AttentionShape {
    /// Samples among the rows.
    pub(crate) samples: usize,
    /// Rows of a sample.
    pub(crate) sequence: usize,
    /// Heads of the queries.
    pub(crate) heads: usize,
    /// Heads of keys and values; each serves as many heads of queries, one after another (Ainslie et al.,
    /// arXiv:2305.13245).
    pub(crate) groups: usize,
    pub(crate) scores: Scores,
    pub(crate) sees: Sees,
    /// The weights that are dropped out, if any are.
    pub(crate) dropout: Option<DropoutMask>,
}

/// What products of queries and keys become before softmax.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scores {
    /// They are multiplied by it.
    pub(crate) scale: f32,
    /// And then bounded by ± this: cap · tanh(score / cap) (Gemma Team, arXiv:2408.00118, section 2).
    pub(crate) cap: Option<f32>,
}

impl Scores {
    /// Returns those of heads of so many features: products over √width.
    pub(crate) fn of_width(width: usize) -> Self {
        Self { scale: 1.0 / (width as f32).sqrt(), cap: None }
    }

    /// Bounds products by Burn's operators, if they are; they were scaled before.
    pub(crate) fn bounded(self, scaled: Tensor<4>) -> Tensor<4> {
        match self.cap {
            Some(cap) => (scaled / cap).tanh() * cap,
            None => scaled,
        }
    }

    /// Makes scores of products, up to the factor that it returns.
    fn of_products(self, products: &mut [f32]) -> f32 {
        let Some(cap) = self.cap else { return self.scale };
        bound_rows(self.scale / cap, cap, products);
        1.0
    }

    /// Returns the derivatives of bounded scores with respect to the products, if they are bounded.
    fn slopes(self, bounded: &[f32]) -> Option<Vec<f32>> {
        let cap = self.cap?;
        let mut slopes = vec![0.0; bounded.len()];
        slopes_of_bounded(self.scale, 1.0 / cap, bounded, &mut slopes);
        Some(slopes)
    }
}

/// The rows that a row attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    All,
    /// Row i attends to row j where j + `behind` ≤ i and i − j < `reach`.
    Past {
        behind: usize,
        reach: usize,
    },
}

impl Sees {
    /// Itself and all rows before it: a causal mask.
    pub(crate) const PAST: Self = Self::Past { behind: 0, reach: usize::MAX };

    /// Returns `true` if no row before another is too far away from it in a sequence of this length.
    fn reaches(self, sequence: usize) -> bool {
        match self {
            Self::All => true,
            Self::Past { reach, .. } => reach >= sequence,
        }
    }
}

/// Computes softmax(scores of q · kᵀ) · v of each head (Vaswani et al., arXiv:1706.03762, equation 1).
///
/// `queries` have (heads × width) features, `keys` and `values` (groups × width); the result has those of the queries.
/// Every row must see all rows, or [`Sees::PAST`].
pub(crate) fn attention(queries: Tensor<2>, keys: Tensor<2>, values: Tensor<2>, shape: &AttentionShape) -> Tensor<2> {
    if !is_on_host(&queries) {
        return attention_by_burn(queries, keys, values, shape);
    }
    let operands = [queries.into_dispatch(), keys.into_dispatch(), values.into_dispatch()];
    Tensor::from_dispatch(apply(Attention { shape: *shape }, operands))
}

/// Computes [`attention`] of queries, keys and values that lie side by side in each row.
pub(crate) fn packed_attention(packed: Tensor<2>, shape: &AttentionShape) -> Tensor<2> {
    if !is_on_host(&packed) {
        let AttentionShape { heads, groups, .. } = *shape;
        let all = split(packed, heads + 2 * groups, shape);
        let part = |start, length| all.clone().narrow(1, start, length);
        return attention_of_heads([part(0, heads), part(heads, groups), part(heads + groups, groups)], shape);
    }
    Tensor::from_dispatch(apply(Attention { shape: *shape }, [packed.into_dispatch()]))
}

/// Computes attention by Burn's operators, its softmax in single precision whatever the operands' format.
fn attention_by_burn(queries: Tensor<2>, keys: Tensor<2>, values: Tensor<2>, shape: &AttentionShape) -> Tensor<2> {
    let parts = [(queries, shape.heads), (keys, shape.groups), (values, shape.groups)];
    attention_of_heads(parts.map(|(part, heads)| split(part, heads, shape)), shape)
}

/// Returns the heads that lie side by side in each row, (samples, heads, sequence, width).
fn split(rows: Tensor<2>, heads: usize, shape: &AttentionShape) -> Tensor<4> {
    let width = rows.dims()[1] / heads;
    rows.reshape([shape.samples, shape.sequence, heads, width]).swap_dims(1, 2)
}

/// Computes attention of queries, keys and values, (samples, heads or groups, sequence, width) each.
fn attention_of_heads([queries, keys, values]: [Tensor<4>; 3], shape: &AttentionShape) -> Tensor<2> {
    let AttentionShape { samples, sequence, heads, groups, sees, dropout, scores: made } = *shape;
    let width = queries.dims()[3];
    // Not by `repeat_dim`: through CubeCL, Burn 0.22.1 gets the gradient of a single repetition wrong.
    let shared = |each: Tensor<4>| {
        if heads == groups {
            return each;
        }
        let whole: Tensor<5> = each.unsqueeze_dim(2);
        whole.expand([samples, groups, heads / groups, sequence, width]).reshape([samples, heads, sequence, width])
    };
    let scores = matrix_product(queries * made.scale, shared(keys).transpose());
    let float = FloatDType::from(scores.dtype());
    let mut weights = weights_by_burn(scores, made, sees);
    if let Some(mask) = dropout {
        let dropped = drop_weights(weights.cast(FloatDType::F32), [samples, heads, sequence, sequence], &mask);
        weights = dropped.cast(float);
    }
    matrix_product(weights, shared(values)).swap_dims(1, 2).reshape([samples * sequence, heads * width])
}

/// Computes the weights of values from products of scaled queries and keys, in the format of these.
fn weights_by_burn(products: Tensor<4>, made: Scores, sees: Sees) -> Tensor<4> {
    #[cfg(feature = "gpu")]
    if made.cap.is_none() && !super::lies_on_host(&products) {
        return super::gpu::masked_softmax(products, sees == Sees::PAST);
    }
    let [.., rows, columns] = products.dims();
    let float = FloatDType::from(products.dtype());
    let mut scores = made.bounded(products.cast(FloatDType::F32));
    if sees == Sees::PAST {
        // `tril_mask` is false on and below the diagonal.
        let mask = Tensor::<2, Bool>::tril_mask([rows, columns], 0, &scores.device());
        scores = scores.mask_fill(mask.unsqueeze::<4>(), f32::NEG_INFINITY);
    }
    softmax(scores, 3).cast(float)
}

#[derive(Clone, Copy, Debug)]
struct Attention {
    shape: AttentionShape,
}

/// Operands, result, and ln Σ eˢ over the scores of each row, by sample, head and row.
#[derive(Clone, Debug)]
struct Kept<const N: usize> {
    operands: [FlexTensor; N],
    result: FlexTensor,
    log_sums: Vec<Vec<f32>>,
}

impl<const N: usize> Kept<N> {
    fn saved(&mut self) -> Vec<(&mut FlexTensor, Saves)> {
        let operands = self.operands.iter_mut().enumerate().map(|(at, operand)| (operand, Saves::Operand(at)));
        operands.chain([(&mut self.result, Saves::Result)]).collect()
    }
}

impl Kernel<3> for Attention {
    type Kept = Kept<3>;

    fn saved(kept: &mut Self::Kept) -> Vec<(&mut FlexTensor, Saves)> {
        kept.saved()
    }

    fn forward(&self, operands: [FlexTensor; 3]) -> (FlexTensor, Self::Kept) {
        let [queries, keys, values] = &operands;
        let sources = Sources { parts: [queries, keys, values], columns: [0; 3], width: self.width(queries) };
        let (result, log_sums) = self.result(&sources);
        (result.clone(), Kept { operands, result, log_sums })
    }

    fn backward(&self, kept: Self::Kept, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Kept { operands: [queries, keys, values], result, log_sums } = kept;
        let width = self.width(&queries);
        let sources = Sources { parts: [&queries, &keys, &values], columns: [0; 3], width };
        let heads = [self.shape.heads, self.shape.groups, self.shape.groups];
        let mut to = heads.map(|heads| Target::new(self.rows(), heads * width));
        self.gradients(&sources, &result, &gradient, &log_sums, |part, row, column, numbers| {
            to[part].add(row, column, numbers, width);
        });
        to.map(|to| Some(to.into_tensor()))
    }
}

impl Kernel<1> for Attention {
    type Kept = Kept<1>;

    fn saved(kept: &mut Self::Kept) -> Vec<(&mut FlexTensor, Saves)> {
        kept.saved()
    }

    fn forward(&self, operands: [FlexTensor; 1]) -> (FlexTensor, Self::Kept) {
        let (result, log_sums) = self.result(&self.packed(&operands[0]));
        (result.clone(), Kept { operands, result, log_sums })
    }

    fn backward(&self, kept: Self::Kept, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Kept { operands: [packed], result, log_sums } = kept;
        let sources = self.packed(&packed);
        let (columns, width) = (sources.columns, sources.width);
        let mut to = Target::new(self.rows(), columns[2] + self.shape.groups * width);
        self.gradients(&sources, &result, &gradient, &log_sums, |part, row, column, numbers| {
            to.add(row, columns[part] + column, numbers, width);
        });
        [Some(to.into_tensor())]
    }
}

/// The tensors, and columns in them, that hold queries, keys and values.
struct Sources<'a> {
    parts: [&'a FlexTensor; 3],
    columns: [usize; 3],
    width: usize,
}

impl Sources<'_> {
    /// Returns one part of one head of one sample, (sequence, width).
    fn of(&self, part: usize, shape: &AttentionShape, sample: usize, head: usize) -> FlexTensor {
        let head = if part == 0 { head } else { head / (shape.heads / shape.groups) };
        let column = self.columns[part] + head * self.width;
        head_of(self.parts[part], sample * shape.sequence, shape.sequence, column, self.width)
    }
}

/// Slices a tensor without copying.
fn head_of(tensor: &FlexTensor, row: usize, rows: usize, column: usize, columns: usize) -> FlexTensor {
    tensor.narrow(0, row, rows).narrow(1, column, columns)
}

/// A gradient that is put together from parts of heads.
struct Target {
    numbers: Vec<f32>,
    columns: usize,
}

impl Target {
    fn new(rows: usize, columns: usize) -> Self {
        Self { numbers: vec![0.0; rows * columns], columns }
    }

    /// Adds rows of `width` numbers, from a row and a column on.
    fn add(&mut self, row: usize, column: usize, numbers: &[f32], width: usize) {
        let rows = self.numbers[row * self.columns..].chunks_exact_mut(self.columns);
        for (to, from) in rows.zip(numbers.chunks_exact(width)) {
            to[column..column + width].iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }

    fn into_tensor(self) -> FlexTensor {
        let shape = [self.numbers.len() / self.columns, self.columns];
        from_numbers(self.numbers, shape)
    }
}

/// Gradients of one head of one sample, (sequence, width) each.
struct HeadGradients {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Attention {
    fn rows(&self) -> usize {
        self.shape.samples * self.shape.sequence
    }

    fn width(&self, queries: &FlexTensor) -> usize {
        queries.layout().shape()[1] / self.shape.heads
    }

    fn packed<'a>(&self, packed: &'a FlexTensor) -> Sources<'a> {
        let AttentionShape { heads, groups, .. } = self.shape;
        let width = packed.layout().shape()[1] / (heads + 2 * groups);
        Sources { parts: [packed; 3], columns: [0, heads * width, (heads + groups) * width], width }
    }

    /// Runs of queries, with the number of keys that the last of them sees.
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let AttentionShape { sequence, sees, .. } = self.shape;
        (0..sequence).step_by(BLOCK).map(move |start| {
            let length = BLOCK.min(sequence - start);
            let behind = match sees {
                Sees::All => None,
                Sees::Past { behind, .. } => Some(behind),
            };
            // At least one, so that there are rows of scores even where nothing is seen.
            let keys = behind.map_or(sequence, |behind| (start + length).saturating_sub(behind).max(1));
            Block { start, length, keys, behind }
        })
    }

    fn result(&self, sources: &Sources<'_>) -> (FlexTensor, Vec<Vec<f32>>) {
        let AttentionShape { samples, sequence, heads, .. } = self.shape;
        let width = sources.width;
        let mut to = Target::new(self.rows(), heads * width);
        let mut log_sums = Vec::with_capacity(samples * heads);
        for sample in 0..samples {
            let found: Vec<_> = (0..heads)
                .into_par_iter()
                .map(|head| {
                    let parts = [0, 1, 2].map(|part| sources.of(part, &self.shape, sample, head));
                    self.head_result(parts, (sample, head))
                })
                .collect();
            for (head, (blocks, sums)) in found.into_iter().enumerate() {
                for (block, numbers) in self.blocks().zip(blocks) {
                    to.add(sample * sequence + block.start, head * width, numbers.storage(), width);
                }
                log_sums.push(sums);
            }
        }
        (to.into_tensor(), log_sums)
    }

    /// Returns the result of one head, by block, and ln Σ eˢ of each row.
    fn head_result(
        &self,
        [queries, keys, values]: [FlexTensor; 3],
        place: (usize, usize),
    ) -> (Vec<FlexTensor>, Vec<f32>) {
        let mut log_sums = vec![0.0; self.shape.sequence];
        let result = |block: Block| {
            let mut scores = block.products(&queries, &keys);
            let scale = self.shape.scores.of_products(scores.storage_mut());
            let log_sums = &mut log_sums[block.start..block.start + block.length];
            softmax_of_rows(block, scale, scores.storage_mut(), log_sums);
            if let Some(factors) = self.factors(block, place) {
                multiply(scores.storage_mut(), &factors);
            }
            product(&scores, &values.narrow(0, 0, block.keys))
        };
        (self.blocks().map(result).collect(), log_sums)
    }

    /// Returns the factors of the weights of a block, (length, keys), of a head of a sample, if weights are dropped out.
    /// Those that no row sees are zero.
    fn factors(&self, block: Block, (sample, head): (usize, usize)) -> Option<Vec<f32>> {
        let mask = self.shape.dropout?;
        let mut factors = vec![0.0; block.length * block.keys];
        for (row, factors) in factors.chunks_exact_mut(block.keys).enumerate() {
            mask.row(sample, head, block.start + row, &mut factors[..block.seen(row)]);
        }
        Some(factors)
    }

    /// Hands gradients of queries (0), keys (1) and values (2) on: part, first row, first column, numbers.
    fn gradients(
        &self,
        sources: &Sources<'_>,
        result: &FlexTensor,
        gradient: &FlexTensor,
        log_sums: &[Vec<f32>],
        mut hand_on: impl FnMut(usize, usize, usize, &[f32]),
    ) {
        let AttentionShape { samples, sequence, heads, groups, .. } = self.shape;
        let width = sources.width;
        for sample in 0..samples {
            let row = sample * sequence;
            let found: Vec<HeadGradients> = (0..heads)
                .into_par_iter()
                .map(|head| {
                    let parts = [0, 1, 2].map(|part| sources.of(part, &self.shape, sample, head));
                    let results = [result, gradient].map(|all| head_of(all, row, sequence, head * width, width));
                    self.head_gradients(parts, results, &log_sums[sample * heads + head], (sample, head))
                })
                .collect();
            for (head, found) in found.into_iter().enumerate() {
                let group = head / (heads / groups);
                hand_on(0, row, head * width, &found.queries);
                hand_on(1, row, group * width, &found.keys);
                hand_on(2, row, group * width, &found.values);
            }
        }
    }

    fn head_gradients(
        &self,
        [queries, keys, values]: [FlexTensor; 3],
        results: [FlexTensor; 2],
        log_sums: &[f32],
        place: (usize, usize),
    ) -> HeadGradients {
        let [sequence, width] = extent(&queries);
        let [result, gradient] = results.map(contiguous);
        let mut found = HeadGradients {
            queries: Vec::with_capacity(sequence * width),
            keys: vec![0.0; sequence * width],
            values: vec![0.0; sequence * width],
        };
        for block in self.blocks() {
            let numbers = block.start * width..(block.start + block.length) * width;
            let mut deltas = vec![0.0; block.length];
            dots_of_rows(&result.storage()[numbers.clone()], &gradient.storage()[numbers], &mut deltas);
            let gradient = gradient.narrow(0, block.start, block.length);
            let mut shares = block.products(&queries, &keys);
            let scale = self.shape.scores.of_products(shares.storage_mut());
            let slopes = self.shape.scores.slopes(shares.storage());
            let log_sums = &log_sums[block.start..block.start + block.length];
            shares_of_rows(block, scale, log_sums, shares.storage_mut());
            let mut to_scores = product(&gradient, &values.narrow(0, 0, block.keys).transpose(0, 1));
            let factors = self.factors(block, place);
            if let Some(factors) = &factors {
                multiply(to_scores.storage_mut(), factors);
            }
            scores_gradient(scale, shares.storage(), &deltas, to_scores.storage_mut());
            if let Some(slopes) = &slopes {
                multiply(to_scores.storage_mut(), slopes);
            }
            if let Some(factors) = &factors {
                multiply(shares.storage_mut(), factors);
            }
            let seen = block.keys * width;
            add_product(&shares.transpose(0, 1), &gradient, &mut found.values[..seen]);
            let queries = queries.narrow(0, block.start, block.length);
            add_product(&to_scores.transpose(0, 1), &queries, &mut found.keys[..seen]);
            let to_queries = product(&to_scores, &keys.narrow(0, 0, block.keys));
            found.queries.extend_from_slice(to_queries.storage());
        }
        found
    }
}

/// A run of queries, and how many keys are looked at.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: usize,
    length: usize,
    keys: usize,
    /// How far behind a query the last key that it sees must be, if not all are seen.
    behind: Option<usize>,
}

impl Block {
    /// Computes q · kᵀ, (length, keys).
    fn products(&self, queries: &FlexTensor, keys: &FlexTensor) -> FlexTensor {
        let keys = keys.narrow(0, 0, self.keys).transpose(0, 1);
        product(&queries.narrow(0, self.start, self.length), &keys)
    }

    /// Returns the number of keys that a row of the block attends to.
    #[inline(always)]
    fn seen(&self, row: usize) -> usize {
        self.behind.map_or(self.keys, |behind| (self.start + row + 1).saturating_sub(behind))
    }
}

vectorized! {
    /// Products become bounded scores; `factor` is that of scores over their bound.
    fn bound_rows(factor: f32, cap: f32, products: &'a mut [f32]) {
        for product in products {
            *product = cap * tanh(*product * factor);
        }
    }

    fn slopes_of_bounded(scale: f32, inverse: f32, bounded: &'a [f32], slopes: &'a mut [f32]) {
        for (slope, &score) in slopes.iter_mut().zip(bounded) {
            let share = score * inverse;
            *slope = scale * share.mul_add(-share, 1.0);
        }
    }

    /// Scores become shares.
    fn softmax_of_rows(block: Block, scale: f32, scores: &'a mut [f32], log_sums: &'a mut [f32]) {
        for (row, (scores, log_sum)) in scores.chunks_exact_mut(block.keys).zip(log_sums).enumerate() {
            let (seen, hidden) = scores.split_at_mut(block.seen(row));
            let most = largest(seen) * scale;
            for score in &mut *seen {
                *score = exp(score.mul_add(scale, -most));
            }
            let sum = sum_of([seen], |[share]| share);
            let factor = 1.0 / sum;
            for share in seen {
                *share *= factor;
            }
            hidden.fill(0.0);
            *log_sum = most + sum.ln();
        }
    }

    /// Scores become the shares that they became before.
    fn shares_of_rows(block: Block, scale: f32, log_sums: &'a [f32], scores: &'a mut [f32]) {
        for (row, (scores, &log_sum)) in scores.chunks_exact_mut(block.keys).zip(log_sums).enumerate() {
            let (seen, hidden) = scores.split_at_mut(block.seen(row));
            for score in seen {
                *score = exp(score.mul_add(scale, -log_sum));
            }
            hidden.fill(0.0);
        }
    }

    /// Turns gradients of attention weights (softmax outputs) into those of scores, before their scale.
    fn scores_gradient(scale: f32, shares: &'a [f32], deltas: &'a [f32], gradient: &'a mut [f32]) {
        let keys = shares.len() / deltas.len();
        let rows = gradient.chunks_exact_mut(keys).zip(shares.chunks_exact(keys)).zip(deltas);
        for ((gradient, shares), &delta) in rows {
            for (gradient, &share) in gradient.iter_mut().zip(shares) {
                *gradient = share * (*gradient - delta) * scale;
            }
        }
    }

    /// Computes the dot products of the rows of two matrices.
    fn dots_of_rows(left: &'a [f32], right: &'a [f32], dots: &'a mut [f32]) {
        let width = left.len() / dots.len();
        for ((left, right), dot) in left.chunks_exact(width).zip(right.chunks_exact(width)).zip(dots) {
            *dot = sum_of([left, right], |[left, right]| left * right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        assert_equal_to_plain, assert_gradients_are_differences, half_precision_agrees, use_kernels,
    };
    use super::*;

    #[test]
    fn attention_is_that_of_burn() {
        let cases = [(1, 1, 1, 1, 4), (2, 7, 2, 1, 5), (2, 33, 4, 2, 16), (1, 300, 2, 2, 8), (1, 128, 1, 1, 40)];
        for (samples, sequence, heads, groups, width) in cases {
            for sees in [Sees::All, Sees::PAST] {
                let plain = Scores::of_width(width);
                let (dropping, bounded) = (Some(DropoutMask::new(0.2, 9, 4)), Some(1.5));
                for (dropout, cap) in [(None, None), (dropping, None), (None, bounded), (dropping, bounded)] {
                    let scores = Scores { cap, ..plain };
                    let shape = AttentionShape { samples, sequence, heads, groups, scores, sees, dropout };
                    let features = [heads * width, groups * width, groups * width];
                    let rows = samples * sequence;
                    let plain = |[q, k, v]: [Tensor<2>; 3]| attention_by_burn(q, k, v, &shape);
                    assert_equal_to_plain(
                        features.map(|features| [rows, features]),
                        |[q, k, v]| attention(q, k, v, &shape),
                        plain,
                    );
                    let cut = |packed: &Tensor<2>| {
                        let part = |start, length| packed.clone().narrow(1, start, length);
                        [
                            part(0, features[0]),
                            part(features[0], features[1]),
                            part(features[0] + features[1], features[2]),
                        ]
                    };
                    assert_equal_to_plain(
                        [[rows, features.iter().sum()]],
                        |[packed]| packed_attention(packed, &shape),
                        |[packed]| plain(cut(&packed)),
                    );
                }
            }
        }
    }

    #[test]
    fn attention_of_half_precision() {
        for cap in [None, Some(2.0)] {
            let shape = AttentionShape { scores: Scores { cap, ..SHAPE.scores }, ..SHAPE };
            half_precision_agrees([[8, 48]], |[packed]| packed_attention(packed, &shape));
        }
    }

    const SHAPE: AttentionShape = AttentionShape {
        samples: 1,
        sequence: 8,
        heads: 2,
        groups: 2,
        sees: Sees::PAST,
        dropout: None,
        scores: Scores { scale: 0.35, cap: Some(1.2) },
    };

    #[test]
    fn gradients_of_bounded_scores_are_differences() {
        for used in [true, false] {
            use_kernels(used);
            assert_gradients_are_differences([[8, 16], [8, 16], [8, 16]], |[q, k, v]| attention(q, k, v, &SHAPE));
            let shared = AttentionShape { groups: 1, ..SHAPE };
            assert_gradients_are_differences([[8, 8], [8, 4], [8, 4]], |[q, k, v]| attention(q, k, v, &shared));
        }
    }
}
