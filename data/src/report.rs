//! Report of the data of a run.

use serde::{Deserialize, Serialize};

/// The data of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataReport {
    /// The path it was read from.
    pub path: String,
    /// The path of held-out samples, where they are not a part of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<String>,
    /// The path of the tokenizer; absent for text that was read as bytes, and for data other than text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// The kind of data: text, images, and so on.
    #[serde(default)]
    pub kind: String,
    /// Names of the classes in the order of their numbers, where folders have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Files that were read, or that will be.
    pub files: usize,
    /// Files that are of another kind.
    pub skipped_files: usize,
    /// Samples that could not be decoded, for which others were taken.
    #[serde(default)]
    pub corrupt_samples: usize,
    /// Seconds that the computation waited for samples, of the rank that waited longest.
    #[serde(default)]
    pub waited_s: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Samples of an epoch.
    pub training_samples: usize,
    /// Held-out samples that an evaluation reads.
    pub held_out_samples: usize,
    /// Held-out samples that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out_in_all: Option<usize>,
}
