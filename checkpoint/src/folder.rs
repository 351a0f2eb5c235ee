//! A folder of checkpoints: which there are, which are whole, and which may go.

use crate::manifest::Manifest;
use crate::{CheckpointError, MANIFEST};
use std::fs;
use std::path::{Path, PathBuf};

/// The largest manifest in bytes: it has some lines for each file of a rank.
const MANIFEST_MAX: u64 = 16 << 20;

const PREFIX: &str = "checkpoint-";
const HIDDEN: &str = ".checkpoint-";
const UNFINISHED: &str = ".part";
/// Numbers of checkpoints are below this: ranks tell each other of them in two halves of 24 bits.
const NUMBER_END: u64 = 1 << 47;

/// One of several checkpoints in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    /// Later ones have higher numbers.
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
}

/// Returns the path of a finished checkpoint.
pub fn numbered(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number}"))
}

/// Returns the path of a checkpoint while it is being written.
pub(crate) fn unfinished(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{HIDDEN}{number}{UNFINISHED}"))
}

/// Lists the checkpoints in a folder, oldest first; none if there is no such folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<Numbered>, CheckpointError> {
    let mut found = entries(folder, number)?;
    found.retain(|entry| entry.path.is_dir());
    found.sort();
    Ok(found)
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok().filter(|number| *number < NUMBER_END)
}

/// Returns the number of the next checkpoint, which no entry of the folder has.
pub(crate) fn next_number(folder: &Path) -> Result<u64, CheckpointError> {
    Ok(entries(folder, number)?.iter().map(|entry| entry.number).max().unwrap_or(0) + 1)
}

/// Tells whether a folder holds checkpoints that a training wrote.
///
/// # Errors
///
/// When it cannot be looked into.
pub fn holds_some(folder: &Path) -> Result<bool, CheckpointError> {
    Ok(list(folder)?.iter().any(|checkpoint| checkpoint.path.join(MANIFEST).is_file()))
}

/// Returns the unfinished checkpoints that killed runs left behind.
pub(crate) fn left_behind(folder: &Path) -> Result<Vec<Numbered>, CheckpointError> {
    let mut found = entries(folder, |name| name.strip_prefix(HIDDEN)?.strip_suffix(UNFINISHED)?.parse().ok())?;
    found.retain(|entry| entry.path.is_dir());
    Ok(found)
}

fn entries(folder: &Path, number: impl Fn(&str) -> Option<u64>) -> Result<Vec<Numbered>, CheckpointError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let failed = |source| CheckpointError::Read { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        found.extend(name.to_str().and_then(&number).map(|number| Numbered { number, path: entry.path() }));
    }
    Ok(found)
}

/// Returns the checkpoint that `path` means: itself, or the newest in it.
pub(crate) fn meant(path: &Path) -> Result<PathBuf, CheckpointError> {
    if is_one(path) {
        return Ok(path.to_owned());
    }
    let newest = list(path)?.pop().ok_or_else(|| CheckpointError::Missing { path: path.to_owned() })?;
    Ok(newest.path)
}

/// Returns `true` if `path` is a checkpoint, perhaps a damaged one, and not a folder of checkpoints.
fn is_one(path: &Path) -> bool {
    let named = || path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse::<u64>().ok();
    let empty = || list(path).is_ok_and(|inside| inside.is_empty());
    path.join(MANIFEST).exists() || (path.is_dir() && named().is_some() && empty())
}

/// Returns the folder that new checkpoints go into when a training resumes from `path`.
pub fn home(path: &Path) -> &Path {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    if is_one(path) { above.unwrap_or(Path::new(".")) } else { path }
}

/// Reads the manifest of a checkpoint, whatever there is of its files.
pub(crate) fn told(path: &Path) -> Result<Manifest, CheckpointError> {
    let document = path.join(MANIFEST);
    if !document.is_file() {
        return Err(CheckpointError::damaged(path, "its manifest is missing"));
    }
    let content = trainyard_documents::bytes(&document, MANIFEST_MAX)
        .map_err(|error| CheckpointError::Read { path: document.clone(), source: error.into_io() })?;
    Manifest::from_json(&content, &document)
}

/// Reads the manifest of a checkpoint and checks that its files are all there, with the sizes that it lists. Their
/// content is not checked: that takes as long as reading them.
pub(crate) fn manifest(path: &Path) -> Result<Manifest, CheckpointError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| CheckpointError::Read { path, source }
    };
    let manifest = told(path)?;
    for entry in &manifest.files {
        let file = path.join(&entry.name);
        if !file.exists() {
            return Err(CheckpointError::damaged(&file, "it is missing"));
        }
        let about = fs::metadata(&file).map_err(read(&file))?;
        if !about.is_file() {
            return Err(CheckpointError::damaged(&file, "it is no file"));
        }
        let bytes = about.len();
        if bytes != entry.bytes {
            let problem = format!("it has {bytes} bytes, but the manifest tells of {}", entry.bytes);
            return Err(CheckpointError::damaged(&file, problem));
        }
    }
    Ok(manifest)
}

/// Removes all but the newest `keep` whole checkpoints of the training that `newest` belongs to, and what is left of older
/// ones of it. Others, of other programs too, may stand in the same folder under the same kind of name.
pub(crate) fn prune(folder: &Path, newest: &Manifest, keep: usize) -> Result<(), CheckpointError> {
    let whole = |checkpoint: &&Numbered| manifest(&checkpoint.path).is_ok();
    let mut all = list(folder)?;
    all.retain(|checkpoint| told(&checkpoint.path).is_ok_and(|told| told.is_of(newest)));
    let Some(oldest) = all.iter().rev().filter(whole).take(keep.max(1)).last() else { return Ok(()) };
    for old in all.iter().filter(|checkpoint| checkpoint.number < oldest.number) {
        // Under a hidden name first: one that is half removed must not look like a checkpoint.
        let going = unfinished(folder, old.number);
        fs::rename(&old.path, &going)
            .and_then(|()| fs::remove_dir_all(&going))
            .map_err(|source| CheckpointError::write(old.path.clone(), source))?;
    }
    Ok(())
}
