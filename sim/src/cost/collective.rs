//! Collectives and transfers: rings, trees and hierarchies over the links that their members share.
//!
//! An all-reduce of S bytes over n ranks moves 2(n−1)/n · S through the narrowest link of a ring, and takes 2(n−1)
//! steps; a tree moves 2 · S in as many steps as it is deep. NCCL's tuner takes the faster of the two. A hierarchy
//! reduces inside each machine first and sends each rank's part over the network. Each becomes an [`Operation`]: a
//! latency and flows over links, whose rate depends on what else is under way.
//!
//! # Source
//!
//! Ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69 (2009). Latencies of protocols and steps: NVIDIA/nccl,
//! `src/graph/tuning.cc`. Two trees: Sanders, Speck and Träff, Parallel Computing 35 (2009). Hierarchy: Jia et al.,
//! arXiv:1807.11205, section 3.3. Parameter servers: Thangakrishnan et al., "Herring: Rethinking the Parameter Server
//! at Scale for the Cloud", SC20.

use super::device::device_costs;
use super::operation::{Operation, Phase};
use super::protocol::{Hop, SIMPLE, Way};
use super::route::{Group, Round, Route};
use crate::machine::{MachineError, enough_devices};
use crate::wiring::Wiring;
use trainyard_hardware_profiles::{Cluster, DevicePosition, Transport};
use trainyard_plan::{Collective, Collectives, ParallelSpec};
use trainyard_units::{Bytes, Seconds};

/// Messages that the library has under way at once between pairs (NVIDIA/nccl, `src/include/device.h`,
/// `NCCL_MAX_DEV_WORK_P2P_PER_BATCH`).
const MESSAGES_AT_ONCE: u32 = 8;

/// The part of EFA that parameter servers on all machines sustain through host memory. Assumed: what a single GPU
/// sustains over TCP. Messages from every machine to every other fill the line, which one ring's do not; "twice as fast
/// as all-reduce" in the paper compares whole reductions, latencies included.
const SERVERS_SUSTAINED: f64 = 0.9;

/// The operation of a group as flows over links; empty for less than two members.
///
/// `Nccl` takes the faster of ring and tree, in the faster protocol, as if nothing else were under way: the library
/// knows of nothing else. What an algorithm has no form of its own for goes as with `Nccl`. Other latencies than the
/// library counts with do not change what it takes.
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
    let mut phases = match collective {
        Collective::AllReduce => call.all_reduce(algorithm),
        Collective::AllGather => call.sharded(algorithm, [Call::across, Call::inside]),
        Collective::ReduceScatter => call.sharded(algorithm, [Call::inside, Call::across]),
        Collective::Broadcast => vec![call.broadcast(algorithm)],
        Collective::AllToAll => vec![call.all_to_all()],
        Collective::Transfer => vec![call.transfer(members)],
    };
    let factors = wiring.cluster().latency;
    let factor = if call.group.machines() > 1 { factors.between } else { factors.inside };
    for phase in &mut phases {
        phase.latency = phase.latency * factor;
    }
    Operation { phases }
}

/// A collective of one group.
struct Call<'a> {
    wiring: &'a Wiring<'a>,
    group: Group<'a>,
    bytes: f64,
}

