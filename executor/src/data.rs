//! Text as training data: files read as bytes, one token per byte.

use crate::random::{Purpose, generator};
use rand::seq::SliceRandom;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Entries of the byte vocabulary.
pub const BYTE_VOCABULARY: u64 = 256;

/// What stands between two files: a zero byte, which text files do not hold.
const SEPARATOR: u8 = 0;

/// One sample in this many is kept from training and evaluated.
const HELD_OUT_INTERVAL: usize = 20;

/// The most held-out samples that an evaluation reads.
pub const HELD_OUT_MAX: usize = 64;

/// Why data cannot be trained on.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// No path was given.
    #[error("`data.path` is empty; name a text file or a folder of text files")]
    EmptyPath,
    /// A file or folder could not be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The named file is not text.
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText {
        /// Which one.
        path: PathBuf,
    },
    /// A folder without text.
    #[error("`{}` holds no text files ({skipped} other files were skipped)", path.display())]
    NoText {
        /// Which one.
        path: PathBuf,
        /// Binary files in it.
        skipped: usize,
    },
    /// Too few bytes for one step.
    #[error(
        "`{}` has {found} bytes of text, but a global batch of {batch} samples of {sample} bytes besides the held-out \
         part needs {needed}", path.display()
    )]
    TooLittle {
        /// Where the text came from.
        path: PathBuf,
        /// Bytes found.
        found: usize,
        /// Bytes needed.
        needed: usize,
        /// Samples of a step.
        batch: usize,
        /// Bytes of a sample.
        sample: usize,
    },
}

/// Text in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Where it came from.
    pub path: PathBuf,
    /// Files, one after another with a zero byte between them.
    pub bytes: Vec<u8>,
    /// Text files read.
    pub files: usize,
    /// Files that are not text.
    pub skipped: usize,
}

impl Corpus {
    /// Reads a file, or all text files of a folder and its sub-folders in the order of their paths. Hidden files and
    /// folders, `target`, `runs`, links and files that are not UTF-8 are left out of a folder.
    ///
    /// # Errors
    ///
    /// When the path is empty or cannot be read, or holds no text.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        if path.as_os_str().is_empty() {
            return Err(DataError::EmptyPath);
        }
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| DataError::Unreadable { path, source }
        };
        let mut corpus = Self { path: path.to_owned(), bytes: Vec::new(), files: 0, skipped: 0 };
        if !fs::metadata(path).map_err(unreadable(path))?.is_dir() {
            let bytes = fs::read(path).map_err(unreadable(path))?;
            return if corpus.append(&bytes) { Ok(corpus) } else { Err(DataError::NotText { path: path.to_owned() }) };
        }
        let mut files = Vec::new();
        list(path, &mut files)?;
        for file in files {
            corpus.append(&fs::read(&file).map_err(unreadable(&file))?);
        }
        match corpus.files {
            0 => Err(DataError::NoText { path: path.to_owned(), skipped: corpus.skipped }),
            _ => Ok(corpus),
        }
    }

    /// Adds a file if it is text.
    fn append(&mut self, bytes: &[u8]) -> bool {
        if std::str::from_utf8(bytes).is_err() || bytes.contains(&SEPARATOR) {
            self.skipped += 1;
            return false;
        }
        if !self.bytes.is_empty() {
            self.bytes.push(SEPARATOR);
        }
        self.bytes.extend_from_slice(bytes);
        self.files += 1;
        true
    }
}

