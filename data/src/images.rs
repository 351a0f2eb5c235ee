//! Folders of images: `CLASS/NAME.jpg` or `.png`, classes in the order of their names.
//!
//! Images are decoded when a step wants them, so that a folder may be larger than memory. An image that cannot be
//! decoded is noticed then: the next one of the same part in the order of paths that can be decoded takes its place,
//! which depends on nothing but the files, and it is counted. A file that cannot even be read ends the run.

use crate::error::DataError;
use crate::files;
use crate::guarded::guarded;
use crate::sample_kind::SampleKind;
use image::imageops::{self, FilterType};
use image::{DynamicImage, ImageReader, Limits};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// Endings of files that are images.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];
/// The folder of a training part, beside one of a test part.
const TRAINING: &str = "train";
/// Names of a folder that holds a test part.
const TESTS: [&str; 4] = ["val", "valid", "validation", "test"];

/// Images by class, not yet decoded.
#[derive(Debug)]
pub(crate) struct ImageFolder {
    root: PathBuf,
    files: Vec<(PathBuf, i32)>,
    /// Names of the classes in the order of their numbers.
    pub classes: Vec<String>,
    /// Channels, height and width of the model's images.
    sides: [usize; 3],
    /// Those that turned out not to be images.
    corrupt: Mutex<BTreeSet<usize>>,
    /// Images at the end that are a test part of their own.
    pub test: usize,
    /// Files that are not named as images are.
    pub skipped: usize,
    pub bytes: u64,
    /// Of the paths and sizes of all images, since to read them all would take as long as an epoch: XXH3, 64 bits,
    /// hexadecimal.
    pub checksum: String,
}

/// A folder of a class with its images.
type Class = (String, Vec<PathBuf>);

impl ImageFolder {
    /// Lists the images under `path`. If it holds a folder `train` and one of `val`, `valid`, `validation` and `test`,
    /// classes are inside these.
    pub(crate) fn open(path: &Path, wanted: &SampleKind) -> Result<Self, DataError> {
        let SampleKind::Image { channels, height, width, classes: of_model } = *wanted else {
            return Err(DataError::Foreign { path: path.into(), kind: "a folder of images", wanted: wanted.words() });
        };
        if ![1, 3].contains(&channels) {
            let found = "images of 1 or 3 channels".into();
            return Err(DataError::Sides { path: path.into(), found, wanted: wanted.words() });
        }
        let (folders, _) = files::inside(path)?;
        let named = |name: &str| folders.iter().find(|folder| files::name(folder) == name);
        let mut skipped = 0;
        let (training, test) = match (named(TRAINING), TESTS.into_iter().find_map(named)) {
            (Some(training), Some(test)) => (classes(training, &mut skipped)?, classes(test, &mut skipped)?),
            _ => (classes(path, &mut skipped)?, Vec::new()),
        };
        if training.is_empty() {
            return Err(DataError::NoClasses { path: path.into() });
        }
        let names: BTreeSet<&String> = training.iter().chain(&test).map(|(name, _)| name).collect();
        if names.len() as u64 > of_model {
            return Err(DataError::Classes { path: path.into(), found: names.len(), classes: of_model });
        }
        let labelled = |classes: &[Class]| -> Vec<(PathBuf, i32)> {
            let label = |name: &String| names.iter().take_while(|other| **other < name).count() as i32;
            let of_class = |(name, images): &Class| images.iter().map(|image| (image.clone(), label(name))).collect();
            classes.iter().flat_map(|class| -> Vec<_> { of_class(class) }).collect()
        };
        let classes = names.iter().map(|name| (*name).clone()).collect();
        let (mut images, test) = (labelled(&training), labelled(&test));
        let count = test.len();
        images.extend(test);
        let (bytes, checksum) = sizes(path, &images)?;
        let (sides, corrupt) = ([channels, height, width], Mutex::default());
        Ok(Self { root: path.into(), files: images, classes, sides, corrupt, test: count, skipped, bytes, checksum })
    }

