//! Pure cost functions: work and a machine in, seconds out.

mod collective;
mod gemm;
mod gpu;
mod measured;
mod operation;
mod protocol;
mod route;

use crate::machine::{Machine, MachineError, enough_devices};
use crate::placement::Family;
pub use collective::Collective;
use gpu::GpuPricing;
use measured::MeasuredPricing;
pub use operation::{Operation, Phase};
use trainyard_hardware_profiles::{Cluster, Device, Gpu};

use trainyard_plan::operators::{Layer, LayerRole, OperatorGraph, Pass, Sharing};
use trainyard_plan::{Collectives, Held, Mesh, ParallelSpec, Plan, Precision, Segment, StageId, TaskGraph, Work};
use trainyard_units::{Bytes, Seconds};

/// Seconds of one layer for one micro-batch on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerPrice {
    /// Kernels forward.
    pub forward: Seconds,
    /// Kernels backward, without recomputation.
    pub backward: Seconds,
    /// The reductions that tensor parallelism puts into each direction.
    pub reductions: Seconds,
    /// Whether full recomputation computes this layer again.
    pub recomputed: bool,
}

/// Prices of all layers of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPrices {
    distinct: Vec<LayerPrice>,
    order: Vec<usize>,
}

impl LayerPrices {
    /// The price of a layer.
    pub fn layer(&self, index: usize) -> LayerPrice {
        self.distinct[self.order[index]]
    }

    /// Per layer, forward and backward together: what a cut into stages should balance.
    pub fn weights(&self, recompute: bool) -> Vec<f64> {
        (0..self.order.len())
            .map(|index| self.layer(index))
            .map(|price| (price.pass(Pass::Forward, false) + price.pass(Pass::Backward, recompute)).0)
            .collect()
    }
}

impl LayerPrice {
    /// One pass, with its reductions and, backward, what is computed again.
    pub fn pass(&self, pass: Pass, recompute: bool) -> Seconds {
        match pass {
            Pass::Forward => self.forward + self.reductions,
            Pass::Backward if recompute && self.recomputed => {
                self.backward + self.reductions + self.forward + self.reductions
            }
            Pass::Backward => self.backward + self.reductions,
        }
    }
}

/// Prices of the layers of `graph` for micro-batches of `micro` samples.
///
/// # Errors
///
/// When there are fewer devices than ranks, or a measured machine was not measured for this.
pub fn layer_prices(
    graph: &OperatorGraph,
    micro: u64,
    mesh: Mesh,
    precision: Precision,
    machine: &Machine,
) -> Result<LayerPrices, MachineError> {
    enough_devices(&machine.cluster, mesh)?;
    let reduction = |layer: &Layer| -> Result<Seconds, MachineError> {
        if mesh.tensor() == 1 || layer.tensor_reductions == 0 {
            return Ok(Seconds::ZERO);
        }
        let bytes = Bytes(layer.stream_elements * micro * precision.element_bytes());
        let mut slowest = Seconds::ZERO;
        for stage in (0..mesh.pipeline()).map(StageId) {
            let family = Family::tensor(mesh, &machine.cluster, stage);
            slowest = slowest.max(collective::all_reduce(&machine.cluster, Collectives::Nccl, &family, bytes)?);
        }
        Ok(slowest * f64::from(layer.tensor_reductions))
    };
    let distinct = graph
        .distinct()
        .iter()
        .map(|layer| {
            let (forward, backward) = match &machine.cluster.first().device {
                Device::Gpu(gpu) => {
                    let pricing = GpuPricing { gpu, stack: &machine.stack, precision, ranks: mesh.ranks() };
                    let pass = |pass| pricing.layer(layer, pass, micro, Sharing::tensor(u64::from(mesh.tensor())));
                    (pass(Pass::Forward), pass(Pass::Backward))
                }
                Device::Measured(measured) => {
                    let pricing = MeasuredPricing { machine: measured, ranks: mesh.ranks() };
                    (pricing.layer(layer, Pass::Forward, micro)?, pricing.layer(layer, Pass::Backward, micro)?)
                }
            };
            let recomputed = layer.role == LayerRole::Block;
            Ok(LayerPrice { forward, backward, reductions: reduction(layer)?, recomputed })
        })
        .collect::<Result<_, MachineError>>()?;
    Ok(LayerPrices { distinct, order: graph.order().to_vec() })
}

/// The time in which the first `ranks` devices of a cluster do something together, with nothing else under way.
///
/// `bytes` counts what [`Collective`] says. A transfer goes from the first device to the last.
///
/// # Errors
///
/// When there are fewer devices, or a measured machine was not measured for it.
pub fn collective_time(
    cluster: &Cluster,
    collective: Collective,
    ranks: u32,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    enough_devices(cluster, ParallelSpec { data: ranks, tensor: 1, pipeline: 1 }.into())?;
    let members: Vec<_> = match collective {
        Collective::Transfer if ranks > 1 => [0, ranks - 1].map(|rank| cluster.position(rank)).into(),
        _ => (0..ranks).map(|rank| cluster.position(rank)).collect(),
    };
    collective::together(cluster, collective, Collectives::Nccl, &Family { groups: vec![members] }, bytes)
}

/// The time in which the first `ranks` devices of a cluster, all of them at once, sum `bytes` bytes.
///
/// # Errors
///
/// When there are fewer devices, or a measured machine was not measured for it.
pub fn all_reduce_time(cluster: &Cluster, ranks: u32, bytes: Bytes) -> Result<Seconds, MachineError> {
    collective_time(cluster, Collective::AllReduce, ranks, bytes)
}

