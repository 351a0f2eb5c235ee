//! Normalisation of each row.

#[cfg(feature = "gpu")]
use super::lies_on_host;
use super::operation::{Kernel, Saves, apply, contiguous, extent, from_numbers, is_on_host};
use super::vector::{sum_of, vectorized};
use burn::backend::flex::FlexTensor;
use burn::tensor::{FloatDType, Tensor};
use rayon::prelude::*;

/// Rows whose shares of a scale's gradient are summed together. It is fixed, so that sums do not depend on threads.
const BLOCK: usize = 64;

/// Computes (x − mean) / √(variance + ε) · scale + shift over the features of each row (Ba et al., arXiv:1607.06450,
/// equation 4). `scale` and `shift` have one number per feature.
pub(crate) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if !lies_on_host(&x) {
        return super::gpu::layer_norm(x, scale, shift, epsilon);
    }
    if !is_on_host(&x) {
        return layer_norm_by_burn(x, scale, shift, epsilon);
    }
    let operands = [x.into_dispatch(), scale.into_dispatch(), shift.into_dispatch()];
    Tensor::from_dispatch(apply(LayerNorm { epsilon: epsilon as f32 }, operands))
}

/// Computes [`layer_norm`] by Burn's operators, in single precision whatever the operands' format.
fn layer_norm_by_burn(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let float = FloatDType::from(x.dtype());
    let [scale, shift] = [scale, shift].map(|tensor| tensor.cast(FloatDType::F32));
    burn::tensor::module::layer_norm(x.cast(FloatDType::F32), scale, Some(shift), epsilon).cast(float)
}

/// Computes x / √(mean of x² + ε) · scale over the features of each row (Zhang and Sennrich, arXiv:1910.07467, equation
/// 4).
pub(crate) fn rms_norm(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if !lies_on_host(&x) {
        return super::gpu::rms_norm(x, scale, epsilon);
    }
    if !is_on_host(&x) {
        return rms_norm_by_burn(x, scale, epsilon);
    }
    let operands = [x.into_dispatch(), scale.into_dispatch()];
    Tensor::from_dispatch(apply(RmsNorm { epsilon: epsilon as f32 }, operands))
}

/// Computes [`rms_norm`] by Burn's operators, in single precision whatever the operands' format.
fn rms_norm_by_burn(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let float = FloatDType::from(x.dtype());
    let x = x.cast(FloatDType::F32);
    let square = x.clone().square().mean_dim(1);
    (x / (square + epsilon).sqrt() * scale.cast(FloatDType::F32).unsqueeze()).cast(float)
}

/// The values saved for backward: the operands, and of each row its mean and the inverse of its deviation.
#[derive(Clone, Debug)]
struct Kept {
    x: FlexTensor,
    scale: FlexTensor,
    moments: Vec<[f32; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm {
    epsilon: f32,
}

impl Kernel<3> for LayerNorm {
    type Kept = Kept;

    fn saved(kept: &mut Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(&mut kept.x, Saves::Operand(0))]
    }

    const WEIGHTS: &'static [usize] = &[1];

    fn weights(kept: &mut Kept) -> Vec<&mut FlexTensor> {
        vec![&mut kept.scale]
    }

    fn forward(&self, operands: [FlexTensor; 3]) -> (FlexTensor, Kept) {
        let [x, scale, shift] = operands.map(contiguous);
        let (normal, moments) = forward_by_blocks(&x, |x, to, moments| {
            layer_norm_forward(x, scale.storage(), shift.storage(), self.epsilon, to, moments);
        });
        (normal, Kept { x, scale, moments })
    }

    fn backward(&self, kept: Kept, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let (to_x, [to_scale, to_shift]) =
            backward_by_blocks(kept, gradient, |[x, scale], moments, gradient, [to_scale, to_shift]| {
                layer_norm_backward(x, scale, moments, gradient, to_scale, to_shift);
            });
        [Some(to_x), Some(to_scale), Some(to_shift)]
    }
}

#[derive(Clone, Copy, Debug)]
struct RmsNorm {
    epsilon: f32,
}

impl Kernel<2> for RmsNorm {
    type Kept = Kept;

