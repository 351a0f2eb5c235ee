//! Matrix products straight into the memory that keeps them.
//!
//! Burn's own product fills its result with zeros, copies that to where it is aligned, and then writes the result over
//! it. Here the result is written once, over a bias, or added to what is there.
//!
//! The products themselves are those of the crate gemm, as Burn's are, but for bf16 on processors that multiply it.
//! Gemm's one function takes addresses, so this is the only place where this crate is trusted with them.

#![allow(unsafe_code, reason = "the crate gemm takes addresses; every call is preceded by the checks that it asks for")]

use super::halves;
use super::operation::{cast, extent, from_halves, from_numbers};
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, FloatDType};
use half::bf16;

/// Multiplications from which threads share the work: below, handing it out takes longer.
pub(super) const SHARED_FROM: usize = 192 * 192 * 192;

/// Rows of a result that are computed together: gemm copies what they come from, up to 512 numbers of each row, into a buffer.
const ROWS_AT_ONCE: usize = 8192;

/// Numbers as a matrix, whatever their order in memory.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, T = f32> {
    /// From the first element on.
    pub(super) numbers: &'a [T],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Between an element and the next one of its column, and of its row.
    pub(super) strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// A tensor of two dimensions, in single precision.
    fn of(tensor: &'a FlexTensor) -> Self {
        Self::within(tensor, tensor.storage())
    }
}

impl<'a> Matrix<'a, bf16> {
    /// A tensor of two dimensions, in bf16.
    fn of_halves(tensor: &'a FlexTensor) -> Self {
        Self::within(tensor, tensor.storage())
    }
}

impl<'a, T> Matrix<'a, T> {
    /// A tensor of two dimensions with these numbers.
    ///
    /// # Panics
    ///
    /// When its elements lie outside its memory or are counted backwards, which nothing here makes.
    fn within(tensor: &FlexTensor, stored: &'a [T]) -> Self {
        let [rows, columns] = extent(tensor);
        let layout = tensor.layout();
        let strides = [0, 1].map(|at| usize::try_from(layout.strides()[at]).expect("elements are counted forwards"));
        let numbers = &stored[layout.start_offset()..];
        let matrix = Self { numbers, rows, columns, strides };
        assert!(rows * columns == 0 || matrix.last() < numbers.len(), "a matrix lies within its memory");
        matrix
    }

    /// Returns the offset of the last element.
    fn last(&self) -> usize {
        (self.rows - 1) * self.strides[0] + (self.columns - 1) * self.strides[1]
    }

    fn stride(&self, dimension: usize) -> isize {
        isize::try_from(self.strides[dimension]).expect("strides come from a tensor")
    }

    /// Returns some of its rows.
    fn some_rows(self, first: usize, rows: usize) -> Self {
        Self { numbers: &self.numbers[first * self.strides[0]..], rows, ..self }
    }

    /// Returns the same numbers with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        let ([down, along], Self { numbers, rows, columns, .. }) = (self.strides, self);
        Self { numbers, rows: columns, columns: rows, strides: [along, down] }
    }
}

/// Computes left · right: (rows, inner) · (inner, columns), in bf16 if both are.
pub(super) fn product(left: &FlexTensor, right: &FlexTensor) -> FlexTensor {
    let [rows, columns] = outer(left, right);
    if are_halves(left, right) {
        return product_of_halves(left, right, vec![0.0; rows * columns]);
    }
    let mut numbers = Vec::with_capacity(rows * columns);
    if columns_of(left) == 0 {
        numbers.resize(rows * columns, 0.0);
    } else {
        multiply(Matrix::of(left), Matrix::of(right), numbers.spare_capacity_mut().as_mut_ptr().cast(), false);
        // SAFETY: `multiply` has written rows × columns numbers, for which there is room.
        unsafe { numbers.set_len(rows * columns) };
    }
    from_numbers(numbers, [rows, columns])
}

