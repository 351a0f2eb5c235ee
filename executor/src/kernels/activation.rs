//! Activation functions.

use super::operation::{Kernel, Saves, apply, contiguous, is_on_host};
use super::vector::{normal, sigmoid, tanh, vectorized};
use burn::backend::flex::FlexTensor;
use burn::tensor::activation;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

/// Computes x · Φ(x) with the exact normal distribution (Hendrycks and Gimpel, arXiv:1606.08415, equation 1).
pub(crate) fn gelu(x: Tensor<2>) -> Tensor<2> {
    if !is_on_host(&x) {
        return activation::gelu(x);
    }
    Tensor::from_dispatch(apply(Gelu::Exact, [x.into_dispatch()]))
}

/// Computes GELU's approximation by the hyperbolic tangent, as GPT-2 has it (Hendrycks and Gimpel, arXiv:1606.08415,
/// section 2).
pub(crate) fn gelu_tanh(x: Tensor<2>) -> Tensor<2> {
    if !is_on_host(&x) {
        return activation::gelu_approximate(x);
    }
    Tensor::from_dispatch(apply(Gelu::Tanh, [x.into_dispatch()]))
}

/// Computes silu(gate) · up (Shazeer, arXiv:2002.05202, equation 5, where it is called SwiGLU).
pub(crate) fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    if !is_on_host(&gate) {
        return activation::silu(gate) * up;
    }
    Tensor::from_dispatch(apply(Gated::Silu, [gate.into_dispatch(), up.into_dispatch()]))
}

/// Computes gelu(gate) · up, with GELU's approximation by the hyperbolic tangent (Shazeer, arXiv:2002.05202, equation 5,
/// where it is called GEGLU).
pub(crate) fn geglu_tanh(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    if !is_on_host(&gate) {
        return activation::gelu_approximate(gate) * up;
    }
    Tensor::from_dispatch(apply(Gated::GeluTanh, [gate.into_dispatch(), up.into_dispatch()]))
}

/// Computes cap · tanh(x / cap): numbers that are bounded by ± cap (Gemma Team, arXiv:2408.00118, section 2).
pub(crate) fn soft_cap(x: Tensor<2>, cap: f64) -> Tensor<2> {
    if !is_on_host(&x) {
        return (x / cap).tanh() * cap;
    }
    Tensor::from_dispatch(apply(SoftCap { cap: cap as f32 }, [x.into_dispatch()]))
}

/// Computes max(x, 0); what is no number stays so.
pub(crate) fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if !is_on_host(&x) {
        return activation::relu(x);
    }
    Tensor::from_dispatch(apply(Relu, [x.into_dispatch()]))
}

#[derive(Clone, Copy, Debug)]
struct Relu;

/// Numbers that a thread does together.
const BLOCK: usize = 1 << 14;

impl Kernel<1> for Relu {
    /// The result, which the next layer keeps, too.
    type Kept = FlexTensor;

    fn saved(result: &mut FlexTensor) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(result, Saves::Result)]
    }

    fn forward(&self, [x]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let mut x = contiguous(x);
        if x.is_unique() {
            x.storage_mut::<f32>().par_chunks_mut(BLOCK).for_each(relu_over);
            return (x.clone(), x);
        }
        let from = x.storage::<f32>();
        let mut to = vec![0.0; from.len()];
        to.par_chunks_mut(BLOCK).zip(from.par_chunks(BLOCK)).for_each(|(to, from)| relu_forward(from, to));
        let result = FlexTensor::from_data(TensorData::new(to, x.layout().shape().clone()));
        (result.clone(), result)
    }

    fn backward(&self, result: FlexTensor, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut gradient = contiguous(gradient);
        let result = result.storage::<f32>().par_chunks(BLOCK);
        gradient.storage_mut::<f32>().par_chunks_mut(BLOCK).zip(result).for_each(|(to, y)| relu_backward(y, to));
        [Some(gradient)]
    }
}

#[derive(Clone, Copy, Debug)]
struct SoftCap {
    cap: f32,
}

impl Kernel<1> for SoftCap {
    /// The result.
    type Kept = FlexTensor;

    fn saved(result: &mut FlexTensor) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(result, Saves::Result)]
    }

    fn forward(&self, [x]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let x = contiguous(x);
        let from = x.storage::<f32>();
        let mut to = vec![0.0; from.len()];
        let blocks = to.par_chunks_mut(BLOCK).zip(from.par_chunks(BLOCK));
        blocks.for_each(|(to, from)| soft_cap_forward(1.0 / self.cap, self.cap, from, to));
        let result = FlexTensor::from_data(TensorData::new(to, x.layout().shape().clone()));
        (result.clone(), result)
    }

    fn backward(&self, result: FlexTensor, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut gradient = contiguous(gradient);
        let blocks = gradient.storage_mut::<f32>().par_chunks_mut(BLOCK).zip(result.storage::<f32>().par_chunks(BLOCK));
        blocks.for_each(|(gradient, y)| soft_cap_backward(1.0 / self.cap, y, gradient));
        [Some(gradient)]
    }
}