    fn saved(kept: &mut Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(&mut kept.x, Saves::Operand(0))]
    }

    const WEIGHTS: &'static [usize] = &[1];

    fn weights(kept: &mut Kept) -> Vec<&mut FlexTensor> {
        vec![&mut kept.scale]
    }

    fn forward(&self, operands: [FlexTensor; 2]) -> (FlexTensor, Kept) {
        let [x, scale] = operands.map(contiguous);
        let (normal, moments) = forward_by_blocks(&x, |x, to, moments| {
            rms_norm_forward(x, scale.storage(), self.epsilon, to, moments);
        });
        (normal, Kept { x, scale, moments })
    }

    fn backward(&self, kept: Kept, gradient: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let (to_x, [to_scale]) = backward_by_blocks(kept, gradient, |[x, scale], moments, gradient, [to_scale]| {
            rms_norm_backward(x, scale, moments, gradient, to_scale);
        });
        [Some(to_x), Some(to_scale)]
    }
}

/// Normalises `x` block by block; returns the result, and of each row the numbers that backward wants. `of_block` is
/// given a block of `x`, where its result goes, and where the numbers of its rows go.
fn forward_by_blocks(
    x: &FlexTensor,
    of_block: impl Fn(&[f32], &mut [f32], &mut [[f32; 2]]) + Sync,
) -> (FlexTensor, Vec<[f32; 2]>) {
    let [rows, features] = extent(x);
    let mut to = vec![0.0; rows * features];
    let mut moments = vec![[0.0; 2]; rows];
    to.par_chunks_mut(BLOCK * features)
        .zip(x.storage::<f32>().par_chunks(BLOCK * features))
        .zip(moments.par_chunks_mut(BLOCK))
        .for_each(|((to, x), moments)| of_block(x, to, moments));
    (from_numbers(to, [rows, features]), moments)
}

/// Returns the gradient of what was normalised, and those of the operands of one number per feature, which blocks sum
/// apart. `of_block` is given a block of what was normalised and the scale, the numbers of its rows, their gradient,
/// which becomes that of the block, and its sums.
fn backward_by_blocks<const SUMS: usize>(
    kept: Kept,
    gradient: FlexTensor,
    of_block: impl Fn([&[f32]; 2], &[[f32; 2]], &mut [f32], &mut [Vec<f32>; SUMS]) + Sync,
) -> (FlexTensor, [FlexTensor; SUMS]) {
    let Kept { x, scale, moments } = kept;
    let scale = contiguous(scale);
    let [rows, features] = extent(&x);
    debug_assert_eq!(rows, moments.len());
    let mut gradient = contiguous(gradient);
    let sums: Vec<[Vec<f32>; SUMS]> = gradient
        .storage_mut::<f32>()
        .par_chunks_mut(BLOCK * features)
        .zip(x.storage::<f32>().par_chunks(BLOCK * features))
        .zip(moments.par_chunks(BLOCK))
        .map(|((gradient, x), moments)| {
            let mut sums = std::array::from_fn(|_| vec![0.0; features]);
            of_block([x, scale.storage()], moments, gradient, &mut sums);
            sums
        })
        .collect();
    let of_all = |operand: usize| total(sums.iter().map(|sums| &sums[operand]), features);
    (gradient, std::array::from_fn(|operand| from_numbers(of_all(operand), [features])))
}

/// Sums equally long lists, in their order.
fn total<'a>(lists: impl Iterator<Item = &'a Vec<f32>>, length: usize) -> Vec<f32> {
    lists.fold(vec![0.0; length], |mut sum, list| {
        sum.iter_mut().zip(list).for_each(|(sum, number)| *sum += number);
        sum
    })
}

