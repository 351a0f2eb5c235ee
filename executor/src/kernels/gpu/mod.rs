//! Operators of GPUs that Burn does not have, or has only with a long search for the fastest kernel.
//!
//! Burn chooses among some twenty ways to do a product by timing each, and compiles each for that: 1.5 s a kernel on an
//! H100, minutes before the first step of a small model (docs/measurements/2026-11-27-h100.md). Here the way follows from
//! the shape. Attention's mask and softmax, several kernels of Burn's, are one.

#![allow(
    clippy::used_underscore_binding,
    reason = "what CubeCL makes of a kernel reads the format that only its types name"
)]

mod convolution;
mod product;
mod softmax;

use super::convolution::Strides;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::AddressType;

/// Computes the product of matrices, or of as many pairs of them on both sides.
pub(crate) fn product<const D: usize>(lhs: Tensor<D>, rhs: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as GpuKernels>::product(lhs.into_dispatch(), rhs.into_dispatch()))
}

/// Computes softmax of `scores` along the last dimension, in single precision whatever their format. With
/// `causal`, row i of a matrix sees the first i + 1 scores, and the weights of others are zero.
pub(crate) fn masked_softmax(scores: Tensor<4>, causal: bool) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as GpuKernels>::masked_softmax(scores.into_dispatch(), causal))
}

/// Computes a convolution of images with a weight, both as [`super::convolution()`] takes them.
pub(crate) fn convolution(images: Tensor<4>, weight: Tensor<4>, by: Strides) -> Tensor<4> {
    let apart = images.chunk(by.groups, 1).into_iter().zip(weight.chunk(by.groups, 0));
    let convolved = apart.map(|(images, weight)| {
        let result = <Dispatch as GpuKernels>::convolution(images.into_dispatch(), weight.into_dispatch(), by);
        Tensor::from_dispatch(result)
    });
    let mut groups: Vec<Tensor<4>> = convolved.collect();
    if groups.len() == 1 { groups.remove(0) } else { Tensor::cat(groups, 1) }
}

#[backend_extension(Cube, Fusion, Autodiff)]
pub(crate) trait GpuKernels: Backend {
    #[fusion(dtype = lhs, shape = product_shape(lhs, rhs))]
    fn product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;

    #[fusion(dtype = scores, shape = scores)]
    fn masked_softmax(scores: FloatTensor<Self>, causal: bool) -> FloatTensor<Self>;

    /// Returns the gradient of the scores, from the weights and their gradient.
    #[fusion(dtype = weights, shape = weights)]
    fn masked_softmax_backward(
        weights: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        causal: bool,
    ) -> FloatTensor<Self>;

    #[fusion(dtype = images, shape = convolved(images, weight, *by))]
    fn convolution(images: FloatTensor<Self>, weight: FloatTensor<Self>, by: Strides) -> FloatTensor<Self>;

    /// Returns the gradient of images of this shape.
    #[fusion(dtype = gradient, shape = shape.clone())]
    fn convolution_of_images(
        gradient: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        shape: Shape,
        by: Strides,
    ) -> FloatTensor<Self>;

    /// Returns the gradient of a weight of this shape.
    #[fusion(dtype = gradient, shape = shape.clone())]
    fn convolution_of_weight(
        images: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        shape: Shape,
        by: Strides,
    ) -> FloatTensor<Self>;
}

/// Returns the shape of a product of operands of these shapes.
fn product_shape(lhs: &Shape, rhs: &Shape) -> Shape {
    let mut shape = lhs.clone();
    let last = shape.num_dims() - 1;
    shape[last] = rhs[last];
    shape
}

/// Returns the shape of what convolving images of a shape with a weight of another gives.
fn convolved(images: &Shape, weight: &Shape, by: Strides) -> Shape {
    let side = |at: usize| (images[at] + 2 * by.padding - weight[at]) / by.stride + 1;
    Shape::new([images[0], weight[0], side(2), side(3)])
}

/// Returns a tensor of a shape beside another, in its format, whose numbers are to be written.
fn written(beside: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_contiguous_dtype(beside.client.clone(), beside.device.clone(), shape, beside.dtype)
}

