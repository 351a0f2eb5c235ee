//! Arrays in `.npy` and safetensors files.
//!
//! A text is the array of its token ids; images and vectors are an array `inputs` with one row for each sample, and an
//! array `labels` with its class. A `.npy` file holds one array, so that `inputs.npy` has `labels.npy` beside it; a
//! safetensors file holds both, or `tokens`.

use crate::error::DataError;
use crate::files;
use crate::guarded::guarded;
use crate::labelled::{Labelled, Values};
use crate::sample_kind::SampleKind;
use half::{bf16, f16};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};

/// The array of token ids.
const TOKENS: &str = "tokens";
/// The array of samples.
const INPUTS: &str = "inputs";
/// The array of classes.
const LABELS: &str = "labels";

/// The type of an array's elements, least significant byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Returns the integer in these bytes; `None` for other kinds. What no `i64` holds is as wrong as a negative
    /// number.
    fn integer(self, bytes: &[u8]) -> Option<i64> {
        Some(match self {
            Self::U8 => i64::from(bytes[0]),
            Self::I8 => i64::from(i8::from_le_bytes([bytes[0]])),
            Self::U16 => i64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
            Self::I16 => i64::from(i16::from_le_bytes(bytes.try_into().ok()?)),
            Self::U32 => i64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            Self::I32 => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
            Self::U64 => i64::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).unwrap_or(-1),
            Self::I64 => i64::from_le_bytes(bytes.try_into().ok()?),
            Self::F16 | Self::Bf16 | Self::F32 | Self::F64 => return None,
        })
    }

    /// Returns the number in these bytes, rounded to single precision; `None` for integers.
    fn float(self, bytes: &[u8]) -> Option<f32> {
        Some(match self {
            Self::F16 => f16::from_le_bytes(bytes.try_into().ok()?).to_f32(),
            Self::Bf16 => bf16::from_le_bytes(bytes.try_into().ok()?).to_f32(),
            Self::F32 => f32::from_le_bytes(bytes.try_into().ok()?),
            Self::F64 => f64::from_le_bytes(bytes.try_into().ok()?) as f32,
            _ => return None,
        })
    }
}

/// An array as it is stored.
struct Array {
    path: PathBuf,
    name: String,
    /// Nothing for a type that is not read.
    kind: Option<Kind>,
    /// The type as the file says it.
    said: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn wrong(&self, field: &'static str, allowed: impl Into<String>) -> DataError {
        let found = if field == "dtype" { self.said.clone() } else { format!("{:?}", self.shape) };
        DataError::Array { path: self.path.clone(), array: self.name.clone(), field, found, allowed: allowed.into() }
    }

    /// Returns all elements as `read` makes them of their bytes; `None` if it does not for this type.
    fn elements<T>(&self, read: impl Fn(Kind, &[u8]) -> Option<T>) -> Option<Vec<T>> {
        let kind = self.kind?;
        self.bytes.chunks_exact(kind.bytes()).map(|bytes| read(kind, bytes)).collect()
    }

    fn integers(&self) -> Result<Vec<i64>, DataError> {
        self.elements(Kind::integer).ok_or_else(|| self.wrong("dtype", "an integer of 8 to 64 bits"))
    }

    fn values(self) -> Result<Values, DataError> {
        if self.kind == Some(Kind::U8) {
            return Ok(Values::Pixels(self.bytes));
        }
        let numbers = self
            .elements(Kind::float)
            .ok_or_else(|| self.wrong("dtype", "uint8, for pixels, or a floating-point number of 16 to 64 bits"))?;
        match numbers.iter().position(|value| !value.is_finite()) {
            Some(at) => {
                let problem = format!("element {at} of array `{}` is {}", self.name, numbers[at]);
                Err(DataError::Damaged { path: self.path, problem })
            }
            None => Ok(Values::Numbers(numbers)),
        }
    }
}

/// The most brackets within brackets of a header: a dictionary with a type of fields that have shapes has four. The time
/// that the library takes doubles with each.
const NESTED_MAX: usize = 8;

/// Returns the length of a `.npy` file's header, which takes two bytes in version 1 and four in later ones, and all
/// bytes behind it; `None` if the file is shorter than that.
/// Source: NumPy, `numpy.lib.format`, "Format Version 1.0" and "2.0".
fn header(content: &[u8]) -> Option<(u64, &[u8])> {
    let behind = if *content.get(6)? == 1 { 10 } else { 12 };
    let (field, rest) = content.get(8..)?.split_at_checked(behind - 8)?;
    Some((field.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte)), rest))
}

