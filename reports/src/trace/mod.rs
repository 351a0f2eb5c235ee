//! Steps as traces in the form of the PyTorch profiler, which Perfetto, chrome://tracing and Holistic Trace Analysis
//! open.
//!
//! Each rank is a process of its device, with a row for every stream, and one of its host, which launches kernels in
//! order and then waits for the device. A kernel has the category, the name and the arguments that PyTorch's has, as far
//! as a simulation knows them.
//!
//! # Source
//!
//! "Trace Event Format", Google, 2016: complete events (`X`), metadata (`M`), flows (`s`, `f`); times in microseconds.
//! Categories, streams and arguments: pytorch/kineto, `libkineto/src/output_json.cpp`, and pytorch/pytorch,
//! `torch/csrc/distributed/c10d/ParamCommsUtils.hpp`.

mod event;
mod names;
mod rank;
mod timeline;

pub use timeline::Process;

use event::{Event, Writer};
use rank::Row;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trainyard_plan::{Between, Mesh, Plan, Precision, RankTrace, StepTrace, TracedWork};

/// First number of host processes in a trace of several ranks; those of devices start at 0.
const HOSTS: u64 = 1_000_000;

/// Maximum number of ranks of a process group that are written; of more, the first ones.
const GROUP_RANKS_MAX: usize = 64;

/// The data that all ranks of a trace share.
#[derive(Clone, Copy)]
struct Scene<'a> {
    trace: &'a StepTrace,
    /// `None` if only a timeline was recorded.
    mesh: Option<Mesh>,
    /// PyTorch's name for the type of two-byte values.
    half: &'static str,
}

impl<'a> Scene<'a> {
    fn of_plan(trace: &'a StepTrace, plan: &Plan) -> Self {
        let half =
            if matches!(plan.precision(), Precision::Bf16Mixed | Precision::Fp8Mixed) { "BFloat16" } else { "Half" };
        Self { trace, mesh: Some(plan.mesh()), half }
    }

    /// Returns PyTorch's name for the type of elements of `element` bytes.
    fn dtype(&self, element: u64) -> &'static str {
        match element {
            1 => "Char",
            2 => self.half,
            _ => "Float",
        }
    }
}

/// Writes all simulated ranks of a step, one above the other.
pub fn step_trace(trace: &StepTrace, plan: &Plan) -> String {
    let scene = Scene::of_plan(trace, plan);
    let mut writer = Writer::new(&header(&scene, &trace.ranks, plan.mesh().ranks()));
    for (pid, rank) in (0u64..).zip(&trace.ranks) {
        let row = Row { pid, host: Some(HOSTS + pid), name: format!("rank {}", rank.rank.0), meets: true };
        rank::write(&mut writer, &scene, rank, &row);
    }
    writer.finish()
}

/// Writes one rank of a step, as PyTorch writes a file for each: the input of Holistic Trace Analysis.
pub fn rank_trace(trace: &StepTrace, plan: &Plan, rank: &RankTrace) -> String {
    let scene = Scene::of_plan(trace, plan);
    let mut writer = Writer::new(&header(&scene, std::slice::from_ref(rank), plan.mesh().ranks()));
    let pid = u64::from(rank.seat.slot);
    let row = Row { pid, host: Some(HOSTS + u64::from(rank.rank.0)), name: "python".into(), meets: false };
    rank::write(&mut writer, &scene, rank, &row);
    writer.finish()
}

/// Writes timelines one above the other: a simulated step above the ranks of a run.
pub fn trace(processes: &[Process<'_>]) -> String {
    let recorded: Vec<(String, StepTrace)> = processes.iter().flat_map(|process| process.recorded()).collect();
    let about = json!({
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceName": "trainyard",
        "trainyard": { "kind": "run" },
    });
    let mut writer = Writer::new(&about);
    for (pid, (name, step)) in (0u64..).zip(&recorded) {
        let scene = Scene { trace: step, mesh: None, half: "Half" };
        let row = Row { pid, host: None, name: name.clone(), meets: false };
        for rank in &step.ranks {
            rank::write(&mut writer, &scene, rank, &row);
        }
    }
    writer.finish()
}

/// Returns the metadata before the events.
fn header(scene: &Scene<'_>, ranks: &[RankTrace], world: u32) -> Value {
    let groups = ranks.first().map_or_else(Vec::new, |rank| process_groups(scene, rank));
    let devices: Vec<Value> = ranks.iter().map(|rank| device(rank, ranks.len() > 1)).collect();
    let stands_for: Map<String, Value> = ranks
        .iter()
        .map(|rank| (rank.rank.0.to_string(), rank.stands_for.iter().map(|rank| rank.0).collect()))
        .collect();
    json!({
        "schemaVersion": 1,
        "distributedInfo": {
            "backend": "nccl",
            "rank": ranks.first().map_or(0, |rank| rank.rank.0),
            "world_size": world,
            "pg_count": groups.len(),
            "pg_config": groups,
        },
        "deviceProperties": devices,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceName": "trainyard",
        "trainyard": {
            "kind": "predicted",
            "detail": scene.trace.detail.to_string(),
            "step_time_s": scene.trace.step_time.0,
            "stands_for": stands_for,
        },
    })
}

/// Returns the properties of a device, whose id is the row that shows it.
fn device(rank: &RankTrace, several: bool) -> Value {
    let id = if several { rank.rank.0 } else { rank.seat.slot };
    let mut device = json!({ "id": id, "name": rank.seat.device });
    if rank.seat.memory.0 > 0 {
        device["totalGlobalMem"] = rank.seat.memory.0.into();
    }
    device
}

/// Returns the process groups of a rank.
fn process_groups(scene: &Scene<'_>, rank: &RankTrace) -> Vec<Value> {
    let Some(mesh) = scene.mesh else { return Vec::new() };
    // Sends in both directions go through one group.
    let mut groups: BTreeMap<String, Between> = BTreeMap::new();
    for part in rank.tasks.iter().flat_map(|task| scene.trace.parts(task)) {
        if let TracedWork::Message(message) = part.what {
            groups.entry(names::group(message.between).into_owned()).or_insert(message.between);
        }
    }
    let described = groups.into_iter().map(|(name, between)| {
        let mut members = between.members(mesh, rank.rank);
        members.sort_unstable();
        let ranks: Vec<u32> = members.iter().take(GROUP_RANKS_MAX).map(|rank| rank.0).collect();
        json!({
            "pg_name": name,
            "pg_desc": between.name(),
            "backend_config": "cuda:nccl",
            "pg_size": members.len(),
            "ranks": ranks,
        })
    });
    described.collect()
}

/// Returns the metadata event of a process or a thread.
fn metadata<'a>(name: &'static str, pid: u64, tid: u64, args: event::Arguments<'a>) -> Event<'a> {
    Event { ph: 'M', name: name.into(), pid, tid, args: Some(args), ..Event::default() }
}

#[cfg(test)]
mod tests;
