//! What is wrong with a job.

use super::price_not_found::Unpriced;
use super::software::SoftwareError;
use trainyard_hardware_profiles::{CatalogError, ClusterFileError, DEFAULT_STACK};
use trainyard_models::{ConvergenceError, ModelError, UnknownDataSet};
use trainyard_sim::InputError;

/// The reason why a job cannot be solved as it is written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JobError {
    /// The model is not one.
    #[error("in `model`: {0}")]
    Model(#[from] ModelError),
    /// The target is not one, or not one of this model.
    #[error("in `training.target`: {0}")]
    Target(#[from] ConvergenceError),
    /// The data set is not one.
    #[error("in `data.dataset`: {0}")]
    DataSet(#[from] UnknownDataSet),
    /// An instance or stack does not exist.
    #[error("in `{field}`: {error}")]
    Catalog {
        /// The field.
        field: &'static str,
        /// The failed look-up.
        error: CatalogError,
    },
    /// Something that is needed is absent.
    #[error("`{field}` is missing: {why}")]
    Missing {
        /// The field.
        field: &'static str,
        /// The purpose of the missing field, and what to write.
        why: &'static str,
    },
    /// Two fields exclude each other.
    #[error("`{first}` and `{second}` exclude each other: {rule}")]
    Conflict {
        /// One field.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The rule that the two fields break.
        rule: &'static str,
    },
    /// A value is out of range.
    #[error("`{field}` is {value}, but it must be {allowed}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The value that was written.
        value: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// The cluster file does not describe a cluster.
    #[error("in the cluster file `{path}`: {error}")]
    ClusterFile {
        /// The file.
        path: String,
        /// The error in the file.
        error: ClusterFileError,
    },
    /// Nobody published how often a spot instance is reclaimed.
    #[error("how often spot instances {instance} are reclaimed in {region} is not known")]
    NoSpotBand {
        /// The instance type.
        instance: String,
        /// The Region that was asked for.
        region: String,
        /// Regions in which it is known.
        regions: Vec<String>,
    },
    /// Samples cannot be loaded as the job says, on any of its machines.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The stack cannot train the model.
    #[error("`cluster.stack` is {value}, which does not train {model}")]
    UnableStack {
        /// The stack.
        value: String,
        /// The model.
        model: String,
        /// The stacks of today that can.
        others: Vec<String>,
    },
    /// A stack is described in words that plans do not have.
    #[error(transparent)]
    Software(#[from] SoftwareError),
    /// No instance has a price on these terms.
    #[error("{}", .0.in_table("cluster"))]
    Unpriced(Box<Unpriced>),
    /// Quotas leave no instance.
    #[error("in `cluster.quotas`: {why}")]
    OverQuota {
        /// The instances that need more, and how much more.
        why: String,
    },
}

impl From<Unpriced> for JobError {
    fn from(error: Unpriced) -> Self {
        Self::Unpriced(Box::new(error))
    }
}

impl JobError {
    /// Returns advice on how to fix the job.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Model(error) => error.hint(),
            Self::Target(error) => Some(error.hint()),
            Self::DataSet(error) => Some(error.hint()),
            Self::Catalog { error, .. } => Some(error.hint()),
            Self::ClusterFile { error, .. } => error.hint(),
            Self::NoSpotBand { regions, .. } if regions.is_empty() => Some("write campaign.monthly_reclaims".into()),
            Self::NoSpotBand { regions, .. } => {
                Some(format!("write campaign.monthly_reclaims, or use one of {}", regions.join(", ")))
            }
            Self::Input(error) => error.hint(),
            Self::Unpriced(error) => Some(error.hint()),
            Self::UnableStack { others, .. } => Some(match others.as_slice() {
                [] => format!("none of the stacks of today can; `--stack {DEFAULT_STACK}` predicts what it would take"),
                others => format!("use one of {}, or `auto`", others.join(", ")),
            }),
            Self::Software(_) => {
                Some("the words are those of plan documents; `trainyard schemas` writes plan.json, their schema".into())
            }
            Self::OverQuota { .. } => {
                Some("ask AWS for more (Service Quotas), or allow other types in cluster.instances".into())
            }
            Self::Conflict { first, second, .. } => {
                Some(format!("leave `{first}` or `{second}` out, or change one of them"))
            }
            Self::Missing { .. } | Self::Invalid { .. } => Some(
                "`trainyard schemas` writes job.json, which describes every field of a job with its unit and its \
                     default"
                    .into(),
            ),
        }
    }
}

pub(crate) fn invalid(field: &'static str, value: impl std::fmt::Display, allowed: impl Into<String>) -> JobError {
    JobError::Invalid { field, value: value.to_string(), allowed: allowed.into() }
}
