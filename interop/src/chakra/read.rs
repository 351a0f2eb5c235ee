//! From files to graphs.

use super::proto::{self, Metadata, Node};
use super::{CHAKRA_NODES_MAX, too_many};
use prost::Message;
use prost::bytes::Buf;
use prost::encoding::decode_varint;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_plan::{Collective, GraphNode, GraphWork, RankGraph};
use trainyard_units::{Bytes, Invalid, Seconds};

/// The largest size of the message of one node, in bytes.
const MESSAGE_MAX: usize = 1 << 20;

/// The largest number of edges of a rank.
const EDGES_MAX: usize = 8 * CHAKRA_NODES_MAX;

/// The largest buffer in bytes: more than a machine of today could hold.
const BUFFER_MAX: u64 = 1 << 50;

/// The longest duration of a node: a day.
const TIME_MAX: Seconds = Seconds(86_400.0);

/// Reads the graph of one rank from its file.
///
/// # Errors
///
/// Fails if the bytes are no trace, or if the nodes do not fit together.
pub fn read(file: &[u8]) -> Result<RankGraph, Invalid> {
    let mut rest = file;
    let mut nodes: Vec<Node> = Vec::new();
    let mut edges = 0;
    let mut first = true;
    while rest.has_remaining() {
        let place = file.len() - rest.len();
        let broken = |problem: String| broken(place, &problem);
        let length = decode_varint(&mut rest).map_err(|error| broken(error.to_string()))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > rest.len() {
            return Err(broken(format!("{length} bytes are announced where {} are left", rest.len())));
        }
        if length > MESSAGE_MAX {
            return Err(broken(format!("a message of {length} bytes is longer than {MESSAGE_MAX}")));
        }
        let (message, behind) = rest.split_at(length);
        rest = behind;
        if std::mem::take(&mut first) {
            Metadata::decode(message).map_err(|error| broken(error.to_string()))?;
            continue;
        }
        let node = Node::decode(message).map_err(|error| broken(error.to_string()))?;
        edges += node.control.len() + node.data.len();
        if nodes.len() >= CHAKRA_NODES_MAX || edges > EDGES_MAX {
            return Err(too_many());
        }
        nodes.push(node);
    }
    if nodes.is_empty() {
        return Err(broken(file.len(), "there are no nodes"));
    }
    ordered(&nodes)
}

/// Reads the ranks of each process group from the JSON file that ASTRA-sim uses for them.
///
/// # Errors
///
/// Fails if the text is no object of lists of ranks.
pub fn groups(text: &str) -> Result<BTreeMap<String, Vec<u32>>, Invalid> {
    serde_json::from_str(text).map_err(|error| {
        Invalid::inside("groups", format!("they are no object of lists of ranks: {error}"))
            .with_hint("write {\"1\": [0, 1], \"2\": [2, 3]}, as ASTRA-sim reads it")
    })
}

/// Sorts the nodes in an order in which they could run: of those that are ready, the first of the file comes next.
fn ordered(nodes: &[Node]) -> Result<RankGraph, Invalid> {
    let mut places = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.insert(node.id, place).is_some() {
            return Err(wrong(node, "another node has the same number"));
        }
    }
    let mut waits: Vec<Vec<usize>> = Vec::with_capacity(nodes.len());
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        let mut before = Vec::new();
        for id in node.control.iter().chain(&node.data) {
            let known =
                places.get(id).ok_or_else(|| wrong(node, format!("it waits for node {id}, which there is not")))?;
            before.push(*known);
        }
        before.sort_unstable();
        before.dedup();
        for known in &before {
            readers[*known].push(place);
        }
        waits.push(before);
    }
    let mut missing: Vec<usize> = waits.iter().map(Vec::len).collect();
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|place| missing[*place] == 0).collect();
    let mut new_places: Vec<Option<u32>> = vec![None; nodes.len()];
    let mut graph = RankGraph::default();
    while let Some(place) = ready.pop_first() {
        let node = &nodes[place];
        new_places[place] = Some(graph.nodes.len() as u32);
        let mut after: Vec<u32> = waits[place].iter().filter_map(|before| new_places[*before]).collect();
        after.sort_unstable();
        graph.nodes.push(GraphNode { id: node.id, name: node.name.clone(), work: work(node)?, after });
        for reader in &readers[place] {
            missing[*reader] -= 1;
            if missing[*reader] == 0 {
                ready.insert(*reader);
            }
        }
    }
    match new_places.iter().position(Option::is_none) {
        None => Ok(graph),
        Some(place) => Err(wrong(&nodes[place], "it waits for itself, by way of others")),
    }
}

