//! How each case is run once: the very functions that training runs, with their gradients.

use super::cases::Case;
use super::functions;
use crate::clock::Clock;
use crate::gpt::{Builder, Stage, StageInput, attention, causal_mask, cross_entropy, embed, tied_head};
use crate::gradients::GradientBucket;
use crate::optimizer::StageOptimizer;
use crate::parameters::ParameterKey;
use crate::statistics::median;
use burn::tensor::activation::gelu;
use burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use trainyard_hardware_profiles::{NumberFormat, OperatorClass};
use trainyard_models::{AttentionKernel, Gpt};
use trainyard_plan::Optimizer;

/// Runs a case once and says how long its passes took.
pub(super) type Run = Box<dyn FnMut() -> [f64; 2]>;

/// Makes what `case` needs, once, and returns what runs it.
pub(super) fn prepare(case: Case) -> Run {
    let bench = Bench::new(case.format);
    let sizes = case.dimensions;
    let [a, b, c, d, ..] = sizes;
    match case.operator {
        OperatorClass::Linear => bench.linear(a, b, c),
        OperatorClass::Attention => {
            let mask = causal_mask(c, &bench.device);
            let run = move |qkv: Tensor<2>| {
                attention(qkv.reshape([a, c, 3 * b * d]), b, &mask).reshape([a * c, b * d])
            };
            bench.passes([a * c, 3 * b * d], [a * c, b * d], run)
        }
        OperatorClass::FullAttention => {
            bench.passes([a * c, 3 * b * d], [a * c, b * d], move |qkv| functions::full_attention(qkv, a, b))
        }
        OperatorClass::LayerNorm => {
            let norm = burn::nn::LayerNormConfig::new(b).init(&bench.device);
            let (gamma, beta) = (bench.like(norm.gamma.val()), bench.like(norm.beta.expect("it shifts").val()));
            bench.passes([a, b], [a, b], move |x| burn::tensor::module::layer_norm(x, gamma.clone(), Some(beta.clone()), 1e-5))
        }
        OperatorClass::RmsNorm => {
            let scale = bench.leaf([b], 2);
            bench.passes([a, b], [a, b], move |x| functions::rms_norm(x, scale.clone()))
        }
        OperatorClass::Activation => bench.passes([a, b], [a, b], gelu),
        OperatorClass::Relu => bench.passes([a, b], [a, b], burn::tensor::activation::relu),
        OperatorClass::GatedActivation => bench.passes([a, 2 * b], [a, b], functions::gated),
        OperatorClass::Rotary => {
            let angles = functions::angles(a, b, &bench.device, bench.format);
            bench.passes([a, b], [a, b], move |x| functions::rotary(x, &angles))
        }
        OperatorClass::Residual => bench.residual(a, b),
        OperatorClass::Embedding => bench.embedding(a, b, c, d),
        OperatorClass::ClassToken => {
            let (token, places) = (bench.leaf([1, b], 2), bench.leaf([a, b], 3));
            bench.passes([a - 1, b], [a, b], move |x| functions::class_token(x, token.clone(), places.clone()))
        }
        OperatorClass::TiedHead => {
            let table = bench.leaf([c, b], 3);
            bench.passes([a, b], [a, c], move |rows| tied_head(rows, table.clone()))
        }
        OperatorClass::Convolution | OperatorClass::BatchNorm | OperatorClass::MaxPool | OperatorClass::MeanPool => {
            bench.over_maps(case)
        }
        OperatorClass::CrossEntropy => {
            let targets = tokens(a, b, &bench.device);
            // The loss is computed in single precision whatever the format.
            let single = Bench::new(NumberFormat::Fp32);
            let start = bench.start([a, b]);
            let loss = move |logits: Tensor<2>| cross_entropy(logits.cast(DType::F32), targets.clone());
            single.passes_from([1], move || start.fresh(), loss)
        }
        OperatorClass::AdamW => update(Optimizer::AdamW, sizes),
        OperatorClass::Sgd => update(Optimizer::Sgd, sizes),
        OperatorClass::Momentum => functions::update(Optimizer::Momentum, parameter_shapes(sizes)),
        OperatorClass::Lars => functions::update(Optimizer::Lars, parameter_shapes(sizes)),
        OperatorClass::Lamb => functions::update(Optimizer::Lamb, parameter_shapes(sizes)),
        OperatorClass::Accumulate => gather(sizes, Gathering::Add),
        OperatorClass::Flatten => gather(sizes, Gathering::Copy),
        OperatorClass::Rounding => bench.rounding(sizes),
    }
}

