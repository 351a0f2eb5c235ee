//! Task graphs: the work of one optimizer step, with its order and dependencies, and not a second in it.

use crate::collective::Collective;
use crate::mesh::Group;
use crate::offload::Store;
use crate::parameters::ParameterCounts;
use crate::schedules::StageId;
use crate::schedules::StagePass;
use crate::spec::Recompute;
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_units::Bytes;

/// A task of a graph. Ids follow the canonical order of construction in [`crate::lower()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// An ordered queue of tasks, like a CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// A kind of compute work of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// The kind of work that a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamKind {
    /// Kernels of a stage.
    Compute(StageId),
    /// Activations leaving a stage for the next.
    SendForward(StageId),
    /// Gradients leaving a stage for the one before.
    SendBackward(StageId),
    /// Reductions of a stage's gradients, and the all-gather of updated weights.
    Reduce(StageId),
    /// All-gathers of a stage's weights just before they are needed.
    Gather(StageId),
    /// Copies from a stage's devices to their machines.
    CopyOut(StageId),
    /// Copies from a stage's machines to their devices.
    CopyIn(StageId),
    /// Waits of a measured rank, for data or for other ranks. A simulated rank has gaps instead.
    Wait(StageId),
}

impl StreamKind {
    /// Returns the stage that the stream belongs to.
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

/// A pass of one micro-batch through a chunk of layers in one direction: priced once and used often.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The stage that holds the layers.
    pub stage: StageId,
    /// The range of the model's layers.
    pub layers: Range<usize>,
    /// The direction of the pass.
    pub pass: StagePass,
    /// The activations that are recomputed first (activation checkpointing).
    pub recompute: Recompute,
    /// `true` if gradients are added to those of earlier micro-batches; the first backward pass only writes them.
    pub accumulate: bool,
}

/// The content of a buffer, which decides its number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// Gradients, in the format in which the software sends them.
    Gradients,
    /// Weights, in the format used for compute.
    Weights,
}

/// A collective operation that every rank of a stage runs in its own group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exchange {
    /// The collective operation.
    pub collective: Collective,
    /// The stage whose ranks take part.
    pub stage: StageId,
    /// The kind of group.
    pub group: Group,
    /// The content of the buffer.
    pub content: Content,
    /// The size of the whole buffer: before a reduce-scatter, or after an all-gather.
    pub held: ParameterCounts,
}

/// The direction of a copy between a device and its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CopyDirection {
    /// From a device to main memory or disk.
    DeviceToHost,
    /// From main memory or disk to a device.
    HostToDevice,
}

/// The work of a task, for which a machine model computes a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Kernels, including the communication that tensor, context and expert parallelism put between them inside layers.
    Compute(SegmentId),
    /// The transfer of one micro-batch's activations, or their gradients, between neighbouring stages, on each rank.
    Transfer {
        /// The sender.
        from: StageId,
        /// The receiver.
        to: StageId,
        /// Bytes per rank.
        bytes: Bytes,
    },
    /// A collective of gradients or weights among the ranks that hold copies of them.
    Exchange(Exchange),
    /// The all-reduce of the gradients of the embedding table that the first and last stage share.
    ReduceShared {
        /// The size of the table's gradients on one rank.
        held: ParameterCounts,
    },
    /// A copy between each rank and the main memory or disk of its machine.
    Copy {
        /// The stage whose ranks copy.
        stage: StageId,
        way: CopyDirection,
        /// The store that is copied from or to.
        store: Store,
        /// Bytes per rank.
        bytes: Bytes,
    },
    /// The optimizer's update on the device.
    Update {
        /// The stage whose parameters are updated.
        stage: StageId,
        /// The parameters that one rank updates.
        held: ParameterCounts,
    },
    /// The optimizer's update on the machine's processor.
    HostUpdate {
        /// The stage whose parameters are updated.
        stage: StageId,
        /// The store that holds the optimizer's state.
        store: Store,
        /// The parameters that one rank updates.
        held: ParameterCounts,
    },
}

/// The activity of a task, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// The forward pass of a micro-batch.
    Forward { stage: StageId, micro_batch: u32 },
    /// The backward pass of a micro-batch, or only its gradients of inputs where those of weights are computed apart.
    Backward { stage: StageId, micro_batch: u32 },
    /// The gradients of weights of a micro-batch, where they are computed apart.
    BackwardWeights { stage: StageId, micro_batch: u32 },
    /// A send of activations to the next stage.
    SendActivations {
        /// The sending stage.
        stage: StageId,
        micro_batch: u32,
    },
    /// A send of gradients to the previous stage.
    SendGradients {
        /// The sending stage.
        stage: StageId,
        micro_batch: u32,
    },
    /// A sum of gradients over replicas.
    ReduceGradients {
        stage: StageId,
        /// The number of the gradient bucket.
        bucket: u32,
    },
    /// The sum of the shared embedding table's gradients over the first and last stage.
    ReduceShared,
    /// An all-gather of weights, before they are used or after they were updated.
    GatherWeights {
        stage: StageId,
        /// The first of the layers whose weights are gathered.
        layer: u32,
    },
    /// A copy between device and machine.
    Copy { stage: StageId, way: CopyDirection },
    /// The optimizer's update.
    Update { stage: StageId },
    /// A measured rank sends or receives a micro-batch's activations or gradients.
    Message { stage: StageId, micro_batch: u32 },
    /// A measured rank waits for data, or for other ranks.
    Wait {
        stage: StageId,
        /// The micro-batch that the rank waits for, if it is a single one.
        micro_batch: Option<u32>,
    },
}

