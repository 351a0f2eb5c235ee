//! Seconds of everything a plan does in a step that needs no link, and what the rest asks of links.

use super::collective::{Collective, measured, measured_collective, operation};
use super::compression::Compression;
use super::gpu::{GpuPricing, OperatorCost, update_bytes};
use super::layer::{LayerPrice, LayerPrices, layer_prices_on};
use super::measured::MeasuredPricing;
use super::operation::{Operation, Phase};
use crate::layout::Layout;
use crate::machine::{Machine, MachineError};
use crate::network::LinkId;
use crate::wiring::Wiring;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_hardware_profiles::{CollectiveOperation, Device, DeviceKind, DevicePosition, Gpu, MeasuredMachine};
use trainyard_plan::operators::Pass;
use trainyard_plan::{
    Between, Content, Exchange, GradientCompression, Group, Held, Message, MessageKind, Plan, Precision, Rank, Segment,
    StageId, StagePass, Store, TaskGraph, Way, Work,
};
use trainyard_units::{Bytes, Seconds};

/// Host time to start a copy between device and machine: one asynchronous copy and its event. A stated default of the
/// size of a kernel launch.
pub(crate) const COPY_LATENCY: Seconds = Seconds(10e-6);

/// What the optimizer keeps on a disk is read and written once.
const DISK_PASSES: f64 = 2.0;

/// The ranks that do an operation together, and what it asks of the links.
pub type Placed = (Vec<Rank>, Operation);

/// Seconds of layers on each kind of machine of a cluster: the same for all plans that differ in nothing but schedule,
/// cut, and how states are shared out.
#[derive(Clone, Debug)]
pub struct LayerTable {
    layers: Arc<[LayerPrices]>,
}

impl LayerTable {
    /// Those of a plan and of all that share its degrees, micro-batch and number formats.
    ///
    /// # Errors
    ///
    /// When the machine does not admit the plan or was not measured for it.
    pub fn new(plan: &Plan, machine: &Machine) -> Result<Self, MachineError> {
        machine.admits(plan)?;
        Self::on_slowest_of(plan.mesh().ranks(), plan, machine)
    }

    fn on_slowest_of(devices: u32, plan: &Plan, machine: &Machine) -> Result<Self, MachineError> {
        let (micro, mesh, precision) = (plan.batch().micro, plan.mesh(), plan.precision());
        let on = |device| layer_prices_on(device, devices, plan.graph(), micro, mesh, precision, machine);
        let layers = machine.cluster.pools.iter().map(|pool| on(&pool.device)).collect::<Result<_, _>>()?;
        Ok(Self { layers })
    }
}

/// Seconds of everything a plan does in a step.
#[derive(Clone, Debug)]
pub struct Prices<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    /// By kind of machine.
    layers: Arc<[LayerPrices]>,
    wiring: Wiring<'a>,
}

impl<'a> Prices<'a> {
    /// Prices of `plan` on `machine`.
    ///
    /// # Errors
    ///
    /// When the machine does not admit the plan or was not measured for it.
    pub fn new(plan: &'a Plan, machine: &'a Machine) -> Result<Self, MachineError> {
        Self::on_slowest_of(plan.mesh().ranks(), plan, machine)
    }

    /// Prices on the slowest of so many devices: on one, the mean device's.
    pub(crate) fn on_slowest_of(devices: u32, plan: &'a Plan, machine: &'a Machine) -> Result<Self, MachineError> {
        machine.admits(plan)?;
        Self::with_layers(plan, machine, LayerTable::on_slowest_of(devices, plan, machine)?)
    }

    /// Prices of `plan` on `machine` whose layers are priced already.
    pub(crate) fn with_layers(plan: &'a Plan, machine: &'a Machine, table: LayerTable) -> Result<Self, MachineError> {
        machine.admits(plan)?;
        Ok(Self { plan, machine, layers: table.layers, wiring: Wiring::new(&machine.cluster) })
    }

