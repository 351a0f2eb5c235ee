//! Optimizers: Burn's update rules over the parameters of a stage, with their state by parameter.
//!
//! The state is kept here rather than in Burn's module optimizer, so that a checkpoint can name each part of it by
//! its parameter, whatever the plan.

use crate::gradients::GradientBucket;
use crate::parameters::ParameterKey;
use burn::module::{Module, ModuleMapper, Param};
use burn::optim::{AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, Optimizer as _, Sgd, SgdConfig};
use burn::tensor::{Device, Tensor, TensorData};
use std::collections::BTreeMap;
use trainyard_plan::Optimizer as Kind;

/// AdamW's parameters as in GPT-3 (Brown et al., arXiv:2005.14165, appendix B).
const BETAS: (f32, f32) = (0.9, 0.95);
const EPSILON: f32 = 1e-8;
const WEIGHT_DECAY: f32 = 0.1;

/// What an optimizer remembers of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moments {
    /// Updates so far.
    pub(crate) time: usize,
    /// Running mean of the gradient.
    pub(crate) first: Vec<f32>,
    /// Running mean of its square.
    pub(crate) second: Vec<f32>,
}

/// The optimizer of one stage.
pub(crate) enum StageOptimizer {
    /// Two moments per parameter.
    AdamW {
        /// The rule.
        rule: AdamW,
        /// What it remembers.
        state: BTreeMap<ParameterKey, AdamWState<1>>,
    },
    /// No state.
    Sgd(Sgd),
}

impl StageOptimizer {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::AdamW => Self::AdamW {
                rule: AdamWConfig::new()
                    .with_beta_1(BETAS.0)
                    .with_beta_2(BETAS.1)
                    .with_epsilon(EPSILON)
                    .with_weight_decay(WEIGHT_DECAY)
                    .build(),
                state: BTreeMap::new(),
            },
            Kind::Sgd => Self::Sgd(SgdConfig::new().build()),
            other => unreachable!("plans with {other} are refused before they run"),
        }
    }

    /// One update of every parameter.
    pub(crate) fn step<M: Module>(&mut self, module: M, gradients: &GradientBucket, learning_rate: f64) -> M {
        module.map(&mut Update { optimizer: self, gradients, learning_rate })
    }

    fn update(&mut self, key: ParameterKey, value: Tensor<1>, gradient: Tensor<1>, learning_rate: f64) -> Tensor<1> {
        match self {
            Self::AdamW { rule, state } => {
                let (value, next) = rule.step(learning_rate, value, gradient, state.remove(&key));
                state.extend(next.map(|next| (key, next)));
                value
            }
            Self::Sgd(rule) => rule.step(learning_rate, value, gradient, None).0,
        }
    }

    /// What is remembered, by parameter.
    pub(crate) fn moments(&self) -> BTreeMap<ParameterKey, Moments> {
        let Self::AdamW { state, .. } = self else { return BTreeMap::new() };
        let moments = |state: &AdamWState<1>| Moments {
            time: state.momentum.time,
            first: to_vec(state.momentum.moment_1.clone()),
            second: to_vec(state.momentum.moment_2.clone()),
        };
        state.iter().map(|(key, state)| (*key, moments(state))).collect()
    }

    /// Puts back what [`Self::moments`] gave.
    pub(crate) fn restore(&mut self, key: ParameterKey, moments: &Moments, device: &Device) {
        if let Self::AdamW { state, .. } = self {
            let tensor = |values: &Vec<f32>| Tensor::from_data(TensorData::new(values.clone(), [values.len()]), device);
            let momentum = AdaptiveMomentumState::new(moments.time, tensor(&moments.first), tensor(&moments.second));
            state.insert(key, AdamWState::new(momentum));
        }
    }
}

struct Update<'a> {
    optimizer: &'a mut StageOptimizer,
    gradients: &'a GradientBucket,
    learning_rate: f64,
}

impl ModuleMapper for Update<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = parameter.consume();
        let value = tensor.inner();
        let (shape, device) = (value.shape(), value.device());
        let length = shape.num_elements();
        let gradient = Tensor::<1>::from_data(TensorData::new(self.gradients.of(id).to_vec(), [length]), &device);
        let key = ParameterKey::from_id(id);
        let value = self.optimizer.update(key, value.reshape([length]), gradient, self.learning_rate);
        let value = Tensor::from_inner(value.reshape(shape)).require_grad();
        Param::from_mapped_value(id, value, mapper)
    }
}

/// The values of a tensor on the host.
pub(crate) fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().expect("parameters and activations are single precision")
}
