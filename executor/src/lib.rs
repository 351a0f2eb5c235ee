//! Runs plans: a [`Plan`](trainyard_plan::Plan) trains through Burn on the processors of this machine, or on its GPUs
//! (features `cuda` and `wgpu`).
//!
//! Ranks are threads of one process or of several, joined by a [`process_group`]; [`run()`] trains a model on real data
//! as its plan cuts it, writes checkpoints, and measures every step.
//!
//! ```
//! use trainyard_executor::process_group::{GroupError, Reduction, World, run_ranks};
//!
//! // Four ranks in threads of this process add up what each of them has.
//! let sums = run_ranks(&World::threads(4), |group| -> Result<f32, GroupError> {
//!     let mut values = vec![group.rank() as f32; 8];
//!     group.all_reduce(&mut values, Reduction::Sum)?;
//!     Ok(values[7])
//! });
//! for sum in sums {
//!     assert_eq!(sum.expect("no rank fails"), 6.0);
//! }
//! ```

#![allow(
    clippy::cast_possible_wrap,
    reason = "Burn counts rows and ids with signs; sizes of tensors are far below 2³¹"
)]
#![allow(clippy::needless_for_each, reason = "chains of iterators may end in one")]
#![cfg_attr(test, allow(clippy::float_cmp, reason = "what is copied or rounded comes back bit for bit"))]
#![cfg_attr(test, allow(clippy::print_stdout, reason = "a test that is run by hand prints rates"))]

mod device;
#[cfg(test)]
mod golden;
mod groups;
mod guard;
mod kernels;
mod loader;
mod measure;
mod memory;
mod network;
mod optimizer;
mod precision;
pub mod process_group;
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

pub use device::{DeviceError, Devices, Speed, describe, framework};
pub use measure::{
    MeasureError, MeasureProgress, MeasureSettings, copy_bandwidth, device_formats, measure_collectives,
    measure_collectives_of, measure_operators, measure_overlap, measure_overlap_of, measure_these, replace, untimed,
};
pub use memory::{AllocationMeter, MemoryShortage};
pub use optimizer::HyperParameters;
pub use refusal::{oversubscription, refusal};
pub use report::{
    CheckpointReport, DeviceReport, HeldOutReport, LossReport, MEASUREMENT_SCHEMA, Phase, RankReport, ResumedFrom,
    RunEnd, RunEvent, RunReport, SlowRank, Span, StepReport,
};
pub use run::{Evaluation, RunError, RunOptions, RunOutcome, check_weights, run, run_in};
pub use weights::{Differences, WeightError, dropout_beside};
