//! Collectives and transfers: rings, trees and hierarchies over the links that their members share.
//!
//! An all-reduce of S bytes over n ranks moves 2(n−1)/n · S through the narrowest link of a ring, and takes 2(n−1)
//! steps; a tree moves 2 · S in as many steps as it is deep. NCCL's tuner takes the faster of the two. A hierarchy reduces
//! inside each machine first and sends each rank's part over the network. Each becomes an [`Operation`]: a latency and
//! flows over links, whose rate depends on what else is under way.
//!
//! # Source
//!
//! Ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009). Latencies of protocols and steps: NVIDIA/nccl,
//! `src/graph/tuning.cc`. Two trees: Sanders, Speck and Träff, Parallel Computing 35 (2009). Hierarchy: Jia et al.,
//! arXiv:1807.11205, section 3.3. Parameter servers: Thangakrishnan et al., "Herring: Rethinking the Parameter Server at
//! Scale for the Cloud", SC20.

use super::operation::{Operation, Phase};
use super::protocol::{Hop, MICROSECOND, SIMPLE, protocols, ramp};
use super::route::{Group, Ring, Route};
use crate::machine::MachineError;
use crate::placement::Family;
use crate::wiring::{Wiring, sustained};
use trainyard_hardware_profiles::{
    Cluster, CollectiveOperation, Device, DevicePosition, Fabric, MeasuredMachine, Transport,
};
use trainyard_plan::Collectives;
use trainyard_units::{Bytes, Seconds};

/// What a group of ranks does together, and which bytes its size counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collective {
    /// Each gets the sum of all buffers: bytes of one buffer.
    AllReduce,
    /// Each has an equal part of a buffer and gets the whole: bytes of the whole.
    AllGather,
    /// Each has a whole buffer and gets an equal part of the sum: bytes of one whole buffer.
    ReduceScatter,
    /// All get the buffer of the first: bytes of that buffer.
    Broadcast,
    /// Each sends an equal part of its buffer to each, itself included: bytes of one buffer.
    AllToAll,
    /// The first of two sends a buffer to the second: bytes of that buffer.
    Transfer,
}

/// Messages that the library has under way at once between pairs (NVIDIA/nccl, `src/include/device.h`,
/// `NCCL_MAX_DEV_WORK_P2P_PER_BATCH`).
const MESSAGES_AT_ONCE: u32 = 8;

/// What parameter servers on all machines sustain of EFA through host memory. Assumed: what a single GPU sustains over
/// TCP. Messages from every machine to every other fill the line, which one ring's do not; "twice as fast as all-reduce"
/// in the paper compares whole reductions, latencies included.
const SERVERS_SUSTAINED: f64 = 0.9;

/// What the members of a group do together, as flows over links. Nothing for less than two members.
///
/// `Nccl` takes the faster of ring and tree, in the faster protocol, as if nothing else were under way: the library
/// knows of nothing else. What an algorithm has no form of its own for goes as with `Nccl`.
pub(crate) fn operation(
    wiring: &Wiring<'_>,
    collective: Collective,
    algorithm: Collectives,
    members: &[DevicePosition],
    bytes: Bytes,
) -> Operation {
    if members.len() < 2 {
        return Operation::default();
    }
    let call = Call { group: Group::new(wiring, members), wiring, bytes: bytes.as_f64() };
    let phases = match collective {
        Collective::AllReduce => call.all_reduce(algorithm),
        Collective::AllGather => call.sharded(algorithm, [Call::across, Call::inside]),
        Collective::ReduceScatter => call.sharded(algorithm, [Call::inside, Call::across]),
        Collective::Broadcast => vec![call.broadcast(algorithm)],
        Collective::AllToAll => vec![call.all_to_all()],
        Collective::Transfer => vec![call.transfer(members)],
    };
    Operation { phases }
}

/// A collective of one group.
struct Call<'a> {
    wiring: &'a Wiring<'a>,
    group: Group<'a>,
    bytes: f64,
}

/// Seconds before its bytes, and bytes of one flow: a way in which a phase may go.
type Way = (f64, f64);

