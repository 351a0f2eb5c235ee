//! The events of one rank.

use super::event::{Arguments, Event, Writer, microseconds};
use super::names::{self, COMPUTE, PROCESSOR, Stream};
use super::{GROUP_RANKS_MAX, Scene, metadata};
use std::borrow::Cow;
use std::collections::BTreeSet;
use trainyard_plan::{Activity, Collective, Message, Rank, RankTrace, StreamKind, TracedPart, TracedTask, TracedWork};

/// The thread number of a host's launching thread.
const LAUNCHER: u64 = 1;

/// Maximum number of ranks that a label names one by one.
const LABEL_RANKS: usize = 8;

/// The position of a rank in a trace.
pub(super) struct Row {
    /// The process id of its device.
    pub(super) pid: u64,
    /// The process id of its host, where one is shown.
    pub(super) host: Option<u64>,
    pub(super) name: String,
    /// `true` if the ranks with which it communicates are in the trace too.
    pub(super) meets: bool,
}

/// A part of a task with its time.
#[derive(Clone, Copy)]
struct Placed<'a> {
    task: &'a TracedTask,
    part: &'a TracedPart,
    stream: Stream,
    /// Start in nanoseconds.
    start: u64,
    end: u64,
    /// Index of the task on its rank.
    place: u64,
}

/// Writes all events of a rank.
pub(super) fn write(writer: &mut Writer, scene: &Scene<'_>, rank: &RankTrace, row: &Row) {
    let placed = placed(scene, rank);
    rows(writer, rank, row, &placed);
    let steps = steps(scene, rank);
    annotated(writer, rank, row, &steps);
    tasks(writer, rank, row);
    let external = writer.ids(rank.tasks.len() as u64);
    let mut launcher = Launcher::new(&steps, scene.trace.launch.0);
    for (index, part) in placed.iter().enumerate() {
        let correlation = writer.id();
        if let Some(host) = row.host.filter(|_| part.stream != PROCESSOR) {
            for waits in launcher.until_step_of(part.start) {
                synchronized(writer, host, waits);
            }
            let next = placed.get(index + 1).map_or(u64::MAX, |next| next.start);
            let call = launcher.launch(part.start, next);
            launched(writer, scene, part, (host, row.pid), call, (correlation, external + part.place));
        }
        work(writer, scene, rank, row, part, (correlation, external + part.place));
    }
    if let Some(host) = row.host {
        for waits in launcher.until_step_of(u64::MAX) {
            synchronized(writer, host, waits);
        }
    }
}

/// The thread of a host: it launches the work of a step on its device in the order in which that runs, and waits for
/// the device at the end of the step. No call reaches from one step into the next.
struct Launcher<'a> {
    /// The steps that have not ended.
    steps: &'a [(u64, u64)],
    /// Nanoseconds of a call.
    takes: u64,
    free: u64,
}

impl<'a> Launcher<'a> {
    fn new(steps: &'a [(u64, u64)], launch_seconds: f64) -> Self {
        Self { steps, takes: (launch_seconds * 1e9) as u64, free: steps.first().map_or(0, |step| step.0) }
    }

    /// Returns the waits at the ends of the steps before the one that contains this instant.
    fn until_step_of(&mut self, instant: u64) -> Vec<(u64, u64)> {
        let mut waits = Vec::new();
        while let Some(((_, end), rest)) = self.steps.split_first().filter(|((_, end), _)| *end <= instant) {
            waits.push((self.free.min(*end), *end));
            self.steps = rest;
            self.free = *end;
        }
        waits
    }

    /// Returns the call that launches work at `start`, before the next one starts.
    fn launch(&mut self, start: u64, next: u64) -> (u64, u64) {
        let end = self.steps.first().map_or(u64::MAX, |step| step.1);
        let at = self.free.min(start);
        let until = (at + self.takes).min(next.max(at)).min(end);
        self.free = until;
        (at, until)
    }
}

fn synchronized(writer: &mut Writer, host: u64, waits: (u64, u64)) {
    let correlation = writer.id();
    writer.event(&Event {
        args: Some(Arguments { correlation: Some(correlation), ..Arguments::default() }),
        ..span("cuda_runtime", "cudaDeviceSynchronize", (host, LAUNCHER), waits)
    });
}

