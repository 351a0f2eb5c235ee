//! Normalisation of each channel.

use super::operation::{Kernel, Saves, apply, contiguous, from_numbers, is_on_host};
use super::vector::{sum_of, vectorized};
use burn::backend::flex::FlexTensor;
use burn::tensor::module::batch_norm_train;
use burn::tensor::{FloatDType, Tensor, TensorData};
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// Images normalised, and what they were normalised by.
pub(crate) struct Normalized {
    /// (samples, channels, height, width)
    pub(crate) images: Tensor<4>,
    /// Of each channel, over samples and pixels.
    pub(crate) mean: Tensor<1>,
    /// Of each channel, over samples and pixels; the mean of squares.
    pub(crate) variance: Tensor<1>,
}

/// Computes (x − mean) / √(variance + ε) · scale + shift of each channel of images, (samples, channels, height, width),
/// with the moments of the channel (Ioffe and Szegedy, arXiv:1502.03167, algorithm 1), in single precision.
pub(crate) fn batch_norm(images: Tensor<4>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Normalized {
    if !is_on_host(&images) {
        return batch_norm_by_burn(images, scale, shift, epsilon);
    }
    let (device, channels) = (images.device().inner(), scale.dims()[0]);
    let moments = Arc::new(OnceLock::new());
    let operands = [images.into_dispatch(), scale.into_dispatch(), shift.into_dispatch()];
    let norm = BatchNorm { epsilon: epsilon as f32, moments: Arc::clone(&moments) };
    let images = Tensor::from_dispatch(apply(norm, operands));
    let moments = moments.get().expect("a forward pass notes them");
    let of = |numbers: Vec<f32>| Tensor::from_data(TensorData::new(numbers, [channels]), &device);
    let mean = of(moments.iter().map(|moments| moments.mean).collect());
    let variance = of(moments.iter().map(|moments| moments.variance).collect());
    Normalized { images, mean, variance }
}

/// Computes [`batch_norm`] by Burn's operators.
fn batch_norm_by_burn(images: Tensor<4>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Normalized {
    let float = FloatDType::from(images.dtype());
    let [scale, shift] = [scale, shift].map(|tensor| tensor.cast(FloatDType::F32));
    let result = batch_norm_train(images.cast(FloatDType::F32), scale, shift, epsilon);
    Normalized { images: result.output.cast(float), mean: result.mean, variance: result.variance }
}

/// The moments of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    mean: f32,
    variance: f32,
    /// 1 / √(variance + ε)
    inverse: f32,
}

#[derive(Clone, Debug)]
struct BatchNorm {
    epsilon: f32,
    /// Those that the forward pass found.
    moments: Arc<OnceLock<Vec<Moments>>>,
}

/// The values saved for backward: the images, the scale, and each channel's moments.
#[derive(Clone, Debug)]
struct Kept {
    x: FlexTensor,
    scale: FlexTensor,
    moments: Vec<Moments>,
}

/// Numbers of a task, at least: below, handing it out takes longer.
const NUMBERS_MIN: usize = 8192;

/// Returns [samples, channels, pixels] of images.
fn extent(images: &FlexTensor) -> [usize; 3] {
    let shape = images.layout().shape();
    [shape[0], shape[1], shape[2] * shape[3]]
}

/// Computes something of each channel, from (samples, channels, pixels).
fn of_channels<T: Send>([samples, channels, pixels]: [usize; 3], of: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    let least = (NUMBERS_MIN / (samples * pixels).max(1)).max(1);
    (0..channels).into_par_iter().with_min_len(least).map(of).collect()
}

/// A channel's mean m and the numbers of (x − m) · a + y · b + c.
type Line = [f32; 4];

/// Writes (x − m) · a + y · b + c over `y`, (samples, channels, pixels), with `x` of the same shape.
fn combine(x: &[f32], y: &mut [f32], lines: &[Line], pixels: usize) {
    let sample = (lines.len() * pixels).max(1);
    let least = (NUMBERS_MIN / sample).max(1);
    y.par_chunks_mut(sample)
        .zip(x.par_chunks(sample))
        .with_min_len(least)
        .for_each(|(y, x)| lines_of(x, y, lines, pixels));
}

impl Kernel<3> for BatchNorm {
    type Kept = Kept;

    fn saved(kept: &mut Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(&mut kept.x, Saves::Operand(0))]
    }

    fn forward(&self, operands: [FlexTensor; 3]) -> (FlexTensor, Kept) {
        let [x, scale, shift] = operands.map(contiguous);
        let extent = extent(&x);
        let [samples, channels, pixels] = extent;
        let numbers: &[f32] = x.storage();
        let moments = of_channels(extent, |channel| moments_of(numbers, channel, channels, pixels, self.epsilon));
        let by = moments.iter().zip(scale.storage::<f32>()).zip(shift.storage::<f32>());
        let lines: Vec<[f32; 2]> = by
            .map(|((moments, &scale), &shift)| {
                let slope = scale * moments.inverse;
                [slope, (-moments.mean).mul_add(slope, shift)]
            })
            .collect();
        let mut to = vec![0.0; samples * channels * pixels];
        let sample = (channels * pixels).max(1);
        let least = (NUMBERS_MIN / sample).max(1);
        let from = numbers.par_chunks(sample);
        to.par_chunks_mut(sample).zip(from).with_min_len(least).for_each(|(to, x)| normalize(x, to, &lines, pixels));
        let _ = self.moments.set(moments.clone());
        let shape = x.layout().shape();
        (from_numbers(to, [samples, channels, shape[2], shape[3]]), Kept { x, scale, moments })
    }

    fn backward(&self, kept: Kept, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Kept { x, scale, moments } = kept;
        let extent = extent(&x);
        let [samples, channels, pixels] = extent;
        let mut gradient = contiguous(gradient);
        let (numbers, from) = (x.storage::<f32>(), gradient.storage::<f32>());
        // Σ gradient and Σ gradient · (x − mean) / deviation: the gradients of shift and scale.
        let sums = of_channels(extent, |channel| sums_of(numbers, from, moments[channel], channel, channels, pixels));
        let share = 1.0 / (samples * pixels) as f32;
        let by = moments.iter().zip(&sums).zip(scale.storage::<f32>());
        let lines: Vec<Line> = by
            .map(|((moments, [along, across]), scale)| {
                let slope = scale * moments.inverse;
                let of_x = -slope * across * share * moments.inverse;
                [moments.mean, of_x, slope, -slope * along * share]
            })
            .collect();
        combine(numbers, gradient.storage_mut(), &lines, pixels);
        let column = |at: usize| from_numbers(sums.iter().map(|sums| sums[at]).collect(), [channels]);
        [Some(gradient), Some(column(1)), Some(column(0))]
    }
}

