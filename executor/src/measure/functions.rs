//! Operators of families whose layers do not share a function: as those layers compute them, on rows of features.

use super::prepare::values;
use crate::kernels::{self, Angles, AttentionShape, Scores, Sees, Strides};
use crate::network::operators::single;
use burn::tensor::Tensor;
use std::sync::Arc;

/// Computes scaled dot-product attention of every query to every key, (rows, 3 × hidden) → (rows, hidden).
pub(super) fn full_attention(qkv: Tensor<2>, samples: usize, heads: usize) -> Tensor<2> {
    let sequence = qkv.dims()[0] / samples;
    let scores = Scores::of_width(qkv.dims()[1] / (3 * heads));
    let shape = AttentionShape { samples, sequence, heads, groups: heads, scores, sees: Sees::All, dropout: None };
    kernels::packed_attention(qkv, &shape)
}

/// Divides each row by its root mean square and scales it, in single precision.
pub(super) fn rms_norm(rows: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    kernels::rms_norm(rows, scale, epsilon)
}

/// Returns the angles of heads of `width` features for positions that divide `rows`.
pub(super) fn angles(rows: usize, width: usize) -> Arc<Angles> {
    let positions = if rows.is_multiple_of(POSITIONS) { POSITIONS } else { rows };
    let of = |turn: fn(f32) -> f32| values(positions * width / 2, 4).into_iter().map(turn).collect();
    Arc::new(Angles { pairs: width / 2, cosines: of(f32::cos), sines: of(f32::sin) })
}

/// Positions of the samples whose features are turned: their angles stay in the caches, as those of a model do.
const POSITIONS: usize = 128;

/// Puts a class token before the patches of an image, and adds positions to all.
pub(super) fn class_token(patches: Tensor<2>, token: Tensor<2>, positions: Tensor<2>) -> Tensor<2> {
    Tensor::cat(vec![token, patches], 0) + positions
}

/// Convolves with padding so that the output is the input over the stride: (samples, channels × pixels) both ways.
pub(super) fn convolution(rows: Tensor<2>, weight: Tensor<4>, edges: [usize; 2], stride: usize) -> Tensor<2> {
    let [_, channels, side, _] = weight.dims();
    let padding = if side > stride { side / 2 } else { 0 };
    let maps = rows.reshape([-1, channels as i64, edges[0] as i64, edges[1] as i64]);
    kernels::convolution(maps, weight, Strides { stride, padding, groups: 1 }).flatten(1, 3)
}

/// Normalises each channel by its mean and variance over samples and `pixels`, scaled and shifted, in single precision.
pub(super) fn batch_norm(rows: Tensor<2>, by: [Tensor<1>; 2], pixels: usize, epsilon: f64) -> Tensor<2> {
    let [scale, shift] = by.map(single);
    let channels = scale.dims()[0];
    let maps: Tensor<4> = rows.reshape([-1, channels as i64, pixels as i64, 1]);
    kernels::batch_norm(maps, scale, shift, epsilon).images.flatten(1, 3)
}

/// Returns the largest of each window of three by three pixels, every second of them.
pub(super) fn max_pool(rows: Tensor<2>, channels: usize, edge: usize) -> Tensor<2> {
    let maps: Tensor<4> = rows.reshape([-1, channels as i64, edge as i64, edge as i64]);
    kernels::max_pool(maps).flatten(1, 3)
}

/// Computes the mean over pixels: (samples, channels × pixels) → (samples, channels).
pub(super) fn mean_pool(rows: Tensor<2>, channels: usize) -> Tensor<2> {
    let [samples, width] = rows.dims();
    rows.reshape([samples, channels, width / channels]).mean_dim(2).squeeze_dim::<2>(2)
}
