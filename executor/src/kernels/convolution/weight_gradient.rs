//! The gradient of a convolution's weights: sums over all pixels of all samples.

use super::correlation::Sides;
use super::patches::{Maps, Windows, by_run, run_of};
use super::tile::{ROWS, Rows, Target, multiply, panel_width};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// Pixels over which is summed at once: then panels of gradients stay near. It is fixed, so that sums do not depend on
/// threads.
const DEPTH: usize = 256;

/// Sums that a task keeps, at most: they stay in the second cache.
const SUMS: usize = 32_768;

/// Tasks for each thread, so that none waits long for another.
const TASKS: usize = 4;

/// One group of channels of a convolution, from both sides.
pub(super) struct Group<'a> {
    sides: &'a Sides,
    /// (samples, outputs, size), with the channels of all groups.
    gradient: &'a [f32],
    /// The first of the own outputs, and how many there are.
    first: usize,
    outputs: usize,
    maps: Maps,
    /// Pixels of all samples.
    pixels: usize,
    run: usize,
}

/// Returns the gradient of the weights, (outputs, inputs / groups, taps), from that of the result, (samples, outputs,
/// size).
pub(super) fn weight_gradient(windows: &Windows, sides: &Sides, images: &[f32], gradient: &[f32]) -> Vec<f32> {
    let (inputs, outputs) = (sides.inputs / sides.groups, sides.outputs / sides.groups);
    let panel = Arch::new().dispatch(PanelWidth);
    let pairs = inputs * windows.taps.len();
    let mut to = Vec::new();
    for group in 0..sides.groups {
        let maps = Maps::of(images, sides.inputs, group * inputs, inputs, sides.input, windows);
        let pixels = gradient.len() / sides.outputs;
        let run = run_of(windows.result[1], panel);
        let group = Group { sides, gradient, first: group * outputs, outputs, maps, pixels, run };
        // What is turned around in memory, so that it lies across vectors: gradients and the result, or patches, which are
        // gathered before and so touched twice.
        let own = if outputs * (pixels + pairs) <= 2 * pairs * pixels {
            group.outputs_across(pairs, panel)
        } else {
            group.pairs_across(pairs, panel)
        };
        if sides.groups == 1 {
            return own;
        }
        to.extend_from_slice(&own);
    }
    to
}

struct PanelWidth;

impl WithSimd for PanelWidth {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        panel_width::<S>()
    }
}

impl Group<'_> {
    /// Returns the gradients of `outputs` over a block of pixels, row by row.
    fn gradient_rows(&self, outputs: Range<usize>, block: Range<usize>, to: &mut [f32]) {
        let size = self.sides.output[0] * self.sides.output[1];
        for (output, to) in outputs.zip(to.chunks_exact_mut(block.len())) {
            let mut pixel = block.start;
            let mut rest = to;
            while !rest.is_empty() {
                let length = (size - pixel % size).min(rest.len());
                let (to, after) = rest.split_at_mut(length);
                let from = (pixel / size * self.sides.outputs + self.first + output) * size + pixel % size;
                to.copy_from_slice(&self.gradient[from..from + length]);
                (pixel, rest) = (pixel + length, after);
            }
        }
    }

    fn blocks(&self) -> Vec<Range<usize>> {
        (0..self.pixels).step_by(DEPTH).map(|start| start..(start + DEPTH).min(self.pixels)).collect()
    }

    /// Sums with outputs side by side in vectors; returns (outputs, pairs).
    fn outputs_across(&self, pairs: usize, panel: usize) -> Vec<f32> {
        let columns = self.outputs.next_multiple_of(panel);
        let blocks = self.blocks();
        let mut panels = vec![0.0; columns * self.pixels];
        panels.par_chunks_mut(columns * DEPTH).zip(&blocks).for_each(|(to, block)| {
            let depth = block.len();
            let mut rows = vec![0.0; panel * depth];
            for (at, to) in to.chunks_exact_mut(panel * depth).enumerate() {
                let outputs = at * panel..((at + 1) * panel).min(self.outputs);
                let rows = &mut rows[..outputs.len() * depth];
                self.gradient_rows(outputs, block.clone(), rows);
                turn(rows, depth, panel, to);
            }
        });
        let share = pairs.div_ceil(TASKS * rayon::current_num_threads()).min(SUMS / columns);
        let share = share.max(1).next_multiple_of(ROWS);
        let tasks: Vec<Range<usize>> =
            (0..pairs).step_by(share).map(|start| start..(start + share).min(pairs)).collect();
        let sums: Vec<Vec<f32>> = tasks
            .into_par_iter()
            .map(|pairs| {
                let mut sums = vec![0.0; pairs.len() * columns];
                Arch::new().dispatch(PatchRows {
                    group: self,
                    blocks: &blocks,
                    panels: &panels,
                    pairs,
                    sums: &mut sums,
                });
                sums
            })
            .collect();
        let mut to = vec![0.0; self.outputs * pairs];
        to.par_chunks_mut(panel * pairs).enumerate().for_each(|(at, to)| {
            for (sums, first) in sums.iter().zip((0..pairs).step_by(share)) {
                for (pair, sums) in sums.chunks_exact(columns).enumerate() {
                    let to = to[first + pair..].iter_mut().step_by(pairs);
                    to.zip(&sums[at * panel..]).for_each(|(to, &sum)| *to = sum);
                }
            }
        });
        to
    }

    /// Sums with (channel, tap) pairs side by side in vectors; returns (outputs, pairs).
    fn pairs_across(&self, pairs: usize, panel: usize) -> Vec<f32> {
        let columns = pairs.next_multiple_of(panel);
        let blocks = self.blocks();
        let mut to = vec![0.0; self.outputs * pairs];
        let share = self.outputs.div_ceil(TASKS * rayon::current_num_threads()).next_multiple_of(ROWS);
        for block in &blocks {
            let depth = block.len();
            let mut panels = vec![0.0; columns * depth];
            panels.par_chunks_mut(panel * depth).enumerate().for_each(|(at, to)| {
                let pairs = at * panel..((at + 1) * panel).min(pairs);
                Arch::new().dispatch(PatchPanel { group: self, pairs, block: block.clone(), to });
            });
            to.par_chunks_mut(share * pairs).enumerate().for_each(|(at, to)| {
                let outputs = at * share..((at + 1) * share).min(self.outputs);
                let mut rows = vec![0.0; outputs.len() * depth];
                self.gradient_rows(outputs, block.clone(), &mut rows);
                let add = block.start > 0;
                Arch::new().dispatch(GradientRows { rows: &rows, depth, panels: &panels, pairs, add, to });
            });
        }
        to
    }
}

