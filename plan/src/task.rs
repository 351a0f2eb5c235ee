//! Task graphs: the work of one optimizer step, with its order and dependencies, and not a second in it.

use crate::collective::Collective;
use crate::mesh::Group;
use crate::offload::Store;
use crate::parameters::Held;
use crate::partition::StageId;
use crate::schedules::StagePass;
use crate::spec::Recompute;
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_units::Bytes;

/// A task of a graph. Ids follow the order of construction in [`crate::lower()`], which is canonical.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// An ordered queue of tasks, as a stream of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// A kind of compute work of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamKind {
    /// Kernels of a stage.
    Compute(StageId),
    /// Activations leaving a stage for the next.
    SendForward(StageId),
    /// Gradients leaving a stage for the one before.
    SendBackward(StageId),
    /// Reductions of a stage's gradients, and the gathering of what was updated.
    Reduce(StageId),
    /// Weights of a stage gathered when they are needed.
    Gather(StageId),
    /// From a stage's devices to its machines.
    CopyOut(StageId),
    /// From a stage's machines to its devices.
    CopyIn(StageId),
    /// When a measured rank had to wait: for data, or for other ranks. A simulated one has gaps instead.
    Wait(StageId),
}

impl StreamKind {
    /// Whose stream it is.
    pub fn stage(self) -> StageId {
        match self {
            Self::Compute(stage)
            | Self::SendForward(stage)
            | Self::SendBackward(stage)
            | Self::Reduce(stage)
            | Self::Gather(stage)
            | Self::CopyOut(stage)
            | Self::CopyIn(stage)
            | Self::Wait(stage) => stage,
        }
    }
}

/// A run of layers in one direction for one micro-batch: the unit that is priced once and used often.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Whose layers.
    pub stage: StageId,
    /// Which of the model's layers.
    pub layers: Range<usize>,
    /// Which direction.
    pub pass: StagePass,
    /// What is computed again first.
    pub recompute: Recompute,
    /// Whether gradients are added to those of earlier micro-batches; backward of the first one only writes them.
    pub accumulate: bool,
}

/// What a buffer holds, which decides its number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// Gradients, in the format in which the software sends them.
    Gradients,
    /// Weights, in the format that computes.
    Weights,
}

/// A collective of each rank's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exchange {
    /// What is done.
    pub collective: Collective,
    /// Whose groups.
    pub stage: StageId,
    /// Which groups.
    pub group: Group,
    /// What is in the buffer.
    pub content: Content,
    /// The whole buffer: before it is scattered, or after it is gathered.
    pub held: Held,
}

/// The direction of a copy between a device and its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CopyDirection {
    /// To main memory or disk.
    DeviceToHost,
    /// From main memory or disk.
    HostToDevice,
}

/// What a task asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Kernels, with the communication inside layers that tensor, context and expert parallelism put between them.
    Compute(SegmentId),
    /// One micro-batch's activations, or their gradients, between neighbouring stages, on each rank of the stage.
    Transfer {
        /// The sender.
        from: StageId,
        /// The receiver.
        to: StageId,
        /// Of one rank.
        bytes: Bytes,
    },
    /// Gradients or weights among the ranks that hold copies of them.
    Exchange(Exchange),
    /// Gradients of the table that the first and last stage share, summed over the two.
    ReduceShared {
        /// Of one rank.
        held: Held,
    },
    /// Between each rank and the main memory or disk of its machine.
    Copy {
        /// Whose ranks.
        stage: StageId,
        /// Which way.
        way: CopyDirection,
        /// From or to where.
        store: Store,
        /// Of one rank.
        bytes: Bytes,
    },
    /// The optimizer's update.
    Update {
        /// Whose parameters.
        stage: StageId,
        /// Of one rank.
        held: Held,
    },
    /// The optimizer's update by the machine's processor.
    HostUpdate {
        /// Whose parameters.
        stage: StageId,
        /// Where the optimizer's state is kept.
        store: Store,
        /// Of one rank.
        held: Held,
    },
}

/// What a task is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// Forward of a micro-batch.
    Forward {
        /// Where.
        stage: StageId,
        /// Which.
        micro_batch: u32,
    },
    /// Backward of a micro-batch, or the gradients of inputs only.
    Backward {
        /// Where.
        stage: StageId,
        /// Which.
        micro_batch: u32,
    },
    /// Gradients of weights of a micro-batch, where they are computed apart.
    BackwardWeights {
        /// Where.
        stage: StageId,
        /// Which.
        micro_batch: u32,
    },
    /// Activations to the next stage.
    SendActivations {
        /// From where.
        stage: StageId,
        /// Which.
        micro_batch: u32,
    },
    /// Gradients to the stage before.
    SendGradients {
        /// From where.
        stage: StageId,
        /// Which.
        micro_batch: u32,
    },
    /// Sum of gradients over replicas.
    ReduceGradients {
        /// Where.
        stage: StageId,
        /// Which bucket.
        bucket: u32,
    },
    /// Sum of the shared table's gradients over first and last stage.
    ReduceShared,
    /// Weights gathered before they compute, or after they were updated.
    GatherWeights {
        /// Where.
        stage: StageId,
        /// First layer.
        layer: u32,
    },
    /// Something moved between device and machine.
    Copy {
        /// Where.
        stage: StageId,
        /// Which way.
        way: CopyDirection,
    },
    /// The optimizer's update.
    Update {
        /// Where.
        stage: StageId,
    },
    /// A measured rank hands on or takes a micro-batch's activations or gradients.
    Message {
        /// Which stage.
        stage: StageId,
        /// Which micro-batch.
        micro_batch: u32,
    },
    /// A measured rank waits for data, or for other ranks.
    Wait {
        /// Which stage.
        stage: StageId,
        /// For which micro-batch, if it is for one.
        micro_batch: Option<u32>,
    },
}

