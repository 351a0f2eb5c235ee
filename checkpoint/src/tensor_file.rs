//! Named tensors in one file, written as they come and read piece by piece.
//!
//! Source: <https://github.com/huggingface/safetensors>, section "Format": eight bytes of header length, a JSON header
//! with type, shape and byte range of each tensor, then the values, little-endian.

use crate::storage::{FileEntry, Storage, Summed};
use crate::stored::{IndexError, Stored};
use crate::torch_file;
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use trainyard_documents::Unreadable;

const ELEMENT: usize = size_of::<f32>();
/// Number of values that are turned into bytes at once.
const CHUNK: usize = 1 << 18;
/// The length field of the header.
const LENGTH: usize = size_of::<u64>();
/// The longest header that is read, as in the reference implementation.
const HEADER_MAX: u64 = 100_000_000;

/// A tensor as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name, as in the Hugging Face format.
    pub name: String,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Returns the number of values.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A whole number that a file holds beside its tensors, as PyTorch's batch normalisation counts batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name, as in the Hugging Face format.
    pub name: String,
    pub value: i64,
}

/// A file of single-precision tensors under way. Values come in the order of the declaration, in pieces of any size,
/// so that no tensor needs to be there as a whole.
pub struct TensorFile {
    name: String,
    to: Summed,
    /// Values that have not come.
    left: usize,
    bytes: Vec<u8>,
}

impl TensorFile {
    /// Writes the header and the counters.
    ///
    /// # Errors
    ///
    /// When the disk does not take it.
    pub fn begin(
        name: &str,
        storage: Box<dyn Storage>,
        tensors: &[TensorSpec],
        counters: &[Counter],
    ) -> io::Result<Self> {
        let mut to = Summed::new(storage);
        let header = header(tensors, counters)?;
        to.put(&(header.len() as u64).to_le_bytes())?;
        to.put(&header)?;
        for counter in counters {
            to.put(&counter.value.to_le_bytes())?;
        }
        let left = tensors.iter().map(TensorSpec::elements).sum();
        Ok(Self { name: name.to_owned(), to, left, bytes: Vec::new() })
    }

    /// Writes the next values, row-major. There must not be more of them than were declared.
    ///
    /// # Errors
    ///
    /// When the disk does not take them.
    pub fn put(&mut self, values: &[f32]) -> io::Result<()> {
        assert!(values.len() <= self.left, "`{}` gets more values than were declared", self.name);
        self.left -= values.len();
        self.bytes.resize(CHUNK.min(values.len()).max(self.bytes.len() / ELEMENT) * ELEMENT, 0);
        for chunk in values.chunks(CHUNK) {
            let bytes = &mut self.bytes[..chunk.len() * ELEMENT];
            for (bytes, value) in bytes.as_chunks_mut::<ELEMENT>().0.iter_mut().zip(chunk) {
                *bytes = value.to_le_bytes();
            }
            self.to.put(bytes)?;
        }
        Ok(())
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the disk. All values must have come.
    ///
    /// # Errors
    ///
    /// When the disk does not take them.
    pub fn finish(self) -> io::Result<FileEntry> {
        assert!(self.left == 0, "`{}` lacks {} values that were declared", self.name, self.left);
        self.to.finish(&self.name)
    }
}

/// Returns the header of a file whose tensors follow each other as declared. Counters come first: where PyTorch views the
/// bytes of a number, these start at a multiple of its size.
fn header(tensors: &[TensorSpec], counters: &[Counter]) -> io::Result<Vec<u8>> {
    let mut header = serde_json::Map::new();
    // Readers of other frameworks ask for the framework that wrote the file.
    header.insert("__metadata__".into(), serde_json::json!({ "format": "pt" }));
    let mut end = 0;
    for Counter { name, .. } in counters {
        let start = end;
        end += size_of::<i64>();
        let entry = serde_json::json!({ "dtype": "I64", "shape": [], "data_offsets": [start, end] });
        let twice = header.insert(name.clone(), entry).is_some();
        assert!(!twice, "`{name}` is declared twice");
    }
    for tensor in tensors {
        let start = end;
        end += tensor.elements() * ELEMENT;
        let entry = serde_json::json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": [start, end] });
        let twice = header.insert(tensor.name.clone(), entry).is_some();
        assert!(!twice, "`{}` is declared twice", tensor.name);
    }
    let mut header = serde_json::to_vec(&header)?;
    // Values start at a multiple of eight bytes.
    header.resize(header.len().next_multiple_of(LENGTH), b' ');
    Ok(header)
}

/// Returns `true` for a [`Counter`].
pub(crate) fn is_counter(dtype: Dtype, shape: &[usize]) -> bool {
    dtype == Dtype::I64 && shape.is_empty()
}

/// Returns `true` if values of this format can be read.
pub(crate) fn is_readable(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

/// The index of the tensors in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorIndex {
    tensors: BTreeMap<String, Stored>,
}

impl TensorIndex {
    /// Reads what the file at `path` says of its tensors, in the format of safetensors or of `torch.save`, and sees
    /// whether the file is as long as that says.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Self, IndexError> {
        let (mut file, _) = trainyard_documents::open(path).map_err(Unreadable::into_io)?;
        let mut first = [0; torch_file::MAGIC.len()];
        if file.read_exact(&mut first).is_ok() && first == torch_file::MAGIC {
            return Ok(Self { tensors: torch_file::tensors(file)? });
        }
        if first == torch_file::OLD_MAGIC {
            let problem = "it was saved by PyTorch before 1.6: load it there and save it again with a newer one";
            return Err(IndexError::Damaged(problem.into()));
        }
        file.rewind()?;
        Self::of_safetensors(file)
    }

