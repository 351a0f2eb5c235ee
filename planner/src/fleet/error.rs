//! Why a fleet cannot be planned.

use crate::job::JobError;
use crate::queue::QueueError;
use crate::recommendation::NoPlan;
use crate::unpriced::Unpriced;
use trainyard_hardware_profiles::CatalogError;

/// What is wrong with a fleet, or why there is no plan for it. `field` is a path in its file, jobs counted from 0:
/// `job[0].count`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// A field that queues have too, or that is read as theirs are.
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
        /// What was written.
        value: String,
        /// The field of the pool.
        pool_field: &'static str,
        /// What is written there, or stands for nothing.
        pool_value: String,
    },
    /// A job is wrong by itself.
    #[error("{}", placed(error, &format!("job[{index}]")))]
    Job {
        /// Which.
        index: usize,
        /// What is wrong with it.
        error: Box<JobError>,
    },
    /// A job has no plan on any instances of the pool.
    #[error("`job[{index}]`, {name}, cannot run in this pool: {error}")]
    NoPlan {
        /// Which.
        index: usize,
        /// What it is called.
        name: String,
        /// Why.
        error: Box<NoPlan>,
    },
}

impl FleetError {
    /// What the user may do about it.
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

/// What is wrong with a job, its fields told as those of a part of another file.
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
