//! One rank's part of a training step: its stage, its micro-batches, its messages, its update.

use crate::clock::Clock;
use crate::data::{Inputs, MicroBatch};
use crate::gpt::{Builder, Stage, StageInput, Values, causal_mask};
use crate::gradients::GradientBucket;
use crate::optimizer::{StageOptimizer, to_vec};
use crate::parameters::{ParameterKey, embedding, head};
use crate::process_group::{GroupError, ProcessGroup, Reduction};
use crate::report::{Phase, Span};
use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use std::collections::BTreeMap;
use trainyard_models::Gpt;
use trainyard_plan::{Plan, Rank, Recompute, Slot, StageId, StagePass};

/// The groups a rank belongs to.
pub(crate) struct Groups {
    /// All ranks.
    pub(crate) world: ProcessGroup,
    /// The ranks with the same stage.
    data: ProcessGroup,
    /// The stages of the same replica.
    pipeline: ProcessGroup,
}

impl Groups {
    /// Splits the world as the plan's mesh says.
    pub(crate) fn new(world: ProcessGroup, plan: &Plan) -> Result<Self, GroupError> {
        let at = plan.mesh().coordinates(Rank(world.rank() as u32));
        let data = world.split(at.pipeline as usize)?;
        let pipeline = world.split(at.data as usize)?;
        Ok(Self { world, data, pipeline })
    }
}

/// What is kept of a micro-batch between its forward and its backward.
enum InFlight {
    /// The graph from the stage's input to its output or loss.
    Graph(Box<Graph>),
    /// The inputs of the stage's layers, to compute each again.
    Inputs(Vec<StageInput>),
}

/// A recorded graph.
struct Graph {
    /// Where it starts; nothing in the first stage, whose input has no gradient.
    input: Option<Tensor<3>>,
    output: Output,
}

enum Output {
    Activations(Tensor<3>),
    Loss(Tensor<1>),
}

/// A rank in training.
pub(crate) struct Trainer {
    gpt: Gpt,
    groups: Groups,
    stage: StageId,
    program: Vec<Slot>,
    micro_batches: u32,
    recompute: Recompute,
    module: Stage,
    optimizer: StageOptimizer,
    bucket: GradientBucket,
    /// Where gradients are recorded, and where not.
    device: Device,
    plain: Device,
    mask: Tensor<4, Bool>,
    plain_mask: Tensor<4, Bool>,
    in_flight: BTreeMap<u32, InFlight>,
    clock: Clock,
    spans: Vec<Span>,
}

impl Trainer {
    /// A rank with its stage built from `values`.
    pub(crate) fn new(plan: &Plan, gpt: &Gpt, groups: Groups, values: impl Values, clock: Clock) -> Self {
        let at = plan.mesh().coordinates(Rank(groups.world.rank() as u32));
        let stage = StageId(at.pipeline);
        let micro_batches = plan.batch().accumulation as u32;
        let plain = Device::flex();
        let device = Device::flex().autodiff();
        let module = Builder { gpt, device: &device, values }.stage(plan.stages().layers(stage));
        let sequence = gpt.seq_len as usize;
        Self {
            gpt: gpt.clone(),
            stage,
            program: plan.pipeline().program(stage),
            micro_batches,
            recompute: plan.recompute(),
            optimizer: StageOptimizer::new(plan.optimizer()),
            bucket: GradientBucket::new(&module),
            module,
            mask: causal_mask(sequence, &device),
            plain_mask: causal_mask(sequence, &plain),
            device,
            plain,
            groups,
            in_flight: BTreeMap::new(),
            clock,
            spans: Vec::new(),
        }
    }

    pub(crate) fn optimizer(&mut self) -> &mut StageOptimizer {
        &mut self.optimizer
    }

    pub(crate) fn world(&self) -> &ProcessGroup {
        &self.groups.world
    }

    pub(crate) fn plain_device(&self) -> &Device {
        &self.plain
    }

    fn is_first(&self) -> bool {
        self.stage.0 == 0
    }

    fn is_last(&self) -> bool {
        self.module.head.is_some()
    }

    /// Whether the rank reads tokens: as inputs or as targets.
    pub(crate) fn reads_data(&self) -> bool {
        self.is_first() || self.is_last()
    }

