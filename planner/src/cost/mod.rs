//! Time and money around the steps of a training: start-up, checkpoints, reclaims, storage, and the rent of machines.

mod chance;
mod overheads;
mod rent;
mod run_conditions;

pub(crate) use chance::{add_chances, spread_of};
pub use chance::{chance_of_deviations, interval_between};
pub(crate) use overheads::{JOB_OF_A_STEP, Overheads, TrainingCost, Work};
pub(crate) use rent::Rent;
pub use rent::checkpoint_time;
pub(crate) use run_conditions::{Rented, RunConditions, Saved, operations, ranks_of_state};
