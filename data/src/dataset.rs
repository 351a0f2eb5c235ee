//! Data of any kind as numbered samples, some of which are held out.

use crate::arrays::ArrayFiles;
use crate::batch::{Inputs, MicroBatch};
use crate::cifar;
use crate::error::DataError;
use crate::files;
use crate::idx;
use crate::images::ImageFolder;
use crate::labelled::{Labelled, normalisation, normalised};
use crate::masking::Masking;
use crate::random::{Purpose, generator};
use crate::report::DataReport;
use crate::sample_kind::SampleKind;
use crate::text::{BYTE_VOCABULARY, Stream, Text};
use crate::tokenizer::Tokenizer;
use rand::RngExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

mod copies;

/// The name given in place of a path for samples that are generated from the seed.
pub const SYNTHETIC: &str = "synthetic";

/// Number of generated samples.
const SYNTHETIC_SAMPLES: usize = 20_000;

/// One sample in this many is kept from training and evaluated.
const HELD_OUT_INTERVAL: usize = 20;

/// The location of the data, and the tokenizer of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSource {
    /// A file or folder, or [`SYNTHETIC`].
    pub path: PathBuf,
    /// The file or folder of held-out samples; without it a part of `path` is held out.
    pub held_out: Option<PathBuf>,
    /// A `tokenizer.json`; without it text is read as bytes.
    pub tokenizer: Option<PathBuf>,
}

impl DataSource {
    /// Makes a source without a tokenizer, of which a part is held out.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), held_out: None, tokenizer: None }
    }

    /// Returns `true` if samples are generated from the seed.
    pub(crate) fn is_synthetic(&self) -> bool {
        self.path.as_os_str() == SYNTHETIC
    }
}

/// The layout of samples in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Tokens of the text from one sample to the next.
    stride: usize,
    /// Tokens of the text that a sample reads.
    taken: usize,
    /// For masked language models.
    masked: Option<Framed>,
}

/// A text with what stands around it, partly hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Framed {
    masking: Masking,
    begin: Option<i32>,
    close: Option<i32>,
}

/// The source that samples are read from.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a run")]
enum Content {
    Text { stream: Stream, layout: Layout },
    Images(ImageFolder),
    Labelled(Labelled),
    Synthetic,
}

impl Content {
    /// Returns the number of samples, and how many of them, the last ones, are a test part.
    fn samples(&self) -> (usize, usize) {
        match self {
            Self::Text { stream, layout } => (stream_samples(stream.len(), *layout), 0),
            Self::Images(images) => (images.samples(), images.test),
            Self::Labelled(labelled) => (labelled.samples(), labelled.test),
            Self::Synthetic => (SYNTHETIC_SAMPLES, 0),
        }
    }

    /// Returns the names of the classes in the order of their numbers, where folders have names.
    fn classes(&self) -> &[String] {
        if let Self::Images(images) = self { &images.classes } else { &[] }
    }
}

/// Metadata of a dataset.
#[derive(Clone, Debug, Default)]
struct About {
    kind: &'static str,
    files: usize,
    skipped: usize,
    bytes: u64,
    checksum: String,
    /// Content of the `tokenizer.json`.
    tokenizer: Option<Vec<u8>>,
}

/// Data that a model can be trained on.
#[derive(Debug)]
pub struct Dataset {
    source: DataSource,
    wanted: SampleKind,
    seed: u64,
    content: Content,
    about: About,
    /// The held-out samples, where they are not a part of `content`.
    apart: Option<Content>,
    training: Vec<usize>,
    held_out: Vec<usize>,
    /// Number of held-out samples that an evaluation reads.
    evaluated: usize,
}

/// The use of a sample, which decides what is hidden from a masked language model.
#[derive(Clone, Copy, Debug)]
enum Use {
    Training { position: u64 },
    HeldOut { index: usize },
}