/// Returns the addresses that kernels need for the larger of two tensors.
fn addresses(tensors: [&CubeTensor; 2]) -> AddressType {
    let wanted = |tensor: &CubeTensor| tensor.clone().binding().required_address_type(tensor.dtype.size());
    let [one, other] = tensors.map(wanted);
    one.max(other)
}

impl GpuKernels for CubeBackend {
    fn product(lhs: CubeTensor, rhs: CubeTensor) -> CubeTensor {
        product::product(&lhs, &rhs)
    }

    fn masked_softmax(scores: CubeTensor, causal: bool) -> CubeTensor {
        softmax::weights(scores, causal)
    }

    fn masked_softmax_backward(weights: CubeTensor, gradient: CubeTensor, causal: bool) -> CubeTensor {
        softmax::gradient(weights, gradient, causal)
    }

    fn convolution(images: CubeTensor, weight: CubeTensor, by: Strides) -> CubeTensor {
        let shape = convolved(images.meta.shape(), weight.meta.shape(), by);
        convolution::forward(images, weight, &shape, by)
    }

    fn convolution_of_images(gradient: CubeTensor, weight: CubeTensor, shape: Shape, by: Strides) -> CubeTensor {
        convolution::of_images(gradient, weight, &shape, by)
    }

    fn convolution_of_weight(images: CubeTensor, gradient: CubeTensor, shape: Shape, by: Strides) -> CubeTensor {
        convolution::of_weight(images, gradient, &shape, by)
    }
}

impl<B: GpuKernels, C: CheckpointStrategy> GpuKernels for Autodiff<B, C> {
    fn product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let guards = [lhs.node(), rhs.node()];
        match Backward::<B, 2>::prepare::<C>(Product, guards).compute_bound().stateful() {
            OpsKind::Tracked(mut preparation) => {
                // The gradient of one needs the other.
                let lhs_state = rhs.is_tracked().then(|| preparation.checkpoint(&lhs));
                let rhs_state = lhs.is_tracked().then(|| preparation.checkpoint(&rhs));
                preparation.finish([lhs_state, rhs_state], B::product(lhs.into_primitive(), rhs.into_primitive()))
            }
            OpsKind::UnTracked(preparation) => {
                preparation.finish(B::product(lhs.into_primitive(), rhs.into_primitive()))
            }
        }
    }

    fn masked_softmax(scores: FloatTensor<Self>, causal: bool) -> FloatTensor<Self> {
        let guards = [scores.node()];
        match Backward::<B, 1>::prepare::<C>(MaskedSoftmax { causal }, guards).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let weights = B::masked_softmax(scores.into_primitive(), causal);
                preparation.finish(weights.clone(), weights)
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::masked_softmax(scores.into_primitive(), causal)),
        }
    }

    fn masked_softmax_backward(_: FloatTensor<Self>, _: FloatTensor<Self>, _: bool) -> FloatTensor<Self> {
        unreachable!("gradients are not differentiated")
    }

    fn convolution(images: FloatTensor<Self>, weight: FloatTensor<Self>, by: Strides) -> FloatTensor<Self> {
        let (guards, shapes) = ([images.node(), weight.node()], [images.shape(), weight.shape()]);
        match Backward::<B, 2>::prepare::<C>(Convolution { by, shapes }, guards).compute_bound().stateful() {
            OpsKind::Tracked(mut preparation) => {
                let state = [preparation.checkpoint(&images), preparation.checkpoint(&weight)];
                preparation.finish(state, B::convolution(images.into_primitive(), weight.into_primitive(), by))
            }
            OpsKind::UnTracked(preparation) => {
                preparation.finish(B::convolution(images.into_primitive(), weight.into_primitive(), by))
            }
        }
    }

    fn convolution_of_images(_: FloatTensor<Self>, _: FloatTensor<Self>, _: Shape, _: Strides) -> FloatTensor<Self> {
        unreachable!("gradients are not differentiated")
    }

    fn convolution_of_weight(_: FloatTensor<Self>, _: FloatTensor<Self>, _: Shape, _: Strides) -> FloatTensor<Self> {
        unreachable!("gradients are not differentiated")
    }
}

#[derive(Debug)]
struct Product;