/// Where cases run, and in which format.
struct Bench {
    device: Device,
    format: DType,
}

/// A tensor that is made anew for each run, as the result of an operator before.
struct Start<const D: usize> {
    values: Tensor<D>,
    format: DType,
}

impl<const D: usize> Start<D> {
    /// A tensor with the same values that nobody else holds.
    fn fresh(&self) -> Tensor<D> {
        let plain = self.values.clone().inner();
        let copy = if self.format == DType::F32 {
            let data = plain.into_data();
            let values = data.as_slice::<f32>().expect("it was made in single precision").to_vec();
            Tensor::from_data(TensorData::new(values, self.values.dims()), &self.values.device())
        } else {
            Tensor::from_inner(plain.cast(self.format))
        };
        copy.require_grad()
    }
}

impl Bench {
    fn new(format: NumberFormat) -> Self {
        let format = match format {
            NumberFormat::Fp32 => DType::F32,
            NumberFormat::Fp16 => DType::F16,
            NumberFormat::Bf16 => DType::BF16,
        };
        Self { device: Device::flex().autodiff(), format }
    }

    fn plain<const D: usize>(&self, shape: [usize; D], start: usize) -> Tensor<D> {
        let length = shape.iter().product();
        let plain = self.device.clone().inner();
        Tensor::<D>::from_data(TensorData::new(values(length, start), shape), &plain).cast(self.format)
    }

    fn leaf<const D: usize>(&self, shape: [usize; D], start: usize) -> Tensor<D> {
        Tensor::from_inner(self.plain(shape, start)).require_grad()
    }

