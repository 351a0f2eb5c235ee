//! Why a cluster file does not describe a cluster.

use crate::catalog::{CatalogError, catalog};

/// Why something is needed that a machine type could have brought.
pub(super) const NEITHER: &str = "write it, or take it from a machine type of the catalog by `like`";

/// What is wrong with a cluster file. `field` is a path in it, kinds of machines and switches counted from 0:
/// `machines[0].network.bandwidth`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterFileError {
    /// No GPU of the catalog has this name.
    #[error("in `{field}`: {error}")]
    UnknownGpu {
        /// The field.
        field: String,
        /// What is not there.
        error: CatalogError,
    },
    /// No processor of the catalog has this name.
    #[error("in `{field}`: {error}")]
    UnknownProcessor {
        /// The field.
        field: String,
        /// What is not there.
        error: CatalogError,
    },
    /// No machine type of the catalog has this name.
    #[error("in `{field}`: {error}")]
    UnknownMachine {
        /// The field.
        field: String,
        /// What is not there.
        error: CatalogError,
    },
    /// NVLinks that are carried over from a machine type join other GPUs than there are.
    #[error("`{field}.gpus` is {gpus}, but it must be {wired}: the NVLinks of `{like}` join GPUs 0 to {}", wired - 1)]
    OtherWiring {
        /// The kind of machines.
        field: String,
        /// What was written.
        gpus: u32,
        /// The machine type.
        like: String,
        /// GPUs that its NVLinks join.
        wired: u32,
    },
    /// A value is out of range.
    #[error("`{field}` is {value}, but it must be {allowed}")]
    Invalid {
        /// The field.
        field: String,
        /// What was written.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Something that is needed is absent.
    #[error("`{field}` is missing: {why}")]
    Missing {
        /// The field.
        field: String,
        /// What it is needed for.
        why: &'static str,
    },
    /// A link ends at a GPU that is not there.
    #[error("`{field}` names GPU {gpu}, but a machine has GPUs 0 to {}", gpus - 1)]
    NoSuchGpu {
        /// The field.
        field: String,
        /// What was written.
        gpu: u32,
        /// GPUs of the machine.
        gpus: u32,
    },
    /// Two entries describe the links between the same GPUs.
    #[error("`{field}` describes the links between GPUs {} and {} again", pair.0, pair.1)]
    DuplicateLink {
        /// The field.
        field: String,
        /// The GPUs.
        pair: (u32, u32),
    },
    /// Nothing leads to a GPU.
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
        /// Machines below one switch of the highest level.
        room: u64,
        /// Machines of all kinds.
        machines: u64,
    },
    /// There are more devices than can be counted on.
    #[error("the machines have {devices} GPUs together, but there may be at most {most}")]
    TooManyDevices {
        /// GPUs of all machines.
        devices: u64,
        /// The most.
        most: u64,
    },
}

impl ClusterFileError {
    /// What the user may do about it.
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
