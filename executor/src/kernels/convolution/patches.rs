//! The pixels under a kernel, gathered a few rows at a time.

use rayon::prelude::*;

/// The windows of an image that results come from: one for each pixel of a result, its corner `stride` pixels from
/// those of its neighbours.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// (height, width) of the result.
    pub(super) result: [usize; 2],
    pub(super) stride: usize,
    /// What is looked at in each window: (down, right) of its corner. May lie outside of the image, where zeros are.
    pub(super) taps: Vec<[isize; 2]>,
}

/// Maps, each with zeros around it, and with pixels that are `stride` apart brought next to each other: then the pixels
/// that one tap sees are neighbours where results are.
pub(super) struct Maps {
    /// (samples, channels, used phases, height, width)
    numbers: Vec<f32>,
    /// (height, width) of a phase: every `stride`th row and column.
    phase: [usize; 2],
    /// Numbers of a channel, and of a sample.
    strides: [usize; 2],
    /// Of each tap, from the start of its channel.
    offsets: Vec<usize>,
    /// (height, width) of the result.
    result: [usize; 2],
}

/// Where the phases of a map lie.
struct Layout {
    /// Zeros before the first row, and before the first column.
    before: [isize; 2],
    phase: [usize; 2],
    stride: usize,
    /// Of each phase, (row, column): which of those stored it is, if any tap needs it.
    places: Vec<Option<usize>>,
    offsets: Vec<usize>,
}

impl Layout {
    fn of(windows: &Windows) -> Self {
        let stride = windows.stride;
        let before = [0, 1].map(|axis| windows.taps.iter().map(|tap| -tap[axis]).max().unwrap_or(0).max(0));
        let shifted = |tap: &[isize; 2]| [0, 1].map(|axis| (tap[axis] + before[axis]) as usize);
        let reach = |axis: usize| windows.taps.iter().map(|tap| shifted(tap)[axis] / stride).max().unwrap_or(0);
        let phase = [windows.result[0] + reach(0), windows.result[1] + reach(1)];
        let mut places = vec![None; stride * stride];
        let mut used = 0;
        let offsets = windows.taps.iter().map(|tap| {
            let [row, column] = shifted(tap);
            let place = *places[row % stride * stride + column % stride].get_or_insert_with(|| {
                used += 1;
                used - 1
            });
            (place * phase[0] + row / stride) * phase[1] + column / stride
        });
        let offsets = offsets.collect();
        Self { before, phase, stride, places, offsets }
    }

    /// Returns the numbers of a channel.
    fn channel(&self) -> usize {
        self.places.iter().flatten().count() * self.phase[0] * self.phase[1]
    }

    /// Copies a map, (height, width), to where all is zero.
    fn fill(&self, map: &[f32], [height, width]: [usize; 2], to: &mut [f32]) {
        let ([down, right], stride) = (self.before.map(|zeros| zeros as usize), self.stride);
        for (row, from) in map.chunks_exact(width).enumerate().take(height) {
            let at = row + down;
            if at / stride >= self.phase[0] {
                break;
            }
            for column_phase in 0..stride {
                let Some(place) = self.places[at % stride * stride + column_phase] else { continue };
                let to = &mut to[(place * self.phase[0] + at / stride) * self.phase[1]..][..self.phase[1]];
                // The first of its columns that is none of the zeros before.
                let first = (right + stride - 1 - column_phase) / stride;
                let start = first * stride + column_phase - right;
                if stride == 1 {
                    let length = width.min(self.phase[1] - first);
                    to[first..first + length].copy_from_slice(&from[..length]);
                } else if first < to.len() && start < width {
                    to[first..].iter_mut().zip(from[start..].iter().step_by(stride)).for_each(|(to, &from)| *to = from);
                }
            }
        }
    }
}

impl Maps {
    /// Lays out the channels from `first` on, `channels` of the `all` that each sample has: (samples, all, size).
    pub(super) fn of(
        images: &[f32],
        all: usize,
        first: usize,
        channels: usize,
        size: [usize; 2],
        by: &Windows,
    ) -> Self {
        let layout = Layout::of(by);
        let (channel, pixels) = (layout.channel(), size[0] * size[1]);
        let samples = images.len() / (all * pixels).max(1);
        let mut numbers = vec![0.0; samples * channels * channel];
        numbers.par_chunks_exact_mut((channels * channel).max(1)).enumerate().for_each(|(sample, to)| {
            let from = &images[(sample * all + first) * pixels..][..channels * pixels];
            for (map, to) in from.chunks_exact(pixels).zip(to.chunks_exact_mut(channel)) {
                layout.fill(map, size, to);
            }
        });
        let Layout { phase, offsets, .. } = layout;
        Self { numbers, phase, strides: [channel, channels * channel], offsets, result: by.result }
    }

    /// Returns where the windows of `pixels` of the results of all samples begin, one for each `run` of them. A row of
    /// the result has whole runs.
    pub(super) fn starts(&self, pixels: std::ops::Range<usize>, run: usize) -> Vec<usize> {
        let [height, width] = self.result;
        let of = |pixel: usize| {
            let (sample, row, column) = (pixel / (height * width), pixel / width % height, pixel % width);
            sample * self.strides[1] + row * self.phase[1] + column
        };
        pixels.step_by(run).map(of).collect()
    }

    /// Returns the number of (channel, tap) pairs of a channel.
    pub(super) fn taps(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the offset of a (channel, tap) pair.
    #[inline(always)]
    pub(super) fn offset(&self, pair: usize) -> usize {
        let taps = self.offsets.len();
        pair / taps * self.strides[0] + self.offsets[pair % taps]
    }

    /// Copies what one (channel, tap) pair sees in windows that begin at `starts`, a run of pixels for each.
    #[inline(always)]
    pub(super) fn gather<const RUN: usize>(&self, starts: &[usize], offset: usize, to: &mut [f32]) {
        let numbers = &self.numbers[offset..];
        let (runs, _) = to.as_chunks_mut::<RUN>();
        for (to, &start) in runs.iter_mut().zip(starts) {
            to.copy_from_slice(&numbers[start..start + RUN]);
        }
    }
}

/// Returns the longest run of pixels that rows of `width` and panels of `panel` consist of.
pub(super) fn run_of(width: usize, panel: usize) -> usize {
    [16, 8, 4, 2].into_iter().find(|run| width.is_multiple_of(*run) && panel.is_multiple_of(*run)).unwrap_or(1)
}

/// Calls a function with the length of runs as its constant.
macro_rules! by_run {
    ($run:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $run {
            16 => $function::<S, 16>($($argument),*),
            8 => $function::<S, 8>($($argument),*),
            4 => $function::<S, 4>($($argument),*),
            2 => $function::<S, 2>($($argument),*),
            _ => $function::<S, 1>($($argument),*),
        }
    };
}
pub(super) use by_run;
