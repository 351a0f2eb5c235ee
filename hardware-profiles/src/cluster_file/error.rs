//! Why a cluster file does not describe a cluster.

use crate::catalog::{CatalogError, catalog};

/// The reason for a missing value that a machine type could have provided.
pub(super) const NEITHER: &str = "write it, or take it from a machine type of the catalog by `like`";

/// An error in a cluster file. `field` is a path in the file, with kinds of machines and switches counted from 0:
/// `machines[0].network.bandwidth`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterFileError {
    /// No GPU of the catalog has this name.
    #[error("in `{field}`: {error}")]
    UnknownGpu {
        /// The field.
        field: String,
        /// The name that was not found.
        error: CatalogError,
    },
    /// No processor of the catalog has this name.
    #[error("in `{field}`: {error}")]
    UnknownProcessor {
        /// The field.
        field: String,
        /// The name that was not found.
        error: CatalogError,
    },
    /// No machine type of the catalog has this name.
    #[error("in `{field}`: {error}")]
    UnknownMachine {
        /// The field.
        field: String,
        /// The name that was not found.
        error: CatalogError,
    },
    /// The NVLinks of the machine type in `like` connect another number of GPUs.
    #[error("`{field}.gpus` is {gpus}, but it must be {wired}: the NVLinks of `{like}` join GPUs 0 to {}", wired - 1)]
    OtherWiring {
        /// The kind of machines.
        field: String,
        /// The number of GPUs as written.
        gpus: u32,
        /// The machine type.
        like: String,
        /// Number of GPUs that its NVLinks connect.
        wired: u32,
    },
    /// A value is out of range.
    #[error("`{field}` is {value}, but it must be {allowed}")]
    Invalid {
        /// The field.
        field: String,
        /// The value as written.
        value: String,
        /// The values allowed.
        allowed: String,
    },
    /// A required value is missing.
    #[error("`{field}` is missing: {why}")]
    Missing {
        /// The field.
        field: String,
        /// The reason why it is required.
        why: &'static str,
    },
    /// A link ends at a GPU that does not exist.
    #[error("`{field}` names GPU {gpu}, but a machine has GPUs 0 to {}", gpus - 1)]
    NoSuchGpu {
        /// The field.
        field: String,
        /// The GPU as written.
        gpu: u32,
        /// Number of GPUs of the machine.
        gpus: u32,
    },
    /// Two entries describe the links between the same GPUs.
    #[error("`{field}` describes the links between GPUs {} and {} again", pair.0, pair.1)]
    DuplicateLink {
        /// The field.
        field: String,
        /// The two GPUs.
        pair: (u32, u32),
    },
    /// No link leads to a GPU.
    #[error("no link and no PCIe leads from GPU 0 to GPU {gpu} of `{field}`")]
    Unreachable {
        /// The kind of machines.
        field: String,
        /// The GPU.
        gpu: u32,
    },
    /// The machines need more ports than the switches have.
    #[error("`switches` have room for {room} machines, but there are {machines}")]
    TooFewPorts {
        /// Number of machines below one switch of the highest level.
        room: u64,
        /// Number of machines of all kinds.
        machines: u64,
    },
    /// There are too many devices.
    #[error("the machines have {devices} GPUs together, but there may be at most {most}")]
    TooManyDevices {
        /// Number of GPUs of all machines.
        devices: u64,
        /// The largest number accepted.
        most: u64,
    },
}

impl ClusterFileError {
    /// Returns a suggestion for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownGpu { error: CatalogError { similar: Some(similar), .. }, .. }
            | Self::UnknownProcessor { error: CatalogError { similar: Some(similar), .. }, .. } => {
                Some(format!("did you mean `{similar}`?"))
            }
            Self::UnknownProcessor { .. } => {
                let known: Vec<&str> = catalog().processors().iter().map(|own| own.name.as_str()).collect();
                Some(format!("known are {}", known.join(", ")))
            }
            Self::UnknownGpu { .. } => Some(
                "`trainyard show gpus` lists the catalog; gpu = { name = …, memory = …, … } describes another".into(),
            ),
            Self::UnknownMachine { error, .. } => Some(error.hint()),
            Self::OtherWiring { field, .. } => {
                Some(format!("leave `gpus` out, or write `{field}.link` with the links between your GPUs"))
            }
            Self::Missing { why, .. } if *why == NEITHER => {
                Some("like = \"p3dn.24xlarge\" names one; `trainyard show instances` lists them".into())
            }
            Self::Missing { field, .. } if field.ends_with(".network") => {
                Some("network = { bandwidth = \"100 Gbit/s\", transport = \"tcp\" }".into())
            }
            Self::Unreachable { field, .. } => {
                Some(format!("add it to `{field}.link.links`, or state `{field}.host.pcie`"))
            }
            Self::DuplicateLink { .. } => Some("write each pair once, with the number of its links".into()),
            Self::TooFewPorts { .. } => Some("raise `ports`, or add a level of switches".into()),
            Self::Invalid { .. } | Self::Missing { .. } => {
                Some("quantities have a unit, as in \"80 GiB\", \"900 GB/s\", \"100 Gbit/s\"".into())
            }
            Self::NoSuchGpu { .. } => Some("GPUs of a machine are counted from 0".into()),
            Self::TooManyDevices { .. } => Some("describe fewer machines, or a part of the cluster".into()),
        }
    }
}
