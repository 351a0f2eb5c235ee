//! How each case is run once: the very functions that training runs, with their gradients.

use super::cases::Case;
use super::{Place, functions};
use crate::device::{computes_in_place, runs_at_once};
use crate::kernels;
use crate::network::operators::{
    Heads, attention, cross_entropy, from_vec, gelu, layer_norm, linear, look_up, seeded, tied_head,
};
use crate::network::{ExpertGroup, Network, ParameterKey, Role, TensorGroup};
use crate::optimizer::{HyperParameters, RankOptimizer, Update, square_sums};
use crate::process_group::alone;
use crate::statistics::median;
use crate::unit::{Builder, Shards, Unit};
use burn::tensor::{Device, FloatDType, Tensor};
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{NumberFormat, OperatorClass};
use trainyard_models::{AttentionKernel, Dropout, Gpt, Model};
use trainyard_plan::{Optimizer, StateSharding};

/// A case that can be run again and again: what it needs is made, then each pass says how many seconds it took.
pub(super) trait Run {
    /// Makes what the passes start from, as the results of operators before, and drops what is left of the last ones.
    fn begin(&mut self) {}

    fn forward(&mut self) -> f64;

    /// Operators over parameters have no such pass.
    fn backward(&mut self) -> f64 {
        0.0
    }
}

/// Something over parameters, done once a step: returns its seconds.
struct Once<F>(F);

impl<F: FnMut() -> f64> Run for Once<F> {
    fn forward(&mut self) -> f64 {
        (self.0)()
    }
}

/// An operator with a forward and a backward pass, so many times in a row.
struct Passes<I, M, F> {
    place: Place,
    runs: usize,
    input: M,
    forward: F,
    gradient: Tensor<2>,
    /// What putting the gradients in costs, which is no part of the operator.
    harness_s: f64,
    arguments: Vec<I>,
    results: Vec<Tensor<2>>,
    /// How often they were done.
    done: usize,
    /// The seconds of all runs forward and backward, alone on the device, with kernels that were there.
    alone_s: [Option<f64>; 2],
}

impl<I, M: Fn() -> I, F: Fn(I) -> Tensor<2>> Run for Passes<I, M, F> {
    fn begin(&mut self) {
        self.results.clear();
        self.arguments = (0..self.runs).map(|_| (self.input)()).collect();
    }

    fn forward(&mut self) -> f64 {
        let arguments = std::mem::take(&mut self.arguments);
        let forward = || arguments.into_iter().map(&self.forward).collect::<Vec<_>>();
        let (results, seconds) = self.place.timed_behind(self.alone_s[0], forward);
        self.results = results;
        self.done += 1;
        self.note(0, seconds);
        seconds / self.runs as f64
    }

    fn backward(&mut self) -> f64 {
        let results = std::mem::take(&mut self.results);
        let seconds = backward_seconds(results, &self.gradient, &self.place, self.alone_s[1]);
        self.note(1, seconds);
        (seconds - self.harness_s) / self.runs as f64
    }
}

impl<I, M, F> Passes<I, M, F> {
    /// Keeps how long the second pass took: the first one compiled its kernels.
    fn note(&mut self, direction: usize, seconds: f64) {
        if self.done == 2 {
            self.alone_s[direction] = Some(seconds);
        }
    }
}

/// The forward pass of one run and the backward pass of another.
struct Joined {
    forward: Box<dyn Run>,
    backward: Box<dyn Run>,
}

impl Run for Joined {
    fn begin(&mut self) {
        self.forward.begin();
        self.backward.begin();
    }

    fn forward(&mut self) -> f64 {
        self.backward.forward();
        self.forward.forward()
    }

    fn backward(&mut self) -> f64 {
        self.backward.backward()
    }
}

const EPSILON: f64 = 1e-5;

/// Features of a head whose positions are rotated, as most models have them.
const HEAD: usize = 64;