/// Computes left · right + bias, with the bias as (columns), in bf16 if both operands are.
pub(super) fn product_with_bias(left: &FlexTensor, right: &FlexTensor, bias: &[f32]) -> FlexTensor {
    let [rows, columns] = outer(left, right);
    assert_eq!(bias.len(), columns, "a bias has a number for each column");
    let mut numbers = bias.repeat(rows);
    if are_halves(left, right) {
        return product_of_halves(left, right, numbers);
    }
    add_product(left, right, &mut numbers);
    from_numbers(numbers, [rows, columns])
}

/// Adds left · right to numbers that lie row by row.
pub(super) fn add_product(left: &FlexTensor, right: &FlexTensor, to: &mut [f32]) {
    let [rows, columns] = outer(left, right);
    assert_eq!(to.len(), rows * columns, "a sum is of equal shapes");
    multiply(Matrix::of(left), Matrix::of(right), to.as_mut_ptr(), true);
}

fn are_halves(left: &FlexTensor, right: &FlexTensor) -> bool {
    [left, right].iter().all(|operand| operand.dtype() == DType::BF16)
}

/// Adds left · right, both in bf16, to sums in single precision, and rounds what comes out.
fn product_of_halves(left: &FlexTensor, right: &FlexTensor, mut sums: Vec<f32>) -> FlexTensor {
    if halves::are_multiplied_here() {
        halves::add_product(Matrix::of_halves(left), Matrix::of_halves(right), &mut sums);
    } else {
        add_widened(left, right, &mut sums);
    }
    from_halves(halves::rounded(&sums), outer(left, right))
}

/// Adds left · right, both in bf16, by products in single precision.
fn add_widened(left: &FlexTensor, right: &FlexTensor, sums: &mut [f32]) {
    let [left, right] = [left, right].map(|operand| cast(operand.clone(), FloatDType::F32));
    add_product(&left, &right, sums);
}

fn columns_of(tensor: &FlexTensor) -> usize {
    extent(tensor)[1]
}

/// Returns (rows, columns) of a product.
fn outer(left: &FlexTensor, right: &FlexTensor) -> [usize; 2] {
    let ([rows, inner], [inner_right, columns]) = (extent(left), extent(right));
    assert_eq!(inner, inner_right, "inner dimensions of a product are equal");
    [rows, columns]
}

/// Writes left · right to rows × columns numbers, row by row, or adds it to them. Every caller has room for as many
/// at `to`, which nobody else reads or writes meanwhile.
fn multiply(left: Matrix<'_>, right: Matrix<'_>, to: *mut f32, add: bool) {
    if left.rows * left.columns * right.columns == 0 {
        return;
    }
    for first in (0..left.rows).step_by(ROWS_AT_ONCE) {
        let rows = ROWS_AT_ONCE.min(left.rows - first);
        // SAFETY: there is room for all rows, and so for those behind the first ones.
        let to = unsafe { to.add(first * right.columns) };
        multiply_at_once(left.some_rows(first, rows), right, to, add);
    }
}

