//! Collectives and transfers: rings, trees and hierarchies over the links that a group's members share.
//!
//! An all-reduce of S bytes over n ranks moves 2(n−1)/n · S through the narrowest link of a ring, and takes 2(n−1)
//! steps; a tree moves 2 · S in as many steps as it is deep. NCCL's tuner takes the faster of the two. A hierarchy reduces
//! inside each machine first and sends each rank's part over the network.
//!
//! # Source
//!
//! Ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009). Latencies of protocols and steps: NVIDIA/nccl,
//! `src/graph/tuning.cc`. Hierarchy: Jia et al., arXiv:1807.11205, section 3.3.

use crate::machine::MachineError;
use crate::placement::{Family, Footing};
use trainyard_hardware_profiles::{
    Cluster, CollectiveOperation, Device, DevicePosition, Fabric, Interconnect, MeasuredMachine, Network, Transport,
};
use trainyard_plan::Collectives;
use trainyard_units::{Bytes, BytesPerSecond, Seconds};

const MICROSECOND: f64 = 1e-6;

/// A way in which the library moves data: `LL` flags every eight bytes, which is quick to start and slow to carry;
/// `Simple` synchronises whole chunks.
#[derive(Clone, Copy)]
struct Protocol {
    ring_base: f64,
    tree_base: f64,
    nvlink_hop: f64,
    pcie_hop: f64,
    network_hop: f64,
    tree_network_hop: f64,
    /// Share of the link rate that is payload.
    payload: f64,
}

/// Half of what LL moves are flags, and its buffers are small.
const LL: Protocol = Protocol {
    ring_base: 6.6,
    tree_base: 6.8,
    nvlink_hop: 0.6,
    pcie_hop: 1.0,
    network_hop: 2.7,
    tree_network_hop: 5.0,
    payload: 0.25,
};

const SIMPLE: Protocol = Protocol {
    ring_base: 8.4,
    tree_base: 8.4,
    nvlink_hop: 3.4,
    pcie_hop: 5.7,
    network_hop: 14.0,
    tree_network_hop: 14.0,
    payload: 1.0,
};

/// A step over EFA. The library posts messages through a provider in user space instead of writing to the peer:
/// 147 us for the smallest all-reduce on two p3dn and 175 us on two p4d are one way there and one back. Fitted on both
/// (aws-samples/aws-efa-eks README; docs/physics.md).
const EFA_HOP: f64 = 50.0;

/// What a large message over EFA takes longer than its bytes and the smallest message say: chunks wait for their
/// acknowledgements until enough of them are under way. Between two published sweeps of p4d, of which one runs at 1.5
/// times the rate of the other (docs/physics.md).
const EFA_RAMP: f64 = 1200.0;

/// The size of a message that suffers half of it.
const EFA_RAMP_BYTES: f64 = 12e6;

/// Links of a cluster as collectives see them.
pub(crate) struct Links<'a> {
    interconnect: &'a Interconnect,
    network: &'a Network,
    devices_per_instance: u32,
}

/// What a transport sustains of the nominal rate of a network.
///
/// EFA with GPUDirect: 42.5 of 50 GB/s bus bandwidth at 1 GiB on two p4d (aws-samples/aws-efa-eks README). EFA through
/// host memory: 60 of 100 Gbit/s by ring (NVIDIA/nccl-tests issue 22). TCP: 0.9 of line rate with one GPU on a machine, 0.44 with
/// eight that share it; InfiniBand 0.82, Omni-Path 0.28: fitted, see docs/physics.md. RoCE is taken to be as good as
/// InfiniBand, whose verbs it speaks.
fn sustained(transport: Transport, devices_per_instance: u32) -> f64 {
    match (transport, devices_per_instance) {
        (Transport::EfaGpudirect, _) => 0.85,
        (Transport::Infiniband | Transport::Roce, _) => 0.82,
        (Transport::OmniPath, _) => 0.28,
        (Transport::Efa, _) => 0.6,
        (Transport::Tcp, 1) => 0.89,
        (Transport::Tcp, _) => 0.44,
    }
}

