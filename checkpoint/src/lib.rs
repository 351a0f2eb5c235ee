//! Checkpoints: weights, optimizer state and place in the data, written whole or not at all.
//!
//! A checkpoint is a folder `checkpoint-N` inside the folder that the caller names. It is written under a hidden name,
//! flushed, and renamed; only then are older ones removed, all but the newest few that are whole. Whatever fails, the
//! last whole checkpoint stays. It holds tensors as a whole, however the plan cuts them, so that a training can go on
//! under another plan:
//!
//! | file | content |
//! |---|---|
//! | `model.safetensors` | weights in single precision, by their Hugging Face names |
//! | `adapter_model.safetensors`, `adapter_config.json` | in their place where adapters alone are trained |
//! | `first_moments.safetensors`, … | one file for each thing that the optimizer remembers of a parameter |
//! | `config.json` | what transformers builds the model by, where it has the family |
//! | `plan.json` | the plan that ran |
//! | `manifest.json` | how far the training is, and size and checksum of each file |

mod folder;
mod hold;
mod manifest;
mod pickle;
mod reader;
mod storage;
mod stored;
mod tensor_file;
#[cfg(test)]
mod tests;
mod torch_file;
mod writer;

pub use folder::{holds_some, home, numbered};
pub use hold::Hold;
use manifest::CHECKPOINT_SCHEMA;
pub use manifest::{Base, DataEntry, LossScalerState, Manifest, Progress};
pub use reader::Checkpoint;
pub use storage::{FileEntry, Open, Storage, create};
pub use stored::IndexError;
pub use tensor_file::{Counter, TensorFile, TensorIndex, TensorSpec};
pub use writer::Writer;

use std::io;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
/// The file of the plan that ran.
pub const PLAN: &str = "plan.json";
/// The extension of files of tensors.
const TENSORS: &str = ".safetensors";
/// The file of weights.
pub const MODEL: &str = "model";

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Something could not be written. The last whole checkpoint, if there was one, is still there.
    #[error("cannot write checkpoint `{}`; {}", path.display(), if *kept { "the last whole one is kept" } else { "there is none yet" })]
    Write {
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// `true` if there is a whole one.
        kept: bool,
    },
    /// Nothing can be written where checkpoints are to be.
    #[error("cannot write checkpoints to `{}`", path.display())]
    Place {
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another training writes there.
    #[error("another run writes checkpoints to `{}`", path.display())]
    Busy { path: PathBuf },
    /// There are checkpoints already, and the run is not to go on from them.
    #[error("`{}` holds checkpoints already", path.display())]
    Occupied { path: PathBuf },
    /// Something could not be read.
    #[error("cannot read checkpoint `{}`", path.display())]
    Read {
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to resume from.
    #[error("`{}` holds no checkpoint to resume from", path.display())]
    Missing { path: PathBuf },
    /// A file is not what was written.
    #[error("checkpoint file `{}` is damaged: {problem}", path.display())]
    Damaged {
        path: PathBuf,
        /// The defect.
        problem: String,
        /// The newest whole checkpoint before, with its steps.
        whole: Option<(PathBuf, u64)>,
    },
    /// A later version wrote it.
    #[error("checkpoint manifest `{}` is `{found}`, but this version reads `{CHECKPOINT_SCHEMA}`", path.display())]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// An earlier version wrote it, in a form that is no longer read.
    #[error("checkpoint manifest `{}` is `{found}`, but this version reads `{CHECKPOINT_SCHEMA}`", path.display())]
    Older {
        /// The manifest.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// Another program wrote it.
    #[error("`{}` is no manifest of a checkpoint: its schema is `{schema}`, not `{CHECKPOINT_SCHEMA}`", path.display())]
    Foreign {
        /// The manifest.
        path: PathBuf,
        schema: String,
    },
    /// The checkpoint belongs to another training.
    #[error("checkpoint `{}` was written with {field} {found}, but this run has {expected}", path.display())]
    Mismatch {
        path: PathBuf,
        /// The field that differs.
        field: &'static str,
        found: String,
        /// In this run.
        expected: String,
    },
}

impl CheckpointError {
    /// Returns the error for damage of a file of which no other checkpoint is known.
    fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into(), whole: None }
    }

    /// Returns the error of writing a file of a checkpoint, or a checkpoint's folder.
    fn write(path: PathBuf, source: io::Error) -> Self {
        // The file is in the folder of its checkpoint, and that in the folder of checkpoints.
        let kept = path.ancestors().skip(1).take(2).any(|folder| holds_some(folder).unwrap_or(false));
        Self::Write { path, source, kept }
    }

    /// Returns what the user may do about the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or name a folder on another disk".into())
            }
            Self::Damaged { whole: Some((path, step)), .. } => {
                Some(format!("`{}` is whole and has {step} steps: name it to go on from there", path.display()))
            }
            Self::Damaged { whole: None, .. } => Some(
                "no other checkpoint is there: put the file back from a copy, or start anew without --resume".into(),
            ),
            Self::Foreign { .. } => Some("name a folder that `trainyard run --checkpoint` wrote, or start anew".into()),
            Self::Newer { .. } => Some("resume with the version that wrote it, or a later one".into()),
            Self::Older { .. } => {
                Some("finish the training with the version that wrote it; its weights can be read as they are".into())
            }
            Self::Mismatch { .. } => Some("resume with the options and the data that the training began with".into()),
            Self::Missing { .. } => Some("leave out --resume to start anew".into()),
            Self::Place { .. } => Some("name a folder that you may write to".into()),
            Self::Busy { .. } => Some("wait until it has ended, or name another folder".into()),
            Self::Occupied { .. } => Some("go on from the newest with --resume, or name another folder".into()),
            Self::Read { .. } => {
                Some("name a folder that `trainyard run --checkpoint` wrote and that you may read".into())
            }
            Self::Write { .. } => None,
        }
    }

    /// Returns `true` if the input is at fault, and not the machine.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Write { .. })
    }
}