/// What [`multiply`] does, of rows that are computed together; there is something to compute.
fn multiply_at_once(left: Matrix<'_>, right: Matrix<'_>, to: *mut f32, add: bool) {
    let (rows, inner, columns) = (left.rows, left.columns, right.columns);
    let parallelism =
        if rows * inner * columns >= SHARED_FROM { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    let row = isize::try_from(columns).expect("a row lies in memory");
    let (from_left, from_right) = (left.numbers.as_ptr(), right.numbers.as_ptr());
    // SAFETY: `Matrix::of` has made sure that all elements of both operands lie within slices that outlive this call;
    // `to` has room for the result by this function's contract and is borrowed by nobody else. All of it is written
    // before it is read unless `add` says that it holds numbers.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            to,
            1,
            row,
            add,
            from_left,
            left.stride(1),
            left.stride(0),
            from_right,
            right.stride(1),
            right.stride(0),
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, numbers};
    use super::*;

    /// Every way in which operands may lie: whole, transposed, cut out.
    fn laid_out(values: &[f32], rows: usize, columns: usize) -> Vec<FlexTensor> {
        let whole = from_numbers(values.to_vec(), [rows, columns]);
        let turned: Vec<f32> =
            (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect();
        let wide: Vec<f32> = values.chunks(columns).flat_map(|row| [&[9.0], row, &[9.0, 9.0]].concat()).collect();
        let framed = [vec![9.0; columns + 3], wide].concat();
        vec![
            whole,
            from_numbers(turned, [columns, rows]).transpose(0, 1),
            from_numbers(framed, [rows + 1, columns + 3]).narrow(0, 1, rows).narrow(1, 1, columns),
        ]
    }

    #[test]
    fn products_are_sums_over_the_inner_dimension() {
        for [rows, inner, columns] in [[1, 1, 1], [3, 5, 2], [17, 33, 9], [192, 193, 200], [ROWS_AT_ONCE + 5, 2, 3]] {
            let (left, right) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
            let start = numbers(rows * columns, 3);
            let expected: Vec<f32> = (0..rows * columns)
                .map(|at| {
                    let (row, column) = (at / columns, at % columns);
                    (0..inner).map(|k| f64::from(left[row * inner + k]) * f64::from(right[k * columns + column])).sum()
                })
                .map(|sum: f64| sum as f32)
                .collect();
            let sums: Vec<f32> = expected.iter().zip(&start).map(|(product, start)| product + start).collect();
            let biased: Vec<f32> =
                expected.iter().enumerate().map(|(at, product)| product + start[at % columns]).collect();
            for left in laid_out(&left, rows, inner) {
                for right in laid_out(&right, inner, columns) {
                    let mut added = start.clone();
                    add_product(&left, &right, &mut added);
                    let plain = product(&left, &right).storage::<f32>().to_vec();
                    let with_bias = product_with_bias(&left, &right, &start[..columns]).storage::<f32>().to_vec();
                    assert_close(
                        &[plain, added, with_bias],
                        &[expected.clone(), sums.clone(), biased.clone()],
                        1e-5,
                        "product",
                    );
                }
            }
        }
    }

    /// A processor that cannot multiply bf16 computes the same.
    #[test]
    fn bf16_is_widened_whatever_its_order_in_memory() {
        let (left, right) = (numbers(7 * 9, 1), numbers(9 * 4, 2));
        let halved = |tensor: FlexTensor| cast(tensor, FloatDType::BF16);
        let whole = |values: &[f32], rows, columns| halved(from_numbers(values.to_vec(), [rows, columns]));
        let exact = |tensor: &FlexTensor| cast(tensor.clone(), FloatDType::F32);
        let (left, right) = (whole(&left, 7, 9), whole(&right, 9, 4));
        let expected = product(&exact(&left), &exact(&right)).storage::<f32>().to_vec();
        let turned = |tensor: &FlexTensor| halved(exact(&tensor.transpose(0, 1)).to_contiguous()).transpose(0, 1);
        for left in [left.clone(), turned(&left)] {
            for right in [right.clone(), turned(&right)] {
                let mut sums = vec![0.0; 7 * 4];
                add_widened(&left, &right, &mut sums);
                let rounded = exact(&product(&left, &right)).storage::<f32>().to_vec();
                assert_close(&[sums], std::slice::from_ref(&expected), 1e-6, "widened");
                assert_close(&[rounded], std::slice::from_ref(&expected), 5e-3, "rounded");
            }
        }
    }

    #[test]
    fn products_over_nothing_are_zero() {
        let (left, right) = (from_numbers(vec![], [2, 0]), from_numbers(vec![], [0, 3]));
        assert_eq!(product(&left, &right).storage::<f32>(), [0.0; 6]);
    }

    #[test]
    #[should_panic(expected = "inner dimensions of a product are equal")]
    fn products_of_other_shapes_are_refused() {
        let _ = product(&from_numbers(vec![0.0; 6], [2, 3]), &from_numbers(vec![0.0; 6], [2, 3]));
    }
}
