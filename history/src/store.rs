//! The file, and what is done with it.

use crate::checksum;
use crate::entry::{Document, Entry, Kind, NewEntry, is_tag};
use crate::error::{HistoryError, WAIT_MAX};
use crate::id;
use crate::read::{self, COLUMNS, Filter, Listing, NEWEST_FIRST};
use crate::time::UtcTime;
use crate::version;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};

/// Maximum number of ids that an error names where one is unknown or ambiguous.
const NAMED: usize = 5;

/// The settings of each connection.
///
/// The journal is SQLite's rollback journal, which is there only while something is written: the history is one file
/// that can be copied, looked at where nothing may be written, and shared over a network as far as its locks work there,
/// none of which a write-ahead log allows. A write costs three waits for the disk instead of one, for a command that
/// took seconds. `synchronous = EXTRA` waits for the pages of the journal, then for those of the file, and then for the
/// folder that the journal vanishes from: only then is a transaction done for good, whatever happens to the machine.
/// With FULL the last wait is missing, and after a power failure the journal might still be there and take the last
/// transaction back. (SQLite, "Atomic Commit In SQLite", and the pragma's description.)
const MANNERS: &str = "PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; \
                       PRAGMA cell_size_check = ON;";

/// An open history.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// The entries that count as old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// Those from before this time.
    Before(UtcTime),
    /// All but this many, the newest.
    AllBut(u32),
}

/// The treatment of old entries that have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged {
    /// They are kept.
    Stay,
    /// They are removed like others.
    Go,
}

/// The entries to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// The entries that count as old.
    pub old: Old,
    /// Only those of this kind; the newest are then the newest of this kind.
    pub kind: Option<Kind>,
    /// The treatment of entries with tags.
    pub tagged: Tagged,
}

