//! Optimizers: Burn's update rules over pieces of parameters, with their state by parameter.
//!
//! A rank updates the piece of each parameter that it owns: all of it, or its share where optimizer state is shared
//! out. The state is kept here rather than in Burn's module optimizer, so that a checkpoint can name each part of it by
//! its parameter, whatever the plan.

use crate::kernels::{self, AdamWStep, MomentumStep};
use crate::network::ParameterKey;
use crate::network::operators::to_vec;
use crate::process_group::GroupError;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::{Momentum, MomentumConfig, MomentumState};
use burn::optim::{
    Adam, AdamConfig, AdamState, AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, Lamb, LambConfig, LambState,
    Optimizer as _,
};
use burn::tensor::Tensor;
use std::collections::BTreeMap;
use trainyard_plan::{DecayExempt, Optimizer as Kind, TrainingSpec};

/// [`trainyard_plan::HyperParameters`] in the number formats of Burn's rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HyperParameters {
    /// Decay rates of the running means of the gradient and of its square.
    pub betas: (f32, f32),
    /// Term added to the root of the mean square.
    pub epsilon: f32,
    pub weight_decay: f32,
    /// `true` if biases and the scales of normalisations, which have one dimension, are decayed as well.
    pub decays_all: bool,
    /// Decay rate of the velocity.
    pub momentum: f64,
    /// LARS's trust coefficient.
    pub trust: f32,
}

impl HyperParameters {
    /// Returns the customary values for `kind`.
    pub fn of(kind: Kind) -> Self {
        Self::with(kind, &TrainingSpec::default())
    }

    /// Returns the customary values for `kind`, replaced by what a job's `training` sets.
    pub fn with(kind: Kind, training: &TrainingSpec) -> Self {
        let whole = trainyard_plan::HyperParameters::with(kind, training);
        Self {
            betas: (whole.betas[0] as f32, whole.betas[1] as f32),
            epsilon: whole.epsilon as f32,
            weight_decay: whole.weight_decay as f32,
            decays_all: whole.decay_exempt == DecayExempt::None,
            momentum: whole.momentum,
            trust: whole.trust as f32,
        }
    }
}

/// Optimizer state of a piece of a parameter: running means in the order in which the rule names them.
#[derive(Clone, Debug)]
pub(crate) struct OptimizerState {
    /// Updates so far.
    pub(crate) time: usize,
    /// Each as long as the piece.
    pub(crate) means: Vec<Tensor<1>>,
}

/// A piece of a parameter that is to be updated.
pub(crate) struct Update {
    pub(crate) key: ParameterKey,
    /// `true` for matrices and tensors of more dimensions: rates from norms apply to these only, as in the papers'
    /// experiments, and weight decay unless a job says otherwise.
    pub(crate) is_matrix: bool,
    pub(crate) value: Tensor<1>,
    pub(crate) gradient: Tensor<1>,
}

/// Sums norms over the ranks that hold the other pieces: from each update's sums of squares to those of the whole
/// parameter.
pub(crate) type WholeNorms<'a> = &'a dyn Fn(Vec<f32>) -> Result<Vec<f32>, GroupError>;

enum Method {
    AdamW(AdamW),
    Adam(Adam),
    Sgd,
    Momentum(Momentum),
    Lamb(Lamb),
    Lars(Momentum),
}

/// The optimizer of one rank.
pub(crate) struct RankOptimizer {
    kind: Kind,
    method: Method,
    /// The same without weight decay, for what is left out of it.
    undecayed: Method,
    hyper_parameters: HyperParameters,
    memory: BTreeMap<ParameterKey, OptimizerState>,
}