/// Makes what `case` needs on a device, once, and returns what runs it.
pub(super) fn prepare(case: Case, place: &Place) -> Box<dyn Run> {
    if case.operator.is_over_parameters() {
        return over_parameters(case, place.clone());
    }
    let bench = Bench::new(case.format, place.clone());
    let [a, b, c, d, ..] = case.dimensions;
    match case.operator {
        OperatorClass::Linear => {
            let (weight, bias) = (bench.leaf([b, c], 2), bench.leaf([c], 3));
            bench.passes([a, b], [a, c], move |x| linear(x, weight.clone(), Some(bias.clone())))
        }
        OperatorClass::Attention => {
            let heads = Heads { samples: a, count: b, dropout: None };
            bench.passes([a * c, 3 * b * d], [a * c, b * d], move |qkv| attention(qkv, heads))
        }
        OperatorClass::FullAttention => {
            bench.passes([a * c, 3 * b * d], [a * c, b * d], move |qkv| functions::full_attention(qkv, a, b))
        }
        OperatorClass::LayerNorm => {
            let (scale, shift) = (bench.leaf([b], 2), bench.leaf([b], 3));
            bench.passes([a, b], [a, b], move |x| layer_norm(x, scale.clone(), shift.clone(), EPSILON))
        }
        OperatorClass::RmsNorm => {
            let scale = bench.leaf([b], 2);
            bench.passes([a, b], [a, b], move |x| functions::rms_norm(x, scale.clone(), EPSILON))
        }
        OperatorClass::Activation => bench.passes([a, b], [a, b], gelu),
        OperatorClass::Relu => bench.passes([a, b], [a, b], kernels::relu),
        OperatorClass::GatedActivation => {
            let (gate, up) = (bench.start([a, b]), bench.start([a, b]));
            bench.passes_from([a, b], move || [gate.fresh(), up.fresh()], |[gate, up]| kernels::swiglu(gate, up))
        }
        OperatorClass::Rotary => {
            let width = 1 << b.trailing_zeros().min(HEAD.trailing_zeros());
            let angles = functions::angles(a, width);
            bench.passes([a, b], [a, b], move |x| kernels::rotate(x, &angles, b / width))
        }
        OperatorClass::Residual => bench.residual(a, b),
        OperatorClass::Dropout => {
            let mask = kernels::DropoutMask::new(0.1, 1, 0);
            bench.passes([a, b], [a, b], move |x| kernels::dropout(x, 1, &mask))
        }
        OperatorClass::Embedding => bench.embedding(a, b, c, d),
        OperatorClass::ClassToken => {
            let (token, places) = (bench.leaf([1, b], 2), bench.leaf([a, b], 3));
            bench.passes([a - 1, b], [a, b], move |x| functions::class_token(x, token.clone(), places.clone()))
        }
        OperatorClass::TiedHead => {
            let table = bench.leaf([c, b], 3);
            bench.passes([a, b], [a, c], move |rows| tied_head(rows, table.clone()))
        }
        OperatorClass::CrossEntropy => {
            let (targets, group) = (tokens(a, b), alone_in_tensor_group());
            // The loss is in single precision whatever comes in.
            let (start, single) = (bench.start([a, b]), Bench::new(NumberFormat::Fp32, place.clone()));
            single.passes_from([1, 1], move || start.fresh(), move |logits| cross_entropy(logits, &targets, 0, &group))
        }
        _ => bench.over_maps(case),
    }
}

fn over_parameters(case: Case, place: Place) -> Box<dyn Run> {
    let sizes = case.dimensions;
    match case.operator {
        OperatorClass::AdamW => update(Optimizer::AdamW, sizes, place),
        OperatorClass::Sgd => update(Optimizer::Sgd, sizes, place),
        OperatorClass::Momentum => update(Optimizer::Momentum, sizes, place),
        OperatorClass::Lars => update(Optimizer::Lars, sizes, place),
        OperatorClass::Lamb => update(Optimizer::Lamb, sizes, place),
        OperatorClass::Accumulate => gather(Gathering::Add, sizes, place),
        OperatorClass::Flatten => gather(Gathering::Flatten, sizes, place),
        _ => rounding(case.format, sizes, place),
    }
}

fn alone_in_tensor_group() -> TensorGroup {
    TensorGroup::new(alone(), false, None)
}

/// The device and the number format that cases run in.
struct Bench {
    place: Place,
    format: FloatDType,
}

/// A tensor that is made anew for each run, as the result of an operator before.
enum Start {
    Host {
        values: Vec<f32>,
        shape: [usize; 2],
        format: FloatDType,
        device: Device,
    },
    /// It stays there: bringing it again would take longer than the operator.
    Gpu(Tensor<2>),
}

