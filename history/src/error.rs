//! Why a history cannot be read or written.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time that a process waits for others to write. Writing an entry takes some milliseconds.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);

/// The reason why an operation on a history failed. In every case nothing of the history was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The file is not a history.
    #[error("`{}` is no history: {what}", path.display())]
    Foreign {
        path: PathBuf,
        /// The kind of file that it is instead.
        what: &'static str,
    },
    /// A later version of the program wrote the file.
    #[error("the history `{}` is of version {found}, but this program reads up to version {known}", path.display())]
    Newer {
        path: PathBuf,
        /// The version of the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The file is a history, but its content is inconsistent.
    #[error("the history `{}` is damaged: {cause}", path.display())]
    Damaged {
        path: PathBuf,
        /// The inconsistency.
        cause: String,
    },
    /// Other processes wrote for longer than the time limit.
    #[error("the history `{}` was locked by another process for {seconds} s", path.display())]
    Busy {
        path: PathBuf,
        /// Seconds that this process waited.
        seconds: u64,
    },
    /// The system does not allow the file to be read or written.
    #[error("the history `{}` cannot be used: {cause}", path.display())]
    Unavailable {
        path: PathBuf,
        /// The system's message.
        cause: String,
    },
    /// No entry has an id with this start.
    #[error("there is no entry `{}` in the history", id.escape_debug())]
    Unknown {
        /// The start of an id that was typed.
        id: String,
        /// Similar ids.
        nearest: Vec<String>,
    },
    /// Several entries have ids with this start.
    #[error("`{id}` is the start of several ids: {}", ids.join(", "))]
    Ambiguous {
        /// The start of an id that was typed.
        id: String,
        /// Some of the matching ids.
        ids: Vec<String>,
    },
    /// A word that cannot be a tag.
    #[error("`{}` is no tag, which is one word of at most 64 letters, digits and -_.:/+", word.escape_debug())]
    NotATag { word: String },
    /// A tag that an entry does not have.
    #[error("entry {id} has no tag `{word}`")]
    NoSuchTag {
        /// The entry.
        id: String,
        word: String,
        tags: Vec<String>,
    },
}

impl HistoryError {
    /// Converts an error of SQLite on a file.
    pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, seconds: WAIT_MAX.as_secs() }
            }
            Some(ErrorCode::NotADatabase) => Self::Foreign { path, what: "it is no SQLite database" },
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::OutOfMemory
                | ErrorCode::TooBig,
            ) => Self::Unavailable { path, cause: error.to_string() },
            _ => Self::Damaged { path, cause: error.to_string() },
        }
    }

    /// Returns `true` if the user's input is at fault, not the file.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Busy { .. } | Self::Unavailable { .. })
    }

    /// Returns advice on what may be done about the error.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Foreign { .. } => "name another file with --history or TRAINYARD_HISTORY; it was not changed".into(),
            Self::Newer { .. } => "use a newer version of this program, or another file; it was not changed".into(),
            Self::Damaged { .. } => {
                "move it away, and a new one is begun; `sqlite3 FILE .recover` may save what it holds".into()
            }
            Self::Busy { .. } => "try again when the other process is done".into(),
            Self::Unavailable { .. } => "--history PATH names another place, and --history off keeps nothing".into(),
            Self::Unknown { nearest, .. } if nearest.is_empty() => "the history is empty".into(),
            Self::Unknown { nearest, .. } => {
                format!("the nearest are {}; `trainyard history list` shows all", nearest.join(", "))
            }
            Self::Ambiguous { .. } => "type more of it".into(),
            Self::NotATag { .. } => "`trainyard history note` keeps whole sentences".into(),
            Self::NoSuchTag { tags, .. } if tags.is_empty() => "it has none".into(),
            Self::NoSuchTag { tags, .. } => format!("it has {}", tags.join(", ")),
        };
        Some(hint)
    }
}
