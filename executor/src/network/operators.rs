//! The operators that layers are made of, on rows of features.
//!
//! Products compute in the format of their operands; norms, softmax and losses in single precision, whatever that is.

use super::exchange::{TensorGroup, with_gradient, with_gradients};
use crate::kernels::{self, AttentionShape, DropoutMask, Scores, Sees};
use burn::tensor::{Bool, DType, Device, FloatDType, Int, Tensor, TensorData};

/// Computes rows · weight + bias: (rows, inputs) · (inputs, outputs).
pub(crate) fn linear(rows: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    kernels::linear(rows, weight, bias)
}

/// Logits of a head that is tied to a table: (rows, width) · (classes, width)ᵀ.
pub(crate) fn tied_head(rows: Tensor<2>, table: Tensor<2>) -> Tensor<2> {
    kernels::linear_transposed(rows, table)
}

/// Computes layer normalisation of each row (Ba et al., arXiv:1607.06450, section 3.1), in single precision.
pub(crate) fn layer_norm(rows: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    kernels::layer_norm(rows, scale, shift, epsilon)
}

/// Computes GPT-2's activation: the approximation of GELU by a hyperbolic tangent (Hendrycks and Gimpel,
/// arXiv:1606.08415, section 2).
pub(crate) fn gelu(rows: Tensor<2>) -> Tensor<2> {
    kernels::gelu_tanh(rows)
}

/// The layout of queries, keys and values side by side in a row, on this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    /// Samples whose tokens the rows are.
    pub(crate) samples: usize,
    /// Heads of this rank.
    pub(crate) count: usize,
    /// The weights that are dropped out, if any are.
    pub(crate) dropout: Option<DropoutMask>,
}

/// Computes causal scaled dot-product attention: (tokens, 3 × width) → (tokens, width).
///
/// Source: Vaswani et al., arXiv:1706.03762, section 3.2.1.
pub(crate) fn attention(qkv: Tensor<2>, Heads { samples, count, dropout }: Heads) -> Tensor<2> {
    let sequence = qkv.dims()[0] / samples;
    let scores = Scores::of_width(qkv.dims()[1] / (3 * count));
    let shape = AttentionShape { samples, sequence, heads: count, groups: count, scores, sees: Sees::PAST, dropout };
    kernels::packed_attention(qkv, &shape)
}

/// Looks up rows of a table whose entries are split over the ranks of `group`: (ids) → (ids, width), a partial sum of
/// those over all ranks. `first` is the first entry of this rank.
///
/// Source: Shoeybi et al., arXiv:1909.08053, section 3.
pub(crate) fn look_up(table: Tensor<2>, ids: &[i32], first: usize, group: &TensorGroup) -> Tensor<2> {
    let [entries, width] = table.dims();
    let device = table.device();
    let own: Vec<i32> = ids.iter().map(|id| *id - first as i32).collect();
    let missing: Vec<bool> = own.iter().map(|id| *id < 0 || *id >= entries as i32).collect();
    let places = own.iter().zip(&missing).map(|(id, missing)| if *missing { 0 } else { *id }).collect();
    let places: Tensor<1, Int> = integers(places, [ids.len()], &device.clone().inner());
    let rows = picked_rows(table, places);
    if group.size() == 1 {
        return rows;
    }
    let missing = Tensor::<2, Bool>::from_data(TensorData::new(missing, [own.len(), 1]), &device);
    rows.mask_fill(missing.expand([own.len(), width]), 0.0)
}

/// Computes an operator of which a recording keeps the operands alone: when gradients go back it is computed again, and
/// then with all that its gradients need.
///
/// Source: Chen et al., arXiv:1604.06174, section 3; of attention alone: Korthikanti et al., arXiv:2205.05198, section 5.
pub(crate) fn again<const N: usize>(
    operands: [Tensor<2>; N],
    operator: impl Fn([Tensor<2>; N]) -> Tensor<2> + Clone + Send + Sync + 'static,
) -> Tensor<2> {
    let kept = operands.each_ref().map(|operand| plain(operand.clone()));
    let recorded = operator.clone();
    with_gradients(operands, operator, move |gradient| {
        let leaves = kept.clone().map(|operand| Tensor::from_inner(operand).require_grad());
        let mut gradients = seeded(recorded(leaves.clone()), gradient).backward();
        leaves.map(|leaf| leaf.grad_remove(&mut gradients).expect("every operand takes part in the result"))
    })
}

/// Returns the numbers of a tensor, detached from any recording.
pub(super) fn plain<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.inner() } else { tensor }
}

/// Returns rows of a table, (entries, width) → (places, width). What is recorded holds the places, not the table.
pub(super) fn picked_rows(table: Tensor<2>, places: Tensor<1, Int>) -> Tensor<2> {
    let [entries, _] = table.dims();
    let of_result = places.clone();
    with_gradient(
        table,
        |table| table.select(0, places),
        move |gradient| kernels::sums_by_place(gradient, of_result.clone(), entries),
    )
}

