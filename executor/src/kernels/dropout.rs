//! Dropout by the place of a number in the training: whichever rank computes it, and however often, it is dropped or
//! not.
//!
//! Nothing is kept for backward: the mask is drawn anew. On processors that costs less than reading one back; other
//! devices are given a mask of bytes, which they keep.
//!
//! Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15, 2014, with
//! what is left scaled up in training, as in PyTorch; random numbers of 16 bits as thresholds: FlashAttention has 8.

use super::operation::{Kernel, apply, contiguous, extent, is_on_host};
use super::philox::{Stream, fill};
use super::vector::vectorized;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use rayon::prelude::*;

/// Rows or columns of a whole tensor of which a rank has every so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Every {
    pub(crate) first: usize,
    pub(crate) step: usize,
}

impl Every {
    pub(crate) const ONE: Self = Self { first: 0, step: 1 };

    fn at(self, index: usize) -> usize {
        self.first + index * self.step
    }
}

/// The zeros of one place in a layer, for the samples of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropoutMask {
    /// That of the seed, the layer and the place in it.
    pub(crate) key: u64,
    /// Of 65 536 random numbers so many are dropped.
    pub(crate) threshold: u16,
    /// Position of the first sample in the training.
    pub(crate) first_sample: u64,
    /// The first head that this rank has, of attention.
    pub(crate) first_head: usize,
    /// The rows of a sample that it has.
    pub(crate) rows: Every,
    /// The columns of a row that it has.
    pub(crate) columns: Every,
}

/// Numbers of 16 bits.
const NUMBERS: f64 = 65_536.0;

impl DropoutMask {
    /// Makes the mask of a whole tensor of which a share, below 1, is dropped out.
    pub(crate) fn new(share: f64, key: u64, first_sample: u64) -> Self {
        let threshold = (share * NUMBERS).round().min(NUMBERS - 1.0) as u16;
        Self { key, threshold, first_sample, first_head: 0, rows: Every::ONE, columns: Every::ONE }
    }

    /// Returns what numbers that are not dropped are multiplied by: their mean stays.
    pub(crate) fn scale(&self) -> f32 {
        (1.0 / (1.0 - f64::from(self.threshold) / NUMBERS)) as f32
    }

    /// Writes the factors of one row of a head of a sample: zero, or the scale.
    #[inline]
    pub(super) fn row(&self, sample: usize, head: usize, row: usize, factors: &mut [f32]) {
        let position = self.first_sample + sample as u64;
        // Positions of 48 bits leave 16 for heads.
        let above = (position >> 32) as u32 ^ ((self.first_head + head) as u32) << 16;
        let stream = Stream {
            key: [self.key as u32, (self.key >> 32) as u32],
            counter: [self.rows.at(row) as u32, position as u32, above],
        };
        fill(stream, self.threshold, self.scale(), self.columns.first, self.columns.step, factors);
    }

    /// Multiplies rows of samples, one after another, so many of each.
    fn apply(&self, numbers: &mut [f32], rows_of_sample: usize, width: usize) {
        let rows = numbers.par_chunks_mut(width).enumerate().with_min_len(16);
        rows.for_each_init(
            || vec![0.0; width],
            |factors, (row, numbers)| {
                self.row(row / rows_of_sample, 0, row % rows_of_sample, factors);
                multiply(numbers, factors);
            },
        );
    }

    /// Returns where numbers are dropped, `true` there: (samples, heads, rows, columns).
    fn dropped<const D: usize>(
        &self,
        [samples, heads, rows, columns]: [usize; 4],
        shape: [usize; D],
        device: &Device,
    ) -> Tensor<D, Bool> {
        let mut dropped = vec![false; samples * heads * rows * columns];
        dropped.par_chunks_mut(columns).enumerate().for_each_init(
            || vec![0.0; columns],
            |factors, (at, dropped)| {
                self.row(at / rows / heads, at / rows % heads, at % rows, factors);
                dropped.iter_mut().zip(&*factors).for_each(|(dropped, factor)| *dropped = *factor < 1.0);
            },
        );
        Tensor::from_data(TensorData::new(dropped, shape), device)
    }
}

vectorized! {
    pub(super) fn multiply(numbers: &'a mut [f32], factors: &'a [f32]) {
        for (number, factor) in numbers.iter_mut().zip(factors) {
            *number *= factor;
        }
    }
}

/// Drops out numbers of rows, (samples × rows of a sample, features), and scales the others up.
pub(crate) fn dropout(rows: Tensor<2>, samples: usize, mask: &DropoutMask) -> Tensor<2> {
    if !is_on_host(&rows) {
        return dropout_by_burn(rows, samples, mask);
    }
    Tensor::from_dispatch(apply(Dropout { samples, mask: *mask }, [rows.into_dispatch()]))
}

/// Computes [`dropout`] by Burn's operators. The mask is drawn in main memory and copied to the device, one byte a number.
fn dropout_by_burn(rows: Tensor<2>, samples: usize, mask: &DropoutMask) -> Tensor<2> {
    let [height, width] = rows.dims();
    let dropped = mask.dropped([samples, 1, height / samples, width], [height, width], &rows.device());
    rows.mask_fill(dropped, 0.0) * mask.scale()
}

