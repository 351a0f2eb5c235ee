//! The grid of operators and shapes, and how each is run once.

use crate::clock::Clock;
use crate::network::operators::{
    Heads, attention, cross_entropy, from_vec, gelu, layer_norm, linear as product, look_up, seeded, to_vec,
};
use crate::network::{Network, ParameterKey, Role, TensorGroup};
use crate::optimizer::{RankOptimizer, Rule, Update};
use crate::process_group::alone;
use crate::statistics::median;
use crate::unit::{Builder, Shards, Unit};
use burn::tensor::{Device, FloatDType, Tensor};
use trainyard_hardware_profiles::OperatorClass;
use trainyard_models::{AttentionKernel, Gpt, Model};
use trainyard_plan::{Optimizer, StateSharding};

/// One operator at one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    /// What is timed.
    pub(super) operator: OperatorClass,
    /// Dimensions as the class names them; for classes over parameters, blocks and hidden width of a model with them.
    dimensions: [usize; 4],
}

/// Runs a case once and says how long its passes took.
pub(super) type Run = Box<dyn FnMut() -> [f64; 2]>;

/// (inputs, outputs) of linear layers, from tiny to about 1024 wide.
const LINEAR: [[usize; 2]; 12] = [
    [32, 96],
    [64, 64],
    [128, 128],
    [128, 384],
    [128, 512],
    [512, 128],
    [256, 768],
    [256, 1024],
    [1024, 256],
    [512, 512],
    [512, 2048],
    [1024, 1024],
];
const LINEAR_ROWS: [usize; 4] = [32, 256, 1024, 4096];
/// Multiply-adds of the largest linear layer that is timed: about 50 ms with its gradients on a small machine.
const LINEAR_MAX: usize = 140_000_000;

/// (samples, heads, sequence, head width)
const ATTENTION: [[usize; 4]; 13] = [
    [1, 2, 32, 16],
    [8, 4, 32, 32],
    [1, 4, 128, 32],
    [4, 4, 128, 32],
    [16, 4, 128, 32],
    [4, 4, 128, 64],
    [8, 4, 128, 16],
    [1, 8, 256, 32],
    [2, 4, 256, 64],
    [4, 2, 256, 16],
    [1, 2, 512, 64],
    [1, 3, 512, 32],
    [1, 1, 1024, 64],
];

/// (rows, width)
const POINTWISE: [[usize; 2]; 7] =
    [[32, 32], [128, 128], [512, 128], [2048, 128], [1024, 512], [128, 1024], [512, 2048]];

/// (rows, vocabulary, positions, width)
const EMBEDDING: [[usize; 4]; 5] =
    [[32, 256, 32, 32], [512, 256, 128, 128], [2048, 256, 128, 128], [1024, 256, 256, 512], [1024, 8192, 256, 256]];

/// (rows, width, vocabulary)
const TIED_HEAD: [[usize; 3]; 6] =
    [[32, 32, 256], [512, 128, 256], [2048, 128, 256], [1024, 256, 256], [1024, 512, 256], [128, 256, 4096]];

/// (rows, vocabulary)
const CROSS_ENTROPY: [[usize; 2]; 5] = [[32, 256], [512, 256], [2048, 256], [4096, 256], [128, 4096]];

/// (blocks, hidden) of the models whose parameters stand for all.
const PARAMETERS: [[usize; 2]; 4] = [[2, 32], [4, 128], [3, 256], [2, 512]];