impl Call<'_> {
    fn fastest(&self, route: Route, ways: impl IntoIterator<Item = Way>) -> Phase {
        route.fastest(self.wiring.capacities(), ways)
    }

    /// Whether the members of a machine and the machines are worth separate phases.
    fn has_two_levels(&self) -> bool {
        self.group.machines() > 1 && self.group.most() > 1
    }

    fn all_reduce(&self, algorithm: Collectives) -> Vec<Phase> {
        match algorithm {
            Collectives::Hierarchical if self.has_two_levels() => {
                vec![self.inside(1.0), self.across(2.0), self.inside(1.0)]
            }
            Collectives::Smddp if self.group.machines() > 1 => self.through_servers(),
            Collectives::Ring => vec![self.one_ring(2.0)],
            Collectives::Tree if self.trees_halve() => vec![self.halved_trees()],
            Collectives::Tree => vec![self.fastest(self.group.ring().route, self.tree_ways(2.0, 2.0))],
            Collectives::Nccl | Collectives::Hierarchical | Collectives::Smddp if self.trees_halve() => {
                let [ring, trees] = [self.one_ring(2.0), self.halved_trees()];
                let alone = |phase: &Phase| phase.alone(self.wiring.capacities()).0;
                vec![if alone(&trees) < alone(&ring) { trees } else { ring }]
            }
            Collectives::Nccl | Collectives::Hierarchical | Collectives::Smddp => {
                let ring = self.group.ring();
                let ways = ring_ways(&ring, 2.0, self.bytes).into_iter().chain(self.tree_ways(2.0, 2.0));
                vec![self.fastest(ring.route, ways)]
            }
        }
    }

    /// One pass, gathering or scattering, or both by one ring through all members.
    fn one_ring(&self, passes: f64) -> Phase {
        let ring = self.group.ring();
        let ways = ring_ways(&ring, passes, self.bytes);
        self.fastest(ring.route, ways)
    }

    /// Between two machines over EFA through hosts each of the two trees carries half of the buffer up or down: 134 ms
    /// for 1 GB on two p3dn, 268 ms by ring (NVIDIA/nccl-tests issue 22). The published sweep on two p4d shows no such
    /// gain, nor do the InfiniBand rows (docs/physics.md).
    fn trees_halve(&self) -> bool {
        self.group.machines() == 2 && self.group.between() == Some(Transport::Efa)
    }

    fn halved_trees(&self) -> Phase {
        self.fastest(self.group.halved_trees(), self.tree_ways(2.0, 1.0))
    }

    /// Gathering or scattering: one pass of a ring, whose latency grows with the number of ranks, or two rings one
    /// after the other.
    fn sharded(&self, algorithm: Collectives, levels: [fn(&Self, f64) -> Phase; 2]) -> Vec<Phase> {
        if algorithm == Collectives::Hierarchical && self.has_two_levels() {
            return levels.map(|level| level(self, 1.0)).into();
        }
        vec![self.one_ring(1.0)]
    }

    /// The whole buffer along a chain, chunk behind chunk, or down two trees of which each carries a half.
    fn broadcast(&self, algorithm: Collectives) -> Phase {
        let ring = self.group.ring();
        let chain = chain_ways(&ring, 1.0, self.bytes, self.bytes);
        match algorithm {
            Collectives::Ring => self.fastest(ring.route, chain),
            Collectives::Tree => self.fastest(ring.route, self.tree_ways(1.0, 1.0)),
            _ => self.fastest(ring.route, chain.into_iter().chain(self.tree_ways(1.0, 1.0))),
        }
    }

    /// The tree of a group uses the links of its ring: a chain on each machine, and two trees between machines.
    fn tree_ways(&self, passes: f64, volume: f64) -> Vec<Way> {
        let between = self.group.between();
        let chain = f64::from(self.group.most() - 1);
        let depth = f64::from(self.group.machines()).log2().ceil();
        protocols(between)
            .iter()
            .map(|protocol| {
                let hops = chain * protocol.tree_hop(self.group.hop_inside())
                    + between.map_or(0.0, |transport| depth * protocol.tree_hop(Hop::Network(transport)));
                let latency = protocol.tree_base + passes * hops + ramp(between, passes, self.bytes);
                (latency * MICROSECOND, volume * self.bytes / protocol.payload)
            })
            .collect()
    }

    /// One or both passes of the rings of a hierarchy inside each machine, over the whole buffer.
    fn inside(&self, passes: f64) -> Phase {
        let ring = self.group.rings_inside();
        let ways = ring_ways(&ring, passes, self.bytes);
        self.fastest(ring.route, ways)
    }

    /// One or both passes of the rings of a hierarchy between machines, each over the part of one member: a machine's
    /// together send what one ring would.
    fn across(&self, passes: f64) -> Phase {
        let parts = self.group.fewest();
        let ring = self.group.rings_across(parts);
        let ways = ring_ways(&ring, passes, self.bytes / f64::from(parts));
        self.fastest(ring.route, ways)
    }

    /// Balanced fusion buffers: members of a machine reduce, each hands its part to the processor, and servers on all
    /// machines each sum an equal part of the buffer and hand it back. Each byte leaves and enters a machine once on the
    /// way to its server and once on the way back, except those whose server is its own: (m−1)/m of them each time
    /// between m machines, in two steps whatever m is. Assumed: processors sum as fast as the network delivers, and
    /// pushing overlaps with pulling but not with the reductions inside.
    fn through_servers(&self) -> Vec<Phase> {
        let parts = self.group.fewest();
        let machines = f64::from(self.group.machines());
        let between = self.group.between();
        let hops = between.map_or(0.0, |transport| 2.0 * SIMPLE.ring_hop(Hop::Network(transport)));
        let latency = SIMPLE.ring_base + hops + ramp(between, 2.0, self.bytes);
        // The links carry what rings sustain; bytes that flow more smoothly occupy them for less.
        let ease = match between {
            Some(Transport::Efa) => sustained(Transport::Efa, self.group.most()) / SERVERS_SUSTAINED,
            _ => 1.0,
        };
        let volume = 2.0 * (machines - 1.0) / machines * self.bytes / f64::from(parts) * ease;
        let exchange = self.group.through_hosts(parts).phase(latency * MICROSECOND, volume);
        if self.group.most() == 1 {
            return vec![exchange];
        }
        vec![self.inside(1.0), exchange, self.inside(1.0)]
    }

    /// Every pair sends at the same time, each rank to its machine first.
    fn all_to_all(&self) -> Phase {
        let members = self.group.members();
        let batches = |peers: u32| f64::from(peers.div_ceil(MESSAGES_AT_ONCE));
        let between = self.group.between();
        let inside = batches(self.group.most() - 1) * SIMPLE.ring_hop(self.group.hop_inside());
        let across = between
            .map_or(0.0, |transport| batches(members - self.group.fewest()) * SIMPLE.ring_hop(Hop::Network(transport)));
        let latency = SIMPLE.ring_base + inside + across + ramp(between, 1.0, self.bytes);
        self.group.every_pair().phase(latency * MICROSECOND, self.bytes / f64::from(members))
    }

    fn transfer(&self, members: &[DevicePosition]) -> Phase {
        let [from, to] = members else { unreachable!("a transfer has two ends, not {}", members.len()) };
        let hop = self.group.between().map_or_else(|| self.group.hop_inside(), Hop::Network);
        let latency = (SIMPLE.ring_base + SIMPLE.ring_hop(hop)) * MICROSECOND;
        Route::of_path(&self.wiring.path(*from, *to)).phase(latency, self.bytes)
    }
}

