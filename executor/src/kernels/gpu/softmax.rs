//! Softmax of attention's scores, and its gradient.

use super::rows::{THREADS, combined, groups};
use super::{addresses, written};
use burn::backend::cubecl::dtype_to_storage_type;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

pub(super) fn weights(scores: CubeTensor, causal: bool) -> CubeTensor {
    let scores = into_contiguous(scores);
    let result = written(&scores, scores.meta.shape().clone());
    softmax::launch(
        &scores.client.clone(),
        groups(&scores),
        CubeDim::new_1d(THREADS as u32),
        addresses([&scores, &result]),
        scores.binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        causal,
        THREADS,
        dtype_to_storage_type(result.dtype),
    );
    result
}

pub(super) fn gradient(weights: CubeTensor, gradient: CubeTensor, causal: bool) -> CubeTensor {
    let (weights, gradient) = (into_contiguous(weights), into_contiguous(gradient));
    let result = written(&weights, weights.meta.shape().clone());
    softmax_gradient::launch(
        &weights.client.clone(),
        groups(&weights),
        CubeDim::new_1d(THREADS as u32),
        addresses([&weights, &result]),
        weights.binding().into_tensor_arg(),
        gradient.binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        causal,
        THREADS,
        dtype_to_storage_type(result.dtype),
    );
    result
}

#[cube(launch, address_type = "dynamic")]
fn softmax<E: Float>(
    scores: &Tensor<E>,
    weights: &mut Tensor<E>,
    #[comptime] causal: bool,
    #[comptime] threads: usize,
    #[define(E)] _format: ElemType,
) {
    let (rows, width) = (scores.shape(scores.rank() - 2), scores.shape(scores.rank() - 1));
    let start = CUBE_POS * width;
    if start >= scores.len() {
        terminate!();
    }
    let seen = seen(CUBE_POS % rows, width, causal);
    let mut shared = Shared::<[f32]>::new_slice(threads);

    let mut own = f32::new(-3.0e38_f32);
    let mut at = UNIT_POS as usize;
    while at < seen {
        own = max(own, f32::cast_from(scores[start + at]));
        at += threads;
    }
    let largest = combined(&mut shared, own, threads, true);

    let mut own = f32::new(0.0_f32);
    let mut at = UNIT_POS as usize;
    while at < seen {
        own += (f32::cast_from(scores[start + at]) - largest).exp();
        at += threads;
    }
    let total = combined(&mut shared, own, threads, false);

    let mut at = UNIT_POS as usize;
    while at < width {
        let mut weight = f32::new(0.0_f32);
        if at < seen {
            weight = (f32::cast_from(scores[start + at]) - largest).exp() / total;
        }
        weights[start + at] = E::cast_from(weight);
        at += threads;
    }
}

/// The gradient of score i is wᵢ · (gᵢ − Σⱼ wⱼ gⱼ).
#[cube(launch, address_type = "dynamic")]
fn softmax_gradient<E: Float>(
    weights: &Tensor<E>,
    gradient: &Tensor<E>,
    result: &mut Tensor<E>,
    #[comptime] causal: bool,
    #[comptime] threads: usize,
    #[define(E)] _format: ElemType,
) {
    let (rows, width) = (weights.shape(weights.rank() - 2), weights.shape(weights.rank() - 1));
    let start = CUBE_POS * width;
    if start >= weights.len() {
        terminate!();
    }
    let seen = seen(CUBE_POS % rows, width, causal);
    let mut shared = Shared::<[f32]>::new_slice(threads);

    let mut own = f32::new(0.0_f32);
    let mut at = UNIT_POS as usize;
    while at < seen {
        own += f32::cast_from(weights[start + at]) * f32::cast_from(gradient[start + at]);
        at += threads;
    }
    let total = combined(&mut shared, own, threads, false);

    let mut at = UNIT_POS as usize;
    while at < width {
        let mut of_score = f32::new(0.0_f32);
        if at < seen {
            let weight = f32::cast_from(weights[start + at]);
            of_score = weight * (f32::cast_from(gradient[start + at]) - total);
        }
        result[start + at] = E::cast_from(of_score);
        at += threads;
    }
}

/// Returns how many scores of a row are seen.
#[cube]
fn seen(row: usize, width: usize, #[comptime] causal: bool) -> usize {
    let mut seen = width;
    if causal {
        seen = row + 1;
    }
    seen
}