fn span<'a>(
    cat: &'static str,
    name: impl Into<Cow<'a, str>>,
    (pid, tid): (u64, u64),
    (start, end): (u64, u64),
) -> Event<'a> {
    let (ts, dur) = (microseconds(start), Some(microseconds(end.saturating_sub(start))));
    Event { ph: 'X', cat: Some(cat), name: name.into(), pid, tid, ts, dur, ..Event::default() }
}

/// Returns the parts of tasks with their times, in order of their starts. Parts that take no time are left out.
fn placed<'a>(scene: &Scene<'a>, rank: &'a RankTrace) -> Vec<Placed<'a>> {
    let mut placed = Vec::new();
    for (place, task) in (0u64..).zip(&rank.tasks) {
        let (from, to) = (task.start.nanoseconds(), task.end.nanoseconds());
        let whole = (to - from) as f64;
        let mut share = 0.0;
        let mut start = from;
        let parts = scene.trace.parts(task);
        for (index, part) in parts.iter().enumerate() {
            share += part.share;
            let end = if index + 1 == parts.len() { to } else { (from + (whole * share).round() as u64).min(to) };
            if end > start {
                let stream = names::stream(task, &part.what);
                placed.push(Placed { task, part, stream, start, end, place });
                start = end;
            }
        }
    }
    placed.sort_by_key(|part| (part.start, part.stream.number, part.end));
    placed
}