    /// Returns the number of images.
    pub(crate) fn samples(&self) -> usize {
        self.files.len()
    }

    /// Images met so far that cannot be decoded.
    pub(crate) fn corrupt(&self) -> BTreeSet<usize> {
        // The set is whole whatever a thread that held it did.
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the pixels of an image, (channels, height, width), and its class; those of the next good one of `part`,
    /// which lists images in ascending order, if it is corrupt.
    pub(crate) fn read(&self, number: usize, part: &[usize]) -> Result<(Vec<u8>, i32), DataError> {
        let at = part.binary_search(&number).expect("an image belongs to its part");
        for candidate in part[at..].iter().chain(&part[..at]) {
            if self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).contains(candidate) {
                continue;
            }
            let (path, label) = &self.files[*candidate];
            if let Some(pixels) = decode(&files::bytes(path)?, self.sides) {
                return Ok((pixels, *label));
            }
            self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).insert(*candidate);
        }
        Err(DataError::AllCorrupt { path: self.root.clone(), images: part.len() })
    }
}

/// Returns the folders of classes in a folder, with their images.
fn classes(folder: &Path, skipped: &mut usize) -> Result<Vec<Class>, DataError> {
    let (folders, beside) = files::inside(folder)?;
    *skipped += beside.len();
    let mut classes = Vec::new();
    for class in folders {
        let name = class.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let all = files::all(&class)?;
        let images: Vec<PathBuf> =
            all.iter().filter(|file| ENDINGS.contains(&files::ending(file).as_str())).cloned().collect();
        if images.is_empty() {
            return Err(DataError::EmptyClass { path: class });
        }
        *skipped += all.len() - images.len();
        classes.push((name, images));
    }
    Ok(classes)
}

/// Returns the bytes of all images, and the checksum of their paths and sizes.
fn sizes(root: &Path, images: &[(PathBuf, i32)]) -> Result<(u64, String), DataError> {
    let (mut bytes, mut checksum) = (0, Xxh3::new());
    for (image, _) in images {
        let unreadable = |source| DataError::Unreadable { path: image.clone(), source };
        let size = std::fs::metadata(image).map_err(unreadable)?.len();
        let inside = image.strip_prefix(root).unwrap_or(image);
        checksum.update(inside.to_string_lossy().as_bytes());
        // Names hold no zero byte, so that no two lists of files are the same bytes.
        checksum.update(&[0]);
        checksum.update(&size.to_le_bytes());
        bytes += size;
    }
    Ok((bytes, format!("{:016x}", checksum.digest())))
}

/// Bytes of an image that is decoded, as 80 million pixels in colour have. A file of a few kilobytes may unfold to more.
const DECODED_MAX: u64 = 240 << 20;
/// Bytes that one byte of a file decodes to at most: PNG's deflate writes 1,032 for one (RFC 1951, §3.2.5: 258 bytes for
/// two bits), each of eight pixels in a palette of four channels; JPEG takes at least a bit for 64 values (ITU-T T.81,
/// F.1.2). A header that promises more is that of a file which is cut off, and its pixels are not waited for.
const UNFOLDED_MAX: u64 = 1032 * 8 * 4;
/// Bytes that a decoder asks for beside its pixels.
const DECODER: u64 = 1 << 20;