/// Writes rows of `depth` numbers as columns of a panel.
#[inline(always)]
fn turn(rows: &[f32], depth: usize, panel: usize, to: &mut [f32]) {
    for (column, row) in rows.chunks_exact(depth).enumerate() {
        to[column..].iter_mut().step_by(panel).zip(row).for_each(|(to, &number)| *to = number);
    }
}

/// Multiplies patches of some (channel, tap) pairs by panels of gradients, block after block of pixels.
struct PatchRows<'a> {
    group: &'a Group<'a>,
    blocks: &'a [Range<usize>],
    panels: &'a [f32],
    pairs: Range<usize>,
    /// (pairs, columns)
    sums: &'a mut [f32],
}

impl WithSimd for PatchRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_run!(self.group.run, multiply_patches(simd, self));
    }
}

#[inline(always)]
fn multiply_patches<S: Simd, const RUN: usize>(simd: S, task: PatchRows<'_>) {
    let PatchRows { group, blocks, panels, pairs, sums } = task;
    let columns = sums.len() / pairs.len();
    let mut rows = [0.0; ROWS * DEPTH];
    for (block, panels) in blocks.iter().zip(panels.chunks(columns * DEPTH)) {
        let starts = group.maps.starts(block.clone(), RUN);
        let depth = block.len();
        for (strip, sums) in sums.chunks_mut(ROWS * columns).enumerate() {
            let count = sums.len() / columns;
            for (row, to) in rows.chunks_exact_mut(depth).take(count).enumerate() {
                group.maps.gather::<RUN>(&starts, group.maps.offset(pairs.start + strip * ROWS + row), to);
            }
            let left = Rows { numbers: &rows, count, stride: depth };
            let to = Target { numbers: sums, columns, stride: columns, add: block.start > 0 };
            multiply(simd, left, panels, depth, to);
        }
    }
}

/// Gathers a panel of (channel, tap) pairs over a block of pixels.
struct PatchPanel<'a> {
    group: &'a Group<'a>,
    pairs: Range<usize>,
    block: Range<usize>,
    to: &'a mut [f32],
}

impl WithSimd for PatchPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        by_run!(self.group.run, gather_panel(self));
    }
}

#[inline(always)]
fn gather_panel<S: Simd, const RUN: usize>(task: PatchPanel<'_>) {
    let PatchPanel { group, pairs, block, to } = task;
    let depth = block.len();
    let starts = group.maps.starts(block, RUN);
    let mut rows = vec![0.0; pairs.len() * depth];
    for (pair, row) in pairs.zip(rows.chunks_exact_mut(depth)) {
        group.maps.gather::<RUN>(&starts, group.maps.offset(pair), row);
    }
    turn(&rows, depth, panel_width::<S>(), to);
}

/// Multiplies gradients of some outputs by panels of patches.
struct GradientRows<'a> {
    rows: &'a [f32],
    depth: usize,
    panels: &'a [f32],
    /// Columns of the result.
    pairs: usize,
    add: bool,
    to: &'a mut [f32],
}

/// Panels that all rows of a task are multiplied by before the next ones.
const PANELS: usize = 4;

impl WithSimd for GradientRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, depth, panels, pairs, add, to } = self;
        let width = PANELS * panel_width::<S>();
        let left = Rows { numbers: rows, count: rows.len() / depth, stride: depth };
        for (at, panels) in panels.chunks(width * depth).enumerate() {
            let columns = width.min(pairs - at * width);
            let to = Target { numbers: &mut to[at * width..], columns, stride: pairs, add };
            multiply(simd, left, panels, depth, to);
        }
    }
}
