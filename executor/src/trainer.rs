//! One rank's part of a training step: its layers, its micro-batches, its messages, its update.

use crate::device::settle;
use crate::groups::Groups;
use crate::network::operators::{from_vec, single, to_vec};
use crate::network::{Drawn, Network, ParameterKey, Pass, Postponed, Weights};
use crate::optimizer::{HyperParameters, RankOptimizer};
use crate::precision::LossScale;
use crate::process_group::{GroupError, ProcessGroup, Tag};
use crate::reducer::Reducer;
use crate::report::{Phase, Span};
use crate::tape::{Tape, WeightHalf};
use crate::unit::{Builder, Shards, Unit};
use burn::tensor::{Device, FloatDType, Tensor};
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_data::MicroBatch;
use trainyard_host::Clock;
use trainyard_models::LayerRole;
use trainyard_plan::{Coordinates, GradientReduction, Plan, Rank, Recompute, Slot, StageId, StagePass};

mod update;

/// The state kept of a layer between its forward and its backward.
#[expect(clippy::large_enum_variant, reason = "there is one for each layer and micro-batch under way")]
enum Kept {
    Recorded(Tape),
    /// Its input, to compute it again.
    Input(Tensor<2>),
    /// Nothing: gradients do not go back through it.
    Nothing,
}

/// The position of a rank in the pipeline.
struct Place {
    stage: StageId,
    /// The layers of each of its chunks.
    chunks: Vec<Range<usize>>,
    /// For each chunk, the stage and chunk before it and behind it.
    before: Vec<Option<(StageId, u32)>>,
    behind: Vec<Option<(StageId, u32)>>,
}

impl Place {
    fn of(plan: &Plan, stage: StageId) -> Self {
        let stages = plan.stages();
        let positions: Vec<u32> = (0..stages.chunks_per_stage()).map(|chunk| stages.position(stage, chunk)).collect();
        let at = |position: Option<u32>| {
            position.filter(|position| *position < stages.chunks()).map(|position| stages.at(position))
        };
        Self {
            stage,
            chunks: stages.chunks_of(stage).collect(),
            before: positions.iter().map(|position| at(position.checked_sub(1))).collect(),
            behind: positions.iter().map(|position| at(Some(position + 1))).collect(),
        }
    }

    fn holds(&self, layer: usize) -> bool {
        self.chunks.iter().any(|layers| layers.contains(&layer))
    }
}

/// Weights as layers compute with them, and by slot the leaves that gradients may reach.
type RecordedWeights = (Weights, Vec<Option<Tensor<1>>>);

/// A rank in training.
pub(crate) struct Trainer {
    network: Network,
    groups: Groups,
    place: Place,
    program: Vec<Slot>,
    micro_batches: u32,
    /// By layer, `true` if its activations are recomputed in backward.
    recomputed: Vec<bool>,
    /// By layer, `true` if it has no backward pass: neither it nor one before it is trained.
    frozen: Vec<bool>,
    /// `true` if the cores of attention are computed again in backward.
    cores_again: bool,
    reduction: GradientReduction,
    shards: Shards,
    /// By layer.
    units: BTreeMap<usize, Unit>,
    optimizer: RankOptimizer,
    scale: LossScale,
    clip: Option<f64>,
    reducer: Option<Reducer>,
    /// Backward passes that each layer still has to go through before its gradients are whole.
    passes_left: BTreeMap<usize, u32>,
    format: FloatDType,
    device: Device,
    /// The device that keeps the inputs of recomputed layers, if it is another one.
    activations_on: Option<Device>,
    in_flight: BTreeMap<(u32, u32), Vec<Kept>>,
    /// `true` if backward goes in halves: gradients of inputs, and of weights later.
    halves: bool,
    /// By chunk and micro-batch, the second halves of its layers that are still to come.
    postponed: BTreeMap<(u32, u32), Vec<(usize, WeightHalf)>>,
    clock: Clock,
    spans: Vec<Span>,
    seed: u64,
    /// Position of the step's first sample in the order of training.
    position: u64,
}

