//! Execution graphs of any program, put in time on machines of the catalog.
//!
//! Nodes that were measured keep their time. Others are as fast as the device's arithmetic and memory let them be.
//! Messages ask for the links of the cluster and share them, as those of a plan do. The kernels of a rank run one after
//! another, in the order of its file.

use crate::cost::{COPY_LATENCY, DeviceCosts, Operation, Phase, operation};
use crate::engine::{CommProgram, Node, Program, Stretch, run};
use crate::machine::Machine;
use crate::network::Demand;
use crate::wiring::Wiring;
use std::collections::BTreeMap;
use trainyard_hardware_profiles::{DevicePosition, Gpu, Rate};
use trainyard_plan::{Collective, Collectives, GraphNode, GraphWork, RankGraph};
use trainyard_units::{Bytes, Instant, Invalid, Seconds, Span};

/// The longest time of all nodes together, which keeps instants within 64 bits: three years.
const TOTAL_MAX: Seconds = Seconds(1e8);

/// The machines that a replay knows the times and the links of.
const KNOWN: &str = "one of GPUs and links that are known";

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// From the first start to the last end.
    pub step_time: Seconds,
    /// Kernels of the rank that computes longest.
    pub compute: Seconds,
    /// Time that communication adds: the step time less that with links that take no time.
    pub exposed_communication: Seconds,
    /// Nodes of all ranks.
    pub nodes: usize,
    /// Nodes that compute or copy without a measured time.
    pub estimated: usize,
    /// Messages among ranks, each counted once.
    pub messages: usize,
}

/// One step of what `ranks` do on `machine`, whose ranks fill one machine after another. `groups` are the ranks of the
/// groups that collectives name.
///
/// # Errors
///
/// When there are too few devices, or ranks do not do together what one of them asks for.
pub fn replay(ranks: &[RankGraph], groups: &BTreeMap<String, Vec<u32>>, machine: &Machine) -> Result<Replay, Invalid> {
    let count = ranks.len() as u32;
    let devices = machine.cluster.devices();
    if count > devices {
        let have = format!("the machines have {devices} device{}", if devices == 1 { "" } else { "s" });
        return Err(Invalid::breaks("ranks", count, have).with_hint("--instances N names more machines"));
    }
    let gpu = machine
        .cluster
        .first()
        .device
        .gpu()
        .ok_or_else(|| Invalid::value("machine", format!("`{}`", machine.cluster.instance), KNOWN))?;
    let mut building = Building {
        ranks,
        groups,
        machine,
        gpu,
        wiring: Wiring::new(&machine.cluster),
        program: Program { actors: count, ..Program::default() },
        nodes: Vec::new(),
        estimated: 0,
        meetings: Vec::new(),
    };
    building.all()?;
    building.program.links = building.wiring.capacities().to_vec();
    building.no_deadlock()?;
    building.not_too_long()?;
    let end = |program: &Program| run(program).iter().map(|ran| ran.end).max().unwrap_or(Instant::START).seconds();
    let step_time = end(&building.program);
    let silent = building.silent();
    Ok(Replay {
        step_time,
        compute: building.longest(),
        exposed_communication: (step_time - end(&silent)).max(Seconds::ZERO),
        nodes: ranks.iter().map(|rank| rank.nodes.len()).sum(),
        estimated: building.estimated,
        messages: building.meetings.len(),
    })
}

/// The key on which ranks must agree to meet: the kind and the size of a collective of a group, or the ends of a
/// message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meeting {
    Collective { members: Vec<u32>, kind: Collective, bytes: Bytes },
    Message { from: u32, to: u32, tag: i64 },
}

struct Building<'a> {
    ranks: &'a [RankGraph],
    groups: &'a BTreeMap<String, Vec<u32>>,
    machine: &'a Machine,
    gpu: &'a Gpu,
    wiring: Wiring<'a>,
    program: Program,
    /// Per rank and node, the node of the program.
    nodes: Vec<Vec<u32>>,
    estimated: usize,
    /// Nodes of the program in which ranks meet.
    meetings: Vec<u32>,
}

/// A meeting that is open: its node of the program, who came, and who began it.
struct Open {
    node: u32,
    came: u32,
    wanted: u32,
    rank: u32,
    place: usize,
}

