//! Products of matrices by kernels of cubek.

use super::product_shape;
use burn::backend::cubecl::dtype_to_storage_type;
use burn_cubecl::ops::numeric::{empty_device_dtype, zeros_client};
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::routine::BlueprintStrategy;
use cubek::std::InputBinding;

/// Computes the product of matrices, or of as many pairs of them on both sides, in the operands' format.
///
/// # Panics
///
/// Where the GPU has no kernel for it, which is not so for floating-point operands.
pub(super) fn product(lhs: &CubeTensor, rhs: &CubeTensor) -> CubeTensor {
    let shape = product_shape(lhs.meta.shape(), rhs.meta.shape());
    let (client, device) = (lhs.client.clone(), lhs.device.clone());
    // An expert may have got no tokens.
    if [lhs, rhs].into_iter().any(|operand| operand.meta.shape().num_elements() == 0) {
        return zeros_client(client, device, shape, lhs.dtype);
    }
    let result = empty_device_dtype(client, device, shape, lhs.dtype);
    let done = ways(lhs, rhs).into_iter().any(|way| launched(&way, lhs, rhs, &result));
    assert!(done, "no kernel multiplies {:?} by {:?}", lhs.meta.shape(), rhs.meta.shape());
    result
}

/// Lists ways to do a product, the fastest first. Which of them a GPU has is seen when they are tried.
///
/// Where an engine copies tiles while warps multiply them (TMA, since Hopper), products in bf16 took less time on an H100
/// (docs/measurements/2026-11-27-h100.md): large ones and those of attention's weights and values, whose result is narrow,
/// 0.4 times as long. The next needs matrix units, the last nothing.
fn ways(lhs: &CubeTensor, rhs: &CubeTensor) -> Vec<Strategy> {
    let shapes = [lhs, rhs].map(|operand| operand.meta.shape());
    let last = shapes[0].num_dims() - 1;
    let sides = [shapes[0][last - 1], shapes[1][last]];
    let is_deep = shapes[0][last] >= DEEP && [lhs, rhs].into_iter().all(is_aligned);
    let streaming = match sides.map(|side| side >= WIDE) {
        // Some warps have nothing to do but to wait for copies.
        [true, true] if is_deep => Some(Strategy::SpecializedTmaMma(BlueprintStrategy::default())),
        [true, false] | [false, true] if is_deep => Some(Strategy::SimpleTmaMma(BlueprintStrategy::default())),
        _ => None,
    };
    let others =
        [Strategy::SimpleCyclicCmma(BlueprintStrategy::default()), Strategy::SimpleUnit(BlueprintStrategy::default())];
    streaming.into_iter().chain(others).chain([Strategy::Naive]).collect()
}

/// The least rows and columns of a result, and terms of its sums, that are worth 2 s of compilation instead of 0.4: chosen,
/// not measured.
const WIDE: usize = 512;
const DEEP: usize = 256;

/// The unit that the engine which copies tiles on GPUs since Hopper (TMA) wants rows to begin at, in bytes.
const ALIGNMENT: usize = 16;

fn is_aligned(tensor: &CubeTensor) -> bool {
    let distances = tensor.meta.strides().iter().filter(|stride| **stride != 1);
    distances.into_iter().all(|stride| (stride * tensor.dtype.size()).is_multiple_of(ALIGNMENT))
}

/// Begins a product in one way; returns `false` if the GPU cannot.
fn launched(way: &Strategy, lhs: &CubeTensor, rhs: &CubeTensor, result: &CubeTensor) -> bool {
    let format = dtype_to_storage_type(result.dtype);
    let mut formats = MatmulElems::from_globals(&MatmulGlobalElems { lhs: format, rhs: format, out: format });
    let operand = |tensor: &CubeTensor| InputBinding::new(tensor.clone().binding(), format);
    let (way, result) = (matmul::strategy::Strategy::MultiLevel(way.clone()), result.clone());
    launch_ref(&way, &result.client.clone(), operand(lhs), operand(rhs), result.binding(), &mut formats).is_ok()
}
