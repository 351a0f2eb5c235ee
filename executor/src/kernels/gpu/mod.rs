//! Operators of GPUs that Burn does not have, or has only with a long search for the fastest kernel.
//!
//! Burn chooses among some twenty ways to do a product by timing each, and compiles each for that: 1.5 s a kernel on an
//! H100, minutes before the first step of a small model (docs/measurements/2026-11-27-h100.md). Here the way follows from
//! the shape. Attention's mask and softmax, normalisations and AdamW, many kernels of Burn's each, are one or a few.

#![allow(
    clippy::used_underscore_binding,
    reason = "what CubeCL makes of a kernel reads the format that only its types name"
)]

mod columns;
mod convolution;
mod normalization;
mod product;
mod rows;
mod softmax;
mod update;

use super::convolution::Strides;
use super::update::{AdamWStep, Factors};
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension};
use burn::tensor::{DType, FloatDType, Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::{AddressType, CubeCount, CubeDim};

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

/// Computes [`super::layer_norm`], in single precision whatever the format of `x`, which is that of the result.
pub(crate) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let [scale, shift] = [scale, shift].map(|row| row.cast(FloatDType::F32).into_dispatch());
    Tensor::from_dispatch(<Dispatch as GpuKernels>::layer_norm(x.into_dispatch(), scale, shift, epsilon))
}

/// The same of [`super::rms_norm`].
pub(crate) fn rms_norm(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let scale = scale.cast(FloatDType::F32).into_dispatch();
    Tensor::from_dispatch(<Dispatch as GpuKernels>::rms_norm(x.into_dispatch(), scale, epsilon))
}

/// Adds a row to each row of `x`, which has its format.
pub(crate) fn add_row(x: Tensor<2>, row: Tensor<1>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as GpuKernels>::add_row(x.into_dispatch(), row.into_dispatch()))
}

/// Returns the new weights and running means by AdamW, all in single precision.
pub(crate) fn adamw(
    step: &AdamWStep,
    weights: Tensor<1>,
    gradients: Tensor<1>,
    means: Option<[Tensor<1>; 2]>,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    let [first, second] = means.unwrap_or_else(|| [weights.zeros_like(), weights.zeros_like()]);
    let [weights, gradients, first, second] = [weights, gradients, first, second].map(Tensor::into_dispatch);
    let (weights, first, second) =
        <Dispatch as GpuKernels>::adamw(weights, gradients, first, second, Factors::of(step));
    (Tensor::from_dispatch(weights), [first, second].map(Tensor::from_dispatch))
}

