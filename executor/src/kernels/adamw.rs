//! AdamW in one pass.

use super::vector::vectorized;
use rayon::prelude::*;

/// Numbers that a thread takes at once.
const PIECE: usize = 1 << 14;

/// One update of AdamW (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AdamWStep {
    /// η
    pub(crate) learning_rate: f64,
    /// β₁ and β₂
    pub(crate) betas: [f64; 2],
    /// ε
    pub(crate) epsilon: f64,
    /// λ
    pub(crate) weight_decay: f64,
    /// t, from 1: this update's number.
    pub(crate) time: u64,
}

/// Updates `weights` and both running means in place, from gradients times `gradient_factor` (for means, clipping and
/// loss scales). All have one number per weight.
pub(crate) fn adamw_step(
    step: &AdamWStep,
    gradient_factor: f32,
    weights: &mut [f32],
    gradients: &[f32],
    first: &mut [f32],
    second: &mut [f32],
) {
    let power = |beta: f64| beta.powi(i32::try_from(step.time).unwrap_or(i32::MAX));
    let correction = step.betas.map(|beta| 1.0 - power(beta));
    // m̂ / (√v̂ + ε) = m / c₁ / (√v / √c₂ + ε)
    let factors = Factors {
        gradient: gradient_factor,
        betas: step.betas.map(|beta| beta as f32),
        others: step.betas.map(|beta| (1.0 - beta) as f32),
        decay: (1.0 - step.learning_rate * step.weight_decay) as f32,
        step: (step.learning_rate / correction[0]) as f32,
        root: (1.0 / correction[1].sqrt()) as f32,
        epsilon: step.epsilon as f32,
    };
    weights
        .par_chunks_mut(PIECE)
        .zip(gradients.par_chunks(PIECE))
        .zip(first.par_chunks_mut(PIECE))
        .zip(second.par_chunks_mut(PIECE))
        .for_each(|(((weights, gradients), first), second)| update(factors, weights, gradients, first, second));
}

#[derive(Clone, Copy)]
struct Factors {
    gradient: f32,
    betas: [f32; 2],
    others: [f32; 2],
    decay: f32,
    step: f32,
    root: f32,
    epsilon: f32,
}

vectorized! {
    fn update(
        factors: Factors,
        weights: &'a mut [f32],
        gradients: &'a [f32],
        first: &'a mut [f32],
        second: &'a mut [f32],
    ) {
        for (((weight, &gradient), first), second) in weights.iter_mut().zip(gradients).zip(first).zip(second) {
            let gradient = gradient * factors.gradient;
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
    use burn::optim::{AdamWConfig, Optimizer};
    use burn::tensor::{Device, Tensor, TensorData};

    #[test]
    fn it_is_burns_adamw() {
        let length = 1000;
        let device = Device::flex();
        let tensor = |numbers: Vec<f32>| Tensor::<1>::from_data(TensorData::new(numbers, [length]), &device);
        let rule = AdamWConfig::new().with_beta_2(0.95).with_epsilon(1e-8).with_weight_decay(0.1).build();
        let (mut weights, mut first, mut second) = (numbers(length, 1), vec![0.0; length], vec![0.0; length]);
        let (mut theirs, mut state) = (tensor(weights.clone()), None);
        for time in 1..=5 {
            let gradients = numbers(length, 10 + time as usize);
            let step = AdamWStep { learning_rate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8, weight_decay: 0.1, time };
            adamw_step(&step, 0.5, &mut weights, &gradients, &mut first, &mut second);
            let half = tensor(gradients) * 0.5;
            (theirs, state) = rule.step(0.01, theirs, half, state);
        }
        let theirs = theirs.into_data().try_into_vec::<f32>().expect("single precision");
        assert_close(&[weights], &[theirs], 1e-6, "weights");
    }
}