/// Options of a trainer besides its plan.
pub(crate) struct TrainerOptions {
    /// The optimizer's numbers.
    pub(crate) hyper_parameters: HyperParameters,
    /// The greatest norm that the gradient of all parameters may have, if it is limited.
    pub(crate) clip: Option<f64>,
    /// Seed of what is dropped out.
    pub(crate) seed: u64,
    /// The clock that spans are measured with.
    pub(crate) clock: Clock,
    /// The device that the rank computes on.
    pub(crate) device: Device,
    /// Main memory as a device, if the rank's has another: what a plan offloads goes there.
    pub(crate) main_memory: Option<Device>,
}

/// The result of one step on this rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepResult {
    /// This rank's share of the global mean loss: nothing except in ranks with the last layer.
    pub(crate) loss: f32,
    /// The norm of the gradient of all parameters, before it is clipped.
    pub(crate) gradient_norm: f64,
    /// By how much the loss was scaled up.
    pub(crate) loss_scale: f32,
    /// `true` if gradients were not finite, so that nothing was updated.
    pub(crate) skipped: bool,
}

/// What was found of evaluated samples on this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Evaluated {
    /// Sum of their losses.
    pub(crate) loss: f64,
    /// How many have the highest score for their class, where they have classes.
    pub(crate) right: Option<f64>,
}

impl Trainer {
    /// Builds a rank with its layers from `values`, which gives whole parameters.
    pub(crate) fn new(
        plan: &Plan,
        network: Network,
        groups: Groups,
        values: &dyn Fn(ParameterKey) -> Vec<f32>,
        options: &TrainerOptions,
    ) -> Self {
        let at = groups.at;
        let place = Place::of(plan, StageId(at.pipeline));
        let device = options.device.clone();
        let format = crate::precision::compute_format(plan.precision());
        let shards = groups.shards(plan);
        let held: Vec<usize> = place.chunks.iter().cloned().flatten().collect();
        // Where weights are gathered, each layer brings its own copy of a shared table together.
        let alias = |key: ParameterKey| {
            let source = network.parameter(key).tied_to;
            !shards.gathers_weights() && source.is_some_and(|source| held.contains(&(source.layer as usize)))
        };
        let (tensor, experts, held_elsewhere) = (&groups.tensor, &groups.experts, &alias);
        let offload = plan.offload();
        let home = options.main_memory.as_ref().filter(|_| offload.optimizer.is_some());
        let builder = Builder {
            network: &network,
            tensor,
            experts,
            shards,
            format,
            device: &device,
            home,
            values,
            held_elsewhere,
        };
        let units = held.iter().map(|layer| (*layer, builder.unit(*layer))).collect();
        let roles = plan.graph().layers().map(|layer| layer.role == LayerRole::Block);
        let recompute = plan.recompute() == Recompute::Full;
        let program = plan.pipeline().program(place.stage);
        Self {
            micro_batches: plan.batch().accumulation as u32,
            recomputed: roles.map(|is_block| recompute && is_block).collect(),
            frozen: plan.graph().layers().map(|layer| layer.frozen).collect(),
            cores_again: plan.recompute() == Recompute::Selective,
            reduction: plan.gradient_reduction(),
            shards,
            units,
            optimizer: RankOptimizer::new(plan.optimizer(), options.hyper_parameters),
            scale: LossScale::of(plan.precision()),
            clip: options.clip,
            reducer: groups.gradients.has_peers().then(|| Reducer::start(&groups.gradients)),
            passes_left: BTreeMap::new(),
            format,
            device,
            activations_on: options.main_memory.clone().filter(|_| offload.activations.is_some()),
            in_flight: BTreeMap::new(),
            halves: program.iter().any(|slot| slot.pass == StagePass::BackwardInput),
            postponed: BTreeMap::new(),
            program,
            clock: options.clock,
            spans: Vec::new(),
            seed: options.seed,
            position: 0,
            network,
            groups,
            place,
        }
    }

    pub(crate) fn world(&self) -> &ProcessGroup {
        &self.groups.world
    }

    pub(crate) fn loss_scale(&mut self) -> &mut LossScale {
        &mut self.scale
    }

