//! What was planned, simulated and run, kept in one file: the store behind `trainyard history`.
//!
//! A [`Store`] is an SQLite database. An [`Entry`] in it is one result of a command: when and with which arguments it
//! came about, what it is about (model, machines, headline figures), and the documents themselves, whole and as they
//! were printed. People add tags and a note; nothing else of an entry ever changes.
//!
//! - **One entry, one transaction.** When [`Store::keep`] returns, the entry is on the disk, and neither a killed process
//!   nor a power failure takes it back. Whoever is killed before leaves nothing of it. Processes may write at once: one
//!   waits for the other.
//! - **Ids** have six digits and letters without those that look alike. Any start of one that no other entry has will do,
//!   and `O` is read as `0`, `I` and `L` as `1`.
//! - **Versions.** A file knows its version. Older ones are brought forward in one transaction when they are opened;
//!   newer ones are refused, and so is whatever is no history. What is refused is not changed.
//! - **Nothing is read from the clock.** Times are given; the schema and the rest of the file follow from what is kept.
//!
//! ```
//! use trainyard_history::{Document, Figures, Filter, Kind, NewEntry, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let mut store = Store::open(&folder.path().join("history.db"))?;
//! let kept = store.keep(&NewEntry {
//!     kind: Kind::Plan,
//!     at: "2026-11-22T10:30:00Z".parse()?,
//!     program: "0.1.0".into(),
//!     arguments: vec!["plan".into(), "job.toml".into()],
//!     model: Some("gpt2".into()),
//!     machines: Some("1 × p3.2xlarge".into()),
//!     figures: Figures { step_time_s: Some(0.25), cost_usd: Some(12.5), ..Figures::default() },
//!     documents: vec![Document { name: "plan.json".into(), text: "{}".into() }],
//! })?;
//! store.tag(&kept.id, &["baseline".into()])?;
//!
//! let wanted = Filter { tags: vec!["baseline".into()], ..Filter::default() };
//! let listed = store.list(&wanted)?;
//! assert_eq!(listed.entries[0].model.as_deref(), Some("gpt2"));
//! assert_eq!(store.documents(&kept.id[..3])?[0].text, "{}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checksum;
mod document;
mod entry;
mod error;
mod id;
mod read;
mod store;
mod time;
mod version;

pub use document::{
    COMPARED_SCHEMA, ComparedDocument, HISTORY_SCHEMA, HistoryAct, HistoryDocument, KEPT_SCHEMA, KeptDocument,
};
pub use entry::{Document, Entry, Figures, Kind, NewEntry, is_tag};
pub use error::HistoryError;
pub use id::short_name;
pub use read::{Filter, Listing};
pub use store::{Old, Prune, Store, Tagged};
pub use time::{TimeError, UtcTime};
pub use version::VERSION;
