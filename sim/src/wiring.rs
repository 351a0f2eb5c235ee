//! The links of a cluster: what each carries at most, and which of them a flow between two devices goes through.
//!
//! Every link has one direction. Links are numbered machine by machine, each machine's in the same order, and then
//! switch by switch, so that a number follows from a position by arithmetic.

use crate::network::LinkId;
use trainyard_hardware_profiles::{Cluster, DevicePosition, Fabric, Host, Interconnect, Network, PcieTree, Pool};
use trainyard_units::BytesPerSecond;

/// Links of a device: out of its port and into it.
const LINKS_PER_DEVICE: u32 = 2;

/// Links of a PCIe switch or of a switch of the network: up and down.
const LINKS_PER_SWITCH: u32 = 2;

/// Links of a machine besides those of its devices: network out, network in, main memory, disk.
const LINKS_PER_HOST: u32 = 4;

/// Of an uplink to a processor that no description of the machine states: 90 Gbit/s from pinned memory on p3dn.24xlarge
/// (NVIDIA/nccl issue 398), PCIe 3.0 x16.
const PCIE_UPLINK: BytesPerSecond = BytesPerSecond(11.25e9);

/// The part that is left of a network between machines that encrypt their traffic. A stated default: nobody has
/// published a measurement of training with IPsec between instances. Headers of ESP (RFC 4303) take 1 % of jumbo
/// frames; the rest stands for the processor cores that encrypt 25 to 100 Gbit/s.
pub const ENCRYPTED_SHARE: f64 = 0.7;

/// The part of its nominal rate that a network sustains when this many devices of a machine share it.
pub(crate) fn sustained(network: &Network, devices_per_instance: u32) -> f64 {
    let messaging = &network.messaging;
    if devices_per_instance == 1 { messaging.sustained_alone.value } else { messaging.sustained.value }
}

/// The way of one flow from a device to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The rate of the flow by itself, in bytes per second; infinite if only its links limit it.
    pub limit: f64,
    /// The links that it goes through, in ascending order. Devices below one PCIe switch need none.
    pub links: Vec<LinkId>,
}

/// All links of a cluster.
#[derive(Clone, Debug)]
pub struct Wiring<'a> {
    cluster: &'a Cluster,
    pools: Vec<PoolLinks>,
    levels: Vec<LevelLinks>,
    capacities: Vec<f64>,
}

/// Where the links of a pool's machines begin.
#[derive(Clone, Copy, Debug)]
struct PoolLinks {
    first_machine: u32,
    first_link: u32,
    links_per_machine: u32,
    devices: u32,
    devices_per_switch: u32,
}

/// Where the links of a level of switches begin.
#[derive(Clone, Copy, Debug)]
struct LevelLinks {
    machines_per_switch: u32,
    first_link: u32,
}

impl<'a> Wiring<'a> {
    /// The links of `cluster`. A measured machine has none: what its ranks share is inside its measurements.
    pub fn new(cluster: &'a Cluster) -> Self {
        let mut wiring = Self { cluster, pools: Vec::new(), levels: Vec::new(), capacities: Vec::new() };
        let mut first_machine = 0;
        for pool in &cluster.pools {
            wiring.add_pool(pool, first_machine);
            first_machine += pool.instances;
        }
        if cluster.pools.iter().all(|pool| matches!(pool.fabric, Fabric::Wired { .. })) {
            wiring.add_switches();
        }
        wiring
    }

    fn add_pool(&mut self, pool: &Pool, first_machine: u32) {
        let first_link = self.capacities.len() as u32;
        let tree = pcie_tree(pool);
        if let Fabric::Wired { interconnect, network } = &pool.fabric {
            let machine = machine_capacities(pool, tree, interconnect, network, self.cluster.encrypted);
            for _ in 0..pool.instances {
                self.capacities.extend_from_slice(&machine);
            }
        }
        self.pools.push(PoolLinks {
            first_machine,
            first_link,
            links_per_machine: (self.capacities.len() as u32 - first_link) / pool.instances,
            devices: pool.devices_per_instance,
            devices_per_switch: tree.devices_per_switch,
        });
    }

