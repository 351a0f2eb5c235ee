//! A checkpoint in memory as a whole, for tests of whole runs.

use super::adapter;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainyard_checkpoint::{Checkpoint, CheckpointError, MODEL, Manifest, PLAN, TensorSpec};

const FIRST_MOMENTS: &str = "first_moments";
const SECOND_MOMENTS: &str = "second_moments";

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostTensor {
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// Row-major.
    pub(crate) values: Vec<f32>,
}

/// Tensors by name.
pub(crate) type HostTensors = BTreeMap<String, HostTensor>;

/// Everything that a run continues from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// Optimizer steps done.
    pub(crate) step: u64,
    /// Training samples read.
    pub(crate) position: u64,
    /// Seed of parameters and data order.
    pub(crate) seed: u64,
    /// Updates in the optimizer's state.
    pub(crate) updates: u64,
    /// Bytes of text.
    pub(crate) data_bytes: u64,
    /// Checksum of the text.
    pub(crate) data_checksum: String,
    /// The plan as the caller wrote it.
    pub(crate) plan: serde_json::Value,
    /// Weights by name.
    pub(crate) model: HostTensors,
    /// Running means of gradients by name.
    pub(crate) first_moments: HostTensors,
    /// Running means of their squares by name.
    pub(crate) second_moments: HostTensors,
}

/// Reads the newest checkpoint in `folder`, or `folder` itself if it is one, and checks every file.
pub(crate) fn read(folder: &Path) -> Result<(PathBuf, State), CheckpointError> {
    let checkpoint = Checkpoint::open(folder)?;
    let tensors = |file: &str| -> Result<HostTensors, CheckpointError> {
        let read = |TensorSpec { name, shape }: TensorSpec| {
            let length = shape.iter().product();
            let values = checkpoint.values(file, &name, 0..length)?;
            Ok((name, HostTensor { shape, values }))
        };
        checkpoint.tensors(file).into_iter().map(read).collect()
    };
    let Manifest { progress, data, files, .. } = checkpoint.manifest().clone();
    let has_adapters = files.iter().any(|file| file.name.starts_with(adapter::FILE));
    let state = State {
        step: progress.step,
        position: progress.position,
        seed: progress.seed,
        updates: progress.updates,
        data_bytes: data.bytes,
        data_checksum: data.checksum,
        plan: serde_json::from_slice(&std::fs::read(checkpoint.path().join(PLAN)).expect("checked")).expect("a plan"),
        model: tensors(if has_adapters { adapter::FILE } else { MODEL })?,
        first_moments: tensors(FIRST_MOMENTS)?,
        second_moments: tensors(SECOND_MOMENTS)?,
    };
    Ok((checkpoint.path().to_owned(), state))
}
