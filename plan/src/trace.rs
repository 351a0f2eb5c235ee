//! What ranks do in a step, in more detail than a [`crate::Timeline`]: kernel by kernel and message by message, with
//! what was waited for. Traces and execution graphs for other tools are written from it.

use crate::collective::Collective;
use crate::mesh::{Group, Mesh, Rank};
use crate::partition::StageId;
use crate::task::{Activity, CopyDirection, StreamKind};
use std::borrow::Cow;
use trainyard_units::{Bytes, Instant, Seconds};

/// A step of a plan on all ranks that were simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTrace {
    /// Seconds of the step.
    pub step_time: Seconds,
    /// From when to when one step is counted, where several were recorded.
    pub window: Option<(Instant, Instant)>,
    /// Host time to launch a kernel.
    pub launch: Seconds,
    /// How finely kernels are told apart.
    pub detail: TraceDetail,
    /// What each kind of work consists of; [`TracedTask::work`] says which.
    pub works: Vec<Vec<TracedPart>>,
    /// The ranks that were simulated, in order.
    pub ranks: Vec<RankTrace>,
}

/// How finely kernels are told apart, finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceDetail {
    /// Operator by operator.
    Operators,
    /// Layer by layer.
    Layers,
    /// Pass by pass.
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

/// What one rank did.
#[derive(Clone, Debug, PartialEq)]
pub struct RankTrace {
    /// The rank.
    pub rank: Rank,
    /// Its stage.
    pub stage: StageId,
    /// The ranks that did the same at the same time, itself first.
    pub stands_for: Vec<Rank>,
    /// Where it computes.
    pub seat: Seat,
    /// Tasks in the order in which they were given to the rank's streams.
    pub tasks: Vec<TracedTask>,
}

/// A device among those of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// What the device is called.
    pub device: String,
    /// Its memory; zero where it is not known.
    pub memory: Bytes,
    /// Which machine, from 0.
    pub instance: u32,
    /// Which device of the machine, from 0.
    pub slot: u32,
}

/// A task on a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedTask {
    /// What it is.
    pub activity: Activity,
    /// On which stream of the sender, or of the rank itself.
    pub stream: StreamKind,
    /// Whether the rank is the receiver of what another stage sends.
    pub receives: bool,
    /// From.
    pub start: Instant,
    /// To.
    pub end: Instant,
    /// What it consists of: an index of [`StepTrace::works`].
    pub work: usize,
    /// The same number at all ranks that met for a message, and another one for each message.
    pub meeting: Option<u32>,
    /// Earlier tasks of the rank that it waited for, by their places in [`RankTrace::tasks`], ascending.
    pub after: Vec<u32>,
}

/// A part of a task. Parts come one after another and take up the whole of it.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedPart {
    /// What it does.
    pub what: TracedWork,
    /// Its share of the task's time, from 0 to 1; those of a task add up to 1.
    pub share: f64,
}

/// What a part of a task does.
#[derive(Clone, Debug, PartialEq)]
pub enum TracedWork {
    /// Kernels.
    Kernels(TracedKernels),
    /// Something that ranks do together.
    Message(Message),
    /// Between the device and its machine.
    Copy {
        /// Which way.
        way: CopyDirection,
        /// How much.
        bytes: Bytes,
    },
    /// On the machine's processor.
    Host,
}

/// Kernels of one operator, layer or pass.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedKernels {
    /// What computes: an operator, or what a pass is called.
    pub operator: Cow<'static, str>,
    /// The layer, from 0, and its name.
    pub layer: Option<(u32, Cow<'static, str>)>,
    /// Which way.
    pub direction: Direction,
    /// Arithmetic, in floating-point operations.
    pub flops: f64,
    /// Bytes of device memory that are read and written.
    pub bytes: f64,
}

/// Which way kernels go through the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Forward.
    Forward,
    /// Forward once more, because its results were not kept.
    Again,
    /// Backward.
    Backward,
    /// Neither: gradients added up, the optimizer's update.
    Neither,
}

/// Who takes part in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// The ranks of a group.
    Group(Group),
    /// Ranks of two stages at the same place.
    Stages {
        /// The sender.
        from: StageId,
        /// The receiver.
        to: StageId,
    },
}

impl Between {
    /// The ranks that take part where `rank` does, in the order of the group, or sender first.
    pub fn members(self, mesh: Mesh, rank: Rank) -> Vec<Rank> {
        match self {
            Self::Group(group) => mesh.group(rank, group),
            Self::Stages { from, to } => {
                let at = mesh.coordinates(rank);
                [from, to].map(|stage| mesh.rank(crate::Coordinates { pipeline: stage.0, ..at })).to_vec()
            }
        }
    }

    /// What the group is called in traces.
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

/// Something that ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// What.
    pub kind: Collective,
    /// Who.
    pub between: Between,
    /// The whole buffer: before it is scattered, or after it is gathered; of a transfer what is sent. Nothing where it
    /// was not recorded.
    pub bytes: Option<Bytes>,
    /// Bytes of an element.
    pub element: u64,
}

impl Message {
    /// Elements of what each of `members` ranks puts in, and of what it gets.
    pub fn elements(self, members: u64) -> Option<(u64, u64)> {
        let whole = self.bytes?.0.div_ceil(self.element.max(1));
        Some(self.kind.elements(whole, members))
    }
}

impl StepTrace {
    /// The parts of a task.
    pub fn parts(&self, task: &TracedTask) -> &[TracedPart] {
        &self.works[task.work]
    }

    /// Parts of all tasks: about as many kernels and messages as a trace of it shows.
    pub fn len(&self) -> usize {
        let tasks = self.ranks.iter().flat_map(|rank| &rank.tasks);
        tasks.map(|task| self.works[task.work].len()).sum()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same with kernels told apart no more finely than this.
    #[must_use]
    pub fn coarser(mut self, detail: TraceDetail) -> Self {
        for work in &mut self.works {
            *work = merged(std::mem::take(work), detail);
        }
        self.detail = self.detail.max(detail);
        self
    }
}

/// Parts with those joined that differ in nothing that is told apart. What passes in between is joined too where whole
/// passes are, each kind by itself.
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