impl Start {
    /// Returns a tensor with the same values that nobody else holds.
    fn fresh(&self) -> Tensor<2> {
        let plain = match self {
            Self::Host { values, shape, format, device } => from_vec(values.clone(), *shape, device).cast(*format),
            Self::Gpu(numbers) => numbers.clone() * 1.0,
        };
        Tensor::from_inner(plain).require_grad()
    }
}

fn format_of(format: NumberFormat) -> FloatDType {
    match format {
        NumberFormat::Fp32 => FloatDType::F32,
        NumberFormat::Fp16 => FloatDType::F16,
        NumberFormat::Bf16 => FloatDType::BF16,
    }
}

impl Bench {
    fn new(format: NumberFormat, place: Place) -> Self {
        Self { place, format: format_of(format) }
    }

    fn plain<const D: usize>(&self, shape: [usize; D], start: usize) -> Tensor<D> {
        from_vec(values(shape.iter().product(), start), shape, &self.place.device).cast(self.format)
    }

    fn leaf<const D: usize>(&self, shape: [usize; D], start: usize) -> Tensor<D> {
        Tensor::from_inner(self.plain(shape, start)).require_grad()
    }

    fn start(&self, shape: [usize; 2]) -> Start {
        if !computes_in_place(self.place.kind) {
            return Start::Gpu(self.plain(shape, 1));
        }
        let values = values(shape.iter().product(), 1);
        Start::Host { values, shape, format: self.format, device: self.place.device.clone() }
    }

    /// Times an operator that turns one tensor into another. Its gradient comes from outside, as from a next operator.
    fn passes(
        &self,
        input: [usize; 2],
        output: [usize; 2],
        forward: impl Fn(Tensor<2>) -> Tensor<2> + 'static,
    ) -> Box<dyn Run> {
        let start = self.start(input);
        self.passes_from(output, move || start.fresh(), forward)
    }

    fn passes_from<I: 'static>(
        &self,
        output: [usize; 2],
        input: impl Fn() -> I + 'static,
        forward: impl Fn(I) -> Tensor<2> + 'static,
    ) -> Box<dyn Run> {
        let (gradient, place) = (self.plain(output, 7), self.place.clone());
        let runs = runs_at_once(place.kind);
        let leaf = self.leaf(output, 5);
        let leaves = || vec![leaf.clone(); runs];
        let mut alone_s = None;
        let harness: Vec<f64> = (0..4)
            .map(|time| {
                let seconds = backward_seconds(leaves(), &gradient, &place, alone_s);
                alone_s = alone_s.or((time > 0).then_some(seconds));
                seconds
            })
            .collect();
        let harness_s = median(&harness[1..]);
        let (arguments, results) = (Vec::new(), Vec::new());
        let (done, alone_s) = (0, [None; 2]);
        Box::new(Passes { place, runs, input, forward, gradient, harness_s, arguments, results, done, alone_s })
    }

    /// Prepares a residual addition. The residual stream is still held by the branch that left it, and the branch's
    /// result by nobody; in backward the gradients of both are summed.
    fn residual(&self, rows: usize, width: usize) -> Box<dyn Run> {
        let shape = [rows, width];
        let (start, stream) = (self.start(shape), self.leaf(shape, 1));
        let added = stream.clone();
        let forward = self.passes_from(shape, move || start.fresh(), move |branch| added.clone() + branch);
        let backward = self.passes_from(shape, move || stream.clone(), |stream| stream.clone() + stream);
        Box::new(Joined { forward, backward })
    }

    fn embedding(&self, rows: usize, vocabulary: usize, positions: usize, width: usize) -> Box<dyn Run> {
        let (table, places) = (self.leaf([vocabulary, width], 2), self.leaf([positions, width], 3));
        let samples = rows / positions;
        let (ids, group) = (tokens(rows, vocabulary), alone_in_tensor_group());
        // One position stands for none: descriptions without learned positions have no table of them.
        let learned = positions > 1;
        let forward = move |()| {
            let rows = look_up(table.clone(), &ids, 0, &group);
            if !learned {
                return rows;
            }
            let by_sample = rows.reshape([samples, positions, width]) + places.clone().unsqueeze::<3>();
            by_sample.reshape([-1, width as i64])
        };
        self.passes_from([rows, width], || (), forward)
    }

    fn over_maps(&self, case: Case) -> Box<dyn Run> {
        let [samples, second, third, fourth, side, stride] = case.dimensions;
        match case.operator {
            OperatorClass::Convolution => {
                let weight = self.leaf([fourth, third, side, side], 2);
                let edge = second * stride;
                self.passes([samples, third * edge * edge], [samples, fourth * second * second], move |x| {
                    functions::convolution(x, weight.clone(), [edge, edge], stride)
                })
            }
            OperatorClass::BatchNorm => {
                let (scale, shift) = (self.leaf([third], 2), self.leaf([third], 3));
                let shape = [samples, third * second];
                let norm = move |x| functions::batch_norm(x, [scale.clone(), shift.clone()], second, EPSILON);
                self.passes(shape, shape, norm)
            }
            OperatorClass::MaxPool => {
                let edge = (second as f64).sqrt().round() as usize;
                let shape = [samples, third * 4 * edge * edge];
                self.passes(shape, [samples, third * edge * edge], move |x| functions::max_pool(x, third, 2 * edge))
            }
            _ => self.passes([samples, third * second], [samples, third], move |x| functions::mean_pool(x, third)),
        }
    }
}

