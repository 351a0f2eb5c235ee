//! Plans: how a training job is laid out over ranks, and the work that follows from it.
//!
//! A [`PlanSpec`] is a plan as written; a [`Plan`] is one whose parts fit together. [`lower()`] turns a plan into a
//! [`TaskGraph`] of work (operators, bytes) without a single second in it, so that one graph serves every machine.
//! [`resident`] counts the bytes each rank holds. A [`Timeline`] is what happened when, predicted or measured.
//!
//! ```
//! use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec, ScheduleName, Stages};
//!
//! let model = &trainyard_models::find("gpt2-xl")?.model;
//! let layers = model.graph().len();
//! let spec = PlanSpec {
//!     parallel: ParallelSpec { data: 2, pipeline: 4, ..ParallelSpec::default() },
//!     batch: BatchSpec { global: 64, micro: 2, accumulation: 16 },
//!     schedule: ScheduleName::OneForwardOneBackward,
//!     stages: Stages::balanced(&vec![1.0; layers], 4).expect("more layers than stages").specs(),
//!     ..PlanSpec::plain(model.spec(), ClusterSpec::of("p3.16xlarge", 1), layers)
//! };
//! let plan = Plan::try_from(spec.clone())?;
//! assert_eq!(plan.mesh().ranks(), 8);
//! // What does not fit together is refused, with the field.
//! let uneven = PlanSpec { batch: BatchSpec { global: 63, ..spec.batch }, ..spec };
//! assert!(Plan::try_from(uneven).expect_err("63 samples for 2 × 2 × 16").to_string().contains("batch"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Words and numbers that the rest is written with.
mod divisors;
mod name;

// A plan as written: its parts, then the whole.
mod fine_tuning;
mod input;
mod offload;
mod placement;
mod schedules;
mod spec;

// Plans whose parts fit together, and what follows from one.
mod check;
mod collective;
mod executable;
mod fields;
mod held_by_kinds;
mod layer_memory;
mod mesh;
mod parameters;
mod partition;
mod sharding;
mod stage_words;
mod valid;

// The work of a step, the memory that it takes, and what happens in it.
mod lower;
mod memory;
mod rates;
mod task;
mod timeline;
mod trace;

// Jobs, and the documents that answer them.
pub mod document;
mod job;
pub mod list;

pub use check::{BATCH_MAX, RANKS_MAX, StepSize};
pub use collective::Collective;
pub use divisors::{divisors, greatest_common_divisor};
pub use document::campaign::{
    CAMPAIGN_SCHEMA, CampaignDocument, CampaignPhases, CheckpointUse, Histogram, Interruptions, Quantiles, Scenario,
};
pub use document::explanation::{
    CostPart, Difference, EXPLANATION_SCHEMA, ExplainedPlan, ExplanationDocument, PathKind, PathPart,
};
pub use document::launch::{Assumption, Blank, LAUNCH_SCHEMA, LaunchDocument, LaunchFile};
pub use document::replay::{GraphNode, GraphWork, REPLAY_SCHEMA, RankGraph, ReplayDocument};
pub use document::what_if::{Sensitivity, VariedKey, WHAT_IF_SCHEMA, WhatIfCase, WhatIfDocument, WhatIfFigures};
pub use executable::{EXECUTABLE, Executable, NotExecutable, Offloads, executor_trains, not_executable};
pub use fields::{Field, Fixed};
pub use fine_tuning::{BaseFormat, DpoSpec, FineTuningSpec, LoraSpec, Method, Reference, TuningKind, TuningObjective};
pub use input::{Bottleneck, Cache, DecodePlace, INPUT_COUNT_MAX, InputSpec, SampleFormat, StorageMode};
pub use job::{
    CHECKPOINT_MARGIN, CampaignSpec, CheckpointStorage, ClusterChoice, DataSpec, Decay, DecayExempt, DropoutShares,
    EvaluationSpec, GlobalBatch, GoalSpec, HyperParameters, JobSpec, LearningRate, ModelChoice, Objective, REQUEUE,
    StartKind, TrainingSpec, Volume, longest_lead, place_at, signal_lead,
};
pub use lower::{Lowering, Repetition, Shortened, UpdatedWeights, lower, lower_shortened};
pub use memory::{
    Lifetime, Resident, Retention, checkpoint_bytes, checkpoint_bytes_of, kept_activations_with, kept_elsewhere,
    least_optimizer_state, resident, resident_with,
};
pub use mesh::{Coordinates, Group, Mesh, Rank};
pub use offload::{Offload, Store};
pub use parameters::{Chain, ParameterCounts};
pub use partition::Stages;
pub use placement::{Axis, Placement};
pub use rates::{CollectiveCurve, OperatorRate, Roofline};
pub use schedules::{
    Accumulation, BetweenSteps, Pipeline, Schedule, ScheduleName, Slot, Sought, StageId, StagePass, StepBound,
};
pub use spec::{
    BatchSpec, ClusterSpec, Collectives, GradientCompression, GradientReduction, Optimizer, ParallelSpec, PlanSpec,
    Precision, Pricing, Recompute, StageSpec, StateSharding,
};
pub use task::{
    Activity, Content, CopyDirection, Exchange, Segment, SegmentId, StreamId, StreamKind, Task, TaskGraph, TaskId, Work,
};
pub use timeline::{Counted, Interval, StageUse, Timeline, Usage, counted};
pub use trace::{
    Between, Direction, Message, RankTrace, Seat, StepTrace, TraceDetail, TracedKernels, TracedPart, TracedTask,
    TracedWork,
};
pub use valid::{Architecture, Plan};

/// The operators that work is made of, for those who price it.
pub mod operators {
    pub use trainyard_models::{
        Attention, AttentionKernel, Convolution, DropoutSpec, Gemm, Image, Layer, LayerRole, Mask, Operator,
        OperatorGraph, OperatorKind, Pass, Places, Pool, Quantization, Routing, Sequential, Sharing, Storage, Tuned,
        nf4_bytes,
    };
}