impl Building<'_> {
    fn all(&mut self) -> Result<(), Invalid> {
        // The same meeting may be held several times: each rank's third is everybody's third.
        let mut open: BTreeMap<(Meeting, u32), Open> = BTreeMap::new();
        for (rank, graph) in (0..).zip(self.ranks) {
            let mut held: BTreeMap<Meeting, u32> = BTreeMap::new();
            let mut receives: BTreeMap<Meeting, u32> = BTreeMap::new();
            let mut nodes = Vec::with_capacity(graph.nodes.len());
            for (place, node) in graph.nodes.iter().enumerate() {
                let index = match self.meeting(rank, node)? {
                    None => self.alone(rank, node),
                    Some(meeting) => {
                        let receiving = matches!(node.work, GraphWork::Receive { .. });
                        let turns = if receiving { &mut receives } else { &mut held };
                        let turn = turns.entry(meeting.clone()).or_default();
                        let key = (meeting, *turn);
                        *turn += 1;
                        self.meet(key, (rank, place), node, &mut open)
                    }
                };
                nodes.push(index);
            }
            self.nodes.push(nodes);
        }
        if let Some(((_, turn), missed)) = open.iter().find(|(_, open)| open.came < open.wanted) {
            let node = &self.ranks[missed.rank as usize].nodes[missed.place];
            let problem = format!("{} of {} ranks do it for the {}. time", missed.came, missed.wanted, turn + 1);
            return Err(unmatched(missed.rank, node, problem));
        }
        self.edges();
        Ok(())
    }

    /// Whom a node meets, if anybody.
    fn meeting(&self, rank: u32, node: &GraphNode) -> Result<Option<Meeting>, Invalid> {
        let known = |other: u32| match (other as usize) < self.ranks.len() {
            true if other == rank => Err(unmatched(rank, node, "it sends to itself".into())),
            true => Ok(other),
            false => Err(unmatched(rank, node, format!("there is no rank {other}"))),
        };
        Ok(match &node.work {
            GraphWork::Nothing | GraphWork::Compute { .. } | GraphWork::Copy { .. } => None,
            GraphWork::Send { peer, tag, .. } => Some(Meeting::Message { from: rank, to: known(*peer)?, tag: *tag }),
            GraphWork::Receive { peer, tag, .. } => Some(Meeting::Message { from: known(*peer)?, to: rank, tag: *tag }),
            GraphWork::Collective { kind, bytes, group } => {
                let members = self.members(rank, node, group.as_deref())?;
                (members.len() > 1).then_some(Meeting::Collective { members, kind: *kind, bytes: *bytes })
            }
        })
    }

    fn members(&self, rank: u32, node: &GraphNode, group: Option<&str>) -> Result<Vec<u32>, Invalid> {
        let Some(name) = group else { return Ok((0..self.ranks.len() as u32).collect()) };
        let members =
            self.groups.get(name).ok_or_else(|| unmatched(rank, node, format!("no group is called `{name}`")))?;
        let mut sorted = members.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let fits = sorted.len() == members.len() && sorted.iter().all(|member| (*member as usize) < self.ranks.len());
        if !fits || !members.contains(&rank) {
            return Err(unmatched(rank, node, format!("group `{name}` is {members:?}")));
        }
        Ok(members.clone())
    }

    /// The node in which ranks meet, which the first of them makes.
    fn meet(
        &mut self,
        key: (Meeting, u32),
        (rank, place): (u32, usize),
        node: &GraphNode,
        open: &mut BTreeMap<(Meeting, u32), Open>,
    ) -> u32 {
        if let Some(open) = open.get_mut(&key) {
            open.came += 1;
            return open.node;
        }
        let at = |rank: u32| self.machine.cluster.position(rank);
        let (operation, wanted) = match &key.0 {
            Meeting::Message { from, to, .. } => {
                let (GraphWork::Send { bytes, .. } | GraphWork::Receive { bytes, .. }) = node.work else {
                    unreachable!("only messages have two ends")
                };
                (self.asks(Collective::Transfer, &[at(*from), at(*to)], bytes), 2)
            }
            Meeting::Collective { members, kind, bytes } => {
                let positions: Vec<DevicePosition> = members.iter().map(|member| at(*member)).collect();
                let count = members.len() as u64;
                // What each puts in, as the whole that a collective counts.
                let whole = if *kind == Collective::AllGather { bytes.0.saturating_mul(count) } else { bytes.0 };
                (self.asks(*kind, &positions, Bytes(whole)), count as u32)
            }
        };
        let index = self.operate(&operation);
        self.meetings.push(index);
        open.insert(key, Open { node: index, came: 1, wanted, rank, place });
        index
    }

    fn asks(&self, collective: Collective, members: &[DevicePosition], bytes: Bytes) -> Operation {
        operation(&self.wiring, collective, Collectives::Nccl, members, bytes)
    }

    fn operate(&mut self, operation: &Operation) -> u32 {
        let stretches = operation.phases.iter().map(|phase| Stretch {
            latency: Span::from_seconds(phase.latency),
            volume: phase.volume,
            demand: Demand { limit: phase.limit, uses: phase.uses.clone() },
        });
        let stretches = stretches.collect();
        self.program.operations.push(CommProgram { stretches, slows: Vec::new() });
        self.program.nodes.push(Node::Operation(self.program.operations.len() as u32 - 1));
        self.program.nodes.len() as u32 - 1
    }

    /// Adds a node of one rank alone.
    fn alone(&mut self, rank: u32, node: &GraphNode) -> u32 {
        match node.work {
            GraphWork::Compute { time, flops, bytes, on_host: false } => {
                self.estimated += usize::from(time.is_none());
                let span = Span::from_seconds(time.unwrap_or_else(|| self.roofline(flops, bytes)));
                self.program.nodes.push(Node::Kernel { actor: rank, span });
                self.program.nodes.len() as u32 - 1
            }
            GraphWork::Compute { time, .. } => {
                self.operate(&Operation { phases: vec![Phase::lasting(time.unwrap_or(Seconds::ZERO))] })
            }
            GraphWork::Copy { time, bytes } => {
                self.estimated += usize::from(time.is_none());
                let streamed = COPY_LATENCY + bytes / self.gpu.host_bandwidth.value;
                self.operate(&Operation { phases: vec![Phase::lasting(time.unwrap_or(streamed))] })
            }
            _ => self.operate(&Operation::default()),
        }
    }

    /// The longer of arithmetic in half precision and of memory, at what large kernels reach.
    fn roofline(&self, flops: f64, bytes: f64) -> Seconds {
        let rate = if self.gpu.has(Rate::Bf16) { Rate::Bf16 } else { Rate::Fp16 };
        let arithmetic = flops / (self.gpu.peak(rate).0 * self.gpu.gemm_fraction(rate));
        let memory = bytes / DeviceCosts::memory_rate(self.gpu);
        Seconds(arithmetic.max(memory).min(TOTAL_MAX.0))
    }

    /// Nodes wait for those before them, and kernels for the one before on their rank.
    fn edges(&mut self) {
        let mut edges = Vec::new();
        for (graph, nodes) in self.ranks.iter().zip(&self.nodes) {
            let mut last: Option<u32> = None;
            for (node, index) in graph.nodes.iter().zip(nodes) {
                edges.extend(node.after.iter().map(|before| (nodes[*before as usize], *index)));
                if matches!(self.program.nodes[*index as usize], Node::Kernel { .. }) {
                    edges.extend(last.replace(*index).map(|before| (before, *index)));
                }
            }
        }
        edges.sort_unstable();
        edges.dedup();
        self.program.edges = edges;
    }

    /// Refuses nodes that can never start: ranks could wait for each other.
    fn no_deadlock(&self) -> Result<(), Invalid> {
        let count = self.program.nodes.len();
        let mut missing = vec![0u32; count];
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (before, after) in &self.program.edges {
            missing[*after as usize] += 1;
            readers[*before as usize].push(*after);
        }
        let mut ready: Vec<u32> = (0..count as u32).filter(|node| missing[*node as usize] == 0).collect();
        let mut done = 0;
        while let Some(node) = ready.pop() {
            done += 1;
            for reader in &readers[node as usize] {
                missing[*reader as usize] -= 1;
                if missing[*reader as usize] == 0 {
                    ready.push(*reader);
                }
            }
        }
        if done == count {
            return Ok(());
        }
        let stuck = |index: &u32| missing[*index as usize] > 0;
        let all = (0..).zip(self.ranks.iter().zip(&self.nodes));
        let mut first = all.flat_map(|(rank, (graph, nodes))| {
            graph.nodes.iter().zip(nodes).map(move |(node, index)| (rank, node, *index))
        });
        let (rank, node, _) =
            first.find(|(_, _, index)| stuck(index)).expect("a node that never starts is some rank's");
        let problem =
            format!("ranks wait for each other: {} nodes never start, of which this is the first", count - done);
        let hint = "ranks that do several things together must begin them in the same order";
        Err(Invalid::inside(place(rank, node), problem).with_hint(hint))
    }

    fn not_too_long(&self) -> Result<(), Invalid> {
        let capacities = self.wiring.capacities();
        let moving = |stretch: &Stretch| {
            let uses = stretch.demand.uses.iter().map(|(link, flows)| capacities[link.0 as usize] / flows);
            stretch.latency.seconds().0 + stretch.volume / uses.fold(stretch.demand.limit, f64::min)
        };
        let kernels = self.program.nodes.iter().map(|node| match node {
            Node::Kernel { span, .. } => span.seconds().0,
            Node::Operation(_) => 0.0,
        });
        let operations = self.program.operations.iter().flat_map(|operation| &operation.stretches).map(moving);
        let seconds: f64 = kernels.sum::<f64>() + operations.sum::<f64>();
        if seconds <= TOTAL_MAX.0 {
            return Ok(());
        }
        Err(Invalid::breaks("nodes", format!("{seconds:.0} s in all"), "that is more than three years"))
    }

    /// The same if messages took no time.
    fn silent(&self) -> Program {
        let mut program = self.program.clone();
        for index in &self.meetings {
            if let Node::Operation(operation) = program.nodes[*index as usize] {
                program.operations[operation as usize].stretches.clear();
            }
        }
        program
    }

    /// Kernels of the rank that computes longest.
    fn longest(&self) -> Seconds {
        let mut busy = vec![Span::ZERO; self.ranks.len()];
        for node in &self.program.nodes {
            if let Node::Kernel { actor, span } = node {
                let sum = &mut busy[*actor as usize];
                *sum = *sum + *span;
            }
        }
        busy.into_iter().max().unwrap_or_default().seconds()
    }
}

fn unmatched(rank: u32, node: &GraphNode, problem: String) -> Invalid {
    let hint = "every rank of a group, and both ends of a message, need the same nodes in the same order";
    Invalid::inside(place(rank, node), problem).with_hint(hint)
}

fn place(rank: u32, node: &GraphNode) -> String {
    format!("rank {rank}, node {} ({})", node.id, node.name)
}
