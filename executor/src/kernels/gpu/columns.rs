//! Sums of the columns of a matrix: gradients of what is the same for all rows.
//!
//! Burn's reduction along the first dimension took 96 µs for 8 192 × 1 024 numbers on an H100, which this does in 28
//! (docs/measurements/2026-11-27-h100.md): some rows are summed at a time, and then those sums, in an order that is always
//! the same.

use super::{addresses, written_as};
use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Neighbouring columns whose threads read together.
const TOGETHER: usize = 256;

/// The fewest rows that are worth a sum of their own, and the most such sums.
const ROWS_MIN: usize = 32;
const PARTS_MAX: usize = 64;

/// How the rows of a matrix are shared out.
#[derive(Clone, Copy)]
pub(super) struct RowsEach {
    /// Rows that one thread sums up.
    pub(super) rows: usize,
    parts: usize,
    columns: usize,
}

impl RowsEach {
    pub(super) fn of(matrix: &CubeTensor) -> Self {
        let shape = matrix.meta.shape();
        let rows = shape[0].div_ceil(PARTS_MAX).max(ROWS_MIN);
        Self { rows, parts: shape[0].div_ceil(rows).max(1), columns: shape[1] }
    }

    /// Returns the shape of the sums: a row of them for each part.
    pub(super) fn parts(self) -> Shape {
        Shape::new([self.parts, self.columns])
    }

    pub(super) fn groups(self) -> CubeCount {
        CubeCount::Static(self.columns.div_ceil(TOGETHER) as u32, self.parts as u32, 1)
    }

    pub(super) fn threads() -> CubeDim {
        CubeDim::new_1d(TOGETHER as u32)
    }
}

/// Returns the sum of each column in a format, (columns), added up in single precision.
pub(super) fn sums(matrix: CubeTensor, format: DType) -> CubeTensor {
    let matrix = into_contiguous(matrix);
    let each = RowsEach::of(&matrix);
    if each.parts > 1 {
        let parts = written_as(&matrix, each.parts(), DType::F32);
        sum_up(&matrix, &parts, each);
        return sums_as(&parts, format);
    }
    sums_as(&matrix, format)
}

/// Returns the sum of each column of a matrix of few rows.
fn sums_as(matrix: &CubeTensor, format: DType) -> CubeTensor {
    let [rows, columns] = [matrix.meta.shape()[0], matrix.meta.shape()[1]];
    let result = written_as(matrix, Shape::new([columns]), format);
    sum_up(matrix, &result, RowsEach { rows, parts: 1, columns });
    result
}

fn sum_up(matrix: &CubeTensor, to: &CubeTensor, each: RowsEach) {
    sums_of_rows::launch(
        &matrix.client.clone(),
        each.groups(),
        RowsEach::threads(),
        addresses([matrix, to]),
        matrix.clone().binding().into_tensor_arg(),
        to.clone().binding().into_tensor_arg(),
        each.rows as u32,
        dtype_to_storage_type(matrix.dtype),
        dtype_to_storage_type(to.dtype),
    );
}

#[cube(launch, address_type = "dynamic")]
fn sums_of_rows<E: Float, F: Float>(
    matrix: &Tensor<E>,
    sums: &mut Tensor<F>,
    rows_each: u32,
    #[define(E)] _format: ElemType,
    #[define(F)] _format_of_sums: ElemType,
) {
    let (rows, width) = (matrix.shape(0), matrix.shape(1));
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    if column >= width {
        terminate!();
    }
    let part = CUBE_POS_Y as usize;
    let first = part * rows_each as usize;
    let end = min(first + rows_each as usize, rows);
    let mut sum = f32::new(0.0_f32);
    for row in first..end {
        sum += f32::cast_from(matrix[row * width + column]);
    }
    sums[part * width + column] = F::cast_from(sum);
}
