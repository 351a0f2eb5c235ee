//! Plans: how a training job is laid out over ranks, and the work that follows from it.
//!
//! A [`PlanSpec`] is a plan as written; a [`Plan`] is one whose parts fit together. [`lower()`] turns a plan into a
//! [`TaskGraph`] of work (operators, bytes) without a single second in it, so that one graph serves every machine.
//! [`resident`] counts the bytes each rank holds. A [`Timeline`] is what happened when, predicted or measured.

pub mod document;
mod job;
mod lower;
mod memory;
mod mesh;
mod parameters;
mod partition;
mod schedule;
mod spec;
mod task;
mod timeline;
mod valid;

pub use job::{ClusterChoice, DataSpec, GlobalBatch, GoalSpec, JobSpec, ModelChoice, Objective, TrainingSpec, Volume};
pub use lower::{Lowering, lower};
pub use memory::{Resident, resident};
pub use mesh::{Coordinates, Mesh, Rank};
pub use parameters::Held;
pub use partition::{StageId, Stages};
pub use schedule::{Slot, peak_in_flight, program};
pub use spec::{
    BatchSpec, ClusterSpec, Collectives, Optimizer, ParallelSpec, PlanSpec, Precision, Pricing, Recompute,
    ScheduleName, StageSpec, UnknownName,
};
pub use task::{Activity, Segment, SegmentId, StreamId, StreamKind, Task, TaskGraph, TaskId, Work};
pub use timeline::{Interval, StageUse, Timeline};
pub use valid::{Plan, PlanError, is_simulable};

/// The operators that work is made of, for those who price it.
pub mod operators {
    pub use trainyard_models::{
        Attention, AttentionKernel, Gemm, Layer, LayerRole, OperatorGraph, OperatorKind, Pass, Sharing, Storage,
    };
}
