//! Rotations of pairs of features by angles of positions.

use super::operation::{Kernel, apply, contiguous, is_on_host};
use super::vector::vectorized;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;
use std::sync::Arc;

/// Rows that a thread takes at once, at least.
const BLOCK: usize = 16;

/// Cosines and sines of the angles of pairs of features: (positions, pairs) each, flat.
#[derive(Debug)]
pub(crate) struct Angles {
    pub(crate) pairs: usize,
    pub(crate) cosines: Vec<f32>,
    pub(crate) sines: Vec<f32>,
}

/// Turns feature i of each head against feature i + `pairs`, (samples × positions, heads × width). Features behind these
/// pairs stay.
pub(crate) fn rotate(rows: Tensor<2>, angles: &Arc<Angles>, heads: usize) -> Tensor<2> {
    if !is_on_host(&rows) {
        return rotate_by_burn(rows, angles, heads);
    }
    let width = rows.dims()[1] / heads;
    Tensor::from_dispatch(apply(Turn { angles: angles.clone(), width }, [rows.into_dispatch()]))
}

fn rotate_by_burn(rows: Tensor<2>, angles: &Angles, heads: usize) -> Tensor<2> {
    let ([height, width], pairs) = (rows.dims(), angles.pairs);
    let (device, dtype) = (rows.device(), rows.dtype());
    let positions = angles.cosines.len() / pairs;
    let table = |values: &[f32]| {
        Tensor::<4>::from_data(TensorData::new(values.to_vec(), [1, positions, 1, pairs]), &device).cast(dtype)
    };
    let (cosines, sines) = (table(&angles.cosines), table(&angles.sines));
    let features = rows.reshape([height / positions, positions, heads, width / heads]);
    let part = |start, length| features.clone().narrow(3, start, length);
    let (first, second) = (part(0, pairs), part(pairs, pairs));
    let turned_first = first.clone() * cosines.clone() - second.clone() * sines.clone();
    let turned_second = second * cosines + first * sines;
    let mut parts = vec![turned_first, turned_second];
    let rest = width / heads - 2 * pairs;
    parts.extend((rest > 0).then(|| part(2 * pairs, rest)));
    Tensor::cat(parts, 3).reshape([height, width])
}

#[derive(Clone, Debug)]
struct Turn {
    angles: Arc<Angles>,
    /// Features of a head.
    width: usize,
}

impl Turn {
    /// Turns all rows forth, or back again.
    fn turned(&self, rows: FlexTensor, forth: bool) -> FlexTensor {
        let mut rows = contiguous(rows);
        let Angles { pairs, cosines, sines } = &*self.angles;
        let (sign, features) = (if forth { 1.0 } else { -1.0 }, rows.layout().shape()[1]);
        rows.storage_mut::<f32>().par_chunks_mut(features).with_min_len(BLOCK).enumerate().for_each(|(row, values)| {
            let from = row * pairs % cosines.len();
            turn_heads(values, &cosines[from..from + pairs], &sines[from..from + pairs], self.width, sign);
        });
        rows
    }
}

impl Kernel<1> for Turn {
    type Kept = ();

    fn forward(&self, [rows]: [FlexTensor; 1]) -> (FlexTensor, ()) {
        (self.turned(rows, true), ())
    }

    fn backward(&self, (): (), gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(self.turned(gradient, false))]
    }
}

vectorized! {
    fn turn_heads(row: &'a mut [f32], cosines: &'a [f32], sines: &'a [f32], width: usize, sign: f32) {
        for head in row.chunks_exact_mut(width) {
            let (first, others) = head.split_at_mut(cosines.len());
            for (((first, second), cosine), sine) in first.iter_mut().zip(others).zip(cosines).zip(sines) {
                let (x, y, sine) = (*first, *second, sign * sine);
                *first = x * cosine - y * sine;
                *second = y * cosine + x * sine;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_equal_to_plain;
    use super::*;

    #[test]
    fn turned_heads_are_those_of_burn() {
        for [samples, positions, heads, pairs, rest] in [[1, 1, 1, 1, 0], [2, 3, 2, 4, 0], [3, 20, 3, 5, 3]] {
            let angle = |place: usize| 0.1 + place as f32;
            let of = |turn: fn(f32) -> f32| (0..positions * pairs).map(|place| turn(angle(place))).collect();
            let angles = Arc::new(Angles { pairs, cosines: of(f32::cos), sines: of(f32::sin) });
            assert_equal_to_plain(
                [[samples * positions, heads * (2 * pairs + rest)]],
                |[rows]| rotate(rows, &angles, heads),
                |[rows]| rotate_by_burn(rows, &angles, heads),
            );
        }
    }
}
