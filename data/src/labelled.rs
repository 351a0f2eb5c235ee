//! Images and vectors with their classes, held in memory.

use crate::batch::MicroBatch;
use crate::error::DataError;
use crate::sample_kind::SampleKind;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Mean of each channel over ImageNet, and its standard deviation, of values between 0 and 1.
/// Source: torchvision, documentation of its pre-trained models, "mean" and "std".
const IMAGENET: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

/// Returns what is subtracted from a pixel of `channel`, one of `channels`, and what it is divided by.
pub(crate) fn normalisation(channels: usize, channel: usize) -> (f32, f32) {
    if channels == 3 { IMAGENET[channel] } else { (0.5, 0.5) }
}

/// Returns the normalised values of an image of (channels, height, width) bytes.
pub(crate) fn normalised(pixels: &[u8], channels: usize) -> impl Iterator<Item = f32> {
    let plane = pixels.len() / channels;
    pixels.iter().enumerate().map(move |(at, pixel)| {
        let (mean, deviation) = normalisation(channels, at / plane);
        (f32::from(*pixel) / 255.0 - mean) / deviation
    })
}

/// Values of all samples, one sample's after another's.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// Bytes, normalised when they are read.
    Pixels(Vec<u8>),
    /// Numbers, taken as they are.
    Numbers(Vec<f32>),
}

/// Samples with classes.
#[derive(Clone, Debug)]
pub(crate) struct Labelled {
    /// Of a sample: (channels, height, width).
    shape: [usize; 3],
    values: Values,
    labels: Vec<i32>,
    /// Samples at the end that are a test part of their own.
    pub test: usize,
    /// Files read.
    pub files: usize,
    pub bytes: u64,
    checksum: Xxh3Text,
}

/// A checksum in progress.
#[derive(Clone, Default)]
struct Xxh3Text(Xxh3);

impl std::fmt::Debug for Xxh3Text {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}", self.0.digest())
    }
}

impl Labelled {
    /// Makes samples of this shape that have no labels yet.
    pub(crate) fn new(shape: [usize; 3], values: Values) -> Self {
        let checksum = Xxh3Text::default();
        Self { shape, values, labels: Vec::new(), test: 0, files: 0, bytes: 0, checksum }
    }

    /// Adds files to the checksum and to the bytes.
    pub(crate) fn count(&mut self, files: &[&[u8]]) {
        for file in files {
            self.checksum.0.update(file);
            self.bytes += file.len() as u64;
        }
    }

    /// Adds labels, in the order of samples, of a file.
    pub(crate) fn label(
        &mut self,
        path: &Path,
        labels: impl IntoIterator<Item = i64>,
        wanted: &SampleKind,
    ) -> Result<(), DataError> {
        let classes = wanted.classes().unwrap_or(0);
        for (sample, label) in labels.into_iter().enumerate() {
            let of_model = i32::try_from(label).ok().filter(|_| u64::try_from(label).is_ok_and(|l| l < classes));
            let wrong = || DataError::Label { path: path.to_owned(), sample, label, classes };
            self.labels.push(of_model.ok_or_else(wrong)?);
        }
        Ok(())
    }

    /// Adds the pixels of further samples.
    pub(crate) fn extend(&mut self, pixels: &[u8]) {
        match &mut self.values {
            Values::Pixels(all) => all.extend_from_slice(pixels),
            Values::Numbers(_) => unreachable!("files of pixels are read as pixels"),
        }
    }

    /// Returns the number of samples.
    pub(crate) fn samples(&self) -> usize {
        self.labels.len()
    }

    /// Returns XXH3 of all files, 64 bits, hexadecimal.
    pub(crate) fn checksum(&self) -> String {
        format!("{:?}", self.checksum)
    }

    /// Adds a sample to a batch.
    pub(crate) fn read(&self, number: usize, into: &mut MicroBatch) {
        let size: usize = self.shape.iter().product();
        let own = number * size..(number + 1) * size;
        match &self.values {
            Values::Pixels(pixels) => into.push_values(normalised(&pixels[own], self.shape[0]), self.labels[number]),
            Values::Numbers(numbers) => into.push_values(numbers[own].iter().copied(), self.labels[number]),
        }
    }
}

/// Refuses images of other sides than the model's; a vector is as good as an image of as many values.
pub(crate) fn check_sides(path: &Path, found: [usize; 3], wanted: &SampleKind) -> Result<(), DataError> {
    let [channels, height, width] = found;
    let fits = match *wanted {
        SampleKind::Image { channels: c, height: h, width: w, .. } => (c, h, w) == (channels, height, width),
        SampleKind::Vector { width: values, .. } => values == channels * height * width,
        SampleKind::NextToken { .. } | SampleKind::Masked { .. } => false,
    };
    if fits {
        return Ok(());
    }
    let found = format!("images of {channels} × {height} × {width} values");
    Err(DataError::Sides { path: path.to_owned(), found, wanted: wanted.words() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_normalised_as_imagenets_and_greys_to_one() {
        let colours: Vec<f32> = normalised(&[0, 255, 0, 255, 0, 255], 3).collect();
        let expected = [-0.485 / 0.229, 0.515 / 0.229, -0.456 / 0.224, 0.544 / 0.224, -0.406 / 0.225, 0.594 / 0.225];
        assert!(colours.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{colours:?}");
        assert_eq!(normalised(&[0, 255], 1).collect::<Vec<_>>(), [-1.0, 1.0]);
    }

    #[test]
    fn labels_are_checked_against_the_models_classes() {
        let wanted = SampleKind::Vector { width: 1, classes: 3 };
        let mut labelled = Labelled::new([1, 1, 1], Values::Numbers(vec![0.5, 1.5]));
        for wrong in [3, -1, i64::MAX] {
            let error = labelled.label(Path::new("x"), [0, wrong], &wanted).expect_err("no such class").to_string();
            assert!(
                error.contains(&format!("sample 1 of `x` has label {wrong}")) && error.contains("0 to 2"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_vector_may_be_an_image() {
        let vector = SampleKind::Vector { width: 784, classes: 10 };
        let image = SampleKind::Image { channels: 1, height: 32, width: 32, classes: 10 };
        assert!(check_sides(Path::new("x"), [1, 28, 28], &vector).is_ok());
        let error = check_sides(Path::new("x"), [1, 28, 28], &image).expect_err("other sides").to_string();
        assert!(error.contains("1 × 28 × 28") && error.contains("1 × 32 × 32"), "{error}");
    }
}