impl<B: GpuKernels> Backward<B, 2> for Product {
    /// Where Burn saves the operands, as far as they are needed.
    type State = [Option<NodeId>; 2];

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [lhs, rhs] =
            ops.state.map(|saved| saved.map(|node| checkpointer.retrieve_node_output::<FloatTensor<B>>(node)));
        let [to_lhs, to_rhs] = ops.parents;
        if let (Some(parent), Some(rhs)) = (to_lhs, rhs) {
            gradients.register::<B>(parent.id, B::product(gradient.clone(), B::float_transpose(rhs)));
        }
        if let (Some(parent), Some(lhs)) = (to_rhs, lhs) {
            gradients.register::<B>(parent.id, B::product(B::float_transpose(lhs), gradient));
        }
    }
}

#[derive(Debug)]
struct MaskedSoftmax {
    causal: bool,
}

impl<B: GpuKernels> Backward<B, 1> for MaskedSoftmax {
    /// The weights.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            let of_scores = B::masked_softmax_backward(ops.state, gradient, self.causal);
            gradients.register::<B>(parent.id, of_scores);
        }
    }
}

#[derive(Debug)]
struct Convolution {
    by: Strides,
    /// Of images and weight.
    shapes: [Shape; 2],
}

impl<B: GpuKernels> Backward<B, 2> for Convolution {
    /// Where Burn saves the operands.
    type State = [NodeId; 2];

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [images, weight] = ops.state.map(|node| checkpointer.retrieve_node_output::<FloatTensor<B>>(node));
        let ([to_images, to_weight], [of_images, of_weight]) = (ops.parents, self.shapes);
        if let Some(parent) = to_images {
            let found = B::convolution_of_images(gradient.clone(), weight, of_images, self.by);
            gradients.register::<B>(parent.id, found);
        }
        if let Some(parent) = to_weight {
            gradients.register::<B>(parent.id, B::convolution_of_weight(images, gradient, of_weight, self.by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::linear::matrix_product;
    use super::super::testing::numbers;
    use super::super::{AttentionShape, Scores, Sees, Strides, attention, convolution};
    use crate::device::device;
    use burn::tensor::{Device, FloatDType, Tensor, TensorData};
    use trainyard_hardware_profiles::DeviceKind;

    /// Returns the result of `operator` and the gradients of its operands, all in one list each.
    fn passes<const N: usize, const D: usize>(
        shapes: [[usize; D]; N],
        on: &Device,
        format: FloatDType,
        operator: impl Fn([Tensor<D>; N]) -> Tensor<D>,
    ) -> Vec<Vec<f32>> {
        let filled = |shape: [usize; D], start| {
            let data = TensorData::new(numbers(shape.iter().product(), start), shape);
            Tensor::<D>::from_data(data, &on.clone().autodiff())
        };
        let operands: [Tensor<D>; N] = std::array::from_fn(|i| filled(shapes[i], i).require_grad());
        let result = operator(operands.clone().map(|operand| operand.cast(format))).cast(FloatDType::F32);
        let mut gradients = (result.clone() * filled(result.dims(), 99)).sum().backward();
        let values = |tensor: Tensor<D>| tensor.into_data_as::<f32>().try_into_vec::<f32>().expect("single precision");
        let gradients = operands.map(|operand| values(operand.grad_remove(&mut gradients).expect("it takes part")));
        std::iter::once(values(result.inner())).chain(gradients).collect()
    }

    /// Asserts that an operator computes on a GPU what it computes on processors in single precision, each list to
    /// `tolerance` of its length as a vector.
    fn assert_is_that_of_processors<const N: usize, const D: usize>(
        kind: DeviceKind,
        format: FloatDType,
        tolerance: f64,
        shapes: [[usize; D]; N],
        operator: impl Fn([Tensor<D>; N]) -> Tensor<D>,
    ) {
        let on = device(kind, 0).expect("there is one");
        let ours = passes(shapes, &on, format, &operator);
        let theirs = passes(shapes, &Device::flex(), FloatDType::F32, operator);
        for (part, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let length =
                |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>().sqrt();
            let apart = length(&mut ours.iter().zip(theirs).map(|(own, other)| f64::from(own - other)));
            // A gradient may be zero but for rounding.
            let error = apart / length(&mut theirs.iter().copied().map(f64::from)).max(1.0);
            assert!(error <= tolerance, "{shapes:?} in {format:?}: {error} at {part}");
        }
    }

    /// Products of matrices, of batches of them, and of what is transposed.
    fn assert_products(kind: DeviceKind, format: FloatDType, tolerance: f64, wide: usize) {
        let plain = |[lhs, rhs]: [Tensor<3>; 2]| matrix_product(lhs, rhs);
        for [batch, rows, inner, columns] in [[1, 1, 1, 1], [3, 7, 5, 9], [2, 33, 64, 100], [1, wide, wide, wide + 128]]
        {
            let shapes = [[batch, rows, inner], [batch, inner, columns]];
            assert_is_that_of_processors(kind, format, tolerance, shapes, plain);
            let turned = [[batch, inner, rows], [batch, columns, inner]];
            let transposed = |[lhs, rhs]: [Tensor<3>; 2]| plain([lhs.transpose(), rhs.transpose()]);
            assert_is_that_of_processors(kind, format, tolerance, turned, transposed);
        }
    }

    /// Sums of nothing, and a product without rows.
    fn assert_empty_products(kind: DeviceKind) {
        let on = device(kind, 0).expect("there is one");
        let zeros = |rows, columns| Tensor::<2>::zeros([rows, columns], &on);
        let nothing = matrix_product(zeros(3, 0), zeros(0, 5));
        assert_eq!(nothing.into_data_as::<f32>().try_into_vec::<f32>().expect("single precision"), [0.0; 15]);
        assert_eq!(matrix_product(zeros(0, 3), zeros(3, 5)).dims(), [0, 5]);
    }

    fn assert_convolutions(kind: DeviceKind, format: FloatDType, tolerance: f64) {
        for (images, weight, stride, padding) in [
            ([2, 3, 9, 9], [4, 3, 3, 3], 1, 1),
            ([2, 3, 16, 16], [64, 3, 7, 7], 2, 3),
            ([1, 64, 14, 14], [32, 64, 1, 1], 2, 0),
            ([2, 32, 14, 14], [64, 16, 3, 3], 1, 1),
        ] {
            let by = Strides { stride, padding, groups: images[1] / weight[1] };
            let shapes = [images, weight];
            assert_is_that_of_processors(kind, format, tolerance, shapes, |[images, weight]| {
                convolution(images, weight, by)
            });
        }
    }

    fn assert_attention(kind: DeviceKind, format: FloatDType, tolerance: f64) {
        for [samples, sequence, heads, groups, width] in [[1, 1, 1, 1, 4], [2, 17, 4, 2, 8], [2, 300, 2, 1, 16]] {
            for sees in [Sees::All, Sees::PAST] {
                let scores = Scores::of_width(width);
                let shape = AttentionShape { samples, sequence, heads, groups, scores, sees, dropout: None };
                let rows = samples * sequence;
                let shapes = [[rows, heads * width], [rows, groups * width], [rows, groups * width]];
                assert_is_that_of_processors(kind, format, tolerance, shapes, |[q, k, v]| attention(q, k, v, &shape));
            }
        }
    }

    #[test]
    #[cfg(feature = "wgpu")]
    fn products_attention_and_convolutions_are_those_of_processors_through_wgpu() {
        assert_empty_products(DeviceKind::Wgpu);
        assert_products(DeviceKind::Wgpu, FloatDType::F32, 1e-5, 128);
        assert_attention(DeviceKind::Wgpu, FloatDType::F32, 1e-4);
        assert_convolutions(DeviceKind::Wgpu, FloatDType::F32, 1e-4);
    }

    /// The widest are those for which tiles are copied beside the multiplication.
    #[test]
    #[cfg(feature = "cuda")]
    #[ignore = "needs a GPU of NVIDIA's"]
    fn products_attention_and_convolutions_are_those_of_processors_through_cuda() {
        assert_empty_products(DeviceKind::Cuda);
        for (format, tolerance) in [(FloatDType::F32, 2e-3), (FloatDType::BF16, 2e-2), (FloatDType::F16, 4e-3)] {
            assert_products(DeviceKind::Cuda, format, tolerance, 640);
            assert_attention(DeviceKind::Cuda, format, tolerance * 2.0);
            assert_convolutions(DeviceKind::Cuda, format, tolerance * 2.0);
        }
    }
}
