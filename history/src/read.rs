//! What is asked of a history.

use crate::checksum;
use crate::entry::{Entry, Figures, Kind};
use crate::time::UtcTime;
use rusqlite::types::Type;
use rusqlite::{Connection, Params, Row};

/// A filter of entries; fields that are left out match everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only entries of this kind.
    pub kind: Option<Kind>,
    /// Only entries of this model, or of models like `gpt*`.
    pub model: Option<String>,
    /// Only entries with all of these tags.
    pub tags: Vec<String>,
    /// Only entries from this time on.
    pub since: Option<UtcTime>,
    /// Maximum number of entries, the newest.
    pub limit: Option<u32>,
}

/// The entries that were found, the newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// Number of further entries, beyond the limit.
    pub left_out: u64,
}

/// The columns of an entry, without the text of its documents, in the order in which [`entry`] reads them.
pub(crate) const COLUMNS: &str = "id, kind, at, program, arguments, model, machines, step_time_s, \
     predicted_step_time_s, time_s, cost_usd, loss, note, \
     (SELECT json_group_array(word ORDER BY word) FROM tag WHERE tag.entry = entry.number), \
     (SELECT json_group_array(name ORDER BY position) FROM document WHERE document.entry = entry.number), \
     checksum";

/// The place of the checksum among them.
const CHECKSUM: usize = 15;

/// The condition of a filter; its parameters are kind, model, tags as a JSON list, and the first second.
const WANTED: &str = "(?1 IS NULL OR kind = ?1) \
     AND (?2 IS NULL OR model = ?2 OR lower(model) GLOB lower(?2)) \
     AND NOT EXISTS (SELECT 1 FROM json_each(?3) AS wanted WHERE wanted.value NOT IN \
         (SELECT word FROM tag WHERE tag.entry = entry.number)) \
     AND (?4 IS NULL OR at >= ?4)";

/// The order with the newest first; among entries of one second, the one that was kept last.
pub(crate) const NEWEST_FIRST: &str = "ORDER BY at DESC, number DESC";

pub(crate) fn list(connection: &Connection, filter: &Filter) -> rusqlite::Result<Listing> {
    let kind = filter.kind.map(Kind::name);
    let tags = json(&filter.tags);
    let since = filter.since.map(UtcTime::unix_seconds);
    // SQLite takes a negative limit for no limit.
    let limit = filter.limit.map_or(-1, i64::from);
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE {WANTED} {NEWEST_FIRST} LIMIT ?5");
    let found = entries(connection, &sql, (kind, &filter.model, &tags, since, limit))?;
    let count = format!("SELECT count(*) FROM entry WHERE {WANTED}");
    let all: u64 = connection.query_row(&count, (kind, &filter.model, &tags, since), |row| row.get(0))?;
    Ok(Listing { left_out: all.saturating_sub(found.len() as u64), entries: found })
}

/// Returns the entries that a query finds, which selects [`COLUMNS`].
pub(crate) fn entries(connection: &Connection, sql: &str, parameters: impl Params) -> rusqlite::Result<Vec<Entry>> {
    connection.prepare(sql)?.query_map(parameters, entry)?.collect()
}

/// Formats a list of words as JSON, as it is stored in one field.
pub(crate) fn json(words: &[String]) -> String {
    serde_json::to_string(words).expect("words are JSON")
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let entry = Entry {
        id: row.get(0)?,
        kind: named(row, 1)?,
        at: UtcTime::of_unix_seconds(row.get(2)?),
        program: row.get(3)?,
        arguments: words(row, 4)?,
        model: row.get(5)?,
        machines: row.get(6)?,
        figures: Figures {
            step_time_s: row.get(7)?,
            predicted_step_time_s: row.get(8)?,
            time_s: row.get(9)?,
            cost_usd: row.get(10)?,
            loss: row.get(11)?,
        },
        note: row.get(12)?,
        tags: words(row, 13)?,
        documents: words(row, 14)?,
    };
    match row.get::<_, Option<i64>>(CHECKSUM)? {
        Some(kept) if kept != checksum::of_entry(&entry) => {
            Err(wrong(CHECKSUM, format!("entry {} does not match its checksum", entry.id).into()))
        }
        _ => Ok(entry),
    }
}

fn named(row: &Row<'_>, column: usize) -> rusqlite::Result<Kind> {
    let name: String = row.get(column)?;
    Kind::named(&name).ok_or_else(|| wrong(column, format!("`{}` is no kind of entry", name.escape_debug()).into()))
}

fn words(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| wrong(column, error.into()))
}

pub(crate) fn wrong(column: usize, cause: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, cause)
}