/// Returns values between −1 and 1 that repeat nowhere near.
pub(super) fn values(length: usize, start: usize) -> Vec<f32> {
    (0..length).map(|i| ((i + start).wrapping_mul(2_654_435_761) % 65_536) as f32 / 32_768.0 - 1.0).collect()
}

fn tokens(rows: usize, vocabulary: usize) -> Vec<i32> {
    (0..rows).map(|i| (i.wrapping_mul(2_654_435_761) % vocabulary) as i32).collect()
}

/// Returns the seconds of the backward passes of all results. `known` is how long they took alone.
fn backward_seconds(results: Vec<Tensor<2>>, gradient: &Tensor<2>, place: &Place, known: Option<f64>) -> f64 {
    let roots: Vec<Tensor<2>> = results.into_iter().map(|result| seeded(result, gradient.clone())).collect();
    let backward = || roots.into_iter().for_each(|root| drop(root.backward()));
    place.timed_behind(known, backward).1
}

/// Tokens and positions of a model that only serves to have parameters.
const TABLE_ROWS: usize = 320;
const POSITIONS: u64 = 64;

/// Returns such a model.
fn parameter_network([blocks, hidden, ..]: [usize; 6]) -> Network {
    let gpt = Gpt {
        name: "parameters".into(),
        layers: blocks as u32,
        hidden: hidden as u64,
        heads: 2,
        ffn: 4 * hidden as u64,
        vocab: TABLE_ROWS as u64 - POSITIONS,
        seq_len: POSITIONS,
        attention: AttentionKernel::Unfused,
        dropout: Dropout::default(),
    };
    Network::new(&Model::Gpt(gpt)).expect("decoders are built")
}

/// Returns the numbers of parameters and of tensors of the model in a case over parameters.
pub(super) fn parameters_of(dimensions: [usize; 6]) -> [u64; 2] {
    let network = parameter_network(dimensions);
    let parameters = network.keys().map(|key| network.parameter(key).elements() as u64).sum();
    [parameters, network.keys().count() as u64]
}

/// Returns blocks and hidden width of a model with about so many parameters in so many tensors. A block has 12 tensors
/// and 12 times the square of its width; the tables have [`TABLE_ROWS`] times the width.
pub(super) fn model_of([parameters, tensors]: [usize; 2]) -> [usize; 2] {
    let blocks = (tensors / 12).max(1);
    let (square, linear) = (12.0 * blocks as f64, TABLE_ROWS as f64);
    let hidden = ((linear * linear + 4.0 * square * parameters as f64).sqrt() - linear) / (2.0 * square);
    [blocks, 2 * (hidden / 2.0).round().max(1.0) as usize]
}

/// Returns all layers of that model, as one rank holds them.
fn parameter_units(network: &Network, shards: Shards, device: &Device) -> Vec<Unit> {
    let small = |key: ParameterKey| -> Vec<f32> {
        let length = network.parameter(key).elements();
        values(length, key.slot as usize).into_iter().map(|value| value * 0.02).collect()
    };
    let builder = Builder {
        network,
        tensor: &alone_in_tensor_group(),
        experts: &ExpertGroup::new(alone()),
        shards,
        format: FloatDType::F32,
        device,
        home: None,
        values: &small,
        held_elsewhere: &|key| network.parameter(key).tied_to.is_some(),
    };
    (0..network.len()).map(|layer| builder.unit(layer)).collect()
}