impl Activity {
    /// Returns `true` if the activity only moves data.
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

    /// Returns the same activity for a later micro-batch, if it is for one.
    #[must_use]
    pub fn later(mut self, micro_batches: u32) -> Self {
        match &mut self {
            Self::Forward { micro_batch, .. }
            | Self::Backward { micro_batch, .. }
            | Self::BackwardWeights { micro_batch, .. }
            | Self::SendActivations { micro_batch, .. }
            | Self::SendGradients { micro_batch, .. }
            | Self::Message { micro_batch, .. }
            | Self::Wait { micro_batch: Some(micro_batch), .. } => *micro_batch += micro_batches,
            Self::ReduceGradients { .. }
            | Self::ReduceShared
            | Self::GatherWeights { .. }
            | Self::Copy { .. }
            | Self::Update { .. }
            | Self::Wait { micro_batch: None, .. } => {}
        }
        self
    }

    /// Returns `true` if the activity is a pass of a micro-batch through layers.
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

/// A task of a [`TaskGraph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The activity, for display.
    pub activity: Activity,
    /// The work that a machine model prices.
    pub work: Work,
    /// The stream of the task; tasks of a stream run one after another in the order of their ids.
    pub stream: StreamId,
    dependencies: Range<u32>,
}

/// The work of one optimizer step on one rank of each stage, which stands for every rank of the stage.
///
/// A schedule that does not flush has no single step: its graph holds several steps in a row, see [`Self::step_ends`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGraph {
    tasks: Vec<Task>,
    dependencies: Vec<TaskId>,
    streams: Vec<StreamKind>,
    /// Stream ids by kind, for fast lookup: a pipeline has hundreds of streams, and each task looks one up.
    stream_ids: BTreeMap<StreamKind, u32>,
    segments: Vec<Segment>,
    updates: Vec<TaskId>,
}

impl TaskGraph {
    /// Returns the tasks, indexed by id.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the tasks that must end before this one starts, besides those before it on its stream.
    pub fn dependencies(&self, task: TaskId) -> &[TaskId] {
        let range = &self.tasks[task.0 as usize].dependencies;
        &self.dependencies[range.start as usize..range.end as usize]
    }

    /// Returns the streams, indexed by id.
    pub fn streams(&self) -> &[StreamKind] {
        &self.streams
    }

    /// Returns the kinds of compute work, indexed by id.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the tasks that end a step on the first stage, in order: one for each step in the graph.
    pub fn step_ends(&self) -> &[TaskId] {
        &self.updates
    }

    /// Records that a task ends a step on the first stage.
    pub(crate) fn end_step(&mut self, task: TaskId) {
        self.updates.push(task);
    }

    /// Returns the id of the stream of this kind, adding the stream if there is none yet.
    pub fn stream(&mut self, kind: StreamKind) -> StreamId {
        let streams = &mut self.streams;
        let id = *self.stream_ids.entry(kind).or_insert_with(|| {
            streams.push(kind);
            streams.len() as u32 - 1
        });
        StreamId(id)
    }

    /// Adds a kind of compute work and returns its id.
    pub(crate) fn add_segment(&mut self, segment: Segment) -> SegmentId {
        self.segments.push(segment);
        SegmentId(self.segments.len() as u32 - 1)
    }

    /// Appends a task to its stream and returns its id.
    ///
    /// # Panics
    ///
    /// Panics if a dependency is not yet in the graph: tasks are added in an order in which they could run.
    pub fn add(&mut self, activity: Activity, work: Work, stream: StreamId, dependencies: &[TaskId]) -> TaskId {
        let id = TaskId(u32::try_from(self.tasks.len()).expect("a step has fewer than 2^32 tasks"));
        assert!(dependencies.iter().all(|dependency| *dependency < id), "a task may only wait for earlier ones");
        let start = self.dependencies.len() as u32;
        self.dependencies.extend_from_slice(dependencies);
        self.tasks.push(Task { activity, work, stream, dependencies: start..self.dependencies.len() as u32 });
        id
    }
}