/// Returns the sum of the squares of numbers in single precision.
pub(crate) fn square_sum(numbers: Tensor<1>) -> Tensor<1> {
    Tensor::from_dispatch(<Dispatch as GpuKernels>::square_sum(numbers.into_dispatch()))
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

    #[fusion(default)]
    fn layer_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let moments = Self::moments(x.clone(), epsilon, true);
        Self::normalized_and_shifted(x, moments, scale, shift)
    }

    #[fusion(default)]
    fn rms_norm(x: FloatTensor<Self>, scale: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self> {
        let moments = Self::moments(x.clone(), epsilon, false);
        Self::normalized(x, moments, scale)
    }

    /// Returns of each row its mean, which is zero unless it is to be `centred`, and the inverse of its deviation.
    #[fusion(meta = |x, _, _| TensorSpec::new(Shape::new([x.shape[0], 2]), DType::F32))]
    fn moments(x: FloatTensor<Self>, epsilon: f64, centred: bool) -> FloatTensor<Self>;

    #[fusion(dtype = x, shape = x)]
    fn normalized(x: FloatTensor<Self>, moments: FloatTensor<Self>, scale: FloatTensor<Self>) -> FloatTensor<Self>;

    #[fusion(dtype = x, shape = x)]
    fn normalized_and_shifted(
        x: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Returns the gradient of `x`.
    #[fusion(dtype = x, shape = x)]
    fn normalized_of_x(
        x: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        centred: bool,
    ) -> FloatTensor<Self>;

    /// Returns the gradient of the scale.
    #[fusion(meta = |x, _, _| TensorSpec::new(Shape::new([x.shape[1]]), DType::F32))]
    fn normalized_of_scale(
        x: FloatTensor<Self>,
        moments: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    #[fusion(default)]
    fn add_row(x: FloatTensor<Self>, row: FloatTensor<Self>) -> FloatTensor<Self> {
        let whole = x.shape();
        let row = Self::float_reshape(row, Shape::new([1, whole[1]]));
        Self::float_add(x, Self::float_expand(row, whole))
    }

    /// Returns the sum of each column, in a format.
    #[fusion(meta = |x, format| TensorSpec::new(Shape::new([x.shape[1]]), DType::from(*format)))]
    fn column_sums(x: FloatTensor<Self>, format: FloatDType) -> FloatTensor<Self>;

    /// Returns new weights and running means.
    #[fusion(meta = |weights, _, _, _, _| (weights.clone(), weights.clone(), weights.clone()))]
    fn adamw(
        weights: FloatTensor<Self>,
        gradients: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        factors: Factors,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    #[fusion(meta = |_| TensorSpec::new(Shape::new([1]), DType::F32))]
    fn square_sum(numbers: FloatTensor<Self>) -> FloatTensor<Self>;
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
    written_as(beside, shape, beside.dtype)
}

/// The same in another format.
fn written_as(beside: &CubeTensor, shape: Shape, format: DType) -> CubeTensor {
    empty_device_contiguous_dtype(beside.client.clone(), beside.device.clone(), shape, format)
}

/// Returns groups of threads with a thread for each number of a tensor, and how many threads a group has.
fn a_thread_each(tensor: &CubeTensor) -> (CubeCount, CubeDim) {
    let elements = tensor.meta.shape().num_elements();
    let threads = CubeDim::new(&tensor.client, elements);
    (calculate_cube_count_elemwise(&tensor.client, elements, threads), threads)
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

    fn moments(x: CubeTensor, epsilon: f64, centred: bool) -> CubeTensor {
        normalization::moments(x, epsilon, centred)
    }

    fn normalized(x: CubeTensor, moments: CubeTensor, scale: CubeTensor) -> CubeTensor {
        normalization::normalized(x, moments, scale)
    }

    fn normalized_and_shifted(x: CubeTensor, moments: CubeTensor, scale: CubeTensor, shift: CubeTensor) -> CubeTensor {
        normalization::normalized_and_shifted([x, moments, scale, shift])
    }

    fn normalized_of_x(
        x: CubeTensor,
        moments: CubeTensor,
        scale: CubeTensor,
        gradient: CubeTensor,
        centred: bool,
    ) -> CubeTensor {
        normalization::of_x([x, moments, scale, gradient], centred)
    }

    fn normalized_of_scale(x: CubeTensor, moments: CubeTensor, gradient: CubeTensor) -> CubeTensor {
        normalization::of_scale(x, moments, gradient)
    }

    fn column_sums(x: CubeTensor, format: FloatDType) -> CubeTensor {
        columns::sums(x, format.into())
    }

    fn adamw(
        weights: CubeTensor,
        gradients: CubeTensor,
        first: CubeTensor,
        second: CubeTensor,
        factors: Factors,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        update::adamw([weights, gradients, first, second], factors).into()
    }

    fn square_sum(numbers: CubeTensor) -> CubeTensor {
        update::square_sum(numbers)
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

    fn layer_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let guards = [x.node(), scale.node(), shift.node()];
        match Backward::<B, 3>::prepare::<C>(LayerNorm, guards).compute_bound().stateful() {
            OpsKind::Tracked(mut preparation) => {
                let saved = [preparation.checkpoint(&x), preparation.checkpoint(&scale)];
                let [x, scale, shift] = [x, scale, shift].map(FloatTensor::<Self>::into_primitive);
                let moments = B::moments(x.clone(), epsilon, true);
                let result = B::normalized_and_shifted(x, moments.clone(), scale, shift);
                preparation.finish((saved, moments), result)
            }
            OpsKind::UnTracked(preparation) => {
                let [x, scale, shift] = [x, scale, shift].map(FloatTensor::<Self>::into_primitive);
                preparation.finish(<B as GpuKernels>::layer_norm(x, scale, shift, epsilon))
            }
        }
    }

    fn rms_norm(x: FloatTensor<Self>, scale: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self> {
        let guards = [x.node(), scale.node()];
        match Backward::<B, 2>::prepare::<C>(RmsNorm, guards).compute_bound().stateful() {
            OpsKind::Tracked(mut preparation) => {
                let saved = [preparation.checkpoint(&x), preparation.checkpoint(&scale)];
                let [x, scale] = [x, scale].map(FloatTensor::<Self>::into_primitive);
                let moments = B::moments(x.clone(), epsilon, false);
                preparation.finish((saved, moments.clone()), B::normalized(x, moments, scale))
            }
            OpsKind::UnTracked(preparation) => {
                let [x, scale] = [x, scale].map(FloatTensor::<Self>::into_primitive);
                preparation.finish(B::rms_norm(x, scale, epsilon))
            }
        }
    }

    fn moments(_: FloatTensor<Self>, _: f64, _: bool) -> FloatTensor<Self> {
        unreachable!("a part of normalisations")
    }

    fn normalized(_: FloatTensor<Self>, _: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("a part of normalisations")
    }

    fn normalized_and_shifted(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        unreachable!("a part of normalisations")
    }

    fn normalized_of_x(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: bool,
    ) -> FloatTensor<Self> {
        unreachable!("gradients are not differentiated")
    }

    fn normalized_of_scale(_: FloatTensor<Self>, _: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("gradients are not differentiated")
    }

    fn add_row(x: FloatTensor<Self>, row: FloatTensor<Self>) -> FloatTensor<Self> {
        let guards = [x.node(), row.node()];
        let result = B::add_row(x.into_primitive(), row.into_primitive());
        Backward::<B, 2>::prepare::<C>(AddRow, guards).compute_bound().stateless(result)
    }

    fn column_sums(_: FloatTensor<Self>, _: FloatDType) -> FloatTensor<Self> {
        unreachable!("gradients are not differentiated")
    }

    fn adamw(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Factors,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("updates are not differentiated")
    }

    fn square_sum(_: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("updates are not differentiated")
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

/// Where Burn saves x and the scale of a normalisation, and the moments of its rows.
type Normalized<B> = ([NodeId; 2], FloatTensor<B>);

/// Registers the gradients of x and of the scale of a normalisation, as far as they are wanted.
fn register_normalized<B: GpuKernels>(
    (saved, moments): Normalized<B>,
    [to_x, to_scale]: [Option<NodeId>; 2],
    gradient: FloatTensor<B>,
    centred: bool,
    gradients: &mut Gradients,
    checkpointer: &mut Checkpointer,
) {
    let [x, scale] = saved.map(|node| checkpointer.retrieve_node_output::<FloatTensor<B>>(node));
    if let Some(parent) = to_scale {
        let found = B::normalized_of_scale(x.clone(), moments.clone(), gradient.clone());
        gradients.register::<B>(parent, found);
    }
    if let Some(parent) = to_x {
        gradients.register::<B>(parent, B::normalized_of_x(x, moments, scale, gradient, centred));
    }
}

#[derive(Debug)]
struct LayerNorm;

impl<B: GpuKernels> Backward<B, 3> for LayerNorm {
    type State = Normalized<B>;

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [to_x, to_scale, to_shift] = ops.parents.map(|parent| parent.map(|parent| parent.id));
        if let Some(parent) = to_shift {
            gradients.register::<B>(parent, B::column_sums(gradient.clone(), FloatDType::F32));
        }
        register_normalized::<B>(ops.state, [to_x, to_scale], gradient, true, gradients, checkpointer);
    }
}

#[derive(Debug)]
struct RmsNorm;

impl<B: GpuKernels> Backward<B, 2> for RmsNorm {
    type State = Normalized<B>;

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|parent| parent.id));
        register_normalized::<B>(ops.state, parents, gradient, false, gradients, checkpointer);
    }
}

#[derive(Debug)]
struct AddRow;

impl<B: GpuKernels> Backward<B, 2> for AddRow {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [to_x, to_row] = ops.parents;
        if let Some(parent) = to_row {
            let format = FloatDType::from(gradient.dtype());
            gradients.register::<B>(parent.id, B::column_sums(gradient.clone(), format));
        }
        if let Some(parent) = to_x {
            gradients.register::<B>(parent.id, gradient);
        }
    }
}

#[cfg(test)]
mod tests;
