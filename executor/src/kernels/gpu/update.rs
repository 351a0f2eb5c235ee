//! What optimizers do, in one pass over memory. Burn's AdamW is some twenty kernels for each parameter, which took a seventh
//! of the step of a GPT of 300 million parameters on an H100; its sums depend on which of several kernels was fastest.

use super::super::update::Factors;
use super::rows::{THREADS, combined};
use super::{a_thread_each, addresses, written};
use burn::tensor::Shape;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Returns the new weights and running means, all in single precision.
pub(super) fn adamw(operands: [CubeTensor; 4], factors: Factors) -> [CubeTensor; 3] {
    let [weights, gradients, first, second] = operands.map(into_contiguous);
    let results = [0; 3].map(|_| written(&weights, weights.meta.shape().clone()));
    if weights.meta.shape().num_elements() == 0 {
        return results;
    }
    let (groups, threads) = a_thread_each(&weights);
    let [new_weights, new_first, new_second] = results.clone();
    adamw_of_one::launch(
        &weights.client.clone(),
        groups,
        threads,
        addresses([&weights, &new_weights]),
        weights.binding().into_tensor_arg(),
        gradients.binding().into_tensor_arg(),
        first.binding().into_tensor_arg(),
        second.binding().into_tensor_arg(),
        new_weights.binding().into_tensor_arg(),
        new_first.binding().into_tensor_arg(),
        new_second.binding().into_tensor_arg(),
        factors.betas[0],
        factors.others[0],
        factors.betas[1],
        factors.others[1],
        factors.decay,
        factors.step,
        factors.root,
        factors.epsilon,
    );
    results
}

/// The factors are those of [`Factors`], in their order.
#[cube(launch, address_type = "dynamic")]
fn adamw_of_one(
    weights: &Tensor<f32>,
    gradients: &Tensor<f32>,
    first: &Tensor<f32>,
    second: &Tensor<f32>,
    new_weights: &mut Tensor<f32>,
    new_first: &mut Tensor<f32>,
    new_second: &mut Tensor<f32>,
    beta_1: f32,
    other_1: f32,
    beta_2: f32,
    other_2: f32,
    decay: f32,
    step: f32,
    root: f32,
    epsilon: f32,
) {
    let at = ABSOLUTE_POS;
    if at >= weights.len() {
        terminate!();
    }
    let gradient = gradients[at];
    let mean = beta_1 * first[at] + other_1 * gradient;
    let square = beta_2 * second[at] + other_2 * gradient * gradient;
    new_first[at] = mean;
    new_second[at] = square;
    new_weights[at] = decay * weights[at] - step * mean / (square.sqrt() * root + epsilon);
}

/// The fewest numbers that are worth a sum of their own, and the most such sums.
const NUMBERS_MIN: usize = 1 << 14;
const SUMS_MAX: usize = 1024;

/// Returns the sum of the squares of numbers in single precision, a tensor of one number. It is always added up in the
/// same order.
pub(super) fn square_sum(numbers: CubeTensor) -> CubeTensor {
    let numbers = into_contiguous(numbers);
    let elements = numbers.meta.shape().num_elements();
    let each = elements.div_ceil(SUMS_MAX).max(NUMBERS_MIN);
    let sums = written(&numbers, Shape::new([elements.div_ceil(each).max(1)]));
    sum_up(&numbers, &sums, each, true);
    if elements <= each {
        return sums;
    }
    let sum = written(&sums, Shape::new([1]));
    sum_up(&sums, &sum, SUMS_MAX, false);
    sum
}

fn sum_up(numbers: &CubeTensor, sums: &CubeTensor, each: usize, squared: bool) {
    sums_of_parts::launch(
        &numbers.client.clone(),
        CubeCount::Static(sums.meta.shape().num_elements() as u32, 1, 1),
        CubeDim::new_1d(THREADS as u32),
        addresses([numbers, sums]),
        numbers.clone().binding().into_tensor_arg(),
        sums.clone().binding().into_tensor_arg(),
        each as u32,
        squared,
        THREADS,
    );
}

#[cube(launch, address_type = "dynamic")]
fn sums_of_parts(
    numbers: &Tensor<f32>,
    sums: &mut Tensor<f32>,
    each: u32,
    #[comptime] squared: bool,
    #[comptime] threads: usize,
) {
    let first = CUBE_POS * each as usize;
    let end = min(first + each as usize, numbers.len());
    let mut shared = Shared::<[f32]>::new_slice(threads);
    let mut own = f32::new(0.0_f32);
    let mut at = first + UNIT_POS as usize;
    while at < end {
        let number = numbers[at];
        if squared {
            own += number * number;
        } else {
            own += number;
        }
        at += threads;
    }
    let sum = combined(&mut shared, own, threads, false);
    if UNIT_POS == 0 {
        sums[CUBE_POS] = sum;
    }
}