    /// Returns `true` if the rank reads data, as inputs or as targets.
    pub(crate) fn reads_data(&self) -> bool {
        self.place.holds(0) || self.has_loss()
    }

    fn has_loss(&self) -> bool {
        self.place.holds(self.network.len() - 1)
    }

    /// Runs one optimizer step over the global batch that begins at `position` in the order of training.
    pub(crate) fn step(
        &mut self,
        batches: &[MicroBatch],
        position: u64,
        learning_rate: f64,
    ) -> Result<StepResult, GroupError> {
        self.position = position;
        self.spans.clear();
        self.passes_left = self.units.keys().map(|layer| (*layer, self.micro_batches)).collect();
        let mut loss = 0.0;
        let parts: Vec<_> = batches.iter().map(|batch| self.groups.context.own_part(batch)).collect();
        for Slot { pass, chunk, micro_batch } in self.program.clone() {
            let (batch, weight) = match parts.get(micro_batch as usize) {
                Some((batch, weight)) => (Some(&**batch), *weight),
                None => (None, 1.0),
            };
            match pass {
                StagePass::Forward => loss += self.forward(chunk, micro_batch, batch)? * weight,
                StagePass::Backward | StagePass::BackwardInput => {
                    self.backward(chunk, micro_batch, (batch, weight))?;
                }
                StagePass::BackwardWeight => self.backward_weights(chunk, micro_batch)?,
            }
        }
        self.collect_reductions()?;
        let start = self.now();
        let result = self.update(loss / self.groups.replicas(), learning_rate)?;
        self.record(Phase::Optimizer, None, start);
        Ok(result)
    }

    /// Returns the spans of the last step so far.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the time, once the device has done what it was asked to.
    pub(crate) fn now(&self) -> f64 {
        settle(&self.device);
        self.clock.seconds()
    }

    /// Returns the time, and how much of it this rank has waited for others so far.
    pub(crate) fn now_and_waited(&self) -> (f64, f64) {
        (self.now(), self.groups.world.waited_s())
    }

    /// Notes that an exchange lasted from `started` until now: waiting for others, and moving.
    pub(crate) fn record_exchange(&mut self, phase: Phase, micro_batch: Option<u32>, (start, waited): (f64, f64)) {
        self.record_apart(phase, micro_batch, start, self.groups.world.waited_s() - waited);
    }

    /// Notes that an exchange lasted from `start` until now, and how much of that was waiting.
    fn record_apart(&mut self, phase: Phase, micro_batch: Option<u32>, start: f64, waited_s: f64) {
        self.record(phase, micro_batch, start);
        let span = self.spans.pop().expect("it was just recorded");
        self.spans.extend(span.apart(waited_s));
    }

    /// Notes that the rank waited for data before the step, from `start` to `end`.
    pub(crate) fn record_data(&mut self, start_s: f64, end_s: f64) {
        let (rank, stage) = (self.groups.world.rank() as u32, self.place.stage.0);
        self.spans.push(Span { rank, stage, micro_batch: None, phase: Phase::Wait, start_s, end_s });
    }

    /// Notes that `phase` lasted from `start` until now.
    pub(crate) fn record(&mut self, phase: Phase, micro_batch: Option<u32>, start: f64) {
        let (rank, stage) = (self.groups.world.rank() as u32, self.place.stage.0);
        let end_s = self.now();
        self.spans.push(Span { rank, stage, micro_batch, phase, start_s: start, end_s });
    }

