//! IDX files, in which MNIST and data sets after its pattern are published.
//!
//! A file of images starts with 0, 0, 8 (bytes), 3 (dimensions) and the number of images, rows and columns, most
//! significant byte first; one of labels has 1 dimension.
//! Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits", section "File formats".

use crate::error::DataError;
use crate::files;
use crate::labelled::{Labelled, Values, check_sides};
use crate::sample_kind::SampleKind;
use std::path::{Path, PathBuf};

/// Elements that are unsigned bytes.
const BYTES: u8 = 8;

/// Returns `true` if a file's name says that it holds images in this format.
fn is_images(path: &Path) -> bool {
    let name = files::name(path);
    name.ends_with("images-idx3-ubyte") || name.ends_with("images.idx3-ubyte")
}

/// Returns `true` if it is the part that is kept for testing.
fn is_test(path: &Path) -> bool {
    let name = files::name(path);
    name.starts_with("t10k") || name.contains("test")
}

/// Returns the files of images that are at `path`: itself, or those in the folder, training before test.
pub(crate) fn at(path: &Path, folder: bool) -> Result<Vec<PathBuf>, DataError> {
    let mut found = if folder { files::inside(path)?.1 } else { vec![path.to_owned()] };
    found.retain(|path| is_images(path));
    found.sort_by_key(|path| is_test(path));
    Ok(found)
}

/// Reads files of images and the labels beside them.
pub(crate) fn read(images: &[PathBuf], wanted: &SampleKind) -> Result<Labelled, DataError> {
    let mut all: Option<([usize; 3], Labelled)> = None;
    for path in images {
        let content = files::bytes(path)?;
        let ([count, height, width], pixels) = elements::<3>(path, &content)?;
        let shape = [1, height, width];
        check_sides(path, shape, wanted)?;
        let label_path = labels_of(path);
        let label_content = files::bytes(&label_path)?;
        let ([labels], classes) = elements::<1>(&label_path, &label_content)?;
        if labels != count {
            let problem = format!("it has {labels} labels, but `{}` has {count} images", path.display());
            return Err(DataError::Damaged { path: label_path, problem });
        }
        let (_, labelled) = all.get_or_insert_with(|| (shape, Labelled::new(shape, Values::Pixels(Vec::new()))));
        labelled.extend(pixels);
        labelled.label(&label_path, classes.iter().map(|class| i64::from(*class)), wanted)?;
        labelled.count(&[&content, &label_content]);
        labelled.files += 2;
        // A test file that is named alone is trained on, as any other.
        if images.len() > 1 && is_test(path) {
            labelled.test += count;
        }
    }
    Ok(all.expect("whoever reads has found a file").1)
}

/// Returns the file of labels that belongs to one of images.
fn labels_of(images: &Path) -> PathBuf {
    let name = images.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    images.with_file_name(name.replace("images", "labels").replace("idx3", "idx1"))
}

