//! The manifest of a checkpoint.

use crate::CheckpointError;
use crate::storage::{FileEntry, checksum, sum_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use trainyard_documents::from_json_bytes;

/// The schema of manifests that this version reads and writes.
pub(crate) const CHECKPOINT_SCHEMA: &str = "trainyard.checkpoint/2";

/// The schema without its version.
const FAMILY: &str = "trainyard.checkpoint/";
const VERSION: u64 = 2;

/// The largest count that every reader of JSON holds.
const COUNTED_MAX: u64 = 1 << 53;

/// Beyond this a scale overflows whatever it is multiplied with.
const SCALE_MAX: f32 = 1e30;

/// The source of random numbers, so that a reader of a checkpoint knows what is needed to resume.
const RANDOM: &str = "pcg64 (rand_pcg 0.10) by seed, purpose and epoch; seed and position are its whole state";

/// The manifest of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `trainyard.checkpoint/2`.
    pub schema: String,
    /// Who wrote it.
    pub library: String,
    /// The progress of the training.
    pub progress: Progress,
    /// Name of the optimizer, as plans write it.
    pub optimizer: String,
    /// The data that the training reads.
    pub data: DataEntry,
    /// The weights that the training leaves as they are and this checkpoint does not hold, if there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// The generator of random numbers, in words.
    pub random: String,
    /// The files beside the manifest.
    pub files: Vec<FileEntry>,
    /// Of this document with this field empty.
    pub checksum: String,
}

/// The progress of a training: all that is needed to resume, besides tensors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Steps done, those that were skipped included.
    pub step: u64,
    /// Training samples read, counted over epochs.
    pub position: u64,
    /// Updates of the parameters: what the optimizer's state has seen.
    pub updates: u64,
    /// Steps without update, because a loss or a gradient was not a number.
    pub skipped_steps: u64,
    /// Number of skipped steps since the last update.
    pub skipped_in_a_row: u32,
    /// Seed of parameters and data order.
    pub seed: u64,
    /// Dynamic loss scaling, where the precision needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scaler: Option<LossScalerState>,
}

impl Progress {
    /// Returns the progress of a training before its first step.
    pub fn start(seed: u64) -> Self {
        Self { step: 0, position: 0, updates: 0, skipped_steps: 0, skipped_in_a_row: 0, seed, loss_scaler: None }
    }

    /// Refuses values that no training reaches and from which counting cannot go on.
    fn check(&self) -> Result<(), String> {
        let Self { step, position, updates, skipped_steps, skipped_in_a_row, .. } = *self;
        if updates.checked_add(skipped_steps) != Some(step) || u64::from(skipped_in_a_row) > skipped_steps {
            return Err(format!(
                "{updates} updates and {skipped_steps} skipped steps, {skipped_in_a_row} of them at the end, do not make \
                 {step} steps"
            ));
        }
        if step.max(position) > COUNTED_MAX {
            return Err(format!("its step {step} or position {position} is larger than {COUNTED_MAX}"));
        }
        match self.loss_scaler {
            Some(LossScalerState { scale, .. }) if !(scale > 0.0 && scale <= SCALE_MAX) => {
                Err(format!("its loss scale is {scale}, not a positive number of at most {SCALE_MAX}"))
            }
            _ => Ok(()),
        }
    }
}

/// The state of dynamic loss scaling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScalerState {
    /// The factor that losses are multiplied by.
    pub scale: f32,
    /// Steps without overflow since it last changed.
    pub steps_since_change: u32,
}

/// The data of a training.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataEntry {
    /// Its size.
    pub bytes: u64,
    pub checksum: String,
}

/// Weights in files elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The file, or the folder of several.
    pub path: String,
    /// The files there.
    pub files: Vec<FileEntry>,
}

impl Base {
    /// Sums up the `files` at `path`.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn of<'a>(path: &Path, files: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<Self> {
        let files = files.into_iter().map(|file| sum_file(file)).collect::<Result<_, _>>()?;
        Ok(Self { path: path.display().to_string(), files })
    }
}

/// Only the schema, whatever else there is.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

impl Manifest {
    /// Makes a manifest without files, which the writer adds.
    pub fn new(progress: Progress, optimizer: String, data: DataEntry, framework: &str) -> Self {
        Self {
            schema: CHECKPOINT_SCHEMA.into(),
            library: format!("trainyard {}, {framework}", env!("CARGO_PKG_VERSION")),
            progress,
            optimizer,
            data,
            base: None,
            random: RANDOM.into(),
            files: Vec::new(),
            checksum: String::new(),
        }
    }

    /// Returns the same for a training beside weights that it leaves as they are.
    #[must_use]
    pub fn on(self, base: Option<Base>) -> Self {
        Self { base, ..self }
    }

    /// Returns the document, with its checksum.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let text = |manifest: &Self| {
            let mut text = serde_json::to_vec_pretty(manifest).expect("manifests hold only what JSON can hold");
            text.push(b'\n');
            text
        };
        let unsigned = Self { checksum: String::new(), ..self.clone() };
        text(&Self { checksum: checksum(&text(&unsigned)), ..unsigned })
    }

    /// Reads the manifest from a document that stood at `path`.
    pub(crate) fn from_json(document: &[u8], path: &Path) -> Result<Self, CheckpointError> {
        let Ok(Schema { schema }) = from_json_bytes(document) else {
            return Err(CheckpointError::damaged(path, "it is not a JSON document with a schema"));
        };
        let path_of = || path.to_owned();
        match schema.strip_prefix(FAMILY).and_then(|version| version.parse::<u64>().ok()) {
            Some(VERSION) => {}
            Some(VERSION..) => return Err(CheckpointError::Newer { path: path_of(), found: schema }),
            Some(_) => return Err(CheckpointError::Older { path: path_of(), found: schema }),
            None => return Err(CheckpointError::Foreign { path: path_of(), schema }),
        }
        let manifest: Self =
            from_json_bytes(document).map_err(|error| CheckpointError::damaged(path, error.to_string()))?;
        if manifest.to_json() != document {
            return Err(CheckpointError::damaged(path, "its content does not match its checksum"));
        }
        // Whoever can make up a manifest can make up its checksum.
        manifest
            .check_names()
            .and_then(|()| manifest.progress.check())
            .map_err(|problem| CheckpointError::damaged(path, problem))?;
        Ok(manifest)
    }

    /// Checks that names are those of files beside the manifest, each listed once.
    fn check_names(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        for FileEntry { name, .. } in &self.files {
            let mut parts = Path::new(name).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(format!("it lists `{name}`, which is no file beside it"));
            }
            if !known.insert(name) {
                return Err(format!("it lists `{name}` twice"));
            }
        }
        Ok(())
    }

    /// Returns `true` if it belongs to the same training as `other`.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        let of = |manifest: &Self| (manifest.progress.seed, manifest.optimizer.clone(), manifest.data.clone());
        of(self) == of(other)
    }

    /// Returns the entry of a file.
    pub(crate) fn file(&self, name: &str) -> Option<&FileEntry> {
        self.files.iter().find(|entry| entry.name == name)
    }
}