impl Links<'_> {
    /// What a machine sends to the network in each direction, all interfaces together.
    fn network_rate(&self) -> f64 {
        self.network.baseline.value.0 * sustained(self.network.transport, self.devices_per_instance)
    }

    /// The rate of the ring or rings through some devices of one machine.
    ///
    /// Over an NVLink mesh, a device takes part in as many rings as the fewest links any member has to others, halved,
    /// each used in both directions: the rate of that many links (p3.16xlarge: 50, 100 and 150 GB/s for 2, 4 and 8).
    fn inside(&self, members: &[DevicePosition]) -> BytesPerSecond {
        match self.interconnect {
            Interconnect::Pcie { bandwidth } => bandwidth.value,
            Interconnect::Nvswitch { port, fraction } => BytesPerSecond(port.value.0 * fraction.value),
            Interconnect::NvlinkMesh { link, fraction, pairs, pcie_bandwidth } => {
                let slots: Vec<u32> = members.iter().map(|position| position.slot).collect();
                if !self.interconnect.joins(&slots) {
                    return pcie_bandwidth.value;
                }
                let degree = |slot: u32| -> u32 {
                    let between =
                        |a: u32, b: u32| (a == slot && slots.contains(&b)) || (b == slot && slots.contains(&a));
                    pairs.value.iter().filter(|(a, b, _)| between(*a, *b)).map(|(_, _, links)| *links).sum()
                };
                match slots.iter().map(|slot| degree(*slot)).min() {
                    None | Some(0) => pcie_bandwidth.value,
                    Some(links) => BytesPerSecond(f64::from(links) * link.value.0 * fraction.value),
                }
            }
        }
    }

    fn inside_hop(&self, protocol: Protocol) -> f64 {
        match self.interconnect {
            Interconnect::Pcie { .. } => protocol.pcie_hop,
            _ => protocol.nvlink_hop,
        }
    }

    /// Protocols that may be used. EFA needs complete messages in order, so only `Simple` (NVIDIA/nccl issue 716).
    fn protocols(&self, machines: u32) -> &'static [Protocol] {
        match self.network.transport {
            Transport::Efa | Transport::EfaGpudirect if machines > 1 => &[SIMPLE],
            _ => &[LL, SIMPLE],
        }
    }

    fn network_hop(&self, of_protocol: f64) -> f64 {
        match self.network.transport {
            Transport::Efa | Transport::EfaGpudirect => of_protocol.max(EFA_HOP),
            Transport::Tcp | Transport::Infiniband | Transport::Roce | Transport::OmniPath => of_protocol,
        }
    }

    /// Microseconds that a message over the network takes besides its first byte and its rate.
    fn ramp(&self, machines: u32, bytes: Bytes) -> f64 {
        match self.network.transport {
            Transport::Efa | Transport::EfaGpudirect if machines > 1 => {
                EFA_RAMP * bytes.as_f64() / (bytes.as_f64() + EFA_RAMP_BYTES)
            }
            _ => 0.0,
        }
    }

    fn all_reduce(&self, collectives: Collectives, family: &Family, bytes: Bytes) -> Seconds {
        let footing = family.footing();
        if footing.members < 2 {
            return Seconds::ZERO;
        }
        let inside = self.inside(&on_one_machine(family)).0;
        let fastest = self
            .protocols(footing.machines)
            .iter()
            .map(|protocol| match collectives {
                Collectives::Hierarchical if footing.machines > 1 && footing.members_per_machine > 1 => {
                    self.hierarchy(footing, inside, *protocol, bytes)
                }
                _ => self.ring(footing, inside, *protocol, bytes).min(self.tree(footing, inside, *protocol, bytes)),
            })
            .fold(f64::INFINITY, f64::min);
        Seconds(fastest + self.ramp(footing.machines, bytes) * MICROSECOND)
    }

    /// The narrowest of the links that a family's rings go through, for one group.
    fn ring_rate(&self, footing: Footing, inside: f64) -> f64 {
        if footing.machines == 1 {
            return inside;
        }
        let share = self.network_rate() / f64::from(footing.edges_leaving.max(1));
        if footing.members_per_machine > 1 { share.min(inside) } else { share }
    }

    fn ring(&self, footing: Footing, inside: f64, protocol: Protocol, bytes: Bytes) -> f64 {
        let n = f64::from(footing.members);
        let crossing = if footing.machines > 1 { f64::from(footing.machines) } else { 0.0 };
        let staying = n - crossing;
        let round = staying * self.inside_hop(protocol) + crossing * self.network_hop(protocol.network_hop);
        let latency = protocol.ring_base + 2.0 * (n - 1.0) / n * round;
        let rate = self.ring_rate(footing, inside) * protocol.payload;
        latency * MICROSECOND + 2.0 * (n - 1.0) / n * bytes.as_f64() / rate
    }

    fn tree(&self, footing: Footing, inside: f64, protocol: Protocol, bytes: Bytes) -> f64 {
        let machines = f64::from(footing.machines);
        let chain = f64::from(footing.members_per_machine) - 1.0;
        let latency = protocol.tree_base
            + 2.0
                * (chain * self.inside_hop(protocol)
                    + machines.log2().ceil() * self.network_hop(protocol.tree_network_hop));
        let rate = self.ring_rate(footing, inside) * protocol.payload;
        latency * MICROSECOND + self.tree_volume(footing) * bytes.as_f64() / rate
    }

    /// What goes through the narrowest link of a tree, relative to the buffer. Between two machines each of the two
    /// trees carries half of it up or down: 134 ms for 1 GB on two p3dn, 268 ms by ring (NVIDIA/nccl-tests issue 22).
    /// The published sweep on two p4d shows no such gain, nor do the InfiniBand rows (docs/physics.md).
    fn tree_volume(&self, footing: Footing) -> f64 {
        if footing.machines == 2 && self.network.transport == Transport::Efa { 1.0 } else { 2.0 }
    }

    fn hierarchy(&self, footing: Footing, inside: f64, protocol: Protocol, bytes: Bytes) -> f64 {
        let (machines, here) = (f64::from(footing.machines), f64::from(footing.members_per_machine));
        let local = 2.0 * (here - 1.0) / here * bytes.as_f64() / (inside * protocol.payload);
        // Each member sends its own part, so a machine's groups together send what one ring would.
        let rate = self.network_rate() / f64::from(footing.edges_leaving.max(1)) * protocol.payload;
        let across = 2.0 * (machines - 1.0) / machines * bytes.as_f64() / rate;
        let latency = 3.0 * protocol.ring_base
            + 2.0 * (here - 1.0) * self.inside_hop(protocol)
            + 2.0 * (machines - 1.0) * self.network_hop(protocol.network_hop);
        latency * MICROSECOND + local + across
    }

    /// Every pair sends at the same time.
    fn transfer(&self, pairs: &Family, bytes: Bytes) -> Seconds {
        let footing = pairs.footing();
        if footing.machines > 1 {
            let rate = self.network_rate() / f64::from(footing.edges_leaving.max(1));
            return Seconds((SIMPLE.ring_base + self.network_hop(SIMPLE.network_hop)) * MICROSECOND)
                + bytes / BytesPerSecond(rate);
        }
        let slowest = pairs.groups.iter().map(|pair| self.inside(pair).0).fold(f64::INFINITY, f64::min);
        Seconds((SIMPLE.ring_base + self.inside_hop(SIMPLE)) * MICROSECOND) + bytes / BytesPerSecond(slowest)
    }
}

