//! Data to train on, put where a run would look for it.

use std::fs;
use std::path::PathBuf;
use trainyard_data::{DataSource, Dataset, SampleKind};

/// What a batch takes.
const BATCH: usize = 2;

/// An image of one pixel.
pub const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 0,
    0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0x60, 0, 0, 0, 2, 0, 1,
    0x48, 0xaf, 0xa4, 0x71, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Six classes as an array of NumPy's.
pub const LABELS: &[u8] =
    b"\x93NUMPY\x01\x00\x3a\x00{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }\n\x00\x01\x02\x03\x04\x05";

/// Some words.
pub const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog, and the dog, as one would think, does not mind";

/// What models of each kind want.
const WANTED: [SampleKind; 4] = [
    SampleKind::NextToken { sequence: 4, vocabulary: 300 },
    SampleKind::Masked { sequence: 8, vocabulary: 300, predictions: None },
    SampleKind::Image { channels: 3, height: 4, width: 4, classes: 10 },
    SampleKind::Vector { width: 16, classes: 10 },
];

/// Opens `place` in a folder with these files for models of all kinds, and reads the first and last samples.
///
/// # Panics
///
/// When the disk is full.
pub fn read(place: &str, files: &[(&str, &[u8])], tokenizer: Option<&[u8]>) {
    let folder = std::env::temp_dir().join(format!("trainyard-fuzz-data-{}", std::process::id()));
    let data = folder.join("data");
    for (name, content) in files {
        let path = data.join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(path, content).expect("room");
    }
    let tokenizer: Option<PathBuf> = tokenizer.map(|text| {
        let path = folder.join("tokenizer.json");
        fs::write(&path, text).expect("room");
        path
    });
    let source = DataSource { tokenizer, ..DataSource::new(data.join(place)) };
    for wanted in &WANTED {
        if let Ok(dataset) = Dataset::open(&source, wanted, BATCH, 1) {
            let mut batch = dataset.empty();
            for number in dataset.training().iter().take(BATCH).chain(dataset.training().last()) {
                let _ = dataset.read(*number, 0, &mut batch);
            }
            let _ = dataset.held_out(&[0, dataset.held_out_samples() - 1]);
        }
    }
    fs::remove_dir_all(&folder).expect("it is there");
}