    /// One optimizer step. Returns this rank's share of the global mean loss: nothing except on last stages.
    pub(crate) fn step(&mut self, batches: &[MicroBatch], learning_rate: f64) -> Result<f32, GroupError> {
        self.spans.clear();
        self.bucket.start();
        // Recomputation runs forward on modules that record nothing.
        let plain = (self.recompute == Recompute::Full).then(|| self.module.valid());
        let mut loss = 0.0;
        for slot in self.program.clone() {
            let m = slot.micro_batch;
            match slot.pass {
                StagePass::Forward => loss += self.forward(m, batches.get(m as usize), plain.as_ref())?,
                StagePass::Backward => self.backward(m, batches.get(m as usize))?,
                StagePass::BackwardInput | StagePass::BackwardWeight => {
                    unreachable!("plans that compute them apart were refused")
                }
            }
        }
        // A second holder of the parameters would make the update copy them.
        drop(plain);
        self.reduce_gradients()?;
        let start = self.clock.seconds();
        let module = std::mem::replace(&mut self.module, Stage { embedding: None, blocks: Vec::new(), head: None });
        self.module = self.optimizer.step(module, &self.bucket, learning_rate);
        self.record(Phase::Optimizer, None, start);
        Ok(loss / self.groups.data.size() as f32)
    }