impl Dataset {
    /// Opens what `source` names, for steps of `batch` samples. Where it names no held-out samples, data with a test part of
    /// its own (`t10k-` files of MNIST, `test` files of CIFAR, a folder `val` or `test` beside `train`) has that held
    /// out; of other data every twentieth sample is. Texts, arrays, MNIST and CIFAR files are held in memory; folders of
    /// images are not.
    ///
    /// # Errors
    ///
    /// When the path or the tokenizer cannot be read, is not of a kind that the model reads, holds what the model has
    /// no entry or class for, or has fewer training samples than a step takes; when held-out samples are trained on too.
    pub fn open(source: &DataSource, wanted: &SampleKind, batch: usize, seed: u64) -> Result<Self, DataError> {
        if source.path.as_os_str().is_empty() {
            return Err(DataError::EmptyPath);
        }
        let (content, mut about) = open(source, wanted)?;
        if let (Some(path), false) = (&source.tokenizer, matches!(content, Content::Text { .. })) {
            return Err(DataError::TokenizerUnused { path: path.clone(), kind: about.kind });
        }
        let apart = match &source.held_out {
            Some(path) => {
                let (apart, its) = open_apart(source, path, wanted, &content)?;
                if its.checksum == about.checksum || copies::are_copies(&apart, &content) {
                    return Err(DataError::Overlap { path: path.clone(), data: source.path.clone() });
                }
                // With other held-out samples others are trained on, or in another order.
                about.checksum = format!("{:016x}", xxh3_64(format!("{} {}", about.checksum, its.checksum).as_bytes()));
                Some(apart)
            }
            None => None,
        };
        let (count, test) = content.samples();
        let (training, held_out) = match &apart {
            Some(apart) => ((0..count - test).collect(), (0..apart.samples().0).collect()),
            None => parts(count, test),
        };
        if let Content::Text { stream, layout } = &content {
            check_length(source, stream, *layout, wanted, (training.len(), batch))?;
        }
        if training.len() < batch || training.is_empty() {
            return Err(DataError::TooFew { path: source.path.clone(), found: training.len(), batch });
        }
        let evaluated = held_out.len();
        Ok(Self { source: source.clone(), wanted: *wanted, seed, content, about, apart, training, held_out, evaluated })
    }

    /// Makes evaluations read so many samples, or all that are held out if they are fewer.
    #[must_use]
    pub fn evaluating(mut self, samples: usize) -> Self {
        self.evaluated = self.held_out.len().min(samples);
        self
    }

    /// Returns the number of samples of an epoch.
    pub fn training_samples(&self) -> usize {
        self.training.len()
    }

    /// Returns the number of samples that an evaluation reads.
    pub fn held_out_samples(&self) -> usize {
        self.evaluated
    }

    /// Returns XXH3 of the data and of the tokenizer behind it, 64 bits, hexadecimal; of a folder of images, of their
    /// paths and sizes. Held-out data of its own goes into it.
    pub fn checksum(&self) -> &str {
        &self.about.checksum
    }

    /// Returns the number of bytes of the data.
    pub fn bytes(&self) -> u64 {
        self.about.bytes
    }

    /// Returns the numbers of the samples met until now that cannot be decoded.
    pub fn corrupt_samples(&self) -> BTreeSet<usize> {
        if let Content::Images(images) = &self.content { images.corrupt() } else { BTreeSet::new() }
    }

    /// Returns the report of the data, with the samples skipped until now. `waited_s` is 0: whoever measures the wait
    /// sets it.
    pub fn report(&self) -> DataReport {
        DataReport {
            path: self.source.path.display().to_string(),
            held_out: self.source.held_out.as_ref().map(|path| path.display().to_string()),
            tokenizer: self.source.tokenizer.as_ref().map(|path| path.display().to_string()),
            kind: self.about.kind.into(),
            classes: self.classes().to_vec(),
            files: self.about.files,
            skipped_files: self.about.skipped,
            corrupt_samples: self.corrupt_samples().len(),
            waited_s: 0.0,
            bytes: self.about.bytes,
            training_samples: self.training_samples(),
            held_out_samples: self.held_out_samples(),
            held_out_in_all: Some(self.held_out.len()),
        }
    }

