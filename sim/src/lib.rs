//! The time of a plan on a machine: pure cost functions, a discrete-event engine, and what fits into memory.
//!
//! [`Costs`] turns work into seconds and into what it asks of links, [`simulate()`] puts it in time and sums up, and
//! [`step_time_bound`] gives a closed-form lower bound on what [`simulate()`] would say. Nothing here knows that a
//! search is going on, and nothing reads a clock or a file.
//!
//! ```
//! use trainyard_hardware_profiles::catalog;
//! use trainyard_plan::{BatchSpec, ClusterSpec, ParallelSpec, Plan, PlanSpec};
//! use trainyard_sim::{Machine, simulate, step_time_bound};
//!
//! let model = &trainyard_models::find("gpt2")?.model;
//! let plan = Plan::try_from(PlanSpec {
//!     parallel: ParallelSpec { data: 8, ..ParallelSpec::default() },
//!     batch: BatchSpec { global: 64, micro: 8, accumulation: 1 },
//!     ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
//! })?;
//! let machine =
//!     Machine { cluster: catalog().cluster("p4d.24xlarge", 1)?, stack: catalog().stack("pytorch")?.clone() };
//! let outcome = simulate(&plan, &machine)?;
//! assert!(step_time_bound(&plan, &machine)? <= outcome.step_time);
//! assert!(outcome.exposed_communication < outcome.step_time);
//! assert!(outcome.footprint.fits().is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Events in time and flows over links, which know no training word.
pub mod des;
mod engine;
pub mod network;
mod recurrence;

// Machines, and what work costs on them.
mod cost;
mod layout;
mod machine;
mod variation;
mod wiring;

// A step: whether it fits into memory, how long it takes at least, and how long it takes.
mod bottleneck;
mod bound;
mod capacity;
mod ensemble;
mod evaluation;
mod fold;
mod shortened;
mod simulate;
mod step;
mod stretches;

// What happens in a step, and steps of other programs.
mod critical_path;
mod replay;
mod trace;

// Around a step: its samples, the whole training, and other trainings.
pub mod campaign;
mod input;

pub use bottleneck::{StepLimits, bottleneck, step_limits};
pub use bound::{Communications, step_time_bound, step_time_bound_with};
pub use capacity::{Footprint, OutOfMemory, SharedStore, footprint, held_by_layers, longest_chunks, usable};
pub use cost::{
    Computed, Costs, LayerCost, LayerCosts, LayerKernels, LayerTable, LayerWaits, Operation, Phase, Placed,
    all_reduce_time, cases_of_layers, cases_of_update, collective_time, collective_time_by, expected_max_sigma,
    far_from_timed, layer_costs, product_time, roofline, transfer_time, work_of_operator,
};
pub use critical_path::{Spread, critical_path, on_several_machines, spread};
pub use evaluation::{evaluation_time, evaluation_time_with, micro_batches};
pub use input::{Copies, DataSet, InputStall, Intake, LoaderRates, StageTimes, copies, image_decoding};
pub use machine::{CLOCK, Machine, MachineError};
pub use network::LinkId;
pub use replay::{Replay, replay};
pub use simulate::{
    Outcome, least_step_time, memory_needed, rank_timelines, simulate, simulate_with, step_time, step_time_with,
};
pub use step::Options;
pub use trace::step_trace;
pub use variation::Variation;
pub use wiring::{ENCRYPTED_SHARE, Path, Wiring};
