use super::super::testing::{assert_close, assert_equal_to_plain, half_precision_agrees, numbers};
use super::*;

/// Result and gradients, (samples, …) each, of images and weights by six nested loops.
fn slow(shape: &Shape, images: &[f32], weights: &[f32], gradient: &[f32]) -> [Vec<f32>; 3] {
    let Shape { inputs, outputs, input: [height, width], kernel: [rows, columns], stride, padding, groups } = *shape;
    let ([down, right], within) = (shape.output(), [inputs / groups, outputs / groups]);
    let mut found = [gradient, images, weights].map(|like| vec![0.0f64; like.len()]);
    for (result, &gradient) in gradient.iter().enumerate() {
        let (map, y, x) = (result / (down * right), result / right % down, result % right);
        let (sample, output) = (map / outputs, map % outputs);
        for tap in 0..within[0] * rows * columns {
            let (channel, row, column) = (tap / (rows * columns), tap / columns % rows, tap % columns);
            let (row, column) = ((y * stride + row).wrapping_sub(padding), (x * stride + column).wrapping_sub(padding));
            if row >= height || column >= width {
                continue;
            }
            let channel = output / within[1] * within[0] + channel;
            let pixel = ((sample * inputs + channel) * height + row) * width + column;
            let weight = output * within[0] * rows * columns + tap;
            found[0][result] += f64::from(images[pixel]) * f64::from(weights[weight]);
            found[1][pixel] += f64::from(gradient) * f64::from(weights[weight]);
            found[2][weight] += f64::from(gradient) * f64::from(images[pixel]);
        }
    }
    found.map(|numbers| numbers.into_iter().map(|number| number as f32).collect())
}

fn shape([inputs, outputs]: [usize; 2], input: [usize; 2], kernel: usize, strides: [usize; 3]) -> Shape {
    let [stride, padding, groups] = strides;
    Shape { inputs, outputs, input, kernel: [kernel; 2], stride, padding, groups }
}

/// Samples and shapes: every stride and padding of the networks, sides without a common factor, kernels larger than
/// their images, groups, and both ways to sum the gradient of weights.
fn shapes() -> [(usize, Shape); 14] {
    [
        (2, shape([3, 5], [7, 9], 3, [1, 1, 1])),
        (3, shape([4, 6], [8, 8], 3, [2, 1, 2])),
        (1, shape([3, 64], [17, 16], 7, [2, 3, 1])),
        (5, shape([16, 33], [4, 4], 3, [1, 1, 1])),
        (33, shape([20, 70], [2, 2], 3, [1, 1, 1])),
        (2, shape([8, 16], [5, 6], 1, [2, 0, 1])),
        (2, shape([8, 16], [8, 8], 1, [1, 0, 1])),
        (3, shape([6, 6], [5, 5], 3, [1, 1, 6])),
        (2, shape([3, 12], [16, 16], 8, [8, 0, 1])),
        (40, shape([32, 32], [4, 4], 3, [2, 1, 1])),
        (2, shape([40, 8], [16, 16], 3, [1, 1, 1])),
        (1, shape([2, 3], [1, 1], 3, [1, 1, 1])),
        (2, shape([2, 3], [10, 10], 3, [3, 1, 1])),
        (5, shape([16, 16], [16, 16], 3, [1, 1, 1])),
    ]
}

#[test]
fn convolutions_are_nested_loops_on_any_number_of_threads() {
    for (samples, shape) in shapes() {
        let images = numbers(samples * shape.inputs * shape.input[0] * shape.input[1], 1);
        let weights = numbers(shape.weights(), 2);
        let gradient = numbers(samples * shape.outputs * shape.output()[0] * shape.output()[1], 3);
        let passes = || {
            let to_images = shape.input_gradient(&weights, &gradient);
            [shape.forward(&images, &weights), to_images, shape.weight_gradient(&images, &gradient)]
        };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
            pool.install(passes)
        };
        let alone = on(1);
        assert_close(&alone, &slow(&shape, &images, &weights, &gradient), 1e-5, &format!("{shape:?}"));
        assert!((2..4).all(|threads| on(threads) == alone), "{shape:?} depends on threads");
    }
}

#[test]
fn convolutions_are_those_of_burn() {
    let kernel = |[x, weight]: [Tensor<2>; 2]| {
        let (images, weight) = (x.reshape([2, 4, 6, 6]), weight.reshape([6, 2, 3, 3]));
        convolution(images, weight, Strides { stride: 2, padding: 1, groups: 2 }).flatten::<2>(1, 3)
    };
    let plain = |[x, weight]: [Tensor<2>; 2]| {
        let (images, weight) = (x.reshape([2, 4, 6, 6]), weight.reshape([6, 2, 3, 3]));
        conv2d(images, weight, None, ConvOptions::new([2; 2], [1; 2], [1; 2], 2)).flatten::<2>(1, 3)
    };
    assert_equal_to_plain([[2, 144], [6, 18]], kernel, plain);
    half_precision_agrees([[2, 144], [6, 18]], kernel);
}