impl Method {
    fn new(kind: Kind, hyper_parameters: HyperParameters) -> Self {
        let (beta_1, beta_2) = hyper_parameters.betas;
        let momentum =
            || Momentum::new(&MomentumConfig::new().with_momentum(hyper_parameters.momentum).with_dampening(0.0));
        match kind {
            Kind::AdamW => Self::AdamW(
                AdamWConfig::new()
                    .with_beta_1(beta_1)
                    .with_beta_2(beta_2)
                    .with_epsilon(hyper_parameters.epsilon)
                    .with_weight_decay(hyper_parameters.weight_decay)
                    .build(),
            ),
            Kind::Adam => {
                let decay = (hyper_parameters.weight_decay > 0.0)
                    .then(|| WeightDecayConfig::new(hyper_parameters.weight_decay));
                let config =
                    AdamConfig::new().with_beta_1(beta_1).with_beta_2(beta_2).with_epsilon(hyper_parameters.epsilon);
                Self::Adam(config.with_weight_decay(decay).build())
            }
            Kind::Sgd => Self::Sgd,
            Kind::Momentum => Self::Momentum(momentum()),
            Kind::Lars => Self::Lars(momentum()),
            Kind::Lamb => Self::Lamb(
                LambConfig::new()
                    .with_beta_1(beta_1)
                    .with_beta_2(beta_2)
                    .with_epsilon(hyper_parameters.epsilon)
                    .with_weight_decay(hyper_parameters.weight_decay)
                    .with_use_trust_ratio(false)
                    .build(),
            ),
            other @ (Kind::AdamW8bit | Kind::RmsProp) => unreachable!("plans with {other} are refused before they run"),
        }
    }
}

impl RankOptimizer {
    pub(crate) fn new(kind: Kind, hyper_parameters: HyperParameters) -> Self {
        let undecayed = Method::new(kind, HyperParameters { weight_decay: 0.0, ..hyper_parameters });
        Self { kind, method: Method::new(kind, hyper_parameters), undecayed, hyper_parameters, memory: BTreeMap::new() }
    }

    /// Returns the rule for a parameter, and its weight decay.
    fn rule(&self, is_matrix: bool) -> (&Method, f32) {
        if is_matrix || self.hyper_parameters.decays_all {
            (&self.method, self.hyper_parameters.weight_decay)
        } else {
            (&self.undecayed, 0.0)
        }
    }

    /// Returns new values of the pieces, in their order.
    pub(crate) fn step(
        &mut self,
        updates: Vec<Update>,
        learning_rate: f64,
        norms: WholeNorms<'_>,
    ) -> Result<Vec<Tensor<1>>, GroupError> {
        match &self.method {
            Method::Lamb(_) => self.lamb(updates, learning_rate, norms),
            Method::Lars(_) => self.lars(updates, learning_rate, norms),
            _ => Ok(updates.into_iter().map(|update| self.elementwise(update, learning_rate)).collect()),
        }
    }

    /// Rules that look at each element alone.
    fn elementwise(&mut self, update: Update, learning_rate: f64) -> Tensor<1> {
        let Update { key, is_matrix, value, gradient } = update;
        let memory = self.memory.remove(&key);
        let (method, decay) = self.rule(is_matrix);
        let (value, memory) = match method {
            Method::AdamW(_) if kernels::has_adamw(&value) => {
                self.adamw((value, decay), gradient, memory, learning_rate)
            }
            Method::AdamW(rule) => {
                let state = memory.map(|memory| AdamWState::new(adaptive(memory)));
                let (value, state) = rule.step(learning_rate, value, gradient, state);
                (value, state.map(|state| remembered(state.momentum)))
            }
            Method::Adam(rule) => {
                let state = memory.map(|memory| AdamState::new(adaptive(memory)));
                let (value, state) = rule.step(learning_rate, value, gradient, state);
                (value, state.map(|state| remembered(state.momentum)))
            }
            Method::Sgd => {
                let change = decayed(gradient, &value, decay) * learning_rate;
                (value - change, None)
            }
            Method::Momentum(_) if kernels::is_plain(&value) => {
                self.momentum((value, decay), gradient, memory, learning_rate)
            }
            Method::Momentum(rule) => {
                let (velocity, memory) = accelerate(rule, decayed(gradient, &value, decay), memory);
                (value - velocity * learning_rate, Some(memory))
            }
            Method::Lamb(_) | Method::Lars(_) => unreachable!("rules with norms see all pieces at once"),
        };
        self.memory.extend(memory.map(|memory| (key, memory)));
        value
    }

    /// Computes the update of Burn's rule in one pass over memory.
    fn adamw(
        &self,
        (value, decay): (Tensor<1>, f32),
        gradient: Tensor<1>,
        memory: Option<OptimizerState>,
        learning_rate: f64,
    ) -> (Tensor<1>, Option<OptimizerState>) {
        let time = memory.as_ref().map_or(0, |memory| memory.time) + 1;
        let HyperParameters { betas, epsilon, .. } = self.hyper_parameters;
        let step = AdamWStep {
            learning_rate,
            betas: [betas.0, betas.1].map(f64::from),
            epsilon: f64::from(epsilon),
            weight_decay: f64::from(decay),
            time: time as u64,
        };
        let (value, means) = kernels::adamw(&step, value, gradient, memory.map(|memory| two(memory.means)));
        (value, Some(OptimizerState { time, means: means.to_vec() }))
    }

