//! Convolutions of images.
//!
//! They are products of matrices: weights, (outputs, inputs × kernel), by patches, (inputs × kernel, pixels), as
//! Chellapilla et al. (High Performance Convolutional Neural Networks for Document Processing, 2006, section 4) have it.
//! Patches are gathered in panels of a few pixels while they are multiplied, and never lie in memory as a whole.

mod correlation;
mod patches;
mod shape;
#[cfg(test)]
mod tests;
mod tile;
mod weight_gradient;

use self::shape::Shape;
use super::operation::{Kernel, Saves, apply, contiguous, from_numbers, is_on_host};
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;

/// How a kernel goes over images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides {
    /// Pixels between neighbouring windows.
    pub(crate) stride: usize,
    /// Zeros on each side of an image.
    pub(crate) padding: usize,
    /// Groups of channels that are convolved apart.
    pub(crate) groups: usize,
}

/// Convolves images, (samples, inputs, height, width), with a weight, (outputs, inputs / groups, height, width).
pub(crate) fn convolution(images: Tensor<4>, weight: Tensor<4>, by: Strides) -> Tensor<4> {
    #[cfg(feature = "gpu")]
    if !super::lies_on_host(&images) {
        return super::gpu::convolution(images, weight, by);
    }
    if !is_on_host(&images) {
        let options = ConvOptions::new([by.stride; 2], [by.padding; 2], [1; 2], by.groups);
        return conv2d(images, weight, None, options);
    }
    let [_, inputs, height, width] = images.dims();
    let [outputs, _, rows, columns] = weight.dims();
    let Strides { stride, padding, groups } = by;
    let shape = Shape { inputs, outputs, input: [height, width], kernel: [rows, columns], stride, padding, groups };
    Tensor::from_dispatch(apply(Convolution(shape), [images.into_dispatch(), weight.into_dispatch()]))
}

#[derive(Clone, Copy, Debug)]
struct Convolution(Shape);

impl Kernel<2> for Convolution {
    /// The operands.
    type Kept = [FlexTensor; 2];

    fn saved([images, _]: &mut Self::Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(images, Saves::Operand(0))]
    }

    const WEIGHTS: &'static [usize] = &[1];

    fn weights([_, weight]: &mut Self::Kept) -> Vec<&mut FlexTensor> {
        vec![weight]
    }

    fn forward(&self, operands: [FlexTensor; 2]) -> (FlexTensor, Self::Kept) {
        let [images, weight] = operands.map(contiguous);
        let [height, width] = self.0.output();
        let numbers = self.0.forward(images.storage(), weight.storage());
        let samples = images.layout().shape()[0];
        (from_numbers(numbers, [samples, self.0.outputs, height, width]), [images, weight])
    }

    fn backward(&self, kept: Self::Kept, gradient: FlexTensor, wanted: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let ([images, weight], gradient) = (kept.map(contiguous), contiguous(gradient));
        let to_images = wanted[0].then(|| self.0.input_gradient(weight.storage(), gradient.storage()));
        let to_weight = wanted[1].then(|| self.0.weight_gradient(images.storage(), gradient.storage()));
        let like = |numbers, tensor: &FlexTensor| {
            let shape = tensor.layout().shape();
            from_numbers(numbers, [shape[0], shape[1], shape[2], shape[3]])
        };
        [to_images.map(|numbers| like(numbers, &images)), to_weight.map(|numbers| like(numbers, &weight))]
    }
}
