//! Kernels beside the chains of Burn operators that they stand for.

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use std::cell::Cell;

thread_local! {
    static USED: Cell<bool> = const { Cell::new(true) };
}

/// Returns `true` if this thread uses kernels where they apply.
pub(super) fn are_used() -> bool {
    USED.get()
}

/// Makes this thread, on which a rank computes, use kernels, or the chains of operators that they stand for, as a rank on
/// another device does.
pub(crate) fn use_kernels(used: bool) {
    USED.set(used);
}

/// (rows, features) with and without whole vectors.
pub(super) const SHAPES: [[usize; 2]; 4] = [[1, 1], [3, 7], [5, 64], [33, 100]];

/// Numbers between −2 and 2 that repeat nowhere near.
pub(super) fn numbers(length: usize, start: usize) -> Vec<f32> {
    let number = |i: usize| (i + 7919 * start + 1).wrapping_mul(2_654_435_761) % 65_536;
    (0..length).map(|i| number(i) as f32 / 16_384.0 - 2.0).collect()
}

pub(super) fn tensor(shape: [usize; 2], start: usize) -> Tensor<2> {
    Tensor::from_data(TensorData::new(numbers(shape[0] * shape[1], start), shape), &Device::flex().autodiff())
}

/// Result and gradients, for a gradient of the result that differs everywhere.
pub(super) fn passes<const N: usize>(
    operands: [Tensor<2>; N],
    operator: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) -> Vec<Vec<f32>> {
    let operands = operands.map(Tensor::require_grad);
    let result = operator(operands.clone());
    let outside = tensor(result.dims(), 99).cast(FloatDType::from(result.dtype()));
    let mut gradients = (result.clone() * outside).sum().backward();
    let values = |tensor: Tensor<2>| tensor.into_data_as::<f32>().try_into_vec::<f32>().expect("single precision");
    let mut all = vec![values(result.inner())];
    all.extend(operands.map(|operand| values(operand.grad_remove(&mut gradients).expect("it takes part"))));
    all
}

/// Asserts that results and all gradients are equal to 2e-6 of the largest number there.
pub(super) fn assert_equal_to_plain<const N: usize>(
    shapes: [[usize; 2]; N],
    kernel: impl Fn([Tensor<2>; N]) -> Tensor<2>,
    plain: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) {
    let operands: [Tensor<2>; N] = std::array::from_fn(|i| tensor(shapes[i], i));
    let (ours, theirs) = (passes(operands.clone(), kernel), passes(operands, plain));
    // Sums of some hundred terms in another order.
    assert_close(&ours, &theirs, 5e-6, &format!("{shapes:?}"));
}

/// Asserts that `ours` are `theirs`, each list to `tolerance` of its largest.
pub(super) fn assert_close(ours: &[Vec<f32>], theirs: &[Vec<f32>], tolerance: f32, what: &str) {
    assert_eq!(ours.len(), theirs.len());
    for (part, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours.len(), theirs.len());
        let scale = theirs.iter().fold(0.5f32, |a, b| a.max(b.abs()));
        for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
            assert!((a - b).abs() <= tolerance * scale, "{what}: {a} is not {b} at {i} of {part}");
        }
    }
}

/// Asserts that gradients are what central differences of the result make of them.
pub(super) fn assert_gradients_are_differences<const N: usize>(
    shapes: [[usize; 2]; N],
    operator: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) {
    let operands: [Tensor<2>; N] = std::array::from_fn(|i| tensor(shapes[i], i));
    let gradients = passes(operands.clone(), &operator);
    let sum = |operands: [Tensor<2>; N]| {
        let result = operator(operands);
        let outside = tensor(result.dims(), 99);
        let values = (result * outside).into_data_as::<f32>().try_into_vec::<f32>().expect("single precision");
        values.into_iter().map(f64::from).sum::<f64>()
    };
    let step = 0.02f32;
    for (part, shape) in shapes.iter().enumerate() {
        let of_part = &gradients[part + 1];
        for (at, &gradient) in of_part.iter().enumerate() {
            let moved = |by: f32| {
                let mut numbers = numbers(shape[0] * shape[1], part);
                numbers[at] += by;
                let mut operands = operands.clone();
                operands[part] = Tensor::from_data(TensorData::new(numbers, *shape), &operands[part].device());
                sum(operands)
            };
            // Of fourth order (Abramowitz and Stegun, Handbook of Mathematical Functions, 25.3.6): wide steps, so that
            // rounding does not show.
            let difference = 8.0 * (moved(step) - moved(-step)) - (moved(2.0 * step) - moved(-2.0 * step));
            let difference = difference / (12.0 * f64::from(step));
            let tolerance = 1e-3 * of_part.iter().fold(0.5f32, |a, b| a.max(b.abs()));
            let is_near = (difference - f64::from(gradient)).abs() < f64::from(tolerance);
            assert!(is_near, "{gradient} is not {difference} at {at} of {part}");
        }
    }
}

/// Asserts that half-precision operands give what the same numbers give in single precision, to half's rounding, and
/// that results and gradients are of the operands' type.
pub(super) fn half_precision_agrees<const N: usize>(
    shapes: [[usize; 2]; N],
    kernel: impl Fn([Tensor<2>; N]) -> Tensor<2>,
) {
    for (float, tolerance) in [(FloatDType::F16, 3e-3), (FloatDType::BF16, 2e-2)] {
        let halves: [Tensor<2>; N] = std::array::from_fn(|i| tensor(shapes[i], i).cast(float));
        let singles = halves.clone().map(|half| half.cast(FloatDType::F32));
        assert_eq!(kernel(halves.clone()).dtype(), DType::from(float));
        assert_close(&passes(halves, &kernel), &passes(singles, &kernel), tolerance, &format!("{float:?}"));
    }
}
