//! The numbers of an optimizer's rule besides the learning rate.

use super::{DecayExempt, TrainingSpec};
use crate::spec::Optimizer;
use trainyard_models::{Model, Sample};

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
            Optimizer::AdamW | Optimizer::AdamW8bit => Self { betas: [0.9, 0.95], weight_decay: 0.1, ..plain },
            Optimizer::Lamb => Self { epsilon: 1e-6, weight_decay: 0.01, ..plain },
            Optimizer::Lars => Self { weight_decay: 5e-4, ..plain },
            Optimizer::Momentum => Self { weight_decay: 1e-4, ..plain },
            Optimizer::Adam | Optimizer::Sgd | Optimizer::RmsProp => plain,
        }
    }

    /// Returns the usual hyper-parameters, replaced by those that a job states.
    pub fn with(optimizer: Optimizer, training: &TrainingSpec) -> Self {
        Self::of(optimizer).replaced_by(training)
    }

    /// Returns the hyper-parameters with which `optimizer` usually trains models of the kind of `model` from random
    /// weights. They differ from [`Self::of`] for AdamW alone, whatever the format of its moments.
    pub fn for_model(optimizer: Optimizer, model: &Model) -> Self {
        let usual = Self::of(optimizer);
        if optimizer.in_32_bits() != Optimizer::AdamW {
            return usual;
        }
        let (betas, epsilon, weight_decay) = adamw(model);
        Self { betas, epsilon, weight_decay, ..usual }
    }

    /// Returns these hyper-parameters, replaced by those that a job states.
    #[must_use]
    pub fn replaced_by(self, training: &TrainingSpec) -> Self {
        Self {
            betas: training.betas.unwrap_or(self.betas),
            epsilon: training.epsilon.unwrap_or(self.epsilon),
            weight_decay: training.weight_decay.unwrap_or(self.weight_decay),
            decay_exempt: training.decay_exempt.unwrap_or(self.decay_exempt),
            momentum: training.momentum.unwrap_or(self.momentum),
            ..self
        }
    }
}

/// Returns the decay rates, the epsilon and the weight decay with which AdamW usually trains models of this kind. Where
/// publications have no common ones, they are PyTorch's, which are those of Adam, and no weight decay.
///
/// # Source
///
/// Decoders: Brown et al., arXiv:2005.14165, appendix B. Encoders of text: Devlin et al., arXiv:1810.04805, appendix A.2,
/// and the epsilon of its program (google-research/bert, `optimization.py`); Clark et al., arXiv:2003.10555, table 6.
/// Encoders of images: Dosovitskiy et al., arXiv:2010.11929, appendix B.1. Pairs of a text and an image: Radford et al.,
/// arXiv:2103.00020, table 18. From sound to text: Radford et al., arXiv:2212.04356, table 17. Translation: Vaswani et
/// al., arXiv:1706.03762, section 5.3. Convolutions: Liu et al., arXiv:2201.03545, appendix A.1, also for its ResNet-50.
fn adamw(model: &Model) -> ([f64; 2], f64, f64) {
    let is_of_images = matches!(model.sample(), Sample::Image(_) | Sample::Volume(_));
    match model {
        Model::Blocks(_) if model.spec().causal == Some(false) => ([0.9, 0.999], 1e-6, 0.01),
        Model::Bert(_) | Model::Electra(_) => ([0.9, 0.999], 1e-6, 0.01),
        Model::Gpt(_)
        | Model::GptMoe(_)
        | Model::GptNeox(_)
        | Model::Llama(_)
        | Model::Gemma2(_)
        | Model::Blocks(_)
        | Model::Mamba2(_) => ([0.9, 0.95], 1e-8, 0.1),
        Model::Vit(_) => ([0.9, 0.999], 1e-8, 0.1),
        Model::Clip(_) => ([0.9, 0.98], 1e-6, 0.2),
        Model::Whisper(_) => ([0.9, 0.98], 1e-6, 0.1),
        Model::Transformer(_) => ([0.9, 0.98], 1e-9, 0.0),
        Model::ResNet(_) => ([0.9, 0.999], 1e-8, 0.05),
        Model::Layers(_) | Model::Traced(_) if is_of_images => ([0.9, 0.999], 1e-8, 0.05),
        _ => ([0.9, 0.999], 1e-8, 0.0),
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

    #[test]
    fn adamw_trains_each_kind_of_model_as_its_publications_do() {
        let of = |name: &str, optimizer| {
            HyperParameters::for_model(optimizer, &trainyard_models::find(name).expect("in the catalog").model)
        };
        for (name, betas, epsilon, weight_decay) in [
            ("gpt2", [0.9, 0.95], 1e-8, 0.1),
            ("llama-3-8b", [0.9, 0.95], 1e-8, 0.1),
            ("qwen3-8b", [0.9, 0.95], 1e-8, 0.1),
            ("bert-large", [0.9, 0.999], 1e-6, 0.01),
            ("modernbert-base", [0.9, 0.999], 1e-6, 0.01),
            ("vit-b-16", [0.9, 0.999], 1e-8, 0.1),
            ("resnet50", [0.9, 0.999], 1e-8, 0.05),
            ("convnext-base", [0.9, 0.999], 1e-8, 0.05),
            ("transformer-big", [0.9, 0.98], 1e-9, 0.0),
            ("t5-base", [0.9, 0.999], 1e-8, 0.0),
        ] {
            let expected = HyperParameters { betas, epsilon, weight_decay, ..HyperParameters::of(Optimizer::AdamW) };
            assert_eq!(of(name, Optimizer::AdamW), expected, "{name}");
            assert_eq!(of(name, Optimizer::AdamW8bit), expected, "{name}: the paper changes none");
        }
        for optimizer in [Optimizer::Momentum, Optimizer::Lars, Optimizer::Lamb, Optimizer::Adam] {
            assert_eq!(of("bert-large", optimizer), HyperParameters::of(optimizer), "{optimizer}");
        }
    }
}