    fn of_safetensors(mut file: File) -> Result<Self, IndexError> {
        let length = file.metadata()?.len();
        let damaged = |problem: &str| Err(IndexError::Damaged(problem.to_owned()));
        let mut field = [0; LENGTH];
        if length < field.len() as u64 {
            return damaged("it is shorter than its first field");
        }
        file.read_exact(&mut field)?;
        let header_bytes = u64::from_le_bytes(field);
        if header_bytes > HEADER_MAX || header_bytes > length - LENGTH as u64 {
            return damaged("it ends within its header");
        }
        let mut header = vec![0; header_bytes as usize];
        file.read_exact(&mut header)?;
        // The crate's own type checks that ranges follow each other and fit types and shapes.
        let metadata: Metadata = match serde_json::from_slice(&header) {
            Ok(metadata) => metadata,
            Err(error) => return damaged(&format!("its header is not one of safetensors: {error}")),
        };
        let data = LENGTH as u64 + header_bytes;
        if data.checked_add(metadata.data_len() as u64) != Some(length) {
            return damaged(&format!(
                "it has {length} bytes, but its header tells of {}",
                data.saturating_add(metadata.data_len() as u64)
            ));
        }
        let stored = |name: String| {
            let tensor = metadata.info(&name)?;
            let start = data + tensor.data_offsets.0 as u64;
            Some((name, Stored { dtype: tensor.dtype, shape: tensor.shape.clone(), start }))
        };
        Ok(Self { tensors: metadata.offset_keys().into_iter().filter_map(stored).collect() })
    }

    /// Returns names, formats and shapes, by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, Dtype, &[usize])> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.dtype, tensor.shape.as_slice()))
    }

    /// Returns the shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// Reads the values of `name` at these places of its row-major order, from the file that the index was read from.
    /// Half precision is widened.
    ///
    /// # Errors
    ///
    /// When there is no such tensor, when it holds other numbers, and when the file cannot be read.
    pub fn values(&self, path: &Path, name: &str, range: Range<usize>) -> Result<Vec<f32>, IndexError> {
        let damaged = |problem: String| Err(IndexError::Damaged(problem));
        let Some(Stored { dtype, shape, start }) = self.tensors.get(name) else {
            return damaged(format!("it lacks the tensor `{name}`"));
        };
        let length: usize = shape.iter().product();
        assert!(range.start <= range.end && range.end <= length, "`{name}` has {length} values, not {range:?}");
        let widen: fn(&[u8], &mut Vec<f32>) = match dtype {
            Dtype::F32 => |bytes, to| to.extend(bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value))),
            Dtype::F16 => {
                |bytes, to| to.extend(bytes.as_chunks().0.iter().map(|value| f16::from_le_bytes(*value).to_f32()))
            }
            Dtype::BF16 => {
                |bytes, to| to.extend(bytes.as_chunks().0.iter().map(|value| bf16::from_le_bytes(*value).to_f32()))
            }
            other => return damaged(format!("tensor `{name}` is {other}, not F32, F16 or BF16")),
        };
        let element = dtype.bitsize() / 8;
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start + (range.start * element) as u64))?;
        let mut values = Vec::with_capacity(range.len());
        let mut bytes = vec![0; CHUNK.min(range.len()) * element];
        while values.len() < range.len() {
            let chunk = CHUNK.min(range.len() - values.len()) * element;
            file.read_exact(&mut bytes[..chunk])?;
            widen(&bytes[..chunk], &mut values);
        }
        Ok(values)
    }
}