    /// Passes a micro-batch forward through a chunk of layers. Returns this rank's share of the loss, where the chunk ends
    /// with it.
    fn forward(&mut self, chunk: u32, m: u32, batch: Option<&MicroBatch>) -> Result<f32, GroupError> {
        let before = self.place.before[chunk as usize];
        let mut stream = before.map(|from| self.receive(from, Message::Forward(chunk, m))).transpose()?;
        let batch = self.batch(batch);
        let start = self.now();
        let mut kept = Vec::new();
        for layer in self.place.chunks[chunk as usize].clone() {
            self.gather_weights(layer)?;
            let output = if self.frozen[layer] {
                let (output, noted) = self.compute(layer, stream, &batch, Some(m));
                self.keep_statistics(layer, noted);
                kept.push(Kept::Nothing);
                output
            } else if self.recomputed[layer] {
                let input = stream.expect("blocks follow another layer");
                let (output, noted) = self.compute(layer, Some(input.clone()), &batch, Some(m));
                self.keep_statistics(layer, noted);
                kept.push(Kept::Input(match &self.activations_on {
                    Some(memory) => input.to_device(memory),
                    None => input,
                }));
                output
            } else {
                let mut tape = self.recorded(layer, stream, &batch, m);
                self.keep_statistics(layer, tape.noted());
                let output = tape.output();
                kept.push(Kept::Recorded(tape));
                output
            };
            self.units[&layer].release();
            stream = Some(output);
        }
        self.groups.check()?;
        self.in_flight.insert((chunk, m), kept);
        let output = stream.expect("chunks have layers");
        self.record(Phase::Forward, Some(m), start);
        match self.place.behind[chunk as usize] {
            Some(to) => self.send(to, Message::Forward(to.1, m), output).map(|()| 0.0),
            // All ranks of a tensor group know the loss; one of them tells.
            None if self.groups.tensor.rank() > 0 => Ok(0.0),
            None => Ok(single(output).into_scalar::<f32>() / self.micro_batches as f32),
        }
    }

    /// Returns the gradient that backward starts from: the loss is the mean over micro-batches, of which one counts with
    /// a `weight`, scaled up where small gradients would vanish.
    fn gradient_of_loss(&self, weight: f32) -> Tensor<2> {
        from_vec(vec![weight * self.scale.value() / self.micro_batches as f32], [1, 1], &self.device)
    }

    /// Passes a micro-batch, whose loss counts with a weight, backward through a chunk of layers.
    fn backward(&mut self, chunk: u32, m: u32, (batch, weight): (Option<&MicroBatch>, f32)) -> Result<(), GroupError> {
        let layers = self.place.chunks[chunk as usize].clone();
        let mut kept = self.in_flight.remove(&(chunk, m)).expect("forward comes before backward");
        if self.frozen[layers.end - 1] {
            // Nobody sends a gradient here.
            if self.halves {
                self.postponed.insert((chunk, m), Vec::new());
            }
            return Ok(());
        }
        let gradient = match self.place.behind[chunk as usize] {
            Some(from) => self.receive(from, Message::Backward(chunk, m))?,
            None => self.gradient_of_loss(weight),
        };
        let batch = self.batch(batch);
        let start = self.now();
        let mut postponed = Vec::new();
        let mut gradient = Some(gradient);
        for layer in layers.clone().rev().take_while(|layer| !self.frozen[*layer]).collect::<Vec<_>>() {
            self.gather_weights(layer)?;
            let tape = match kept.pop().expect("every layer was kept") {
                Kept::Recorded(tape) => tape,
                Kept::Input(input) => self.recorded(layer, Some(input.to_device(&self.device)), &batch, m),
                Kept::Nothing => unreachable!("layers without a backward pass come before those with one"),
            };
            let (of_input, of_weights) = tape.backward(gradient.take().expect("only the first layer has no input"));
            self.groups.check()?;
            self.units[&layer].release();
            if self.halves {
                postponed.push((layer, of_weights));
            } else {
                self.take_gradients(layer, of_weights)?;
            }
            gradient = of_input;
        }
        if self.halves {
            self.postponed.insert((chunk, m), postponed);
        }
        self.record(Phase::Backward, Some(m), start);
        match (self.place.before[chunk as usize], gradient) {
            (Some(to), Some(gradient)) if !self.frozen[layers.start - 1] => {
                self.send(to, Message::Backward(to.1, m), gradient)
            }
            _ => Ok(()),
        }
    }

    /// Computes what the backward pass of a micro-batch through a chunk of layers has postponed.
    fn backward_weights(&mut self, chunk: u32, m: u32) -> Result<(), GroupError> {
        let start = self.now();
        let postponed = self.postponed.remove(&(chunk, m)).expect("gradients of inputs come before those of weights");
        for (layer, of_weights) in postponed {
            self.take_gradients(layer, of_weights)?;
        }
        self.record(Phase::Backward, Some(m), start);
        Ok(())
    }