/// The members of the first group that stand on the same machine as its first member.
fn on_one_machine(family: &Family) -> Vec<DevicePosition> {
    let group = family.first();
    group.iter().copied().filter(|position| position.instance == group[0].instance).collect()
}

/// The time in which every group of `family` sums `bytes` bytes, all groups at once.
pub(crate) fn all_reduce(
    cluster: &Cluster,
    collectives: Collectives,
    family: &Family,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    let pool = cluster.first();
    match (&pool.fabric, &pool.device) {
        (Fabric::Measured, Device::Measured(machine)) => {
            measured(machine, CollectiveOperation::AllReduce, family.footing().members, bytes)
        }
        (Fabric::Wired { interconnect, network }, _) => {
            Ok(Links { interconnect, network, devices_per_instance: pool.devices_per_instance }.all_reduce(
                collectives,
                family,
                bytes,
            ))
        }
        (Fabric::Measured, Device::Gpu(_)) => unreachable!("a measured fabric belongs to a measured machine"),
    }
}

/// The time in which every group of `family` puts together `bytes` bytes of which each member has an equal part: one
/// of the two rounds of a ring's all-reduce.
pub(crate) fn all_gather(cluster: &Cluster, family: &Family, bytes: Bytes) -> Result<Seconds, MachineError> {
    all_reduce(cluster, Collectives::Nccl, family, bytes).map(|both_rounds| both_rounds * 0.5)
}

/// The time in which the first of every pair sends `bytes` bytes to the second, all pairs at once.
pub(crate) fn transfer(cluster: &Cluster, pairs: &Family, bytes: Bytes) -> Result<Seconds, MachineError> {
    let pool = cluster.first();
    match (&pool.fabric, &pool.device) {
        (Fabric::Measured, Device::Measured(machine)) => {
            measured(machine, CollectiveOperation::Send, 2 * pairs.groups.len() as u32, bytes)
        }
        (Fabric::Wired { interconnect, network }, _) => {
            Ok(Links { interconnect, network, devices_per_instance: pool.devices_per_instance }.transfer(pairs, bytes))
        }
        (Fabric::Measured, Device::Gpu(_)) => unreachable!("a measured fabric belongs to a measured machine"),
    }
}

