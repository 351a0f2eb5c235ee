//! Where the members of a collective stand, and the links that its rings and messages go through.

use super::operation::Phase;
use super::protocol::{Hop, Latencies, Protocol, Way};
use crate::network::LinkId;
use crate::wiring::{Path, Wiring, links_to, sustained};
use trainyard_hardware_profiles::{DevicePosition, Interconnect, Transport};
use trainyard_units::Seconds;

/// The members of a collective, machine by machine: the order in which a ring visits each machine once.
pub(super) struct Group<'a> {
    wiring: &'a Wiring<'a>,
    /// In ascending order.
    machines: Vec<Here>,
    latencies: Latencies,
}

/// The members on one machine, and how rings go through them.
struct Here {
    machine: u32,
    /// In ascending order, at least one.
    members: Vec<DevicePosition>,
    hop: Hop,
    /// The limit of a ring besides that of its links, in bytes per second.
    limit: f64,
    through_ports: bool,
    through_uplinks: bool,
}

/// Links of flows that all run at one rate.
pub(super) struct Route {
    limit: f64,
    uses: Vec<(LinkId, f64)>,
    /// Seconds in which a byte gets from machine to machine by itself if all wait for the slowest of them; zero inside a
    /// machine.
    between: f64,
    /// Set if they do.
    waits: bool,
}

/// Members in a circle, each of which sends to the next.
pub(super) struct Ring {
    /// Latencies of a round.
    pub(super) round: Round,
    /// Links that carry it.
    pub(super) route: Route,
}

/// The steps of one whole round of a ring.
pub(super) struct Round {
    pub(super) members: u32,
    /// Latencies of their messages.
    pub(super) latencies: Latencies,
    /// Of a kind each.
    steps: Vec<(Hop, u32)>,
}

impl Round {
    /// Its microseconds.
    pub(super) fn time(&self, protocol: &Protocol) -> f64 {
        self.steps.iter().map(|(hop, steps)| self.latencies.ring_hop(protocol, *hop) * f64::from(*steps)).sum()
    }
}

impl Route {
    fn new() -> Self {
        Self { limit: f64::INFINITY, uses: Vec::new(), between: 0.0, waits: false }
    }

    /// One flow along a path.
    pub(super) fn of_path(path: &Path) -> Self {
        let mut route = Self::new();
        route.add_path(path);
        route
    }

    fn add_path(&mut self, path: &Path) {
        self.limited(path.limit);
        path.links.iter().for_each(|link| self.uses(*link, 1.0));
    }

    fn limited(&mut self, limit: f64) {
        self.limit = self.limit.min(limit);
    }

    fn uses(&mut self, link: LinkId, flows: f64) {
        if flows > 0.0 {
            self.uses.push((link, flows));
        }
    }

    /// The same where all machines wait for the slowest of them, as they do in gathers and scatters.
    pub(super) fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// In ascending order of the links, each once.
    fn sorted(mut self) -> Self {
        self.uses.sort_unstable_by_key(|(link, _)| *link);
        self.uses.dedup_by(|(link, flows), (kept, sum)| {
            let same = link == kept;
            if same {
                *sum += *flows;
            }
            same
        });
        self
    }

    /// The phase that is over first, of several ways, while nothing else is under way.
    pub(super) fn fastest(self, capacities: &[f64], ways: impl IntoIterator<Item = Way>) -> Phase {
        let of_links = self.uses.iter().map(|(link, flows)| flows / capacities[link.0 as usize]);
        let per_byte = of_links.fold(1.0 / self.limit, f64::max);
        // While machines wait for the slowest of them, links carry nothing else.
        let stretch = if self.waits { (self.between / per_byte).max(1.0) } else { 1.0 };
        let way = ways
            .into_iter()
            .map(|way| way.stretched(stretch))
            .min_by(|a, b| a.time(per_byte).total_cmp(&b.time(per_byte)))
            .expect("there is a protocol for every transport");
        Phase { latency: Seconds(way.latency(per_byte)), volume: way.volume, limit: self.limit, uses: self.uses }
    }
}

