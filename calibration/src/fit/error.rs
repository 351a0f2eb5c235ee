//! Why nothing can be fitted to a table.

use crate::table::{RowError, TableError};

/// Reasons against a fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// It is no table of step times.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Rows have cells that cannot be read: what they were meant to say would change the fit.
    #[error("{} rows cannot be read; the first: {}", rows.len(), rows.first().map(ToString::to_string).unwrap_or_default())]
    Rows {
        /// Each of them.
        rows: Vec<RowError>,
    },
    /// The simulator can express no row.
    #[error("none of the {rows} rows of `{file}` can be simulated{}", reason.as_ref().map(|reason| format!("; the first: {reason}")).unwrap_or_default())]
    Nothing {
        /// The file.
        file: String,
        /// Rows that were read.
        rows: usize,
        /// Why not the first.
        reason: Option<String>,
    },
}

impl FitError {
    /// Advice to the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Table(error) => error.hint(),
            Self::Rows { .. } => Some("correct these cells, or leave the rows out".into()),
            Self::Nothing { .. } => Some("`trainyard validate` tells what each row lacks".into()),
        }
    }
}
