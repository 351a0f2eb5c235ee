//! Communication over links that are known.

use super::collective::over_links;
use super::compression::Compression;
use super::costs::{COPY_LATENCY, Costs, Placed};
use super::device::{LinkCosts, device_costs};
use super::gpu::{row_update_bytes, update_bytes};
use super::operation::{Operation, Phase};
use crate::machine::MachineError;
use crate::wiring::Wiring;
use trainyard_hardware_profiles::DevicePosition;
use trainyard_plan::{
    Collective, Collectives, Content, CopyDirection, Exchange, Group, ParameterCounts, Rank, StageId, Store,
};
use trainyard_units::{Bytes, Seconds};

/// State of the optimizer on a disk is read and written once.
const DISK_PASSES: f64 = 2.0;

/// The part of a host link's nominal rate that copies from and to pinned memory reach: 11.25 GB/s (p3dn) to 12.5 of 15.75
/// on PCIe 3.0; see docs/physics.md, section 7.2.
const PINNED: f64 = 0.75;

/// Links inside machines and a network between them.
pub(crate) struct Wired;

impl LinkCosts for Wired {
    fn transfers(&self, of: &Costs<'_>, pairs: Vec<Vec<Rank>>, bytes: Bytes) -> Result<Vec<Placed>, MachineError> {
        let parts = self.transfer_parts(of);
        let placed = pairs.into_iter().map(|pair| {
            let part = Bytes(bytes.0.div_ceil(parts));
            let mut operation = of.collective(Collective::Transfer, &of.layout().positions(&pair), part);
            if parts > 1 {
                // The receivers put the parts together over links of their own.
                let receivers = of.layout().positions(&of.plan.mesh().group(pair[1], Group::Tensor));
                let gathered = of.collective(Collective::AllGather, &receivers, bytes).alone(of.capacities());
                operation.phases.push(Phase::lasting(gathered));
            }
            (pair, operation)
        });
        Ok(placed.collect())
    }

    /// The ranks of a tensor group may each send their part of what they all hold.
    fn transfer_parts(&self, of: &Costs<'_>) -> u64 {
        let mesh = of.plan.mesh();
        let scattered = of.machine.stack.scattered_transfers.value && !mesh.parallel().sequence;
        if scattered { u64::from(mesh.tensor()) } else { 1 }
    }

