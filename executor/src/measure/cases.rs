//! The grid of operators and shapes, and how each is run once.

use crate::clock::Clock;
use crate::gpt::{Builder, Stage, StageInput, attention, causal_mask, cross_entropy, embed, tied_head};
use crate::gradients::GradientBucket;
use crate::optimizer::StageOptimizer;
use crate::parameters::ParameterKey;
use crate::statistics::median;
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use trainyard_hardware_profiles::OperatorClass;
use trainyard_models::{AttentionKernel, Gpt};
use trainyard_plan::Optimizer;

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
            let gpt = parameter_model(self.dimensions);
            let keys = ParameterKey::all(&gpt);
            let parameters = keys.iter().map(|key| key.describe(&gpt).shape.iter().product::<usize>() as u64).sum();
            return vec![parameters, keys.len() as u64];
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
            let mask = causal_mask(c, &device);
            passes([a, c, 3 * b * d], [a, c, b * d], &device, move |qkv| attention(qkv, b, &mask))
        }
        OperatorClass::LayerNorm => {
            let norm = burn::nn::LayerNormConfig::new(b).init(&device);
            passes([1, a, b], [1, a, b], &device, move |x| norm.forward(x))
        }
        OperatorClass::Activation => passes([1, a, b], [1, a, b], &device, gelu),
        OperatorClass::Residual => residual(a, b, &device),
        OperatorClass::Embedding => embedding(a, b, c, d, &device),
        OperatorClass::TiedHead => {
            let table = leaf([c, b], 3, &device);
            passes([a, b], [a, c], &device, move |rows| tied_head(rows, table.clone()))
        }
        OperatorClass::CrossEntropy => {
            let targets = tokens(a, b, &device);
            passes([a, b], [1], &device, move |logits| cross_entropy(logits, targets.clone()))
        }
        OperatorClass::AdamW => update(Optimizer::AdamW, case.dimensions),
        OperatorClass::Sgd => update(Optimizer::Sgd, case.dimensions),
        OperatorClass::Accumulate => gather(case.dimensions, Gathering::Add),
        OperatorClass::Flatten => gather(case.dimensions, Gathering::Copy),
    }
}

/// Values between −1 and 1 that repeat nowhere near.
fn values(length: usize, start: usize) -> Vec<f32> {
    (0..length).map(|i| ((i + start).wrapping_mul(2_654_435_761) % 65_536) as f32 / 32_768.0 - 1.0).collect()
}

fn plain<const D: usize>(shape: [usize; D], start: usize, device: &Device) -> Tensor<D> {
    let length = shape.iter().product();
    Tensor::from_data(TensorData::new(values(length, start), shape), device)
}

fn leaf<const D: usize>(shape: [usize; D], start: usize, device: &Device) -> Tensor<D> {
    plain(shape, start, device).require_grad()
}

fn tokens(rows: usize, vocabulary: usize, device: &Device) -> Tensor<1, Int> {
    let ids: Vec<u32> = (0..rows).map(|i| (i.wrapping_mul(2_654_435_761) % vocabulary) as u32).collect();
    Tensor::from_data(TensorData::new(ids, [rows]), device)
}

/// Times an operator that turns one tensor into another. Its gradient comes from outside, as from a next operator.
fn passes<const I: usize, const O: usize>(
    input: [usize; I],
    output: [usize; O],
    device: &Device,
    forward: impl Fn(Tensor<I>) -> Tensor<O> + 'static,
) -> Run {
    let start = Tensor::<I>::from_data(TensorData::new(values(input.iter().product(), 1), input), device);
    passes_from(output, device, move || fresh(&start), forward)
}

/// A tensor with the same values that nobody else holds, as the result of an operator before.
fn fresh<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    let data = tensor.clone().inner().into_data();
    let copy = TensorData::new(data.as_slice::<f32>().expect("single precision").to_vec(), tensor.dims());
    Tensor::from_data(copy, &tensor.device()).require_grad()
}

