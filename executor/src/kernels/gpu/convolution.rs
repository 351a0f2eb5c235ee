//! Convolutions as products with what each window sees (Chellapilla et al., IWFHR 2006, section 3), laid out for the
//! product alone.
//!
//! Burn's weight gradient of 7×7 windows two pixels apart on three channels was a third off on an H100 (2026-11-27, burn
//! 0.22.1), so its convolutions are not used on GPUs.

use super::super::convolution::Strides;
use super::product::product;
use super::{a_thread_each, addresses, written};
use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Convolves images, (samples, inputs, height, width), with a weight, (outputs, inputs, height, width), to images of
/// `shape`.
pub(super) fn forward(images: CubeTensor, weight: CubeTensor, shape: &Shape, by: Strides) -> CubeTensor {
    let seen = windows(images, shape, weight.meta.shape(), by);
    let result = product(&seen, &CubeBackend::float_transpose(flat(weight)));
    let by_pixel = Shape::new([shape[0], shape[2], shape[3], shape[1]]);
    into_contiguous(CubeBackend::float_permute(CubeBackend::float_reshape(result, by_pixel), &[0, 3, 1, 2]))
}

/// Returns the gradient of images of `shape`.
pub(super) fn of_images(gradient: CubeTensor, weight: CubeTensor, shape: &Shape, by: Strides) -> CubeTensor {
    let (on_image, size) = (gradient.meta.shape().clone(), weight.meta.shape().clone());
    let seen = product(&pixels(gradient), &flat(weight));
    let result = written(&seen, shape.clone());
    let (groups, threads) = a_thread_each(&result);
    add_up::launch(
        &result.client.clone(),
        groups,
        threads,
        addresses([&seen, &result]),
        into_contiguous(seen).binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        on_image[2] as u32,
        on_image[3] as u32,
        [size[2], size[3]],
        by.stride,
        by.padding,
        dtype_to_storage_type(result.dtype),
    );
    result
}

/// Returns the gradient of a weight of `shape`.
pub(super) fn of_weight(images: CubeTensor, gradient: CubeTensor, shape: &Shape, by: Strides) -> CubeTensor {
    let seen = windows(images, gradient.meta.shape(), shape, by);
    let result = product(&CubeBackend::float_transpose(pixels(gradient)), &seen);
    CubeBackend::float_reshape(result, shape.clone())
}

/// Returns what the windows of a weight see of images that become images of shape `to`: a row for each of their pixels,
/// (samples × height × width, inputs × height × width of the weight).
fn windows(images: CubeTensor, to: &Shape, weight: &Shape, by: Strides) -> CubeTensor {
    let images = into_contiguous(images);
    let result = written(&images, Shape::new([to[0] * to[2] * to[3], weight[1] * weight[2] * weight[3]]));
    let (groups, threads) = a_thread_each(&result);
    gather::launch(
        &result.client.clone(),
        groups,
        threads,
        addresses([&images, &result]),
        images.binding().into_tensor_arg(),
        result.clone().binding().into_tensor_arg(),
        to[2] as u32,
        to[3] as u32,
        [weight[2], weight[3]],
        by.stride,
        by.padding,
        dtype_to_storage_type(result.dtype),
    );
    result
}

/// Returns a weight as a matrix, (outputs, inputs × height × width).
fn flat(weight: CubeTensor) -> CubeTensor {
    let shape = weight.meta.shape();
    let flat = Shape::new([shape[0], shape[1] * shape[2] * shape[3]]);
    CubeBackend::float_reshape(weight, flat)
}

/// Returns images as a matrix, (samples × height × width, channels).
fn pixels(images: CubeTensor) -> CubeTensor {
    let shape = images.meta.shape();
    let flat = Shape::new([shape[0] * shape[2] * shape[3], shape[1]]);
    CubeBackend::float_reshape(CubeBackend::float_permute(images, &[0, 2, 3, 1]), flat)
}

/// Writes one number that a window sees, which is zero outside of the image.
#[cube(launch, address_type = "dynamic")]
fn gather<E: Float>(
    images: &Tensor<E>,
    seen: &mut Tensor<E>,
    rows: u32,
    columns: u32,
    #[comptime] size: [usize; 2],
    #[comptime] stride: usize,
    #[comptime] padding: usize,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= seen.len() {
        terminate!();
    }
    let (inputs, height, width) = (images.shape(1), images.shape(2), images.shape(3));
    let (rows, columns) = (rows as usize, columns as usize);
    let in_window = comptime![size[0] * size[1]];
    let side = comptime![size[1]];

    let (window, place) = (at / (inputs * in_window), at % (inputs * in_window));
    let (channel, pixel) = (place / in_window, place % in_window);
    // In the image with its padding.
    let y = window / columns % rows * stride + pixel / side;
    let x = window % columns * stride + pixel % side;
    let sample = window / (columns * rows);

    let mut number = E::new(0.0_f32);
    if y >= padding && x >= padding && y < height + padding && x < width + padding {
        number = images[((sample * inputs + channel) * height + y - padding) * width + x - padding];
    }
    seen[at] = number;
}

/// Writes the gradient of one number of an image: the sum over the windows that see it.
#[cube(launch, address_type = "dynamic")]
fn add_up<E: Float>(
    seen: &Tensor<E>,
    images: &mut Tensor<E>,
    rows: u32,
    columns: u32,
    #[comptime] size: [usize; 2],
    #[comptime] stride: usize,
    #[comptime] padding: usize,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= images.len() {
        terminate!();
    }
    let (inputs, height, width) = (images.shape(1), images.shape(2), images.shape(3));
    let (rows, columns) = (rows as usize, columns as usize);
    let in_window = comptime![size[0] * size[1]];
    let (x, y) = (at % width + padding, at / width % height + padding);
    let (channel, sample) = (at / (width * height) % inputs, at / (width * height * inputs));

    let mut sum = f32::new(0.0_f32);
    for down in 0..comptime![size[0]] {
        for right in 0..comptime![size[1]] {
            if y >= down && x >= right && (y - down) % stride == 0 && (x - right) % stride == 0 {
                let (row, column) = ((y - down) / stride, (x - right) / stride);
                if row < rows && column < columns {
                    let window = (sample * rows + row) * columns + column;
                    let place = (channel * in_window) + down * comptime![size[1]] + right;
                    sum += f32::cast_from(seen[window * inputs * in_window + place]);
                }
            }
        }
    }
    images[at] = E::cast_from(sum);
}