/// All files under a folder, sorted, so that a run does not depend on the file system's order.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let unreadable = |source| DataError::Unreadable { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let name = entry.file_name();
        let kind = entry.file_type().map_err(unreadable)?;
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        if kind.is_dir() && name != "target" && name != "runs" {
            list(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// A corpus cut into samples of `sequence` inputs and as many targets, each one byte later.
#[derive(Clone, Debug)]
pub struct Samples {
    bytes: Vec<u8>,
    sequence: usize,
    training: Vec<usize>,
    held_out: Vec<usize>,
    seed: u64,
}

impl Samples {
    /// Cuts `corpus` for steps of `batch` samples. Every twentieth sample is held out.
    ///
    /// # Errors
    ///
    /// When there is too little text for one step.
    pub fn new(corpus: Corpus, sequence: usize, batch: usize, seed: u64) -> Result<Self, DataError> {
        let found = corpus.bytes.len();
        let count = found.saturating_sub(1) / sequence;
        // With few samples the last one is held out, so that there always is one.
        let is_held_out =
            |i: &usize| i % HELD_OUT_INTERVAL == HELD_OUT_INTERVAL - 1 || (count < HELD_OUT_INTERVAL && i + 1 == count);
        let (held_out, training): (Vec<usize>, Vec<usize>) = (0..count).partition(is_held_out);
        if training.len() < batch {
            // Batches of 19 training samples carry one held-out sample with them.
            let samples = batch + batch.div_ceil(HELD_OUT_INTERVAL - 1);
            let needed = samples * sequence + 1;
            return Err(DataError::TooLittle { path: corpus.path, found, needed, batch, sample: sequence + 1 });
        }
        Ok(Self { bytes: corpus.bytes, sequence, training, held_out, seed })
    }

    /// Samples of an epoch.
    pub fn training_samples(&self) -> usize {
        self.training.len()
    }

    /// Samples that an evaluation reads.
    pub fn held_out_samples(&self) -> usize {
        self.held_out.len().min(HELD_OUT_MAX)
    }

    /// One sample of the held-out part. Those read are spread over all of it.
    pub(crate) fn held_out(&self, index: usize) -> &[u8] {
        self.sample(self.held_out[index * self.held_out.len() / self.held_out_samples()])
    }

    /// `sequence + 1` tokens.
    fn sample(&self, number: usize) -> &[u8] {
        &self.bytes[number * self.sequence..=(number + 1) * self.sequence]
    }
}

/// The order of training samples: epoch after epoch, each shuffled by the seed and its number.
pub(crate) struct Order<'a> {
    samples: &'a Samples,
    epoch: Option<u64>,
    shuffled: Vec<usize>,
}

impl<'a> Order<'a> {
    pub(crate) fn new(samples: &'a Samples) -> Self {
        Self { samples, epoch: None, shuffled: Vec::new() }
    }

    /// The sample at `position`, counted from the start of training. It depends on nothing but the data and the seed.
    pub(crate) fn sample(&mut self, position: u64) -> &'a [u8] {
        let length = self.samples.training.len() as u64;
        let epoch = position / length;
        if self.epoch != Some(epoch) {
            self.shuffled.clone_from(&self.samples.training);
            self.shuffled.shuffle(&mut generator(self.samples.seed, Purpose::Order { epoch }));
            self.epoch = Some(epoch);
        }
        self.samples.sample(self.shuffled[(position % length) as usize])
    }
}

/// Token ids of one micro-batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MicroBatch {
    /// How many samples.
    pub(crate) samples: usize,
    /// What is read.
    pub(crate) inputs: Inputs,
    /// What is to be predicted: one for each scored position, in the order of rows.
    pub(crate) targets: Vec<i32>,
    /// The rows that are scored, if not all are.
    pub(crate) scored: Option<Vec<i32>>,
}

/// What a micro-batch reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inputs {
    Tokens { ids: Vec<i32>, sequence: usize },
    Images { pixels: Vec<f32>, channels: usize, height: usize, width: usize },
    Vectors { values: Vec<f32>, width: usize },
}

impl MicroBatch {
    pub(crate) fn of<'a>(samples: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let (mut count, mut ids, mut targets, mut sequence) = (0, Vec::new(), Vec::new(), 0);
        for sample in samples {
            count += 1;
            sequence = sample.len() - 1;
            ids.extend(sample[..sample.len() - 1].iter().map(|byte| i32::from(*byte)));
            targets.extend(sample[1..].iter().map(|byte| i32::from(*byte)));
        }
        Self { samples: count, inputs: Inputs::Tokens { ids, sequence }, targets, scored: None }
    }
}

/// Which samples of each global batch a replica reads, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Samples of a micro-batch.
    pub(crate) micro: u64,
    /// Micro-batches of the replica in a step.
    pub(crate) accumulation: u64,
    /// Which replica.
    pub(crate) replica: u64,
}

