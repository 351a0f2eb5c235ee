use super::super::protocol::{MICROSECOND, Protocol};
use super::*;
use crate::layout::Layout;
use proptest::prelude::*;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Fabric, Sourced, SwitchLevel, catalog};
use trainyard_plan::{Group as Members, Mesh, ParallelSpec};
use trainyard_units::BytesPerSecond;

fn parallel(data: u32, tensor: u32, pipeline: u32) -> ParallelSpec {
    ParallelSpec { data, tensor, pipeline, ..ParallelSpec::default() }
}

fn groups_of(parallel: ParallelSpec, cluster: &Cluster, stage: u32, group: Members) -> Vec<Vec<DevicePosition>> {
    let layout = Layout { mesh: Mesh::from(parallel), cluster };
    layout.groups(stage, group).iter().map(|members| layout.positions(members)).collect()
}

/// The groups of a stage that sum gradients.
fn of_data(parallel: ParallelSpec, cluster: &Cluster, stage: u32) -> Vec<Vec<DevicePosition>> {
    groups_of(parallel, cluster, stage, Members::Gradient)
}

fn sum(cluster: &Cluster, algorithm: Collectives, groups: &[Vec<DevicePosition>], bytes: Bytes) -> Seconds {
    over_links(&Wiring::new(cluster), Collective::AllReduce, algorithm, groups, bytes)
}

fn time(instance: &str, instances: u32, ranks: u32, bytes: u64) -> Seconds {
    let cluster = catalog().cluster(instance, instances).expect("in the catalog");
    let degrees = parallel(ranks, 1, 1);
    sum(&cluster, Collectives::Nccl, &of_data(degrees, &cluster, 0), Bytes(bytes))
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
    assert!((two / 0.134 - 1.0).abs() < 0.15, "{two}");
    let eight = time("p3dn.24xlarge", 8, 64, 70_000_000).0;
    assert!((eight / 0.018 - 1.0).abs() < 0.2, "{eight}");
}