/// Returns the greatest depth of brackets within brackets.
fn nested(text: &[u8]) -> usize {
    let mut open: usize = 0;
    let depths = text.iter().map(|byte| {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open
    });
    depths.max().unwrap_or(0)
}

/// Reads a whole `.npy` file.
fn npy(path: &Path, content: &[u8]) -> Result<Array, DataError> {
    let damaged = |problem: String| DataError::Damaged { path: path.to_owned(), problem };
    if let Some((length, rest)) = header(content) {
        // The library makes room for a header of any length before it reads it.
        let within = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let text = within.ok_or_else(|| damaged("it ends within its header".into()))?;
        if nested(text) > NESTED_MAX {
            return Err(damaged(format!("its header has more than {NESTED_MAX} brackets within brackets")));
        }
    }
    let mut rest = content;
    // The library multiplies the sides of any shape (0.8.4), which panics beyond counting where it is built with checks.
    let header = guarded(|| NpyHeader::from_reader(&mut rest))
        .map_err(|panic| damaged(format!("its header cannot be read: {panic}")))?
        .map_err(|error| damaged(error.to_string()))?;
    let shape: Option<Vec<usize>> = header.shape().iter().map(|side| usize::try_from(*side).ok()).collect();
    let shape = shape.ok_or_else(|| damaged("its shape is too large for this machine".into()))?;
    let kind = match header.dtype() {
        DType::Plain(plain) if plain.endianness() != Endianness::Big => match (plain.type_char(), plain.size_field()) {
            (TypeChar::Uint, 1) => Some(Kind::U8),
            (TypeChar::Int, 1) => Some(Kind::I8),
            (TypeChar::Uint, 2) => Some(Kind::U16),
            (TypeChar::Int, 2) => Some(Kind::I16),
            (TypeChar::Uint, 4) => Some(Kind::U32),
            (TypeChar::Int, 4) => Some(Kind::I32),
            (TypeChar::Uint, 8) => Some(Kind::U64),
            (TypeChar::Int, 8) => Some(Kind::I64),
            (TypeChar::Float, 2) => Some(Kind::F16),
            (TypeChar::Float, 4) => Some(Kind::F32),
            (TypeChar::Float, 8) => Some(Kind::F64),
            _ => None,
        },
        _ => None,
    };
    let name = path.file_stem().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let said = header.dtype().descr();
    let array = Array { path: path.to_owned(), name, kind, said, shape, bytes: rest.to_vec() };
    if header.order() != Order::C && array.shape.len() > 1 {
        let shape = format!("{:?} in column order", array.shape);
        return Err(DataError::Array {
            path: array.path,
            array: array.name,
            field: "shape",
            found: shape,
            allowed: "in row order, as numpy.ascontiguousarray makes it".into(),
        });
    }
    // Other types are refused by whoever reads the elements, in words that name those that fit.
    let Some(kind) = kind else { return Ok(array) };
    let needed = array.shape.iter().try_fold(kind.bytes(), |product, side| product.checked_mul(*side));
    if needed != Some(array.bytes.len()) {
        return Err(damaged(format!(
            "its {} bytes of values do not fill its shape {:?}",
            array.bytes.len(),
            array.shape
        )));
    }
    Ok(array)
}

/// Reads one array of a safetensors file.
fn tensor(path: &Path, content: &[u8], name: &str, allowed: &'static str) -> Result<Array, DataError> {
    let damaged = |problem: String| DataError::Damaged { path: path.to_owned(), problem };
    let tensors = SafeTensors::deserialize(content).map_err(|error| damaged(error.to_string()))?;
    let missing = |_| DataError::NoArray { path: path.to_owned(), array: name.into(), allowed };
    let tensor = tensors.tensor(name).map_err(missing)?;
    let kind = match tensor.dtype() {
        Dtype::U8 => Some(Kind::U8),
        Dtype::I8 => Some(Kind::I8),
        Dtype::U16 => Some(Kind::U16),
        Dtype::I16 => Some(Kind::I16),
        Dtype::U32 => Some(Kind::U32),
        Dtype::I32 => Some(Kind::I32),
        Dtype::U64 => Some(Kind::U64),
        Dtype::I64 => Some(Kind::I64),
        Dtype::F16 => Some(Kind::F16),
        Dtype::BF16 => Some(Kind::Bf16),
        Dtype::F32 => Some(Kind::F32),
        Dtype::F64 => Some(Kind::F64),
        _ => None,
    };
    Ok(Array {
        path: path.to_owned(),
        name: name.into(),
        kind,
        said: format!("{:?}", tensor.dtype()),
        shape: tensor.shape().to_vec(),
        bytes: tensor.data().to_vec(),
    })
}