impl Activity {
    /// Whether it only moves data.
    pub fn is_communication(self) -> bool {
        match self {
            Self::SendActivations { .. }
            | Self::SendGradients { .. }
            | Self::ReduceGradients { .. }
            | Self::ReduceShared
            | Self::GatherWeights { .. }
            | Self::Copy { .. }
            | Self::Message { .. }
            | Self::Wait { .. } => true,
            Self::Forward { .. } | Self::Backward { .. } | Self::BackwardWeights { .. } | Self::Update { .. } => false,
        }
    }

    /// Whether it is a pass of a micro-batch through layers.
    pub fn is_pass(self) -> bool {
        matches!(self, Self::Forward { .. } | Self::Backward { .. } | Self::BackwardWeights { .. })
    }
}

impl std::fmt::Display for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forward { micro_batch, .. } => write!(f, "forward {micro_batch}"),
            Self::Backward { micro_batch, .. } => write!(f, "backward {micro_batch}"),
            Self::BackwardWeights { micro_batch, .. } => write!(f, "weight gradients {micro_batch}"),
            Self::SendActivations { micro_batch, .. } => write!(f, "send activations {micro_batch}"),
            Self::SendGradients { micro_batch, .. } => write!(f, "send gradients {micro_batch}"),
            Self::ReduceGradients { bucket, .. } => write!(f, "all-reduce gradients {bucket}"),
            Self::ReduceShared => write!(f, "all-reduce shared embedding"),
            Self::GatherWeights { layer, .. } => write!(f, "gather weights from layer {layer}"),
            Self::Copy { way: CopyDirection::DeviceToHost, .. } => write!(f, "copy to the machine"),
            Self::Copy { way: CopyDirection::HostToDevice, .. } => write!(f, "copy to the device"),
            Self::Update { .. } => write!(f, "optimizer update"),
            Self::Message { micro_batch, .. } => write!(f, "message of micro-batch {micro_batch}"),
            Self::Wait { micro_batch: Some(micro_batch), .. } => write!(f, "wait for micro-batch {micro_batch}"),
            Self::Wait { .. } => write!(f, "wait"),
        }
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is.
    pub activity: Activity,
    /// What it asks of the machine.
    pub work: Work,
    /// On which stream; tasks of a stream run one after another in the order of their ids.
    pub stream: StreamId,
    dependencies: Range<u32>,
}

/// The work of one optimizer step on one rank of each stage: what every rank of the stage does.
///
/// A schedule that does not flush has no single step: the graph then holds several in a row, see [`Self::step_ends`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGraph {
    tasks: Vec<Task>,
    dependencies: Vec<TaskId>,
    streams: Vec<StreamKind>,
    /// Ids by kind: a pipeline has hundreds of streams, and each of its tasks asks for one.
    stream_ids: BTreeMap<StreamKind, u32>,
    segments: Vec<Segment>,
    updates: Vec<TaskId>,
}

impl TaskGraph {
    /// The tasks, by id.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The tasks that must end before this one starts, besides those before it on its stream.
    pub fn dependencies(&self, task: TaskId) -> &[TaskId] {
        let range = &self.tasks[task.0 as usize].dependencies;
        &self.dependencies[range.start as usize..range.end as usize]
    }

    /// The streams, by id.
    pub fn streams(&self) -> &[StreamKind] {
        &self.streams
    }

    /// The kinds of compute work, by id.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The tasks that end the steps on the first stage, in order: one, or as many as there are steps in the graph.
    pub fn step_ends(&self) -> &[TaskId] {
        &self.updates
    }

    /// Notes that a task ends a step on the first stage.
    pub(crate) fn end_step(&mut self, task: TaskId) {
        self.updates.push(task);
    }

    /// The id of a stream, which is made if there is none yet.
    pub fn stream(&mut self, kind: StreamKind) -> StreamId {
        let streams = &mut self.streams;
        let id = *self.stream_ids.entry(kind).or_insert_with(|| {
            streams.push(kind);
            streams.len() as u32 - 1
        });
        StreamId(id)
    }

    /// Adds a kind of compute work.
    pub fn add_segment(&mut self, segment: Segment) -> SegmentId {
        self.segments.push(segment);
        SegmentId(self.segments.len() as u32 - 1)
    }

    /// Appends a task to its stream.
    ///
    /// # Panics
    ///
    /// When a dependency is not yet in the graph: tasks are added in an order in which they could run.
    pub fn add(&mut self, activity: Activity, work: Work, stream: StreamId, dependencies: &[TaskId]) -> TaskId {
        let id = TaskId(u32::try_from(self.tasks.len()).expect("a step has fewer than 2^32 tasks"));
        assert!(dependencies.iter().all(|dependency| *dependency < id), "a task may only wait for earlier ones");
        let start = self.dependencies.len() as u32;
        self.dependencies.extend_from_slice(dependencies);
        self.tasks.push(Task { activity, work, stream, dependencies: start..self.dependencies.len() as u32 });
        id
    }
}