    fn exchanges(
        &self,
        of: &Costs<'_>,
        exchange: Exchange,
        groups: Vec<Vec<Rank>>,
    ) -> Result<Vec<Placed>, MachineError> {
        let (stack, shares) = (&of.machine.stack, of.plan.gathers_weights());
        let held = exchange.held;
        // Adapters, a hundredth of the weights beside which they stand, are gathered in one call with those and reduced in
        // one bucket: deepspeed/runtime/zero/partitioned_param_coordinator.py and stage3.py.
        let own = if of.plan.method().has_adapters() { 0 } else { held.matrices };
        let matrices = match exchange.content {
            Content::Weights => own + held.frozen.matrices + held.borrowed.matrices,
            Content::Gradients => own,
        };
        let times = if shares { stack.collectives_for(matrices) } else { 1 };
        let element = of.plan.precision().element_bytes();
        let carried = match exchange.content {
            Content::Weights => held.gathered_bytes(element),
            Content::Gradients => Bytes(held.parameters * element),
        };
        let placed = groups.into_iter().map(|group| {
            let positions = of.layout().positions(&group);
            let mut operation = match exchange.content {
                Content::Weights => of.collective(exchange.collective, &positions, carried),
                Content::Gradients => gradients(of, exchange, &positions),
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

    fn sent(&self, of: &Costs<'_>, exchange: Exchange, members: u64) -> (Collective, Bytes, u64) {
        let (element, values) = (of.plan.precision().element_bytes(), exchange.held.parameters);
        let collective = exchange.collective;
        match exchange.content {
            Content::Weights => (collective, exchange.held.gathered_bytes(element), element),
            Content::Gradients => {
                let compression = compression(of, exchange.collective, members);
                let sent = compression.sent(values);
                (compression.collective(collective), sent, (sent.0 / values.max(1)).max(1))
            }
        }
    }

    fn reduce_shared(&self, of: &Costs<'_>, held: ParameterCounts) -> Result<Vec<Placed>, MachineError> {
        let [first, last] = of.holders_of_shared();
        let exchange = shared_exchange(first, held);
        let pairs = of.layout().pairs(first.0, last.0).into_iter();
        Ok(pairs
            .map(|pair| {
                let operation = gradients(of, exchange, &of.layout().positions(&pair));
                (pair, operation)
            })
            .collect())
    }

    fn copy(&self, of: &Costs<'_>, rank: Rank, way: CopyDirection, store: Store, bytes: Bytes) -> Operation {
        let at = of.layout().position(rank);
        let pcie = match way {
            CopyDirection::DeviceToHost => of.wiring.to_processor(at),
            CopyDirection::HostToDevice => of.wiring.from_processor(at),
        };
        let mut uses = vec![(pcie, 1.0), (of.wiring.host_memory(at.instance), 1.0)];
        if store == Store::Nvme {
            uses.push((of.wiring.disk(at.instance), 1.0));
        }
        uses.sort_unstable_by_key(|(link, _)| *link);
        let limit = device_costs(of.device(of.layout().pool(rank))).host_bandwidth().0 * PINNED;
        Operation { phases: vec![Phase { latency: COPY_LATENCY, volume: bytes.as_f64(), limit, uses }] }
    }

    /// The processor's update streams everything it keeps through main memory, which all ranks of a machine share
    /// (Ren et al., arXiv:2101.06840, section 5); what is on a disk comes from there and goes back.
    fn host_update(
        &self,
        of: &Costs<'_>,
        rank: Rank,
        store: Store,
        held: ParameterCounts,
    ) -> Result<Operation, MachineError> {
        let (optimizer, precision) = (of.plan.optimizer(), of.plan.precision());
        let times = of.machine.stack.host_update_traffic.as_ref().map_or(1.0, |traffic| traffic.value);
        let rows = row_update_bytes(optimizer, of.plan.touched(held));
        let streamed = (update_bytes(optimizer, precision, held) + rows).as_f64() * times;
        let master = Bytes(precision.master_bytes()) * held.updated();
        let state = (held.updated_state(optimizer) + master).as_f64();
        let machine = of.layout().position(rank).instance;
        let through =
            |link, volume| Phase { latency: COPY_LATENCY, volume, limit: f64::INFINITY, uses: vec![(link, 1.0)] };
        let mut phases = vec![through(of.wiring.host_memory(machine), streamed)];
        if store == Store::Nvme {
            phases.push(through(of.wiring.disk(machine), DISK_PASSES * state));
        }
        phases.push(Phase::lasting(of.machine.stack.step_overhead.value));
        Ok(Operation { phases })
    }

    fn together(
        &self,
        wiring: &Wiring<'_>,
        collective: Collective,
        algorithm: Collectives,
        groups: &[Vec<DevicePosition>],
        bytes: Bytes,
    ) -> Result<Seconds, MachineError> {
        Ok(over_links(wiring, collective, algorithm, groups, bytes))
    }

    fn overlaps_inside_layers(&self) -> bool {
        true
    }
}

/// Gathered gradients are rows of tables, already those of all members.
fn compression(of: &Costs<'_>, collective: Collective, members: u64) -> Compression {
    let members = if collective == Collective::AllGather { 1 } else { members };
    let in_precision = of.machine.stack.compute_precision_gradients.value;
    let plain = if in_precision { of.plan.precision().element_bytes() } else { 4 };
    Compression::new(of.plan.gradient_compression(), plain, members)
}

/// Gradients among some ranks, compressed if the plan says so.
fn gradients(of: &Costs<'_>, exchange: Exchange, members: &[DevicePosition]) -> Operation {
    let values = exchange.held.parameters;
    let compression = compression(of, exchange.collective, members.len() as u64);
    let collective = compression.collective(exchange.collective);
    let mut operation = of.collective(collective, members, compression.sent(values));
    let touched = compression.touched(values);
    if touched > 0.0 {
        let device = of.device(of.machine.cluster.pool_index(members[0].instance));
        operation.phases.insert(0, Phase::lasting(device_costs(device).streaming(touched)));
    }
    operation
}

/// The sum of gradients of the table that the first and the last stage share.
pub(super) fn shared_exchange(stage: StageId, held: ParameterCounts) -> Exchange {
    let (collective, content) = (Collective::AllReduce, Content::Gradients);
    Exchange { collective, stage, group: Group::Gradient, content, held }
}
