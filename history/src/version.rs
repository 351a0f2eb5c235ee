//! The form of the file, and how older forms become the present one.

use crate::error::HistoryError;
use rusqlite::{Connection, TransactionBehavior};
use std::io::{ErrorKind, Read};
use std::path::Path;
use trainyard_documents::Unreadable;

/// The version of files that this program writes.
pub const VERSION: u32 = 3;

/// SQLite's application id of Trainyard's files: `TrYd`.
const APPLICATION: u32 = 0x5472_5964;

/// Bytes of a database's header, including the number of its tables, views and the like.
const HEADER: u64 = 105;

/// Returns the space of pruned entries to the disk. It must be set before the first table is made, which leaves an
/// empty database for a moment; set later, it would write to the file of a process that only reads.
const SHRINKING: &str = "PRAGMA auto_vacuum = FULL;";

/// The migrations from each version to the next; the first creates the tables. A released one is never changed.
const STEPS: [&str; VERSION as usize] = [
    // `number` is the order in which entries were kept, and is never reused.
    "CREATE TABLE entry (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        at INTEGER NOT NULL,
        program TEXT NOT NULL,
        arguments TEXT NOT NULL,
        model TEXT,
        machines TEXT,
        step_time_s REAL,
        time_s REAL,
        cost_usd REAL
    ) STRICT;
    CREATE INDEX entry_at ON entry (at);
    CREATE TABLE document (
        entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        text TEXT NOT NULL,
        UNIQUE (entry, position)
    ) STRICT;
    CREATE TABLE tag (
        entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE,
        word TEXT NOT NULL,
        PRIMARY KEY (entry, word)
    ) STRICT, WITHOUT ROWID;",
    // Adds the note of an entry, and the loss and the predicted step time of a run.
    "ALTER TABLE entry ADD COLUMN predicted_step_time_s REAL;
    ALTER TABLE entry ADD COLUMN loss REAL;
    ALTER TABLE entry ADD COLUMN note TEXT;",
    // Adds checksums. What an older version kept has none.
    "ALTER TABLE entry ADD COLUMN checksum INTEGER;
    ALTER TABLE document ADD COLUMN checksum INTEGER;",
];

/// Refuses a file that is no history, or one of a newer version, before SQLite opens it: opening a database that
/// another program left in the middle of a write would change it.
///
/// # Source
///
/// SQLite, "Database File Format", sections 1.3 and 1.6: magic string, user version at byte 60, application id at byte 68,
/// cells of the page that lists the tables at byte 103.
pub(crate) fn check(path: &Path) -> Result<(), HistoryError> {
    let unavailable = |error: std::io::Error| HistoryError::Unavailable { path: path.into(), cause: error.to_string() };
    let foreign = |what| Err(HistoryError::Foreign { path: path.into(), what });
    let file = match trainyard_documents::open(path) {
        Ok((file, _)) => file,
        Err(Unreadable::System(error)) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(Unreadable::Folder) => return foreign("it is a folder"),
        Err(Unreadable::Endless) => return foreign("it is no file"),
        Err(error) => return Err(unavailable(error.into_io())),
    };
    let mut header = Vec::new();
    file.take(HEADER).read_to_end(&mut header).map_err(unavailable)?;
    if header.is_empty() {
        // The file was just created, possibly by a process that was killed before its first entry was kept.
        return Ok(());
    }
    if header.len() as u64 != HEADER || !header.starts_with(b"SQLite format 3\0") {
        return foreign("it is no SQLite database");
    }
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let nothing_in_it = number(60) == 0 && header[103..105] == [0, 0];
    match number(68) {
        APPLICATION => newer(path, number(60)),
        0 if nothing_in_it => Ok(()),
        _ => foreign("it is a database of another program"),
    }
}

fn newer(path: &Path, found: u32) -> Result<(), HistoryError> {
    if found <= VERSION {
        return Ok(());
    }
    Err(HistoryError::Newer { path: path.into(), found, known: VERSION })
}

/// Creates the tables of an empty file, and migrates those of an older version: all of it or nothing.
pub(crate) fn bring_forward(connection: &mut Connection, path: &Path) -> Result<(), HistoryError> {
    let told = |error: rusqlite::Error| HistoryError::of(path, &error);
    match version(connection).map_err(told)? {
        VERSION => return Ok(()),
        0 => connection.execute_batch(SHRINKING).map_err(told)?,
        _ => {}
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(told)?;
    // Another process may have migrated it first.
    let found = version(&transaction).map_err(told)?;
    newer(path, found)?;
    for step in &STEPS[found as usize..] {
        transaction.execute_batch(step).map_err(told)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION).map_err(told)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(told)?;
    transaction.commit().map_err(told)
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_version(path: &Path, steps: usize) -> Connection {
        let connection = Connection::open(path).expect("room");
        for step in &STEPS[..steps] {
            connection.execute_batch(step).expect("valid");
        }
        connection.pragma_update(None, "application_id", APPLICATION).expect("a number");
        connection.pragma_update(None, "user_version", steps as u32).expect("a number");
        connection
    }

    /// Returns the columns of all tables of a database, with their types.
    fn tables(connection: &Connection) -> Vec<String> {
        let columns = "SELECT m.name || '.' || c.name || ' ' || c.type FROM sqlite_schema AS m, \
                       pragma_table_info(m.name) AS c WHERE m.type = 'table' ORDER BY 1";
        let mut statement = connection.prepare(columns).expect("valid");
        let rows = statement.query_map([], |row| row.get(0)).expect("valid");
        rows.collect::<Result<_, _>>().expect("text")
    }

    #[test]
    fn every_version_becomes_the_present_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let new = at_version(&folder.path().join("new"), STEPS.len());
        for steps in 0..STEPS.len() {
            let path = folder.path().join(steps.to_string());
            let mut old = if steps == 0 { Connection::open(&path).expect("room") } else { at_version(&path, steps) };
            bring_forward(&mut old, &path).expect("an older version");
            assert_eq!(tables(&old), tables(&new), "version {steps}");
            drop(old);
            check(&path).expect("a history");
        }
    }

    #[test]
    fn a_newer_version_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("newer");
        at_version(&path, STEPS.len()).pragma_update(None, "user_version", 9).expect("a number");
        let before = std::fs::read(&path).expect("readable");
        let error = check(&path).expect_err("newer");
        assert_eq!(error, HistoryError::Newer { path: path.clone(), found: 9, known: VERSION });
        assert!(error.to_string().contains("of version 9"), "{error}");
        let mut connection = Connection::open(&path).expect("a database");
        assert_eq!(bring_forward(&mut connection, &path), Err(error));
        drop(connection);
        assert!(std::fs::read(&path).expect("readable") == before, "it is not changed");
    }
}