impl Slice {
    /// The micro-batches of the step whose global batch begins at `position`.
    pub(crate) fn step(self, order: &mut Order<'_>, position: u64) -> Vec<MicroBatch> {
        let start = position + self.replica * self.micro * self.accumulation;
        (0..self.accumulation)
            .map(|m| {
                let first = start + m * self.micro;
                MicroBatch::of((first..first + self.micro).map(|position| order.sample(position)).collect::<Vec<_>>())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(length: usize) -> Corpus {
        let bytes = (0..length).map(|i| (i % 251) as u8 + 1).collect();
        Corpus { path: "text".into(), bytes, files: 1, skipped: 0 }
    }

    #[test]
    fn an_epoch_reads_every_training_sample_once_and_no_held_out_one() {
        let samples = Samples::new(corpus(401), 4, 8, 3).expect("enough text");
        assert_eq!((samples.training_samples(), samples.held_out_samples()), (95, 5));
        let mut order = Order::new(&samples);
        let mut first: Vec<_> = (0..95).map(|p| order.sample(p).as_ptr()).collect();
        let second: Vec<_> = (95..190).map(|p| order.sample(p).as_ptr()).collect();
        assert_ne!(first, second);
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 95);
        assert!((0..5).all(|i| !first.contains(&samples.held_out(i).as_ptr())));
    }

    #[test]
    fn a_global_batch_is_the_same_however_it_is_sliced() {
        let samples = Samples::new(corpus(4001), 4, 12, 3).expect("enough text");
        let mut order = Order::new(&samples);
        let mut read = |data: u64, micro: u64| -> Vec<i32> {
            let accumulation = 12 / data / micro;
            (0..data)
                .flat_map(|replica| Slice { micro, accumulation, replica }.step(&mut order, 84))
                .flat_map(|batch| batch.targets)
                .collect()
        };
        let whole = read(1, 12);
        assert_eq!(whole.len(), 48);
        assert_eq!(read(2, 3), whole);
        assert_eq!(read(3, 1), whole);
    }

    #[test]
    fn targets_are_inputs_one_token_later() {
        let batch = MicroBatch::of([&b"abc"[..], &b"xyz"[..]]);
        assert_eq!((batch.samples, batch.targets.len()), (2, 4));
        assert_eq!(batch.targets, [98, 99, 121, 122]);
    }

    #[test]
    fn too_little_text_says_how_much_is_needed() {
        let error = Samples::new(corpus(100), 16, 8, 0).expect_err("six samples").to_string();
        assert!(error.contains("has 100 bytes") && error.contains("needs 145"), "{error}");
        assert!(Samples::new(corpus(145), 16, 8, 0).is_ok());
        assert!(Samples::new(corpus(144), 16, 8, 0).is_err());
    }

    #[test]
    fn a_folder_is_read_in_order_without_what_is_not_text() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("inside the folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        };
        put("b.txt", b"second");
        put("a/x.md", b"first");
        put("picture.png", &[0x89, 0x50, 0xff]);
        put(".git/config", b"hidden");
        put("target/out.txt", b"built");
        put("runs/loss.txt", b"ran");
        let corpus = Corpus::read(folder.path()).expect("two text files");
        assert_eq!(corpus.bytes, b"first\0second");
        assert_eq!((corpus.files, corpus.skipped), (2, 1));
    }

    #[test]
    fn wrong_paths_are_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(matches!(Corpus::read(Path::new("")), Err(DataError::EmptyPath)));
        assert!(matches!(Corpus::read(folder.path()), Err(DataError::NoText { skipped: 0, .. })));
        let missing = folder.path().join("missing.txt");
        let error = Corpus::read(&missing).expect_err("no such file").to_string();
        assert!(error.contains("missing.txt"), "{error}");
        let binary = folder.path().join("binary");
        fs::write(&binary, [0xff, 0xfe]).expect("a file");
        assert!(matches!(Corpus::read(&binary), Err(DataError::NotText { .. })));
    }
}
