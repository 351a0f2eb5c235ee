//! The safetensors format: named single-precision tensors in one file.
//!
//! Source: <https://github.com/huggingface/safetensors>, section "Format": eight bytes of header length, a JSON header
//! with type, shape and byte range of each tensor, then the values, little-endian.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostTensor {
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// Row-major.
    pub(crate) values: Vec<f32>,
}

/// Tensors by name.
pub(crate) type HostTensors = BTreeMap<String, HostTensor>;

#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

const METADATA: &str = "__metadata__";
const ELEMENT: usize = size_of::<f32>();

/// Writes `tensors` in the order of their names.
pub(crate) fn write(tensors: &HostTensors, to: &mut dyn Write) -> io::Result<()> {
    let mut header = serde_json::Map::new();
    // Readers of other frameworks ask for the framework that wrote the file.
    header.insert(METADATA.into(), serde_json::json!({ "format": "pt" }));
    let mut end = 0;
    for (name, tensor) in tensors {
        let start = end;
        end += tensor.values.len() * ELEMENT;
        let entry = Entry { dtype: "F32".into(), shape: tensor.shape.clone(), data_offsets: [start, end] };
        header.insert(name.clone(), serde_json::to_value(entry)?);
    }
    let mut header = serde_json::to_vec(&header)?;
    // Values start at a multiple of eight bytes.
    header.resize(header.len().next_multiple_of(8), b' ');
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(&header)?;
    for tensor in tensors.values() {
        // In pieces, so that the bytes need not be held twice.
        for piece in tensor.values.chunks(1 << 16) {
            let bytes: Vec<u8> = piece.iter().flat_map(|value| value.to_le_bytes()).collect();
            to.write_all(&bytes)?;
        }
    }
    Ok(())
}

/// Reads what [`write()`] wrote, or says what is wrong with it.
pub(crate) fn read(bytes: &[u8]) -> Result<HostTensors, String> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is shorter than its first field")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|error| error.to_string())?;
    let (header, values) = rest.split_at_checked(length).ok_or("it ends within its header")?;
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|error| format!("its header is not JSON: {error}"))?;
    let mut tensors = BTreeMap::new();
    for (name, entry) in header.into_iter().filter(|(name, _)| name != METADATA) {
        let Entry { dtype, shape, data_offsets: [start, end] } =
            serde_json::from_value(entry).map_err(|error| format!("tensor `{name}`: {error}"))?;
        let data = values.get(start..end).ok_or_else(|| format!("tensor `{name}` lies outside of it"))?;
        let elements = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        if dtype != "F32" || elements.and_then(|n| n.checked_mul(ELEMENT)) != Some(data.len()) {
            return Err(format!("tensor `{name}` is {dtype} {shape:?} in {} bytes, not F32", data.len()));
        }
        let (chunks, _) = data.as_chunks::<ELEMENT>();
        let values = chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        tensors.insert(name, HostTensor { shape, values });
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors() -> HostTensors {
        BTreeMap::from([
            (
                "a.weight".into(),
                HostTensor { shape: vec![2, 3], values: vec![1.0, -2.5, f32::MIN_POSITIVE, 0.0, 7.0, 1e30] },
            ),
            ("b".into(), HostTensor { shape: vec![1], values: vec![-0.0] }),
        ])
    }

    #[test]
    fn tensors_come_back_bit_for_bit() {
        let mut bytes = Vec::new();
        write(&tensors(), &mut bytes).expect("memory takes everything");
        assert_eq!(read(&bytes), Ok(tensors()));
        let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        assert_eq!(header % 8, 0);
    }

    #[test]
    fn broken_files_are_refused() {
        let mut bytes = Vec::new();
        write(&tensors(), &mut bytes).expect("memory takes everything");
        for end in [0, 7, 20, bytes.len() - 1] {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read(&bytes).is_err());
    }
}
