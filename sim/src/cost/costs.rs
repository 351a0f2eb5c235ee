//! Seconds of everything a plan does in a step that needs no link, and what the rest asks of links.

use super::collective::operation;
use super::device::{LinkCosts, OperatorCost, Usage, device_costs};
use super::layer::{Computed, LayerCost, LayerCosts};
use super::operation::Operation;
use super::wired::shared_exchange;
use crate::layout::Layout;
use crate::machine::{Machine, MachineError};
use crate::network::LinkId;
use crate::wiring::Wiring;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_hardware_profiles::{Device, DevicePosition};
use trainyard_plan::operators::Pass;
use trainyard_plan::{
    Between, Collective, Exchange, Message, ParameterCounts, Plan, Rank, Segment, StageId, StagePass, TaskGraph, Work,
};
use trainyard_units::{Bytes, Seconds};

/// Host time to start a copy between device and machine: one asynchronous copy and its event. A stated default of the
/// size of a kernel launch.
pub(crate) const COPY_LATENCY: Seconds = Seconds(10e-6);

/// The ranks that do an operation together, and what it asks of the links.
pub type Placed = (Vec<Rank>, Operation);

/// Seconds of layers on each kind of machine of a cluster: the same for all plans that differ in nothing but schedule,
/// cut, and how states are shared out.
#[derive(Clone, Debug)]
pub struct LayerTable {
    layers: Arc<[LayerCosts]>,
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
        let (graph, micro, mesh, precision) = (plan.graph(), plan.batch().micro, plan.mesh(), plan.precision());
        let layers = Computed { graph, micro, mesh, precision, machine };
        let on = |device| {
            let [costs] = layers.costs_among([devices], &layers.kernels_on(device)?)?;
            Ok(costs)
        };
        let layers = machine.cluster.pools.iter().map(|pool| on(&pool.device)).collect::<Result<_, MachineError>>()?;
        Ok(Self { layers })
    }
}

/// Seconds of everything a plan does in a step.
#[derive(Clone, Debug)]
pub struct Costs<'a> {
    pub(super) plan: &'a Plan,
    pub(super) machine: &'a Machine,
    /// By kind of machine.
    layers: Arc<[LayerCosts]>,
    pub(super) wiring: Wiring<'a>,
}

impl<'a> Costs<'a> {
    /// Costs of `plan` on `machine`.
    ///
    /// # Errors
    ///
    /// When the machine does not admit the plan or was not measured for it.
    pub fn new(plan: &'a Plan, machine: &'a Machine) -> Result<Self, MachineError> {
        Self::on_slowest_of(plan.mesh().ranks(), plan, machine)
    }

    /// Costs on the slowest of so many devices: on one, the mean device's.
    pub(crate) fn on_slowest_of(devices: u32, plan: &'a Plan, machine: &'a Machine) -> Result<Self, MachineError> {
        machine.admits(plan)?;
        Self::with_layers(plan, machine, LayerTable::on_slowest_of(devices, plan, machine)?)
    }

    /// Costs of `plan` on `machine` whose layers are priced already.
    pub(crate) fn with_layers(plan: &'a Plan, machine: &'a Machine, table: LayerTable) -> Result<Self, MachineError> {
        machine.admits(plan)?;
        Ok(Self { plan, machine, layers: table.layers, wiring: Wiring::new(&machine.cluster) })
    }

