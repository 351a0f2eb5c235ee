//! What ranks do in a step, in more detail than a [`crate::Timeline`]: kernel by kernel and message by message, with
//! what was waited for. Traces and execution graphs for other tools are written from it.

use crate::collective::Collective;
use crate::mesh::{Group, Mesh, Rank};
use crate::schedules::StageId;
use crate::task::{Activity, CopyDirection, StreamKind};
use std::borrow::Cow;
use trainyard_units::{Bytes, Instant, Seconds};

/// One step of a plan on all simulated ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTrace {
    /// Duration of the step in seconds.
    pub step_time: Seconds,
    /// Start and end of the step that is counted, where several were recorded.
    pub window: Option<(Instant, Instant)>,
    /// Host time to launch a kernel, in seconds.
    pub launch: Seconds,
    /// The granularity at which kernels are told apart.
    pub detail: TraceDetail,
    /// The parts of each kind of work, indexed by [`TracedTask::work`].
    pub works: Vec<Vec<TracedPart>>,
    /// The simulated ranks, in order.
    pub ranks: Vec<RankTrace>,
}

/// The granularity at which kernels are told apart, finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceDetail {
    /// One entry per operator.
    Operators,
    /// One entry per layer.
    Layers,
    /// One entry per pass.
    Passes,
}

impl std::fmt::Display for TraceDetail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Operators => "operators",
            Self::Layers => "layers",
            Self::Passes => "passes",
        })
    }
}

/// The tasks of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankTrace {
    pub rank: Rank,
    /// The pipeline stage of the rank.
    pub stage: StageId,
    /// The ranks that did the same at the same time, this rank first.
    pub stands_for: Vec<Rank>,
    /// The device that the rank runs on.
    pub seat: Seat,
    /// The rank's tasks, in the order in which they were issued to its streams.
    pub tasks: Vec<TracedTask>,
}

/// The place of a device in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    pub device: String,
    /// Device memory; zero where it is not known.
    pub memory: Bytes,
    /// Index of the machine, from 0.
    pub instance: u32,
    /// Index of the device within its machine, from 0.
    pub slot: u32,
}

/// A task on a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedTask {
    pub activity: Activity,
    /// The stream of the task, on the sender or on the rank itself.
    pub stream: StreamKind,
    /// `true` if the rank receives what another stage sends.
    pub receives: bool,
    /// The start time.
    pub start: Instant,
    /// The end time.
    pub end: Instant,
    /// Index into [`StepTrace::works`] of the parts of the task.
    pub work: usize,
    /// The number of the message, equal on all ranks that take part in it and different for each message.
    pub meeting: Option<u32>,
    /// Earlier tasks of the rank that this one waited for, as ascending indices into [`RankTrace::tasks`].
    pub after: Vec<u32>,
}

/// A part of a task. Parts follow one another and fill the whole task.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPart {
    pub what: TracedWork,
    /// The part's share of the task's time, from 0 to 1; the shares of a task add up to 1.
    pub share: f64,
}

/// The work of a part of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TracedWork {
    /// Kernels on the device.
    Kernels(TracedKernels),
    /// A collective or point-to-point message.
    Message(Message),
    /// A copy between the device and its machine.
    Copy {
        way: CopyDirection,
        /// Bytes copied.
        bytes: Bytes,
    },
    /// Work on the machine's processor.
    Host,
}

/// Kernels of one operator, layer or pass.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedKernels {
    /// The name of the operator, or of the pass where kernels are not told apart.
    pub operator: Cow<'static, str>,
    /// Index of the layer, from 0, and its name.
    pub layer: Option<(u32, Cow<'static, str>)>,
    /// The direction of the pass.
    pub direction: Direction,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes of device memory read and written.
    pub bytes: f64,
}

/// The direction in which kernels go through the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Forward,
    /// Forward once more, because activations were not kept (recomputation).
    Again,
    Backward,
    /// No direction: gradient accumulation, or the optimizer's update.
    Neither,
}

/// The participants of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// The ranks of a group.
    Group(Group),
    /// Ranks of two stages at the same position.
    Stages {
        /// The sender.
        from: StageId,
        /// The receiver.
        to: StageId,
    },
}

impl Between {
    /// Returns the ranks that take part together with `rank`, in the order of the group, or sender first.
    pub fn members(self, mesh: Mesh, rank: Rank) -> Vec<Rank> {
        match self {
            Self::Group(group) => mesh.group(rank, group),
            Self::Stages { from, to } => {
                let at = mesh.coordinates(rank);
                [from, to].map(|stage| mesh.rank(crate::Coordinates { pipeline: stage.0, ..at })).to_vec()
            }
        }
    }

    /// Returns the name of the group in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Group(Group::Tensor) => "tensor",
            Self::Group(Group::Context) => "context",
            Self::Group(Group::Expert) => "expert",
            Self::Group(Group::Gradient) => "data",
            Self::Group(Group::ExpertGradient) => "expert data",
            Self::Group(Group::Shard) => "shard",
            Self::Group(Group::ShardReplicas) => "shard replicas",
            Self::Stages { .. } => "pipeline",
        }
    }
}

/// A collective or point-to-point message between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// The operation.
    pub kind: Collective,
    /// The participants.
    pub between: Between,
    /// Size of the whole buffer: before a reduce-scatter, after an all-gather, or of what a transfer sends. `None`
    /// where it was not recorded.
    pub bytes: Option<Bytes>,
    /// Bytes per element.
    pub element: u64,
}