/// Decodes the central part of an image that has the form of (channels, height, width), scaled to it; `None` if the
/// bytes are no image. What a file's content says counts, not its name.
fn decode(bytes: &[u8], sides: [usize; 3]) -> Option<Vec<u8>> {
    let [channels, height, width] = sides;
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some((bytes.len() as u64).saturating_mul(UNFOLDED_MAX).saturating_add(DECODER).min(DECODED_MAX));
    reader.limits(limits);
    // The library of PNG panics on a palette that is cut off (0.18.1, `decoder/transform/palette.rs`).
    let image = guarded(|| reader.decode()).ok()?.ok()?;
    let (from_width, from_height) = (u64::from(image.width()), u64::from(image.height()));
    let (height, width) = (height as u64, width as u64);
    // The larger side is cut in proportion.
    let (cut_width, cut_height) = if from_width * height > from_height * width {
        ((from_height * width / height).max(1), from_height)
    } else {
        (from_width, (from_width * height / width).max(1))
    };
    let (left, top) = ((from_width - cut_width) / 2, (from_height - cut_height) / 2);
    let mut image = image.crop_imm(left as u32, top as u32, cut_width as u32, cut_height as u32);
    let (to_width, to_height) = (width as u32, height as u32);
    if (image.width(), image.height()) != (to_width, to_height) {
        image = scaled(&image, channels, to_width, to_height);
    }
    if channels == 1 {
        return Some(image.into_luma8().into_raw());
    }
    let interleaved = image.into_rgb8().into_raw();
    Some((0..channels).flat_map(|channel| interleaved.iter().copied().skip(channel).step_by(channels)).collect())
}

