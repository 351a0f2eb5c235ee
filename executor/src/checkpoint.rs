//! Checkpoints: weights, optimizer state and place in the data, written whole or not at all.
//!
//! A checkpoint is a folder `checkpoint-N` inside the folder that the caller names. It is written under a hidden name,
//! flushed, and renamed; only then are older ones removed. Whatever fails, the last whole checkpoint stays.

use crate::safetensors::{self, HostTensors};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The schema of manifests that this version reads and writes.
pub const CHECKPOINT_SCHEMA: &str = "trainyard.checkpoint/1";

const PREFIX: &str = "checkpoint-";
const MANIFEST: &str = "manifest.json";
const PLAN: &str = "plan.json";
const MODEL: &str = "model.safetensors";
const FIRST_MOMENTS: &str = "first_moments.safetensors";
const SECOND_MOMENTS: &str = "second_moments.safetensors";

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Something could not be written. The last whole checkpoint is still there.
    #[error("cannot write checkpoint `{}`; the last whole one is kept", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something could not be read.
    #[error("cannot read checkpoint `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to resume from.
    #[error("`{}` holds no checkpoint to resume from", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not what was written.
    #[error("checkpoint file `{}` is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The checkpoint belongs to another training.
    #[error("checkpoint `{}` was written with {field} {found}, but this run has {expected}", path.display())]
    Mismatch {
        /// The checkpoint.
        path: PathBuf,
        /// What differs.
        field: &'static str,
        /// In the checkpoint.
        found: String,
        /// In this run.
        expected: String,
    },
}

/// What a checkpoint says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `trainyard.checkpoint/1`.
    pub schema: String,
    /// Optimizer steps done.
    pub step: u64,
    /// Training samples read, counted over epochs.
    pub position: u64,
    /// Seed of parameters and data order.
    pub seed: u64,
    /// Updates that the optimizer's state has seen; zero for optimizers without state.
    pub updates: u64,
    /// Bytes of text that the run was trained on.
    pub data_bytes: u64,
    /// Checksum of that text.
    pub data_checksum: String,
    /// The files beside the manifest.
    pub files: Vec<FileEntry>,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// FNV-1a, 64 bits, hexadecimal.
    pub checksum: String,
}

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