/// The time in which the first device of a cluster sends `bytes` bytes to the first device of the next machine, or to
/// its neighbour if there is one machine.
///
/// # Errors
///
/// When there is one device, or a measured machine was not measured for it.
pub fn transfer_time(cluster: &Cluster, bytes: Bytes) -> Result<Seconds, MachineError> {
    let neighbour = if cluster.machines() > 1 { cluster.first().devices_per_instance } else { 1 };
    collective_time(cluster, Collective::Transfer, neighbour + 1, bytes)
}

/// Seconds of everything a plan does in a step.
#[derive(Clone, Debug)]
pub struct Prices<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    layers: LayerPrices,
}

impl<'a> Prices<'a> {
    /// Prices of `plan` on `machine`.
    ///
    /// # Errors
    ///
    /// When the machine does not admit the plan or was not measured for it.
    pub fn new(plan: &'a Plan, machine: &'a Machine) -> Result<Self, MachineError> {
        machine.admits(plan)?;
        let layers = layer_prices(plan.graph(), plan.batch().micro, plan.mesh(), plan.precision(), machine)?;
        Ok(Self { plan, machine, layers })
    }

    /// Seconds of a run of layers.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn segment(&self, segment: &Segment) -> Result<Seconds, MachineError> {
        let layers = segment.layers.clone().map(|index| self.layers.layer(index));
        let passes: Seconds = layers.map(|price| price.pass(segment.pass, segment.recompute)).sum();
        match segment.pass {
            Pass::Forward => Ok(passes),
            Pass::Backward => Ok(passes + self.gather(self.plan.held(&segment.layers), segment.accumulate)?),
        }
    }

    /// Seconds in which a micro-batch's gradients are added to the sum, or become it.
    fn gather(&self, held: Held, accumulate: bool) -> Result<Seconds, MachineError> {
        match &self.machine.cluster.first().device {
            Device::Gpu(_) if !accumulate => Ok(Seconds::ZERO),
            Device::Gpu(gpu) => Ok(self.gpu_pricing(gpu).accumulate(held.parameters)),
            Device::Measured(machine) => {
                let pricing = MeasuredPricing { machine, ranks: self.plan.mesh().ranks() };
                if accumulate { pricing.accumulate(held) } else { pricing.flatten(held) }
            }
        }
    }

    fn gpu_pricing(&self, gpu: &'a Gpu) -> GpuPricing<'a> {
        let (stack, precision) = (&self.machine.stack, self.plan.precision());
        GpuPricing { gpu, stack, precision, ranks: self.plan.mesh().ranks() }
    }

    /// Seconds of a piece of work of `graph`.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn work(&self, graph: &TaskGraph, work: Work) -> Result<Seconds, MachineError> {
        match work {
            Work::Compute(segment) => self.segment(&graph.segments()[segment.0 as usize]),
            Work::Transfer { from, to, bytes } => self.transfer(from, to, bytes),
            Work::ReduceGradients { stage, held } => self.reduce_gradients(stage, held),
            Work::ReduceShared { held } => self.reduce_shared(held),
            Work::Update { held, .. } => self.update(held),
        }
    }

    /// Seconds in which a stage hands one micro-batch to a neighbour.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn transfer(&self, from: StageId, to: StageId, bytes: Bytes) -> Result<Seconds, MachineError> {
        let pairs = Family::pairs(self.plan.mesh(), &self.machine.cluster, from, to);
        let tensor = u64::from(self.plan.mesh().tensor());
        if tensor == 1 || !self.machine.stack.scattered_transfers.value {
            return collective::transfer(&self.machine.cluster, &pairs, bytes);
        }
        let part = collective::transfer(&self.machine.cluster, &pairs, Bytes(bytes.0.div_ceil(tensor)))?;
        let group = Family::tensor(self.plan.mesh(), &self.machine.cluster, to);
        Ok(part + collective::all_gather(&self.machine.cluster, &group, bytes)?)
    }

    /// The bytes that the software sends for gradients: some reduce them in the precision of compute.
    fn gradient_bytes(&self, held: Held) -> Bytes {
        if self.machine.stack.compute_precision_gradients.value {
            Bytes(held.parameters * self.plan.precision().element_bytes())
        } else {
            held.gradient_bytes()
        }
    }

    /// Seconds in which a stage's replicas sum their gradients.
    pub(crate) fn reduce_gradients(&self, stage: StageId, held: Held) -> Result<Seconds, MachineError> {
        let family = Family::data(self.plan.mesh(), &self.machine.cluster, stage);
        let bytes = self.gradient_bytes(held);
        collective::all_reduce(&self.machine.cluster, self.plan.collectives(), &family, bytes)
    }

    fn reduce_shared(&self, held: Held) -> Result<Seconds, MachineError> {
        let mesh = self.plan.mesh();
        let (first, last) = (StageId(0), StageId(mesh.pipeline() - 1));
        let bytes = self.gradient_bytes(held);
        if let Device::Measured(_) = self.machine.cluster.first().device {
            // The executor's two ends send each other their copies.
            return Ok(self.transfer(first, last, bytes)? + self.transfer(last, first, bytes)?);
        }
        let ends = Family::pairs(mesh, &self.machine.cluster, first, last);
        collective::all_reduce(&self.machine.cluster, self.plan.collectives(), &ends, bytes)
    }

    /// Seconds of the optimizer's update.
    pub(crate) fn update(&self, held: Held) -> Result<Seconds, MachineError> {
        let update = match &self.machine.cluster.first().device {
            Device::Gpu(gpu) => self.gpu_pricing(gpu).update(self.plan.optimizer(), held.parameters),
            Device::Measured(machine) => {
                MeasuredPricing { machine, ranks: self.plan.mesh().ranks() }.update(self.plan.optimizer(), held)?
            }
        };
        Ok(update + self.machine.stack.step_overhead.value)
    }
}
