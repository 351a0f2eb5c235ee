//! Attention of queries to some of their keys, as ranks compute it that have other keys each.
//!
//! Softmax over parts of the keys comes together by the parts' sums of exponentials (Dao et al., arXiv:2205.14135,
//! section 3.1; Liu et al., arXiv:2310.01889, section 3). All tensors record nothing.

use super::super::dropout::drop_weights;
use super::super::linear::matrix_product;
use super::super::operation::{contiguous, from_numbers, plain};
use super::{Attention, AttentionShape, Scores, Sees, Sources, Target};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Bool, Device, FloatDType, Tensor, TensorData};

/// What queries found in some of their keys, in single precision.
#[derive(Clone, Debug)]
pub(crate) struct Partial {
    /// The result if there were no other keys, (rows, heads × width); nothing where a row sees none of them.
    pub(crate) result: Tensor<2>,
    /// ln Σ eˢ over the scores of each row, (samples × heads, sequence); −∞ where a row sees no key.
    pub(crate) log_sums: Tensor<2>,
}

impl Partial {
    /// Joins it with what the same queries found in other keys. Every row must have seen a key before.
    pub(crate) fn joined(self, other: Self, shape: &AttentionShape) -> Self {
        // ln(eᵃ + eᵇ), whichever is larger, and where b is −∞.
        let most = self.log_sums.clone().max_pair(other.log_sums.clone());
        let sum = |part: &Tensor<2>| (part.clone() - most.clone()).exp();
        let log_sums = most.clone() + (sum(&self.log_sums) + sum(&other.log_sums)).log();
        let weighted = |part: Self| {
            let [rows, features] = part.result.dims();
            let AttentionShape { samples, sequence, heads, .. } = *shape;
            let weights = (part.log_sums - log_sums.clone()).exp().reshape([samples, heads, sequence, 1]);
            let result = part.result.reshape([samples, sequence, heads, features / heads]);
            (result * weights.swap_dims(1, 2)).reshape([rows, features])
        };
        let result = weighted(self) + weighted(other);
        Self { result, log_sums }
    }
}

/// Computes attention of queries to as many keys and values, which need not be those of the same rows: operands as
/// those of [`super::attention`].
pub(crate) fn partial_attention(operands: [Tensor<2>; 3], shape: &AttentionShape) -> Partial {
    let Some(parts) = on_host(&operands, shape) else { return by_burn(operands, shape) };
    let (result, log_sums) = Attention { shape: *shape }.result(&sources(&parts, shape));
    Partial {
        result: Tensor::from_primitive::<Flex>(result),
        log_sums: Tensor::from_primitive::<Flex>(from_numbers(
            log_sums.concat(),
            [shape.samples * shape.heads, shape.sequence],
        )),
    }
}

/// Computes the gradients of queries, keys and values in single precision, from that of the result over all keys,
/// `whole`, to which these keys belong.
pub(crate) fn partial_gradients(
    operands: [Tensor<2>; 3],
    whole: &Partial,
    gradient: Tensor<2>,
    shape: &AttentionShape,
) -> [Tensor<2>; 3] {
    let Some(parts) = on_host(&operands, shape) else { return gradients_by_burn(operands, whole, gradient, shape) };
    let outer = [whole.result.clone(), gradient].map(|rows| plain(rows).map(contiguous));
    let [Some(result), Some(gradient)] = outer else { unreachable!("results lie where their operands do") };
    let log_sums = whole.log_sums.clone().into_data().try_into_vec::<f32>().expect("single precision");
    let log_sums: Vec<Vec<f32>> = log_sums.chunks(shape.sequence).map(<[f32]>::to_vec).collect();
    let sources = sources(&parts, shape);
    let rows = shape.samples * shape.sequence;
    let mut to = [shape.heads, shape.groups, shape.groups].map(|heads| Target::new(rows, heads * sources.width));
    Attention { shape: *shape }.gradients(&sources, &result, &gradient, &log_sums, |part, row, column, numbers| {
        to[part].add(row, column, numbers, sources.width);
    });
    to.map(|to| Tensor::from_primitive::<Flex>(to.into_tensor()))
}

/// Returns the operands if this crate's kernel computes them.
fn on_host(operands: &[Tensor<2>; 3], shape: &AttentionShape) -> Option<[FlexTensor; 3]> {
    if !shape.sees.reaches(shape.sequence) {
        return None;
    }
    let single = operands.each_ref().map(|operand| plain(operand.clone().cast(FloatDType::F32)));
    let [Some(queries), Some(keys), Some(values)] = single else { return None };
    Some([queries, keys, values])
}

fn sources<'a>([queries, keys, values]: &'a [FlexTensor; 3], shape: &AttentionShape) -> Sources<'a> {
    let width = queries.layout().shape()[1] / shape.heads;
    Sources { parts: [queries, keys, values], columns: [0; 3], width }
}

/// Below every score, and finite: a row that sees nothing has no largest score.
const LEAST: f32 = -1e30;

