//! Why a fleet cannot be planned.

use crate::answer::NoPlan;
use crate::problem::JobError;
use crate::problem::Unpriced;
use crate::queue::QueueError;
use trainyard_hardware_profiles::CatalogError;

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
    #[error("{}", .0.in_table("pool"))]
    Unpriced(Box<Unpriced>),
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
    #[error("{}", placed(error, &format!("job[{index}]")))]
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
            Self::Unpriced(error) => Some(error.hint()),
            Self::Elsewhere { field, .. } => Some(format!("leave `{field}` out, or plan the job by itself")),
            Self::Job { error, .. } => error.hint(),
            Self::NoPlan { error, .. } => error.hint(),
        }
    }
}

/// Formats the error of a job that is a part of another file, with the paths of its fields in that file.
fn placed(error: &JobError, part: &str) -> String {
    match error {
        JobError::Model(inner) => format!("in `{part}.model`: {inner}"),
        JobError::Target(inner) => format!("in `{part}.training.target`: {inner}"),
        JobError::DataSet(inner) => format!("in `{part}.data.dataset`: {inner}"),
        JobError::Catalog { field, error } => format!("in `{part}.{field}`: {error}"),
        JobError::Missing { field, why } => format!("`{part}.{field}` is missing: {why}"),
        JobError::Conflict { first, second, rule } => {
            format!("`{part}.{first}` and `{part}.{second}` exclude each other: {rule}")
        }
        JobError::Invalid { field, value, allowed } => format!("`{part}.{field}` is {value}, but it must be {allowed}"),
        JobError::Unpriced(inner) => inner.in_table(&format!("{part}.cluster")),
        JobError::OverQuota { why } => format!("in `{part}.cluster.quotas`: {why}"),
        JobError::ClusterFile { .. }
        | JobError::NoSpotBand { .. }
        | JobError::Input(_)
        | JobError::UnableStack { .. }
        | JobError::Software(_) => {
            format!("in `{part}`: {error}")
        }
    }
}
