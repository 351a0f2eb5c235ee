//! Updates of optimizers in one pass over memory.

#[cfg(feature = "gpu")]
use super::lies_on_host;
use super::operation::{contiguous, plain};
use super::vector::{sum_of, vectorized};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, Tensor};
use rayon::prelude::*;

/// Numbers that a thread takes at once.
const PIECE: usize = 1 << 14;

/// One update of AdamW (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AdamWStep {
    pub(crate) learning_rate: f64,
    pub(crate) betas: [f64; 2],
    pub(crate) epsilon: f64,
    pub(crate) weight_decay: f64,
    /// t, from 1: this update's number.
    pub(crate) time: u64,
}

/// Returns the new weights, and the new running means of the gradient and of its square, which are zero before the
/// first update. Memory on the host that nobody else holds is overwritten.
///
/// # Panics
///
/// If [`has_adamw`] is `false` for the weights.
pub(crate) fn adamw(
    step: &AdamWStep,
    weights: Tensor<1>,
    gradients: Tensor<1>,
    means: Option<[Tensor<1>; 2]>,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    #[cfg(feature = "gpu")]
    if !lies_on_host(&weights) {
        return super::gpu::adamw(step, weights, gradients, means);
    }
    let [mut weights, gradients] = [weights, gradients].map(host);
    let zeros = || FlexTensor::zeros(weights.layout().shape().clone(), DType::F32);
    let [mut first, mut second] = means.map_or_else(|| [zeros(), zeros()], |means| means.map(host));
    update_all(
        Factors::of(step),
        weights.storage_mut(),
        gradients.storage(),
        [first.storage_mut(), second.storage_mut()],
    );
    (device(weights), [device(first), device(second)])
}

/// One update of stochastic gradient descent with momentum (Goyal et al., arXiv:1706.02677, section 3, equation 9).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MomentumStep {
    pub(crate) learning_rate: f64,
    pub(crate) momentum: f64,
    pub(crate) weight_decay: f64,
}

/// Returns the new weights and the new velocity, which is zero before the first update. Memory that nobody else holds is
/// overwritten.
///
/// # Panics
///
/// If [`is_plain`] is `false` for the weights.
pub(crate) fn momentum(
    step: &MomentumStep,
    weights: Tensor<1>,
    gradients: Tensor<1>,
    velocity: Option<Tensor<1>>,
) -> (Tensor<1>, Tensor<1>) {
    let [mut weights, gradients] = [weights, gradients].map(host);
    let zeros = || FlexTensor::zeros(weights.layout().shape().clone(), DType::F32);
    let mut velocity = velocity.map_or_else(zeros, host);
    let factors = [step.momentum, step.weight_decay, step.learning_rate].map(|factor| factor as f32);
    let pieces = weights.storage_mut::<f32>().par_chunks_mut(PIECE).zip(gradients.storage::<f32>().par_chunks(PIECE));
    pieces
        .zip(velocity.storage_mut::<f32>().par_chunks_mut(PIECE))
        .for_each(|((weights, gradients), velocity)| accelerate(factors, weights, gradients, velocity));
    (device(weights), device(velocity))
}

/// Returns the sum of the squares of all elements where they lie, as a tensor of one number.
pub(crate) fn square_sum_there(tensor: Tensor<1>) -> Tensor<1> {
    #[cfg(feature = "gpu")]
    if !lies_on_host(&tensor) && tensor.dtype() == DType::F32 {
        return super::gpu::square_sum(tensor);
    }
    tensor.square().sum()
}

/// Returns the sum of the squares of all elements of a tensor that [`is_plain`].
pub(crate) fn square_sum(tensor: &Tensor<1>) -> f32 {
    let tensor = host(tensor.clone());
    let pieces: Vec<f32> = tensor.storage::<f32>().par_chunks(PIECE).map(squares).collect();
    pieces.into_iter().map(f64::from).sum::<f64>() as f32
}

/// Returns `true` if [`adamw`] computes where these weights lie.
pub(crate) fn has_adamw(weights: &Tensor<1>) -> bool {
    #[cfg(feature = "gpu")]
    if !lies_on_host(weights) {
        return weights.dtype() == DType::F32;
    }
    is_plain(weights)
}

/// Returns `true` if a tensor is single precision on the host and records no gradients.
pub(crate) fn is_plain(tensor: &Tensor<1>) -> bool {
    plain(tensor.clone()).is_some()
}

fn host(tensor: Tensor<1>) -> FlexTensor {
    contiguous(plain(tensor).expect("the caller asks `is_plain` first"))
}

fn device(tensor: FlexTensor) -> Tensor<1> {
    Tensor::from_primitive::<Flex>(tensor)
}

fn update_all(factors: Factors, weights: &mut [f32], gradients: &[f32], [first, second]: [&mut [f32]; 2]) {
    weights
        .par_chunks_mut(PIECE)
        .zip(gradients.par_chunks(PIECE))
        .zip(first.par_chunks_mut(PIECE))
        .zip(second.par_chunks_mut(PIECE))
        .for_each(|(((weights, gradients), first), second)| update(factors, weights, gradients, first, second));
}