impl Call<'_> {
    fn fastest(&self, route: Route, ways: impl IntoIterator<Item = Way>) -> Phase {
        route.fastest(self.wiring.capacities(), ways)
    }

    /// Tells whether the members of a machine and the machines are worth separate phases.
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
                let ways = ring_ways(&ring.round, 2.0, self.bytes).chain(self.tree_ways(2.0, 2.0));
                vec![self.fastest(ring.route, ways)]
            }
        }
    }

    /// One pass, gathering or scattering, or both by one ring through all members.
    fn one_ring(&self, passes: f64) -> Phase {
        let ring = self.group.ring();
        let ways = ring_ways(&ring.round, passes, self.bytes);
        self.fastest(paced(ring.route, passes), ways)
    }

    /// Between two machines over EFA through hosts each of the two trees carries half of the buffer up or down: 134 ms
    /// for 1 GB on two p3dn, 268 ms by ring (NVIDIA/nccl-tests issue 22). The published sweep on two p4d shows no such
    /// gain, nor do the InfiniBand rows (docs/physics.md).
    fn trees_halve(&self) -> bool {
        self.group.machines() == 2 && self.group.all_over(Transport::Efa)
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
        let chain = chain_ways(&ring.round, 1.0, self.bytes);
        match algorithm {
            Collectives::Ring => self.fastest(ring.route, chain),
            Collectives::Tree => self.fastest(ring.route, self.tree_ways(1.0, 1.0)),
            _ => self.fastest(ring.route, chain.chain(self.tree_ways(1.0, 1.0))),
        }
    }

    /// The tree of a group uses the links of its ring: a chain on each machine, and two trees between machines.
    fn tree_ways(&self, passes: f64, volume: f64) -> impl Iterator<Item = Way> {
        let latencies = self.group.latencies();
        let chain = f64::from(self.group.most() - 1);
        let depth = f64::from(self.group.machines()).log2().ceil();
        let (inside, bytes) = (self.group.hop_inside(), self.bytes);
        latencies.protocols().iter().map(move |protocol| {
            let hops =
                chain * latencies.tree_hop(protocol, inside) + depth * latencies.tree_hop(protocol, Hop::Network);
            latencies.way(protocol, latencies.tree_base(protocol) + passes * hops, volume * bytes)
        })
    }

    /// One or both passes of the rings of a hierarchy inside each machine, over the whole buffer.
    fn inside(&self, passes: f64) -> Phase {
        let ring = self.group.rings_inside();
        let ways = ring_ways(&ring.round, passes, self.bytes);
        self.fastest(ring.route, ways)
    }

    /// One or both passes of the rings of a hierarchy between machines, each over the part of one member: a machine's
    /// together send what one ring would.
    fn across(&self, passes: f64) -> Phase {
        let parts = self.group.fewest();
        let ring = self.group.rings_across(parts);
        let ways = ring_ways(&ring.round, passes, self.bytes / f64::from(parts));
        self.fastest(paced(ring.route, passes), ways)
    }

    /// Balanced fusion buffers: members of a machine reduce, each hands its part to the processor, and servers on all
    /// machines each sum an equal part of the buffer and hand it back. Each byte leaves and enters a machine once on
    /// the way to its server and once on the way back, except those whose server is its own: (m−1)/m of them each time
    /// between m machines, in two steps whatever m is. Assumed: processors sum as fast as the network delivers, and
    /// pushing overlaps with pulling but not with the reductions inside.
    fn through_servers(&self) -> Vec<Phase> {
        let parts = self.group.fewest();
        let machines = f64::from(self.group.machines());
        let latencies = self.group.latencies();
        let latency = latencies.ring_base(&SIMPLE) + 2.0 * latencies.ring_hop(&SIMPLE, Hop::Network);
        // The links carry what rings sustain; bytes that flow more smoothly occupy them for less.
        let ease = if self.group.all_over(Transport::Efa) { self.group.sustained() / SERVERS_SUSTAINED } else { 1.0 };
        let volume = 2.0 * (machines - 1.0) / machines * self.bytes / f64::from(parts) * ease;
        let exchange = self.fastest(self.group.through_hosts(parts), [latencies.way(&SIMPLE, latency, volume)]);
        if self.group.most() == 1 {
            return vec![exchange];
        }
        vec![self.inside(1.0), exchange, self.inside(1.0)]
    }

    /// Every pair sends at the same time, each rank to its machine first.
    fn all_to_all(&self) -> Phase {
        let members = self.group.members();
        let batches = |peers: u32| f64::from(peers.div_ceil(MESSAGES_AT_ONCE));
        let latencies = self.group.latencies();
        let inside = batches(self.group.most() - 1) * latencies.ring_hop(&SIMPLE, self.group.hop_inside());
        let across = if self.group.crosses() {
            batches(members - self.group.fewest()) * latencies.ring_hop(&SIMPLE, Hop::Network)
        } else {
            0.0
        };
        let latency = latencies.ring_base(&SIMPLE) + inside + across;
        self.fastest(self.group.every_pair(), [latencies.way(&SIMPLE, latency, self.bytes / f64::from(members))])
    }

    fn transfer(&self, members: &[DevicePosition]) -> Phase {
        let [from, to] = members else { unreachable!("a transfer has two ends, not {}", members.len()) };
        let latencies = self.group.latencies();
        let latency = latencies.ring_base(&SIMPLE) + latencies.ring_hop(&SIMPLE, self.group.hop());
        self.fastest(Route::of_path(&self.wiring.path(*from, *to)), [latencies.way(&SIMPLE, latency, self.bytes)])
    }
}