impl<'a> Group<'a> {
    /// The members of a collective, in any order.
    pub(super) fn new(wiring: &'a Wiring<'a>, members: &[DevicePosition]) -> Self {
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]), "a device stands twice in {sorted:?}");
        let machines: Vec<Here> =
            sorted.chunk_by(|a, b| a.instance == b.instance).map(|here| Here::new(wiring, here)).collect();
        let nvlinks = machines.iter().all(|here| here.members.len() == 1 || here.hop == Hop::Nvlink);
        let networks = machines.iter().map(|here| wiring.network(here.machine));
        let latencies = Latencies::of(networks, machines.len() > 1, nvlinks);
        Self { wiring, machines, latencies }
    }

    /// Latencies of the messages of its members.
    pub(super) fn latencies(&self) -> Latencies {
        self.latencies
    }

    pub(super) fn members(&self) -> u32 {
        self.machines.iter().map(Here::count).sum()
    }

    /// Machines with members.
    pub(super) fn machines(&self) -> u32 {
        self.machines.len() as u32
    }

    /// Members on the machine that has most.
    pub(super) fn most(&self) -> u32 {
        self.machines.iter().map(Here::count).fold(0, u32::max)
    }

    /// Members on the machine that has fewest.
    pub(super) fn fewest(&self) -> u32 {
        self.machines.iter().map(Here::count).fold(u32::MAX, u32::min)
    }

    /// Tells whether all its machines have a network of this kind.
    pub(super) fn all_over(&self, transport: Transport) -> bool {
        self.machines.iter().all(|here| self.wiring.network(here.machine).transport == transport)
    }

    /// Part of the nominal rate that rings of its members sustain on the worst of its networks.
    pub(super) fn sustained(&self) -> f64 {
        let of_machine = |here: &Here| sustained(self.wiring.network(here.machine), here.count());
        self.machines.iter().map(of_machine).fold(1.0, f64::min)
    }

    /// Tells whether some messages leave a machine.
    pub(super) fn crosses(&self) -> bool {
        self.machines.len() > 1
    }

    /// The kind of the slowest step between two members: over the network if there is one.
    pub(super) fn hop(&self) -> Hop {
        if self.crosses() { Hop::Network } else { self.hop_inside() }
    }

    /// The slowest kind of step between two members on one machine.
    pub(super) fn hop_inside(&self) -> Hop {
        if self.with_several().any(|here| here.hop == Hop::Pcie) { Hop::Pcie } else { Hop::Nvlink }
    }

    /// Machines with more than one member.
    fn with_several(&self) -> impl Iterator<Item = &Here> {
        self.machines.iter().filter(|here| here.members.len() > 1)
    }

    /// One ring through all members.
    ///
    /// The library runs several that enter and leave a machine at different members, so each is counted as sending to
    /// and receiving from others of its machine.
    pub(super) fn ring(&self) -> Ring {
        let mut route = Route::new();
        let mut steps: Vec<(Hop, u32)> = Vec::new();
        for here in self.with_several() {
            self.add_inside(&mut route, here, 1.0);
            let inside = here.count() - u32::from(self.crosses());
            match steps.iter_mut().find(|(kind, _)| *kind == here.hop) {
                Some((_, steps)) => *steps += inside,
                None => steps.push((here.hop, inside)),
            }
        }
        if self.crosses() {
            self.add_across(&mut route, |_| 1.0);
            steps.push((Hop::Network, self.machines()));
        }
        let round = Round { members: self.members(), latencies: self.latencies, steps };
        Ring { round, route: route.sorted() }
    }

    /// Two trees, each of which carries half of a buffer up or down between machines, and both ways through the members
    /// of each machine.
    pub(super) fn halved_trees(&self) -> Route {
        let mut route = Route::new();
        for here in self.with_several() {
            self.add_inside(&mut route, here, 2.0);
        }
        self.add_across(&mut route, |_| 1.0);
        route.sorted()
    }

    /// A ring on each machine that has several members, all at once; the steps are those of the largest.
    pub(super) fn rings_inside(&self) -> Ring {
        let mut route = Route::new();
        for here in self.with_several() {
            self.add_inside(&mut route, here, 1.0);
        }
        let members = self.most();
        let networks = self.machines.iter().map(|here| self.wiring.network(here.machine));
        let latencies = Latencies::of(networks, false, self.hop_inside() == Hop::Nvlink);
        let round = Round { members, latencies, steps: vec![(self.hop_inside(), members)] };
        Ring { round, route: route.sorted() }
    }

    /// `parts` rings from machine to machine at once.
    pub(super) fn rings_across(&self, parts: u32) -> Ring {
        let mut route = Route::new();
        self.add_across(&mut route, |_| f64::from(parts));
        let steps = vec![(Hop::Network, self.machines())];
        let round = Round { members: self.machines(), latencies: self.latencies, steps };
        Ring { round, route: route.sorted() }
    }

    /// `parts` flows out of each machine and into it, each from a member by way of main memory and back to it.
    ///
    /// Main memory is written by the member, read by the network, and the same on the way back.
    pub(super) fn through_hosts(&self, parts: u32) -> Route {
        const MEMORY_PASSES: f64 = 4.0;
        let mut route = Route::new();
        self.add_across(&mut route, |_| f64::from(parts));
        for here in &self.machines {
            for member in &here.members[..parts as usize] {
                route.uses(self.wiring.to_processor(*member), 1.0);
                route.uses(self.wiring.from_processor(*member), 1.0);
            }
            route.uses(self.wiring.host_memory(here.machine), MEMORY_PASSES * f64::from(parts));
        }
        route.sorted()
    }

    /// One flow from each member to each other.
    pub(super) fn every_pair(&self) -> Route {
        let mut route = Route::new();
        for here in &self.machines {
            let members = || here.members.iter();
            for (from, to) in members().flat_map(|from| members().map(move |to| (from, to))) {
                if from != to {
                    route.add_path(&self.wiring.path(*from, *to));
                }
            }
        }
        if self.machines.len() > 1 {
            let members = f64::from(self.members());
            self.add_across(&mut route, |below| below * (members - below));
        }
        route.sorted()
    }

    /// `flows` rings, each as many as the links allow, through members of one machine.
    fn add_inside(&self, route: &mut Route, here: &Here, flows: f64) {
        route.limited(here.limit / flows);
        if here.through_ports {
            for member in &here.members {
                route.uses(self.wiring.port_out(*member), flows);
                route.uses(self.wiring.port_in(*member), flows);
            }
        }
        if here.through_uplinks {
            for (from, to) in here.members.iter().zip(here.members.iter().cycle().skip(1)) {
                if self.wiring.pcie_switch(*from) != self.wiring.pcie_switch(*to) {
                    route.uses(self.wiring.to_processor(*from), flows);
                    route.uses(self.wiring.from_processor(*to), flows);
                }
            }
        }
    }

    /// By how much bytes take longer because all machines wait for the slowest of them.
    fn growth(&self, here: &Here) -> f64 {
        let growth = self.wiring.network(here.machine).messaging.growth.as_ref().map_or(0.0, |growth| growth.value);
        1.0 + growth * (f64::from(self.machines()) / 2.0).log2().max(0.0)
    }

    /// Flows out of each machine and into it, and as far up as they must: `flows` of the members below a link.
    fn add_across(&self, route: &mut Route, flows: impl Fn(f64) -> f64) {
        for here in &self.machines {
            let flows = flows(f64::from(here.count()));
            route.uses(self.wiring.network_out(here.machine), flows);
            route.uses(self.wiring.network_in(here.machine), flows);
            route.limited(self.wiring.connection_limit(here.machine));
            let alone = (flows / self.wiring.capacity(self.wiring.network_out(here.machine))).max(1.0 / route.limit);
            route.between = route.between.max(alone * self.growth(here));
        }
        for level in 0..self.wiring.levels() {
            let switch = |here: &Here| self.wiring.switch_of(level, here.machine);
            let switches = || self.machines.chunk_by(|a, b| switch(a) == switch(b));
            if switches().count() < 2 {
                break;
            }
            for machines in switches() {
                let flows = flows(machines.iter().map(|here| f64::from(here.count())).sum());
                route.uses(self.wiring.switch_up(level, switch(&machines[0])), flows);
                route.uses(self.wiring.switch_down(level, switch(&machines[0])), flows);
            }
        }
    }
}

