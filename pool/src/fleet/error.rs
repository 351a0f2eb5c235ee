//! Errors of fleets.

use trainyard_planner::{JobError, NoPlan};
use trainyard_units::Invalid;

/// An error in a fleet, or the reason why there is no plan for it. Fields are paths in its file, jobs counted from 0:
/// `job[0].count`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// An error in a field of the fleet.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A job is wrong by itself.
    #[error("{}", error.invalid().clone().within(&format!("job[{index}]")))]
    Job {
        /// Index of the job, from 0.
        index: usize,
        error: Box<JobError>,
    },
    /// A job has no plan on any instances of the pool.
    #[error("`job[{index}]`, {name}, cannot run in this pool: {error}")]
    NoPlan {
        /// Index of the job, from 0.
        index: usize,
        /// The job's name.
        name: String,
        /// The reason.
        error: Box<NoPlan>,
    },
}

impl FleetError {
    /// Returns advice on how to fix the fleet.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Invalid(error) => error.hint(),
            Self::Job { error, .. } => error.hint(),
            Self::NoPlan { error, .. } => error.hint(),
        }
    }
}