    /// The spans of the last step so far.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    pub(crate) fn now(&self) -> f64 {
        self.clock.seconds()
    }

    /// Notes that `phase` lasted from `start` until now.
    pub(crate) fn record(&mut self, phase: Phase, micro_batch: Option<u32>, start: f64) {
        let (rank, stage) = (self.groups.world.rank() as u32, self.stage.0);
        self.spans.push(Span { rank, stage, micro_batch, phase, start_s: start, end_s: self.clock.seconds() });
    }

    fn forward(&mut self, m: u32, batch: Option<&MicroBatch>, plain: Option<&Stage>) -> Result<f32, GroupError> {
        let received = self.receive_activations(m)?;
        let start = self.clock.seconds();
        let (sent, loss) = if let Some(plain) = plain {
            self.forward_plain(m, batch, received, plain)
        } else {
            self.forward_graph(m, batch, received)
        };
        self.record(Phase::Forward, Some(m), start);
        if let Some(message) = sent {
            self.groups.pipeline.send(self.stage.0 as usize + 1, message)?;
        }
        Ok(loss)
    }

    fn receive_activations(&mut self, m: u32) -> Result<Option<Vec<f32>>, GroupError> {
        if self.is_first() {
            return Ok(None);
        }
        let start = self.clock.seconds();
        let message = self.groups.pipeline.recv(self.stage.0 as usize - 1)?;
        self.record(Phase::Communication, Some(m), start);
        Ok(Some(message))
    }

    /// Forward that records the graph. Returns the message for the next stage and this micro-batch's share of the loss.
    fn forward_graph(
        &mut self,
        m: u32,
        batch: Option<&MicroBatch>,
        received: Option<Vec<f32>>,
    ) -> (Option<Vec<f32>>, f32) {
        let (stage_input, input) = match received {
            Some(message) => {
                let input = self.activations(message, &self.device).require_grad();
                (StageInput::Activations(input.clone()), Some(input))
            }
            None => (StageInput::Tokens(tokens(batch, &self.device)), None),
        };
        let activations = self.module.activations(stage_input, &self.mask);
        if !self.is_last() {
            let message = to_vec(activations.clone().inner());
            self.in_flight
                .insert(m, InFlight::Graph(Box::new(Graph { input, output: Output::Activations(activations) })));
            return (Some(message), 0.0);
        }
        let loss = self.module.loss(activations, targets(batch, &self.device)) / f64::from(self.micro_batches);
        let value = scalar(loss.clone().inner());
        self.in_flight.insert(m, InFlight::Graph(Box::new(Graph { input, output: Output::Loss(loss) })));
        (None, value)
    }

    /// Forward that keeps only the input of each layer.
    fn forward_plain(
        &mut self,
        m: u32,
        batch: Option<&MicroBatch>,
        received: Option<Vec<f32>>,
        plain: &Stage,
    ) -> (Option<Vec<f32>>, f32) {
        let mut inputs = Vec::new();
        let mut stream = if let Some(message) = received {
            self.activations(message, &self.plain)
        } else {
            let tokens = tokens(batch, &self.plain);
            inputs.push(StageInput::Tokens(tokens.clone()));
            plain.embedding.as_ref().expect("the first stage has the embedding").forward(tokens)
        };
        for block in &plain.blocks {
            inputs.push(StageInput::Activations(stream.clone()));
            stream = block.forward(stream, &self.plain_mask);
        }
        if !self.is_last() {
            self.in_flight.insert(m, InFlight::Inputs(inputs));
            return (Some(to_vec(stream)), 0.0);
        }
        inputs.push(StageInput::Activations(stream.clone()));
        let loss = plain.loss(stream, targets(batch, &self.plain)) / f64::from(self.micro_batches);
        self.in_flight.insert(m, InFlight::Inputs(inputs));
        (None, scalar(loss))
    }

    fn backward(&mut self, m: u32, batch: Option<&MicroBatch>) -> Result<(), GroupError> {
        let received = if self.is_last() {
            None
        } else {
            let start = self.clock.seconds();
            let message = self.groups.pipeline.recv(self.stage.0 as usize + 1)?;
            self.record(Phase::Communication, Some(m), start);
            Some(message)
        };
        let start = self.clock.seconds();
        let message = match self.in_flight.remove(&m).expect("forward comes before backward") {
            InFlight::Graph(graph) => self.backward_graph(*graph, received),
            InFlight::Inputs(inputs) => self.backward_again(inputs, batch, received),
        };
        self.record(Phase::Backward, Some(m), start);
        if let Some(message) = message {
            self.groups.pipeline.send(self.stage.0 as usize - 1, message)?;
        }
        Ok(())
    }

    /// Backward over the recorded graph. Returns the gradient of the stage's input.
    fn backward_graph(&mut self, Graph { input, output }: Graph, received: Option<Vec<f32>>) -> Option<Vec<f32>> {
        let root = match (output, received) {
            (Output::Loss(loss), _) => loss,
            (Output::Activations(activations), Some(message)) => {
                let gradient = self.activations(message, &self.plain);
                seeded(activations, gradient)
            }
            (Output::Activations(_), None) => unreachable!("stages before the last receive gradients"),
        };
        let mut gradients = root.backward();
        drop(root);
        let message = input.map(|input| to_vec(input.grad_remove(&mut gradients).expect(REACHES_INPUT)));
        self.bucket.gather(&self.module, &mut gradients);
        message
    }

    /// Backward that computes each layer again from its input.
    fn backward_again(
        &mut self,
        mut inputs: Vec<StageInput>,
        batch: Option<&MicroBatch>,
        received: Option<Vec<f32>>,
    ) -> Option<Vec<f32>> {
        let mut gradient = received.map(|message| self.activations(message, &self.plain));
        if self.is_last() {
            let input = recorded(inputs.pop());
            let loss = self.module.loss(input.clone(), targets(batch, &self.device)) / f64::from(self.micro_batches);
            let mut gradients = loss.backward();
            gradient = input.grad_remove(&mut gradients);
            self.bucket.gather(&self.module, &mut gradients);
        }
        let mut gradient = gradient.expect("a stage has a head or receives gradients");
        for block in self.module.blocks.iter().rev() {
            let input = recorded(inputs.pop());
            let output = block.forward(input.clone(), &self.mask);
            let mut gradients = seeded(output, gradient).backward();
            gradient = input.grad_remove(&mut gradients).expect(REACHES_INPUT);
            self.bucket.gather(block, &mut gradients);
        }
        let Some(embedding) = &self.module.embedding else { return Some(to_vec(gradient)) };
        let Some(StageInput::Tokens(_)) = inputs.pop() else { unreachable!("the embedding's input is kept first") };
        let output = embedding.forward(tokens(batch, &self.device));
        let mut gradients = seeded(output, gradient).backward();
        self.bucket.gather(embedding, &mut gradients);
        None
    }

    /// Means over replicas, then the sum over the two copies of a shared table.
    fn reduce_gradients(&mut self) -> Result<(), GroupError> {
        let start = self.clock.seconds();
        self.groups.data.all_reduce(self.bucket.values_mut(), Reduction::Mean)?;
        let stages = self.groups.pipeline.size();
        if stages > 1 && self.reads_data() {
            let last = self.gpt.layers as usize + 1;
            let (key, other) = if self.is_first() {
                (ParameterKey::new(0, embedding::TOKENS), stages - 1)
            } else {
                (ParameterKey::new(last, head::TIED), 0)
            };
            let own = self.bucket.of_mut(key.id());
            self.groups.pipeline.send(other, own.to_vec())?;
            // A sum of two does not depend on their order, so both copies get the same bits.
            let theirs = self.groups.pipeline.recv(other)?;
            own.iter_mut().zip(&theirs).for_each(|(sum, value)| *sum += value);
        }
        if self.groups.data.size() > 1 || stages > 1 {
            self.record(Phase::Communication, None, start);
        }
        Ok(())
    }

    /// The sum of the losses of these samples, on last stages; other stages pass on activations and return zero.
    pub(crate) fn evaluate(&self, batches: &[MicroBatch]) -> Result<f64, GroupError> {
        let module = self.module.valid();
        let mut sum = 0.0;
        for batch in batches {
            let input = if self.is_first() {
                StageInput::Tokens(tokens(Some(batch), &self.plain))
            } else {
                let message = self.groups.pipeline.recv(self.stage.0 as usize - 1)?;
                StageInput::Activations(self.activations(message, &self.plain))
            };
            let activations = module.activations(input, &self.plain_mask);
            if self.is_last() {
                let loss = scalar(module.loss(activations, targets(Some(batch), &self.plain)));
                sum += f64::from(loss) * batch.samples as f64;
            } else {
                self.groups.pipeline.send(self.stage.0 as usize + 1, to_vec(activations))?;
            }
        }
        Ok(sum)
    }

    /// The stage's parameters.
    pub(crate) fn parameters(&self) -> BTreeMap<ParameterKey, Vec<f32>> {
        let mut collector = Collector { values: BTreeMap::new() };
        self.module.visit(&mut collector);
        collector.values
    }

    /// (samples, sequence, hidden) from a message.
    fn activations(&self, message: Vec<f32>, device: &Device) -> Tensor<3> {
        let (sequence, hidden) = (self.gpt.seq_len as usize, self.gpt.hidden as usize);
        let samples = message.len() / (sequence * hidden);
        Tensor::from_data(TensorData::new(message, [samples, sequence, hidden]), device)
    }
}