fn broken(place: usize, problem: &str) -> Invalid {
    Invalid::inside(format!("byte {place}"), format!("it is no execution trace, or cut short: {problem}"))
        .with_hint("a file holds GlobalMetadata, then nodes, each behind its length (et_def.proto)")
}

fn wrong(node: &Node, problem: impl Into<String>) -> Invalid {
    Invalid::inside(format!("node {} ({})", node.id, node.name), problem.into())
}

fn work(node: &Node) -> Result<GraphWork, Invalid> {
    let needs = |name: &str| wrong(node, format!("it needs the attribute `{name}`"));
    let size = |name: &str| -> Result<Bytes, Invalid> {
        let value = node.int(name).ok_or_else(|| needs(name))?;
        match u64::try_from(value) {
            Ok(bytes) if bytes <= BUFFER_MAX => Ok(Bytes(bytes)),
            _ => Err(wrong(node, format!("`{name}` is {value}, but it must be from 0 to {BUFFER_MAX}"))),
        }
    };
    let peer = |name: &str| -> Result<u32, Invalid> {
        let value = node.int(name).ok_or_else(|| needs(name))?;
        u32::try_from(value).map_err(|_| wrong(node, format!("`{name}` is {value}, which is no rank")))
    };
    let tag = node.int("comm_tag").unwrap_or(0);
    Ok(match node.kind {
        proto::METADATA => GraphWork::Nothing,
        proto::COMPUTE => {
            let number = |name| node.number(name).unwrap_or(0.0);
            let (flops, bytes) = (number("num_ops"), number("tensor_size"));
            GraphWork::Compute { time: time(node)?, flops, bytes, on_host: node.is("is_cpu_op") }
        }
        proto::MEMORY_LOAD | proto::MEMORY_STORE => GraphWork::Copy { time: time(node)?, bytes: size("tensor_size")? },
        proto::SEND => GraphWork::Send { peer: peer("comm_dst")?, bytes: size("comm_size")?, tag },
        proto::RECEIVE => GraphWork::Receive { peer: peer("comm_src")?, bytes: size("comm_size")?, tag },
        proto::COLLECTIVE => {
            let kind = match node.int("comm_type").ok_or_else(|| needs("comm_type"))? {
                // A barrier is an all-reduce of one value.
                proto::BARRIER => Collective::AllReduce,
                // The receivers of a broadcast do the same as those of an all-gather.
                proto::BROADCAST => Collective::AllGather,
                proto::REDUCE_SCATTER_BLOCK => Collective::ReduceScatter,
                other => Collective::ALL
                    .into_iter()
                    .find(|collective| collective.chakra_type() == Some(other))
                    .ok_or_else(|| wrong(node, format!("collectives of type {other} are not known")))?,
            };
            let barrier = node.int("comm_type") == Some(proto::BARRIER);
            let bytes = if barrier { Bytes(4) } else { size("comm_size")? };
            GraphWork::Collective { kind, bytes, group: node.text("pg_name") }
        }
        other => return Err(wrong(node, format!("nodes of type {other} are not known"))),
    })
}

/// Returns the duration of a node; `None` where it was not recorded.
fn time(node: &Node) -> Result<Option<Seconds>, Invalid> {
    let seconds = match node.number("runtime_ns") {
        Some(nanoseconds) => nanoseconds * 1e-9,
        None => node.duration_micros as f64 * 1e-6,
    };
    if seconds > TIME_MAX.0 {
        return Err(wrong(node, format!("it takes {seconds} s, more than a day")));
    }
    Ok((seconds > 0.0 || node.number("runtime_ns").is_some()).then_some(Seconds(seconds)))
}