/// Every case that is timed.
pub(super) fn grid() -> Vec<Case> {
    use OperatorClass::{
        Accumulate, Activation, AdamW, Attention, CrossEntropy, Embedding, Flatten, LayerNorm, Linear, Residual, Sgd,
        TiedHead,
    };
    let case = |operator, shape: &[usize]| {
        let mut dimensions = [0; 4];
        dimensions[..shape.len()].copy_from_slice(shape);
        Case { operator, dimensions }
    };
    let mut cases = Vec::new();
    for [inputs, outputs] in LINEAR {
        let rows = LINEAR_ROWS.into_iter().filter(|rows| rows * inputs * outputs <= LINEAR_MAX);
        cases.extend(rows.map(|rows| case(Linear, &[rows, inputs, outputs])));
    }
    cases.extend(ATTENTION.iter().map(|shape| case(Attention, shape)));
    for operator in [LayerNorm, Activation, Residual] {
        cases.extend(POINTWISE.iter().map(|shape| case(operator, shape)));
    }
    cases.extend(EMBEDDING.iter().map(|shape| case(Embedding, shape)));
    cases.extend(TIED_HEAD.iter().map(|shape| case(TiedHead, shape)));
    cases.extend(CROSS_ENTROPY.iter().map(|shape| case(CrossEntropy, shape)));
    for operator in [AdamW, Sgd, Accumulate, Flatten] {
        cases.extend(PARAMETERS.iter().map(|shape| case(operator, shape)));
    }
    cases
}

impl Case {
    /// The dimensions as the class names them.
    pub(super) fn shape(self) -> Vec<u64> {
        let [a, b, c, d] = self.dimensions.map(|size| size as u64);
        if super::is_whole(self.operator) {
            let network = parameter_network(self.dimensions);
            let parameters = network.keys().map(|key| network.parameter(key).elements() as u64).sum();
            return vec![parameters, network.keys().count() as u64];
        }
        match self.operator {
            OperatorClass::Attention | OperatorClass::Embedding => vec![a, b, c, d],
            OperatorClass::Linear | OperatorClass::TiedHead => vec![a, b, c],
            _ => vec![a, b],
        }
    }
}

/// Makes what `case` needs, once, and returns what runs it.
pub(super) fn prepare(case: Case) -> Run {
    let device = Device::flex().autodiff();
    let [a, b, c, d] = case.dimensions;
    match case.operator {
        OperatorClass::Linear => linear(a, b, c, &device),
        OperatorClass::Attention => {
            passes([a * c, 3 * b * d], [a * c, b * d], move |qkv| attention(qkv, Heads { samples: a, heads: b }))
        }
        OperatorClass::LayerNorm => {
            let (scale, shift) = (leaf([b], 2, &device), leaf([b], 3, &device));
            passes([a, b], [a, b], move |x| layer_norm(x, scale.clone(), shift.clone(), 1e-5))
        }
        OperatorClass::Activation => passes([a, b], [a, b], gelu),
        OperatorClass::Residual => residual(a, b, &device),
        OperatorClass::Embedding => embedding(a, b, c, d, &device),
        OperatorClass::TiedHead => {
            let table = leaf([c, b], 3, &device);
            passes([a, b], [a, c], move |rows| rows.matmul(table.clone().transpose()))
        }
        OperatorClass::CrossEntropy => {
            let (targets, group) = (tokens(a, b), alone_in_tensor_group());
            passes([a, b], [1, 1], move |logits| cross_entropy(logits, &targets, 0, &group))
        }
        OperatorClass::AdamW => update(Optimizer::AdamW, case.dimensions),
        OperatorClass::Sgd => update(Optimizer::Sgd, case.dimensions),
        OperatorClass::Accumulate => gather(case.dimensions, Gathering::Add),
        OperatorClass::Flatten => gather(case.dimensions, Gathering::Flatten),
    }
}

fn alone_in_tensor_group() -> TensorGroup {
    TensorGroup::new(alone(), false)
}

/// Values between −1 and 1 that repeat nowhere near.
fn values(length: usize, start: usize) -> Vec<f32> {
    (0..length).map(|i| ((i + start).wrapping_mul(2_654_435_761) % 65_536) as f32 / 32_768.0 - 1.0).collect()
}

fn plain<const D: usize>(shape: [usize; D], start: usize) -> Tensor<D> {
    from_vec(values(shape.iter().product(), start), shape, &Device::flex())
}