#[derive(Clone, Copy, Debug)]
enum Gelu {
    Exact,
    Tanh,
}

impl Kernel<1> for Gelu {
    type Kept = FlexTensor;

    fn saved(x: &mut FlexTensor) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(x, Saves::Operand(0))]
    }

    fn forward(&self, [x]: [FlexTensor; 1]) -> (FlexTensor, FlexTensor) {
        let x = contiguous(x);
        let from = x.storage::<f32>();
        let mut to = vec![0.0; from.len()];
        match self {
            Self::Exact => gelu_exact_forward(from, &mut to),
            Self::Tanh => gelu_tanh_forward(from, &mut to),
        }
        (FlexTensor::from_data(TensorData::new(to, x.layout().shape().clone())), x)
    }

    fn backward(&self, x: FlexTensor, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let mut gradient = contiguous(gradient);
        match self {
            Self::Exact => gelu_exact_backward(x.storage(), gradient.storage_mut()),
            Self::Tanh => gelu_tanh_backward(x.storage(), gradient.storage_mut()),
        }
        [Some(gradient)]
    }
}

/// √(2/π) and the weight of x³ in GELU's tangent form, both twice: tanh(u) = 2 · sigmoid(2u) − 1.
const TANH_SLOPE: f32 = 2.0 * 0.797_884_56;
const TANH_CUBE: f32 = 2.0 * 0.797_884_56 * 0.044_715;

vectorized! {
    fn relu_over(numbers: &'a mut [f32]) {
        for number in numbers {
            *number = if *number < 0.0 { 0.0 } else { *number };
        }
    }

    fn relu_forward(from: &'a [f32], to: &'a mut [f32]) {
        for (to, &x) in to.iter_mut().zip(from) {
            *to = if x < 0.0 { 0.0 } else { x };
        }
    }

    fn relu_backward(result: &'a [f32], gradient: &'a mut [f32]) {
        for (gradient, &y) in gradient.iter_mut().zip(result) {
            *gradient = if y > 0.0 { *gradient } else { 0.0 };
        }
    }

    fn gelu_exact_forward(from: &'a [f32], to: &'a mut [f32]) {
        for (to, &x) in to.iter_mut().zip(from) {
            *to = x * normal(x).0;
        }
    }

    fn gelu_exact_backward(from: &'a [f32], gradient: &'a mut [f32]) {
        for (gradient, &x) in gradient.iter_mut().zip(from) {
            let (share, density) = normal(x);
            *gradient *= x.mul_add(density, share);
        }
    }

    fn gelu_tanh_forward(from: &'a [f32], to: &'a mut [f32]) {
        for (to, &x) in to.iter_mut().zip(from) {
            *to = x * sigmoid(x * (x * x).mul_add(TANH_CUBE, TANH_SLOPE));
        }
    }

    fn gelu_tanh_backward(from: &'a [f32], gradient: &'a mut [f32]) {
        for (gradient, &x) in gradient.iter_mut().zip(from) {
            let s = sigmoid(x * (x * x).mul_add(TANH_CUBE, TANH_SLOPE));
            let slope = (x * x).mul_add(3.0 * TANH_CUBE, TANH_SLOPE);
            *gradient *= (x * s * (1.0 - s)).mul_add(slope, s);
        }
    }

    fn soft_cap_forward(inverse: f32, cap: f32, from: &'a [f32], to: &'a mut [f32]) {
        for (to, &x) in to.iter_mut().zip(from) {
            *to = cap * tanh(x * inverse);
        }
    }

    fn soft_cap_backward(inverse: f32, result: &'a [f32], gradient: &'a mut [f32]) {
        for (gradient, &y) in gradient.iter_mut().zip(result) {
            let share = y * inverse;
            *gradient *= share.mul_add(-share, 1.0);
        }
    }

    fn geglu_forward(gate: &'a [f32], up: &'a [f32], to: &'a mut [f32]) {
        for ((to, &gate), &up) in to.iter_mut().zip(gate).zip(up) {
            *to = gate * sigmoid(gate * (gate * gate).mul_add(TANH_CUBE, TANH_SLOPE)) * up;
        }
    }

    fn geglu_backward(gate: &'a [f32], up: &'a [f32], gradient: &'a mut [f32], to_up: &'a mut [f32]) {
        for (((gradient, to_up), &gate), &up) in gradient.iter_mut().zip(to_up).zip(gate).zip(up) {
            let s = sigmoid(gate * (gate * gate).mul_add(TANH_CUBE, TANH_SLOPE));
            let slope = (gate * gate).mul_add(3.0 * TANH_CUBE, TANH_SLOPE);
            *to_up = *gradient * gate * s;
            *gradient *= up * (gate * s * (1.0 - s)).mul_add(slope, s);
        }
    }

    fn swiglu_forward(gate: &'a [f32], up: &'a [f32], to: &'a mut [f32]) {
        for ((to, &gate), &up) in to.iter_mut().zip(gate).zip(up) {
            *to = gate * sigmoid(gate) * up;
        }
    }

    fn swiglu_backward(gate: &'a [f32], up: &'a [f32], gradient: &'a mut [f32], to_up: &'a mut [f32]) {
        for (((gradient, to_up), &gate), &up) in gradient.iter_mut().zip(to_up).zip(gate).zip(up) {
            let s = sigmoid(gate);
            *to_up = *gradient * gate * s;
            *gradient *= up * (gate * s).mul_add(1.0 - s, s);
        }
    }
}