    /// The same for momentum.
    fn momentum(
        &self,
        (value, decay): (Tensor<1>, f32),
        gradient: Tensor<1>,
        memory: Option<OptimizerState>,
        learning_rate: f64,
    ) -> (Tensor<1>, Option<OptimizerState>) {
        let time = memory.as_ref().map_or(0, |memory| memory.time) + 1;
        let step =
            MomentumStep { learning_rate, momentum: self.hyper_parameters.momentum, weight_decay: f64::from(decay) };
        let velocity = memory.and_then(|mut memory| memory.means.pop());
        let (value, velocity) = kernels::momentum(&step, value, gradient, velocity);
        (value, Some(OptimizerState { time, means: vec![velocity] }))
    }

    /// Computes LAMB's update: You et al., arXiv:1904.00962, algorithm 2, with φ the identity. Burn's rule at rate 1
    /// and without its own norms, which know one piece only, gives the direction.
    fn lamb(
        &mut self,
        updates: Vec<Update>,
        learning_rate: f64,
        norms: WholeNorms<'_>,
    ) -> Result<Vec<Tensor<1>>, GroupError> {
        let mut steps = Vec::new();
        for Update { key, is_matrix, value, gradient } in updates {
            let (Method::Lamb(rule), _) = self.rule(is_matrix) else { unreachable!("called for LAMB only") };
            let rule = rule.clone();
            let state = self.memory.remove(&key).map(|OptimizerState { time, means }| {
                let [moment_1, moment_2] = two(means);
                LambState { time, moment_1, moment_2 }
            });
            let (next, state) = rule.step(1.0, value.clone(), gradient, state);
            let direction = value.clone() - next;
            if let Some(LambState { time, moment_1, moment_2 }) = state {
                self.memory.insert(key, OptimizerState { time, means: vec![moment_1, moment_2] });
            }
            steps.push((is_matrix, value, direction));
        }
        let both: Vec<&Tensor<1>> = steps.iter().flat_map(|(_, value, direction)| [value, direction]).collect();
        let squares = norms(square_sums(&both))?;
        let each = steps.into_iter().zip(squares.chunks(2));
        Ok(each
            .map(|((is_matrix, value, direction), squares)| {
                let (weight, step) = (squares[0].sqrt(), squares[1].sqrt());
                let trust = if is_matrix && weight > 0.0 && step > 0.0 { weight / step } else { 1.0 };
                value - direction * (learning_rate * f64::from(trust))
            })
            .collect())
    }