    pub(crate) fn layout(&self) -> Layout<'a> {
        Layout { mesh: self.plan.mesh(), cluster: &self.machine.cluster }
    }

    /// What each link carries, in bytes per second, by the number of the link; infinite where nothing is known to limit
    /// it.
    pub fn capacities(&self) -> &[f64] {
        self.wiring.capacities()
    }

    /// Seconds of one layer on one kind of machine.
    pub(crate) fn layer(&self, pool: usize, index: usize) -> LayerPrice {
        self.layers[pool].layer(index)
    }

    /// What each operator of a layer asks in a pass on one kind of machine; nothing where layers were measured whole.
    pub(crate) fn operator_costs(&self, pool: usize, index: usize, pass: Pass) -> Vec<OperatorCost> {
        let Device::Gpu(gpu) = self.device(pool) else { return Vec::new() };
        let (layer, sharing) = (self.plan.graph().layer(index), self.plan.mesh().sharing());
        self.gpu_pricing(gpu).operator_costs(layer, pass, self.plan.batch().micro, sharing)
    }

    /// What ranks send each other for a piece of work, which they must not be thought to compute.
    pub(crate) fn message(&self, work: Work) -> Option<Message> {
        let element = self.plan.precision().element_bytes();
        match work {
            Work::Transfer { from, to, bytes } => {
                let tensor = u64::from(self.plan.mesh().tensor());
                let parts = if self.measured().is_none() && self.scatters_transfers() { tensor } else { 1 };
                let (between, sent) = (Between::Stages { from, to }, Bytes(bytes.0.div_ceil(parts)));
                Some(Message { kind: MessageKind::Transfer, between, bytes: Some(sent), element })
            }
            Work::Exchange(exchange) => Some(self.exchange_message(exchange, Between::Group(exchange.group))),
            Work::ReduceShared { held } => {
                let stages = self.plan.stages();
                let (from, to) = (stages.at(0).0, stages.at(stages.links() - 1).0);
                Some(self.exchange_message(shared_exchange(from, held), Between::Stages { from, to }))
            }
            Work::Compute(_) | Work::Copy { .. } | Work::Update { .. } | Work::HostUpdate { .. } => None,
        }
    }

    fn exchange_message(&self, exchange: Exchange, between: Between) -> Message {
        let members = match between {
            Between::Group(group) => u64::from(self.plan.mesh().group_size(group)),
            Between::Stages { .. } => 2,
        };
        let (element, values) = (self.plan.precision().element_bytes(), exchange.held.parameters);
        let (kind, bytes, element) = match exchange.content {
            _ if self.measured().is_some() => {
                let bytes = self.carried(exchange);
                (of_plan(exchange.collective), bytes, (bytes.0 / values.max(1)).max(1))
            }
            Content::Weights => (of_plan(exchange.collective), Bytes(values * element), element),
            Content::Gradients => {
                let compression = self.compression(exchange.collective, members);
                let sent = compression.sent(values);
                (compression.collective(of_plan(exchange.collective)), sent, (sent.0 / values.max(1)).max(1))
            }
        };
        Message { kind: kind.into(), between, bytes: Some(bytes), element }
    }

    /// What a plan gathers of gradients, rows of tables, is those of all members already.
    fn compression(&self, collective: trainyard_plan::Collective, members: u64) -> Compression {
        let members = if collective == trainyard_plan::Collective::AllGather { 1 } else { members };
        let in_precision = self.machine.stack.compute_precision_gradients.value;
        let plain = if in_precision { self.plan.precision().element_bytes() } else { 4 };
        Compression::new(self.plan.gradient_compression(), plain, members)
    }

    /// Whether the ranks of a tensor group each send their part of what they all hold.
    fn scatters_transfers(&self) -> bool {
        let mesh = self.plan.mesh();
        mesh.tensor() > 1 && self.machine.stack.scattered_transfers.value && !mesh.parallel().sequence
    }

    fn device(&self, pool: usize) -> &'a Device {
        &self.machine.cluster.pools[pool].device
    }

    /// Seconds of a run of layers on one kind of machine.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn segment(&self, segment: &Segment, pool: usize) -> Result<Seconds, MachineError> {
        let layers = segment.layers.clone().map(|index| self.layers[pool].layer(index));
        let passes: Seconds = layers.map(|price| price.pass(segment.pass, segment.recompute)).sum();
        match segment.pass {
            StagePass::Forward | StagePass::BackwardInput => Ok(passes),
            StagePass::Backward | StagePass::BackwardWeight => {
                Ok(passes + self.add_gradients(self.plan.held(&segment.layers), segment.accumulate, pool)?)
            }
        }
    }

    /// Seconds in which a micro-batch's gradients are added to the sum, or become it.
    fn add_gradients(&self, held: Held, accumulate: bool, pool: usize) -> Result<Seconds, MachineError> {
        match self.device(pool) {
            // The first gradients are kept as they come; what collectives ask of them is part of these.
            _ if !accumulate => Ok(Seconds::ZERO),
            Device::Gpu(gpu) => Ok(self.gpu_pricing(gpu).accumulate(held.updated())),
            Device::Measured(machine) => self.measured_pricing(machine).accumulate(held),
        }
    }

    fn gpu_pricing(&self, gpu: &'a Gpu) -> GpuPricing<'a> {
        let (stack, precision) = (&self.machine.stack, self.plan.precision());
        GpuPricing { gpu, stack, precision, ranks: self.plan.mesh().ranks(), unlike: 0.0 }
    }

    fn measured_pricing(&self, machine: &'a MeasuredMachine) -> MeasuredPricing<'a> {
        MeasuredPricing { machine, ranks: self.plan.mesh().ranks(), precision: self.plan.precision() }
    }

    /// Seconds of work that only kernels do; nothing for communication.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub(crate) fn kernels(&self, graph: &TaskGraph, work: Work, pool: usize) -> Result<Option<Seconds>, MachineError> {
        match work {
            Work::Compute(segment) => self.segment(&graph.segments()[segment.0 as usize], pool).map(Some),
            Work::Update { held, .. } => self.update(held, pool).map(Some),
            Work::Transfer { .. }
            | Work::Exchange(_)
            | Work::ReduceShared { .. }
            | Work::Copy { .. }
            | Work::HostUpdate { .. } => Ok(None),
        }
    }

    /// Seconds of the optimizer's update of what a rank holds, or of its part of that, on the device of one kind of
    /// machine, with what the software adds to each step.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn update(&self, held: Held, pool: usize) -> Result<Seconds, MachineError> {
        let update = match self.device(pool) {
            Device::Gpu(gpu) => {
                let pricing = self.gpu_pricing(gpu);
                pricing.update(self.plan.optimizer(), held.updated(), self.plan.touched(held))
                    + pricing.separate_update(self.plan.optimizer(), held.tensors)
            }
            Device::Measured(machine) => self.measured_pricing(machine).update(self.plan.optimizer(), held)?,
        };
        Ok(update + self.machine.stack.step_overhead.value)
    }

    /// What communication asks of the links: each group of ranks that does it, by itself, with latencies in seconds,
    /// volumes in bytes and limits in bytes per second. Members of a transfer are its sender and its receiver, in this
    /// order. Kernels ask for nothing.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn communications(&self, work: Work) -> Result<Vec<Placed>, MachineError> {
        match work {
            Work::Compute(_) | Work::Update { .. } => Ok(Vec::new()),
            Work::Transfer { from, to, bytes } => self.transfers(self.layout().pairs(from.0, to.0), bytes),
            Work::Exchange(exchange) => {
                self.exchanges(exchange, self.layout().groups(exchange.stage.0, exchange.group))
            }
            Work::ReduceShared { held } => self.reduce_shared(held),
            Work::Copy { stage, way, store, bytes } => Ok(self.copies(stage, way, store, bytes)),
            Work::HostUpdate { stage, store, held } => self.host_updates(stage, store, held),
        }
    }

    fn measured(&self) -> Option<&'a MeasuredMachine> {
        match self.device(0) {
            Device::Measured(machine) => Some(machine),
            Device::Gpu(_) => None,
        }
    }

    fn collective(&self, collective: Collective, members: &[DevicePosition], bytes: Bytes) -> Operation {
        operation(&self.wiring, collective, self.plan.collectives(), members, bytes)
    }

    /// Every rank of a stage hands one micro-batch to its neighbour.
    fn transfers(&self, pairs: Vec<Vec<Rank>>, bytes: Bytes) -> Result<Vec<Placed>, MachineError> {
        if let Some(machine) = self.measured() {
            let ranks = 2 * pairs.len() as u32;
            let time = measured(machine, CollectiveOperation::Send, ranks, bytes)?;
            return Ok(pairs.into_iter().map(|pair| (pair, Operation::taking(time))).collect());
        }
        let mesh = self.plan.mesh();
        let (tensor, scattered) = (u64::from(mesh.tensor()), self.scatters_transfers());
        let placed = pairs.into_iter().map(|pair| {
            let part = if scattered { Bytes(bytes.0.div_ceil(tensor)) } else { bytes };
            let mut operation = self.collective(Collective::Transfer, &self.layout().positions(&pair), part);
            if scattered {
                // The receivers put the parts together over links of their own.
                let receivers = self.layout().positions(&mesh.group(pair[1], Group::Tensor));
                let gathered = self.collective(Collective::AllGather, &receivers, bytes).alone(self.capacities());
                operation.phases.push(Phase::lasting(gathered));
            }
            (pair, operation)
        });
        Ok(placed.collect())
    }

    fn exchanges(&self, exchange: Exchange, groups: Vec<Vec<Rank>>) -> Result<Vec<Placed>, MachineError> {
        if let Some(machine) = self.measured() {
            let members = groups.first().map_or(0, Vec::len) as u32;
            let exchanged =
                measured_collective(machine, of_plan(exchange.collective), members, self.carried(exchange))?;
            // What ranks share out lies in one buffer, out of tensors and back; so does what leaves a GPU.
            let in_place =
                exchange.collective == trainyard_plan::Collective::AllReduce && machine.device == DeviceKind::Cpu;
            let copied =
                if in_place { Seconds::ZERO } else { self.measured_pricing(machine).flatten(exchange.held)? };
            let time = exchanged + copied;
            return Ok(groups.into_iter().map(|group| (group, Operation::taking(time))).collect());
        }
        let (stack, shares) = (&self.machine.stack, self.plan.gathers_weights());
        let times = if shares { stack.collectives_for(exchange.held.matrices) } else { 1 };
        let carried = Bytes(exchange.held.parameters * self.plan.precision().element_bytes());
        let placed = groups.into_iter().map(|group| {
            let positions = self.layout().positions(&group);
            let mut operation = match exchange.content {
                Content::Weights => self.collective(of_plan(exchange.collective), &positions, carried),
                Content::Gradients => self.gradients(exchange, &positions),
            };
            operation.repeat_latency(times);
            let copying = if shares { stack.copying(times, positions.len(), carried) } else { Seconds::ZERO };
            if copying > Seconds::ZERO {
                operation.phases.push(Phase::lasting(copying));
            }
            (group, operation)
        });
        Ok(placed.collect())
    }

    /// Bytes of what the ranks of a measured machine bring together: weights in single precision, gradients in that of
    /// compute, or as the plan compresses them.
    fn carried(&self, exchange: Exchange) -> Bytes {
        let compressed = self.plan.gradient_compression() == GradientCompression::Fp16;
        match exchange.content {
            Content::Gradients if compressed => exchange.held.weight_bytes(Precision::Fp16Mixed.element_bytes()),
            Content::Gradients => exchange.held.weight_bytes(self.plan.precision().element_bytes()),
            Content::Weights => exchange.held.weight_bytes(Precision::Fp32.element_bytes()),
        }
    }

    /// Gradients among some ranks, compressed if the plan says so.
    fn gradients(&self, exchange: Exchange, members: &[DevicePosition]) -> Operation {
        let values = exchange.held.parameters;
        let compression = self.compression(exchange.collective, members.len() as u64);
        let collective = compression.collective(of_plan(exchange.collective));
        let mut operation = self.collective(collective, members, compression.sent(values));
        if let Device::Gpu(gpu) = self.device(self.machine.cluster.pool_index(members[0].instance)) {
            let touched = compression.touched(values);
            if touched > 0.0 {
                operation.phases.insert(0, Phase::lasting(self.gpu_pricing(gpu).streaming(touched)));
            }
        }
        operation
    }

    /// Both holders of the shared table sum its gradients.
    fn reduce_shared(&self, held: Held) -> Result<Vec<Placed>, MachineError> {
        let stages = self.plan.stages();
        let (first, last) = (stages.at(0).0, stages.at(stages.links() - 1).0);
        if self.measured().is_some() {
            // The executor's two ends send each other their copies, one after the other.
            let mut there = self.transfers(self.layout().pairs(first.0, last.0), held.gradient_bytes())?;
            let back = self.transfers(self.layout().pairs(last.0, first.0), held.gradient_bytes())?;
            for ((_, operation), (_, other)) in there.iter_mut().zip(back) {
                operation.phases.extend(other.phases);
            }
            return Ok(there);
        }
        let exchange = shared_exchange(first, held);
        let pairs = self.layout().pairs(first.0, last.0).into_iter();
        Ok(pairs
            .map(|pair| {
                let operation = self.gradients(exchange, &self.layout().positions(&pair));
                (pair, operation)
            })
            .collect())
    }

    /// Every rank of a stage, between its device and its machine.
    fn copies(&self, stage: StageId, way: Way, store: Store, bytes: Bytes) -> Vec<Placed> {
        let ranks = self.plan.mesh().stage_ranks(stage.0);
        if let Some(machine) = self.measured() {
            // Its devices are processors: their memory is the machine's.
            let time = self.measured_pricing(machine).copy(bytes);
            return ranks.map(|rank| (vec![rank], Operation::taking(time))).collect();
        }
        ranks
            .map(|rank| {
                let at = self.layout().position(rank);
                let pcie = match way {
                    Way::Out => self.wiring.to_processor(at),
                    Way::In => self.wiring.from_processor(at),
                };
                let mut uses = vec![(pcie, 1.0), (self.wiring.host_memory(at.instance), 1.0)];
                if store == Store::Nvme {
                    uses.push((self.wiring.disk(at.instance), 1.0));
                }
                uses.sort_unstable_by_key(|(link, _)| *link);
                let limit = match self.device(self.layout().pool(rank)) {
                    Device::Gpu(gpu) => gpu.host_bandwidth.value.0,
                    Device::Measured(machine) => machine.copy_bandwidth.0,
                };
                let phase = Phase { latency: COPY_LATENCY, volume: bytes.as_f64(), limit, uses };
                (vec![rank], Operation { phases: vec![phase] })
            })
            .collect()
    }

    /// The processor's update streams everything it keeps through main memory, which all ranks of a machine share
    /// (Ren et al., arXiv:2101.06840, section 5); what is on a disk comes from there and goes back.
    fn host_updates(&self, stage: StageId, store: Store, held: Held) -> Result<Vec<Placed>, MachineError> {
        if let Some(machine) = self.measured() {
            let time = self.measured_pricing(machine).update(self.plan.optimizer(), held)?;
            let ranks = self.plan.mesh().stage_ranks(stage.0);
            return Ok(ranks.map(|rank| (vec![rank], Operation::taking(time))).collect());
        }
        let (optimizer, precision) = (self.plan.optimizer(), self.plan.precision());
        let streamed = update_bytes(optimizer, precision, held.updated(), self.plan.touched(held)).as_f64();
        let state = (held.updated() * (optimizer.state_bytes() + precision.master_bytes())) as f64;
        let ranks = self.plan.mesh().stage_ranks(stage.0);
        let placed = ranks
            .map(|rank| {
                let machine = self.layout().position(rank).instance;
                let through = |link, volume| Phase {
                    latency: COPY_LATENCY,
                    volume,
                    limit: f64::INFINITY,
                    uses: vec![(link, 1.0)],
                };
                let mut phases = vec![through(self.wiring.host_memory(machine), streamed)];
                if store == Store::Nvme {
                    phases.push(through(self.wiring.disk(machine), DISK_PASSES * state));
                }
                phases.push(Phase::lasting(self.machine.stack.step_overhead.value));
                (vec![rank], Operation { phases })
            })
            .collect();
        Ok(placed)
    }

    /// Lower bounds on the time in which any of the groups of a stage does something, and in which all of them do: what a
    /// group takes alone, and what the links of the first machine take to carry all groups that have a member there.
    /// Where all ranks go in step and all groups have the same to do on links that are as full, any of them takes what
    /// they take together; else groups may get out of each other's way.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub(crate) fn at_least(&self, work: Work) -> Result<(Seconds, Seconds), MachineError> {
        let each = self.each_at_least(work)?;
        let all = each.iter().map(|(_, together)| *together).fold(Seconds::ZERO, Seconds::max);
        let Some(((alone, together), rest)) = each.split_first() else { return Ok((all, all)) };
        let in_step = self.layout().in_step();
        if in_step && rest.iter().all(|other| near(other.0, *alone) && near(other.1, *together)) {
            return Ok((*together, all));
        }
        Ok((Seconds(rest.iter().map(|(alone, _)| alone.0).fold(alone.0, f64::min)), all))
    }

    /// For each group with a member on the stage's first machine, what it takes alone, and, if that is more, what the
    /// fullest of its links takes to carry all of them.
    fn each_at_least(&self, work: Work) -> Result<Vec<(Seconds, Seconds)>, MachineError> {
        let capacities = self.capacities();
        let placed = match work {
            Work::Exchange(exchange) => {
                self.exchanges(exchange, self.layout().groups_of_first_machine(exchange.stage.0, exchange.group))?
            }
            Work::Transfer { from, to, bytes } if self.measured().is_none() => {
                self.transfers(self.layout().pairs_of_first_machine(from.0, to.0), bytes)?
            }
            _ => self.communications(work)?,
        };
        let mut carried: BTreeMap<LinkId, f64> = BTreeMap::new();
        for phase in placed.iter().flat_map(|(_, operation)| &operation.phases) {
            for (link, flows) in &phase.uses {
                *carried.entry(*link).or_default() += flows * phase.volume;
            }
        }
        let fullest = |operation: &Operation| {
            let links = operation.phases.iter().flat_map(|phase| &phase.uses);
            links.map(|(link, _)| carried[link] / capacities[link.0 as usize]).fold(0.0, f64::max)
        };
        let each = placed.iter().map(|(_, operation)| {
            let alone = operation.alone(capacities);
            (alone, alone.max(Seconds(fullest(operation))))
        });
        Ok(each.collect())
    }
}