impl Store {
    /// Opens a history; creates it if there is none, in a folder that exists.
    ///
    /// # Errors
    ///
    /// Fails when the file is something else or of a newer version, is damaged, or cannot be read or written. It is not
    /// changed then.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        version::check(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            let cause = format!("there is no folder `{}`", folder.display());
            return Err(HistoryError::Unavailable { path: path.into(), cause });
        }
        Self::connect(path, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens a history if there is one. Nothing is written, except to migrate an older version.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    pub fn existing(path: &Path) -> Result<Option<Self>, HistoryError> {
        version::check(path)?;
        if !path.exists() {
            return Ok(None);
        }
        Self::connect(path, OpenFlags::empty()).map(Some)
    }

    fn connect(path: &Path, more: OpenFlags) -> Result<Self, HistoryError> {
        let told = |error: rusqlite::Error| HistoryError::of(path, &error);
        // SQLite takes `:memory:` and the like for other things than files, but never absolute paths.
        let absolute = std::path::absolute(path)
            .map_err(|error| HistoryError::Unavailable { path: path.into(), cause: error.to_string() })?;
        // Where the file may not be written, SQLite itself opens it for reading.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let mut connection = Connection::open_with_flags(absolute, flags).map_err(told)?;
        connection.busy_timeout(WAIT_MAX).map_err(told)?;
        connection.execute_batch(MANNERS).map_err(told)?;
        whole(&connection, path)?;
        version::bring_forward(&mut connection, path)?;
        Ok(Self { connection, path: path.into() })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps an entry. When this returns, it is on the disk.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be written. Nothing of it is kept then.
    pub fn keep(&mut self, new: &NewEntry) -> Result<Entry, HistoryError> {
        self.change(|transaction| {
            let id = free_id(transaction, new)?;
            let figures = &new.figures;
            transaction.execute(
                "INSERT INTO entry (id, kind, at, program, arguments, model, machines, step_time_s, \
                 predicted_step_time_s, time_s, cost_usd, loss) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    id,
                    new.kind.name(),
                    new.at.unix_seconds(),
                    new.program,
                    read::json(&new.arguments),
                    new.model,
                    new.machines,
                    figures.step_time_s,
                    figures.predicted_step_time_s,
                    figures.time_s,
                    figures.cost_usd,
                    figures.loss,
                ],
            )?;
            let number = transaction.last_insert_rowid();
            for (position, document) in new.documents.iter().enumerate() {
                transaction.execute(
                    "INSERT INTO document (entry, position, name, text, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![number, position, document.name, document.text, checksum::of_document(document)],
                )?;
            }
            // The checksum is that of the entry as the file tells it: a number that is none has become nothing.
            let entry = entry_of(transaction, &id)?;
            let sum = checksum::of_entry(&entry);
            transaction.execute("UPDATE entry SET checksum = ?2 WHERE number = ?1", params![number, sum])?;
            Ok(entry)
        })
    }

    /// Returns the entries that match a filter, the newest first.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read.
    pub fn list(&self, filter: &Filter) -> Result<Listing, HistoryError> {
        read::list(&self.connection, filter).map_err(|error| HistoryError::of(&self.path, &error))
    }

    /// Returns the entry whose id starts with `start`.
    ///
    /// # Errors
    ///
    /// Fails when none or several do, or the file cannot be read.
    pub fn find(&self, start: &str) -> Result<Entry, HistoryError> {
        let told = |error: rusqlite::Error| HistoryError::of(&self.path, &error);
        let id = full_id(&self.connection, start).map_err(|error| error.told(&self.path))?;
        entry_of(&self.connection, &id).map_err(told)
    }

    /// Returns the documents of the entry whose id starts with `start`, the printed one first.
    ///
    /// # Errors
    ///
    /// As [`Store::find`].
    pub fn documents(&self, start: &str) -> Result<Vec<Document>, HistoryError> {
        let id = full_id(&self.connection, start).map_err(|error| error.told(&self.path))?;
        documents(&self.connection, &id).map_err(|error| HistoryError::of(&self.path, &error))
    }

    /// Adds tags to the entry whose id starts with `start`.
    ///
    /// # Errors
    ///
    /// Fails when a word cannot be a tag, and as [`Store::find`]; when the file cannot be written.
    pub fn tag(&mut self, start: &str, words: &[String]) -> Result<Entry, HistoryError> {
        if let Some(word) = words.iter().find(|word| !is_tag(word)) {
            return Err(HistoryError::NotATag { word: word.clone() });
        }
        self.change(|transaction| {
            let id = full_id(transaction, start)?;
            for word in words {
                transaction.execute(
                    "INSERT OR IGNORE INTO tag (entry, word) SELECT number, ?2 FROM entry WHERE id = ?1",
                    [&id, word],
                )?;
            }
            Ok(entry_of(transaction, &id)?)
        })
    }

    /// Removes tags from the entry whose id starts with `start`.
    ///
    /// # Errors
    ///
    /// Fails when it does not have one of them, and as [`Store::find`]; when the file cannot be written.
    pub fn untag(&mut self, start: &str, words: &[String]) -> Result<Entry, HistoryError> {
        self.change(|transaction| {
            let id = full_id(transaction, start)?;
            let tags = entry_of(transaction, &id)?.tags;
            if let Some(word) = words.iter().find(|word| !tags.contains(word)) {
                return Err(HistoryError::NoSuchTag { id, word: word.escape_debug().to_string(), tags }.into());
            }
            for word in words {
                transaction.execute(
                    "DELETE FROM tag WHERE word = ?2 AND entry = (SELECT number FROM entry WHERE id = ?1)",
                    [&id, word],
                )?;
            }
            Ok(entry_of(transaction, &id)?)
        })
    }

    /// Replaces the note of the entry whose id starts with `start`, or removes it.
    ///
    /// # Errors
    ///
    /// As [`Store::find`]; when the file cannot be written.
    pub fn note(&mut self, start: &str, note: Option<&str>) -> Result<Entry, HistoryError> {
        self.change(|transaction| {
            let id = full_id(transaction, start)?;
            transaction.execute("UPDATE entry SET note = ?2 WHERE id = ?1", params![id, note])?;
            Ok(entry_of(transaction, &id)?)
        })
    }

    /// Returns the entries that [`Store::prune`] would remove.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read.
    pub fn prunable(&self, prune: &Prune) -> Result<Vec<Entry>, HistoryError> {
        prunable(&self.connection, prune).map_err(|error| HistoryError::of(&self.path, &error))
    }

    /// Removes old entries and returns them: all or none.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn prune(&mut self, prune: &Prune) -> Result<Vec<Entry>, HistoryError> {
        self.change(|transaction| {
            let old = prunable(transaction, prune)?;
            for entry in &old {
                transaction.execute("DELETE FROM entry WHERE id = ?1", [&entry.id])?;
            }
            Ok(old)
        })
    }

    /// Changes the history in one transaction, which locks the file from its start: nobody changes what it has read.
    fn change<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> Result<T, Broken>) -> Result<T, HistoryError> {
        let path = &self.path;
        let told = |error: rusqlite::Error| HistoryError::of(path, &error);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(told)?;
        let changed = change(&transaction).map_err(|error| error.told(path))?;
        transaction.commit().map_err(told)?;
        Ok(changed)
    }
}

