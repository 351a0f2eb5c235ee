//! The numbers of an optimizer's rule besides the learning rate.

use super::{DecayExempt, TrainingSpec};
use crate::spec::Optimizer;

/// The hyper-parameters of an optimizer besides the learning rate. An optimizer ignores those that it does not use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperParameters {
    /// Decay rates of the running means of the gradient and of its square.
    pub betas: [f64; 2],
    /// Value added to the root of the mean square.
    pub epsilon: f64,
    /// Weight decay coefficient.
    pub weight_decay: f64,
    /// The parameters without weight decay.
    pub decay_exempt: DecayExempt,
    /// Decay rate of the velocity.
    pub momentum: f64,
    /// Trust coefficient of LARS.
    pub trust: f64,
}

impl HyperParameters {
    /// Returns the usual hyper-parameters of `optimizer`. Biases and norms are not decayed, as transformers' Trainer and
    /// Megatron-LM have it.
    ///
    /// # Source
    ///
    /// AdamW: as in GPT-3, Brown et al., arXiv:2005.14165, appendix B. Adam: algorithm 1 of Kingma and Ba,
    /// arXiv:1412.6980. LAMB: You et al., arXiv:1904.00962, section 4. LARS: You et al., arXiv:1708.03888, sections 3
    /// and 5. Momentum: Goyal et al., arXiv:1706.02677, section 5.1.
    pub fn of(optimizer: Optimizer) -> Self {
        let decay_exempt = DecayExempt::BiasesAndNorms;
        let plain =
            Self { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0, decay_exempt, momentum: 0.9, trust: 1e-3 };
        match optimizer {
            Optimizer::AdamW => Self { betas: [0.9, 0.95], weight_decay: 0.1, ..plain },
            Optimizer::Lamb => Self { epsilon: 1e-6, weight_decay: 0.01, ..plain },
            Optimizer::Lars => Self { weight_decay: 5e-4, ..plain },
            Optimizer::Momentum => Self { weight_decay: 1e-4, ..plain },
            Optimizer::Adam | Optimizer::Sgd | Optimizer::RmsProp => plain,
        }
    }

    /// Returns the usual hyper-parameters, replaced by those that a job states.
    pub fn with(optimizer: Optimizer, training: &TrainingSpec) -> Self {
        let usual = Self::of(optimizer);
        Self {
            betas: training.betas.unwrap_or(usual.betas),
            epsilon: training.epsilon.unwrap_or(usual.epsilon),
            weight_decay: training.weight_decay.unwrap_or(usual.weight_decay),
            decay_exempt: training.decay_exempt.unwrap_or(usual.decay_exempt),
            momentum: training.momentum.unwrap_or(usual.momentum),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_says_comes_before_what_is_usual() {
        let training = TrainingSpec { epsilon: Some(1e-7), momentum: Some(0.8), ..TrainingSpec::default() };
        let found = HyperParameters::with(Optimizer::AdamW, &training);
        let usual = HyperParameters::of(Optimizer::AdamW);
        let expected = HyperParameters { epsilon: 1e-7, momentum: 0.8, ..usual };
        assert_eq!((usual.betas, usual.weight_decay, usual.momentum), ([0.9, 0.95], 0.1, 0.9));
        assert_eq!(found, expected);
    }
}