/// Computes [`partial_attention`] by Burn's operators.
fn by_burn(operands: [Tensor<2>; 3], shape: &AttentionShape) -> Partial {
    let rows = operands[0].dims();
    let split = Apart::new(operands, shape);
    let scores = seen(split.scores(shape.scores), shape);
    let most = scores.clone().max_dim(3).clamp_min(LEAST);
    let shares = (scores - most.clone()).exp();
    let sum = shares.clone().sum_dim(3);
    let weighted = matrix_product(dropped(shares, shape).cast(split.format), split.values);
    let result = single(weighted) / sum.clone().clamp_min(f32::MIN_POSITIVE);
    let log_sums = (sum.log() + most).reshape([shape.samples * shape.heads, shape.sequence]);
    Partial { result: result.swap_dims(1, 2).reshape(rows), log_sums }
}

/// Computes [`partial_gradients`] by Burn's operators.
fn gradients_by_burn(
    operands: [Tensor<2>; 3],
    whole: &Partial,
    gradient: Tensor<2>,
    shape: &AttentionShape,
) -> [Tensor<2>; 3] {
    let AttentionShape { samples, sequence, heads, groups, .. } = *shape;
    let split = Apart::new(operands, shape);
    let (format, width) = (split.format, split.width);
    let log_sums = whole.log_sums.clone().reshape([samples, heads, sequence, 1]);
    let scores = split.scores(shape.scores);
    let shares = (seen(scores.clone(), shape) - log_sums).exp();
    let gradient = of_heads(gradient, shape, heads);
    let delta = (of_heads(whole.result.clone(), shape, heads) * gradient.clone()).sum_dim(3);
    let gradient = gradient.cast(format);
    let of_shares = dropped(single(matrix_product(gradient.clone(), split.values.transpose())), shape);
    let of_scores = shares.clone() * (of_shares - delta) * shape.scores.scale;
    let of_scores = match shape.scores.cap {
        // tanh′ = 1 − tanh².
        Some(cap) => of_scores * ((scores / cap).square().neg() + 1.0),
        None => of_scores,
    };
    let of_scores = of_scores.cast(format);
    let of_queries = matrix_product(of_scores.clone(), split.keys);
    let of_keys = matrix_product(of_scores.transpose(), split.queries);
    let of_values = matrix_product(dropped(shares, shape).cast(format).transpose(), gradient);
    let rows = |tensor: Tensor<4>| {
        let [_, heads, ..] = tensor.dims();
        single(tensor).swap_dims(1, 2).reshape([samples * sequence, heads * width])
    };
    let of_group = |tensor: Tensor<4>| {
        let parts = single(tensor).reshape([samples, groups, heads / groups, sequence, width]);
        rows(parts.sum_dim(2).reshape([samples, groups, sequence, width]))
    };
    [rows(of_queries), of_group(of_keys), of_group(of_values)]
}

/// Drops out weights, or their gradients, of the shape (samples, heads, sequence, sequence).
fn dropped(weights: Tensor<4>, shape: &AttentionShape) -> Tensor<4> {
    let whole = weights.dims();
    match &shape.dropout {
        Some(mask) => drop_weights(weights, whole, mask),
        None => weights,
    }
}

fn single(tensor: Tensor<4>) -> Tensor<4> {
    tensor.cast(FloatDType::F32)
}

/// (rows, heads × width) → (samples, heads, sequence, width).
fn of_heads(rows: Tensor<2>, shape: &AttentionShape, heads: usize) -> Tensor<4> {
    let [_, features] = rows.dims();
    rows.reshape([shape.samples, shape.sequence, heads, features / heads]).swap_dims(1, 2)
}

/// Queries, keys and values of each head, (samples, heads, sequence, width).
struct Apart {
    queries: Tensor<4>,
    keys: Tensor<4>,
    values: Tensor<4>,
    width: usize,
    format: FloatDType,
}

impl Apart {
    fn new([queries, keys, values]: [Tensor<2>; 3], shape: &AttentionShape) -> Self {
        let AttentionShape { samples, sequence, heads, groups, .. } = *shape;
        let (format, width) = (queries.dtype().into(), queries.dims()[1] / heads);
        let shared = |rows: Tensor<2>| {
            let whole: Tensor<5> = of_heads(rows, shape, groups).unsqueeze_dim(2);
            whole.expand([samples, groups, heads / groups, sequence, width]).reshape([samples, heads, sequence, width])
        };
        let (keys, values) = (shared(keys), shared(values));
        Self { queries: of_heads(queries, shape, heads), keys, values, width, format }
    }

    /// Returns the scores in single precision, (samples, heads, sequence, sequence).
    fn scores(&self, made: Scores) -> Tensor<4> {
        let scaled = self.queries.clone() * made.scale;
        made.bounded(single(matrix_product(scaled, self.keys.clone().transpose())))
    }
}