    /// Returns the names of the classes in the order of their numbers, where folders have names.
    pub fn classes(&self) -> &[String] {
        self.content.classes()
    }

    /// Returns the content of the `tokenizer.json` of a text.
    pub fn tokenizer(&self) -> Option<&[u8]> {
        self.about.tokenizer.as_deref()
    }

    /// Returns how images of a folder are prepared, as a `preprocessor_config.json` of transformers says it.
    pub fn preparation(&self) -> Option<Value> {
        let (Content::Images(_), SampleKind::Image { channels, height, width, .. }) = (&self.content, self.wanted)
        else {
            return None;
        };
        // As they are written, and not as single precision has them.
        let written = |value: f32| (f64::from(value) * 1e6).round() / 1e6;
        let both = |channel| normalisation(channels, channel);
        let (means, deviations): (Vec<f64>, Vec<f64>) =
            (0..channels).map(both).map(|(mean, deviation)| (written(mean), written(deviation))).unzip();
        Some(json!({
            "image_processor_type": "CLIPImageProcessor",
            "do_convert_rgb": channels == 3,
            "do_resize": true,
            "size": { "shortest_edge": height.max(width) },
            "do_center_crop": true,
            "crop_size": { "height": height, "width": width },
            "do_rescale": true,
            "rescale_factor": 1.0 / 255.0,
            "do_normalize": true,
            "image_mean": means,
            "image_std": deviations,
        }))
    }

    /// Returns the seed of the order of samples and of generated samples.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the numbers of training samples, ascending.
    pub fn training(&self) -> &[usize] {
        &self.training
    }

    /// Returns a batch without samples.
    pub fn empty(&self) -> MicroBatch {
        MicroBatch::empty(match self.wanted {
            SampleKind::NextToken { sequence, .. } | SampleKind::Masked { sequence, .. } => {
                Inputs::Tokens { ids: Vec::new(), sequence }
            }
            SampleKind::Image { channels, height, width, .. } => {
                Inputs::Images { pixels: Vec::new(), channels, height, width }
            }
            SampleKind::Vector { width, .. } => Inputs::Vectors { values: Vec::new(), width },
        })
    }

    /// Adds training sample `number`, which stands at `position` of the training's order, to a batch.
    ///
    /// # Errors
    ///
    /// When its file cannot be read any more.
    pub fn read(&self, number: usize, position: u64, into: &mut MicroBatch) -> Result<(), DataError> {
        self.add(number, Use::Training { position }, into)
    }

    /// Returns the samples of the held-out part with these indices, below [`Dataset::held_out_samples`]. Those read are
    /// spread over all of it, and the same tokens are hidden from masked language models whenever they are read.
    ///
    /// # Errors
    ///
    /// When a file cannot be read any more.
    pub fn held_out(&self, indices: &[usize]) -> Result<MicroBatch, DataError> {
        let mut batch = self.empty();
        for index in indices {
            let number = self.held_out[index * self.held_out.len() / self.held_out_samples()];
            self.add(number, Use::HeldOut { index: *index }, &mut batch)?;
        }
        Ok(batch)
    }

    fn add(&self, number: usize, of: Use, into: &mut MicroBatch) -> Result<(), DataError> {
        let content = match of {
            Use::Training { .. } => &self.content,
            Use::HeldOut { .. } => self.apart.as_ref().unwrap_or(&self.content),
        };
        match content {
            Content::Text { stream, layout } => {
                let tokens = stream.tokens(number * layout.stride, layout.taken);
                match layout.masked {
                    None => into.push_text(&tokens),
                    Some(framed) => self.mask(tokens, framed, of, into),
                }
            }
            Content::Images(images) => {
                let part = if let Use::Training { .. } = of { &self.training } else { &self.held_out };
                let (pixels, label) = images.read(number, part)?;
                into.push_values(normalised(&pixels, self.channels()), label);
            }
            Content::Labelled(labelled) => labelled.read(number, into),
            Content::Synthetic => self.make_up(number, of, into),
        }
        Ok(())
    }