/// The time of an operation among `ranks` ranks, or among the next larger number that was measured: between measured
/// sizes a straight line, and the last ratio beyond.
fn measured(
    machine: &MeasuredMachine,
    operation: CollectiveOperation,
    ranks: u32,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    if ranks < 2 {
        return Ok(Seconds::ZERO);
    }
    let of_operation = || machine.collectives.iter().filter(|sample| sample.operation == operation);
    let measured_ranks = of_operation().map(|sample| sample.ranks).filter(|measured| *measured >= ranks).min();
    let mut points: Vec<(f64, f64)> = of_operation()
        .filter(|sample| Some(sample.ranks) == measured_ranks)
        .map(|sample| (sample.bytes as f64, sample.seconds))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    super::measured::interpolate(&points, bytes.as_f64()).map(Seconds).ok_or_else(|| MachineError::Unmeasured {
        machine: machine.name.clone(),
        operator: format!("{operation:?}"),
        ranks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;
    use trainyard_plan::{ParallelSpec, StageId};

    fn time(instance: &str, instances: u32, ranks: u32, bytes: u64) -> Seconds {
        let cluster = catalog().cluster(instance, instances).expect("in the catalog");
        let parallel = ParallelSpec { data: ranks, tensor: 1, pipeline: 1 };
        let family = Family::data(parallel.into(), &cluster, StageId(0));
        all_reduce(&cluster, Collectives::Nccl, &family, Bytes(bytes)).expect("a wired fabric prices everything")
    }

    fn bus_bandwidth(instance: &str, instances: u32, ranks: u32, bytes: u64) -> f64 {
        let n = f64::from(ranks);
        2.0 * (n - 1.0) / n * bytes as f64 / time(instance, instances, ranks, bytes).0 / 1e9
    }

    #[test]
    fn rings_over_the_cube_mesh_have_the_rate_of_their_links() {
        // p3.16xlarge, 1 GiB: two GPUs with a single link, four of a quad, all eight; 0.9 of 25 GB/s each.
        for (ranks, links) in [(2, 1.0), (4, 4.0), (8, 6.0)] {
            let reached = bus_bandwidth("p3.16xlarge", 1, ranks, 1 << 30);
            assert!((reached / (links * 22.5) - 1.0).abs() < 0.02, "{ranks} ranks: {reached}");
        }
    }

    #[test]
    fn one_p4d_reaches_the_published_bus_bandwidth() {
        // aws-samples/aws-efa-eks README: 231 GB/s at 1 GB on one p4d.24xlarge.
        let reached = bus_bandwidth("p4d.24xlarge", 1, 8, 1_000_000_000);
        assert!((reached / 231.0 - 1.0).abs() < 0.05, "{reached}");
    }

    #[test]
    fn two_p4d_follow_the_published_sweep_at_its_ends() {
        // The same source, two machines: 42.5 GB/s at 1 GiB, and a floor of 175 us for small messages.
        let reached = bus_bandwidth("p4d.24xlarge", 2, 16, 1 << 30);
        assert!((reached / 42.5 - 1.0).abs() < 0.1, "{reached}");
        let floor = time("p4d.24xlarge", 2, 16, 512).0 * 1e6;
        assert!((140.0..200.0).contains(&floor), "{floor}");
    }

    #[test]
    fn a_tree_between_two_p3dn_sends_half_of_what_a_ring_does() {
        // NVIDIA/nccl-tests issue 22: 1 GB in 134 ms by tree, 268 ms by ring; nccl issue 235: 70 MB on eight, 18 ms.
        let two = time("p3dn.24xlarge", 2, 16, 1_000_000_000).0;
        assert!((two / 0.134 - 1.0).abs() < 0.1, "{two}");
        let eight = time("p3dn.24xlarge", 8, 64, 70_000_000).0;
        assert!((eight / 0.018 - 1.0).abs() < 0.2, "{eight}");
    }

    #[test]
    fn a_hierarchy_sends_less_between_two_machines_than_a_ring() {
        let cluster = catalog().cluster("p3.16xlarge", 2).expect("in the catalog");
        let family = Family::data(ParallelSpec { data: 16, tensor: 1, pipeline: 1 }.into(), &cluster, StageId(0));
        let time = |collectives| all_reduce(&cluster, collectives, &family, Bytes(1 << 28)).expect("wired").0;
        assert!(time(Collectives::Hierarchical) < 0.7 * time(Collectives::Nccl));
    }

    #[test]
    fn more_bytes_never_take_less_time() {
        for bytes in [1 << 10, 1 << 16, 1 << 22, 1 << 28] {
            assert!(time("p3dn.24xlarge", 4, 32, 2 * bytes).0 >= time("p3dn.24xlarge", 4, 32, bytes).0);
        }
    }
}