#[test]
fn a_hierarchy_sends_less_between_two_machines_than_a_ring() {
    let cluster = catalog().cluster("p3.16xlarge", 2).expect("in the catalog");
    let groups = of_data(parallel(16, 1, 1), &cluster, 0);
    let time = |collectives| sum(&cluster, collectives, &groups, Bytes(1 << 28)).0;
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
    let (network, inside) = (LARGE as f64 / (0.95 * 50e9), LARGE as f64 / (0.78 * 300e9));
    let cluster = without_waiting(cluster);
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

/// A cluster whose chunks follow each other without waiting, and whose machines do not wait for the slowest of them.
fn without_waiting(mut cluster: Cluster) -> Cluster {
    let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { unreachable!("it is wired") };
    network.messaging.chunk_trips.value = 0.0;
    network.messaging.growth = None;
    cluster
}

#[test]
fn a_byte_takes_as_long_as_the_steps_of_its_ring() {
    let (one, two) = (cluster("p4d.24xlarge", 1), cluster("p4d.24xlarge", 2));
    let gather = |cluster, ranks| alone(cluster, Collective::AllGather, Collectives::Nccl, ranks, 1) * 1e6;
    for ranks in [2, 5, 8] {
        agree("gather in LL", gather(&one, ranks), 6.6 + 0.6 * f64::from(ranks - 1));
    }
    let two = without_waiting(two);
    agree("gather over EFA", gather(&two, 16), 8.4 + 15.0 / 16.0 * (14.0 * 3.4 + 2.0 * 65.0));
    let tree = alone(&two, Collective::AllReduce, Collectives::Tree, 16, 1) * 1e6;
    agree("tree over EFA", tree, 8.4 + 2.0 * (7.0 * 3.4 + 65.0));
}

/// A ring all-reduce step by step: every rank sends a chunk to the next in each of 2(n−1) rounds, and starts a round
/// when it has the chunk of the one before.
fn step_by_step(cluster: &Cluster, hop: Hop, ranks: u32, bytes: u64) -> f64 {
    let wiring = Wiring::new(cluster);
    let members = members(cluster, ranks);
    let latencies = Group::new(&wiring, &members).latencies();
    let of_protocol = |protocol: &Protocol| {
        let chunk = bytes as f64 / f64::from(ranks) / protocol.payload;
        let mut has_chunk = vec![protocol.ring_base * MICROSECOND; members.len()];
        for _ in 0..2 * (ranks - 1) {
            let sent = has_chunk.clone();
            for (from, at) in sent.iter().enumerate() {
                let to = (from + 1) % members.len();
                let path = wiring.path(members[from], members[to]);
                let rate = path.links.iter().map(|link| wiring.capacity(*link)).fold(path.limit, f64::min);
                has_chunk[to] = at + latencies.ring_hop(protocol, hop) * MICROSECOND + chunk / rate;
            }
        }
        has_chunk.into_iter().fold(0.0, f64::max)
    };
    latencies.protocols().iter().map(of_protocol).fold(f64::INFINITY, f64::min)
}

#[test]
fn waiting_chunks_add_the_cross_term_of_a_square() {
    let mut cluster = cluster("p4d.24xlarge", 2);
    let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { unreachable!("it is wired") };
    let (rate, step) = (network.messaging.sustained.value * network.baseline.value.0, network.messaging.step.value.0);
    for trips in [0.0, 1.0, 3.0] {
        let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { unreachable!("it is wired") };
        network.messaging.chunk_trips.value = trips;
        let filling = (8.4 + 15.0 * 2.0 / 16.0 * 14.0 * 3.4) * MICROSECOND + 15.0 * 2.0 / 16.0 * 2.0 * step;
        for bytes in [1 << 14, 1 << 20, 1 << 26, 1 << 32] {
            let carrying = 15.0 * 2.0 / 16.0 * bytes as f64 / rate;
            let expected = filling + carrying + 2.0 * (trips * filling * carrying).sqrt();
            let ring = alone(&cluster, Collective::AllReduce, Collectives::Ring, 16, bytes);
            agree(&format!("{bytes} bytes, {trips} trips"), ring, expected);
        }
    }
}

#[test]
fn flagged_lines_go_over_nvlinks_only() {
    // 1 MiB over two GPUs of a switch: LL128 starts in 14 us, hops in 1.9 and carries 0.92 of 234 GB/s.
    let (switch, bridge) = (cluster("p4d.24xlarge", 1), cluster("g4dn.metal", 1));
    let gather = |cluster: &Cluster, bytes| alone(cluster, Collective::AllGather, Collectives::Ring, 4, bytes) * 1e6;
    let lines = 14.0 + 3.0 * 1.9 + 0.75 * f64::from(1 << 21) / (0.92 * 0.78 * 300e3);
    let whole = 8.4 + 3.0 * 3.4 + 0.75 * f64::from(1 << 21) / (0.78 * 300e3);
    agree("NVLink", gather(&switch, 1 << 21), lines.min(whole));
    let over_pcie = Group::new(&Wiring::new(&bridge), &members(&bridge, 4)).latencies();
    assert_eq!(over_pcie.protocols().len(), 2, "LL and Simple");
}

#[test]
fn rings_take_as_long_as_their_steps() {
    for bytes in [1, 1_000, 100_000, 10_000_000, 1_000_000_000] {
        for ranks in [2, 3, 5, 8] {
            let rings = [
                (cluster("p4d.24xlarge", 1), Hop::Nvlink),
                (cluster("g4dn.metal", 1), Hop::Pcie),
                (cluster("p3.2xlarge", 8), Hop::Network),
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
    let cluster = without_waiting(cluster("p4d.24xlarge", 2));
    let family = |tensor| {
        let degrees = parallel(16 / tensor, tensor, 1);
        sum(&cluster, Collectives::Ring, &of_data(degrees, &cluster, 0), Bytes(LARGE)).0
    };
    // Rings over 16, 8 and 4 members, of which 1, 2 and 4 leave each machine at once.
    agree("two rings", family(2) / family(1), 2.0 * (7.0 / 8.0) / (15.0 / 16.0));
    agree("four rings", family(4) / family(1), 4.0 * (3.0 / 4.0) / (15.0 / 16.0));
}

#[test]
fn more_machines_wait_longer_for_the_slowest_of_them() {
    let sized = |machines| {
        let mut cluster = without_waiting(cluster("p4d.24xlarge", machines));
        let time = |cluster: &Cluster, what| alone(cluster, what, Collectives::Ring, 8 * machines, LARGE);
        let flat = [Collective::AllGather, Collective::AllReduce].map(|what| time(&cluster, what));
        let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { unreachable!("it is wired") };
        network.messaging.growth = Some(trainyard_hardware_profiles::Sourced::new(0.3, "a test"));
        agree("an all-reduce", time(&cluster, Collective::AllReduce), flat[1]);
        time(&cluster, Collective::AllGather) / flat[0]
    };
    // Nothing is said of two, and each doubling from there adds 0.3.
    agree("two machines", sized(2), 1.0);
    agree("four machines", sized(4), 1.3);
    agree("sixteen machines", sized(16), 1.9);
}

#[test]
fn the_uplinks_of_switches_are_shared() {
    let flat = without_waiting(cluster("p4d.24xlarge", 4));
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
    let refused = |result: Result<_, MachineError>| result.expect_err("too few devices").to_string();
    assert!(refused(time("p4d.24xlarge", 9)).ends_with("= 9 ranks, but 1 × `p4d.24xlarge` have 8 devices"));
    let single = super::super::transfer_time(&cluster("p3.2xlarge", 1), Bytes(1));
    assert!(refused(single).ends_with("= 2 ranks, but 1 × `p3.2xlarge` have 1 devices"));
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
        let degrees = parallel(data, tensor, pipeline);
        let of = |group| groups_of(degrees, &cluster, pipeline - 1, group);
        for groups in [of(Members::Gradient), of(Members::Tensor)] {
            let quick = sum(&cluster, Collectives::Nccl, &groups, Bytes(bytes));
            let wiring = Wiring::new(&cluster);
            let all: Vec<Operation> = groups
                .iter()
                .map(|group| operation(&wiring, Collective::AllReduce, Collectives::Nccl, group, Bytes(bytes)))
                .collect();
            prop_assert_eq!(quick, all_at_once(&all, wiring.capacities()));
        }
    }
}