/// Writes the names of processes and rows.
fn rows(writer: &mut Writer, rank: &RankTrace, row: &Row, placed: &[Placed<'_>]) {
    let named = |name: String| Arguments { name: Some(name.into()), ..Arguments::default() };
    let sorted = |index| Arguments { sort_index: Some(index), ..Arguments::default() };
    let labelled = |labels: String| Arguments { labels: Some(labels.into()), ..Arguments::default() };
    let order = 2 * row.pid;
    writer.event(&metadata("process_name", row.pid, 0, named(row.name.clone())));
    writer.event(&metadata("process_labels", row.pid, 0, labelled(label(rank, row))));
    writer.event(&metadata("process_sort_index", row.pid, 0, sorted(order + 1)));
    let streams: BTreeSet<Stream> = placed.iter().map(|part| part.stream).collect();
    for stream in streams {
        let pid = if stream == PROCESSOR { row.host.unwrap_or(row.pid) } else { row.pid };
        let name = if stream != PROCESSOR && row.host.is_some() {
            format!("stream {} {}", stream.number, stream.carries)
        } else {
            stream.carries.to_owned()
        };
        writer.event(&metadata("thread_name", pid, stream.number, named(name)));
        writer.event(&metadata("thread_sort_index", pid, stream.number, sorted(stream.number)));
    }
    if let Some(host) = row.host {
        let name = format!("rank {} host", rank.rank.0);
        writer.event(&metadata("process_name", host, 0, named(name)));
        writer.event(&metadata("process_labels", host, 0, labelled("CPU".into())));
        writer.event(&metadata("process_sort_index", host, 0, sorted(order)));
        writer.event(&metadata("thread_name", host, LAUNCHER, named("launches".into())));
        writer.event(&metadata("thread_sort_index", host, LAUNCHER, sorted(LAUNCHER)));
    }
}

/// Describes a rank: its device and its stage, and the other ranks that it represents.
fn label(rank: &RankTrace, row: &Row) -> String {
    if row.host.is_none() {
        return format!("stage {}", rank.stage.0);
    }
    let place = format!("GPU {}, instance {}, stage {}", rank.seat.slot, rank.seat.instance, rank.stage.0);
    let others: Vec<u32> = rank.stands_for.iter().filter(|other| **other != rank.rank).map(|other| other.0).collect();
    if others.is_empty() {
        return place;
    }
    let named: Vec<String> = others.iter().take(LABEL_RANKS).map(u32::to_string).collect();
    let more = if others.len() > LABEL_RANKS { " …" } else { "" };
    format!("{place}, stands for {} more: {}{more}", others.len(), named.join(" "))
}

/// Returns the start and the end of each step: those before and after the measured one as far as they were recorded.
fn steps(scene: &Scene<'_>, rank: &RankTrace) -> Vec<(u64, u64)> {
    let last = rank.tasks.iter().map(|task| task.end.nanoseconds()).max().unwrap_or(0);
    let whole = (scene.trace.step_time.0 * 1e9).round() as u64;
    let steps = match scene.trace.window {
        Some((from, to)) => {
            let (from, to) = (from.nanoseconds(), to.nanoseconds());
            vec![(0, from), (from, to), (to, last)]
        }
        None => vec![(0, whole.max(last))],
    };
    steps.into_iter().filter(|(from, to)| to > from).collect()
}

/// Writes steps, on host and device as the profiler marks them: a pass on the device belongs to the step in which it
/// begins.
fn annotated(writer: &mut Writer, rank: &RankTrace, row: &Row, steps: &[(u64, u64)]) {
    let Some(host) = row.host else { return };
    let computed = || rank.tasks.iter().filter(|task| matches!(task.stream, StreamKind::Compute(_)));
    let on_device = |instant: u64| {
        let across = computed().map(|task| (task.start.nanoseconds(), task.end.nanoseconds()));
        across.filter(|(start, end)| *start < instant && instant < *end).map(|(_, end)| end).max().unwrap_or(instant)
    };
    for (number, (from, to)) in steps.iter().enumerate() {
        let name = format!("ProfilerStep#{number}");
        writer.event(&span("user_annotation", name.clone(), (host, LAUNCHER), (*from, *to)));
        let bounds = (on_device(*from), on_device(*to));
        writer.event(&span("gpu_user_annotation", name, (row.pid, COMPUTE.number), bounds));
    }
}

/// Writes passes and updates, above their kernels.
fn tasks(writer: &mut Writer, rank: &RankTrace, row: &Row) {
    if row.host.is_none() {
        return;
    }
    for task in rank.tasks.iter().filter(|task| !task.activity.is_communication() && task.end > task.start) {
        if matches!(task.stream, StreamKind::Compute(_)) {
            let bounds = (task.start.nanoseconds(), task.end.nanoseconds());
            let name = task.activity.to_string();
            writer.event(&span("gpu_user_annotation", name, (row.pid, COMPUTE.number), bounds));
        }
    }
}

/// Writes the launching call, and an arrow to the work that it launches.
fn launched(
    writer: &mut Writer,
    scene: &Scene<'_>,
    part: &Placed<'_>,
    (host, device): (u64, u64),
    (at, until): (u64, u64),
    (correlation, external): (u64, u64),
) {
    let name = match part.part.what {
        TracedWork::Copy { .. } => "cudaMemcpyAsync",
        _ => "cudaLaunchKernel",
    };
    let args = Arguments { external: Some(external), correlation: Some(correlation), ..Arguments::default() };
    let operator = match &part.part.what {
        TracedWork::Kernels(kernels) => names::kernels(kernels, scene.trace.detail),
        TracedWork::Message(_) => "record_param_comms".into(),
        TracedWork::Copy { .. } => "aten::copy_".into(),
        TracedWork::Host => "host".into(),
    };
    let called = Arguments { external: Some(external), ..Arguments::default() };
    writer.event(&Event { args: Some(called), ..span("cpu_op", operator, (host, LAUNCHER), (at, until)) });
    writer.event(&Event { args: Some(args), ..span("cuda_runtime", name, (host, LAUNCHER), (at, until)) });
    let arrow = |ph, pid, tid, nanoseconds, bp| Event {
        ph,
        cat: Some("ac2g"),
        name: "ac2g".into(),
        pid,
        tid,
        ts: microseconds(nanoseconds),
        id: Some(correlation),
        bp,
        ..Event::default()
    };
    writer.event(&arrow('s', host, LAUNCHER, at, None));
    writer.event(&arrow('f', device, part.stream.number, part.start, Some("e")));
}

/// Writes the work of the device, or of the processor.
fn work(
    writer: &mut Writer,
    scene: &Scene<'_>,
    rank: &RankTrace,
    row: &Row,
    placed: &Placed<'_>,
    (correlation, external): (u64, u64),
) {
    let Placed { task, part, stream, start, end, .. } = *placed;
    let at = (row.pid, stream.number);
    let on_device = Arguments {
        external: row.host.map(|_| external),
        device: Some(row.pid),
        context: Some(1),
        stream: Some(stream.number),
        correlation: Some(correlation),
        micro_batch: micro_batch(task.activity),
        ..Arguments::default()
    };
    if stream == PROCESSOR {
        let at = (row.host.unwrap_or(row.pid), stream.number);
        let category = if matches!(task.activity, Activity::Wait { .. }) { "user_annotation" } else { "cpu_op" };
        writer.event(&span(category, task.activity.to_string(), at, (start, end)));
        return;
    }
    let (category, name, args) = match &part.what {
        TracedWork::Kernels(kernels) => {
            let layer = kernels.layer.as_ref().map(|(index, name)| format!("{index} {name}").into());
            let known = |value: f64| (value > 0.0).then_some(value);
            let (flops, memory_bytes) = (known(kernels.flops), known(kernels.bytes));
            let name = names::kernels(kernels, scene.trace.detail);
            ("kernel", name, Arguments { layer, flops, memory_bytes, ..on_device })
        }
        TracedWork::Message(message) => {
            let name = message.kind.nccl_kernel(names::nccl_dtype(scene.dtype(message.element))).into();
            ("kernel", name, told(scene, rank, *message, task.receives, on_device))
        }
        TracedWork::Copy { way, bytes } => {
            let bandwidth = Some(bytes.as_f64() / (end - start) as f64);
            let args = Arguments { bytes: Some(bytes.0), bandwidth, ..on_device };
            ("gpu_memcpy", names::copy(*way).into(), args)
        }
        TracedWork::Host => unreachable!("the processor's work has no stream"),
    };
    writer.event(&Event { args: Some(args), ..span(category, name, at, (start, end)) });
    let sent = matches!(task.stream, StreamKind::SendForward(_) | StreamKind::SendBackward(_));
    if let Some(meeting) = task.meeting.filter(|_| row.meets && sent) {
        meets(writer, task.receives, meeting, at, start);
    }
}

/// Writes one end of the arrow from a send to its receive.
fn meets(writer: &mut Writer, receives: bool, meeting: u32, (pid, tid): (u64, u64), start: u64) {
    writer.event(&Event {
        ph: if receives { 'f' } else { 's' },
        cat: Some("p2p"),
        name: "sendrecv".into(),
        pid,
        tid,
        ts: microseconds(start),
        id: Some(u64::from(meeting)),
        bp: receives.then_some("e"),
        ..Event::default()
    });
}

/// Returns the arguments that describe a message.
fn told<'a>(
    scene: &Scene<'_>,
    rank: &RankTrace,
    message: Message,
    receives: bool,
    on_device: Arguments<'a>,
) -> Arguments<'a> {
    let members = scene.mesh.map(|mesh| message.between.members(mesh, rank.rank));
    let size = members.as_ref().map(|members| members.len() as u64);
    let (elements_in, elements_out) = size.and_then(|size| message.elements(size)).unzip();
    let shown = |members: &Vec<Rank>| {
        let mut members = members.clone();
        members.sort_unstable();
        let ranks: Vec<String> = members.iter().take(GROUP_RANKS_MAX).map(|rank| rank.0.to_string()).collect();
        let more = if members.len() > GROUP_RANKS_MAX { ", ..." } else { "" };
        Cow::from(format!("[{}{more}]", ranks.join(", ")))
    };
    let pair = members.as_ref().filter(|_| message.kind == Collective::Transfer);
    Arguments {
        collective: Some(message.kind.process_group_name(receives)),
        elements_in,
        elements_out,
        group_size: size,
        dtype: Some(scene.dtype(message.element)),
        split_in: Some("[]"),
        split_out: Some("[]"),
        group: Some(names::group(message.between)),
        group_kind: Some(message.between.name()),
        group_ranks: members.as_ref().map(shown),
        source: pair.and_then(|pair| pair.first()).map(|rank| u64::from(rank.0)),
        destination: pair.and_then(|pair| pair.last()).map(|rank| u64::from(rank.0)),
        ..on_device
    }
}

fn micro_batch(activity: Activity) -> Option<u32> {
    match activity {
        Activity::Forward { micro_batch, .. }
        | Activity::Backward { micro_batch, .. }
        | Activity::BackwardWeights { micro_batch, .. }
        | Activity::SendActivations { micro_batch, .. }
        | Activity::SendGradients { micro_batch, .. }
        | Activity::Message { micro_batch, .. } => Some(micro_batch),
        _ => None,
    }
}
