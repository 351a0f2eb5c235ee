//! The binary files of CIFAR-10 and CIFAR-100.
//!
//! Each image is a byte for its class (in CIFAR-100 one for the coarse class before it), and 3 072 bytes: red, green
//! and blue, 32 rows of 32 columns each.
//! Source: Krizhevsky, "The CIFAR-10 dataset", section "Binary version".

use crate::error::DataError;
use crate::files;
use crate::labelled::{Labelled, Values, check_sides};
use crate::sample_kind::SampleKind;
use std::path::{Path, PathBuf};

/// Channels, rows and columns of an image.
const SHAPE: [usize; 3] = [3, 32, 32];
/// Bytes of an image.
const PIXELS: usize = 3 * 32 * 32;

/// Returns the files at `path`, the training part before the test part: itself, or those in the folder that are named
/// as the published ones are.
pub(crate) fn at(path: &Path, folder: bool) -> Result<Vec<PathBuf>, DataError> {
    if !folder {
        return Ok(if files::ending(path) == "bin" { vec![path.to_owned()] } else { Vec::new() });
    }
    let mut found = files::inside(path)?.1;
    found.retain(|path| {
        let name = files::name(path);
        files::ending(path) == "bin" && (name.starts_with("data_batch") || name == "train.bin" || is_test(path))
    });
    found.sort_by_key(|path| is_test(path));
    Ok(found)
}

fn is_test(path: &Path) -> bool {
    ["test_batch.bin", "test.bin"].contains(&files::name(path).as_str())
}

/// Returns the bytes of labels before each image: the file's name says it, or its length.
fn label_bytes(path: &Path, length: usize) -> Result<usize, DataError> {
    let name = files::name(path);
    let named = if name.starts_with("data_batch") || name == "test_batch.bin" {
        Some(1)
    } else if ["train.bin", "test.bin"].contains(&name.as_str()) {
        Some(2)
    } else {
        None
    };
    let fits = |bytes: &usize| length > 0 && length.is_multiple_of(PIXELS + bytes);
    named.map_or(1..=2, |named| named..=named).find(fits).ok_or_else(|| {
        let problem = format!("its {length} bytes are no whole number of images of 1 or 2 label bytes and 3072 pixels");
        DataError::Damaged { path: path.to_owned(), problem }
    })
}

/// Reads files; of CIFAR-100 the fine classes.
pub(crate) fn read(found: &[PathBuf], wanted: &SampleKind) -> Result<Labelled, DataError> {
    let mut labelled = Labelled::new(SHAPE, Values::Pixels(Vec::new()));
    for path in found {
        check_sides(path, SHAPE, wanted)?;
        let content = files::bytes(path)?;
        let bytes = label_bytes(path, content.len())?;
        let images = content.chunks_exact(bytes + PIXELS);
        if found.len() > 1 && is_test(path) {
            labelled.test += images.len();
        }
        for image in images.clone() {
            labelled.extend(&image[bytes..]);
        }
        labelled.label(path, images.map(|image| i64::from(image[bytes - 1])), wanted)?;
        labelled.count(&[&content]);
        labelled.files += 1;
    }
    Ok(labelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Inputs, MicroBatch};
    use std::fs;

    const WANTED: SampleKind = SampleKind::Image { channels: 3, height: 32, width: 32, classes: 100 };

    fn put(folder: &tempfile::TempDir, name: &str, labels: &[&[u8]]) -> PathBuf {
        let path = folder.path().join(name);
        let image = |(number, label): (usize, &&[u8])| [label, &[number as u8; PIXELS][..]].concat();
        fs::write(&path, labels.iter().enumerate().flat_map(image).collect::<Vec<u8>>()).expect("a file");
        path
    }

    #[test]
    fn batches_are_read_with_the_test_part_last() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        put(&folder, "test_batch.bin", &[&[9]]);
        put(&folder, "data_batch_2.bin", &[&[5]]);
        put(&folder, "data_batch_1.bin", &[&[3], &[4]]);
        put(&folder, "other.bin", &[&[0]]);
        let labelled = read(&at(folder.path(), true).expect("readable"), &WANTED).expect("four images");
        assert_eq!((labelled.samples(), labelled.test, labelled.files), (4, 1, 3));
        let mut batch = MicroBatch::empty(Inputs::Images { pixels: Vec::new(), channels: 3, height: 32, width: 32 });
        (0..4).for_each(|number| labelled.read(number, &mut batch));
        assert_eq!(batch.targets, [3, 4, 5, 9]);
    }

    #[test]
    fn of_cifar_100_the_fine_class_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        put(&folder, "train.bin", &[&[1, 50], &[2, 60]]);
        let renamed = put(&folder, "mine.bin", &[&[1, 70]]);
        let targets = |path: &Path, folder: bool| {
            let labelled = read(&at(path, folder).expect("readable"), &WANTED).expect("images");
            let mut batch = MicroBatch::empty(Inputs::Vectors { values: Vec::new(), width: PIXELS });
            (0..labelled.samples()).for_each(|number| labelled.read(number, &mut batch));
            batch.targets
        };
        assert_eq!(targets(folder.path(), true), [50, 60]);
        assert_eq!(targets(&renamed, false), [70]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = put(&folder, "data_batch_1.bin", &[&[3], &[200]]);
        let read = |wanted: &SampleKind| read(std::slice::from_ref(&path), wanted).expect_err("wrong");
        assert!(matches!(read(&WANTED), DataError::Label { sample: 1, label: 200, .. }));
        let grey = SampleKind::Image { channels: 1, height: 32, width: 32, classes: 10 };
        assert!(matches!(read(&grey), DataError::Sides { .. }));
        fs::write(&path, [0; 3074]).expect("a file");
        assert!(read(&WANTED).to_string().contains("3074 bytes"));
    }
}