/// A gate's function times what is gated.
#[derive(Clone, Copy, Debug)]
enum Gated {
    Silu,
    GeluTanh,
}

impl Kernel<2> for Gated {
    type Kept = [FlexTensor; 2];

    fn saved([gate, up]: &mut Self::Kept) -> Vec<(&mut FlexTensor, Saves)> {
        vec![(gate, Saves::Operand(0)), (up, Saves::Operand(1))]
    }

    fn forward(&self, operands: [FlexTensor; 2]) -> (FlexTensor, [FlexTensor; 2]) {
        let [gate, up] = operands.map(contiguous);
        let mut to = vec![0.0; gate.storage::<f32>().len()];
        let compute = match self {
            Self::Silu => swiglu_forward,
            Self::GeluTanh => geglu_forward,
        };
        let inputs = gate.storage::<f32>().par_chunks(BLOCK).zip(up.storage::<f32>().par_chunks(BLOCK));
        to.par_chunks_mut(BLOCK).zip(inputs).for_each(|(to, (gate, up))| compute(gate, up, to));
        let result = FlexTensor::from_data(TensorData::new(to, gate.layout().shape().clone()));
        (result, [gate, up])
    }

    fn backward(&self, [gate, up]: [FlexTensor; 2], gradient: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let mut gradient = contiguous(gradient);
        let mut to_up = vec![0.0; up.storage::<f32>().len()];
        let compute = match self {
            Self::Silu => swiglu_backward,
            Self::GeluTanh => geglu_backward,
        };
        let inputs = gate.storage::<f32>().par_chunks(BLOCK).zip(up.storage::<f32>().par_chunks(BLOCK));
        let outputs = gradient.storage_mut::<f32>().par_chunks_mut(BLOCK).zip(to_up.par_chunks_mut(BLOCK));
        outputs.zip(inputs).for_each(|((gradient, to_up), (gate, up))| compute(gate, up, gradient, to_up));
        let to_up = FlexTensor::from_data(TensorData::new(to_up, up.layout().shape().clone()));
        [Some(gradient), Some(to_up)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        SHAPES, assert_equal_to_plain, assert_gradients_are_differences, half_precision_agrees, use_kernels,
    };
    use super::*;

    #[test]
    fn activations_are_those_of_burn() {
        for shape in SHAPES {
            assert_equal_to_plain([shape], |[x]| gelu(x), |[x]| activation::gelu(x));
            assert_equal_to_plain([shape], |[x]| gelu_tanh(x), |[x]| activation::gelu_approximate(x));
            assert_equal_to_plain([shape], |[x]| relu(x), |[x]| activation::relu(x));
            // The same where nobody else holds the operand.
            assert_equal_to_plain([shape], |[x]| relu(gelu(x)), |[x]| activation::relu(activation::gelu(x)));
            assert_equal_to_plain([shape; 2], |[g, u]| swiglu(g, u), |[g, u]| activation::silu(g) * u);
            let geglu = |[g, u]: [Tensor<2>; 2]| activation::gelu_approximate(g) * u;
            assert_equal_to_plain([shape; 2], |[g, u]| geglu_tanh(g, u), geglu);
            for cap in [0.7, 30.0] {
                assert_equal_to_plain([shape], |[x]| soft_cap(x, cap), |[x]| (x / cap).tanh() * cap);
            }
        }
        half_precision_agrees([[4, 32]], |[x]| gelu(x));
        half_precision_agrees([[4, 32]], |[x]| soft_cap(x, 1.5));
    }

    #[test]
    fn gradients_of_bounded_and_of_gated_numbers_are_differences() {
        for used in [true, false] {
            use_kernels(used);
            assert_gradients_are_differences([[3, 7]], |[x]| soft_cap(x, 1.5));
            assert_gradients_are_differences([[3, 7]; 2], |[g, u]| geglu_tanh(g, u));
        }
    }
}