/// The route of a gather or a scatter, one pass, waits for the slowest machine; published all-reduces show nothing of it
/// (docs/physics.md, section 7).
fn paced(route: Route, passes: f64) -> Route {
    if passes > 1.0 { route } else { route.waiting() }
}

/// Ways of a ring that goes round `passes` times, each time without its last step, with one of n parts of a buffer of
/// `bytes` bytes in each step.
fn ring_ways(round: &Round, passes: f64, bytes: f64) -> impl Iterator<Item = Way> {
    let n = f64::from(round.members);
    chain_ways(round, passes, passes * (n - 1.0) / n * bytes)
}

/// Ways of a ring that goes round `passes` times, each time without its last step, with `volume` bytes through each
/// link.
fn chain_ways(round: &Round, passes: f64, volume: f64) -> impl Iterator<Item = Way> {
    let n = f64::from(round.members);
    round.latencies.protocols().iter().map(move |protocol| {
        let steps = passes * (n - 1.0) / n * round.time(protocol);
        round.latencies.way(protocol, round.latencies.ring_base(protocol) + steps, volume)
    })
}

/// The time in which every group does the same, all at once. Each link is shared equally by all flows; the slowest
/// group counts.
pub(super) fn over_links(
    wiring: &Wiring<'_>,
    collective: Collective,
    algorithm: Collectives,
    groups: &[Vec<DevicePosition>],
    bytes: Bytes,
) -> Seconds {
    let operations: Vec<Operation> = unlike(wiring.cluster(), groups)
        .into_iter()
        .map(|group| operation(wiring, collective, algorithm, group, bytes))
        .collect();
    all_at_once(&operations, wiring.capacities())
}

/// The groups without those that cannot be the slowest alone: groups of one member, and, where each group
/// stays on one machine, those of a machine whose groups use the same slots as those of the one before.
fn unlike<'a>(cluster: &Cluster, groups: &'a [Vec<DevicePosition>]) -> Vec<&'a [DevicePosition]> {
    let several = groups.iter().filter(|group| group.len() > 1);
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
fn all_at_once(operations: &[Operation], capacities: &[f64]) -> Seconds {
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
    collective_time_by(cluster, collective, Collectives::Nccl, ranks, bytes)
}

/// The same by a stated algorithm.
///
/// # Errors
///
/// As [`collective_time`].
pub fn collective_time_by(
    cluster: &Cluster,
    collective: Collective,
    algorithm: Collectives,
    ranks: u32,
    bytes: Bytes,
) -> Result<Seconds, MachineError> {
    enough_devices(cluster, ParallelSpec { data: ranks, ..ParallelSpec::default() }.into())?;
    let members: Vec<_> = match collective {
        Collective::Transfer if ranks > 1 => [0, ranks - 1].map(|rank| cluster.position(rank)).into(),
        _ => (0..ranks).map(|rank| cluster.position(rank)).collect(),
    };
    let links = device_costs(&cluster.first().device).links();
    links.together(&Wiring::new(cluster), collective, algorithm, &[members], bytes)
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

#[cfg(test)]
mod tests;