impl Message {
    /// Returns the number of elements that each of `members` ranks puts in, and the number that it gets.
    pub fn elements(self, members: u64) -> Option<(u64, u64)> {
        let whole = self.bytes?.0.div_ceil(self.element.max(1));
        Some(self.kind.elements(whole, members))
    }
}

impl StepTrace {
    /// Returns the parts of a task.
    pub fn parts(&self, task: &TracedTask) -> &[TracedPart] {
        &self.works[task.work]
    }

    /// Returns the number of parts of all tasks: about as many kernels and messages as a trace shows.
    pub fn len(&self) -> usize {
        let tasks = self.ranks.iter().flat_map(|rank| &rank.tasks);
        tasks.map(|task| self.works[task.work].len()).sum()
    }

    /// Returns `true` if no rank did anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the trace with kernels told apart no more finely than `detail`.
    #[must_use]
    pub fn coarser(mut self, detail: TraceDetail) -> Self {
        for work in &mut self.works {
            *work = merged(std::mem::take(work), detail);
        }
        self.detail = self.detail.max(detail);
        self
    }
}

/// Joins neighbouring parts that are equal at this level of detail. Where whole passes are one part, messages and
/// copies inside them are joined too, each kind by itself.
fn merged(parts: Vec<TracedPart>, detail: TraceDetail) -> Vec<TracedPart> {
    if detail == TraceDetail::Operators {
        return parts;
    }
    let mut kept: Vec<TracedPart> = Vec::new();
    for mut part in parts {
        if let TracedWork::Kernels(kernels) = &mut part.what {
            kernels.operator = match kernels.direction {
                Direction::Forward => "forward".into(),
                Direction::Again => "recomputation".into(),
                Direction::Backward => "backward".into(),
                Direction::Neither => kernels.operator.clone(),
            };
            if detail == TraceDetail::Passes {
                kernels.layer = None;
            }
        }
        let like = |other: &&mut TracedPart| alike(&other.what, &part.what);
        let found = match detail {
            TraceDetail::Passes => kept.iter_mut().find(like),
            _ => kept.last_mut().filter(like),
        };
        match found {
            Some(other) => other.join(part),
            None => kept.push(part),
        }
    }
    kept
}

fn alike(a: &TracedWork, b: &TracedWork) -> bool {
    match (a, b) {
        (TracedWork::Kernels(a), TracedWork::Kernels(b)) => {
            (&a.operator, &a.layer, a.direction) == (&b.operator, &b.layer, b.direction)
        }
        (TracedWork::Message(a), TracedWork::Message(b)) => {
            (a.kind, a.between, a.element) == (b.kind, b.between, b.element)
        }
        _ => false,
    }
}

impl TracedPart {
    fn join(&mut self, other: Self) {
        self.share += other.share;
        match (&mut self.what, other.what) {
            (TracedWork::Kernels(kernels), TracedWork::Kernels(more)) => {
                kernels.flops += more.flops;
                kernels.bytes += more.bytes;
            }
            (TracedWork::Message(message), TracedWork::Message(more)) => {
                message.bytes = message.bytes.zip(more.bytes).map(|(a, b)| a + b);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(operator: &'static str, layer: u32, share: f64) -> TracedPart {
        let layer = Some((layer, "block".into()));
        let direction = Direction::Forward;
        let kernels = TracedKernels { operator: operator.into(), layer, direction, flops: 2.0, bytes: 3.0 };
        TracedPart { what: TracedWork::Kernels(kernels), share }
    }

    fn sum(share: f64) -> TracedPart {
        let between = Between::Group(Group::Tensor);
        let message = Message { kind: Collective::AllReduce, between, bytes: Some(Bytes(8)), element: 2 };
        TracedPart { what: TracedWork::Message(message), share }
    }

    #[test]
    fn parts_that_are_joined_keep_their_work_and_their_time() {
        let parts = vec![
            kernels("linear", 0, 0.25),
            kernels("attention", 0, 0.125),
            sum(0.125),
            kernels("linear", 1, 0.25),
            sum(0.25),
        ];
        for (detail, left) in [(TraceDetail::Operators, 5), (TraceDetail::Layers, 4), (TraceDetail::Passes, 2)] {
            let joined = merged(parts.clone(), detail);
            assert_eq!(joined.len(), left, "{detail}");
            let share: f64 = joined.iter().map(|part| part.share).sum();
            assert!((share - 1.0).abs() < 1e-12);
            let (mut flops, mut bytes) = (0.0, 0);
            for part in &joined {
                match &part.what {
                    TracedWork::Kernels(kernels) => flops += kernels.flops,
                    TracedWork::Message(message) => bytes += message.bytes.expect("recorded").0,
                    _ => {}
                }
            }
            assert!((flops - 6.0).abs() < 1e-12 && bytes == 16, "{detail}");
        }
    }

    #[test]
    fn a_message_says_what_goes_in_and_what_comes_out() {
        let of = |kind| Message { kind, between: Between::Group(Group::Gradient), bytes: Some(Bytes(64)), element: 4 };
        assert_eq!(of(Collective::AllReduce).elements(4), Some((16, 16)));
        assert_eq!(of(Collective::ReduceScatter).elements(4), Some((16, 4)));
        assert_eq!(of(Collective::AllGather).elements(4), Some((4, 16)));
        let mesh =
            Mesh::from(crate::ParallelSpec { data: 2, tensor: 2, pipeline: 2, ..crate::ParallelSpec::default() });
        let between = Between::Stages { from: StageId(0), to: StageId(1) };
        assert_eq!(between.members(mesh, Rank(5)), [Rank(1), Rank(5)]);
    }
}