vectorized! {
    fn moments_of(x: &'a [f32], channel: usize, channels: usize, pixels: usize, epsilon: f32) -> Moments {
        let count = x.len() / channels;
        let share = 1.0 / count as f32;
        let maps = || x.chunks_exact(pixels).skip(channel).step_by(channels);
        let mean = maps().map(|x| sum_of([x], |[x]| x)).sum::<f32>() * share;
        let variance = maps().map(|x| sum_of([x], |[x]| (x - mean) * (x - mean))).sum::<f32>() * share;
        Moments { mean, variance, inverse: 1.0 / (variance + epsilon).sqrt() }
    }

    fn sums_of(
        x: &'a [f32],
        gradient: &'a [f32],
        moments: Moments,
        channel: usize,
        channels: usize,
        pixels: usize,
    ) -> [f32; 2] {
        let maps = x.chunks_exact(pixels).zip(gradient.chunks_exact(pixels)).skip(channel).step_by(channels);
        let mut sums = [0.0; 2];
        for (x, gradient) in maps {
            sums[0] += sum_of([gradient], |[gradient]| gradient);
            sums[1] += sum_of([x, gradient], |[x, gradient]| (x - moments.mean) * gradient);
        }
        [sums[0], sums[1] * moments.inverse]
    }

    fn normalize(x: &'a [f32], to: &'a mut [f32], lines: &'a [[f32; 2]], pixels: usize) {
        for ((x, to), &[slope, start]) in x.chunks_exact(pixels).zip(to.chunks_exact_mut(pixels)).zip(lines) {
            for (to, &x) in to.iter_mut().zip(x) {
                *to = x.mul_add(slope, start);
            }
        }
    }

    fn lines_of(x: &'a [f32], y: &'a mut [f32], lines: &'a [Line], pixels: usize) {
        for ((x, y), &[mean, of_x, of_y, start]) in x.chunks_exact(pixels).zip(y.chunks_exact_mut(pixels)).zip(lines) {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = y.mul_add(of_y, (x - mean).mul_add(of_x, start));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_equal_to_plain, half_precision_agrees};
    use super::*;

    fn images(rows: Tensor<2>, channels: usize, height: usize) -> Tensor<4> {
        let [samples, features] = rows.dims();
        rows.reshape([samples, channels, height, features / channels / height])
    }

    #[test]
    fn batch_norm_is_that_of_burn() {
        for [samples, channels, height, width] in [[2, 3, 5, 7], [1, 1, 2, 1], [5, 33, 2, 2], [3, 8, 16, 16]] {
            let norm = |norm: fn(Tensor<4>, Tensor<1>, Tensor<1>, f64) -> Normalized| {
                move |[x, scale, shift]: [Tensor<2>; 3]| {
                    let [scale, shift] = [scale, shift].map(|row| row.flatten::<1>(0, 1));
                    norm(images(x, channels, height), scale, shift, 1e-5).images.flatten(1, 3)
                }
            };
            let shapes = [[samples, channels * height * width], [1, channels], [1, channels]];
            assert_equal_to_plain(shapes, norm(batch_norm), norm(batch_norm_by_burn));
        }
        half_precision_agrees([[4, 64]], |[x]| {
            let [scale, shift] = [1.5, 0.5].map(|value| Tensor::<1>::full([4], value, &x.device()));
            batch_norm(images(x, 4, 4), scale, shift, 1e-5).images.flatten(1, 3)
        });
    }

    #[test]
    fn moments_are_noted() {
        let x = super::super::testing::tensor([3, 24], 1);
        let [scale, shift] = [1.0, 0.0].map(|value| Tensor::<1>::full([2], value, &x.device()));
        let by = |norm: fn(Tensor<4>, Tensor<1>, Tensor<1>, f64) -> Normalized| {
            let found = norm(images(x.clone(), 2, 4), scale.clone(), shift.clone(), 1e-5);
            [found.mean, found.variance].map(|moments| moments.into_data().try_into_vec::<f32>().expect("single"))
        };
        super::super::testing::assert_close(&by(batch_norm), &by(batch_norm_by_burn), 1e-6, "moments");
    }
}
