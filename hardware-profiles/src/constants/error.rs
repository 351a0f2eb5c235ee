//! Why a file does not hold constants.

use super::CONSTANTS_SCHEMA;

/// An error in a constants file. `field` is a path in the file, with names of entries: `stacks.pytorch.launch`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstantsError {
    /// The schema is of another kind or version.
    #[error("`schema` is `{found}`, but this version reads `{CONSTANTS_SCHEMA}`")]
    Schema {
        /// The schema as written.
        found: String,
    },
    /// The file replaces nothing.
    #[error("there is no `gpus`, `links`, `stacks` or `fabrics`: the file replaces nothing")]
    Empty,
    /// A value is out of range.
    #[error("`{field}` is {value}, but it must be {allowed}")]
    Invalid {
        /// The field.
        field: String,
        /// The value as written, in seconds, bytes or without a unit.
        value: String,
        /// The values allowed, in the same unit.
        allowed: String,
    },
}

impl ConstantsError {
    /// Returns a suggestion for the user.
    pub fn hint(&self) -> String {
        match self {
            Self::Schema { .. } => "`trainyard calibrate --from MEASUREMENTS.csv --out FILE` writes one".into(),
            Self::Empty => "write [[stacks]] with a whole entry, as `trainyard show stacks NAME` shows it".into(),
            Self::Invalid { field, .. } if field.contains(".pairs[") => {
                "pairs are [GPU, GPU, links]: GPUs of a machine are counted from 0, and each pair has one entry".into()
            }
            Self::Invalid { .. } => "a constant is zero where there is no such cost, and else inside its bounds".into(),
        }
    }
}
