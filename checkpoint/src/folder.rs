//! A folder of checkpoints: which there are, which are whole, and which may go.

use crate::manifest::Manifest;
use crate::{CheckpointError, MANIFEST};
use std::fs;
use std::path::{Path, PathBuf};

const PREFIX: &str = "checkpoint-";
const HIDDEN: &str = ".checkpoint-";
const UNFINISHED: &str = ".part";

/// One of several checkpoints in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    /// Later ones have higher numbers.
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
}

/// Where a checkpoint stands when it is done.
pub fn numbered(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number}"))
}

/// Where it stands until then.
pub(crate) fn unfinished(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{HIDDEN}{number}{UNFINISHED}"))
}

/// The checkpoints in a folder, oldest first; none if there is no such folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<Numbered>, CheckpointError> {
    let mut found = entries(folder, |name| name.strip_prefix(PREFIX)?.parse().ok())?;
    found.sort();
    Ok(found)
}

/// What killed runs left behind.
pub(crate) fn left_behind(folder: &Path) -> Result<Vec<Numbered>, CheckpointError> {
    entries(folder, |name| name.strip_prefix(HIDDEN)?.strip_suffix(UNFINISHED)?.parse().ok())
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

/// The checkpoint that `path` means: itself, or the newest in it.
pub(crate) fn meant(path: &Path) -> Result<PathBuf, CheckpointError> {
    if is_one(path) {
        return Ok(path.to_owned());
    }
    let newest = list(path)?.pop().ok_or_else(|| CheckpointError::Missing { path: path.to_owned() })?;
    Ok(newest.path)
}

/// Whether `path` is a checkpoint and not a folder of some, though it may be damaged.
fn is_one(path: &Path) -> bool {
    let named = || path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse::<u64>().ok();
    let empty = || list(path).is_ok_and(|inside| inside.is_empty());
    path.join(MANIFEST).exists() || (path.is_dir() && named().is_some() && empty())
}

/// The folder that new checkpoints go into when a training goes on from `path`.
pub fn home(path: &Path) -> &Path {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    if is_one(path) { above.unwrap_or(Path::new(".")) } else { path }
}

/// The manifest of a checkpoint whose files are all there, with the sizes that it tells. What they hold is not looked
/// at: that takes as long as reading them.
pub(crate) fn manifest(path: &Path) -> Result<Manifest, CheckpointError> {
    let document = path.join(MANIFEST);
    if !document.exists() {
        return Err(CheckpointError::damaged(path, "its manifest is missing"));
    }
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| CheckpointError::Read { path, source }
    };
    let manifest = Manifest::from_json(&fs::read(&document).map_err(read(&document))?, &document)?;
    for entry in &manifest.files {
        let file = path.join(&entry.name);
        if !file.exists() {
            return Err(CheckpointError::damaged(&file, "it is missing"));
        }
        let bytes = fs::metadata(&file).map_err(read(&file))?.len();
        if bytes != entry.bytes {
            let problem = format!("it has {bytes} bytes, but the manifest tells of {}", entry.bytes);
            return Err(CheckpointError::damaged(&file, problem));
        }
    }
    Ok(manifest)
}

/// Removes all but the newest `keep` whole checkpoints, and what is older than those.
pub(crate) fn prune(folder: &Path, keep: usize) -> Result<(), CheckpointError> {
    let whole = |checkpoint: &&Numbered| manifest(&checkpoint.path).is_ok();
    let all = list(folder)?;
    let Some(oldest) = all.iter().rev().filter(whole).take(keep.max(1)).last() else { return Ok(()) };
    for old in all.iter().filter(|checkpoint| checkpoint.number < oldest.number) {
        // Under a hidden name first: one that is half removed must not look like a checkpoint.
        let going = unfinished(folder, old.number);
        fs::rename(&old.path, &going)
            .and_then(|()| fs::remove_dir_all(&going))
            .map_err(|source| CheckpointError::Write { path: old.path.clone(), source })?;
    }
    Ok(())
}