/// Scales an image to other sides, each pixel the weighted mean of those that it covers.
fn scaled(image: &DynamicImage, channels: usize, width: u32, height: u32) -> DynamicImage {
    if channels == 1 {
        imageops::resize(&image.to_luma8(), width, height, FilterType::Triangle).into()
    } else {
        imageops::resize(&image.to_rgb8(), width, height, FilterType::Triangle).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageFormat, Rgb, RgbImage};
    use std::fs;

    const WANTED: SampleKind = SampleKind::Image { channels: 3, height: 4, width: 4, classes: 3 };

    fn put(root: &Path, name: &str, width: u32, height: u32, colour: [u8; 3]) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("inside the folder")).expect("a folder");
        RgbImage::from_pixel(width, height, Rgb(colour)).save(path).expect("an image");
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        put(folder.path(), "dog/b.png", 4, 4, [10, 20, 30]);
        put(folder.path(), "dog/a.jpg", 9, 5, [200, 200, 200]);
        put(folder.path(), "cat/c.png", 8, 16, [40, 50, 60]);
        fs::write(folder.path().join("dog/notes.txt"), "no image").expect("a file");
        fs::write(folder.path().join("README.md"), "no image").expect("a file");
        folder
    }

    #[test]
    fn classes_are_folders_in_the_order_of_their_names() {
        let folder = folder();
        let images = ImageFolder::open(folder.path(), &WANTED).expect("three images");
        assert_eq!((images.samples(), images.skipped, images.test), (3, 2, 0));
        let part = [0, 1, 2];
        let (cat, label) = images.read(0, &part).expect("a cat");
        assert_eq!((cat, label), ([[40; 16], [50; 16], [60; 16]].concat(), 0));
        let (jpeg, label) = images.read(1, &part).expect("a dog");
        assert!(label == 1 && jpeg.len() == 48 && jpeg.iter().all(|pixel| pixel.abs_diff(200) < 3), "{jpeg:?}");
        assert_eq!(images.read(2, &part).expect("another"), ([[10; 16], [20; 16], [30; 16]].concat(), 1));
    }

    #[test]
    fn the_centre_is_cut_out() {
        let mut image = RgbImage::from_pixel(8, 2, Rgb([0, 0, 0]));
        (3..5).for_each(|x| (0..2).for_each(|y| image.put_pixel(x, y, Rgb([255, 255, 255]))));
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, ImageFormat::Png).expect("an image");
        let bytes = bytes.into_inner();
        assert_eq!(decode(&bytes, [1, 2, 2]), Some(vec![255; 4]));
        assert_eq!(decode(&bytes, [1, 4, 4]), Some(vec![255; 16]));
        assert_eq!(decode(&bytes, [3, 2, 4]), Some([0, 255, 255, 0].repeat(6)));
        assert_eq!(decode(&bytes[..bytes.len() / 2], [1, 2, 2]), None);
        assert_eq!(decode(include_bytes!("images/cut_palette.png"), [1, 2, 2]), None);
    }

    #[test]
    fn a_plain_image_unfolds_and_one_that_promises_more_than_its_bytes_can_hold_does_not() {
        let mut bytes = Cursor::new(Vec::new());
        RgbImage::from_pixel(4000, 4000, Rgb([7, 7, 7])).write_to(&mut bytes, ImageFormat::Png).expect("an image");
        assert_eq!(decode(bytes.get_ref(), [1, 2, 2]), Some(vec![7; 4]));
        let mut jpeg = Cursor::new(Vec::new());
        RgbImage::from_pixel(8, 8, Rgb([7, 7, 7])).write_to(&mut jpeg, ImageFormat::Jpeg).expect("an image");
        let mut jpeg = jpeg.into_inner();
        assert!(decode(&jpeg, [1, 2, 2]).is_some());
        // Start of frame: marker, two bytes of length, one of precision, then height and width.
        let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).expect("a frame");
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0x20, 0, 0x20, 0]);
        assert_eq!(decode(&jpeg, [1, 2, 2]), None);
    }

    #[test]
    fn corrupt_images_are_replaced_by_the_next_good_one_and_counted_once() {
        let folder = folder();
        fs::write(folder.path().join("dog/a.jpg"), b"not a jpeg").expect("a file");
        let images = ImageFolder::open(folder.path(), &WANTED).expect("three images");
        let part = [0, 1, 2];
        let next = images.read(2, &part).expect("good");
        assert!(images.corrupt().is_empty());
        assert_eq!(images.read(1, &part).expect("the next"), next);
        assert_eq!(images.read(1, &part).expect("the next"), next);
        assert_eq!(images.corrupt(), BTreeSet::from([1]));
        assert_eq!(images.read(1, &[0, 1]).expect("around the end").1, 0);
        assert!(matches!(images.read(1, &[1]), Err(DataError::AllCorrupt { images: 1, .. })));
        fs::remove_file(folder.path().join("cat/c.png")).expect("it was there");
        assert!(matches!(images.read(0, &part), Err(DataError::Unreadable { .. })));
    }

    #[test]
    fn a_test_part_of_its_own_is_kept_apart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        put(folder.path(), "train/b/1.png", 4, 4, [1, 1, 1]);
        put(folder.path(), "train/a/1.png", 4, 4, [2, 2, 2]);
        put(folder.path(), "val/b/1.png", 4, 4, [3, 3, 3]);
        let images = ImageFolder::open(folder.path(), &WANTED).expect("three images");
        assert_eq!((images.samples(), images.test), (3, 1));
        assert_eq!(images.read(2, &[2]).expect("good"), (vec![3; 48], 1));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let folder = folder();
        let one = SampleKind::Image { channels: 3, height: 4, width: 4, classes: 1 };
        let open = |wanted: &SampleKind| ImageFolder::open(folder.path(), wanted).expect_err("wrong");
        assert!(matches!(open(&one), DataError::Classes { found: 2, classes: 1, .. }));
        let four = SampleKind::Image { channels: 4, height: 4, width: 4, classes: 3 };
        assert!(matches!(open(&four), DataError::Sides { .. }));
        fs::create_dir(folder.path().join("empty")).expect("a folder");
        assert!(matches!(open(&WANTED), DataError::EmptyClass { path } if path.ends_with("empty")));
        let none = ImageFolder::open(&folder.path().join("dog"), &WANTED).expect_err("no classes");
        assert!(matches!(none, DataError::NoClasses { .. }));
    }

    #[test]
    fn the_checksum_knows_names_and_sizes() {
        let folder = folder();
        let checksum = || ImageFolder::open(folder.path(), &WANTED).expect("images").checksum;
        let before = checksum();
        assert_eq!(checksum(), before);
        fs::rename(folder.path().join("dog/a.jpg"), folder.path().join("dog/d.jpg")).expect("renamed");
        assert_ne!(checksum(), before);
    }
}