    /// A leaf with the values of another tensor.
    fn like<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        Tensor::from_inner(tensor.inner().cast(self.format)).require_grad()
    }

    fn start<const D: usize>(&self, shape: [usize; D]) -> Start<D> {
        let data = TensorData::new(values(shape.iter().product(), 1), shape);
        Start { values: Tensor::from_data(data, &self.device), format: self.format }
    }

    /// Times an operator that turns one tensor into another. Its gradient comes from outside, as from a next operator.
    fn passes<const I: usize, const O: usize>(
        &self,
        input: [usize; I],
        output: [usize; O],
        forward: impl Fn(Tensor<I>) -> Tensor<O> + 'static,
    ) -> Run {
        let start = self.start(input);
        self.passes_from(output, move || start.fresh(), forward)
    }

    fn passes_from<I: 'static, const O: usize>(
        &self,
        output: [usize; O],
        input: impl Fn() -> I + 'static,
        forward: impl Fn(I) -> Tensor<O> + 'static,
    ) -> Run {
        let gradient = self.plain(output, 7);
        // What putting the gradient in costs is no part of the operator.
        let harness: Vec<f64> = (0..3).map(|_| backward_seconds(self.leaf(output, 5), &gradient)).collect();
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

    fn linear(&self, rows: usize, inputs: usize, outputs: usize) -> Run {
        let (weight, bias) = (self.leaf([inputs, outputs], 2), self.leaf([outputs], 3));
        self.passes([rows, inputs], [rows, outputs], move |x| {
            burn::tensor::module::linear(x, weight.clone(), Some(bias.clone()))
        })
    }

    /// The residual stream is still held by the branch that left it, and the branch's result by nobody; on the way
    /// back the gradients of both are summed.
    fn residual(&self, rows: usize, width: usize) -> Run {
        let shape = [rows, width];
        let (start, stream) = (self.start(shape), self.leaf(shape, 1));
        let added = stream.clone();
        let mut forward = self.passes_from(shape, move || start.fresh(), move |branch| added.clone() + branch);
        let mut backward = self.passes_from(shape, move || stream.clone(), |stream| stream.clone() + stream);
        Box::new(move || [forward()[0], backward()[1]])
    }

    fn embedding(&self, rows: usize, vocabulary: usize, positions: usize, width: usize) -> Run {
        let (table, places) = (self.leaf([vocabulary, width], 2), self.leaf([positions, width], 3));
        // One position stands for none: descriptions without learned positions have no table of them.
        let samples = rows / positions;
        let ids = tokens(rows, vocabulary, &self.device).reshape([samples, positions]);
        let learned = positions > 1;
        self.passes_from([rows, width], move || ids.clone(), move |ids| {
            let sum = if learned {
                embed(ids, table.clone(), places.clone())
            } else {
                burn::tensor::module::embedding(table.clone(), ids)
            };
            sum.reshape([rows, width])
        })
    }

    fn over_maps(&self, case: Case) -> Run {
        let [samples, second, third, fourth, side, stride] = case.dimensions;
        match case.operator {
            OperatorClass::Convolution => {
                let (inputs, outputs) = (third, fourth);
                let weight = self.leaf([outputs, inputs, side, side], 2);
                let shape = [samples, inputs, second * stride, second * stride];
                self.passes(shape, [samples, outputs, second, second], move |x| {
                    functions::convolution(x, weight.clone(), stride)
                })
            }
            OperatorClass::BatchNorm => {
                let (scale, shift) = (self.leaf([third], 2), self.leaf([third], 3));
                let shape = [samples, third, second, 1];
                self.passes(shape, shape, move |x| functions::batch_norm(x, scale.clone(), shift.clone()))
            }
            OperatorClass::MaxPool => {
                let edge = (second as f64).sqrt().round() as usize;
                let [input, output] = [2 * edge, edge].map(|edge| [samples, third, edge, edge]);
                self.passes(input, output, functions::max_pool)
            }
            _ => {
                let shape = [samples, third, second, 1];
                self.passes(shape, [samples, third], functions::mean_pool)
            }
        }
    }

    /// Single-precision parameters rounded to the format of compute, tensor by tensor.
    fn rounding(&self, dimensions: [usize; 6]) -> Run {
        let plain = self.device.clone().inner();
        let lengths = parameter_shapes(dimensions).into_iter().map(|shape| shape.iter().product::<usize>());
        let master: Vec<Tensor<1>> =
            lengths.map(|length| Tensor::from_data(TensorData::new(values(length, 1), [length]), &plain)).collect();
        let format = self.format;
        Box::new(move || {
            let clock = Clock::start();
            let rounded: Vec<Tensor<1>> = master.iter().map(|tensor| tensor.clone().cast(format)).collect();
            let seconds = clock.seconds();
            std::hint::black_box(rounded);
            [seconds, 0.0]
        })
    }
}

/// Values between −1 and 1 that repeat nowhere near.
pub(super) fn values(length: usize, start: usize) -> Vec<f32> {
    (0..length).map(|i| ((i + start).wrapping_mul(2_654_435_761) % 65_536) as f32 / 32_768.0 - 1.0).collect()
}

fn tokens(rows: usize, vocabulary: usize, device: &Device) -> Tensor<1, Int> {
    let ids: Vec<u32> = (0..rows).map(|i| (i.wrapping_mul(2_654_435_761) % vocabulary) as u32).collect();
    Tensor::from_data(TensorData::new(ids, [rows]), device)
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

/// A model that only serves to have parameters.
fn parameter_model([blocks, hidden, ..]: [usize; 6]) -> Gpt {
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

/// The shapes of its parameters.
fn parameter_shapes(dimensions: [usize; 6]) -> Vec<Vec<usize>> {
    let gpt = parameter_model(dimensions);
    ParameterKey::all(&gpt).into_iter().map(|key| key.describe(&gpt).shape).collect()
}

/// How many parameters and tensors the model of a case over parameters has.
pub(super) fn parameters_of(dimensions: [usize; 6]) -> [u64; 2] {
    let shapes = parameter_shapes(dimensions);
    [shapes.iter().map(|shape| shape.iter().product::<usize>() as u64).sum(), shapes.len() as u64]
}

fn parameter_stage(dimensions: [usize; 6], device: &Device) -> Stage {
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

fn update(kind: Optimizer, dimensions: [usize; 6]) -> Run {
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

fn gather(dimensions: [usize; 6], gathering: Gathering) -> Run {
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
