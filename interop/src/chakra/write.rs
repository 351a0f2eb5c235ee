//! From a simulated step to files.

use super::proto::{self, Attribute, Metadata, Node, Value};
use super::{CHAKRA_NODES_MAX, too_many};
use prost::Message as _;
use std::collections::BTreeMap;
use trainyard_plan::{
    Between, CopyDirection, Direction, Mesh, Message, Plan, Rank, RankTrace, StepTrace, TraceDetail, TracedPart,
    TracedTask, TracedWork,
};
use trainyard_units::Invalid;

/// The version of the format.
const VERSION: &str = "0.0.4";

/// A step as execution traces.
#[derive(Clone, Debug, PartialEq)]
pub struct ChakraFiles {
    /// Names and contents of the files, rank by rank, then that of the groups.
    pub files: Vec<(String, Vec<u8>)>,
    /// Number of nodes of all ranks together.
    pub nodes: usize,
    /// The granularity at which kernels are told apart.
    pub detail: TraceDetail,
}

/// Writes a simulated step as one file per rank, `step.RANK.et`, and `groups.json`, which names the ranks of each
/// process group. A rank that another one stands for gets the same nodes, with its own peers.
///
/// # Errors
///
/// Fails if there would be too many nodes even with one node per pass.
pub fn write(trace: &StepTrace, plan: &Plan) -> Result<ChakraFiles, Invalid> {
    let details = [TraceDetail::Operators, TraceDetail::Layers, TraceDetail::Passes];
    let fitting =
        details.into_iter().map(|detail| trace.clone().coarser(detail)).find(|trace| count(trace) <= CHAKRA_NODES_MAX);
    let Some(trace) = fitting else { return Err(too_many()) };
    let mut writing = Writing { trace: &trace, mesh: plan.mesh(), groups: BTreeMap::new() };
    let mut ranks: Vec<(Rank, Vec<u8>)> = Vec::new();
    for traced in &trace.ranks {
        for rank in &traced.stands_for {
            ranks.push((*rank, writing.rank(traced, *rank)));
        }
    }
    ranks.sort_by_key(|(rank, _)| *rank);
    let mut files: Vec<(String, Vec<u8>)> =
        ranks.into_iter().map(|(rank, content)| (format!("step.{}.et", rank.0), content)).collect();
    let groups: serde_json::Map<String, serde_json::Value> = writing
        .groups
        .iter()
        .map(|(members, name)| (name.to_string(), members.iter().map(|rank| rank.0).collect()))
        .collect();
    let text = serde_json::to_string_pretty(&groups).expect("lists of numbers can be written");
    files.push(("groups.json".into(), format!("{text}\n").into_bytes()));
    Ok(ChakraFiles { files, nodes: count(&trace), detail: trace.detail })
}

fn count(trace: &StepTrace) -> usize {
    let of = |rank: &RankTrace| rank.tasks.iter().map(|task| trace.parts(task).len()).sum::<usize>();
    trace.ranks.iter().map(|rank| of(rank).saturating_mul(rank.stands_for.len())).sum()
}

struct Writing<'a> {
    trace: &'a StepTrace,
    mesh: Mesh,
    /// The ranks of each process group, with the number that is its name.
    groups: BTreeMap<Vec<Rank>, usize>,
}

