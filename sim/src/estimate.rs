//! A closed form of the step time: what a search looks at before it simulates anything.
//!
//! Unlike [`crate::step_time_bound`] it is no bound, but near what a simulation finds, and it takes well under a
//! microsecond once the prices that many layouts share are known.

use crate::cost::{Collective, layer_prices};
use crate::cost::{collective_time, transfer_time};
use crate::machine::{Machine, MachineError};
use trainyard_hardware_profiles::Cluster;
use trainyard_plan::operators::OperatorGraph;
use trainyard_plan::{Mesh, Optimizer, ParallelSpec, Precision, Recompute, ScheduleName, StagePass};
use trainyard_units::{Bytes, Seconds};

/// A message that is long enough for latency not to count.
const LARGE: Bytes = Bytes(1 << 30);

/// A message that is nothing but latency.
const SMALL: Bytes = Bytes(8);

/// What many layouts of a model on some machines share: micro-batch, the sharing of layers, number formats.
#[derive(Clone, Debug)]
pub struct Estimator {
    /// Per way of recomputing: all layers forward and backward, the largest layer, forward alone, weights alone.
    passes: [Passes; 3],
    /// Values of one rank if it held all layers.
    parameters: f64,
    /// Bytes that one rank sends to the next stage for a micro-batch.
    boundary: f64,
    tensor: u32,
    devices_per_machine: u32,
    inside: Line,
    between: Line,
    /// Values of a table that first and last stage share.
    shared: f64,
    bucketed: bool,
    blocking: bool,
    scattered: bool,
    gradient_bytes: f64,
    update_bytes: f64,
    memory_rate: f64,
    overhead: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Passes {
    all: f64,
    largest: f64,
    forward: f64,
    weights: f64,
}

/// A message takes latency and a time for each byte.
#[derive(Clone, Copy, Debug)]
struct Line {
    latency: f64,
    per_byte: f64,
}

impl Line {
    fn through(time: impl Fn(Bytes) -> Result<Seconds, MachineError>) -> Result<Self, MachineError> {
        let (latency, long) = (time(SMALL)?.0, time(LARGE)?.0);
        Ok(Self { latency, per_byte: (long - latency).max(0.0) / LARGE.as_f64() })
    }
}

/// Transfers between stages.
#[derive(Clone, Copy, Debug, Default)]
struct Sends {
    /// The slowest for one micro-batch.
    slowest: f64,
    /// Those of the stage that sends longest, for one micro-batch.
    busiest: f64,
    /// Those of one micro-batch there and back.
    filling: f64,
}

/// What layouts differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Replicas.
    pub data: u32,
    /// Stages.
    pub pipeline: u32,
    /// Runs of layers on each.
    pub virtual_stages: u32,
    /// Micro-batches of a replica.
    pub accumulation: u64,
    /// Their order.
    pub schedule: ScheduleName,
    /// What is computed again.
    pub recompute: Recompute,
}

impl Estimator {
    /// For micro-batches of `micro` samples on ranks that share layers as `parallel` says (its data and pipeline degrees
    /// do not count), on machines like those of `machine`.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for this.
    pub fn new(
        graph: &OperatorGraph,
        micro: u64,
        parallel: ParallelSpec,
        precision: Precision,
        optimizer: Optimizer,
        machine: &Machine,
    ) -> Result<Self, MachineError> {
        let mesh = Mesh::from(ParallelSpec { data: parallel.expert, pipeline: 1, ..parallel });
        let prices = layer_prices(graph, micro, mesh, precision, machine)?;
        let passes = [Recompute::None, Recompute::Selective, Recompute::Full].map(|recompute| {
            let layers = || (0..graph.len()).map(|index| prices.layer(index));
            let sum = |pass| layers().map(|price| price.pass(pass, recompute).0).sum::<f64>();
            Passes {
                all: sum(StagePass::Forward) + sum(StagePass::Backward),
                largest: prices.weights(recompute).into_iter().fold(0.0, f64::max),
                forward: sum(StagePass::Forward),
                weights: sum(StagePass::BackwardWeight),
            }
        });
        let sharing = mesh.sharing();
        let widest = graph.layers().map(|layer| layer.stream_on_rank(micro, sharing)).max().unwrap_or(0);
        let pool = machine.cluster.first();
        let lowering = machine.lowering();
        let element = precision.element_bytes() as f64;
        let plain = if machine.stack.compute_precision_gradients.value { element } else { 4.0 };
        Ok(Self {
            passes,
            parameters: graph
                .layers()
                .map(|layer| layer.parameters(sharing) - layer.table_parameters(sharing))
                .sum::<u64>() as f64,
            boundary: widest as f64 * element,
            tensor: mesh.tensor() * mesh.context(),
            devices_per_machine: pool.devices_per_instance,
            inside: line(&machine.cluster, 1)?,
            between: line(&machine.cluster, 2)?,
            shared: graph.shared_parameters() as f64 / f64::from(mesh.tensor()),
            scattered: machine.stack.scattered_transfers.value && !parallel.sequence,
            bucketed: lowering.bucket.is_some(),
            blocking: lowering.blocking_transfers,
            gradient_bytes: plain,
            update_bytes: 12.0 + 2.0 * optimizer.state_bytes() as f64 + element,
            memory_rate: crate::cost::memory_rate(machine),
            overhead: machine.stack.step_overhead.value.0,
        })
    }