    /// Adds a layer's gradients of one micro-batch to those before, and hands them on once they are whole.
    fn take_gradients(&mut self, layer: usize, of_weights: WeightHalf) -> Result<(), GroupError> {
        self.keep_gradients(layer, of_weights.gradients());
        self.hand_over(layer)
    }

    /// Returns the micro-batch as layers see it: ranks in between know only how many samples it has.
    fn batch(&self, batch: Option<&MicroBatch>) -> MicroBatch {
        batch.cloned().unwrap_or_else(|| MicroBatch::unread(self.groups.micro))
    }

    /// Returns what is drawn for a layer in a micro-batch of the step.
    fn drawn(&self, layer: usize, m: u32) -> Drawn {
        let before = u64::from(self.groups.at.data) * u64::from(self.micro_batches) + u64::from(m);
        Drawn { seed: self.seed, layer, first_sample: self.position + before * self.groups.micro as u64 }
    }

    /// Returns the context of a pass, in training through a layer and of a micro-batch.
    fn pass(&self, recorded: bool, drawn: Option<Drawn>) -> Pass {
        let device = if recorded { self.device.clone().autodiff() } else { self.device.clone() };
        let Groups { tensor, context, experts, .. } = &self.groups;
        let (tensor, context, experts) = (tensor.clone(), context.clone(), experts.clone());
        Pass { tensor, context, experts, device, drawn, cores_again: recorded && self.cores_again }
    }

    fn weights(&self, layer: usize, recorded: bool, postponed: Option<Postponed>) -> RecordedWeights {
        let elsewhere = |key: ParameterKey| {
            let source = self.network.parameter(key).tied_to.expect("only tied parameters are held elsewhere");
            self.units[&(source.layer as usize)].slots[source.slot as usize].working()
        };
        self.units[&layer].weights(recorded, postponed, &elsewhere)
    }

    fn recorded(&self, layer: usize, input: Option<Tensor<2>>, batch: &MicroBatch, m: u32) -> Tape {
        // The first layer has no gradient of an input to compute before those of its weights.
        let postponed = (self.halves && input.is_some()).then(Postponed::default);
        let (weights, leaves) = self.weights(layer, true, postponed.clone());
        let pass = self.pass(true, Some(self.drawn(layer, m)));
        let weights = (weights.with_adapters(self.network.adapters_of(layer), &pass, batch.samples), leaves);
        Tape::record(&**self.network.layer(layer), &pass, weights, postponed, input, batch)
    }

    /// Computes a layer's output without recording gradients, and the new values of running means: in training on a
    /// micro-batch, or in evaluation.
    fn compute(
        &self,
        layer: usize,
        input: Option<Tensor<2>>,
        batch: &MicroBatch,
        trained: Option<u32>,
    ) -> (Tensor<2>, BTreeMap<usize, Tensor<1>>) {
        let (weights, _) = self.weights(layer, false, None);
        let pass = self.pass(false, trained.map(|m| self.drawn(layer, m)));
        let weights = weights.with_adapters(self.network.adapters_of(layer), &pass, batch.samples);
        let output = self.network.layer(layer).forward(&pass, &weights, input, batch);
        (output, weights.noted())
    }

    /// Keeps the running means of a micro-batch's first forward pass; recomputation does not change them again.
    fn keep_statistics(&mut self, layer: usize, noted: BTreeMap<usize, Tensor<1>>) {
        let unit = self.units.get_mut(&layer).expect(HELD);
        for (slot, values) in noted {
            unit.slots[slot].set_statistic(values);
        }
    }