impl Writing<'_> {
    /// Returns the file of a rank that `traced` stands for.
    fn rank(&mut self, traced: &RankTrace, rank: Rank) -> Vec<u8> {
        let about = Attribute::new("schema", Value::Text(format!("trainyard, chakra {VERSION}")));
        let metadata = Metadata { version: VERSION.into(), attr: vec![about] };
        let mut file = metadata.encode_length_delimited_to_vec();
        let mut id = 0;
        let mut ends: Vec<u64> = Vec::with_capacity(traced.tasks.len());
        for task in &traced.tasks {
            let mut before: Vec<u64> = task.after.iter().map(|place| ends[*place as usize]).collect();
            let whole = task.end.since(task.start).nanoseconds() as f64;
            let mut start = task.start.nanoseconds() as f64;
            for part in self.trace.parts(task) {
                id += 1;
                let node = self.node((id, rank), task, part, (start, whole * part.share), before);
                node.encode_length_delimited(&mut file).expect("a buffer that grows has room");
                start += whole * part.share;
                before = vec![id];
            }
            ends.push(id);
        }
        file
    }

    /// Returns the node of a part of a task, from its start and duration in nanoseconds.
    fn node(
        &mut self,
        (id, rank): (u64, Rank),
        task: &TracedTask,
        part: &TracedPart,
        (start, length): (f64, f64),
        data: Vec<u64>,
    ) -> Node {
        let mut node = Node { id, data, start_micros: (start / 1e3).round() as u64, ..Node::default() };
        let timed = [Attribute::new("runtime_ns", Value::Double(length))];
        let int = |name: &str, value: f64| Attribute::new(name, Value::Int64(value as i64));
        let host = matches!(part.what, TracedWork::Host);
        node.attr.push(Attribute::new("is_cpu_op", Value::Bool(host)));
        match &part.what {
            TracedWork::Kernels(kernels) => {
                let layer = kernels.layer.as_ref().map(|(index, name)| format!(", layer {index} {name}"));
                let way = match kernels.direction {
                    Direction::Forward => " forward",
                    Direction::Again => " recomputed",
                    Direction::Backward => " backward",
                    Direction::Neither => "",
                };
                node.name = format!("{}{way}{}: {}", kernels.operator, layer.unwrap_or_default(), task.activity);
                node.kind = proto::COMPUTE;
                node.attr.extend([int("num_ops", kernels.flops), int("tensor_size", kernels.bytes)]);
            }
            TracedWork::Host => (node.name, node.kind) = (task.activity.to_string(), proto::COMPUTE),
            TracedWork::Copy { way, bytes } => {
                node.name = task.activity.to_string();
                node.kind = if *way == CopyDirection::DeviceToHost { proto::MEMORY_STORE } else { proto::MEMORY_LOAD };
                node.attr.push(int("tensor_size", bytes.as_f64()));
            }
            TracedWork::Message(message) => {
                self.message(&mut node, rank, task, *message);
                return node;
            }
        }
        node.duration_micros = (length / 1e3).round() as u64;
        node.attr.extend(timed);
        node
    }

    fn message(&mut self, node: &mut Node, rank: Rank, task: &TracedTask, message: Message) {
        let members = message.between.members(self.mesh, rank);
        let int = |name: &str, value: i64| Attribute::new(name, Value::Int64(value));
        let elements = message.elements(members.len() as u64).map_or(0, |(put_in, _)| put_in);
        let size = elements.saturating_mul(message.element).cast_signed();
        let Some(kind) = message.kind.chakra_type() else {
            let of = |place: usize| members.get(place).map_or(0, |rank| i64::from(rank.0));
            node.kind = if task.receives { proto::RECEIVE } else { proto::SEND };
            node.name = format!("{}: {}", if task.receives { "receive" } else { "send" }, task.activity);
            node.attr.extend([int("comm_src", of(0)), int("comm_dst", of(1)), int("comm_size", size)]);
            node.attr.push(int("comm_tag", i64::from(task.meeting.unwrap_or(0))));
            return;
        };
        let next = self.groups.len() + 1;
        let mut group = members;
        if matches!(message.between, Between::Stages { .. }) {
            group.sort_unstable();
        }
        let name = *self.groups.entry(group).or_insert(next);
        node.kind = proto::COLLECTIVE;
        node.name = format!("{} of the {} group: {}", message.kind.name(), message.between.name(), task.activity);
        node.attr.extend([int("comm_type", kind), int("comm_size", size)]);
        node.attr.push(Attribute::new("pg_name", Value::Text(name.to_string())));
    }
}