    fn channels(&self) -> usize {
        if let SampleKind::Image { channels, .. } = self.wanted { channels } else { 1 }
    }

    fn mask(&self, mut tokens: Vec<i32>, framed: Framed, of: Use, into: &mut MicroBatch) {
        let purpose = match of {
            Use::Training { position } => Purpose::Mask { position },
            Use::HeldOut { index } => Purpose::HeldOutMask { index: index as u64 },
        };
        let (mut positions, hidden) = framed.masking.hide(&mut tokens, &mut generator(self.seed, purpose));
        if framed.begin.is_some() {
            for position in &mut positions {
                *position += 1;
            }
        }
        let sample: Vec<i32> = framed.begin.into_iter().chain(tokens).chain(framed.close).collect();
        into.push_masked(&sample, &positions, &hidden);
    }

    /// Adds a sample of random numbers: uniform tokens and classes, uniform values between −1 and 1.
    fn make_up(&self, number: usize, of: Use, into: &mut MicroBatch) {
        let mut random = generator(self.seed, Purpose::Synthetic { number: number as u64 });
        let below = |entries: u64| 0..i32::try_from(entries).unwrap_or(i32::MAX);
        match self.wanted {
            SampleKind::NextToken { sequence, vocabulary } => {
                into.push_text(&(0..=sequence).map(|_| random.random_range(below(vocabulary))).collect::<Vec<_>>());
            }
            SampleKind::Masked { sequence, vocabulary, predictions } => {
                let tokens = (0..sequence).map(|_| random.random_range(below(vocabulary))).collect();
                let masking = Masking {
                    predictions: Masking::predictions(predictions, sequence),
                    mask: below(vocabulary).end - 1,
                    entries: below(vocabulary).end,
                };
                self.mask(tokens, Framed { masking, begin: None, close: None }, of, into);
            }
            SampleKind::Image { channels, height, width, classes } => {
                let label = random.random_range(below(classes));
                into.push_values((0..channels * height * width).map(|_| random.random_range(-1.0..1.0)), label);
            }
            SampleKind::Vector { width, classes } => {
                let label = random.random_range(below(classes));
                into.push_values((0..width).map(|_| random.random_range(-1.0..1.0)), label);
            }
        }
    }
}

/// Finds out what a source is and reads what must be known before the first step.
fn open(source: &DataSource, wanted: &SampleKind) -> Result<(Content, About), DataError> {
    let path = &source.path;
    if source.is_synthetic() {
        let checksum = format!("{:016x}", xxh3_64(format!("{SYNTHETIC} {wanted:?}").as_bytes()));
        return Ok((Content::Synthetic, About { kind: "synthetic data", checksum, ..About::default() }));
    }
    let folder = files::is_folder(path)?;
    let labelled = |kind, labelled: Labelled| {
        let (files, bytes, checksum) = (labelled.files, labelled.bytes, labelled.checksum());
        Ok((Content::Labelled(labelled), About { kind, files, bytes, checksum, ..About::default() }))
    };
    let reads_text = wanted.sequence().is_some();
    if let Some(arrays) = ArrayFiles::at(path, folder, wanted) {
        if reads_text {
            return text(source, wanted, Some(&arrays));
        }
        return labelled("arrays", arrays.labelled(wanted)?);
    }
    let found = idx::at(path, folder)?;
    if !found.is_empty() {
        let kind = "MNIST data";
        if reads_text {
            return Err(DataError::Foreign { path: path.clone(), kind, wanted: wanted.words() });
        }
        return labelled(kind, idx::read(&found, wanted)?);
    }
    if reads_text {
        return text(source, wanted, None);
    }
    let found = cifar::at(path, folder)?;
    if !found.is_empty() {
        return labelled("CIFAR data", cifar::read(&found, wanted)?);
    }
    if folder && matches!(wanted, SampleKind::Image { .. }) {
        let images = ImageFolder::open(path, wanted)?;
        let (files, skipped, bytes, checksum) =
            (images.samples(), images.skipped, images.bytes, images.checksum.clone());
        return Ok((
            Content::Images(images),
            About { kind: "images", files, skipped, bytes, checksum, tokenizer: None },
        ));
    }
    Err(DataError::UnknownKind { path: path.clone(), wanted: wanted.words(), allowed: wanted.allowed() })
}