/// Returns the dimensions and the elements of a file.
fn elements<'a, const N: usize>(path: &Path, content: &'a [u8]) -> Result<([usize; N], &'a [u8]), DataError> {
    let damaged = |problem: String| DataError::Damaged { path: path.to_owned(), problem };
    if content.get(..4) != Some(&[0, 0, BYTES, N as u8]) {
        return Err(damaged(format!("it does not start as an IDX file of bytes in {N} dimensions does")));
    }
    let header = 4 + 4 * N;
    let too_short = || damaged(format!("it has only {} bytes", content.len()));
    let sides = content.get(4..header).ok_or_else(too_short)?;
    let mut shape = [0; N];
    for (side, bytes) in shape.iter_mut().zip(sides.chunks_exact(4)) {
        *side = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    }
    let needed = shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
    let elements = &content[header..];
    if needed != Some(elements.len()) {
        return Err(damaged(format!("its {} bytes of elements do not fill its sides {shape:?}", elements.len())));
    }
    Ok((shape, elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Inputs, MicroBatch};
    use std::fs;

    const WANTED: SampleKind = SampleKind::Image { channels: 1, height: 2, width: 3, classes: 10 };

    fn idx(sides: &[u32], elements: &[u8]) -> Vec<u8> {
        let sides_bytes = sides.iter().flat_map(|side| side.to_be_bytes());
        [0, 0, 8, sides.len() as u8].into_iter().chain(sides_bytes).chain(elements.iter().copied()).collect()
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pixels = |samples: u8| (0..samples * 6).map(|i| i * 5).collect::<Vec<_>>();
        let put = |name: &str, content: Vec<u8>| fs::write(folder.path().join(name), content).expect("a file");
        put("t10k-images-idx3-ubyte", idx(&[1, 2, 3], &pixels(1)));
        put("t10k-labels-idx1-ubyte", idx(&[1], &[7]));
        put("train-images-idx3-ubyte", idx(&[3, 2, 3], &pixels(3)));
        put("train-labels-idx1-ubyte", idx(&[3], &[4, 0, 9]));
        folder
    }

    #[test]
    fn images_and_labels_are_read_training_first() {
        let folder = folder();
        let found = at(folder.path(), true).expect("readable");
        let labelled = read(&found, &WANTED).expect("four images");
        assert_eq!((labelled.samples(), labelled.test, labelled.files), (4, 1, 4));
        let pixels = Vec::new();
        let mut batch = MicroBatch::empty(Inputs::Images { pixels, channels: 1, height: 2, width: 3 });
        labelled.read(1, &mut batch);
        labelled.read(3, &mut batch);
        assert_eq!(batch.targets, [0, 7]);
        let Inputs::Images { pixels, .. } = batch.inputs else { panic!("images") };
        let scaled = |pixel: u8| (f32::from(pixel) / 255.0 - 0.5) / 0.5;
        assert_eq!(pixels[..2], [scaled(30), scaled(35)]);
        assert_eq!(pixels[6..8], [scaled(0), scaled(5)]);
    }

    #[test]
    fn a_file_alone_is_read_whole() {
        let folder = folder();
        let path = folder.path().join("t10k-images-idx3-ubyte");
        let labelled = read(&at(&path, false).expect("readable"), &WANTED).expect("one image");
        assert_eq!((labelled.samples(), labelled.test), (1, 0));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let folder = folder();
        let path = folder.path().join("train-images-idx3-ubyte");
        let other = SampleKind::Image { channels: 1, height: 28, width: 28, classes: 10 };
        let read = |wanted: &SampleKind| read(std::slice::from_ref(&path), wanted).expect_err("wrong");
        assert!(matches!(read(&other), DataError::Sides { .. }));
        let few = SampleKind::Image { channels: 1, height: 2, width: 3, classes: 9 };
        assert!(matches!(read(&few), DataError::Label { sample: 2, label: 9, classes: 9, .. }));
        fs::write(&path, idx(&[3, 2, 3], &[0; 17])).expect("a file");
        assert!(matches!(read(&WANTED), DataError::Damaged { .. }));
        fs::write(&path, idx(&[2, 2, 3], &[0; 12])).expect("a file");
        let error = read(&WANTED).to_string();
        assert!(error.contains("3 labels") && error.contains("2 images"), "{error}");
        fs::write(&path, [0, 0, 8, 3, 0]).expect("a file");
        assert!(read(&WANTED).to_string().contains("only 5 bytes"));
        fs::write(&path, [0x1f, 0x8b, 8]).expect("a file");
        assert!(read(&WANTED).to_string().contains("does not start"));
        fs::remove_file(folder.path().join("train-labels-idx1-ubyte")).expect("it was there");
        fs::write(&path, idx(&[3, 2, 3], &[0; 18])).expect("a file");
        assert!(read(&WANTED).to_string().contains("train-labels-idx1-ubyte"));
    }
}
