//! What can be typed after `trainyard history`.

use crate::machine;
use crate::values::{Refused, one_of, refused, whole};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use trainyard_history::{Kind, UtcTime};
use trainyard_units::Seconds;

/// What is done with a history.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// List what is kept, the newest first
    List(ListArguments),
    /// Show an entry, and what its command printed
    Show(ShowKeptArguments),
    /// Set two entries side by side
    Compare(CompareKeptArguments),
    /// Give an entry tags, or take them away
    Tag(TagArguments),
    /// Say something of an entry
    Note(NoteArguments),
    /// Write documents into files, where other commands read them
    Export(ExportKeptArguments),
    /// Remove old entries; those with tags stay
    Prune(PruneArguments),
}

/// Arguments of `trainyard history list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArguments {
    /// Only entries of this kind
    #[arg(long, value_name = "KIND", value_parser = one_of(&Kind::ALL, Kind::name))]
    pub(crate) kind: Option<Kind>,
    /// Only entries of this model, or of models like 'gpt*'
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Only entries with this tag; may be repeated
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Vec<String>,
    /// Only entries from then on
    #[arg(long, value_name = "DATE", value_parser = time)]
    pub(crate) since: Option<UtcTime>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=u32::MAX))]
    pub(crate) limit: u32,
}

/// Arguments of `trainyard history show`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowKeptArguments {
    /// Start of the entry's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print only the document, as its command printed it for programs
    #[arg(long)]
    pub(crate) document: bool,
}

/// Arguments of `trainyard history compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompareKeptArguments {
    /// Start of an entry's id
    #[arg(value_name = "ID")]
    pub(crate) a: String,
    /// Start of the other's
    #[arg(value_name = "OTHER")]
    pub(crate) b: String,
}

/// Arguments of `trainyard history tag`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TagArguments {
    /// Start of the entry's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Words of letters, digits and -_.:/+
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// Take them away
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Arguments of `trainyard history note`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NoteArguments {
    /// Start of the entry's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// What is said of it, in place of what was said before
    #[arg(value_name = "TEXT", required_unless_present = "remove")]
    pub(crate) text: Option<String>,
    /// Say nothing more
    #[arg(long, conflicts_with = "text")]
    pub(crate) remove: bool,
}

/// Arguments of `trainyard history export`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExportKeptArguments {
    /// Starts of ids [default: everything that is kept]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Write there: into a folder, or one entry's document into a file that ends in .json
    #[arg(long, value_name = "FOLDER|FILE.json")]
    pub(crate) out: PathBuf,
}

/// Arguments of `trainyard history prune`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("old").required(true))]
pub(crate) struct PruneArguments {
    /// Remove entries from before then
    #[arg(long, value_name = "DATE", value_parser = time, group = "old")]
    pub(crate) before: Option<UtcTime>,
    /// Remove all entries but so many, the newest
    #[arg(long, value_name = "N", group = "old", value_parser = whole::<u32>(0..=u32::MAX))]
    pub(crate) keep: Option<u32>,
    /// Only entries of this kind
    #[arg(long, value_name = "KIND", value_parser = one_of(&Kind::ALL, Kind::name))]
    pub(crate) kind: Option<Kind>,
    /// Remove entries with tags too
    #[arg(long)]
    pub(crate) tagged: bool,
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A point in time, or how long ago it is.
fn time(text: &str) -> Result<UtcTime, Refused> {
    let ago = text.parse::<Seconds>().ok().filter(|ago| ago.0.is_finite() && ago.0 >= 0.0);
    match ago {
        Some(ago) => Ok(machine::now().before(ago.0.ceil() as u64)),
        None => text.parse().map_err(|_| {
            refused(text, "a date, 2026-11-22 or 2026-11-22T10:30:00Z, both UTC, or how long ago, 12h or 30d")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_how_long_ago() {
        assert_eq!(time("2026-11-22").map(UtcTime::date), Ok("2026-11-22".into()));
        let day = machine::now().unix_seconds() - time("1d").expect("an age").unix_seconds();
        assert!((86_399..=86_401).contains(&day), "{day}");
        for wrong in ["yesterday", "-3d", "3", "2026-02-30", ""] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
