//! Sums over windows of maps: what a convolution computes, and what the gradient of its input is made of.

use super::patches::{Maps, Windows, by_run, run_of};
use super::tile::{Rows, Target, multiply, panel_width};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// Numbers of a row that are multiplied at once: then a panel of patches stays in the first cache. It is fixed, so that
/// sums do not depend on threads.
const DEPTH: usize = 256;

/// Panels that are gathered at once: with them a strip of weights is read once for many pixels.
const PANELS: usize = 8;

/// Results of a task, at least: below, its weights are read for too few of them.
const PIXELS_MIN: usize = 64;

/// One sum over windows for each channel of a result.
#[derive(Clone, Debug)]
pub(super) struct Correlation<'a> {
    pub(super) windows: Windows,
    /// (result channels, input channels / groups, taps)
    pub(super) weights: &'a [f32],
    pub(super) placement: Placement,
}

/// Where the results lie in the maps that are written: every `step`th pixel from `first` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) first: [usize; 2],
    pub(super) step: usize,
}

/// Channels and sizes on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// Channels of the maps that are read, and (height, width) of each.
    pub(super) inputs: usize,
    pub(super) input: [usize; 2],
    /// Channels of the maps that are written, and (height, width) of each.
    pub(super) outputs: usize,
    pub(super) output: [usize; 2],
    /// Groups into which the channels of both fall.
    pub(super) groups: usize,
}

impl Sides {
    fn numbers_in(&self) -> usize {
        self.inputs * self.input[0] * self.input[1]
    }

    fn pixels_out(&self) -> usize {
        self.output[0] * self.output[1]
    }
}

/// Computes correlations of images, (samples, inputs, size), to where zeros are: (samples, outputs, size).
pub(super) fn correlate(all: &[Correlation<'_>], sides: &Sides, images: &[f32], to: &mut [f32]) {
    let sample = (sides.outputs * sides.pixels_out()).max(1);
    let (samples, threads) = (to.len() / sample, rayon::current_num_threads());
    if samples == 0 || images.is_empty() {
        return;
    }
    let results = all.iter().map(|one| one.windows.result[0] * one.windows.result[1]).max().unwrap_or(0).max(1);
    let group = PIXELS_MIN.div_ceil(results).clamp(1, samples.div_ceil(threads));
    let tasks = samples.div_ceil(group);
    let parts = if tasks < threads && sides.groups == 1 { threads.div_ceil(tasks) } else { 1 };
    if parts == 1 {
        let images = images.par_chunks(group * sides.numbers_in());
        to.par_chunks_mut(group * sample).zip(images).for_each(|(to, images)| {
            Arch::new().dispatch(Task { all, sides, images, channels: 0..sides.outputs / sides.groups, to });
        });
        return;
    }
    let channels = sides.outputs.div_ceil(parts);
    let images = images.par_chunks(sides.numbers_in());
    to.par_chunks_mut(sample).zip(images).for_each(|(to, images)| {
        to.par_chunks_mut(channels * sides.pixels_out()).enumerate().for_each(|(part, to)| {
            let end = (part + 1) * channels;
            let channels = part * channels..end.min(sides.outputs);
            Arch::new().dispatch(Task { all, sides, images, channels, to });
        });
    });
}

/// Some samples, and some of the channels of the results of each group, on one thread.
struct Task<'a, 'b> {
    all: &'a [Correlation<'a>],
    sides: &'a Sides,
    images: &'b [f32],
    channels: Range<usize>,
    to: &'b mut [f32],
}

impl WithSimd for Task<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { all, sides, images, channels, to } = self;
        let count = channels.len();
        for one in all.iter().filter(|one| !one.windows.taps.is_empty()) {
            for group in 0..sides.groups {
                let inputs = sides.inputs / sides.groups;
                let maps = Maps::of(images, sides.inputs, group * inputs, inputs, sides.input, &one.windows);
                let depth = inputs * maps.taps();
                let row = group * (sides.outputs / sides.groups) + channels.start;
                let weights = Rows { numbers: &one.weights[row * depth..], count, stride: depth };
                let place = Place { channels: sides.groups * count, first: group * count, size: sides.output };
                let panel = panel_width::<S>();
                let run = run_of(one.windows.result[1], panel);
                by_run!(run, group_of_channels(simd, one, &maps, weights, place, to));
            }
        }
    }
}

