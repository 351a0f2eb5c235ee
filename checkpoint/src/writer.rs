//! A checkpoint under way: hidden until it is whole.

use crate::folder::{Numbered, left_behind, next_number, numbered, prune, told, unfinished};
use crate::manifest::Manifest;
use crate::storage::{FileEntry, Open, Summed, settle_folder};
use crate::tensor_file::{Counter, TensorFile, TensorSpec};
use crate::{CheckpointError, MANIFEST, PLAN, TENSORS};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A checkpoint under way. Dropped before [`Writer::finish`], it leaves nothing behind.
pub struct Writer<'a> {
    folder: PathBuf,
    number: u64,
    hidden: PathBuf,
    open: Open<'a>,
    files: Vec<FileEntry>,
    done: bool,
}

impl<'a> Writer<'a> {
    /// Begins the newest checkpoint in `folder`, and removes what killed runs left there unfinished.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made or looked into.
    pub fn begin(folder: &Path, open: Open<'a>) -> Result<Self, CheckpointError> {
        fs::create_dir_all(folder).map_err(failed(folder))?;
        for Numbered { path, .. } in left_behind(folder)? {
            fs::remove_dir_all(&path).map_err(failed(&path))?;
        }
        let number = next_number(folder)?;
        let hidden = unfinished(folder, number);
        fs::create_dir(&hidden).map_err(failed(&hidden))?;
        Ok(Self { folder: folder.to_owned(), number, hidden, open, files: Vec::new(), done: false })
    }

    /// Returns the number of the checkpoint.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Creates a file of tensors, whose values are put there in the order of `tensors`: `model`, or the optimizer's
    /// state.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn tensors(&self, name: &str, tensors: &[TensorSpec]) -> Result<TensorFile, CheckpointError> {
        self.tensors_and_counters(name, tensors, &[])
    }

    /// Does the same for a file that holds counters besides.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn tensors_and_counters(
        &self,
        name: &str,
        tensors: &[TensorSpec],
        counters: &[Counter],
    ) -> Result<TensorFile, CheckpointError> {
        let name = format!("{name}{TENSORS}");
        let path = self.hidden.join(&name);
        (self.open)(&path)
            .and_then(|storage| TensorFile::begin(&name, storage, tensors, counters))
            .map_err(failed(&path))
    }

    /// Notes a file of tensors that has all its values.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn add(&mut self, file: TensorFile) -> Result<(), CheckpointError> {
        let path = self.hidden.join(file.name());
        self.files.push(file.finish().map_err(failed(&path))?);
        Ok(())
    }

    /// Writes the next values of some file.
    ///
    /// # Errors
    ///
    /// When the disk does not take them.
    pub fn put(&self, file: &mut TensorFile, values: &[f32]) -> Result<(), CheckpointError> {
        file.put(values).map_err(|source| CheckpointError::write(self.hidden.join(file.name()), source))
    }

    /// Writes plan and manifest, waits for the disk and shows the checkpoint. Returns where it is, and its bytes.
    ///
    /// # Errors
    ///
    /// When the disk does not take it; nothing is shown then.
    pub fn finish(mut self, manifest: Manifest, plan: &serde_json::Value) -> Result<(PathBuf, u64), CheckpointError> {
        let mut document = serde_json::to_vec_pretty(plan).expect("a JSON value can be written as JSON");
        document.push(b'\n');
        self.document(PLAN, &document)?;
        let manifest = Manifest { files: self.files.clone(), ..manifest };
        self.document(MANIFEST, &manifest.to_json())?;
        settle_folder(&self.hidden).map_err(failed(&self.hidden))?;
        let path = numbered(&self.folder, self.number);
        fs::rename(&self.hidden, &path).map_err(failed(&path))?;
        self.done = true;
        settle_folder(&self.folder).map_err(failed(&self.folder))?;
        Ok((path, self.files.iter().map(|file| file.bytes).sum()))
    }

    /// Removes all but the newest `keep` whole checkpoints of the training that the one at `newest` belongs to.
    ///
    /// # Errors
    ///
    /// When a folder cannot be looked into or removed.
    pub fn prune(folder: &Path, newest: &Path, keep: usize) -> Result<(), CheckpointError> {
        prune(folder, &told(newest)?, keep)
    }

    /// Writes a small file at once.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn document(&mut self, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        let path = self.hidden.join(name);
        let written = (self.open)(&path).and_then(|storage| {
            let mut file = Summed::new(storage);
            file.put(bytes)?;
            file.finish(name)
        });
        self.files.push(written.map_err(failed(&path))?);
        Ok(())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.done {
            // The error that led here is the one to tell; a part that stays is removed by the next write.
            let _ = fs::remove_dir_all(&self.hidden);
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    let path = path.to_owned();
    move |source| CheckpointError::write(path, source)
}
