//! Weights as `torch.save` writes them (`.bin`, `.pt`, `.pth`): a ZIP archive with a pickle that describes the tensors,
//! and their values, little-endian, in a file for each storage.
//!
//! Source: PyTorch, `torch/serialization.py` (`_save`) and `caffe2/serialize/inline_container.h`: entries are stored as
//! they are, so that tensors can be read from their place in the archive.

use crate::pickle::{self, Described};
use crate::stored::{IndexError, Stored};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use zip::{CompressionMethod, ZipArchive, result::ZipError};

/// The first bytes of an archive.
pub(crate) const MAGIC: [u8; 4] = *b"PK\x03\x04";

/// The first bytes of a file that PyTorch before 1.6 saved: protocol 2, and a number of ten bytes.
pub(crate) const OLD_MAGIC: [u8; 4] = [0x80, 2, 0x8a, 10];

/// The longest pickle that is read: it describes tensors, a few hundred bytes for each.
const PICKLE_MAX: u64 = 32 << 20;

/// Returns the tensors of an archive with their places in the file.
///
/// # Errors
///
/// When the file is no such archive, or holds anything but tensors.
pub(crate) fn tensors(file: File) -> Result<BTreeMap<String, Stored>, IndexError> {
    let mut archive = ZipArchive::new(file).map_err(unusable)?;
    let description = archive.file_names().find_map(|name| name.ok()?.strip_suffix("data.pkl").map(str::to_owned));
    let Some(root) = description.filter(|root| root.is_empty() || root.ends_with('/')) else {
        return Err(IndexError::Damaged("it is an archive without `data.pkl`, so not one of torch.save".into()));
    };
    if let Ok(mut order) = archive.by_name(&format!("{root}byteorder")) {
        let mut text = [0; 3];
        if order.read(&mut text)? < 3 || text != *b"lit" {
            return Err(IndexError::Damaged("its numbers are not little-endian".into()));
        }
    }
    let described = pickle::tensors(&description_of(&mut archive, &root)?).map_err(IndexError::Damaged)?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in described {
        let stored = place(&mut archive, &root, &name, tensor)?;
        tensors.insert(name, stored);
    }
    Ok(tensors)
}

fn description_of(archive: &mut ZipArchive<File>, root: &str) -> Result<Vec<u8>, IndexError> {
    let mut bytes = Vec::new();
    let entry = archive.by_name(&format!("{root}data.pkl")).map_err(unusable)?;
    entry.take(PICKLE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PICKLE_MAX {
        return Err(IndexError::Damaged(format!("its `data.pkl` is longer than {} MiB", PICKLE_MAX >> 20)));
    }
    Ok(bytes)
}

/// Finds the values of a tensor in the archive.
fn place(archive: &mut ZipArchive<File>, root: &str, name: &str, tensor: Described) -> Result<Stored, IndexError> {
    let damaged = |problem: String| Err(IndexError::Damaged(format!("tensor `{name}` {problem}")));
    let Described { key, dtype, storage, offset, shape, strides } = tensor;
    if !is_contiguous(&shape, &strides) {
        return damaged(format!("has the strides {strides:?}; save it with `.contiguous()`"));
    }
    let entry = match archive.by_name(&format!("{root}data/{key}")) {
        Ok(entry) => entry,
        Err(error) => return damaged(format!("has no values in the archive: {error}")),
    };
    let element = (dtype.bitsize() / 8) as u64;
    let length = shape.iter().try_fold(1_usize, |length, size| length.checked_mul(*size));
    let end = length.and_then(|length| length.checked_add(offset)).filter(|end| *end <= storage);
    let (Some(_), Some(bytes)) = (end, (storage as u64).checked_mul(element)) else {
        return damaged(format!("reaches beyond its storage of {storage} elements"));
    };
    if entry.compression() != CompressionMethod::Stored || entry.size() != bytes {
        return damaged(format!("has a storage of {} bytes, not the {bytes} of {storage} elements", entry.size()));
    }
    let Some(start) = entry.data_start() else { return damaged("has no place in the archive".into()) };
    Ok(Stored { dtype, shape, start: start + offset as u64 * element })
}

/// Returns `true` if elements follow each other in the order of their indices. Dimensions of one entry have any stride.
fn is_contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = Some(1_usize);
    shape.len() == strides.len()
        && shape.iter().zip(strides).rev().all(|(size, stride)| {
            let fits = *size == 1 || expected == Some(*stride);
            expected = expected.and_then(|expected| expected.checked_mul(*size));
            fits
        })
}

fn unusable(error: ZipError) -> IndexError {
    match error {
        ZipError::Io(error) => IndexError::Unreadable(error),
        other => IndexError::Damaged(format!("it is no whole archive of torch.save: {other}")),
    }
}