/// Where some channels lie in what a task writes.
#[derive(Clone, Copy)]
struct Place {
    /// Of a sample.
    channels: usize,
    first: usize,
    /// (height, width)
    size: [usize; 2],
}

#[inline(always)]
fn group_of_channels<S: Simd, const RUN: usize>(
    simd: S,
    one: &Correlation<'_>,
    maps: &Maps,
    weights: Rows<'_>,
    place: Place,
    to: &mut [f32],
) {
    let [height, width] = one.windows.result;
    let samples = to.len() / (place.channels * place.size[0] * place.size[1]);
    let (pixels, panel) = (samples * height * width, panel_width::<S>());
    let at_once = PANELS * panel;
    let pairs = (DEPTH / maps.taps()).max(1) * maps.taps();
    let mut panels = vec![0.0; pairs.min(weights.stride) * at_once.min(pixels.next_multiple_of(panel))];
    let mut sums = vec![0.0; weights.count * at_once];
    for start in (0..pixels).step_by(at_once) {
        let block = start..(start + at_once).min(pixels);
        let starts = maps.starts(block.clone(), RUN);
        for first in (0..weights.stride).step_by(pairs) {
            let depth = pairs.min(weights.stride - first);
            let panels = &mut panels[..depth * block.len().next_multiple_of(panel)];
            gather_panels::<RUN>(maps, &starts, first, panel, depth, panels);
            let weights = Rows { numbers: &weights.numbers[first..], ..weights };
            let to = Target { numbers: &mut sums, columns: block.len(), stride: at_once, add: first > 0 };
            multiply(simd, weights, panels, depth, to);
        }
        for piece in pieces(one, place, block.clone()) {
            for channel in 0..weights.count {
                let sums = &sums[channel * at_once + piece.from..][..piece.length];
                let to = &mut to[channel * place.size[0] * place.size[1] + piece.to..];
                if piece.step == 1 {
                    to[..piece.length].copy_from_slice(sums);
                } else {
                    to.iter_mut().step_by(piece.step).zip(sums).for_each(|(to, &sum)| *to = sum);
                }
            }
        }
    }
}

/// Gathers `depth` (channel, tap) pairs from `first` on, for panels of pixels whose runs begin at `starts`.
#[inline(always)]
fn gather_panels<const RUN: usize>(
    maps: &Maps,
    starts: &[usize],
    first: usize,
    panel: usize,
    depth: usize,
    to: &mut [f32],
) {
    for (starts, to) in starts.chunks(panel / RUN).zip(to.chunks_exact_mut(depth * panel)) {
        for (pair, to) in to.chunks_exact_mut(panel).enumerate() {
            maps.gather::<RUN>(starts, maps.offset(first + pair), to);
        }
    }
}

/// Results that lie at equal distances.
struct Piece {
    /// The first one's place in a block.
    from: usize,
    length: usize,
    /// Its place in the first of the channels that are written, and the distance.
    to: usize,
    step: usize,
}

/// Returns the pieces that a block of pixels falls into.
fn pieces(one: &Correlation<'_>, place: Place, block: Range<usize>) -> Vec<Piece> {
    let ([height, width], Placement { first, step }) = (one.windows.result, one.placement);
    // Where results fill a map, what lies in a row of its own is the whole map.
    let whole = step == 1 && place.size == [height, width];
    let row = if whole { height * width } else { width };
    let mut pieces = Vec::new();
    let mut pixel = block.start;
    while pixel < block.end {
        let length = (row - pixel % row).min(block.end - pixel);
        let (sample, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
        let channel = sample * place.channels + place.first;
        let to = (channel * place.size[0] + y * step + first[0]) * place.size[1] + x * step + first[1];
        pieces.push(Piece { from: pixel - block.start, length, to, step });
        pixel += length;
    }
    pieces
}
