//! The files of a folder.

use crate::error::DataError;
use std::fs;
use std::path::{Path, PathBuf};

/// The largest file in bytes: samples are held in memory.
const BYTES_MAX: u64 = 64 << 30;

/// Reads the bytes of a file.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    trainyard_documents::bytes(path, BYTES_MAX)
        .map_err(|error| DataError::Unreadable { path: path.to_owned(), source: error.into_io() })
}

/// Tells whether `path` is a folder.
pub(crate) fn is_folder(path: &Path) -> Result<bool, DataError> {
    let about = fs::metadata(path).map_err(|source| DataError::Unreadable { path: path.to_owned(), source })?;
    Ok(about.is_dir())
}

/// Lists the entries of a folder that are not hidden, sorted, so that nothing depends on the file system's order.
fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, DataError> {
    let unreadable = |source| DataError::Unreadable { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(unreadable)?;
    entries.retain(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    entries.sort_by_key(fs::DirEntry::path);
    Ok(entries)
}

/// Lists the folders and the files right in a folder, each sorted. Links to files count as files.
pub(crate) fn inside(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), DataError> {
    let paths = entries(folder)?.into_iter().map(|entry| entry.path());
    Ok(paths.partition(|path| path.is_dir()))
}

/// Lists all files under a folder, sorted. Hidden ones, links, and folders named `target` and `runs` are left out.
pub(crate) fn all(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for entry in entries(folder)? {
        let name = entry.file_name();
        let kind = entry.file_type().map_err(|source| DataError::Unreadable { path: folder.to_owned(), source })?;
        if kind.is_dir() && name != "target" && name != "runs" {
            files.append(&mut all(&entry.path())?);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Returns the name of a file in lower case.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map_or(String::new(), |name| name.to_string_lossy().to_lowercase())
}

/// Returns the extension of a file's name in lower case, without its dot.
pub(crate) fn ending(path: &Path) -> String {
    path.extension().map_or(String::new(), |ending| ending.to_string_lossy().to_lowercase())
}