    /// Computes LARS's update: You et al., arXiv:1708.03888, algorithm 1.
    fn lars(
        &mut self,
        updates: Vec<Update>,
        learning_rate: f64,
        norms: WholeNorms<'_>,
    ) -> Result<Vec<Tensor<1>>, GroupError> {
        let both: Vec<&Tensor<1>> = updates.iter().flat_map(|update| [&update.value, &update.gradient]).collect();
        let squares = norms(square_sums(&both))?;
        let Method::Lars(rule) = &self.method else { unreachable!("called for LARS only") };
        let trust = self.hyper_parameters.trust;
        let mut values = Vec::new();
        for (Update { key, is_matrix, value, gradient }, squares) in updates.into_iter().zip(squares.chunks(2)) {
            let (weight, slope) = (squares[0].sqrt(), squares[1].sqrt());
            let (_, weight_decay) = self.rule(is_matrix);
            let local = if is_matrix && weight > 0.0 && slope > 0.0 {
                trust * weight / (slope + weight_decay * weight)
            } else {
                1.0
            };
            let scaled = decayed(gradient, &value, weight_decay) * (learning_rate * f64::from(local));
            let (velocity, memory) = accelerate(rule, scaled, self.memory.remove(&key));
            self.memory.insert(key, memory);
            values.push(value - velocity);
        }
        Ok(values)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the optimizer state, by parameter.
    pub(crate) fn memory(&self) -> &BTreeMap<ParameterKey, OptimizerState> {
        &self.memory
    }

    /// Restores what [`Self::memory`] returned.
    pub(crate) fn restore(&mut self, key: ParameterKey, memory: OptimizerState) {
        self.memory.insert(key, memory);
    }
}

/// Returns the gradient with weight decay added (Goyal et al., arXiv:1706.02677, section 3).
fn decayed(gradient: Tensor<1>, value: &Tensor<1>, decay: f32) -> Tensor<1> {
    if decay > 0.0 { gradient + value.clone() * decay } else { gradient }
}

fn adaptive(OptimizerState { time, means }: OptimizerState) -> AdaptiveMomentumState<1> {
    let [first, second] = two(means);
    AdaptiveMomentumState::new(time, first, second)
}

fn remembered(state: AdaptiveMomentumState<1>) -> OptimizerState {
    OptimizerState { time: state.time, means: vec![state.moment_1, state.moment_2] }
}

fn two(means: Vec<Tensor<1>>) -> [Tensor<1>; 2] {
    means.try_into().expect("rules with two moments remember two")
}

fn accelerate(rule: &Momentum, gradient: Tensor<1>, memory: Option<OptimizerState>) -> (Tensor<1>, OptimizerState) {
    let time = memory.as_ref().map_or(0, |memory| memory.time);
    let before = memory.and_then(|mut memory| memory.means.pop()).map(MomentumState::new);
    let (velocity, _) = rule.transform(gradient, before);
    (velocity.clone(), OptimizerState { time: time + 1, means: vec![velocity] })
}

/// Returns the sum of the squares of all elements of each tensor. A device is waited for once, not for each of them.
pub(crate) fn square_sums(tensors: &[&Tensor<1>]) -> Vec<f32> {
    if tensors.iter().all(|tensor| kernels::is_plain(tensor)) {
        return tensors.iter().map(|tensor| kernels::square_sum(tensor)).collect();
    }
    let is_empty = |tensor: &Tensor<1>| tensor.shape().num_elements() == 0;
    let there = tensors.iter().filter(|tensor| !is_empty(tensor));
    let sums: Vec<Tensor<1>> = there.map(|tensor| kernels::square_sum_there((*tensor).clone())).collect();
    if sums.is_empty() {
        return vec![0.0; tensors.len()];
    }
    let mut sums = to_vec(Tensor::cat(sums, 0)).into_iter();
    tensors.iter().map(|tensor| if is_empty(tensor) { 0.0 } else { sums.next().expect("one each") }).collect()
}

/// Returns the names that files give the running means that a rule keeps of each element.
pub(crate) fn means_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::AdamW | Kind::Adam | Kind::Lamb => &["first_moments", "second_moments"],
        Kind::Momentum | Kind::Lars => &["velocities"],
        Kind::Sgd => &[],
        Kind::AdamW8bit | Kind::RmsProp => unreachable!("plans with it are refused before they run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    const STEPS: i32 = 4;

    fn tensor(values: &[f64]) -> Tensor<1> {
        let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        Tensor::from_data(TensorData::new(values.clone(), [values.len()]), &Device::flex())
    }

    fn gradient(step: i32) -> [f64; 3] {
        [0.3 / f64::from(step), -0.1 * f64::from(step), 0.02]
    }

    /// The papers' algorithms, element by element in double precision.
    fn by_hand(kind: Kind, rate: f64) -> [f64; 3] {
        let HyperParameters { betas, epsilon, weight_decay, momentum, trust, .. } = HyperParameters::of(kind);
        let (b1, b2, decay) = (f64::from(betas.0), f64::from(betas.1), f64::from(weight_decay));
        let (mut weight, mut m, mut v, mut velocity) = ([0.5, -1.5, 2.0], [0.0; 3], [0.0; 3], [0.0; 3]);
        for step in 1..=STEPS {
            let mut slope = gradient(step);
            let norm = |values: &[f64; 3]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
            match kind {
                Kind::Momentum => (0..3).for_each(|i| slope[i] += decay * weight[i]),
                Kind::Lars => {
                    let local = f64::from(trust) * norm(&weight) / (norm(&slope) + decay * norm(&weight));
                    (0..3).for_each(|i| slope[i] = local * (slope[i] + decay * weight[i]));
                }
                _ => {}
            }
            let adaptive: [f64; 3] = std::array::from_fn(|i| {
                m[i] = b1 * m[i] + (1.0 - b1) * slope[i];
                v[i] = b2 * v[i] + (1.0 - b2) * slope[i] * slope[i];
                m[i] / (1.0 - b1.powi(step)) / ((v[i] / (1.0 - b2.powi(step))).sqrt() + f64::from(epsilon))
            });
            let change: [f64; 3] = match kind {
                Kind::Adam => adaptive,
                Kind::AdamW => std::array::from_fn(|i| adaptive[i] + decay * weight[i]),
                Kind::Lamb => {
                    let direction = std::array::from_fn(|i| adaptive[i] + decay * weight[i]);
                    let trust = norm(&weight) / norm(&direction);
                    direction.map(|change| trust * change)
                }
                Kind::Sgd => slope,
                Kind::Momentum | Kind::Lars => {
                    velocity = std::array::from_fn(|i| velocity[i] * momentum + slope[i]);
                    velocity
                }
                Kind::AdamW8bit | Kind::RmsProp => unreachable!("it is not run"),
            };
            (0..3).for_each(|i| weight[i] -= rate * change[i]);
        }
        weight
    }

    #[test]
    fn descent_decays_weights_with_and_without_velocity() {
        for kind in [Kind::Sgd, Kind::Momentum] {
            let numbers = HyperParameters { weight_decay: 0.25, ..HyperParameters::of(kind) };
            let update = Update {
                key: ParameterKey::new(0, 0),
                is_matrix: true,
                value: tensor(&[0.5, -1.5, 2.0]),
                gradient: tensor(&[1.0, 0.0, -2.0]),
            };
            let stepped =
                RankOptimizer::new(kind, numbers).step(vec![update], 0.5, &Ok).expect("nobody else").remove(0);
            let found = stepped.into_data().try_into_vec::<f32>().expect("single precision");
            // value - 0.5 · (gradient + 0.25 · value): a velocity begins as the first gradient.
            assert_eq!(found, [-0.0625, -1.3125, 2.75], "{kind}");
        }
    }

    #[test]
    fn vectors_are_decayed_only_if_all_parameters_are() {
        for kind in [Kind::AdamW, Kind::Adam, Kind::Lamb, Kind::Sgd, Kind::Momentum, Kind::Lars] {
            let stepped = |is_matrix: bool, weight_decay: f32, decays_all: bool| {
                let numbers = HyperParameters { weight_decay, decays_all, ..HyperParameters::of(kind) };
                let (value, gradient) = (tensor(&[0.5, -1.5, 2.0]), tensor(&[1.0, 0.0, -2.0]));
                let update = Update { key: ParameterKey::new(0, 0), is_matrix, value, gradient };
                let new =
                    RankOptimizer::new(kind, numbers).step(vec![update], 0.5, &Ok).expect("nobody else").remove(0);
                new.into_data().try_into_vec::<f32>().expect("single precision")
            };
            assert_eq!(stepped(false, 0.25, false), stepped(false, 0.0, false), "{kind}");
            assert_ne!(stepped(false, 0.25, true), stepped(false, 0.0, true), "{kind}");
            assert_ne!(stepped(true, 0.25, false), stepped(true, 0.0, false), "{kind}");
            assert_eq!(stepped(true, 0.25, false), stepped(true, 0.25, true), "{kind}");
        }
    }

    #[test]
    fn every_rule_is_that_of_its_paper() {
        for kind in [Kind::Adam, Kind::AdamW, Kind::Lamb, Kind::Sgd, Kind::Momentum, Kind::Lars] {
            let mut optimizer = RankOptimizer::new(kind, HyperParameters::of(kind));
            let mut weight = tensor(&[0.5, -1.5, 2.0]);
            for step in 1..=STEPS {
                let key = ParameterKey::new(0, 0);
                let update = Update { key, is_matrix: true, value: weight, gradient: tensor(&gradient(step)) };
                weight = optimizer.step(vec![update], 0.1, &Ok).expect("nobody else").remove(0);
            }
            let found = weight.into_data().try_into_vec::<f32>().expect("single precision");
            for (found, expected) in found.into_iter().zip(by_hand(kind, 0.1)) {
                assert!((f64::from(found) - expected).abs() < 1e-5, "{kind}: {found} and {expected}");
            }
            let memory = optimizer.memory().get(&ParameterKey::new(0, 0));
            assert_eq!(memory.map_or(0, |memory| memory.means.len()), means_of(kind).len(), "{kind}");
        }
    }
}