/// Computes the mean softmax cross-entropy in nats over rows of logits, (rows, classes of this rank) → (1, 1). The
/// classes are split over the ranks of `group`; `first` is the first one of this rank.
///
/// Source: Shoeybi et al., arXiv:1909.08053, section 3: only sums over classes are exchanged, not logits.
pub(crate) fn cross_entropy(logits: Tensor<2>, targets: &[i32], first: usize, group: &TensorGroup) -> Tensor<2> {
    let logits = single(logits);
    if group.size() == 1 {
        return kernels::cross_entropy(logits, targets);
    }
    let classes = first..first + logits.dims()[1];
    let own =
        |target: &i32| Some(*target as usize).filter(|target| classes.contains(target)).map(|target| target - first);
    let shares = kernels::share_of_loss(logits, targets.iter().map(own).collect());
    let [log_sums, picked] = [0, 1].map(|column| shares.clone().narrow(1, column, 1));
    let greatest = Tensor::from_inner(group.maximum(log_sums.clone()));
    let sums = group.sum(Tensor::cat(vec![(log_sums - greatest.clone()).exp(), picked], 1));
    let [sum, picked] = [0, 1].map(|column| sums.clone().narrow(1, column, 1));
    (sum.log() + greatest - picked).mean().reshape([1, 1])
}

/// Returns a scalar, (1, 1), whose gradient with respect to `output` is `gradient`: backward through a part of a
/// network starts there.
pub(crate) fn seeded(output: Tensor<2>, gradient: Tensor<2>) -> Tensor<2> {
    let device = output.device().inner();
    let dtype = output.dtype();
    with_gradient(output, |_| like(Tensor::zeros([1, 1], &device), dtype), move |_| gradient.clone())
}

/// Converts the tensor to single precision.
pub(crate) fn single<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    tensor.cast(FloatDType::F32)
}

fn like<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    tensor.cast(FloatDType::from(dtype))
}

pub(crate) fn integers<const D: usize>(values: Vec<i32>, shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Copies the values of a tensor to the host in single precision.
pub(crate) fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let values = single(tensor).into_data().try_into_vec::<f32>();
    values.unwrap_or_else(|error| panic!("the device failed while its results were read: {error:?}"))
}

/// Copies the values of each tensor to the host in single precision. A device is waited for once, not for each of them.
pub(crate) fn to_vecs(tensors: Vec<Tensor<1>>) -> Vec<Vec<f32>> {
    if tensors.iter().all(kernels::lies_on_host) { tensors.into_iter().map(to_vec).collect() } else { at_once(tensors) }
}

/// Does the same through one tensor.
fn at_once(tensors: Vec<Tensor<1>>) -> Vec<Vec<f32>> {
    let lengths: Vec<usize> = tensors.iter().map(|tensor| tensor.shape().num_elements()).collect();
    let filled = tensors.into_iter().zip(&lengths).filter(|(_, length)| **length > 0);
    let filled: Vec<Tensor<1>> = filled.map(|(tensor, _)| single(tensor)).collect();
    let all = if filled.is_empty() { Vec::new() } else { to_vec(Tensor::cat(filled, 0)) };
    let mut rest = all.as_slice();
    let each = lengths.into_iter().map(|length| {
        let (own, after) = rest.split_at(length);
        rest = after;
        own.to_vec()
    });
    each.collect()
}

/// Makes a tensor from values on the host.
pub(crate) fn from_vec<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_is_computed_again_has_the_same_result_and_gradients() {
        let device = Device::flex();
        let leaves =
            || [1.0, -2.0].map(|value| Tensor::from_inner(from_vec(vec![value, 3.0], [1, 2], &device)).require_grad());
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let operator = move |[x, y]: [Tensor<2>; 2]| {
            counted.fetch_add(1, Ordering::Relaxed);
            x.clone().exp() * y + x
        };
        let gradients = |[x, y]: [Tensor<2>; 2], result: Tensor<2>| {
            let result = result * 2.0;
            let mut gradients = result.clone().sum().backward();
            let found = [x, y].map(|leaf| to_vec(leaf.grad_remove(&mut gradients).expect("it takes part")));
            (to_vec(result.inner()), found)
        };
        let [plain, twice] = [leaves(), leaves()];
        let expected = gradients(plain.clone(), operator(plain));
        let result = again(twice.clone(), operator);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        assert_eq!(gradients(twice, result), expected);
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn values_come_to_the_host_at_once_as_one_by_one() {
        let device = Device::flex();
        let tensors: Vec<Tensor<1>> =
            [3, 0, 1].map(|length: u8| from_vec((0..length).map(f32::from).collect(), [length.into()], &device)).into();
        assert_eq!(to_vecs(tensors.clone()), [vec![0.0, 1.0, 2.0], vec![], vec![0.0]]);
        assert_eq!(at_once(tensors.clone()), to_vecs(tensors));
        assert!(at_once(Vec::new()).is_empty());
    }
}