    /// The uplinks of a switch carry what its ports do, over the oversubscription of its level.
    fn add_switches(&mut self) {
        let mut below: Vec<f64> =
            (0..self.cluster.machines()).map(|machine| self.capacity(self.network_out(machine))).collect();
        let mut machines_per_switch = 1_u32;
        for level in &self.cluster.switches {
            machines_per_switch = machines_per_switch.saturating_mul(level.ports);
            self.levels.push(LevelLinks { machines_per_switch, first_link: self.capacities.len() as u32 });
            below = below
                .chunks(level.ports as usize)
                .map(|ports| ports.iter().sum::<f64>() / level.oversubscription)
                .collect();
            self.capacities.extend(below.iter().flat_map(|uplink| [*uplink; LINKS_PER_SWITCH as usize]));
        }
    }

    /// The cluster whose links these are.
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// Capacities of the links, in bytes per second, by number. What is unknown or
    /// not there is infinite: plans that need it are refused before.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// The capacity of a link, in bytes per second.
    pub fn capacity(&self, link: LinkId) -> f64 {
        self.capacities[link.0 as usize]
    }

    fn pool(&self, machine: u32) -> &PoolLinks {
        &self.pools[self.cluster.pool_index(machine)]
    }

    /// The links between the devices of a machine.
    pub(crate) fn interconnect(&self, machine: u32) -> &'a Interconnect {
        self.fabric(machine).0
    }

    pub(crate) fn network(&self, machine: u32) -> &'a Network {
        self.fabric(machine).1
    }

    fn fabric(&self, machine: u32) -> (&'a Interconnect, &'a Network) {
        match &self.cluster.pool_of(machine).fabric {
            Fabric::Wired { interconnect, network } => (interconnect, network),
            Fabric::Measured => unreachable!("what a measured machine does is priced by its measurements"),
        }
    }

    fn of_machine(&self, machine: u32, link: u32) -> LinkId {
        let pool = self.pool(machine);
        debug_assert!(link < pool.links_per_machine, "link {link} of machine {machine} is not there");
        LinkId(pool.first_link + (machine - pool.first_machine) * pool.links_per_machine + link)
    }

    /// Out of a device towards the others of its machine.
    pub(crate) fn port_out(&self, device: DevicePosition) -> LinkId {
        self.of_machine(device.instance, LINKS_PER_DEVICE * device.slot)
    }

    /// Into a device from the others of its machine.
    pub(crate) fn port_in(&self, device: DevicePosition) -> LinkId {
        self.of_machine(device.instance, LINKS_PER_DEVICE * device.slot + 1)
    }

    /// The PCIe switch of a device, counted within its machine.
    pub(crate) fn pcie_switch(&self, device: DevicePosition) -> u32 {
        device.slot / self.pool(device.instance).devices_per_switch
    }

    /// From the PCIe switch of a device to the processor.
    pub fn to_processor(&self, device: DevicePosition) -> LinkId {
        let first = LINKS_PER_DEVICE * self.pool(device.instance).devices;
        self.of_machine(device.instance, first + LINKS_PER_SWITCH * self.pcie_switch(device))
    }

    /// From the processor to the PCIe switch of a device.
    pub fn from_processor(&self, device: DevicePosition) -> LinkId {
        LinkId(self.to_processor(device).0 + 1)
    }

    fn host(&self, machine: u32, link: u32) -> LinkId {
        self.of_machine(machine, self.pool(machine).links_per_machine - LINKS_PER_HOST + link)
    }

    /// Out of a machine into the network.
    pub fn network_out(&self, machine: u32) -> LinkId {
        self.host(machine, 0)
    }

    /// Into a machine from the network.
    pub(crate) fn network_in(&self, machine: u32) -> LinkId {
        self.host(machine, 1)
    }

    /// Main memory of a machine, read and written.
    pub(crate) fn host_memory(&self, machine: u32) -> LinkId {
        self.host(machine, 2)
    }

    /// The disk of a machine, read and written.
    pub fn disk(&self, machine: u32) -> LinkId {
        self.host(machine, 3)
    }

    /// Levels of switches with uplinks.
    pub(crate) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The switch of a level that a machine hangs below.
    pub(crate) fn switch_of(&self, level: usize, machine: u32) -> u32 {
        machine / self.levels[level].machines_per_switch
    }

    /// From a switch of a level to the next higher one.
    pub(crate) fn switch_up(&self, level: usize, switch: u32) -> LinkId {
        LinkId(self.levels[level].first_link + LINKS_PER_SWITCH * switch)
    }

    /// To a switch of a level from the next higher one.
    pub(crate) fn switch_down(&self, level: usize, switch: u32) -> LinkId {
        LinkId(self.switch_up(level, switch).0 + 1)
    }

    /// The way of one flow between two devices.
    pub fn path(&self, from: DevicePosition, to: DevicePosition) -> Path {
        assert_ne!(from, to, "a device does not send to itself");
        let mut path =
            if from.instance == to.instance { self.path_inside(from, to) } else { self.path_across(from, to) };
        path.links.sort_unstable();
        path
    }

    fn path_inside(&self, from: DevicePosition, to: DevicePosition) -> Path {
        let ports = [self.port_out(from), self.port_in(to)];
        let uplinks = [self.to_processor(from), self.from_processor(to)];
        let through_processor = self.pcie_switch(from) != self.pcie_switch(to);
        match self.interconnect(from.instance) {
            Interconnect::Pcie { .. } if through_processor => {
                Path { limit: f64::INFINITY, links: [ports, uplinks].concat() }
            }
            Interconnect::Nvswitch { .. } | Interconnect::Pcie { .. } => {
                Path { limit: f64::INFINITY, links: ports.to_vec() }
            }
            Interconnect::NvlinkMesh { link, fraction, pairs, pcie_bandwidth } => {
                match links_to(&pairs.value, from.slot, |other| other == to.slot) {
                    0 => Path {
                        limit: pcie_bandwidth.value.0,
                        links: if through_processor { uplinks.to_vec() } else { Vec::new() },
                    },
                    links => Path { limit: f64::from(links) * link.value.0 * fraction.value, links: ports.to_vec() },
                }
            }
        }
    }

    fn path_across(&self, from: DevicePosition, to: DevicePosition) -> Path {
        let mut links = vec![self.network_out(from.instance), self.network_in(to.instance)];
        for level in 0..self.levels() {
            let [here, there] = [from, to].map(|device| self.switch_of(level, device.instance));
            if here == there {
                break;
            }
            links.extend([self.switch_up(level, here), self.switch_down(level, there)]);
        }
        let limit = self.connection_limit(from.instance).min(self.connection_limit(to.instance));
        Path { limit, links }
    }

    /// The highest rate from a machine to one peer, in bytes per second: the TCP connections that the library opens to
    /// it.
    pub(crate) fn connection_limit(&self, machine: u32) -> f64 {
        let network = self.network(machine);
        match (&network.flow_limit, &network.messaging.connections) {
            (Some(limit), Some(connections)) => limit.value.0 * f64::from(connections.value),
            _ => f64::INFINITY,
        }
    }
}

