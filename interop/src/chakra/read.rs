//! From files to graphs.

use super::proto::{self, Metadata, Node};
use super::{CHAKRA_NODES_MAX, too_many};
use prost::Message;
use prost::encoding::decode_varint;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read as _};
use trainyard_plan::{Collective, GraphNode, GraphWork, RankGraph};
use trainyard_units::{Bytes, Invalid, Seconds};

/// The largest size of the message of one node, in bytes.
const MESSAGE_MAX: u64 = 1 << 20;

/// The largest number of bytes of a length.
const LENGTH_MAX: usize = 10;

/// The longest names of a rank's nodes, all together, in bytes.
const NAMES_MAX: usize = 128 << 20;

/// The largest number of edges of a rank.
const EDGES_MAX: usize = 8 * CHAKRA_NODES_MAX;

/// The largest buffer in bytes: more than a machine of today could hold.
const BUFFER_MAX: u64 = 1 << 50;

/// The longest duration of a node: a day.
const TIME_MAX: Seconds = Seconds(86_400.0);

/// A node as it was read, and what it waits for.
struct Read {
    id: u64,
    name: String,
    work: GraphWork,
    waits: Vec<u64>,
}

/// Reads the graph of one rank from its file, node by node: of each only what is simulated is kept.
///
/// # Errors
///
/// Fails if the bytes are no trace, or if the nodes do not fit together.
pub fn read(file: impl std::io::Read) -> Result<RankGraph, Invalid> {
    let mut file = Counted { file: BufReader::new(file), at: 0 };
    let mut nodes: Vec<Read> = Vec::new();
    let (mut edges, mut names) = (0, 0);
    let mut first = true;
    while let Some(message) = file.message()? {
        let place = file.at;
        let broken = |error: prost::DecodeError| broken(place, &error.to_string());
        if std::mem::take(&mut first) {
            Metadata::decode(message.as_slice()).map_err(broken)?;
            continue;
        }
        let node = Node::decode(message.as_slice()).map_err(broken)?;
        let work = work(&node)?;
        let waits = [node.control, node.data].concat();
        edges += waits.len();
        names += node.name.len();
        if nodes.len() >= CHAKRA_NODES_MAX || edges > EDGES_MAX {
            return Err(too_many());
        }
        if names > NAMES_MAX {
            return Err(Invalid::inside("nodes", format!("their names have more than {NAMES_MAX} bytes"))
                .with_hint("names are only shown; shorter ones do"));
        }
        nodes.push(Read { id: node.id, name: node.name, work, waits });
    }
    if nodes.is_empty() {
        return Err(broken(file.at, "there are no nodes"));
    }
    ordered(nodes)
}

/// A file of messages, each behind its length.
struct Counted<R> {
    file: BufReader<R>,
    at: u64,
}

impl<R: std::io::Read> Counted<R> {
    /// Reads the next message; nothing at the end.
    fn message(&mut self) -> Result<Option<Vec<u8>>, Invalid> {
        let start = self.at;
        let broken = |problem: &dyn std::fmt::Display| broken(start, &problem.to_string());
        let mut length = Vec::new();
        loop {
            let byte = self.file.by_ref().bytes().next().transpose().map_err(|error| broken(&error))?;
            match byte {
                None if length.is_empty() => return Ok(None),
                None => return Err(broken(&"it ends inside a length")),
                Some(byte) => length.push(byte),
            }
            if byte < Some(0x80) || length.len() > LENGTH_MAX {
                break;
            }
        }
        self.at += length.len() as u64;
        let length = decode_varint(&mut length.as_slice()).map_err(|error| broken(&error))?;
        if length > MESSAGE_MAX {
            return Err(broken(&format!("a message of {length} bytes is longer than {MESSAGE_MAX}")));
        }
        let mut message = vec![0; length as usize];
        self.file
            .read_exact(&mut message)
            .map_err(|_| broken(&format!("{length} bytes are announced, and fewer are left")))?;
        self.at += length;
        Ok(Some(message))
    }
}

