//! Products of numbers in bf16, by the instructions that some processors have for them: each multiplies pairs of numbers
//! and adds both products to a sum in single precision.
//!
//! Both operands are packed into strips, in which a pair of an inner dimension lies beside that of the next row or column
//! (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008, section 4).

#![allow(unsafe_code, reason = "instructions that not every processor has; they are called where it was asked")]

use super::product::{Matrix, SHARED_FROM};
use super::vector::vectorized;
use half::bf16;
use rayon::prelude::*;

/// Rows and columns of a tile of the result, whose sums stay in registers: 8 rows of two vectors each.
const ROWS: usize = 8;
const COLUMNS: usize = 32;

/// Rows that are packed together, and the most numbers of the inner dimension: 64 KiB, for the second cache.
const BAND: usize = 64;
const DEPTH: usize = 512;

/// Two numbers in bf16, the first in the low half.
type Pair = u32;

/// Returns `true` if this processor multiplies pairs of bf16.
#[cfg(target_arch = "x86_64")]
pub(super) fn are_multiplied_here() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bf16")
}

/// Returns `true` if this processor multiplies pairs of bf16.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn are_multiplied_here() -> bool {
    false
}

/// Adds left · right to sums that lie row by row.
///
/// # Panics
///
/// On a processor without the instructions, see [`are_multiplied_here`].
pub(super) fn add_product(left: Matrix<'_, bf16>, right: Matrix<'_, bf16>, sums: &mut [f32]) {
    assert!(are_multiplied_here(), "bf16 is multiplied by processors that can");
    let (inner, columns) = (left.columns, right.columns);
    let shared = left.rows * inner * columns >= SHARED_FROM;
    for start in (0..inner).step_by(DEPTH) {
        let depth = DEPTH.min(inner - start);
        let pairs = depth.div_ceil(2);
        let mut panels = vec![[0; COLUMNS]; columns.div_ceil(COLUMNS) * pairs];
        chunks(&mut panels, pairs, shared, |panel, to| {
            pack(right.transposed(), panel * COLUMNS, start..start + depth, to);
        });
        chunks(sums, BAND * columns, shared, |band, sums| {
            let rows = sums.len() / columns;
            let mut strips = vec![[0; ROWS]; rows.div_ceil(ROWS) * pairs];
            for (strip, to) in strips.chunks_mut(pairs).enumerate() {
                pack(left, band * BAND + strip * ROWS, start..start + depth, to);
            }
            for (panel, right) in panels.chunks(pairs).enumerate() {
                for (strip, left) in strips.chunks(pairs).enumerate() {
                    add_tile(&tile(left, right), &mut sums[strip * ROWS * columns..], columns, panel * COLUMNS);
                }
            }
        });
    }
}

vectorized! {
    /// Rounds to the nearest number in bf16, to the even one of two; NaN stays one.
    pub(super) fn round(from: &'a [f32], to: &'a mut [bf16]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
            let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
            *to = bf16::from_bits(if is_nan { bits >> 16 | 0x40 } else { rounded } as u16);
        }
    }

    /// Widens to single precision, which is exact.
    pub(super) fn widen(from: &'a [bf16], to: &'a mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    }
}

/// Returns numbers rounded to bf16.
pub(super) fn rounded(numbers: &[f32]) -> Vec<bf16> {
    let mut all = vec![bf16::ZERO; numbers.len()];
    round(numbers, &mut all);
    all
}

/// Returns numbers in single precision.
pub(super) fn widened(numbers: &[bf16]) -> Vec<f32> {
    let mut all = vec![0.0; numbers.len()];
    widen(numbers, &mut all);
    all
}

/// Does something with each chunk and its number, on all threads if they shall share the work.
fn chunks<T: Send>(all: &mut [T], size: usize, shared: bool, each: impl Fn(usize, &mut [T]) + Sync) {
    if shared {
        all.par_chunks_mut(size).enumerate().for_each(|(number, chunk)| each(number, chunk));
    } else {
        all.chunks_mut(size).enumerate().for_each(|(number, chunk)| each(number, chunk));
    }
}

/// Packs as many rows as a strip has, or as are left, along a part of the inner dimension. What is beyond stays zero.
fn pack<const WIDTH: usize>(
    matrix: Matrix<'_, bf16>,
    first: usize,
    inner: std::ops::Range<usize>,
    strip: &mut [[Pair; WIDTH]],
) {
    let [next_row, next] = matrix.strides;
    let rows = WIDTH.min(matrix.rows - first);
    let from = first * next_row + inner.start * next;
    let pair = |low: bf16, high: bf16| Pair::from(low.to_bits()) | Pair::from(high.to_bits()) << 16;
    if next == 1 {
        for row in 0..rows {
            let numbers = &matrix.numbers[from + row * next_row..][..inner.len()];
            let (whole, rest) = numbers.as_chunks::<2>();
            for (to, [low, high]) in strip.iter_mut().zip(whole) {
                to[row] = pair(*low, *high);
            }
            if let ([low], Some(to)) = (rest, strip.last_mut()) {
                to[row] = pair(*low, bf16::ZERO);
            }
        }
        return;
    }
    for (index, to) in strip.iter_mut().enumerate() {
        let at = from + 2 * index * next;
        let has_both = 2 * index + 1 < inner.len();
        for (row, to) in to[..rows].iter_mut().enumerate() {
            let low = matrix.numbers[at + row * next_row];
            let high = if has_both { matrix.numbers[at + next + row * next_row] } else { bf16::ZERO };
            *to = pair(low, high);
        }
    }
}