/// The array that `path` names and the labels beside it.
pub(crate) struct ArrayFiles {
    inputs: PathBuf,
    safetensors: bool,
}

impl ArrayFiles {
    /// Returns the array that a file is, or that a folder holds under the name that the model's data has.
    pub(crate) fn at(path: &Path, folder: bool, wanted: &SampleKind) -> Option<Self> {
        if folder {
            let name = if wanted.sequence().is_some() { TOKENS } else { INPUTS };
            let inputs = path.join(name).with_extension("npy");
            return inputs.is_file().then_some(Self { inputs, safetensors: false });
        }
        let safetensors = files::ending(path) == "safetensors";
        (safetensors || files::ending(path) == "npy").then(|| Self { inputs: path.to_owned(), safetensors })
    }

    /// Reads token ids below `vocabulary`, and returns the file's bytes beside them.
    pub(crate) fn tokens(&self, vocabulary: u64) -> Result<(Vec<u32>, Vec<u8>), DataError> {
        let content = files::bytes(&self.inputs)?;
        let array = if self.safetensors {
            tensor(&self.inputs, &content, TOKENS, "`tokens`, the ids of a text")?
        } else {
            npy(&self.inputs, &content)?
        };
        if array.shape.len() != 1 {
            return Err(array.wrong("shape", "(tokens)"));
        }
        let below = |(position, id): (usize, i64)| {
            let id_below = u32::try_from(id).ok().filter(|id| u64::from(*id) < vocabulary);
            id_below.ok_or_else(|| DataError::TokenId { path: self.inputs.clone(), position, id, vocabulary })
        };
        let ids = array.integers()?.into_iter().enumerate().map(below).collect::<Result<_, _>>()?;
        Ok((ids, content))
    }

    /// Reads samples with their classes.
    pub(crate) fn labelled(&self, wanted: &SampleKind) -> Result<Labelled, DataError> {
        const ALLOWED: &str = "`inputs`, one row for each sample, and `labels`, its class";
        let content = files::bytes(&self.inputs)?;
        let (inputs, labels, label_file) = if self.safetensors {
            let labels = tensor(&self.inputs, &content, LABELS, ALLOWED)?;
            (tensor(&self.inputs, &content, INPUTS, ALLOWED)?, labels, Vec::new())
        } else {
            let path = self.inputs.with_file_name(LABELS).with_extension("npy");
            if !path.is_file() {
                let folder = self.inputs.parent().unwrap_or(Path::new("")).to_owned();
                return Err(DataError::NoArray { path: folder, array: "labels.npy".into(), allowed: ALLOWED });
            }
            let labels = files::bytes(&path)?;
            (npy(&self.inputs, &content)?, npy(&path, &labels)?, labels)
        };
        let samples = inputs.shape.first().copied().unwrap_or(0);
        if labels.shape != [samples] {
            return Err(labels.wrong("shape", format!("[{samples}], one label for each row of `{}`", inputs.name)));
        }
        let shape = sample_shape(&inputs, wanted)?;
        let files = if self.safetensors { 1 } else { 2 };
        let mut labelled = Labelled::new(shape, inputs.values()?);
        labelled.files = files;
        labelled.count(&[&content, &label_file]);
        labelled.label(&labels.path, labels.integers()?, wanted)?;
        Ok(labelled)
    }
}

/// Returns the shape of one sample, (channels, height, width), if it is what the model reads.
fn sample_shape(inputs: &Array, wanted: &SampleKind) -> Result<[usize; 3], DataError> {
    let sample = inputs.shape.get(1..).unwrap_or(&[]);
    match *wanted {
        SampleKind::Image { channels, height, width, .. } => {
            let flat = channels == 1 && sample == [height, width];
            if sample == [channels, height, width] || flat {
                return Ok([channels, height, width]);
            }
            Err(inputs.wrong("shape", format!("[samples, {channels}, {height}, {width}]")))
        }
        SampleKind::Vector { width, .. } => {
            let values = sample.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
            if values == Some(width) && !sample.is_empty() {
                return Ok([1, 1, width]);
            }
            Err(inputs.wrong("shape", format!("[samples, {width}]")))
        }
        SampleKind::NextToken { .. } | SampleKind::Masked { .. } => unreachable!("texts have no labels"),
    }
}

#[cfg(test)]
mod tests;
