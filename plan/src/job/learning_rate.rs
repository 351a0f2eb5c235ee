//! How the learning rate changes over a training.

use super::{Decay, TrainingSpec};

const PEAK: f64 = 1e-3;
const WARM_UP: u64 = 10;
const POWER: f64 = 2.0;

/// A learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// The rate after warm-up.
    pub peak: f64,
    /// The rate that it decays to, right after the last step: the last step has a little more, as with the schedulers
    /// of PyTorch and transformers.
    pub last: f64,
    /// Steps over which the rate rises linearly.
    pub warm_up: u64,
    /// Steps of the whole training, over which the rate decays.
    pub steps: u64,
    /// The kind of decay after warm-up.
    pub decay: Decay,
    /// The power of a polynomial decay.
    pub power: f64,
}

impl LearningRate {
    /// Returns the schedule that a job describes, for a training of `steps` steps.
    pub fn of(training: &TrainingSpec, steps: u64) -> Self {
        Self {
            peak: training.learning_rate.unwrap_or(PEAK),
            last: training.final_learning_rate.unwrap_or(0.0),
            warm_up: training.warm_up_steps.unwrap_or(WARM_UP),
            steps,
            decay: training.decay.unwrap_or(Decay::Constant),
            power: training.decay_power.unwrap_or(POWER),
        }
    }

    /// Returns the rate of a step, counted from 1 at the start of training.
    pub fn at(&self, step: u64) -> f64 {
        if step <= self.warm_up {
            return self.peak * step as f64 / self.warm_up as f64;
        }
        let length = self.steps.saturating_sub(self.warm_up).max(1) as f64;
        let done = ((step - self.warm_up - 1) as f64 / length).min(1.0);
        let left = match self.decay {
            Decay::Constant => return self.peak,
            Decay::Cosine => f64::midpoint(1.0, (std::f64::consts::PI * done).cos()),
            Decay::Linear => 1.0 - done,
            Decay::Polynomial => (1.0 - done).powf(self.power),
        };
        self.last + (self.peak - self.last) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(decay: Decay) -> LearningRate {
        LearningRate { peak: 1.0, last: 0.1, warm_up: 10, steps: 110, decay, power: 2.0 }
    }

    #[test]
    fn it_rises_then_falls_to_its_last_value() {
        for decay in [Decay::Cosine, Decay::Linear, Decay::Polynomial] {
            let rate = rate(decay);
            assert!((rate.at(5) - 0.5).abs() < 1e-12);
            assert!((rate.at(10) - 1.0).abs() < 1e-12 && (rate.at(11) - 1.0).abs() < 1e-12);
            assert!(rate.at(110) > 0.1 && (rate.at(111) - 0.1).abs() < 1e-12, "{decay:?}: the last step trains");
            assert!((rate.at(500) - 0.1).abs() < 1e-12, "{decay:?}");
            assert!((11..110).all(|step| rate.at(step) > rate.at(step + 1)), "{decay:?}");
        }
        assert!((rate(Decay::Constant).at(9_999) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn half_way_is_what_the_formulas_say() {
        for (decay, share) in [(Decay::Cosine, 0.5), (Decay::Linear, 0.5), (Decay::Polynomial, 0.25)] {
            assert!((rate(decay).at(61) - (0.1 + 0.9 * share)).abs() < 1e-12, "{decay:?}");
        }
    }

    /// Rates after warm-up of transformers 5.23, `get_cosine_schedule_with_warmup` and `get_linear_schedule_with_warmup`,
    /// over 6 steps of which 2 warm up. Warm-up begins at nothing there, and with a part of the peak here.
    #[test]
    fn decays_are_those_of_transformers() {
        let rates = |decay| {
            let rate = LearningRate { peak: 1.0, last: 0.0, warm_up: 2, steps: 6, decay, power: 2.0 };
            [3, 4, 5, 6].map(|step| rate.at(step))
        };
        let near = |found: [f64; 4], told: [f64; 4]| found.iter().zip(told).all(|(a, b)| (a - b).abs() < 1e-7);
        assert!(near(rates(Decay::Cosine), [1.0, 0.853_553_4, 0.5, 0.146_446_6]));
        assert!(near(rates(Decay::Linear), [1.0, 0.75, 0.5, 0.25]));
    }

    #[test]
    fn without_warm_up_the_first_step_has_the_peak() {
        assert!((LearningRate { warm_up: 0, ..rate(Decay::Constant) }.at(1) - 1.0).abs() < 1e-12);
        assert!((LearningRate { warm_up: 4, ..rate(Decay::Constant) }.at(1) - 0.25).abs() < 1e-12);
    }
}