impl Here {
    fn new(wiring: &Wiring<'_>, members: &[DevicePosition]) -> Self {
        let machine = members[0].instance;
        let (through_ports, through_uplinks, limit) = match wiring.interconnect(machine) {
            Interconnect::Nvswitch { .. } => (true, false, f64::INFINITY),
            Interconnect::Pcie { .. } => (true, true, f64::INFINITY),
            Interconnect::NvlinkMesh { link, fraction, pairs, pcie_bandwidth } => {
                match rings(wiring.interconnect(machine), &pairs.value, members) {
                    0 => (false, true, pcie_bandwidth.value.0),
                    links => (true, false, f64::from(links) * link.value.0 * fraction.value),
                }
            }
        };
        let hop = if through_uplinks { Hop::Pcie } else { Hop::Nvlink };
        Self { machine, members: members.to_vec(), hop, limit, through_ports, through_uplinks }
    }

    fn count(&self) -> u32 {
        self.members.len() as u32
    }
}

/// The fewest NVLinks that any of some GPUs of a mesh has to the others of them; none where NVLinks alone do not join
/// them all.
///
/// A GPU takes part in as many rings as that, halved, each used in both directions: the rate of that many links
/// (p3.16xlarge: 50, 100 and 150 GB/s for 2, 4 and 8).
fn rings(interconnect: &Interconnect, pairs: &[(u32, u32, u32)], members: &[DevicePosition]) -> u32 {
    let slots: Vec<u32> = members.iter().map(|member| member.slot).collect();
    if !interconnect.joins(&slots) {
        return 0;
    }
    let links = |slot: &u32| links_to(pairs, *slot, |other| slots.contains(&other));
    slots.iter().map(links).min().unwrap_or(0)
}