fn passes_from<I: 'static, const O: usize>(
    output: [usize; O],
    device: &Device,
    input: impl Fn() -> I + 'static,
    forward: impl Fn(I) -> Tensor<O> + 'static,
) -> Run {
    let plain_device = device.clone().inner();
    let gradient = plain(output, 7, &plain_device);
    let device = device.clone();
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

fn backward_seconds<const O: usize>(result: Tensor<O>, gradient: &Tensor<O>) -> f64 {
    let root = (result * Tensor::from_inner(gradient.clone())).sum();
    let clock = Clock::start();
    drop(root.backward());
    drop(root);
    clock.seconds()
}

fn linear(rows: usize, inputs: usize, outputs: usize, device: &Device) -> Run {
    let (weight, bias) = (leaf([inputs, outputs], 2, device), leaf([outputs], 3, device));
    passes([1, rows, inputs], [1, rows, outputs], device, move |x| {
        burn::tensor::module::linear(x, weight.clone(), Some(bias.clone()))
    })
}

/// The residual stream is still held by the branch that left it, and the branch's result by nobody; on the way back
/// the gradients of both are summed.
fn residual(rows: usize, width: usize, device: &Device) -> Run {
    let shape = [1, rows, width];
    let stream = leaf(shape, 1, device);
    let mut forward = passes_from(
        shape,
        device,
        {
            let stream = stream.clone();
            move || fresh(&stream)
        },
        {
            let stream = stream.clone();
            move |branch| stream.clone() + branch
        },
    );
    let mut backward = passes_from(shape, device, move || stream.clone(), |stream| stream.clone() + stream);
    Box::new(move || [forward()[0], backward()[1]])
}

fn embedding(rows: usize, vocabulary: usize, positions: usize, width: usize, device: &Device) -> Run {
    let (table, places) = (leaf([vocabulary, width], 2, device), leaf([positions, width], 3, device));
    let samples = rows / positions;
    let ids = tokens(rows, vocabulary, device).reshape([samples, positions]);
    passes_from(
        [samples, positions, width],
        device,
        move || ids.clone(),
        move |ids| embed(ids, table.clone(), places.clone()),
    )
}

/// A model that only serves to have parameters.
fn parameter_model([blocks, hidden, ..]: [usize; 4]) -> Gpt {
    Gpt {
        name: "parameters".into(),
        layers: blocks as u32,
        hidden: hidden as u64,
        heads: 2,
        ffn: 4 * hidden as u64,
        vocab: 256,
        seq_len: 64,
        attention: AttentionKernel::Unfused,
    }
}

fn parameter_stage(dimensions: [usize; 4], device: &Device) -> Stage {
    let gpt = parameter_model(dimensions);
    let small = |key: ParameterKey| -> Vec<f32> {
        let length = key.describe(&gpt).shape.iter().product();
        values(length, key.slot as usize).into_iter().map(|value| value * 0.02).collect()
    };
    Builder { gpt: &gpt, device, values: small }.stage(0..gpt.layers as usize + 2)
}

/// Gradients of all parameters, from the smallest batch there is.
fn gradients(stage: &Stage, device: &Device) -> Gradients {
    let ids = tokens(64, 256, device);
    let input = StageInput::Tokens(ids.clone().reshape([1, 64]));
    stage.loss(stage.activations(input, &causal_mask(64, device)), ids).backward()
}

fn update(kind: Optimizer, dimensions: [usize; 4]) -> Run {
    let device = Device::flex().autodiff();
    let stage = parameter_stage(dimensions, &device);
    let mut bucket = GradientBucket::new(&stage);
    bucket.gather(&stage, &mut gradients(&stage, &device));
    let mut optimizer = StageOptimizer::new(kind);
    let mut stage = Some(stage);
    Box::new(move || {
        let module = stage.take().expect("it is put back below");
        let clock = Clock::start();
        stage = Some(optimizer.step(module, &bucket, 1e-6));
        [clock.seconds(), 0.0]
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gathering {
    Copy,
    Add,
}

fn gather(dimensions: [usize; 4], gathering: Gathering) -> Run {
    let device = Device::flex().autodiff();
    let stage = parameter_stage(dimensions, &device);
    let mut bucket = GradientBucket::new(&stage);
    bucket.gather(&stage, &mut gradients(&stage, &device));
    Box::new(move || {
        let mut gradients = gradients(&stage, &device);
        if gathering == Gathering::Copy {
            bucket.start();
        }
        let clock = Clock::start();
        bucket.gather(&stage, &mut gradients);
        [clock.seconds(), 0.0]
    })
}
