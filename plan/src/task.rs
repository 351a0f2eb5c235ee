//! Task graphs: the work of one optimizer step, with its order and dependencies, and not a second in it.

use crate::parameters::Held;
use crate::partition::StageId;
use std::ops::Range;
use trainyard_models::Pass;
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
    /// Reductions of a stage's gradients.
    Reduce(StageId),
}

/// A run of layers in one direction for one micro-batch: the unit that is priced once and used often.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Whose layers.
    pub stage: StageId,
    /// Which of the model's layers.
    pub layers: Range<usize>,
    /// Which direction.
    pub pass: Pass,
    /// Whether the forward pass is computed again first.
    pub recompute: bool,
    /// Whether gradients are added to those of earlier micro-batches; backward of the first one only writes them.
    pub accumulate: bool,
}

/// What a task asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Kernels, with the reductions that tensor parallelism puts between them.
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
    /// Gradients summed over the replicas of a stage.
    ReduceGradients {
        /// Whose gradients.
        stage: StageId,
        /// Of one rank.
        held: Held,
    },
    /// Gradients of the table that the first and last stage share, summed over the two.
    ReduceShared {
        /// Of one rank.
        held: Held,
    },
    /// The optimizer's update.
    Update {
        /// Whose parameters.
        stage: StageId,
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
    /// Backward of a micro-batch.
    Backward {
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
    /// The optimizer's update.
    Update {
        /// Where.
        stage: StageId,
    },
}

impl Activity {
    /// Whether it only moves data.
    pub fn is_communication(self) -> bool {
        !matches!(self, Self::Forward { .. } | Self::Backward { .. } | Self::Update { .. })
    }
}

impl std::fmt::Display for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forward { micro_batch, .. } => write!(f, "forward {micro_batch}"),
            Self::Backward { micro_batch, .. } => write!(f, "backward {micro_batch}"),
            Self::SendActivations { micro_batch, .. } => write!(f, "send activations {micro_batch}"),
            Self::SendGradients { micro_batch, .. } => write!(f, "send gradients {micro_batch}"),
            Self::ReduceGradients { bucket, .. } => write!(f, "all-reduce gradients {bucket}"),
            Self::ReduceShared => write!(f, "all-reduce shared embedding"),
            Self::Update { .. } => write!(f, "optimizer update"),
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

/// The work of one optimizer step on one representative rank of each stage: replicas and tensor-parallel ranks do
/// the same at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskGraph {
    tasks: Vec<Task>,
    dependencies: Vec<TaskId>,
    streams: Vec<StreamKind>,
    segments: Vec<Segment>,
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

    /// The id of a stream, which is made if there is none yet.
    pub fn stream(&mut self, kind: StreamKind) -> StreamId {
        let index = self.streams.iter().position(|known| *known == kind).unwrap_or_else(|| {
            self.streams.push(kind);
            self.streams.len() - 1
        });
        StreamId(index as u32)
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