/// Whether two times differ by rounding only.
fn near(a: Seconds, b: Seconds) -> bool {
    (a.0 - b.0).abs() <= 1e-9 * a.0.max(b.0)
}

/// The sum of gradients of the table that the first and the last stage share.
fn shared_exchange(stage: StageId, held: Held) -> Exchange {
    let (collective, content) = (trainyard_plan::Collective::AllReduce, Content::Gradients);
    Exchange { collective, stage, group: Group::Gradient, content, held }
}

fn of_plan(collective: trainyard_plan::Collective) -> Collective {
    match collective {
        trainyard_plan::Collective::AllReduce => Collective::AllReduce,
        trainyard_plan::Collective::ReduceScatter => Collective::ReduceScatter,
        trainyard_plan::Collective::AllGather => Collective::AllGather,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec};

    #[test]
    fn sparse_rows_of_tables_are_those_of_each_rank_once() {
        let model = &trainyard_models::find("dlrm-small").expect("in the catalog").model;
        let plan = Plan::try_from(PlanSpec {
            parallel: ParallelSpec { data: 8, ..ParallelSpec::default() },
            batch: BatchSpec { global: 8000, micro: 1000, accumulation: 1 },
            gradient_compression: GradientCompression::Dgc,
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
        })
        .expect("a valid plan");
        let machine = Machine {
            cluster: catalog().cluster("p4d.24xlarge", 1).expect("in the catalog"),
            stack: catalog().stack("pytorch").expect("in the catalog").clone(),
        };
        let prices = Prices::new(&plan, &machine).expect("a GPU prices everything");
        let sent = |(collective, group, held)| {
            let exchange = Exchange { collective, stage: StageId(0), group, content: Content::Gradients, held };
            prices.message(Work::Exchange(exchange)).and_then(|message| message.bytes).expect("it is sent").0
        };
        let sum: u64 = plan.reductions(plan.held_by(StageId(0))).into_iter().flatten().map(sent).sum();
        // Of eight ranks each the thousandth of 1000 samples' rows, 128 values in each of 26 tables, and of all else.
        let others = plan.graph().updated_parameters().div_ceil(1000);
        assert_eq!(sum, 8 * 8 * (26 * 128 + others));
    }
}
