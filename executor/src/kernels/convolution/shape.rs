//! What a convolution and its gradients are as sums over windows.

use super::correlation::{Correlation, Placement, Sides, correlate};
use super::patches::Windows;
use super::weight_gradient;
use rayon::prelude::*;

/// Channels, sizes and steps of a convolution, whose padding is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// (height, width) of the images.
    pub(super) input: [usize; 2],
    /// (height, width) of the kernel.
    pub(super) kernel: [usize; 2],
    /// Pixels between neighbouring windows.
    pub(super) stride: usize,
    /// Zeros on each side.
    pub(super) padding: usize,
    /// Groups of channels that are convolved apart.
    pub(super) groups: usize,
}

impl Shape {
    /// Returns (height, width) of the result.
    pub(super) fn output(&self) -> [usize; 2] {
        [0, 1].map(|axis| (self.input[axis] + 2 * self.padding - self.kernel[axis]) / self.stride + 1)
    }

    /// Returns the number of weights: outputs × inputs / groups × kernel.
    #[cfg(test)]
    pub(super) fn weights(&self) -> usize {
        self.outputs * (self.inputs / self.groups) * self.taps()
    }

    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    fn sides(&self) -> Sides {
        let Self { inputs, outputs, input, groups, .. } = *self;
        Sides { inputs, input, outputs, output: self.output(), groups }
    }

    /// The windows under the kernel, for each pixel of the result.
    fn windows(&self) -> Windows {
        let padding = self.padding.cast_signed();
        let rows = 0..self.kernel[0].cast_signed();
        let taps =
            rows.flat_map(|row| (0..self.kernel[1].cast_signed()).map(move |column| [row - padding, column - padding]));
        Windows { result: self.output(), stride: self.stride, taps: taps.collect() }
    }

    /// Computes the result, (samples, outputs, size), of images, (samples, inputs, size).
    pub(super) fn forward(&self, images: &[f32], weights: &[f32]) -> Vec<f32> {
        let sides = self.sides();
        let samples = images.len() / (self.inputs * self.input[0] * self.input[1]);
        let mut to = vec![0.0; samples * self.outputs * sides.output[0] * sides.output[1]];
        let placement = Placement { first: [0; 2], step: 1 };
        correlate(&[Correlation { windows: self.windows(), weights, placement }], &sides, images, &mut to);
        to
    }

    /// Computes the gradient of the weights.
    pub(super) fn weight_gradient(&self, images: &[f32], gradient: &[f32]) -> Vec<f32> {
        weight_gradient::weight_gradient(&self.windows(), &self.sides(), images, gradient)
    }

    /// Computes the gradient of the images from that of the result. Pixels whose places differ by a multiple of the
    /// stride see the result through the same weights, so each such phase is a correlation of its own.
    pub(super) fn input_gradient(&self, weights: &[f32], gradient: &[f32]) -> Vec<f32> {
        let output = self.output();
        let sides = Sides {
            inputs: self.outputs,
            input: output,
            outputs: self.inputs,
            output: self.input,
            groups: self.groups,
        };
        let phases: Vec<Phase> = (0..self.stride.pow(2)).map(|phase| Phase::of(self, phase)).collect();
        let turned: Vec<Vec<f32>> = phases.iter().map(|phase| phase.turned(self, weights)).collect();
        let all: Vec<Correlation<'_>> = phases
            .into_iter()
            .zip(&turned)
            .filter(|(phase, _)| !phase.windows.taps.is_empty() && phase.windows.result.iter().all(|side| *side > 0))
            .map(|(Phase { windows, placement, .. }, weights)| Correlation { windows, weights, placement })
            .collect();
        let samples = gradient.len() / (self.outputs * output[0] * output[1]);
        let mut to = vec![0.0; samples * self.inputs * self.input[0] * self.input[1]];
        correlate(&all, &sides, gradient, &mut to);
        to
    }
}

/// Inputs whose weights are brought together at once.
const INPUTS: usize = 16;

/// The pixels of an image that see the result through the same weights.
struct Phase {
    windows: Windows,
    placement: Placement,
    /// Of each tap, its place in the kernel.
    weights: Vec<usize>,
}

impl Phase {
    fn of(shape: &Shape, phase: usize) -> Self {
        let stride = shape.stride;
        let step = stride.cast_signed();
        let first = [phase / stride, phase % stride];
        let result = [0, 1].map(|axis| (shape.input[axis] + stride - 1 - first[axis]) / stride);
        let (mut taps, mut weights) = (Vec::new(), Vec::new());
        for weight in 0..shape.taps() {
            let at = [weight / shape.kernel[1], weight % shape.kernel[1]];
            let distance = [0, 1].map(|axis| (first[axis] + shape.padding).cast_signed() - at[axis].cast_signed());
            if distance.iter().all(|distance| distance % step == 0) {
                taps.push(distance.map(|distance| distance / step));
                weights.push(weight);
            }
        }
        Self { windows: Windows { result, stride: 1, taps }, placement: Placement { first, step: stride }, weights }
    }

    /// Returns the phase's weights by the channel of the image: (inputs, outputs / groups, taps of the phase).
    fn turned(&self, shape: &Shape, weights: &[f32]) -> Vec<f32> {
        let (inputs, outputs, all) = (shape.inputs / shape.groups, shape.outputs / shape.groups, shape.taps());
        let row = (outputs * self.weights.len()).max(1);
        let mut turned = vec![0.0; shape.inputs * outputs * self.weights.len()];
        // Some inputs at a time, because those of one output lie side by side.
        turned.par_chunks_mut(INPUTS * row).enumerate().for_each(|(block, to)| {
            for output in 0..outputs {
                for (at, to) in to.chunks_exact_mut(row).enumerate() {
                    let input = block * INPUTS + at;
                    let output_of_all = input / inputs * outputs + output;
                    let from = &weights[(output_of_all * inputs + input % inputs) * all..][..all];
                    let to = &mut to[output * self.weights.len()..];
                    to.iter_mut().zip(&self.weights).for_each(|(to, &tap)| *to = from[tap]);
                }
            }
        });
        turned
    }
}