fn leaf<const D: usize>(shape: [usize; D], start: usize, device: &Device) -> Tensor<D> {
    from_vec(values(shape.iter().product(), start), shape, device).require_grad()
}

fn tokens(rows: usize, vocabulary: usize) -> Vec<i32> {
    (0..rows).map(|i| (i.wrapping_mul(2_654_435_761) % vocabulary) as i32).collect()
}

/// Times an operator that turns one tensor into another. Its gradient comes from outside, as from a next operator.
fn passes(input: [usize; 2], output: [usize; 2], forward: impl Fn(Tensor<2>) -> Tensor<2> + 'static) -> Run {
    let start = plain(input, 1);
    passes_from(output, move || fresh(&start), forward)
}

/// A tensor with the same values that nobody else holds, as the result of an operator before.
fn fresh(tensor: &Tensor<2>) -> Tensor<2> {
    let copy: Vec<f32> = to_vec(tensor.clone().inner()).as_slice().to_vec();
    from_vec(copy, tensor.dims(), &Device::flex().autodiff()).require_grad()
}

fn passes_from<I: 'static>(
    output: [usize; 2],
    input: impl Fn() -> I + 'static,
    forward: impl Fn(I) -> Tensor<2> + 'static,
) -> Run {
    let gradient = plain(output, 7);
    let device = Device::flex().autodiff();
    // What putting the gradient in costs is no part of the operator.
    let harness: Vec<f64> = (0..3).map(|_| backward_seconds(leaf(output, 5, &device), &gradient)).collect();
    let harness_s = median(&harness);
    let mut others = vec![0.0f32; OTHERS_BYTES / size_of::<f32>()];
    Box::new(move || {
        let argument = input();
        touch(&mut others);
        let clock = Clock::start();
        let result = forward(argument);
        let forward_s = clock.seconds();
        touch(&mut others);
        [forward_s, backward_seconds(result, &gradient) - harness_s]
    })
}

/// What other operators of a step read and write between two passes of one: more than the caches of a core hold, so
/// that an operator finds as little of its data there as it does in a step.
const OTHERS_BYTES: usize = 4 << 20;

fn touch(others: &mut [f32]) {
    for value in &mut *others {
        *value += 1.0;
    }
    std::hint::black_box(others);
}

fn backward_seconds(result: Tensor<2>, gradient: &Tensor<2>) -> f64 {
    let root = seeded(result, gradient.clone());
    let clock = Clock::start();
    drop(root.backward());
    drop(root);
    clock.seconds()
}

fn linear(rows: usize, inputs: usize, outputs: usize, device: &Device) -> Run {
    let (weight, bias) = (leaf([inputs, outputs], 2, device), leaf([outputs], 3, device));
    passes([rows, inputs], [rows, outputs], move |x| product(x, weight.clone(), Some(bias.clone())))
}

/// The residual stream is still held by the branch that left it, and the branch's result by nobody; on the way back
/// the gradients of both are summed.
fn residual(rows: usize, width: usize, device: &Device) -> Run {
    let shape = [rows, width];
    let stream = leaf(shape, 1, device);
    let mut forward = passes_from(
        shape,
        {
            let stream = stream.clone();
            move || fresh(&stream)
        },
        {
            let stream = stream.clone();
            move |branch| stream.clone() + branch
        },
    );
    let mut backward = passes_from(shape, move || stream.clone(), |stream| stream.clone() + stream);
    Box::new(move || [forward()[0], backward()[1]])
}

fn embedding(rows: usize, vocabulary: usize, positions: usize, width: usize, device: &Device) -> Run {
    let (table, places) = (leaf([vocabulary, width], 2, device), leaf([positions, width], 3, device));
    let samples = rows / positions;
    let (ids, group) = (tokens(rows, vocabulary), alone_in_tensor_group());
    passes_from(
        [rows, width],
        || (),
        move |()| {
            let rows = look_up(table.clone(), &ids, 0, &group).reshape([samples, positions, width]);
            (rows + places.clone().unsqueeze::<3>()).reshape([-1, width as i64])
        },
    )
}