/// Ways of a ring that goes round `passes` times, each time without its last step, with one of n parts of a buffer of
/// `bytes` bytes in each step.
fn ring_ways(ring: &Ring, passes: f64, bytes: f64) -> Vec<Way> {
    let n = f64::from(ring.members);
    chain_ways(ring, passes, passes * (n - 1.0) / n * bytes, bytes)
}

/// Ways of a ring that goes round `passes` times, each time without its last step, with `volume` bytes through each
/// link because of a buffer of `bytes` bytes.
fn chain_ways(ring: &Ring, passes: f64, volume: f64, bytes: f64) -> Vec<Way> {
    let n = f64::from(ring.members);
    protocols(ring.between)
        .iter()
        .map(|protocol| {
            let steps = passes * (n - 1.0) / n * ring.round(protocol);
            let latency = protocol.ring_base + steps + ramp(ring.between, passes, bytes);
            (latency * MICROSECOND, volume / protocol.payload)
        })
        .collect()
}

/// The time in which every group of a family does the same, all at once. Each link is shared equally by all flows of
/// the family; the slowest group counts.
pub(crate) fn together(
    cluster: &Cluster,
    collective: Collective,
    algorithm: Collectives,
    family: &Family,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    let pool = cluster.first();
    match (&pool.fabric, &pool.device) {
        (Fabric::Measured, Device::Measured(machine)) => measured_together(machine, collective, family, bytes),
        (Fabric::Wired { .. }, _) => {
            let wiring = Wiring::new(cluster);
            let operations: Vec<Operation> = unlike(cluster, family)
                .into_iter()
                .map(|group| operation(&wiring, collective, algorithm, group, bytes))
                .collect();
            Ok(slowest(wiring.capacities(), &operations))
        }
        (Fabric::Measured, Device::Gpu(_)) => unreachable!("a measured fabric belongs to a measured machine"),
    }
}