/// Drops out weights of attention, or their gradients, by Burn's operators. They are those of `whole` samples, heads, rows
/// and columns, in this order.
pub(crate) fn drop_weights(weights: Tensor<4>, whole: [usize; 4], mask: &DropoutMask) -> Tensor<4> {
    let dropped = mask.dropped(whole, weights.dims(), &weights.device());
    weights.mask_fill(dropped, 0.0) * mask.scale()
}

#[derive(Clone, Copy, Debug)]
struct Dropout {
    samples: usize,
    mask: DropoutMask,
}

impl Dropout {
    fn apply(&self, rows: FlexTensor) -> FlexTensor {
        let mut rows = contiguous(rows);
        let [height, width] = extent(&rows);
        self.mask.apply(rows.storage_mut::<f32>(), height / self.samples, width);
        rows
    }
}

impl Kernel<1> for Dropout {
    /// Nothing: the mask is drawn again.
    type Kept = ();

    fn forward(&self, [rows]: [FlexTensor; 1]) -> (FlexTensor, ()) {
        (self.apply(rows), ())
    }

    fn backward(&self, (): (), gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(self.apply(gradient))]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SHAPES, assert_equal_to_plain, half_precision_agrees};
    use super::*;

    const MASK: DropoutMask = DropoutMask {
        key: 0x0123_4567_89ab_cdef,
        threshold: 16_384,
        first_sample: 5,
        first_head: 0,
        rows: Every::ONE,
        columns: Every::ONE,
    };

    fn factors(mask: &DropoutMask, [sample, head, row]: [usize; 3], columns: usize) -> Vec<f32> {
        let mut factors = vec![f32::NAN; columns];
        mask.row(sample, head, row, &mut factors);
        factors
    }

    #[test]
    fn dropout_is_that_of_burn_with_the_same_mask() {
        for shape in SHAPES {
            assert_equal_to_plain([shape], |[x]| dropout(x, 1, &MASK), |[x]| dropout_by_burn(x, 1, &MASK));
        }
        half_precision_agrees([[4, 32]], |[x]| dropout(x, 2, &MASK));
    }

    #[test]
    fn the_share_is_dropped_and_the_mean_stays() {
        for share in [0.0, 0.1, 0.5, 0.9] {
            let mask = DropoutMask::new(share, 77, 0);
            let (rows, columns) = (512, 1000);
            let count = f64::from(rows as u32 * columns as u32);
            let (mut kept, mut sum) = (0.0, 0.0);
            for row in 0..rows {
                for factor in factors(&mask, [row % 3, 0, row], columns) {
                    kept += f64::from(u8::from(factor > 0.0));
                    sum += f64::from(factor);
                }
            }
            // Five standard deviations of the binomial distribution, and the rounding of the share to 16 bits.
            let bound = 5.0 * (share * (1.0 - share) / count).sqrt() + 1.0 / NUMBERS;
            assert!((kept / count - (1.0 - share)).abs() <= bound, "{share}: {}", kept / count);
            assert!((sum / count - 1.0).abs() <= 1e-6 + bound / (1.0 - share), "{share}: {}", sum / count);
        }
    }

    #[test]
    fn neighbours_are_dropped_independently() {
        let mask = DropoutMask::new(0.5, 77, 1 << 33);
        let all: Vec<Vec<f32>> = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
            .into_iter()
            .map(|place| factors(&mask, place, 20_000))
            .chain([factors(&DropoutMask { key: 78, ..mask }, [0, 0, 0], 20_000)])
            .collect();
        let agree = |a: &[f32], b: &[f32]| {
            let equal = a.iter().zip(b).filter(|(a, b)| a == b).count();
            (equal as f64 / 10_000.0 - 1.0).abs() < 5.0 / 20_000f64.sqrt()
        };
        for (index, one) in all.iter().enumerate() {
            assert!(agree(one, &one[1..]) && agree(one, &one[8..]) && agree(one, &one[64..]), "{index}");
            assert!(all[..index].iter().all(|other| agree(one, other)), "{index}");
        }
    }

    #[test]
    fn ranks_drop_what_one_rank_drops() {
        let whole = |sample, head, row| factors(&MASK, [sample, head, row], 96);
        // The second of two ranks with heads, and the third of four that have rows and columns.
        let mask = DropoutMask {
            first_head: 3,
            rows: Every { first: 2, step: 4 },
            columns: Every { first: 1, step: 4 },
            ..MASK
        };
        let own = factors(&mask, [1, 2, 5], 24);
        let expected: Vec<f32> = whole(1, 5, 22).into_iter().skip(1).step_by(4).collect();
        assert_eq!(own, expected);
        // The samples of a later micro-batch.
        assert_eq!(factors(&DropoutMask { first_sample: 7, ..MASK }, [0, 0, 4], 96), whole(2, 0, 4));
    }
}