fn add_tile(tile: &[[f32; COLUMNS]; ROWS], sums: &mut [f32], columns: usize, first: usize) {
    let width = COLUMNS.min(columns - first);
    for (sums, tile) in sums.chunks_mut(columns).zip(tile) {
        for (sum, number) in sums[first..first + width].iter_mut().zip(tile) {
            *sum += number;
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn tile(left: &[[Pair; ROWS]], right: &[[Pair; COLUMNS]]) -> [[f32; COLUMNS]; ROWS] {
    use std::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps, _mm512_set1_epi32, _mm512_setzero_ps};
    use std::mem::transmute;

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn sums(left: &[[Pair; ROWS]], right: &[[Pair; COLUMNS]]) -> [[__m512; 2]; ROWS] {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        for (left, right) in left.iter().zip(right) {
            // SAFETY: vectors are so many pairs, of any bits.
            let [first, second] = unsafe { transmute::<[Pair; COLUMNS], [__m512bh; 2]>(*right) };
            for (sums, pair) in sums.iter_mut().zip(left) {
                // SAFETY: as above.
                let pair: __m512bh = unsafe { transmute(_mm512_set1_epi32(pair.cast_signed())) };
                *sums = [_mm512_dpbf16_ps(sums[0], pair, first), _mm512_dpbf16_ps(sums[1], pair, second)];
            }
        }
        sums
    }

    // SAFETY: callers have asked whether the processor has the instructions; vectors are so many numbers.
    unsafe { transmute(sums(left, right)) }
}

#[cfg(not(target_arch = "x86_64"))]
fn tile(_: &[[Pair; ROWS]], _: &[[Pair; COLUMNS]]) -> [[f32; COLUMNS]; ROWS] {
    unreachable!("callers have asked whether the processor has the instructions")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, numbers};
    use super::*;

    fn matrix(numbers: &[bf16], rows: usize, columns: usize) -> Matrix<'_, bf16> {
        Matrix { numbers, rows, columns, strides: [columns, 1] }
    }

    #[test]
    fn products_are_sums_over_the_inner_dimension() {
        if !are_multiplied_here() {
            return;
        }
        for [rows, inner, columns] in [[1, 1, 1], [3, 5, 2], [8, 2, 32], [17, 33, 9], [65, 513, 33], [192, 700, 200]] {
            let (left, right) = (rounded(&numbers(rows * inner, 1)), rounded(&numbers(inner * columns, 2)));
            let start = numbers(rows * columns, 3);
            let sum = |at: usize| {
                let (row, column) = (at / columns, at % columns);
                let terms = (0..inner).map(|k| left[row * inner + k].to_f64() * right[k * columns + column].to_f64());
                (f64::from(start[at]) + terms.sum::<f64>()) as f32
            };
            let expected: Vec<f32> = (0..rows * columns).map(sum).collect();
            let turned = |numbers: &[bf16], rows: usize, columns: usize| -> Vec<bf16> {
                (0..columns).flat_map(|column| (0..rows).map(move |row| numbers[row * columns + column])).collect()
            };
            let (left_turned, right_turned) = (turned(&left, rows, inner), turned(&right, inner, columns));
            for left in [matrix(&left, rows, inner), matrix(&left_turned, inner, rows).transposed()] {
                for right in [matrix(&right, inner, columns), matrix(&right_turned, columns, inner).transposed()] {
                    let mut sums = start.clone();
                    add_product(left, right, &mut sums);
                    assert_close(&[sums], std::slice::from_ref(&expected), 2e-6, "product of bf16");
                }
            }
        }
    }

    #[test]
    fn rounding_is_that_of_the_crate_half() {
        let edges = [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-42, 3.0e38];
        let ties = (0..256).map(|low| f32::from_bits(0x3F80_0000 | low << 9));
        let all: Vec<f32> = edges.into_iter().chain(ties).chain(numbers(1000, 5)).collect();
        let expected: Vec<bf16> = all.iter().map(|number| bf16::from_f32(*number)).collect();
        assert_eq!(rounded(&all), expected);
        let back: Vec<f32> = expected.iter().map(|number| number.to_f32()).collect();
        assert_eq!(widened(&expected), back);
        assert!(rounded(&[f32::NAN, f32::from_bits(0x7F80_0001)]).iter().all(|number| number.is_nan()));
    }
}
