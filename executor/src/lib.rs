//! Runs plans: a [`Plan`](trainyard_plan::Plan) trains through Burn on the processors of this machine.
//!
//! Ranks are threads of one process, joined by a [`process_group`]; [`run()`] trains a byte-level decoder on real text
//! with data parallelism, a pipeline and gradient accumulation, writes checkpoints, and measures every step.

mod checkpoint;
mod clock;
mod data;
#[cfg(test)]
mod golden;
mod groups;
mod guard;
mod kernels;
mod learning_rate;
mod measure;
mod memory;
mod network;
mod optimizer;
mod precision;
pub mod process_group;
mod random;
mod reducer;
mod refusal;
mod report;
mod run;
mod slow_ranks;
mod statistics;
mod tape;
mod trainer;
mod unit;
mod weights;

pub use checkpoint::{CHECKPOINT_SCHEMA, CheckpointError, DataEntry, FileEntry, LossScalerState, Manifest, Progress};
pub use clock::Clock;
pub use data::{BYTE_VOCABULARY, DataError, DataSource, Dataset, HELD_OUT_MAX, SYNTHETIC, Wanted};
pub use learning_rate::LearningRate;
pub use measure::{
    MeasureError, MeasureProgress, MeasureSettings, copy_bandwidth, measure_collectives, measure_collectives_of,
    measure_operators, measure_overlap, measure_overlap_of,
};
pub use memory::{AllocationMeter, MemoryShortage, available_memory, check_memory};
pub use optimizer::Rule;
pub use refusal::{Refusal, cores, oversubscription, refusal, threads_per_rank};
pub use report::{
    CheckpointReport, DataReport, DeviceReport, LossReport, MEASUREMENT_SCHEMA, Phase, RankReport, RunEnd, RunReport,
    Span, StepPhases, StepReport,
};
pub use run::{FRAMEWORK, RunError, RunOptions, RunOutcome, run, run_in, write_report};
pub use slow_ranks::SlowRank;
pub use weights::{Differences, FirstWeights, WeightError};
