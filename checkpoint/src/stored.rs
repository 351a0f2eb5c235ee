//! Where a tensor lies in a file, and why it may not be found.

use safetensors::Dtype;
use std::io;

/// A tensor as it lies in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The place of its first byte in the file.
    pub(crate) start: u64,
}

/// Why a file is not one of tensors.
#[derive(Debug)]
pub enum IndexError {
    /// It could not be read.
    Unreadable(io::Error),
    /// It is not a valid file of tensors, for the reason given.
    Damaged(String),
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}
