//! Normalisation of each row, and its gradients.

use super::columns::{RowsEach, sums};
use super::rows::{THREADS, combined, groups};
use super::{a_thread_each, addresses, written, written_as};
use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Returns of each row of `x` its mean, which is zero unless it is to be `centred`, and the inverse of its deviation, in
/// single precision: (rows, 2).
pub(super) fn moments(x: CubeTensor, epsilon: f64, centred: bool) -> CubeTensor {
    let x = into_contiguous(x);
    let result = written_as(&x, Shape::new([x.meta.shape()[0], 2]), DType::F32);
    moments_of_row::launch(
        &x.client.clone(),
        groups(&x),
        CubeDim::new_1d(THREADS as u32),
        addresses([&x, &result]),
        x.clone().binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        epsilon as f32,
        centred,
        THREADS,
        dtype_to_storage_type(x.dtype),
    );
    result
}

/// Returns (x − mean) / deviation · scale, in the format of `x`; `scale` is in single precision.
pub(super) fn normalized(x: CubeTensor, moments: CubeTensor, scale: CubeTensor) -> CubeTensor {
    let (x, scale) = (into_contiguous(x), into_contiguous(scale));
    let result = written(&x, x.meta.shape().clone());
    let (groups, threads) = a_thread_each(&result);
    scaled::launch(
        &x.client.clone(),
        groups,
        threads,
        addresses([&x, &result]),
        x.clone().binding().into_tensor_arg(),
        moments.binding().into_tensor_arg(),
        scale.binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        dtype_to_storage_type(x.dtype),
    );
    result
}

/// Returns (x − mean) / deviation · scale + shift of x, moments, scale and shift.
pub(super) fn normalized_and_shifted([x, moments, scale, shift]: [CubeTensor; 4]) -> CubeTensor {
    let [x, scale, shift] = [x, scale, shift].map(into_contiguous);
    let result = written(&x, x.meta.shape().clone());
    let (groups, threads) = a_thread_each(&result);
    scaled_and_shifted::launch(
        &x.client.clone(),
        groups,
        threads,
        addresses([&x, &result]),
        x.clone().binding().into_tensor_arg(),
        moments.binding().into_tensor_arg(),
        scale.binding().into_tensor_arg(),
        shift.binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        dtype_to_storage_type(x.dtype),
    );
    result
}

/// Returns the gradient of `x` from that of the result.
pub(super) fn of_x([x, moments, scale, gradient]: [CubeTensor; 4], centred: bool) -> CubeTensor {
    let [x, scale, gradient] = [x, scale, gradient].map(into_contiguous);
    let result = written(&x, x.meta.shape().clone());
    gradient_of_row::launch(
        &x.client.clone(),
        groups(&x),
        CubeDim::new_1d(THREADS as u32),
        addresses([&x, &result]),
        x.clone().binding().into_tensor_arg(),
        moments.binding().into_tensor_arg(),
        scale.binding().into_tensor_arg(),
        gradient.binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        centred,
        THREADS,
        dtype_to_storage_type(x.dtype),
    );
    result
}

/// Returns the gradient of `scale` from that of the result, in single precision.
pub(super) fn of_scale(x: CubeTensor, moments: CubeTensor, gradient: CubeTensor) -> CubeTensor {
    let [x, gradient] = [x, gradient].map(into_contiguous);
    let each = RowsEach::of(&x);
    let parts = written_as(&x, each.parts(), DType::F32);
    sums_with_x::launch(
        &x.client.clone(),
        each.groups(),
        RowsEach::threads(),
        addresses([&x, &parts]),
        x.clone().binding().into_tensor_arg(),
        moments.binding().into_tensor_arg(),
        gradient.binding().into_tensor_arg(),
        parts.clone().binding().into_tensor_arg(),
        each.rows as u32,
        dtype_to_storage_type(x.dtype),
    );
    sums(parts, DType::F32)
}

