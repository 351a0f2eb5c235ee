//! A whole checkpoint, read tensor by tensor and piece by piece.

use crate::folder::{self, list, meant};
use crate::manifest::Manifest;
use crate::storage::sum_file;
use crate::stored::IndexError;
use crate::tensor_file::{TensorIndex, TensorSpec, is_counter, is_readable};
use crate::{CheckpointError, PLAN, TENSORS};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The largest plan in bytes, as large as one that is read as a file.
const PLAN_MAX: u64 = 16 << 20;

/// A whole checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    manifest: Manifest,
    files: BTreeMap<String, TensorIndex>,
}

impl Checkpoint {
    /// Opens the newest checkpoint in `folder`, or `folder` itself if it is one, and checks every byte of it.
    ///
    /// A newest one that is damaged is an error that names the next whole one: to lose the steps between is for the
    /// user to decide.
    ///
    /// # Errors
    ///
    /// When there is none, when it is damaged, and when another program or version wrote it.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let path = meant(folder)?;
        Self::open_this(&path).map_err(|error| match error {
            CheckpointError::Damaged { path: file, problem, .. } => {
                CheckpointError::Damaged { path: file, problem, whole: whole_before(&path) }
            }
            other => other,
        })
    }

    fn open_this(path: &Path) -> Result<Self, CheckpointError> {
        let manifest = folder::manifest(path)?;
        check_sums(path, &manifest)?;
        if manifest.file(PLAN).is_none() {
            return Err(CheckpointError::damaged(path, format!("its manifest does not list {PLAN}")));
        }
        let mut files = BTreeMap::new();
        for entry in &manifest.files {
            if let Some(name) = entry.name.strip_suffix(TENSORS) {
                let file = path.join(&entry.name);
                let index = TensorIndex::read(&file).map_err(|error| unusable(&file, error))?;
                files.insert(name.to_owned(), index);
            }
        }
        Ok(Self { path: path.to_owned(), manifest, files })
    }

    /// Returns the folder of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads the plan that ran.
    ///
    /// # Errors
    ///
    /// When it can no longer be read.
    pub fn plan(&self) -> Result<serde_json::Value, CheckpointError> {
        let path = self.path.join(PLAN);
        let text = trainyard_documents::bytes(&path, PLAN_MAX)
            .map_err(|error| CheckpointError::Read { path: path.clone(), source: error.into_io() })?;
        trainyard_documents::from_json_bytes(&text).map_err(|error| CheckpointError::damaged(&path, error.to_string()))
    }

    /// Returns the names of what it holds of each parameter: `model`, and the optimizer's state.
    #[cfg(test)]
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns names and shapes of the tensors of a file, without its counters.
    pub fn tensors(&self, file: &str) -> Vec<TensorSpec> {
        let all = self.files.get(file).into_iter().flat_map(TensorIndex::tensors);
        let all = all.filter(|(_, dtype, shape)| !is_counter(*dtype, shape));
        all.map(|(name, _, shape)| TensorSpec { name: name.to_owned(), shape: shape.to_vec() }).collect()
    }

    /// Reads the values of a tensor at these places of its row-major order.
    ///
    /// # Errors
    ///
    /// When there is no such tensor, or its file cannot be read.
    pub fn values(&self, file: &str, name: &str, range: Range<usize>) -> Result<Vec<f32>, CheckpointError> {
        let path = self.path.join(format!("{file}{TENSORS}"));
        let Some(index) = self.files.get(file) else {
            return Err(CheckpointError::damaged(&path, "it is missing"));
        };
        index.values(&path, name, range).map_err(|error| unusable(&path, error))
    }

    /// Checks that `file` holds exactly the tensors of `expected`, and counters if any.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn expect(&self, file: &str, expected: &[TensorSpec]) -> Result<(), CheckpointError> {
        let mismatch = |found: String, expected: String| {
            Err(CheckpointError::Mismatch { path: self.path.clone(), field: "model", found, expected })
        };
        let Some(index) = self.files.get(file) else {
            return Err(CheckpointError::damaged(&self.path.join(format!("{file}{TENSORS}")), "it is missing"));
        };
        for tensor in expected {
            let found = index.shape(&tensor.name);
            if found != Some(tensor.shape.as_slice()) {
                let found = found.map_or_else(|| "no".into(), |shape| format!("{shape:?} as"));
                return mismatch(format!("{found} `{}`", tensor.name), format!("{:?}", tensor.shape));
            }
        }
        let is_other = |dtype, shape: &[usize]| !is_readable(dtype) && !is_counter(dtype, shape);
        if let Some((name, dtype, _)) = index.tensors().find(|(_, dtype, shape)| is_other(*dtype, shape)) {
            let path = self.path.join(format!("{file}{TENSORS}"));
            return Err(CheckpointError::damaged(&path, format!("tensor `{name}` is {dtype}, not F32, F16 or BF16")));
        }
        let known: std::collections::BTreeSet<&str> = expected.iter().map(|tensor| tensor.name.as_str()).collect();
        match self.tensors(file).iter().find(|tensor| !known.contains(tensor.name.as_str())) {
            Some(tensor) => mismatch(format!("a tensor `{}`", tensor.name), "none of that name".into()),
            None => Ok(()),
        }
    }
}

/// Reads every file, side by side, and compares it with what the manifest tells.
fn check_sums(path: &Path, manifest: &Manifest) -> Result<(), CheckpointError> {
    let check = |entry: &super::FileEntry| {
        let file = path.join(&entry.name);
        let found = sum_file(&file).map_err(|source| CheckpointError::Read { path: file.clone(), source })?;
        if found.checksum == entry.checksum {
            Ok(())
        } else {
            Err(CheckpointError::damaged(&file, format!("its {} bytes do not match their checksum", found.bytes)))
        }
    };
    let checked: Vec<_> = manifest.files.par_iter().map(check).collect();
    checked.into_iter().collect()
}

/// Returns the newest whole checkpoint that is older than `path`, with its steps.
fn whole_before(path: &Path) -> Option<(PathBuf, u64)> {
    let name = path.file_name();
    let all = list(folder::home(path)).ok()?.into_iter().rev();
    let mut older = all.skip_while(|checkpoint| checkpoint.path.file_name() != name).skip(1);
    let whole = older.find_map(|checkpoint| Checkpoint::open_this(&checkpoint.path).ok())?;
    Some((whole.path, whole.manifest.progress.step))
}

fn unusable(path: &Path, error: IndexError) -> CheckpointError {
    match error {
        IndexError::Unreadable(source) => CheckpointError::Read { path: path.to_owned(), source },
        IndexError::Damaged(problem) => CheckpointError::damaged(path, problem),
    }
}
