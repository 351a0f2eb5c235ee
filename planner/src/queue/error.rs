//! Why a queue cannot be simulated.

use trainyard_hardware_profiles::CatalogError;
use trainyard_units::Invalid;

/// An error in a queue. `field` is a path in its file, jobs counted from 0: `job[0].duration`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// Something that is needed is absent.
    #[error("`{field}` is missing: {why}")]
    Missing {
        /// The field.
        field: String,
        /// The purpose of the missing field, and what to write.
        why: &'static str,
    },
    /// A value is out of range.
    #[error("`{field}` is {value}, but it must be {allowed}")]
    Invalid {
        /// The field.
        field: String,
        /// The value that was written.
        value: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// Jobs would outlast the clock of a simulation.
    #[error("`job` asks for {value}, but at most {} can be simulated", crate::queue::valid::MOST_WORK)]
    TooLong {
        /// The time that the jobs would take, in words.
        value: String,
    },
    /// Two fields exclude each other.
    #[error("`{first}` and `{second}` exclude each other: {rule}")]
    Conflict {
        /// One field.
        first: String,
        /// The other.
        second: String,
        /// The rule that the two fields break.
        rule: &'static str,
    },
    /// No instance of the catalog has this name.
    #[error("in `pool.instance`: {0}")]
    Instance(CatalogError),
    /// The instance has no price on these terms.
    #[error(transparent)]
    PriceNotFound(Invalid),
    /// A job never fits into the pool.
    #[error("`{field}` asks for {instances} instances, but `pool.max_instances` is {quota}: the job could never start")]
    TooWide {
        /// The field.
        field: String,
        /// Instances of the job.
        instances: u32,
        /// Instances of the pool.
        quota: u32,
    },
    /// The plan of a job is for other machines.
    #[error("`{field}` is a plan for {found}, but `pool.instance` is {pool}")]
    OtherType {
        /// The field.
        field: String,
        /// The type of the plan.
        found: String,
        /// The type of the pool.
        pool: String,
    },
    /// Two kinds of jobs have one name.
    #[error("`{field}` is `{name}`, as another job is called already")]
    SameName {
        /// The field.
        field: String,
        /// The name.
        name: String,
    },
}

impl QueueError {
    /// Returns advice on how to fix the queue.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Instance(error) => Some(error.hint()),
            Self::PriceNotFound(error) => error.hint(),
            Self::TooWide { .. } => Some("raise the quota, or give the job fewer instances".into()),
            Self::OtherType { found, .. } => Some(format!(
                "a pool has one type of instances: write a queue for {found}, or plan the job with --instances"
            )),
            Self::SameName { .. } => {
                Some("write count = N for several jobs of a kind, or call them differently".into())
            }
            Self::TooLong { .. } => Some("lower the number of jobs, or what each of them is trained on".into()),
            Self::Missing { .. } | Self::Invalid { .. } | Self::Conflict { .. } => None,
        }
    }
}