    /// About how long a step of this shape takes.
    pub fn step_time(&self, shape: Shape) -> Seconds {
        let passes = self.passes[shape.recompute as usize];
        let stages = f64::from(shape.pipeline);
        // Layers do not divide evenly: the fullest stage has about half of the largest layer more than the mean one.
        let uneven = if shape.pipeline > 1 { passes.largest / 2.0 } else { 0.0 };
        let stage = passes.all / stages + uneven;
        let sends = self.sends(shape);
        let period = if self.blocking { stage + sends.busiest } else { stage.max(sends.slowest) };
        let fill = (stages - 1.0) / stages * Self::idle(shape, passes) + sends.filling;
        let held = self.parameters / stages;
        let last_backward = (passes.all - passes.forward) / stages;
        let reduction = self.reduction(shape.data, held);
        let exposed = if self.bucketed { (reduction - last_backward).max(0.0) } else { reduction };
        let update = held * self.update_bytes / self.memory_rate + self.overhead;
        Seconds(shape.accumulation as f64 * period + fill + exposed + self.shared_sum(shape) + update)
    }

    /// What a stage waits for while the pipeline fills and drains, for each other stage, times the stages.
    fn idle(shape: Shape, passes: Passes) -> f64 {
        match shape.schedule {
            ScheduleName::None | ScheduleName::TwoBufferedWeights => 0.0,
            ScheduleName::GPipe | ScheduleName::OneForwardOneBackward => passes.all,
            ScheduleName::Interleaved => passes.all / f64::from(shape.virtual_stages),
            ScheduleName::ZeroBubbleH1 => (passes.all - 2.0 * passes.weights).max(0.0),
            ScheduleName::ZeroBubbleV => passes.all / 6.0,
        }
    }

    /// Transfers between stages, of which as many as fit stand on one machine.
    fn sends(&self, shape: Shape) -> Sends {
        if shape.pipeline == 1 {
            return Sends::default();
        }
        let ranks = self.tensor * shape.data;
        let bytes = self.boundary / if self.scattered { f64::from(self.tensor) } else { 1.0 };
        let inside = self.inside.latency + bytes * self.inside.per_byte;
        let sharers = f64::from(ranks.min(self.devices_per_machine));
        let across = self.between.latency + bytes * self.between.per_byte * sharers;
        let together = (self.devices_per_machine / ranks).max(1);
        let boundaries = shape.pipeline - 1;
        let crossing = boundaries / together;
        let runs = f64::from(shape.virtual_stages);
        // A stage in the middle sends twice: activations onwards and gradients back.
        let sent = f64::from(boundaries.min(2));
        let (slowest, busiest) = match (crossing, together) {
            (0, _) => (inside, sent * inside),
            (_, 1) => (across, sent * across),
            _ => (across, across + (sent - 1.0) * inside),
        };
        let filling = 2.0 * (f64::from(crossing) * across + f64::from(boundaries - crossing) * inside);
        Sends { slowest: slowest * runs, busiest: busiest * runs, filling }
    }

    /// The sum of the table that the first and the last stage share, all replicas at once.
    fn shared_sum(&self, shape: Shape) -> f64 {
        if shape.pipeline == 1 || self.shared == 0.0 {
            return 0.0;
        }
        let ranks = self.tensor * shape.data;
        if ranks * shape.pipeline <= self.devices_per_machine {
            return self.inside.latency + self.shared * self.gradient_bytes * self.inside.per_byte;
        }
        let sharers = f64::from(ranks.min(self.devices_per_machine));
        self.between.latency + self.shared * self.gradient_bytes * self.between.per_byte * sharers
    }

    /// A ring over the replicas (Patarasuk and Yuan 2009), beside those of the other ranks of the tensor group.
    fn reduction(&self, data: u32, held: f64) -> f64 {
        if data == 1 {
            return 0.0;
        }
        let volume = 2.0 * f64::from(data - 1) / f64::from(data) * held * self.gradient_bytes;
        if data * self.tensor <= self.devices_per_machine {
            return self.inside.latency * f64::from(data) + volume * self.inside.per_byte;
        }
        let rings = f64::from(self.tensor.min(self.devices_per_machine));
        let machines = f64::from((data * self.tensor).div_ceil(self.devices_per_machine));
        self.between.latency * machines + volume * self.between.per_byte * rings
    }
}

/// What one byte takes from a device to another: on the same machine, or on the next.
fn line(cluster: &Cluster, machines: u32) -> Result<Line, MachineError> {
    let mut small = cluster.clone();
    small.pools.truncate(1);
    small.pools[0].instances = machines;
    if small.devices() < 2 {
        return Ok(Line { latency: 0.0, per_byte: 0.0 });
    }
    if machines > 1 {
        return Line::through(|bytes| transfer_time(&small, bytes));
    }
    // A ring over all devices of a machine: its rate, without the factor that counts the rounds.
    let devices = small.devices();
    let rounds = 2.0 * f64::from(devices - 1) / f64::from(devices);
    Line::through(|bytes| {
        let time = collective_time(&small, Collective::AllReduce, devices, bytes)?;
        Ok(Seconds(time.0 / rounds))
    })
}
