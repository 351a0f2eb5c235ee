//! A folder of checkpoints while a training writes there.

use crate::CheckpointError;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The file that is written to see whether the folder can be written to.
const PROBE: &str = ".checkpoint-probe";

/// A folder that no other training writes to until this is dropped. Two would remove each other's unfinished checkpoints.
#[derive(Debug)]
pub struct Hold {
    folder: PathBuf,
    is_new: bool,
    /// The system lets go of it however the process ends. Where folders cannot be locked, as over NFS from another host,
    /// nobody is held off.
    _lock: Option<File>,
}

impl Hold {
    /// Takes the folder, making it if it is not there. One that was made goes again if nothing was written there.
    ///
    /// # Errors
    ///
    /// [`CheckpointError::Place`] when nothing can be written there, [`CheckpointError::Busy`] when another training
    /// holds it.
    pub fn take(folder: &Path) -> Result<Self, CheckpointError> {
        let failed = |source| CheckpointError::Place { path: folder.to_owned(), source };
        let is_new = !folder.exists();
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::open(folder).ok();
        if let Some(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
            return Err(CheckpointError::Busy { path: folder.to_owned() });
        }
        let hold = Self { folder: folder.to_owned(), is_new, _lock: lock };
        let probe = folder.join(PROBE);
        fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).map_err(failed)?;
        Ok(hold)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_new {
            // Fails, as it should, where something was written.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