    /// Adds a layer's gradients to what is there; those of a parameter that another layer holds, to that one's.
    fn keep_gradients(&mut self, layer: usize, gradients: Vec<Option<Tensor<1>>>) {
        for (slot, gradient) in gradients.into_iter().enumerate() {
            let Some(gradient) = gradient else { continue };
            let key = ParameterKey::new(layer, slot);
            let holder = if self.units[&layer].slots[slot].held_elsewhere {
                self.network.parameter(key).tied_to.expect("only tied parameters are held elsewhere")
            } else {
                key
            };
            let unit = self.units.get_mut(&(holder.layer as usize)).expect(HELD);
            unit.add_gradient(holder.slot as usize, gradient);
        }
    }

    /// Hands a layer's gradients to the reducer once they are whole.
    fn hand_over(&mut self, layer: usize) -> Result<(), GroupError> {
        let left = self.passes_left.get_mut(&layer).expect(HELD);
        *left -= 1;
        let each = self.reduction == GradientReduction::MicroBatch && self.shards.shares_updates();
        if *left > 0 && !each {
            return Ok(());
        }
        let unit = self.units.get_mut(&layer).expect(HELD);
        if !unit.trains() {
            return Ok(());
        }
        if let Some(reducer) = &mut self.reducer {
            return reducer.submit(layer, unit);
        }
        unit.keep_gradients();
        Ok(())
    }

    /// Waits until all gradients are summed over replicas.
    fn collect_reductions(&mut self) -> Result<(), GroupError> {
        let (start, waited) = (self.now(), self.groups.gradients.waited_s());
        let Some(reducer) = &mut self.reducer else { return Ok(()) };
        reducer.collect(&mut self.units)?;
        self.record_apart(Phase::Reduce, None, start, self.groups.gradients.waited_s() - waited);
        Ok(())
    }

    /// Brings a layer's weights together, where ranks share them out.
    fn gather_weights(&mut self, layer: usize) -> Result<(), GroupError> {
        if !self.shards.gathers_weights() {
            return Ok(());
        }
        self.gather(layer)
    }

    fn gather(&mut self, layer: usize) -> Result<(), GroupError> {
        let started = self.now_and_waited();
        let unit = self.units.get_mut(&layer).expect(HELD);
        let all = self.groups.weights.all_gather(&unit.pieces())?;
        unit.put_gathered(&all);
        self.record_exchange(Phase::Gather, None, started);
        Ok(())
    }

    fn receive(&mut self, (stage, _): (StageId, u32), message: Message) -> Result<Tensor<2>, GroupError> {
        let started = self.now_and_waited();
        let received = self.groups.pipeline.recv(stage.0 as usize, message.tag(self.micro_batches))?;
        self.record_exchange(Phase::Communication, Some(message.micro_batch()), started);
        let width = self.groups.widths[message.boundary(&self.place)];
        let rows = received.len() / width;
        Ok(from_vec(received, [rows, width], &self.device).cast(self.format))
    }

    fn send(&mut self, (stage, _): (StageId, u32), message: Message, tensor: Tensor<2>) -> Result<(), GroupError> {
        self.groups.pipeline.send(stage.0 as usize, message.tag(self.micro_batches), to_vec(tensor))
    }

    /// Evaluates samples of this rank's replica; ranks without the last layer find nothing. All replicas must call it as
    /// often, because they gather weights together: one that has no samples left takes part without. Where they share
    /// experts, it computes `beside` instead, which is not counted.
    pub(crate) fn evaluate(
        &mut self,
        counted: Option<&MicroBatch>,
        beside: Option<&MicroBatch>,
    ) -> Result<Evaluated, GroupError> {
        let mut found = Evaluated::default();
        for position in 0..self.groups.positions {
            let Some(chunk) = self.groups.chunk_at(position, self.place.stage) else { continue };
            let Some(batch) = counted.or(beside) else {
                self.gather_only(chunk)?;
                continue;
            };
            let (own, weight) = self.groups.context.own_part(batch);
            let share = f64::from(weight) / self.groups.context.size() as f64;
            if let Some(chunk) = self.evaluate_chunk(chunk, &own)?.filter(|_| counted.is_some()) {
                found.loss += chunk.loss * share;
                found.right = chunk.right;
            }
        }
        Ok(found)
    }

