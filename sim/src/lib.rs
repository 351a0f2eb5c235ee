//! How long a plan takes on a machine: pure cost functions, a discrete-event engine, and what fits into memory.
//!
//! [`Prices`] turns work into seconds, [`run`] puts priced tasks in time, [`simulate()`] does both and sums up, and
//! [`step_time_bound`] gives a closed-form lower bound on what [`simulate()`] would say. [`des`] queues events and
//! [`network`] shares links among transfers. Nothing here knows that a search is going on, and nothing reads a clock or
//! a file.

mod bound;
mod capacity;
mod cost;
pub mod des;
mod engine;
mod machine;
pub mod network;
mod placement;
mod simulate;
mod wiring;

pub use bound::step_time_bound;
pub use capacity::{Footprint, OutOfMemory, footprint};
pub use cost::{
    Collective, LayerPrice, LayerPrices, Operation, Phase, Prices, all_reduce_time, collective_time, layer_prices,
    transfer_time,
};
pub use engine::run;
pub use machine::{Machine, MachineError};
pub use simulate::{Outcome, simulate, step_time};
pub use wiring::{LinkId, Path, Wiring};