/// What AdamW multiplies by in one update, with m the mean of gradients g and v that of their squares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    /// Of m and of v.
    pub(super) betas: [f32; 2],
    /// Of g, and of its square.
    pub(super) others: [f32; 2],
    /// Of the weights.
    pub(super) decay: f32,
    /// Of m.
    pub(super) step: f32,
    /// Of √v.
    pub(super) root: f32,
    pub(super) epsilon: f32,
}

impl Factors {
    pub(super) fn of(step: &AdamWStep) -> Self {
        let power = |beta: f64| beta.powi(i32::try_from(step.time).unwrap_or(i32::MAX));
        let correction = step.betas.map(|beta| 1.0 - power(beta));
        // m̂ / (√v̂ + ε) = m / c₁ / (√v / √c₂ + ε)
        Self {
            betas: step.betas.map(|beta| beta as f32),
            others: step.betas.map(|beta| (1.0 - beta) as f32),
            decay: (1.0 - step.learning_rate * step.weight_decay) as f32,
            step: (step.learning_rate / correction[0]) as f32,
            root: (1.0 / correction[1].sqrt()) as f32,
            epsilon: step.epsilon as f32,
        }
    }
}

vectorized! {
    fn squares(numbers: &'a [f32]) -> f32 {
        sum_of([numbers], |[number]| number * number)
    }

    fn accelerate(factors: [f32; 3], weights: &'a mut [f32], gradients: &'a [f32], velocity: &'a mut [f32]) {
        let [momentum, decay, rate] = factors;
        for ((weight, &gradient), velocity) in weights.iter_mut().zip(gradients).zip(velocity) {
            *velocity = momentum.mul_add(*velocity, decay.mul_add(*weight, gradient));
            *weight = rate.mul_add(-*velocity, *weight);
        }
    }

    fn update(
        factors: Factors,
        weights: &'a mut [f32],
        gradients: &'a [f32],
        first: &'a mut [f32],
        second: &'a mut [f32],
    ) {
        for (((weight, &gradient), first), second) in weights.iter_mut().zip(gradients).zip(first).zip(second) {
            *first = factors.betas[0].mul_add(*first, factors.others[0] * gradient);
            *second = factors.betas[1].mul_add(*second, factors.others[1] * gradient * gradient);
            let change = factors.step * *first / second.sqrt().mul_add(factors.root, factors.epsilon);
            *weight = factors.decay.mul_add(*weight, -change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, numbers};
    use super::*;
    use burn::optim::decay::WeightDecayConfig;
    use burn::optim::momentum::MomentumConfig;
    use burn::optim::{AdamWConfig, Optimizer, SgdConfig};
    use burn::tensor::{Device, TensorData};

    const LENGTH: usize = 20_000;

    fn tensor(start: usize) -> Tensor<1> {
        Tensor::from_data(TensorData::new(numbers(LENGTH, start), [LENGTH]), &Device::flex())
    }

    fn list(tensor: Tensor<1>) -> Vec<f32> {
        tensor.into_data().try_into_vec::<f32>().expect("single precision")
    }

    #[test]
    fn momentum_is_that_of_burn() {
        let rule = SgdConfig::new()
            .with_momentum(Some(MomentumConfig::new().with_momentum(0.9).with_dampening(0.0)))
            .with_weight_decay(Some(WeightDecayConfig::new(0.1)))
            .build();
        let step = MomentumStep { learning_rate: 0.01, momentum: 0.9, weight_decay: 0.1 };
        let (mut ours, mut velocity) = (tensor(1), None);
        let (mut theirs, mut state) = (ours.clone(), None);
        for time in 1..=5 {
            let gradients = tensor(10 + time);
            let (weights, after) = momentum(&step, ours, gradients.clone(), velocity);
            (ours, velocity) = (weights, Some(after));
            (theirs, state) = rule.step(0.01, theirs, gradients, state);
        }
        assert_close(&[list(ours)], &[list(theirs)], 1e-6, "momentum");
    }

    #[test]
    fn it_is_burns_adamw() {
        let rule = AdamWConfig::new().with_beta_2(0.95).with_epsilon(1e-8).with_weight_decay(0.1).build();
        let (mut ours, mut means) = (tensor(1), None);
        let (mut theirs, mut state) = (ours.clone(), None);
        for time in 1..=5 {
            let gradients = tensor(10 + time as usize);
            let step = AdamWStep { learning_rate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8, weight_decay: 0.1, time };
            let (weights, after) = adamw(&step, ours, gradients.clone(), means);
            (ours, means) = (weights, Some(after));
            (theirs, state) = rule.step(0.01, theirs, gradients, state);
        }
        let state = state.expect("it remembers").momentum;
        let [first, second] = means.expect("it remembers");
        let theirs = [theirs, state.moment_1, state.moment_2].map(list);
        assert_close(&[ours, first, second].map(list), &theirs, 1e-6, "AdamW");
    }

    #[test]
    fn sums_of_squares() {
        let tensor = Tensor::<1>::from_data(TensorData::new(vec![0.5f32; 40_001], [40_001]), &Device::flex());
        assert!(is_plain(&tensor));
        assert_eq!(square_sum(&tensor), 10_000.25);
        assert!(!is_plain(&tensor.cast(burn::tensor::FloatDType::F16)));
    }
}