/// The sharding of a rank that shards nothing.
const WHOLE: Shards = Shards { state: StateSharding::None, count: 1, own: 0, fetched: false };

/// The gradients of all parameters that each layer itself holds.
struct AllGradients {
    place: Place,
    /// What was made before, where it stays.
    kept: BTreeMap<(usize, usize), Tensor<1>>,
}

impl AllGradients {
    fn new(place: &Place) -> Self {
        Self { place: place.clone(), kept: BTreeMap::new() }
    }

    /// Returns those of a layer. On the host nobody else holds them; elsewhere they stay, because bringing them again
    /// would take longer than what is timed.
    fn of(&mut self, layer: usize, unit: &Unit) -> Vec<(usize, Tensor<1>)> {
        let own = unit.slots.iter().enumerate().filter(|(_, slot)| slot.role == Role::Trained && !slot.held_elsewhere);
        let of_slot = |(index, slot): (usize, &crate::unit::Slot)| {
            let made = || from_vec(values(slot.length, index), [slot.length], &self.place.device);
            let gradient = if computes_in_place(self.place.kind) {
                made()
            } else {
                self.kept.entry((layer, index)).or_insert_with(made).clone()
            };
            (index, gradient)
        };
        own.map(of_slot).collect()
    }
}

/// Prepares the norm of all gradients, and the update.
fn update(kind: Optimizer, dimensions: [usize; 6], place: Place) -> Box<dyn Run> {
    let network = parameter_network(dimensions);
    let mut units = parameter_units(&network, WHOLE, &place.device);
    let mut optimizer = RankOptimizer::new(kind, HyperParameters::of(kind));
    let mut all = AllGradients::new(&place);
    Box::new(Once(move || {
        let gradients: Vec<_> = units.iter().enumerate().map(|(layer, unit)| all.of(layer, unit)).collect();
        let step = || {
            let all: Vec<&Tensor<1>> = gradients.iter().flatten().map(|(_, gradient)| gradient).collect();
            std::hint::black_box(square_sums(&all).into_iter().sum::<f32>());
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
        };
        place.timed(step).1
    }))
}

/// Prepares the rounding of single-precision parameters to the format of compute, tensor by tensor.
fn rounding(format: NumberFormat, dimensions: [usize; 6], place: Place) -> Box<dyn Run> {
    let network = parameter_network(dimensions);
    let length = |key| network.parameter(key).elements();
    let master: Vec<Tensor<1>> =
        network.keys().map(|key| from_vec(values(length(key), 1), [length(key)], &place.device)).collect();
    Box::new(Once(move || {
        let round = || master.iter().map(|tensor| tensor.clone().cast(format_of(format))).collect::<Vec<_>>();
        let (rounded, seconds) = place.timed(round);
        std::hint::black_box(rounded);
        seconds
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gathering {
    /// Adds gradients to those of a micro-batch before.
    Add,
    /// Into a buffer that ranks share out, and the own share of it back.
    Flatten,
}

fn gather(gathering: Gathering, dimensions: [usize; 6], place: Place) -> Box<dyn Run> {
    let network = parameter_network(dimensions);
    // Only what ranks share out goes through one buffer.
    let shards = match gathering {
        Gathering::Add => WHOLE,
        Gathering::Flatten => Shards { state: StateSharding::Gradients, count: 2, ..WHOLE },
    };
    let mut units = parameter_units(&network, shards, &place.device);
    let mut all = AllGradients::new(&place);
    Box::new(Once(move || {
        let mut seconds = 0.0;
        for (layer, unit) in units.iter_mut().enumerate() {
            let add = |unit: &mut Unit, more: Vec<(usize, Tensor<1>)>| {
                more.into_iter().for_each(|(slot, gradient)| unit.add_gradient(slot, gradient));
            };
            let first = all.of(layer, unit);
            add(unit, first);
            if gathering == Gathering::Add {
                let more = all.of(layer, unit);
                seconds += place.timed(|| add(unit, more)).1;
                unit.keep_gradients();
            } else {
                let flatten = || {
                    let mut buffers = unit.take_for_host();
                    buffers.iter_mut().for_each(|buffer| buffer.truncate(buffer.len() / shards.count));
                    unit.put_from_host(buffers);
                };
                seconds += place.timed(flatten).1;
            }
            unit.slots.iter_mut().for_each(|slot| slot.reduced = None);
        }
        seconds
    }))
}
