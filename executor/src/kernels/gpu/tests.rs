//! Operators of GPUs beside those of processors.

use super::super::testing::{assert_close, numbers};
use super::super::{
    AdamWStep, AttentionShape, Scores, Sees, Strides, adamw, attention, convolution, layer_norm, linear,
    matrix_product, rms_norm, square_sum_there,
};
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
    // Not about as many above zero as below: sums would be rounding and nothing else.
    let mut gradients = (result.clone() * (filled(result.dims(), 99) + 1.0)).sum().backward();
    let gradients = operands.map(|operand| values(operand.grad_remove(&mut gradients).expect("it takes part")));
    std::iter::once(values(result.inner())).chain(gradients).collect()
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data_as::<f32>().try_into_vec::<f32>().expect("single precision")
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
        let length = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>().sqrt();
        let apart = length(&mut ours.iter().zip(theirs).map(|(own, other)| f64::from(own - other)));
        // A gradient may be zero but for rounding.
        let error = apart / length(&mut theirs.iter().copied().map(f64::from)).max(1.0);
        assert!(error <= tolerance, "{shapes:?} in {format:?}: {error} at {part}");
    }
}

/// Products of matrices, of batches of them, and of what is transposed.
fn assert_products(kind: DeviceKind, format: FloatDType, tolerance: f64, wide: usize) {
    let plain = |[lhs, rhs]: [Tensor<3>; 2]| matrix_product(lhs, rhs);
    let small = [[1, 1, 1, 1], [3, 7, 5, 9], [2, 33, 64, 100]];
    let large = [[1, wide, wide, wide + 128], [2, wide, wide, 64], [2, 64, wide, wide]];
    for [batch, rows, inner, columns] in small.into_iter().chain(large) {
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
    assert_eq!(values(nothing), [0.0; 15]);
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

/// Normalisations and the bias of a linear layer, over rows that are summed at once and in parts.
fn assert_rows(kind: DeviceKind, format: FloatDType, tolerance: f64) {
    for [rows, features] in [[1, 1], [5, 100], [70, 300], [2200, 24]] {
        let row = |tensor: Tensor<2>| tensor.reshape([features]);
        let shapes = [[rows, features], [1, features], [1, features]];
        assert_is_that_of_processors(kind, format, tolerance, shapes, |[x, scale, shift]| {
            layer_norm(x, row(scale), row(shift), 1e-5)
        });
        let shapes = [[rows, features], [1, features]];
        assert_is_that_of_processors(kind, format, tolerance, shapes, |[x, scale]| rms_norm(x, row(scale), 1e-5));
        let shapes = [[rows, 3], [3, features], [1, features]];
        assert_is_that_of_processors(kind, format, tolerance, shapes, |[x, weight, bias]| {
            linear(x, weight, Some(row(bias)))
        });
    }
}

/// The weights and means after some updates by AdamW.
fn assert_updates(kind: DeviceKind) {
    let updated = |on: &Device| {
        let tensor = |start| Tensor::<1>::from_data(TensorData::new(numbers(1000, start), [1000]), on);
        let (mut weights, mut means) = (tensor(1), None);
        for time in 1..=3 {
            let step = AdamWStep { learning_rate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8, weight_decay: 0.1, time };
            let (after, found) = adamw(&step, weights, tensor(10 + time as usize), means);
            (weights, means) = (after, Some(found));
        }
        let [first, second] = means.expect("there were updates");
        [weights, first, second].map(values)
    };
    let (ours, theirs) = (updated(&device(kind, 0).expect("there is one")), updated(&Device::flex()));
    assert_close(&ours, &theirs, 1e-6, "AdamW");
    let nothing = Tensor::<1>::zeros([0], &device(kind, 0).expect("there is one"));
    let step = AdamWStep { learning_rate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8, weight_decay: 0.1, time: 1 };
    assert_eq!(adamw(&step, nothing.clone(), nothing, None).0.dims(), [0]);
}

/// Sums of squares, at once and in parts.
fn assert_square_sums(kind: DeviceKind) {
    let on = device(kind, 0).expect("there is one");
    for length in [1, 1000, 40_000, 20_000_000] {
        let list = numbers(length, 5);
        let expected: f64 = list.iter().map(|number| f64::from(*number).powi(2)).sum();
        let [sum] = values(square_sum_there(Tensor::from_data(TensorData::new(list, [length]), &on)))[..] else {
            panic!("one number");
        };
        assert!((f64::from(sum) / expected - 1.0).abs() < 1e-5, "{length}: {sum} and {expected}");
    }
}

/// The formats of a GPU of NVIDIA's with what a result may be off in them; fp32 is computed as TF32 there.
#[cfg(feature = "cuda")]
const FORMATS: [(FloatDType, f64); 3] = [(FloatDType::F32, 2e-3), (FloatDType::BF16, 2e-2), (FloatDType::F16, 4e-3)];

/// One test for each kind of operators, so that a GPU's kernels can be compiled beside each other.
macro_rules! tests_of_operators {
    ($($name:ident: $wgpu:expr, $cuda:expr;)*) => {
        #[cfg(feature = "wgpu")]
        mod through_wgpu {
            use super::*;
            $(#[test]
            fn $name() {
                let assert: fn(DeviceKind) = $wgpu;
                assert(DeviceKind::Wgpu);
            })*
        }

        #[cfg(feature = "cuda")]
        mod through_cuda {
            use super::*;
            $(#[test]
            #[ignore = "needs a GPU of NVIDIA's"]
            fn $name() {
                let assert: fn(DeviceKind, FloatDType, f64) = $cuda;
                for (format, tolerance) in FORMATS {
                    assert(DeviceKind::Cuda, format, tolerance);
                }
            })*
        }
    };
}

tests_of_operators! {
    products_are_those_of_processors:
        |kind| {
            assert_empty_products(kind);
            assert_products(kind, FloatDType::F32, 1e-5, 128);
        },
        // The widest are those for which tiles are copied beside the multiplication.
        |kind, format, tolerance| assert_products(kind, format, tolerance, 640);
    attention_is_that_of_processors:
        |kind| assert_attention(kind, FloatDType::F32, 1e-4),
        |kind, format, tolerance| assert_attention(kind, format, tolerance * 2.0);
    convolutions_are_those_of_processors:
        |kind| assert_convolutions(kind, FloatDType::F32, 1e-4),
        |kind, format, tolerance| assert_convolutions(kind, format, tolerance * 2.0);
    rows_are_normalised_as_on_processors:
        |kind| assert_rows(kind, FloatDType::F32, 1e-5),
        |kind, format, tolerance| assert_rows(kind, format, tolerance * 2.0);
    updates_are_those_of_processors:
        |kind| {
            assert_updates(kind);
            assert_square_sums(kind);
        },
        |kind, format, _| {
            if format == FloatDType::F32 {
                assert_updates(kind);
                assert_square_sums(kind);
            }
        };
}