/// A model that only serves to have parameters.
fn parameter_network([blocks, hidden, ..]: [usize; 4]) -> Network {
    let gpt = Gpt {
        name: "parameters".into(),
        layers: blocks as u32,
        hidden: hidden as u64,
        heads: 2,
        ffn: 4 * hidden as u64,
        vocab: 256,
        seq_len: 64,
        attention: AttentionKernel::Unfused,
    };
    Network::new(&Model::Gpt(gpt)).expect("decoders are built")
}

/// All layers of that model, as one rank holds them.
fn parameter_units(network: &Network) -> Vec<Unit> {
    let small = |key: ParameterKey| -> Vec<f32> {
        let length = network.parameter(key).elements();
        values(length, key.slot as usize).into_iter().map(|value| value * 0.02).collect()
    };
    let builder = Builder {
        network,
        tensor: &alone_in_tensor_group(),
        shards: Shards { state: StateSharding::None, count: 1, own: 0 },
        format: FloatDType::F32,
        device: &Device::flex(),
        values: &small,
        held_elsewhere: &|key| network.parameter(key).tied_to.is_some(),
    };
    (0..network.len()).map(|layer| builder.unit(layer)).collect()
}

/// A gradient for every parameter of a layer that is its own.
fn gradients(unit: &Unit) -> Vec<(usize, Tensor<1>)> {
    let own = unit.slots.iter().enumerate().filter(|(_, slot)| slot.role == Role::Trained && !slot.held_elsewhere);
    own.map(|(index, slot)| (index, plain([slot.length], index))).collect()
}

fn update(kind: Optimizer, dimensions: [usize; 4]) -> Run {
    let network = parameter_network(dimensions);
    let mut units = parameter_units(&network);
    let mut optimizer = RankOptimizer::new(kind, Rule::of(kind));
    Box::new(move || {
        let gradients: Vec<_> = units.iter().map(gradients).collect();
        let clock = Clock::start();
        for (unit, gradients) in units.iter_mut().zip(gradients) {
            let slots: Vec<usize> = gradients.iter().map(|(slot, _)| *slot).collect();
            let pieces = gradients.into_iter().map(|(slot, gradient)| {
                let (key, is_matrix) = (unit.slots[slot].key, unit.slots[slot].shape.len() > 1);
                Update { key, is_matrix, value: unit.take_master(slot), gradient }
            });
            let pieces = pieces.collect();
            let values = optimizer.step(pieces, 1e-6, &Ok).expect("nobody else takes part");
            slots.into_iter().zip(values).for_each(|(slot, value)| unit.put_master(slot, value));
        }
        [clock.seconds(), 0.0]
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gathering {
    /// Adds gradients to those of a micro-batch before.
    Add,
    /// Into a buffer for collectives, and back.
    Flatten,
}

fn gather(dimensions: [usize; 4], gathering: Gathering) -> Run {
    let network = parameter_network(dimensions);
    let mut units = parameter_units(&network);
    Box::new(move || {
        let mut seconds = 0.0;
        for unit in &mut units {
            let put = |unit: &mut Unit| {
                gradients(unit).into_iter().for_each(|(slot, gradient)| unit.add_gradient(slot, gradient))
            };
            put(unit);
            if gathering == Gathering::Add {
                let more = gradients(unit);
                let clock = Clock::start();
                more.into_iter().for_each(|(slot, gradient)| unit.add_gradient(slot, gradient));
                seconds += clock.seconds();
                unit.keep_gradients();
            } else {
                let clock = Clock::start();
                let buffer = unit.take_gradients();
                unit.put_reduced(&buffer);
                seconds += clock.seconds();
            }
            unit.slots.iter_mut().for_each(|slot| slot.reduced = None);
        }
        [seconds, 0.0]
    })
}