/// Returns scores that are −∞ where nothing is seen.
fn seen(scores: Tensor<4>, shape: &AttentionShape) -> Tensor<4> {
    match hidden(shape.sees, shape.sequence, &scores.device()) {
        Some(hidden) => scores.clone().mask_fill(hidden.expand(scores.dims()), f32::NEG_INFINITY),
        None => scores,
    }
}

/// Returns where rows must not look, (1, 1, sequence, sequence).
fn hidden(sees: Sees, sequence: usize, device: &Device) -> Option<Tensor<4, Bool>> {
    let Sees::Past { behind, reach } = sees else { return None };
    let seen = |i: usize, j: usize| j + behind <= i && i - j < reach;
    let hidden: Vec<bool> = (0..sequence).flat_map(|i| (0..sequence).map(move |j| !seen(i, j))).collect();
    Some(Tensor::from_data(TensorData::new(hidden, [1, 1, sequence, sequence]), device))
}

#[cfg(test)]
mod tests {
    use super::super::super::dropout::{DropoutMask, Every};
    use super::super::super::testing::{numbers, use_kernels};
    use super::*;

    const SHAPE: AttentionShape = AttentionShape {
        samples: 2,
        sequence: 130,
        heads: 4,
        groups: 2,
        sees: Sees::All,
        dropout: None,
        scores: Scores { scale: 0.353_553_4, cap: None },
    };
    const WIDTH: usize = 8;

    fn tensor(heads: usize, start: usize) -> Tensor<2> {
        let shape = [SHAPE.samples * SHAPE.sequence, heads * WIDTH];
        Tensor::from_data(TensorData::new(numbers(shape[0] * shape[1], start), shape), &Device::flex())
    }

    fn close(ours: &Tensor<2>, theirs: &Tensor<2>) -> bool {
        let values = |tensor: &Tensor<2>| tensor.clone().into_data().try_into_vec::<f32>().expect("single precision");
        let near =
            |(a, b): (&f32, &f32)| (a - b).abs() < 2e-5 || (a.is_infinite() && b.is_infinite() && (a < b) == (b < a));
        values(ours).iter().zip(&values(theirs)).all(near)
    }

    fn operands(first: usize) -> [Tensor<2>; 3] {
        [tensor(4, 0), tensor(2, first), tensor(2, first + 1)]
    }

    #[test]
    fn the_kernel_equals_burns_operators_whatever_is_seen() {
        use_kernels(true);
        for sees in [Sees::All, Sees::PAST, Sees::Past { behind: 1, reach: usize::MAX }] {
            let dropping = DropoutMask { columns: Every { first: 1, step: 2 }, ..DropoutMask::new(0.3, 1, 2) };
            for (dropout, cap) in [(None, None), (Some(dropping), None), (None, Some(1.5)), (Some(dropping), Some(1.5))]
            {
                let scores = Scores { cap, ..SHAPE.scores };
                let shape = AttentionShape { scores, sees, dropout, ..SHAPE };
                let (ours, theirs) = (partial_attention(operands(1), &shape), by_burn(operands(1), &shape));
                assert!(close(&ours.result, &theirs.result) && close(&ours.log_sums, &theirs.log_sums), "{sees:?}");
                // Of more keys, so that every row sees one.
                let whole = by_burn(operands(3), &SHAPE).joined(ours, &shape);
                let ours = partial_gradients(operands(1), &whole, tensor(4, 9), &shape);
                let theirs = gradients_by_burn(operands(1), &whole, tensor(4, 9), &shape);
                assert!(ours.iter().zip(&theirs).all(|(ours, theirs)| close(ours, theirs)), "{sees:?}");
            }
        }
    }

    #[test]
    fn parts_of_the_keys_come_together() {
        use_kernels(true);
        // Twice the same keys: shares are halved, the result stays.
        let half = partial_attention(operands(1), &SHAPE);
        let both = half.clone().joined(half.clone(), &SHAPE);
        assert!(close(&both.result, &half.result));
        assert!(close(&both.log_sums, &(half.log_sums.clone() + std::f32::consts::LN_2)));
        // Nothing that is seen adds nothing.
        let nothing = AttentionShape { sees: Sees::Past { behind: SHAPE.sequence, reach: usize::MAX }, ..SHAPE };
        let joined = half.clone().joined(partial_attention(operands(3), &nothing), &SHAPE);
        assert!(close(&joined.result, &half.result) && close(&joined.log_sums, &half.log_sums));
    }

    #[test]
    fn a_window_hides_what_is_too_far_away() {
        let hidden = hidden(Sees::Past { behind: 1, reach: 3 }, 5, &Device::flex()).expect("there is a mask");
        let hidden = hidden.into_data().try_into_vec::<bool>().expect("truth values");
        let seen_by = |i: usize| (0..5).filter(|j| !hidden[i * 5 + j]).collect::<Vec<_>>();
        assert_eq!([0, 1, 4].map(seen_by), [vec![], vec![0], vec![2, 3]]);
    }
}