const REACHES_INPUT: &str = "the graph reaches the stage's input";

/// A scalar whose backward starts with `gradient` at `output`.
fn seeded(output: Tensor<3>, gradient: Tensor<3>) -> Tensor<1> {
    (output * Tensor::from_inner(gradient)).sum()
}

/// A kept input as the start of a graph.
fn recorded(input: Option<StageInput>) -> Tensor<3> {
    let Some(StageInput::Activations(input)) = input else { unreachable!("every layer's input was kept") };
    Tensor::from_inner(input).require_grad()
}

fn scalar(loss: Tensor<1>) -> f32 {
    loss.into_scalar::<f32>()
}

const HAS_TOKENS: &str = "first and last stages read every micro-batch";

fn tokens(batch: Option<&MicroBatch>, device: &Device) -> Tensor<2, Int> {
    let batch = batch.expect(HAS_TOKENS);
    let Inputs::Tokens { ids, sequence } = &batch.inputs else { unreachable!("decoders read tokens") };
    Tensor::from_data(TensorData::new(ids.clone(), [batch.samples, *sequence]), device)
}

fn targets(batch: Option<&MicroBatch>, device: &Device) -> Tensor<1, Int> {
    let targets = batch.expect(HAS_TOKENS).targets.clone();
    let length = targets.len();
    Tensor::from_data(TensorData::new(targets, [length]), device)
}

struct Collector {
    values: BTreeMap<ParameterKey, Vec<f32>>,
}

impl burn::module::ModuleVisitor for Collector {
    fn visit_float<const D: usize>(&mut self, parameter: &burn::module::Param<Tensor<D>>) {
        self.values.insert(ParameterKey::from_id(parameter.id), to_vec(parameter.val().inner()));
    }
}
