//! Operators that are measured and that no model of the executor has yet: what its layers will call.

use super::prepare::{Run, values};
use crate::clock::Clock;
use burn::tensor::activation::{silu, softmax};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};
use burn::tensor::{DType, Device, Tensor, TensorData};
use trainyard_plan::Optimizer;

const EPSILON: f64 = 1e-5;

/// Scaled dot-product attention of every query to every key, (rows, 3 × hidden) → (rows, hidden).
pub(super) fn full_attention(qkv: Tensor<2>, samples: usize, heads: usize) -> Tensor<2> {
    let [rows, width] = qkv.dims();
    let (sequence, hidden) = (rows / samples, width / 3);
    let head_width = hidden / heads;
    let part = move |index: usize| {
        let narrowed = qkv.clone().narrow(1, index * hidden, hidden);
        narrowed.reshape([samples, sequence, heads, head_width]).swap_dims(1, 2)
    };
    let queries = part(0) * (1.0 / (head_width as f64).sqrt());
    let weights = softmax(queries.matmul(part(1).transpose()), 3);
    weights.matmul(part(2)).swap_dims(1, 2).reshape([rows, hidden])
}

/// Division by the root mean square of each row, and scale.
pub(super) fn rms_norm(rows: Tensor<2>, scale: Tensor<1>) -> Tensor<2> {
    let squares = rows.clone().square().mean_dim(1);
    rows * (squares + EPSILON).sqrt().recip() * scale.unsqueeze()
}

/// An activated half times the other half.
pub(super) fn gated(rows: Tensor<2>) -> Tensor<2> {
    let width = rows.dims()[1] / 2;
    silu(rows.clone().narrow(1, 0, width)) * rows.narrow(1, width, width)
}

/// Cosines and sines of the angles by which features are turned, (rows, width) each.
pub(super) fn angles(rows: usize, width: usize, device: &Device, format: DType) -> [Tensor<2>; 2] {
    let of = |turn: fn(f32) -> f32| {
        let all = values(rows * width, 4).into_iter().map(turn).collect();
        Tensor::<2>::from_data(TensorData::new::<f32, _>(all, [rows, width]), device).cast(format)
    };
    [of(f32::cos), of(f32::sin)]
}

/// Each half of the features turned against the other.
pub(super) fn rotary(rows: Tensor<2>, [cosines, sines]: &[Tensor<2>; 2]) -> Tensor<2> {
    let half = rows.dims()[1] / 2;
    let turned = Tensor::cat(vec![rows.clone().narrow(1, half, half).neg(), rows.clone().narrow(1, 0, half)], 1);
    rows * cosines.clone() + turned * sines.clone()
}

/// A token before the patches of an image, and positions added to all.
pub(super) fn class_token(patches: Tensor<2>, token: Tensor<2>, positions: Tensor<2>) -> Tensor<2> {
    Tensor::cat(vec![token, patches], 0) + positions
}

/// A convolution that pads so that the output is the input over the stride.
pub(super) fn convolution(maps: Tensor<4>, weight: Tensor<4>, stride: usize) -> Tensor<4> {
    let side = weight.dims()[2];
    let padding = if side > stride { (side - 1) / 2 } else { 0 };
    let options = ConvOptions::new([stride; 2], [padding; 2], [1; 2], 1);
    burn::tensor::module::conv2d(maps, weight, None, options)
}

/// Each channel by its mean and variance over samples and pixels, scaled and shifted.
pub(super) fn batch_norm(maps: Tensor<4>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<4> {
    let [samples, channels, height, width] = maps.dims();
    let shape = [1, channels, 1, 1];
    let mean_of = |maps: Tensor<4>| {
        let by_channel = maps.swap_dims(0, 1).reshape([channels, samples * height * width]);
        by_channel.mean_dim(1).reshape(shape)
    };
    let centred = maps.clone() - mean_of(maps);
    let variance = mean_of(centred.clone().square());
    centred * (variance + EPSILON).sqrt().recip() * scale.reshape(shape) + shift.reshape(shape)
}

/// The largest of each window of three by three pixels, every second of them.
pub(super) fn max_pool(maps: Tensor<4>) -> Tensor<4> {
    burn::tensor::module::max_pool2d(maps, MaxPoolOptions::new([3; 2]).with_stride([2; 2]).with_padding([1; 2]))
}

/// (samples, channels, height, width) → (samples, channels).
pub(super) fn mean_pool(maps: Tensor<4>) -> Tensor<2> {
    let [samples, channels, height, width] = maps.dims();
    maps.reshape([samples, channels, height * width]).mean_dim(2).reshape([samples, channels])
}

/// One update of tensors of these shapes by a rule that keeps one or two moments and may scale by norms.
pub(super) fn update(kind: Optimizer, shapes: Vec<Vec<usize>>) -> Run {
    struct State {
        weight: Vec<f32>,
        gradient: Vec<f32>,
        first: Vec<f32>,
        second: Vec<f32>,
    }
    let state = |shape: &Vec<usize>| {
        let length = shape.iter().product();
        let [weight, gradient] = [1, 2].map(|start| values(length, start));
        State { weight, gradient, first: vec![0.0; length], second: vec![0.0; length] }
    };
    let mut states: Vec<State> = shapes.iter().map(state).collect();
    let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
    Box::new(move || {
        let clock = Clock::start();
        for State { weight, gradient, first, second } in &mut states {
            let rate = match kind {
                Optimizer::Lars | Optimizer::Lamb => 1e-6 * norm(weight) / norm(gradient).max(1e-6),
                _ => 1e-6,
            };
            let moments = first.iter_mut().zip(second.iter_mut());
            for ((value, slope), (first, second)) in weight.iter_mut().zip(&*gradient).zip(moments) {
                *first = 0.9 * *first + slope;
                let step = if kind == Optimizer::Lamb {
                    *second = 0.999 * *second + slope * slope;
                    *first / (second.sqrt() + 1e-6)
                } else {
                    *first
                };
                *value -= rate * step;
            }
        }
        [clock.seconds(), 0.0]
    })
}
