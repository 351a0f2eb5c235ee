//! Products of rows with panels of columns, by tiles of a result that stay in registers.
//!
//! Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008, sections 4 and 6, with the
//! left operand as it lies in memory: only its own numbers, one after another, are read of each row.

use pulp::Simd;

/// Rows of a tile: with two vectors each, twelve sums, a factor, and the vectors that it multiplies fit in the sixteen
/// registers of AVX2.
pub(super) const ROWS: usize = 6;

/// Vectors side by side in a row of a tile.
const VECTORS: usize = 2;

/// Returns the columns of a panel.
#[inline(always)]
pub(super) fn panel_width<S: Simd>() -> usize {
    VECTORS * S::F32_LANES
}

/// Rows of a matrix, each of which lies in one piece.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    /// From the first number on.
    pub(super) numbers: &'a [f32],
    pub(super) count: usize,
    /// Between the first numbers of two rows.
    pub(super) stride: usize,
}

/// Where a product goes: `columns` numbers of each row.
pub(super) struct Target<'a> {
    /// From the first number on.
    pub(super) numbers: &'a mut [f32],
    pub(super) columns: usize,
    /// Between the first numbers of two rows.
    pub(super) stride: usize,
    /// `true` to add to what is there.
    pub(super) add: bool,
}

/// Multiplies rows of `depth` numbers by panels: for each panel width of columns one after another, (depth, panel
/// width). The last panel may have more columns than the target.
///
/// Each number of the result is the sum over the depth in order, whatever the shape around it.
#[inline(always)]
pub(super) fn multiply<S: Simd>(simd: S, left: Rows<'_>, panels: &[f32], depth: usize, mut to: Target<'_>) {
    let mut row = 0;
    while row < left.count {
        let rows = strip(left.count - row);
        match rows {
            1 => strip_product::<S, 1>(simd, left, row, panels, depth, &mut to),
            2 => strip_product::<S, 2>(simd, left, row, panels, depth, &mut to),
            3 => strip_product::<S, 3>(simd, left, row, panels, depth, &mut to),
            4 => strip_product::<S, 4>(simd, left, row, panels, depth, &mut to),
            5 => strip_product::<S, 5>(simd, left, row, panels, depth, &mut to),
            _ => strip_product::<S, ROWS>(simd, left, row, panels, depth, &mut to),
        }
        row += rows;
    }
}

/// Returns the rows of the next tile where `left` are left. Tiles of one or two rows wait for their own sums, so the
/// last ones are of like height.
fn strip(left: usize) -> usize {
    match left {
        7 | 8 => 4,
        _ => left.min(ROWS),
    }
}

#[inline(always)]
fn strip_product<S: Simd, const M: usize>(
    simd: S,
    left: Rows<'_>,
    row: usize,
    panels: &[f32],
    depth: usize,
    to: &mut Target<'_>,
) {
    let rows: [&[f32]; M] = std::array::from_fn(|m| &left.numbers[(row + m) * left.stride..][..depth]);
    let width = panel_width::<S>();
    let mut column = 0;
    for panel in panels.chunks_exact(depth * width) {
        let sums = tile::<S, M>(simd, rows, panel);
        let columns = width.min(to.columns - column);
        for (m, sums) in sums.into_iter().enumerate() {
            let at = (row + m) * to.stride + column;
            store(simd, sums, &mut to.numbers[at..at + columns], to.add);
        }
        column += columns;
    }
}

/// Multiplies a few rows by a panel.
#[inline(always)]
fn tile<S: Simd, const M: usize>(simd: S, rows: [&[f32]; M], panel: &[f32]) -> [[S::f32s; VECTORS]; M] {
    let (vectors, _) = S::as_simd_f32s(panel);
    let (columns, _) = vectors.as_chunks::<VECTORS>();
    let rows = rows.map(|row| &row[..columns.len()]);
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; M];
    for (k, [first, second]) in columns.iter().enumerate() {
        for m in 0..M {
            let factor = simd.splat_f32s(rows[m][k]);
            sums[m][0] = simd.mul_add_f32s(factor, *first, sums[m][0]);
            sums[m][1] = simd.mul_add_f32s(factor, *second, sums[m][1]);
        }
    }
    sums
}

/// Stores a row of a tile, or as much of it as there is room for.
#[inline(always)]
fn store<S: Simd>(simd: S, sums: [S::f32s; VECTORS], to: &mut [f32], add: bool) {
    if to.len() == panel_width::<S>() {
        let (vectors, _) = S::as_mut_simd_f32s(to);
        for (to, sum) in vectors.iter_mut().zip(sums) {
            *to = if add { simd.add_f32s(*to, sum) } else { sum };
        }
        return;
    }
    for (to, sum) in to.chunks_mut(S::F32_LANES).zip(sums) {
        let sum = if add { simd.add_f32s(simd.partial_load_f32s(to), sum) } else { sum };
        simd.partial_store_f32s(to, sum);
    }
}