/// The NVLinks of a mesh between a GPU and those others that `wanted` holds for.
pub(crate) fn links_to(pairs: &[(u32, u32, u32)], slot: u32, wanted: impl Fn(u32) -> bool) -> u32 {
    pairs
        .iter()
        .filter(|(a, b, _)| (*a == slot && wanted(*b)) || (*b == slot && wanted(*a)))
        .map(|(_, _, links)| *links)
        .sum()
}

/// Where nothing is known of a machine, each device has an uplink of its own.
fn pcie_tree(pool: &Pool) -> PcieTree {
    pool.host.as_ref().map_or(PcieTree { devices_per_switch: 1, uplink: PCIE_UPLINK }, |host| host.pcie)
}

/// Capacities of the links of one machine, in their order.
fn machine_capacities(
    pool: &Pool,
    tree: PcieTree,
    interconnect: &Interconnect,
    network: &Network,
    encrypted: bool,
) -> Vec<f64> {
    let devices = pool.devices_per_instance;
    let ports = (0..devices).flat_map(|slot| [port(interconnect, slot); LINKS_PER_DEVICE as usize]);
    let switches = devices.div_ceil(tree.devices_per_switch);
    let uplinks = (0..switches * LINKS_PER_SWITCH).map(|_| tree.uplink.0);
    let between =
        network.baseline.value.0 * sustained(network, devices) * if encrypted { ENCRYPTED_SHARE } else { 1.0 };
    // A machine that stands alone may have no network.
    let network = known(BytesPerSecond(between));
    let (memory, disk) = match &pool.host {
        Some(Host { memory_bandwidth, disk_bandwidth, .. }) => (known(*memory_bandwidth), known(*disk_bandwidth)),
        None => (f64::INFINITY, f64::INFINITY),
    };
    ports.chain(uplinks).chain([network, network, memory, disk]).collect()
}

