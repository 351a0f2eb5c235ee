//! What `trainyard history` prints for programs.

use crate::entry::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of lists of entries that this version writes.
pub const HISTORY_SCHEMA: &str = "trainyard.history/1";
/// The schema of single entries that this version writes.
pub const KEPT_SCHEMA: &str = "trainyard.history-entry/1";
/// The schema of two entries side by side that this version writes.
pub const COMPARED_SCHEMA: &str = "trainyard.history-comparison/1";

/// What was done with the entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryAct {
    /// They were looked up.
    Listed,
    /// Their tags or notes were changed.
    Changed,
    /// Their documents were written into files.
    Exported,
    /// They were removed.
    Pruned,
    /// They would be removed.
    WouldPrune,
}

/// Entries of a history, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryDocument {
    /// `trainyard.history/1`.
    pub schema: String,
    /// The file of the history.
    pub store: String,
    /// What was done with them.
    pub act: HistoryAct,
    /// The entries.
    pub entries: Vec<Entry>,
    /// Entries that were asked for and are left out, because there are more than the limit.
    pub left_out: u64,
    /// The files that were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// An entry with its document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptDocument {
    /// `trainyard.history-entry/1`.
    pub schema: String,
    /// What is kept.
    pub entry: Entry,
    /// What the command printed, of which its own `schema` says more.
    pub document: serde_json::Value,
}

/// Two entries side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedDocument {
    /// `trainyard.history-comparison/1`.
    pub schema: String,
    /// The one that was named first.
    pub a: Entry,
    /// The other.
    pub b: Entry,
}