/// Refuses a file whose pages and indices do not fit together: SQLite notices only those that a query happens to read.
fn whole(connection: &Connection, path: &Path) -> Result<(), HistoryError> {
    let told: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| HistoryError::of(path, &error))?;
    if told == "ok" {
        return Ok(());
    }
    let cause = told.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(HistoryError::Damaged { path: path.into(), cause })
}

/// An error that aborts a change, without the path of the file.
enum Broken {
    Database(rusqlite::Error),
    Told(HistoryError),
}

impl Broken {
    fn told(self, path: &Path) -> HistoryError {
        match self {
            Self::Database(error) => HistoryError::of(path, &error),
            Self::Told(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<HistoryError> for Broken {
    fn from(error: HistoryError) -> Self {
        Self::Told(error)
    }
}

/// Returns an id that no entry has.
fn free_id(connection: &Connection, new: &NewEntry) -> rusqlite::Result<String> {
    let taken = "SELECT 1 FROM entry WHERE id = ?1";
    for refusals in 0.. {
        let id = id::candidate(new, refusals);
        if connection.query_row(taken, [&id], |_| Ok(())).optional()?.is_none() {
            return Ok(id);
        }
    }
    unreachable!("a disk holds fewer entries than there are ids")
}

fn entry_of(connection: &Connection, id: &str) -> rusqlite::Result<Entry> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE id = ?1");
    read::entries(connection, &sql, [id])?.pop().ok_or(rusqlite::Error::QueryReturnedNoRows)
}

fn documents(connection: &Connection, id: &str) -> rusqlite::Result<Vec<Document>> {
    let sql = "SELECT name, text, checksum FROM document WHERE entry = (SELECT number FROM entry WHERE id = ?1) ORDER BY position";
    let document = |row: &rusqlite::Row<'_>| {
        let document = Document { name: row.get(0)?, text: row.get(1)? };
        match row.get::<_, Option<i64>>(2)? {
            Some(kept) if kept != checksum::of_document(&document) => {
                let problem = format!("document {} of entry {id} does not match its checksum", document.name);
                Err(read::wrong(2, problem.into()))
            }
            _ => Ok(document),
        }
    };
    connection.prepare(sql)?.query_map([id], document)?.collect()
}

/// Returns the only id that starts with `start`.
fn full_id(connection: &Connection, start: &str) -> Result<String, Broken> {
    let Some(typed) = id::typed(start) else { return Err(unknown(connection, start)?.into()) };
    let sql = format!("SELECT id FROM entry WHERE substr(id, 1, length(?1)) = ?1 {NEWEST_FIRST} LIMIT {NAMED}");
    let mut ids = texts(connection, &sql, &[&typed])?;
    match ids.len() {
        0 => Err(unknown(connection, start)?.into()),
        1 => Ok(ids.remove(0)),
        _ => Err(HistoryError::Ambiguous { id: typed, ids }.into()),
    }
}

/// Returns the error for an unknown id, with similar ids.
fn unknown(connection: &Connection, start: &str) -> rusqlite::Result<HistoryError> {
    let likeness = |id: &String| strsim::normalized_damerau_levenshtein(id, &start.to_ascii_lowercase());
    let mut nearest = texts(connection, &format!("SELECT id FROM entry {NEWEST_FIRST}"), &[])?;
    // The sort is stable: the newest stays first among equally similar ids.
    nearest.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    nearest.truncate(NAMED);
    Ok(HistoryError::Unknown { id: start.into(), nearest })
}

fn texts(connection: &Connection, sql: &str, parameters: &[&str]) -> rusqlite::Result<Vec<String>> {
    let parameters = rusqlite::params_from_iter(parameters);
    connection.prepare(sql)?.query_map(parameters, |row| row.get(0))?.collect()
}

fn prunable(connection: &Connection, prune: &Prune) -> rusqlite::Result<Vec<Entry>> {
    let (before, but) = match prune.old {
        Old::Before(time) => (Some(time.unix_seconds()), None),
        Old::AllBut(count) => (None, Some(count)),
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM entry WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR at < ?2) \
         AND (?3 IS NULL OR number NOT IN \
             (SELECT number FROM entry WHERE ?1 IS NULL OR kind = ?1 {NEWEST_FIRST} LIMIT ifnull(?3, -1))) \
         AND (?4 OR NOT EXISTS (SELECT 1 FROM tag WHERE tag.entry = entry.number)) {NEWEST_FIRST}"
    );
    let tagged = prune.tagged == Tagged::Go;
    read::entries(connection, &sql, (prune.kind.map(Kind::name), before, but, tagged))
}