#[cube(launch, address_type = "dynamic")]
fn moments_of_row<E: Float>(
    x: &Tensor<E>,
    moments: &mut Tensor<f32>,
    epsilon: f32,
    #[comptime] centred: bool,
    #[comptime] threads: usize,
    #[define(E)] _format: ElemType,
) {
    let width = x.shape(1);
    let start = CUBE_POS * width;
    if start >= x.len() {
        terminate!();
    }
    let mut shared = Shared::<[f32]>::new_slice(threads);

    let mut mean = f32::new(0.0_f32);
    if centred {
        let mut own = f32::new(0.0_f32);
        let mut at = UNIT_POS as usize;
        while at < width {
            own += f32::cast_from(x[start + at]);
            at += threads;
        }
        mean = combined(&mut shared, own, threads, false) / f32::cast_from(width);
    }

    let mut own = f32::new(0.0_f32);
    let mut at = UNIT_POS as usize;
    while at < width {
        let apart = f32::cast_from(x[start + at]) - mean;
        own += apart * apart;
        at += threads;
    }
    let variance = combined(&mut shared, own, threads, false) / f32::cast_from(width);

    if UNIT_POS == 0 {
        moments[CUBE_POS * 2] = mean;
        moments[CUBE_POS * 2 + 1] = f32::new(1.0_f32) / (variance + epsilon).sqrt();
    }
}

#[cube(launch, address_type = "dynamic")]
fn scaled<E: Float>(
    x: &Tensor<E>,
    moments: &Tensor<f32>,
    scale: &Tensor<f32>,
    result: &mut Tensor<E>,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= result.len() {
        terminate!();
    }
    let width = x.shape(1);
    result[at] = E::cast_from(normal(x, moments, at, width) * scale[at % width]);
}

#[cube(launch, address_type = "dynamic")]
fn scaled_and_shifted<E: Float>(
    x: &Tensor<E>,
    moments: &Tensor<f32>,
    scale: &Tensor<f32>,
    shift: &Tensor<f32>,
    result: &mut Tensor<E>,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= result.len() {
        terminate!();
    }
    let width = x.shape(1);
    result[at] = E::cast_from(normal(x, moments, at, width) * scale[at % width] + shift[at % width]);
}

/// Returns x̂ = (x − mean) / deviation at a place of a matrix.
#[cube]
fn normal<E: Float>(x: &Tensor<E>, moments: &Tensor<f32>, at: usize, width: usize) -> f32 {
    let row = at / width;
    (f32::cast_from(x[at]) - moments[row * 2]) * moments[row * 2 + 1]
}

/// With h = gradient · scale, the gradient of x is
/// (h − mean of h − x̂ · mean of h · x̂) / deviation, without the first mean where x is not centred.
#[cube(launch, address_type = "dynamic")]
fn gradient_of_row<E: Float>(
    x: &Tensor<E>,
    moments: &Tensor<f32>,
    scale: &Tensor<f32>,
    gradient: &Tensor<E>,
    result: &mut Tensor<E>,
    #[comptime] centred: bool,
    #[comptime] threads: usize,
    #[define(E)] _format: ElemType,
) {
    let width = x.shape(1);
    let start = CUBE_POS * width;
    if start >= x.len() {
        terminate!();
    }
    let (mean, inverse) = (moments[CUBE_POS * 2], moments[CUBE_POS * 2 + 1]);
    let mut shared = Shared::<[f32]>::new_slice(threads);

    let mut own = f32::new(0.0_f32);
    let mut own_with_x = f32::new(0.0_f32);
    let mut at = UNIT_POS as usize;
    while at < width {
        let through = f32::cast_from(gradient[start + at]) * scale[at];
        own += through;
        own_with_x += through * (f32::cast_from(x[start + at]) - mean) * inverse;
        at += threads;
    }
    let mut shift = f32::new(0.0_f32);
    if centred {
        shift = combined(&mut shared, own, threads, false) / f32::cast_from(width);
    }
    let along = combined(&mut shared, own_with_x, threads, false) / f32::cast_from(width);

    let mut at = UNIT_POS as usize;
    while at < width {
        let through = f32::cast_from(gradient[start + at]) * scale[at];
        let normal = (f32::cast_from(x[start + at]) - mean) * inverse;
        result[start + at] = E::cast_from(inverse * (through - shift - normal * along));
        at += threads;
    }
}

/// Sums gradient · x̂ over some rows: a part of the gradient of the scale.
#[cube(launch, address_type = "dynamic")]
fn sums_with_x<E: Float>(
    x: &Tensor<E>,
    moments: &Tensor<f32>,
    gradient: &Tensor<E>,
    parts: &mut Tensor<f32>,
    rows_each: u32,
    #[define(E)] _format: ElemType,
) {
    let (rows, width) = (x.shape(0), x.shape(1));
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    if column >= width {
        terminate!();
    }
    let part = CUBE_POS_Y as usize;
    let first = part * rows_each as usize;
    let end = min(first + rows_each as usize, rows);
    let mut sum = f32::new(0.0_f32);
    for row in first..end {
        let at = row * width + column;
        sum += normal(x, moments, at, width) * f32::cast_from(gradient[at]);
    }
    parts[part * width + column] = sum;
}