/// The groups of a family without those that cannot be the slowest alone: groups of one member, and, where each group
/// stays on one machine, those of a machine whose groups use the same slots as those of the one before.
fn unlike<'a>(cluster: &Cluster, family: &'a Family) -> Vec<&'a [DevicePosition]> {
    let several = family.groups.iter().filter(|group| group.len() > 1);
    let mut groups: Vec<&[DevicePosition]> = several.map(Vec::as_slice).collect();
    if groups.iter().any(|group| group.iter().any(|member| member.instance != group[0].instance)) {
        return groups;
    }
    groups.sort_by_key(|group| group[0].instance);
    let slots = |group: &'a [DevicePosition]| group.iter().map(|member| member.slot);
    let alike = |a: &[&'a [DevicePosition]], b: &[&'a [DevicePosition]]| {
        let pool = |groups: &[&[DevicePosition]]| cluster.pool_index(groups[0][0].instance);
        pool(a) == pool(b) && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| slots(a).eq(slots(b)))
    };
    let mut kept = Vec::new();
    let mut before: &[&[DevicePosition]] = &[];
    for machine in groups.chunk_by(|a, b| a[0].instance == b[0].instance) {
        if before.is_empty() || !alike(before, machine) {
            kept.extend_from_slice(machine);
        }
        before = machine;
    }
    kept
}

/// The time of the slowest of some operations that go through their phases side by side.
fn slowest(capacities: &[f64], operations: &[Operation]) -> Seconds {
    let phases = operations.iter().map(|operation| operation.phases.len()).max().unwrap_or(0);
    let mut times = vec![Seconds::ZERO; operations.len()];
    for index in 0..phases {
        let mut flows = vec![0.0; capacities.len()];
        for (link, of_operation) in operations.iter().filter_map(|o| o.phases.get(index)).flat_map(|p| &p.uses) {
            flows[link.0 as usize] += of_operation;
        }
        for (time, operation) in times.iter_mut().zip(operations) {
            if let Some(phase) = operation.phases.get(index) {
                *time += phase.shared(capacities, &flows);
            }
        }
    }
    times.into_iter().fold(Seconds::ZERO, Seconds::max)
}

/// What was measured of a machine: the sum over ranks, of which gathering or scattering is one of two rounds, and
/// messages.
fn measured_together(
    machine: &MeasuredMachine,
    collective: Collective,
    family: &Family,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    let ranks = family.groups.iter().map(|group| group.len() as u32).fold(0, u32::max);
    match collective {
        Collective::AllReduce => measured(machine, CollectiveOperation::AllReduce, ranks, bytes),
        Collective::AllGather | Collective::ReduceScatter => {
            measured(machine, CollectiveOperation::AllReduce, ranks, bytes).map(|both_rounds| both_rounds * 0.5)
        }
        Collective::Transfer => measured(machine, CollectiveOperation::Send, 2 * family.groups.len() as u32, bytes),
        Collective::Broadcast | Collective::AllToAll => {
            Err(MachineError::Unmeasured { machine: machine.name.clone(), operator: format!("{collective:?}"), ranks })
        }
    }
}

/// The time in which every group of `family` sums `bytes` bytes, all groups at once.
pub(crate) fn all_reduce(
    cluster: &Cluster,
    collectives: Collectives,
    family: &Family,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    together(cluster, Collective::AllReduce, collectives, family, bytes)
}

/// The time in which every group of `family` puts together `bytes` bytes of which each member has an equal part.
pub(crate) fn all_gather(cluster: &Cluster, family: &Family, bytes: Bytes) -> Result<Seconds, MachineError> {
    together(cluster, Collective::AllGather, Collectives::Nccl, family, bytes)
}

