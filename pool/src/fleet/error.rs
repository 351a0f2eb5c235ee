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
            Self::Invalid(error) => error.hint(),
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
        JobError::Unpriced(inner) => inner.within(&format!("{part}.cluster")).to_string(),
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