    pub(crate) fn layout(&self) -> Layout<'a> {
        Layout { mesh: self.plan.mesh(), cluster: &self.machine.cluster }
    }

    /// Capacities of the links, in bytes per second, by the number of the link; infinite where nothing is known to
    /// limit it.
    pub fn capacities(&self) -> &[f64] {
        self.wiring.capacities()
    }

    /// Seconds of one layer on one kind of machine.
    pub(crate) fn layer(&self, pool: usize, index: usize) -> LayerCost {
        self.layers[pool].layer(index)
    }

    /// The cost of each operator of a layer in a pass on one kind of machine; none where layers were measured whole.
    pub(crate) fn operator_costs(&self, pool: usize, index: usize, pass: Pass) -> Vec<OperatorCost> {
        let (layer, sharing) = (self.plan.graph().layer(index), self.plan.mesh().sharing());
        device_costs(self.device(pool)).operator_costs(self.usage(), layer, pass, self.plan.batch().micro, sharing)
    }

    /// The message of ranks for a piece of work, which they must not be thought to compute.
    pub(crate) fn message(&self, work: Work) -> Option<Message> {
        let element = self.plan.precision().element_bytes();
        match work {
            Work::Transfer { from, to, bytes } => {
                let parts = self.links().transfer_parts(self);
                let (between, sent) = (Between::Stages { from, to }, Bytes(bytes.0.div_ceil(parts)));
                Some(Message { kind: Collective::Transfer, between, bytes: Some(sent), element })
            }
            Work::Exchange(exchange) => Some(self.exchange_message(exchange, Between::Group(exchange.group))),
            Work::ReduceShared { held } => {
                let [from, to] = self.holders_of_shared();
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
        let (collective, bytes, element) = self.links().sent(self, exchange, members);
        Message { kind: collective, between, bytes: Some(bytes), element }
    }

    /// The first and the last stage, which both hold the shared table.
    pub(super) fn holders_of_shared(&self) -> [StageId; 2] {
        let stages = self.plan.stages();
        [stages.at(0).0, stages.at(stages.chunks() - 1).0]
    }

    pub(super) fn device(&self, pool: usize) -> &'a Device {
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
    fn add_gradients(&self, held: ParameterCounts, accumulate: bool, pool: usize) -> Result<Seconds, MachineError> {
        // The first gradients are kept as they come; what collectives ask of them is part of these.
        if !accumulate {
            return Ok(Seconds::ZERO);
        }
        device_costs(self.device(pool)).accumulate(self.usage(), held)
    }

    pub(super) fn usage(&self) -> Usage<'a> {
        let ranks = self.plan.mesh().ranks();
        let (stack, precision) = (&self.machine.stack, self.plan.precision());
        Usage {
            stack,
            launch: self.machine.launch(),
            precision,
            ranks,
            work_cv: 0.0,
            drops_out: self.plan.graph().drops_out(),
        }
    }

    fn links(&self) -> &'a dyn LinkCosts {
        device_costs(self.device(0)).links()
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
    pub fn update(&self, held: ParameterCounts, pool: usize) -> Result<Seconds, MachineError> {
        let touched = self.plan.touched(held);
        let update = device_costs(self.device(pool)).update(self.usage(), self.plan.optimizer(), held, touched)?;
        Ok(update + self.machine.stack.step_overhead.value)
    }

    /// The load of communication on the links: each group of ranks that does it, by itself, with latencies in seconds,
    /// volumes in bytes and limits in bytes per second. Members of a transfer are its sender and its receiver, in this
    /// order. Kernels ask for nothing.
    ///
    /// # Errors
    ///
    /// When a measured machine was not measured for it.
    pub fn communications(&self, work: Work) -> Result<Vec<Placed>, MachineError> {
        match work {
            Work::Compute(_) | Work::Update { .. } => Ok(Vec::new()),
            Work::Transfer { from, to, bytes } => {
                self.links().transfers(self, self.layout().pairs(from.0, to.0), bytes)
            }
            Work::Exchange(exchange) => {
                self.links().exchanges(self, exchange, self.layout().groups(exchange.stage.0, exchange.group))
            }
            Work::ReduceShared { held } => self.links().reduce_shared(self, held),
            Work::Copy { stage, way, store, bytes } => {
                self.on_each_rank(stage, |rank| Ok(self.links().copy(self, rank, way, store, bytes)))
            }
            Work::HostUpdate { stage, store, held } => {
                self.on_each_rank(stage, |rank| self.links().host_update(self, rank, store, held))
            }
        }
    }

    fn on_each_rank(
        &self,
        stage: StageId,
        operation: impl Fn(Rank) -> Result<Operation, MachineError>,
    ) -> Result<Vec<Placed>, MachineError> {
        self.plan.mesh().stage_ranks(stage.0).map(|rank| Ok((vec![rank], operation(rank)?))).collect()
    }

    pub(super) fn collective(&self, collective: Collective, members: &[DevicePosition], bytes: Bytes) -> Operation {
        operation(&self.wiring, collective, self.plan.collectives(), members, bytes)
    }

    /// Lower bounds on the time in which any of the groups of a stage does something, and in which all of them do: what
    /// a group takes alone, and what the links of the first machine take to carry all groups that have a member there.
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

    /// For each group with a member on the stage's first machine (each of all, where its machines are not alike), what it
    /// takes alone, and, if that is more, what the fullest of its links takes to carry all of them.
    fn each_at_least(&self, work: Work) -> Result<Vec<(Seconds, Seconds)>, MachineError> {
        let (capacities, layout) = (self.capacities(), self.layout());
        let placed = match work {
            Work::Exchange(exchange) if layout.period().is_some() => {
                let groups = layout.groups_of_first_machine(exchange.stage.0, exchange.group);
                self.links().exchanges(self, exchange, groups)?
            }
            Work::Transfer { from, to, bytes } if layout.period().is_some() => {
                self.links().transfers(self, layout.pairs_of_first_machine(from.0, to.0), bytes)?
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

/// Tells whether two times differ by rounding only.
fn near(a: Seconds, b: Seconds) -> bool {
    (a.0 - b.0).abs() <= 1e-9 * a.0.max(b.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_plan::{
        BatchSpec, ClusterSpec, Content, Exchange, GradientCompression, ParallelSpec, PlanSpec, StageId,
    };

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
        let costs = Costs::new(&plan, &machine).expect("a GPU prices everything");
        let sent = |(collective, group, held)| {
            let exchange = Exchange { collective, stage: StageId(0), group, content: Content::Gradients, held };
            costs.message(Work::Exchange(exchange)).and_then(|message| message.bytes).expect("it is sent").0
        };
        let sum: u64 = plan.reductions(plan.held_by(StageId(0))).into_iter().flatten().map(sent).sum();
        // Of eight ranks each the thousandth of 1000 samples' rows, 128 values in each of 26 tables, and of all else.
        let others = plan.graph().updated_parameters().div_ceil(1000);
        assert_eq!(sum, 8 * 8 * (26 * 128 + others));
    }
}