    /// Gives every replica the running means of the first one, which are those that a checkpoint keeps: each follows the
    /// samples that it trained on. All ranks must call it.
    ///
    /// Source: PyTorch, `DistributedDataParallel`, `broadcast_buffers`.
    pub(crate) fn share_statistics(&mut self, plan: &Plan) -> Result<(), GroupError> {
        let mesh = plan.mesh();
        if mesh.data() == 1 || !self.network.has_statistics() {
            return Ok(());
        }
        let firsts = (0..mesh.ranks()).filter(|rank| mesh.coordinates(Rank(*rank)).data == 0);
        for first in firsts {
            let is_first = self.groups.world.rank() == first as usize;
            let mut values: Vec<f32> =
                if is_first { self.units.values().flat_map(Unit::statistics).collect() } else { Vec::new() };
            self.groups.world.broadcast(&mut values, first as usize)?;
            let replica_of = Coordinates { data: 0, ..self.groups.at };
            if !is_first && replica_of == mesh.coordinates(Rank(first)) {
                let mut values = values.into_iter();
                self.units.values_mut().for_each(|unit| unit.set_statistics(&mut values));
            }
        }
        Ok(())
    }

    /// Passes samples through a chunk of layers; returns what was found where it ends with the loss.
    fn evaluate_chunk(&mut self, chunk: u32, batch: &MicroBatch) -> Result<Option<Evaluated>, GroupError> {
        let before = self.place.before[chunk as usize];
        let mut stream = before.map(|from| self.receive(from, Message::Forward(chunk, 0))).transpose()?;
        for layer in self.place.chunks[chunk as usize].clone() {
            self.gather_weights(layer)?;
            stream = Some(self.compute(layer, stream, batch, None).0);
            self.units[&layer].release();
        }
        self.groups.check()?;
        let output = stream.expect("chunks have layers");
        match self.place.behind[chunk as usize] {
            Some(to) => self.send(to, Message::Forward(to.1, 0), output).map(|()| None),
            None if self.groups.tensor.rank() > 0 => Ok(None),
            None => {
                let means = to_vec(output);
                let sum = |mean: &f32| f64::from(*mean) * batch.samples as f64;
                Ok(Some(Evaluated { loss: sum(&means[0]), right: means.get(1).map(sum) }))
            }
        }
    }

    /// Takes part in gathering weights for replicas that still have a batch.
    fn gather_only(&mut self, chunk: u32) -> Result<(), GroupError> {
        for layer in self.place.chunks[chunk as usize].clone() {
            self.gather_weights(layer)?;
            self.units[&layer].release();
        }
        Ok(())
    }

    /// Returns the rank's layers.
    pub(crate) fn units(&self) -> &BTreeMap<usize, Unit> {
        &self.units
    }

    pub(crate) fn optimizer(&self) -> &RankOptimizer {
        &self.optimizer
    }

    pub(crate) fn optimizer_mut(&mut self) -> &mut RankOptimizer {
        &mut self.optimizer
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the shards that the rank owns.
    pub(crate) fn shards(&self) -> Shards {
        self.shards
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }
}

const HELD: &str = "the rank holds the layers of its chunks";

/// A message between chunks, of a chunk and a micro-batch: activations into the chunk, or gradients back into it.
#[derive(Clone, Copy, Debug)]
enum Message {
    Forward(u32, u32),
    Backward(u32, u32),
}

impl Message {
    /// Returns a tag that differs for all messages that may be under way between two ranks.
    fn tag(self, micro_batches: u32) -> Tag {
        match self {
            Self::Forward(chunk, m) => Tag(2 * (chunk * micro_batches + m)),
            Self::Backward(chunk, m) => Tag(2 * (chunk * micro_batches + m) + 1),
        }
    }

    fn micro_batch(self) -> u32 {
        let (Self::Forward(_, m) | Self::Backward(_, m)) = self;
        m
    }

    /// Returns the layer in front of the boundary that the message crosses, seen from who receives it.
    fn boundary(self, place: &Place) -> usize {
        match self {
            Self::Forward(chunk, _) => place.chunks[chunk as usize].start - 1,
            Self::Backward(chunk, _) => place.chunks[chunk as usize].end - 1,
        }
    }
}