vectorized! {
    fn layer_norm_forward(
        x: &'a [f32],
        scale: &'a [f32],
        shift: &'a [f32],
        epsilon: f32,
        to: &'a mut [f32],
        moments: &'a mut [[f32; 2]],
    ) {
        let features = scale.len();
        let share = 1.0 / features as f32;
        let rows = x.chunks_exact(features).zip(to.chunks_exact_mut(features)).zip(moments);
        for ((x, to), moments) in rows {
            let mean = sum_of([x], |[x]| x) * share;
            let variance = sum_of([x], |[x]| (x - mean) * (x - mean)) * share;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            *moments = [mean, inverse];
            for (((to, &x), &scale), &shift) in to.iter_mut().zip(x).zip(scale).zip(shift) {
                *to = ((x - mean) * inverse).mul_add(scale, shift);
            }
        }
    }

    fn layer_norm_backward(
        x: &'a [f32],
        scale: &'a [f32],
        moments: &'a [[f32; 2]],
        gradient: &'a mut [f32],
        to_scale: &'a mut [f32],
        to_shift: &'a mut [f32],
    ) {
        let features = scale.len();
        let share = 1.0 / features as f32;
        let rows = x.chunks_exact(features).zip(gradient.chunks_exact_mut(features)).zip(moments);
        for ((x, gradient), &[mean, inverse]) in rows {
            let along = sum_of([gradient, scale], |[gradient, scale]| gradient * scale) * share;
            let across = sum_of([gradient, scale, x], |[gradient, scale, x]| gradient * scale * (x - mean));
            let across = across * share * inverse * inverse;
            for i in 0..features {
                to_scale[i] += gradient[i] * (x[i] - mean) * inverse;
                to_shift[i] += gradient[i];
            }
            for ((gradient, &x), &scale) in gradient.iter_mut().zip(x).zip(scale) {
                *gradient = inverse * ((x - mean).mul_add(-across, gradient.mul_add(scale, -along)));
            }
        }
    }

    fn rms_norm_forward(
        x: &'a [f32],
        scale: &'a [f32],
        epsilon: f32,
        to: &'a mut [f32],
        moments: &'a mut [[f32; 2]],
    ) {
        let features = scale.len();
        let share = 1.0 / features as f32;
        let rows = x.chunks_exact(features).zip(to.chunks_exact_mut(features)).zip(moments);
        for ((x, to), moments) in rows {
            let inverse = 1.0 / sum_of([x], |[x]| x * x).mul_add(share, epsilon).sqrt();
            *moments = [0.0, inverse];
            for ((to, &x), &scale) in to.iter_mut().zip(x).zip(scale) {
                *to = x * inverse * scale;
            }
        }
    }

    fn rms_norm_backward(
        x: &'a [f32],
        scale: &'a [f32],
        moments: &'a [[f32; 2]],
        gradient: &'a mut [f32],
        to_scale: &'a mut [f32],
    ) {
        let features = scale.len();
        let share = 1.0 / features as f32;
        let rows = x.chunks_exact(features).zip(gradient.chunks_exact_mut(features)).zip(moments);
        for ((x, gradient), &[_, inverse]) in rows {
            let across = sum_of([gradient, scale, x], |[gradient, scale, x]| gradient * scale * x);
            let across = across * share * inverse * inverse;
            for ((to_scale, &gradient), &x) in to_scale.iter_mut().zip(gradient.iter()).zip(x) {
                *to_scale += gradient * x * inverse;
            }
            for ((gradient, &x), &scale) in gradient.iter_mut().zip(x).zip(scale) {
                *gradient = inverse * x.mul_add(-across, *gradient * scale);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_equal_to_plain, half_precision_agrees};
    use super::*;

    fn row(tensor: Tensor<2>) -> Tensor<1> {
        tensor.flatten(0, 1)
    }

    #[test]
    fn norms_are_those_of_burn() {
        for [rows, features] in [[1, 4], [3, 7], [5, 64], [200, 100]] {
            let shapes = [[rows, features], [1, features], [1, features]];
            assert_equal_to_plain(
                shapes,
                |[x, scale, shift]| layer_norm(x, row(scale), row(shift), 1e-5),
                |[x, scale, shift]| layer_norm_by_burn(x, row(scale), row(shift), 1e-5),
            );
            assert_equal_to_plain(
                [shapes[0], shapes[1]],
                |[x, scale]| rms_norm(x, row(scale), 1e-6),
                |[x, scale]| rms_norm_by_burn(x, row(scale), 1e-6),
            );
        }
        half_precision_agrees([[4, 32], [1, 32]], |[x, scale]| rms_norm(x, row(scale), 1e-6));
    }
}
