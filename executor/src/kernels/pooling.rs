//! The largest of the pixels of a window.

use super::operation::{Kernel, apply, contiguous, from_numbers, is_on_host};
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;
use rayon::prelude::*;

/// Pixels on a side of a window, between neighbouring windows, and of the frame around an image that is in no window.
const SIDE: usize = 3;
const STRIDE: usize = 2;
const FRAME: usize = 1;

/// Returns the largest of each window of 3 × 3 pixels, every second of them both ways: (samples, channels, height,
/// width) → (samples, channels, half the height, half the width), rounded up.
pub(crate) fn max_pool(images: Tensor<4>) -> Tensor<4> {
    if !is_on_host(&images) {
        return max_pool_by_burn(images);
    }
    Tensor::from_dispatch(apply(MaxPool, [images.into_dispatch()]))
}

/// Computes [`max_pool`] by Burn's operators.
fn max_pool_by_burn(images: Tensor<4>) -> Tensor<4> {
    max_pool2d(images, MaxPoolOptions::new([SIDE; 2]).with_stride([STRIDE; 2]).with_padding([FRAME; 2]))
}

#[derive(Clone, Copy, Debug)]
struct MaxPool;

/// The values saved for backward.
#[derive(Clone, Debug)]
struct Kept {
    /// Of each result, which pixel of its map it is.
    places: Vec<u32>,
    shape: [usize; 4],
}

/// Maps of a task, at least.
const MAPS_MIN: usize = 8;

fn halves(size: [usize; 2]) -> [usize; 2] {
    size.map(|side| (side + 2 * FRAME - SIDE) / STRIDE + 1)
}

impl Kernel<1> for MaxPool {
    type Kept = Kept;

    fn forward(&self, [x]: [FlexTensor; 1]) -> (FlexTensor, Kept) {
        let x = contiguous(x);
        let shape = x.layout().shape();
        let shape = [shape[0], shape[1], shape[2], shape[3]];
        let [samples, channels, height, width] = shape;
        let [rows, columns] = halves([height, width]);
        let mut to = vec![0.0; samples * channels * rows * columns];
        let mut places = vec![0; to.len()];
        to.par_chunks_mut(rows * columns)
            .zip(places.par_chunks_mut(rows * columns))
            .zip(x.storage::<f32>().par_chunks(height * width))
            .with_min_len(MAPS_MIN)
            .for_each(|((to, places), map)| largest_of_windows(map, width, columns, to, places));
        (from_numbers(to, [samples, channels, rows, columns]), Kept { places, shape })
    }

    fn backward(&self, Kept { places, shape }: Kept, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let gradient = contiguous(gradient);
        let [samples, channels, height, width] = shape;
        let [rows, columns] = halves([height, width]);
        let mut to = vec![0.0; samples * channels * height * width];
        to.par_chunks_mut(height * width)
            .zip(places.par_chunks(rows * columns))
            .zip(gradient.storage::<f32>().par_chunks(rows * columns))
            .with_min_len(MAPS_MIN)
            .for_each(|((to, places), gradient)| {
                places.iter().zip(gradient).for_each(|(&place, gradient)| to[place as usize] += gradient);
            });
        [Some(from_numbers(to, shape))]
    }
}

/// Finds the largest pixel of each window of a map, the first one of several; one that is no number is the largest.
fn largest_of_windows(map: &[f32], width: usize, columns: usize, to: &mut [f32], places: &mut [u32]) {
    let height = map.len() / width;
    let seen = |at: usize, side: usize| (at * STRIDE).saturating_sub(FRAME)..(at * STRIDE + SIDE - FRAME).min(side);
    let results = to.chunks_exact_mut(columns).zip(places.chunks_exact_mut(columns));
    for (row, (to, places)) in results.enumerate() {
        let rows = seen(row, height);
        for (column, (to, to_place)) in to.iter_mut().zip(places).enumerate() {
            let columns = seen(column, width);
            let (mut largest, mut place) = (f32::NEG_INFINITY, rows.start * width + columns.start);
            for row in rows.clone() {
                for (at, &pixel) in map[row * width..][columns.clone()].iter().enumerate() {
                    if pixel > largest || pixel.is_nan() {
                        (largest, place) = (pixel, row * width + columns.start + at);
                    }
                }
            }
            (*to, *to_place) = (largest, place as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_equal_to_plain, half_precision_agrees};
    use super::*;

    fn pooled(rows: Tensor<2>, width: usize, pool: fn(Tensor<4>) -> Tensor<4>) -> Tensor<2> {
        let [maps, pixels] = rows.dims();
        pool(rows.reshape([1, maps, pixels / width, width])).flatten::<2>(0, 2).reshape([maps as i64, -1])
    }

    #[test]
    fn windows_are_those_of_burn() {
        for [maps, height, width] in [[1, 1, 1], [3, 4, 6], [20, 7, 5], [2, 16, 16]] {
            assert_equal_to_plain(
                [[maps, height * width]],
                |[x]| pooled(x, width, max_pool),
                |[x]| pooled(x, width, max_pool_by_burn),
            );
        }
        half_precision_agrees([[4, 36]], |[x]| pooled(x, 6, max_pool));
    }

    #[test]
    fn what_is_no_number_is_handed_on() {
        let (mut to, mut places) = ([0.0; 1], [0; 1]);
        largest_of_windows(&[1.0, f32::NAN, 3.0, 2.0], 2, 1, &mut to, &mut places);
        assert!(to[0].is_nan());
    }
}