/// A rate, infinite if there is none.
fn known(rate: BytesPerSecond) -> f64 {
    if rate.0 > 0.0 { rate.0 } else { f64::INFINITY }
}

/// The highest rate between a device and the others of its machine. Over a mesh all its links together;
/// a device that has none sends over PCIe.
fn port(interconnect: &Interconnect, slot: u32) -> f64 {
    match interconnect {
        Interconnect::Pcie { bandwidth } => bandwidth.value.0,
        Interconnect::Nvswitch { port, fraction } => port.value.0 * fraction.value,
        Interconnect::NvlinkMesh { link, fraction, pairs, pcie_bandwidth } => {
            match links_to(&pairs.value, slot, |_| true) {
                0 => pcie_bandwidth.value.0,
                links => f64::from(links) * link.value.0 * fraction.value,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use trainyard_hardware_profiles::{Sourced, SwitchLevel, Transport, catalog};
    use trainyard_units::Bytes;

    fn cluster(instance: &str, instances: u32) -> Cluster {
        catalog().cluster(instance, instances).expect("in the catalog")
    }

    fn at(instance: u32, slot: u32) -> DevicePosition {
        DevicePosition { instance, slot }
    }

    fn agree(rate: f64, expected: f64) {
        assert!((rate / expected - 1.0).abs() < 1e-12, "{rate} B/s, expected {expected} B/s");
    }

    #[test]
    fn every_link_has_one_number_and_no_number_is_left_over() {
        let mut mixed = cluster("p3.16xlarge", 3);
        mixed.pools.extend(cluster("p4d.24xlarge", 2).pools);
        mixed.switches =
            vec![SwitchLevel { ports: 2, oversubscription: 1.0 }, SwitchLevel { ports: 2, oversubscription: 2.0 }];
        mixed.pools[0].host = None;
        mixed.pools[1].host = Some(Host {
            memory: Bytes(1 << 40),
            memory_bandwidth: BytesPerSecond(2e11),
            disk: Bytes(1 << 40),
            disk_bandwidth: BytesPerSecond(4e9),
            pcie: PcieTree { devices_per_switch: 3, uplink: BytesPerSecond(2e10) },
            processors: None,
            remote: None,
        });
        let wiring = Wiring::new(&mixed);
        let mut links = Vec::new();
        for device in (0..mixed.devices()).map(|device| mixed.position(device)) {
            links.extend([wiring.port_out(device), wiring.port_in(device)]);
            links.extend([wiring.to_processor(device), wiring.from_processor(device)]);
        }
        for machine in 0..mixed.machines() {
            links.extend([wiring.network_out(machine), wiring.network_in(machine)]);
            links.extend([wiring.host_memory(machine), wiring.disk(machine)]);
            for level in 0..2 {
                let switch = wiring.switch_of(level, machine);
                links.extend([wiring.switch_up(level, switch), wiring.switch_down(level, switch)]);
            }
        }
        let distinct: BTreeSet<LinkId> = links.into_iter().collect();
        // Three machines of 8 ports and 8 PCIe switches, two of 8 and 3, four links each besides; 3 and 2 switches.
        assert_eq!(distinct.len(), 3 * (16 + 16 + 4) + 2 * (16 + 6 + 4) + 2 * 3 + 2 * 2);
        assert_eq!(distinct.last().map(|link| link.0 as usize + 1), Some(wiring.capacities().len()));
        assert_eq!(distinct.len(), wiring.capacities().len());
    }

    #[test]
    fn pairs_of_a_mesh_have_the_rate_of_their_links() {
        let cluster = cluster("p3.16xlarge", 1);
        let wiring = Wiring::new(&cluster);
        for (to, limit) in [(1, 22.5e9), (3, 45e9), (5, 10e9)] {
            agree(wiring.path(at(0, 0), at(0, to)).limit, limit);
        }
        agree(wiring.capacity(wiring.port_out(at(0, 0))), 6.0 * 22.5e9);
        assert_eq!(wiring.path(at(0, 0), at(0, 1)).links, [wiring.port_out(at(0, 0)), wiring.port_in(at(0, 1))]);
        assert!(wiring.path(at(0, 0), at(0, 5)).links.contains(&wiring.to_processor(at(0, 0))));
    }

    #[test]
    fn a_flow_climbs_as_far_as_it_must() {
        let mut cluster = cluster("p4d.24xlarge", 8);
        cluster.switches =
            vec![SwitchLevel { ports: 2, oversubscription: 2.0 }, SwitchLevel { ports: 2, oversubscription: 1.0 }];
        let wiring = Wiring::new(&cluster);
        let hops = |machine| wiring.path(at(0, 0), at(machine, 0)).links.len();
        assert_eq!([1, 2, 3, 4, 7].map(hops), [2, 4, 4, 6, 6]);
        let network = wiring.capacity(wiring.network_out(0));
        agree(wiring.capacity(wiring.switch_up(0, 3)), network);
        agree(wiring.capacity(wiring.switch_up(1, 1)), 2.0 * network);
    }

    #[test]
    fn encryption_slows_the_network_and_nothing_inside() {
        let clear = cluster("p3.16xlarge", 2);
        let encrypted = Cluster { encrypted: true, ..clear.clone() };
        let slower: Vec<u32> = (0..)
            .zip(Wiring::new(&clear).capacities().iter().zip(Wiring::new(&encrypted).capacities()))
            .filter(|(_, (clear, encrypted))| encrypted < clear)
            .map(|(link, _)| link)
            .collect();
        let wiring = Wiring::new(&clear);
        let network = [0, 1].map(|machine| [wiring.network_out(machine).0, wiring.network_in(machine).0]).concat();
        assert_eq!(slower, network);
    }

    #[test]
    fn tcp_connections_to_one_peer_have_a_limit_together() {
        let mut cluster = cluster("p3.2xlarge", 2);
        if let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric {
            network.flow_limit = Some(Sourced::new(BytesPerSecond(1e6), "a limit that can be felt"));
        }
        agree(Wiring::new(&cluster).path(at(0, 0), at(1, 0)).limit, 16e6);
    }

    #[test]
    fn pods_have_one_connection_to_a_peer() {
        let mut cluster = cluster("g4dn.12xlarge", 2);
        let Fabric::Wired { network, .. } = &mut cluster.pools[0].fabric else { panic!("wired") };
        *network = catalog().network_over(network, Transport::TcpPods);
        agree(Wiring::new(&cluster).path(at(0, 0), at(1, 0)).limit, 0.625e9);
    }
}