/// Opens the held-out samples of a source, which are read as `content` is.
fn open_apart(
    source: &DataSource,
    path: &Path,
    wanted: &SampleKind,
    content: &Content,
) -> Result<(Content, About), DataError> {
    let path = path.to_owned();
    if overlap(&path, &source.path) {
        return Err(DataError::Overlap { path, data: source.path.clone() });
    }
    let own = DataSource { path: path.clone(), held_out: None, tokenizer: source.tokenizer.clone() };
    let (apart, about) = open(&own, wanted)?;
    if let (Content::Text { stream, layout }, (0, _)) = (&apart, apart.samples()) {
        return Err(too_short(&path, stream, *layout, wanted));
    }
    let (ours, theirs) = (content.classes(), apart.classes());
    if ours != theirs && !ours.is_empty() && !theirs.is_empty() {
        let (found, allowed) = (theirs.join(", "), ours.join(", "));
        return Err(DataError::OtherClasses { path, found, allowed });
    }
    Ok((apart, about))
}

/// Returns `true` if one of two paths is the other or lies in it, so that samples of one are read with the other.
fn overlap(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one.starts_with(&other) || other.starts_with(&one),
        _ => false,
    }
}

/// Opens a text, or the ids of one.
fn text(source: &DataSource, wanted: &SampleKind, ids: Option<&ArrayFiles>) -> Result<(Content, About), DataError> {
    let (SampleKind::NextToken { vocabulary, .. } | SampleKind::Masked { vocabulary, .. }) = *wanted else {
        unreachable!("only models of tokens read texts")
    };
    let masked = matches!(wanted, SampleKind::Masked { .. });
    let kind = if ids.is_some() { "an array of tokens" } else { "text" };
    if let (Some(path), Some(_), false) = (&source.tokenizer, ids, masked) {
        return Err(DataError::TokenizerUnused { path: path.clone(), kind });
    }
    let tokenizer = source.tokenizer.as_deref().map(|path| Tokenizer::read(path, vocabulary)).transpose()?;
    let special = match (&tokenizer, ids) {
        (Some(tokenizer), _) if masked => {
            let (begin, close) = tokenizer.frame();
            Special { mask: tokenizer.mask()?, entries: tokenizer.entries, begin, close }
        }
        (None, None) => {
            // The first entry after those of bytes hides one.
            let entries = BYTE_VOCABULARY + u64::from(masked);
            if vocabulary < entries {
                let what =
                    if masked { "text that is read as bytes, with a mask," } else { "text that is read as bytes" };
                return Err(DataError::Vocabulary { what: what.into(), entries, vocabulary });
            }
            Special::after(BYTE_VOCABULARY)
        }
        // The last entry of the model's table hides tokens.
        _ => Special::after(vocabulary - u64::from(masked)),
    };
    let layout = layout(wanted, &special);
    #[expect(clippy::single_match_else, reason = "two sources side by side")]
    let (stream, about) = match ids {
        Some(arrays) => {
            let limit = if tokenizer.is_some() || !masked { vocabulary } else { vocabulary - 1 };
            let (ids, file) = arrays.tokens(limit)?;
            let mut checksum = Xxh3::new();
            checksum.update(&file);
            if let Some(tokenizer) = &tokenizer {
                // What hides and frames the ids.
                checksum.update(&tokenizer.content);
            }
            let (bytes, checksum) = (file.len() as u64, format!("{:016x}", checksum.digest()));
            (Stream::Ids(ids), About { kind, files: 1, bytes, checksum, ..About::default() })
        }
        None => {
            let Text { stream, files, skipped, bytes, checksum } = Text::read(&source.path, tokenizer.as_ref())?;
            (stream, About { kind, files, skipped, bytes, checksum, tokenizer: None })
        }
    };
    let about = About { tokenizer: tokenizer.map(|tokenizer| tokenizer.content), ..about };
    Ok((Content::Text { stream, layout }, about))
}