/// Reads the ranks of each process group from the JSON file that ASTRA-sim uses for them.
///
/// # Errors
///
/// Fails if the text is no object of lists of ranks.
pub fn groups(text: &str) -> Result<BTreeMap<String, Vec<u32>>, Invalid> {
    trainyard_documents::from_json(text).map_err(|error| {
        Invalid::inside("groups", format!("they are no object of lists of ranks: {error}"))
            .with_hint("write {\"1\": [0, 1], \"2\": [2, 3]}, as ASTRA-sim reads it")
    })
}

/// Sorts the nodes in an order in which they could run: of those that are ready, the first of the file comes next.
fn ordered(mut nodes: Vec<Read>) -> Result<RankGraph, Invalid> {
    let mut places = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.insert(node.id, place).is_some() {
            return Err(wrong(node.id, &node.name, "another node has the same number"));
        }
    }
    let mut waits: Vec<Vec<usize>> = Vec::with_capacity(nodes.len());
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter_mut().enumerate() {
        let mut before = Vec::new();
        for id in std::mem::take(&mut node.waits) {
            let unknown = || wrong(node.id, &node.name, format!("it waits for node {id}, which there is not"));
            before.push(*places.get(&id).ok_or_else(unknown)?);
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
        let node = &mut nodes[place];
        new_places[place] = Some(graph.nodes.len() as u32);
        let mut after: Vec<u32> = waits[place].iter().filter_map(|before| new_places[*before]).collect();
        after.sort_unstable();
        let work = std::mem::replace(&mut node.work, GraphWork::Nothing);
        graph.nodes.push(GraphNode { id: node.id, name: std::mem::take(&mut node.name), work, after });
        for reader in &readers[place] {
            missing[*reader] -= 1;
            if missing[*reader] == 0 {
                ready.insert(*reader);
            }
        }
    }
    match new_places.iter().position(Option::is_none) {
        None => Ok(graph),
        Some(place) => Err(wrong(nodes[place].id, &nodes[place].name, "it waits for itself, by way of others")),
    }
}

fn broken(place: u64, problem: &str) -> Invalid {
    Invalid::inside(format!("byte {place}"), format!("it is no execution trace, or cut short: {problem}"))
        .with_hint("a file holds GlobalMetadata, then nodes, each behind its length (et_def.proto)")
}

fn wrong(id: u64, name: &str, problem: impl Into<String>) -> Invalid {
    Invalid::inside(format!("node {id} ({name})"), problem.into())
        .with_hint("write the trace again with the tool that made it")
}

fn work(node: &Node) -> Result<GraphWork, Invalid> {
    let needs = |name: &str| wrong(node.id, &node.name, format!("it needs the attribute `{name}`"));
    let size = |name: &str| -> Result<Bytes, Invalid> {
        let value = node.int(name).ok_or_else(|| needs(name))?;
        match u64::try_from(value) {
            Ok(bytes) if bytes <= BUFFER_MAX => Ok(Bytes(bytes)),
            _ => Err(wrong(node.id, &node.name, format!("`{name}` is {value}, but it must be from 0 to {BUFFER_MAX}"))),
        }
    };
    let peer = |name: &str| -> Result<u32, Invalid> {
        let value = node.int(name).ok_or_else(|| needs(name))?;
        u32::try_from(value).map_err(|_| wrong(node.id, &node.name, format!("`{name}` is {value}, which is no rank")))
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
                    .ok_or_else(|| wrong(node.id, &node.name, format!("collectives of type {other} are not known")))?,
            };
            let barrier = node.int("comm_type") == Some(proto::BARRIER);
            let bytes = if barrier { Bytes(4) } else { size("comm_size")? };
            GraphWork::Collective { kind, bytes, group: node.text("pg_name") }
        }
        other => return Err(wrong(node.id, &node.name, format!("nodes of type {other} are not known"))),
    })
}

/// Returns the duration of a node; `None` where it was not recorded.
fn time(node: &Node) -> Result<Option<Seconds>, Invalid> {
    let seconds = match node.number("runtime_ns") {
        Some(nanoseconds) => nanoseconds * 1e-9,
        None => node.duration_micros as f64 * 1e-6,
    };
    if seconds > TIME_MAX.0 {
        return Err(wrong(node.id, &node.name, format!("it takes {seconds} s, more than a day")));
    }
    Ok((seconds > 0.0 || node.number("runtime_ns").is_some()).then_some(Seconds(seconds)))
}