/// The time in which the first of every pair sends `bytes` bytes to the second, all pairs at once.
pub(crate) fn transfer(cluster: &Cluster, pairs: &Family, bytes: Bytes) -> Result<Seconds, MachineError> {
    together(cluster, Collective::Transfer, Collectives::Nccl, pairs, bytes)
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
    use super::super::protocol::Protocol;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use trainyard_hardware_profiles::{Sourced, SwitchLevel, catalog};
    use trainyard_plan::{ParallelSpec, StageId};
    use trainyard_units::BytesPerSecond;

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

    fn cluster(instance: &str, instances: u32) -> Cluster {
        catalog().cluster(instance, instances).expect("in the catalog")
    }

    fn members(cluster: &Cluster, ranks: u32) -> Vec<DevicePosition> {
        (0..ranks).map(|rank| cluster.position(rank)).collect()
    }

    /// Seconds of the first `ranks` devices with nothing else under way.
    fn alone(cluster: &Cluster, collective: Collective, algorithm: Collectives, ranks: u32, bytes: u64) -> f64 {
        let wiring = Wiring::new(cluster);
        operation(&wiring, collective, algorithm, &members(cluster, ranks), Bytes(bytes)).alone(wiring.capacities()).0
    }

    fn agree(what: &str, predicted: f64, expected: f64) {
        assert!((predicted / expected - 1.0).abs() < 0.01, "{what}: {predicted} s, expected {expected} s");
    }

    const EVERY: [Collective; 6] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::AllToAll,
        Collective::Transfer,
    ];

    /// Latencies do not matter for this many bytes.
    const LARGE: u64 = 64_000_000_000;

    #[test]
    fn large_collectives_on_one_switch_have_their_closed_forms() {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter, Transfer};
        let cluster = cluster("p4d.24xlarge", 1);
        let pass = LARGE as f64 / (0.78 * 300e9);
        for ranks in [2, 4, 8] {
            let part = f64::from(ranks - 1) / f64::from(ranks);
            let forms = [(AllReduce, 2.0 * part), (AllGather, part), (ReduceScatter, part)];
            for (collective, passes) in forms.into_iter().chain([(Broadcast, 1.0), (AllToAll, part)]) {
                let predicted = alone(&cluster, collective, Collectives::Nccl, ranks, LARGE);
                agree(&format!("{collective:?} over {ranks}"), predicted, passes * pass);
            }
        }
        agree("transfer", alone(&cluster, Transfer, Collectives::Nccl, 2, LARGE), pass);
        agree("tree", alone(&cluster, AllReduce, Collectives::Tree, 8, LARGE), 2.0 * pass);
    }

    #[test]
    fn large_collectives_between_machines_have_their_closed_forms() {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast};
        let cluster = cluster("p4d.24xlarge", 4);
        let (network, inside) = (LARGE as f64 / (0.85 * 50e9), LARGE as f64 / (0.78 * 300e9));
        let time = |collective, algorithm| alone(&cluster, collective, algorithm, 32, LARGE);
        agree("ring", time(AllReduce, Collectives::Ring), 2.0 * 31.0 / 32.0 * network);
        agree("gather", time(AllGather, Collectives::Ring), 31.0 / 32.0 * network);
        agree("broadcast", time(Broadcast, Collectives::Nccl), network);
        // Each of 8 members sends a 32nd of its buffer to each of 24 others.
        agree("all-to-all", time(AllToAll, Collectives::Nccl), 8.0 * 24.0 / 32.0 * network);
        let hierarchy = 2.0 * 7.0 / 8.0 * inside + 2.0 * 3.0 / 4.0 * network;
        agree("hierarchy", time(AllReduce, Collectives::Hierarchical), hierarchy);
        agree("half a hierarchy", time(AllGather, Collectives::Hierarchical), 0.5 * hierarchy);
        agree("servers", time(AllReduce, Collectives::Smddp), hierarchy);
    }

    #[test]
    fn a_byte_takes_as_long_as_the_steps_of_its_ring() {
        let (one, two) = (cluster("p4d.24xlarge", 1), cluster("p4d.24xlarge", 2));
        let gather = |cluster, ranks| alone(cluster, Collective::AllGather, Collectives::Nccl, ranks, 1) * 1e6;
        for ranks in [2, 5, 8] {
            agree("gather in LL", gather(&one, ranks), 6.6 + 0.6 * f64::from(ranks - 1));
        }
        agree("gather over EFA", gather(&two, 16), 8.4 + 15.0 / 16.0 * (14.0 * 3.4 + 2.0 * 50.0));
        let tree = alone(&two, Collective::AllReduce, Collectives::Tree, 16, 1) * 1e6;
        agree("tree over EFA", tree, 8.4 + 2.0 * (7.0 * 3.4 + 50.0));
    }

    /// A ring all-reduce step by step: every rank sends a chunk to the next in each of 2(n−1) rounds, and starts a round
    /// when it has the chunk of the one before.
    fn step_by_step(cluster: &Cluster, hop: Hop, ranks: u32, bytes: u64) -> f64 {
        let wiring = Wiring::new(cluster);
        let members = members(cluster, ranks);
        let of_protocol = |protocol: &Protocol| {
            let chunk = bytes as f64 / f64::from(ranks) / protocol.payload;
            let mut has_chunk = vec![protocol.ring_base * MICROSECOND; members.len()];
            for _ in 0..2 * (ranks - 1) {
                let sent = has_chunk.clone();
                for (from, at) in sent.iter().enumerate() {
                    let to = (from + 1) % members.len();
                    let path = wiring.path(members[from], members[to]);
                    let rate = path.links.iter().map(|link| wiring.capacity(*link)).fold(path.limit, f64::min);
                    has_chunk[to] = at + protocol.ring_hop(hop) * MICROSECOND + chunk / rate;
                }
            }
            has_chunk.into_iter().fold(0.0, f64::max)
        };
        protocols(None).iter().map(of_protocol).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn rings_take_as_long_as_their_steps() {
        for bytes in [1, 1_000, 100_000, 10_000_000, 1_000_000_000] {
            for ranks in [2, 3, 5, 8] {
                let rings = [
                    (cluster("p4d.24xlarge", 1), Hop::Nvlink),
                    (cluster("g4dn.metal", 1), Hop::Pcie),
                    (cluster("p3.2xlarge", 8), Hop::Network(Transport::Tcp)),
                ];
                for (cluster, hop) in rings {
                    let ring = alone(&cluster, Collective::AllReduce, Collectives::Ring, ranks, bytes);
                    let what = format!("{bytes} bytes over {ranks} of {}", cluster.instance);
                    agree(&what, ring, step_by_step(&cluster, hop, ranks, bytes));
                }
            }
        }
    }

    #[test]
    fn machines_that_are_alike_are_used_alike() {
        let cluster = cluster("p3.16xlarge", 3);
        let wiring = Wiring::new(&cluster);
        let each = wiring.capacities().len() / 3;
        for collective in EVERY.into_iter().filter(|collective| *collective != Collective::Transfer) {
            for algorithm in Collectives::ALL {
                let operation = operation(&wiring, collective, *algorithm, &members(&cluster, 24), Bytes(1 << 26));
                for phase in operation.phases {
                    let mut flows = vec![0.0; wiring.capacities().len()];
                    phase.uses.iter().for_each(|(link, of_phase)| flows[link.0 as usize] = *of_phase);
                    assert_eq!(flows[..each], flows[each..2 * each], "{collective:?} {algorithm}");
                    assert_eq!(flows[..each], flows[2 * each..], "{collective:?} {algorithm}");
                    assert!(phase.uses.windows(2).all(|pair| pair[0].0 < pair[1].0), "a link stands twice");
                }
            }
        }
    }

    #[test]
    fn groups_that_cross_share_the_network() {
        let cluster = cluster("p4d.24xlarge", 2);
        let family = |tensor| {
            let parallel = ParallelSpec { data: 16 / tensor, tensor, pipeline: 1 };
            let family = Family::data(parallel.into(), &cluster, StageId(0));
            all_reduce(&cluster, Collectives::Ring, &family, Bytes(LARGE)).expect("wired").0
        };
        // Rings over 16, 8 and 4 members, of which 1, 2 and 4 leave each machine at once.
        agree("two rings", family(2) / family(1), 2.0 * (7.0 / 8.0) / (15.0 / 16.0));
        agree("four rings", family(4) / family(1), 4.0 * (3.0 / 4.0) / (15.0 / 16.0));
    }

    #[test]
    fn the_uplinks_of_switches_are_shared() {
        let flat = cluster("p4d.24xlarge", 4);
        let switches = vec![SwitchLevel { ports: 2, oversubscription: 4.0 }];
        let blocking = Cluster { switches, ..flat.clone() };
        let slower = |collective, ranks| {
            alone(&blocking, collective, Collectives::Ring, ranks, LARGE)
                / alone(&flat, collective, Collectives::Ring, ranks, LARGE)
        };
        agree("below one switch", slower(Collective::AllReduce, 16), 1.0);
        agree("a ring over two switches", slower(Collective::AllReduce, 32), 2.0);
        // Of a machine's 8 · 24 flows 8 · 16 climb: 256 share half of what a machine's 192 do.
        agree("all to all", slower(Collective::AllToAll, 32), 256.0 / 192.0 * 2.0);
    }

    #[test]
    fn machines_of_two_kinds_go_at_the_pace_of_the_slower() {
        let mut mixed = cluster("p4d.24xlarge", 1);
        mixed.pools.extend(cluster("p3.16xlarge", 1).pools);
        let fast = cluster("p4d.24xlarge", 2);
        let slow = cluster("p3.16xlarge", 2);
        let [mixed, fast, slow] =
            [mixed, fast, slow].map(|c| alone(&c, Collective::AllReduce, Collectives::Ring, 16, LARGE));
        agree("mixed", mixed, slow);
        assert!(fast < slow);
    }

    #[test]
    fn parameter_servers_are_up_to_twice_as_fast_as_rings_through_hosts() {
        // Herring's abstract: gradient reduction twice as fast as all-reduce over EFA.
        let cluster = cluster("p3dn.24xlarge", 64);
        for bytes in [50_000_000, 500_000_000] {
            let time = |algorithm| alone(&cluster, Collective::AllReduce, algorithm, 512, bytes);
            let gain = time(Collectives::Nccl) / time(Collectives::Smddp);
            assert!((1.2..=2.0).contains(&gain), "{bytes} bytes: {gain}");
        }
    }

    #[test]
    fn two_p3_2xlarge_reach_the_published_rate_in_spite_of_the_limit_of_a_connection() {
        // DT-FM: 64 MiB in 55 ms, at the burst rate of the network.
        let mut cluster = cluster("p3.2xlarge", 2);
        let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { unreachable!("it is wired") };
        network.baseline = network.burst.clone();
        network.flow_limit = Some(Sourced::new(BytesPerSecond(0.625e9), "5 Gbit/s: Amazon EC2 User Guide"));
        let time = alone(&cluster, Collective::Transfer, Collectives::Nccl, 2, 1 << 26);
        assert!((time / 0.055 - 1.0).abs() < 0.12, "{time}");
    }

    #[test]
    fn a_rank_by_itself_has_nothing_to_send() {
        let cluster = cluster("p4d.24xlarge", 1);
        for collective in EVERY {
            let nothing =
                operation(&Wiring::new(&cluster), collective, Collectives::Nccl, &members(&cluster, 1), Bytes(LARGE));
            assert_eq!(nothing, Operation::default());
        }
    }

    #[test]
    fn ranks_without_a_device_are_refused() {
        let time = |instance, ranks| {
            super::super::collective_time(&cluster(instance, 1), Collective::AllReduce, ranks, Bytes(1 << 20))
        };
        assert!(time("p4d.24xlarge", 8).is_ok());
        assert!(matches!(time("p4d.24xlarge", 9), Err(MachineError::TooManyRanks { ranks: 9, devices: 8, .. })));
        let single = super::super::transfer_time(&cluster("p3.2xlarge", 1), Bytes(1));
        assert!(matches!(single, Err(MachineError::TooManyRanks { ranks: 2, devices: 1, .. })));
    }

    fn instances() -> impl Strategy<Value = Cluster> {
        let instance = prop::sample::select(vec!["p3.16xlarge", "p3dn.24xlarge", "p4d.24xlarge", "g4dn.12xlarge"]);
        (instance, 1_u32..6).prop_map(|(instance, instances)| cluster(instance, instances))
    }

    fn nominal(cluster: &Cluster) -> f64 {
        let Fabric::Wired { network, .. } = &cluster.first().fabric else { unreachable!("the catalog is wired") };
        network.baseline.value.0
    }

    proptest! {
        #[test]
        fn more_bytes_never_take_less_time_whatever_is_done(
            cluster in instances(),
            collective in prop::sample::select(EVERY.to_vec()),
            algorithm in prop::sample::select(Collectives::ALL),
            bytes in 1_u64..1 << 32,
            more in 0_u64..1 << 32,
        ) {
            let ranks = if collective == Collective::Transfer { 2 } else { cluster.devices() };
            let time = |bytes| alone(&cluster, collective, algorithm, ranks, bytes);
            prop_assert!(time(bytes) <= time(bytes + more));
        }

        #[test]
        fn more_machines_never_take_less_time(
            instance in prop::sample::select(vec!["p3.16xlarge", "p4d.24xlarge", "g4dn.12xlarge"]),
            collective in prop::sample::select(EVERY[..5].to_vec()),
            algorithm in prop::sample::select(Collectives::ALL),
            machines in 1_u32..8,
            bytes in 1_u64..1 << 34,
        ) {
            let time = |machines| {
                let cluster = cluster(instance, machines);
                alone(&cluster, collective, algorithm, cluster.devices(), bytes)
            };
            prop_assert!(time(machines) <= time(machines + 1) * (1.0 + 1e-12));
        }

        #[test]
        fn no_reduction_beats_what_must_leave_a_machine(
            cluster in instances(),
            algorithm in prop::sample::select(Collectives::ALL),
            bytes in 1_u64..1 << 34,
        ) {
            let machines = f64::from(cluster.machines());
            let bound = 2.0 * (machines - 1.0) / machines * bytes as f64 / nominal(&cluster);
            let time = alone(&cluster, Collective::AllReduce, algorithm, cluster.devices(), bytes);
            prop_assert!(time >= bound, "{time} s, and the network alone takes {bound} s");
        }

        #[test]
        fn an_all_to_all_uses_the_paths_of_its_pairs(
            instances in prop::collection::vec(prop::sample::select(vec!["p3.16xlarge", "p4d.24xlarge"]), 1..5),
            ports in prop::collection::vec(1_u32..4, 0..3),
            taken in prop::collection::vec(any::<bool>(), 32),
        ) {
            let mut cluster = cluster(instances[0], 1);
            let kinds = instances.iter().map(|instance| catalog().cluster(instance, 1).expect("in the catalog"));
            cluster.pools = kinds.flat_map(|kind| kind.pools).collect();
            cluster.switches = ports.iter().map(|ports| SwitchLevel { ports: *ports, oversubscription: 2.0 }).collect();
            let everywhere = members(&cluster, cluster.devices()).into_iter().zip(taken);
            let members: Vec<_> = everywhere.filter_map(|(member, taken)| taken.then_some(member)).collect();
            prop_assume!(members.len() > 1);
            let wiring = Wiring::new(&cluster);
            let mut flows = BTreeMap::new();
            let mut limit = f64::INFINITY;
            for (from, to) in members.iter().flat_map(|from| members.iter().map(move |to| (from, to))) {
                if from != to {
                    let path = wiring.path(*from, *to);
                    limit = limit.min(path.limit);
                    path.links.iter().for_each(|link| *flows.entry(*link).or_insert(0.0) += 1.0);
                }
            }
            let all = operation(&wiring, Collective::AllToAll, Collectives::Nccl, &members, Bytes(1 << 20));
            prop_assert_eq!(&all.phases[0].uses, &flows.into_iter().collect::<Vec<_>>());
            prop_assert!(all.phases[0].limit.total_cmp(&limit).is_eq());
        }

        #[test]
        fn groups_that_are_left_out_would_change_nothing(
            cluster in instances(),
            (tensor, pipeline) in (1_u32..5, 1_u32..5),
            bytes in 1_u64..1 << 32,
        ) {
            let data = cluster.devices() / tensor / pipeline;
            prop_assume!(data > 0);
            let mesh = ParallelSpec { data, tensor, pipeline }.into();
            let last = StageId(pipeline - 1);
            for family in [Family::data(mesh, &cluster, last), Family::tensor(mesh, &cluster, last)] {
                let quick = all_reduce(&cluster, Collectives::Nccl, &family, Bytes(bytes)).expect("wired");
                let wiring = Wiring::new(&cluster);
                let all: Vec<Operation> = family
                    .groups
                    .iter()
                    .map(|group| operation(&wiring, Collective::AllReduce, Collectives::Nccl, group, Bytes(bytes)))
                    .collect();
                prop_assert_eq!(quick, slowest(wiring.capacities(), &all));
            }
        }
    }
}