/// The tokens that masked language models know besides those of a text.
struct Special {
    /// The mask token.
    mask: u32,
    /// Tokens below this may replace one.
    entries: u32,
    /// The token before a text.
    begin: Option<u32>,
    /// The token after it.
    close: Option<u32>,
}

impl Special {
    /// Returns a mask that comes right after so many entries, and no other special token.
    fn after(entries: u64) -> Self {
        let mask = u32::try_from(entries).unwrap_or(u32::MAX);
        Self { mask, entries: mask, begin: None, close: None }
    }
}

/// Returns the layout of samples that the model needs.
fn layout(wanted: &SampleKind, special: &Special) -> Layout {
    match *wanted {
        SampleKind::Masked { sequence, predictions, .. } => {
            // A sequence too short for a frame goes without.
            let (begin, close) = if sequence > 2 { (special.begin, special.close) } else { (None, None) };
            let taken = sequence - usize::from(begin.is_some()) - usize::from(close.is_some());
            let id = |id: u32| i32::try_from(id).unwrap_or(i32::MAX);
            let masking = Masking {
                predictions: Masking::predictions(predictions, taken),
                mask: id(special.mask),
                entries: id(special.entries),
            };
            let framed = Framed { masking, begin: begin.map(id), close: close.map(id) };
            Layout { stride: taken, taken, masked: Some(framed) }
        }
        SampleKind::NextToken { sequence, .. } => Layout { stride: sequence, taken: sequence + 1, masked: None },
        SampleKind::Image { .. } | SampleKind::Vector { .. } => unreachable!("only models of tokens read texts"),
    }
}

/// Returns the number of samples in a text of `tokens`.
fn stream_samples(tokens: usize, layout: Layout) -> usize {
    tokens.saturating_sub(layout.taken - layout.stride) / layout.stride
}

/// Refuses a text too short for a sample or for a step.
fn check_length(
    source: &DataSource,
    stream: &Stream,
    layout: Layout,
    wanted: &SampleKind,
    (training, batch): (usize, usize),
) -> Result<(), DataError> {
    if stream_samples(stream.len(), layout) == 0 {
        return Err(too_short(&source.path, stream, layout, wanted));
    }
    if training < batch {
        // Batches of 19 training samples carry one held-out sample with them.
        let held_out = if source.held_out.is_some() { 0 } else { batch.div_ceil(HELD_OUT_INTERVAL - 1) };
        let needed = (batch + held_out) * layout.stride + (layout.taken - layout.stride);
        let (path, sample) = (source.path.clone(), layout.taken);
        return Err(DataError::TooLittle { path, found: stream.len(), unit: stream.unit(), needed, batch, sample });
    }
    Ok(())
}

fn too_short(path: &Path, stream: &Stream, layout: Layout, wanted: &SampleKind) -> DataError {
    DataError::TooShort {
        path: path.to_owned(),
        found: stream.len(),
        unit: stream.unit(),
        sample: layout.taken,
        sequence: wanted.sequence().unwrap_or(0),
    }
}

/// Returns training and held-out samples of data that ends with a test part of `test` samples, if it has one.
fn parts(count: usize, test: usize) -> (Vec<usize>, Vec<usize>) {
    if test == 0 { every_twentieth(count) } else { ((0..count - test).collect(), (count - test..count).collect()) }
}

/// Returns training and held-out samples. With few samples the last one is held out, so that there always is one.
fn every_twentieth(count: usize) -> (Vec<usize>, Vec<usize>) {
    (0..count).partition(|i| {
        let twentieth = i % HELD_OUT_INTERVAL == HELD_OUT_INTERVAL - 1;
        !(twentieth || (count < HELD_OUT_INTERVAL && i + 1 == count))
    })
}

#[cfg(test)]
mod tests;
