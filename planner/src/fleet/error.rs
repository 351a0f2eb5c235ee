//! Why a fleet cannot be planned.

use crate::answer::NoPlan;
use crate::problem::JobError;
use crate::queue::QueueError;
use trainyard_hardware_profiles::CatalogError;
use trainyard_units::Invalid;

/// An error in a fleet, or the reason why there is no plan for it. `field` is a path in its file, jobs counted from 0:
/// `job[0].count`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// An error in a field that queues have too, or that is read like theirs.
    #[error(transparent)]
    Field(#[from] QueueError),
    /// No instance of the catalog has this name.
    #[error("in `pool.instances`: {0}")]
    Instances(CatalogError),
    /// No instance has a price on these terms.
    #[error(transparent)]
    PriceNotFound(Invalid),
    /// A job wants other instances than the pool has, or other terms.
    #[error("`{field}` is {value}, but `{pool_field}` is {pool_value}: jobs of a fleet run in its pool")]
    Elsewhere {
        /// The field.
        field: String,
        /// The value that was written.
        value: String,
        /// The field of the pool.
        pool_field: &'static str,
        /// The value of that field, written or by default.
        pool_value: String,
    },
    /// A job is wrong by itself.
    #[error("{}", error.invalid().clone().within(&format!("job[{index}]")))]
    Job {
        /// Index of the job, from 0.
        index: usize,
        /// The error in the job.
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
            Self::Field(error) => error.hint(),
            Self::Instances(error) => Some(error.hint()),
            Self::PriceNotFound(error) => error.hint(),
            Self::Elsewhere { field, .. } => Some(format!("leave `{field}` out, or plan the job by itself")),
            Self::Job { error, .. } => error.hint(),
            Self::NoPlan { error, .. } => error.hint(),
        }
    }
}
