//! Files that last: what is written goes to the disk while more is being made, and is summed up on the way.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// After how many bytes the disk is asked to begin. The system by itself waits for far more, or for settling, so that
/// the disk would stand still while values are gathered and summed up.
const WRITE_BACK: u64 = 64 << 20;

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// XXH3, 64 bits, hexadecimal.
    pub checksum: String,
}

/// A file that is flushed to the disk before it counts.
pub trait Storage: Write + Send {
    /// Waits until everything is on the disk.
    ///
    /// # Errors
    ///
    /// When it could not be put there.
    fn settle(&mut self) -> io::Result<()>;
}

/// Opens a new file; tests put a full disk here.
pub type Open<'a> = &'a (dyn Fn(&Path) -> io::Result<Box<dyn Storage>> + Sync);

/// Opens real files.
///
/// # Errors
///
/// When the file cannot be made.
pub fn create(path: &Path) -> io::Result<Box<dyn Storage>> {
    Ok(Box::new(DiskFile { file: File::create(path)?, waiting: 0, write_back: None }))
}

/// A file whose bytes go to the disk in the background.
struct DiskFile {
    file: File,
    /// Bytes that the disk was not yet asked to take.
    waiting: u64,
    write_back: Option<WriteBack>,
}

/// A thread that waits for the disk, so that the writer need not.
struct WriteBack {
    asks: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl WriteBack {
    fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (asks, asked) = channel();
        let thread = std::thread::Builder::new().name("write-back".into()).spawn(move || {
            while asked.recv().is_ok() {
                // Asks that came meanwhile are answered together.
                while asked.try_recv().is_ok() {}
                file.sync_data()?;
            }
            Ok(())
        })?;
        Ok(Self { asks, thread })
    }

    fn finish(self) -> io::Result<()> {
        drop(self.asks);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that waits for the disk panicked")))
    }
}

impl Write for DiskFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.waiting += written as u64;
        if self.waiting >= WRITE_BACK {
            self.waiting = 0;
            if self.write_back.is_none() {
                self.write_back = Some(WriteBack::start(&self.file)?);
            }
            // A thread that is gone met an error, which settling tells.
            let _ = self.write_back.as_ref().map(|thread| thread.asks.send(()));
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Storage for DiskFile {
    fn settle(&mut self) -> io::Result<()> {
        // The system tells an error of the disk once per open file: the thread must be asked for the one it was told.
        self.write_back.take().map_or(Ok(()), WriteBack::finish)?;
        self.file.sync_all()
    }
}

/// Counts and sums up what goes into a file.
pub(crate) struct Summed {
    storage: Box<dyn Storage>,
    bytes: u64,
    hash: Xxh3Default,
}

impl Summed {
    pub(crate) fn new(storage: Box<dyn Storage>) -> Self {
        Self { storage, bytes: 0, hash: Xxh3Default::new() }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.storage.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
        Ok(())
    }

    /// Waits for the disk and says what the file holds.
    pub(crate) fn finish(mut self, name: &str) -> io::Result<FileEntry> {
        self.storage.flush()?;
        self.storage.settle()?;
        Ok(FileEntry { name: name.to_owned(), bytes: self.bytes, checksum: text(self.hash.digest()) })
    }
}

/// Returns the checksum of some bytes, as manifests hold it: XXH3 with 64 bits, as sixteen hexadecimal digits.
///
/// # Source
///
/// Collet, "XXH3 specification" in <https://github.com/Cyan4973/xxHash>, `doc/xxhash_spec.md`. It finds damage, not
/// forgery.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    text(xxh3_64(bytes))
}

/// Computes the checksum of a file, with its length.
pub(crate) fn sum_file(path: &Path) -> io::Result<FileEntry> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes, mut buffer) = (Xxh3Default::new(), 0, vec![0; 1 << 20]);
    loop {
        match io::Read::read(&mut file, &mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(FileEntry { name, bytes, checksum: text(hash.digest()) })
}

fn text(hash: u64) -> String {
    format!("{hash:016x}")
}

/// Makes the names in a folder last, where the system can.
pub(crate) fn settle_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