/// A file that is flushed to the disk before it counts.
pub(crate) trait Storage: Write {
    /// Waits until everything is on the disk.
    fn settle(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn settle(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Opens a new file; tests put a full disk here.
pub(crate) type Open<'a> = &'a dyn Fn(&Path) -> io::Result<Box<dyn Storage>>;

/// Opens real files.
pub(crate) fn create(path: &Path) -> io::Result<Box<dyn Storage>> {
    Ok(Box::new(File::create(path)?))
}

/// Counts and sums up what goes through.
struct Hashing<'a> {
    inner: BufWriter<&'a mut dyn Storage>,
    bytes: u64,
    hash: Fnv,
}

impl Write for Hashing<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.bytes += written as u64;
        self.hash.add(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// FNV-1a, 64 bits. Source: <http://www.isthe.com/chongo/tech/comp/fnv/>.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The checksum of some bytes, as manifests hold it.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    let mut hash = Fnv::new();
    hash.add(bytes);
    hash.text()
}

/// Writes `state` as the newest checkpoint in `folder` and removes older ones. Returns where it is.
pub(crate) fn write(folder: &Path, state: &State, open: Open<'_>) -> Result<PathBuf, CheckpointError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CheckpointError::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    let older = list(folder)?;
    let number = older.last().map_or(1, |(number, _)| number + 1);
    let path = folder.join(format!("{PREFIX}{number}"));
    let hidden = folder.join(format!(".{PREFIX}{number}.part"));
    // What an earlier, killed run left behind.
    if hidden.exists() {
        fs::remove_dir_all(&hidden).map_err(failed(&hidden))?;
    }
    fs::create_dir(&hidden).map_err(failed(&hidden))?;
    let written = write_files(&hidden, state, open).and_then(|()| {
        fs::rename(&hidden, &path).map_err(failed(&path))?;
        settle_folder(folder).map_err(failed(folder))
    });
    if let Err(error) = written {
        // The first error is the one to tell; a part that stays is removed by the next write.
        let _ = fs::remove_dir_all(&hidden);
        return Err(error);
    }
    for (_, old) in older {
        fs::remove_dir_all(&old).map_err(failed(&old))?;
    }
    Ok(path)
}

fn write_files(folder: &Path, state: &State, open: Open<'_>) -> Result<(), CheckpointError> {
    let mut files = Vec::new();
    let tensors =
        [(MODEL, &state.model), (FIRST_MOMENTS, &state.first_moments), (SECOND_MOMENTS, &state.second_moments)];
    for (name, tensors) in tensors {
        files.push(write_file(folder, name, open, |to| safetensors::write(tensors, to))?);
    }
    files.push(write_file(folder, PLAN, open, |to| Ok(serde_json::to_writer_pretty(to, &state.plan)?))?);
    let manifest = Manifest {
        schema: CHECKPOINT_SCHEMA.into(),
        step: state.step,
        position: state.position,
        seed: state.seed,
        updates: state.updates,
        data_bytes: state.data_bytes,
        data_checksum: state.data_checksum.clone(),
        files,
    };
    write_file(folder, MANIFEST, open, |to| Ok(serde_json::to_writer_pretty(to, &manifest)?))?;
    settle_folder(folder).map_err(|source| CheckpointError::Write { path: folder.to_owned(), source })
}

fn write_file(
    folder: &Path,
    name: &str,
    open: Open<'_>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<FileEntry, CheckpointError> {
    let path = folder.join(name);
    let written = || -> io::Result<FileEntry> {
        let mut file = open(&path)?;
        let mut to = Hashing { inner: BufWriter::new(&mut *file), bytes: 0, hash: Fnv::new() };
        content(&mut to)?;
        to.flush()?;
        let entry = FileEntry { name: name.to_owned(), bytes: to.bytes, checksum: to.hash.text() };
        drop(to);
        file.settle()?;
        Ok(entry)
    };
    written().map_err(|source| CheckpointError::Write { path: path.clone(), source })
}

/// Makes the names in a folder last, where the system can.
fn settle_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The checkpoints in a folder, oldest first.
fn list(folder: &Path) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
    let failed = |source| CheckpointError::Read { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok()) {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the newest checkpoint in `folder`, or `folder` itself if it is one, and checks every file.
pub(crate) fn read(folder: &Path) -> Result<(PathBuf, State), CheckpointError> {
    let missing = || CheckpointError::Missing { path: folder.to_owned() };
    if !folder.exists() {
        return Err(missing());
    }
    let path =
        if folder.join(MANIFEST).exists() { folder.to_owned() } else { list(folder)?.pop().ok_or_else(missing)?.1 };
    let manifest_path = path.join(MANIFEST);
    let damaged = |path: &Path, problem: String| CheckpointError::Damaged { path: path.to_owned(), problem };
    let manifest: Manifest =
        serde_json::from_slice(&bytes(&manifest_path)?).map_err(|error| damaged(&manifest_path, error.to_string()))?;
    if manifest.schema != CHECKPOINT_SCHEMA {
        return Err(CheckpointError::Mismatch {
            path,
            field: "schema",
            found: manifest.schema,
            expected: CHECKPOINT_SCHEMA.into(),
        });
    }
    let file = |name: &str| -> Result<(PathBuf, Vec<u8>), CheckpointError> {
        let path = path.join(name);
        let entry = manifest.files.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| damaged(&manifest_path, format!("it does not list {name}")))?;
        let bytes = bytes(&path)?;
        if bytes.len() as u64 != entry.bytes || checksum(&bytes) != entry.checksum {
            let problem = format!("its {} bytes do not match the manifest", bytes.len());
            return Err(damaged(&path, problem));
        }
        Ok((path, bytes))
    };
    let tensors = |name| {
        let (path, bytes) = file(name)?;
        safetensors::read(&bytes).map_err(|problem| damaged(&path, problem))
    };
    let (plan_path, plan) = file(PLAN)?;
    let state = State {
        step: manifest.step,
        position: manifest.position,
        seed: manifest.seed,
        updates: manifest.updates,
        data_bytes: manifest.data_bytes,
        data_checksum: manifest.data_checksum.clone(),
        plan: serde_json::from_slice(&plan).map_err(|error| damaged(&plan_path, error.to_string()))?,
        model: tensors(MODEL)?,
        first_moments: tensors(FIRST_MOMENTS)?,
        second_moments: tensors(SECOND_MOMENTS)?,
    };
    Ok((path, state))
}

fn bytes(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    fs::read(path).map_err(|source| CheckpointError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safetensors::HostTensor;
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    fn state(step: u64) -> State {
        let tensors = |scale: f32| {
            let values = (0..3000).map(|i| i as f32 * scale).collect();
            BTreeMap::from([("wte.weight".to_string(), HostTensor { shape: vec![3, 1000], values })])
        };
        State {
            step,
            position: step * 8,
            seed: 1,
            updates: step,
            data_bytes: 77,
            data_checksum: "00".into(),
            plan: serde_json::json!({ "name": "plan" }),
            model: tensors(step as f32),
            first_moments: tensors(0.5),
            second_moments: tensors(0.25),
        }
    }

    /// A disk with room for so many bytes.
    struct FullDisk {
        left: Rc<Cell<usize>>,
    }

    impl Write for FullDisk {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            let taken = buffer.len().min(self.left.get());
            self.left.set(self.left.get() - taken);
            if taken == 0 && !buffer.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Storage for FullDisk {
        fn settle(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_newest_checkpoint_comes_back_and_is_the_only_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), &state(10), &create).expect("room");
        // A later run may have done fewer steps.
        let path = write(folder.path(), &state(3), &create).expect("room");
        assert_eq!(read(folder.path()).expect("whole"), (path.clone(), state(3)));
        assert_eq!(read(&path).expect("whole").1, state(3));
        assert_eq!(list(folder.path()).expect("readable").len(), 1);
    }

    #[test]
    fn a_full_disk_leaves_the_last_checkpoint_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write(folder.path(), &state(1), &create).expect("room");
        for room in [0, 100, 12_500, 36_500] {
            let left = Rc::new(Cell::new(room));
            let open = |_: &Path| -> io::Result<Box<dyn Storage>> { Ok(Box::new(FullDisk { left: left.clone() })) };
            let error = write(folder.path(), &state(2), &open).expect_err("no room");
            let CheckpointError::Write { path, source } = &error else { panic!("{error:?}") };
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
            assert_eq!(read(folder.path()).expect("whole").1, state(1));
            assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
        }
    }

    #[test]
    fn damage_and_absence_are_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(matches!(read(folder.path()), Err(CheckpointError::Missing { .. })));
        assert!(matches!(read(&folder.path().join("none")), Err(CheckpointError::Missing { .. })));
        let path = write(folder.path(), &state(1), &create).expect("room").join(MODEL);
        let mut bytes = fs::read(&path).expect("readable");
        bytes[5000] ^= 1;
        fs::write(&path, bytes).expect("room");
        let error = read(folder.path()).expect_err("one bit flipped").to_string();
        assert!(error.contains(MODEL) && error.contains("damaged"), "{error}");
    }
}
