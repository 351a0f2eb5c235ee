//! What `cubecl-environment` asks of `turso`, by SQLite. See the README beside this crate for why.
//!
//! Statements are done when the futures that stand for them are first polled.

use rusqlite::types::{FromSql, Value};
use rusqlite::{OpenFlags, Params};
use std::path::PathBuf;
use std::time::Duration;

pub mod transaction;

/// What went wrong.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process held the file for longer than the timeout.
    #[error("{0}")]
    Busy(String),
    /// Another process wrote after this one began to read; SQLite says that it is busy.
    #[error("{0}")]
    BusySnapshot(String),
    /// The file cannot be read or written.
    #[error("{1}: {0}")]
    IoError(std::io::ErrorKind, &'static str),
    /// Anything else.
    #[error("{0}")]
    Error(String),
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let busy = [rusqlite::ErrorCode::DatabaseBusy, rusqlite::ErrorCode::DatabaseLocked];
        let text = error.to_string();
        if error.sqlite_error_code().is_some_and(|code| busy.contains(&code)) { Self::Busy(text) } else { Self::Error(text) }
    }
}

/// The result of a statement.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct Builder {
    path: PathBuf,
    read_only: bool,
}

impl Builder {
    /// A database in a file, which is made if it is not there.
    pub fn new_local(path: &str) -> Self {
        Self { path: path.into(), read_only: false }
    }

    /// Whether nothing may be written.
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Several processes may always share a file of SQLite.
    pub fn experimental_multiprocess_wal(self, _: bool) -> Self {
        self
    }

    /// SQLite can always be compacted.
    pub fn experimental_vacuum(self, _: bool) -> Self {
        self
    }

    /// Opens the file once, to see that it can be.
    ///
    /// # Errors
    ///
    /// When it cannot be opened in this way.
    #[expect(clippy::unused_async, reason = "as turso has it")]
    pub async fn build(self) -> Result<Database> {
        let database = Database { opened: self };
        let connection = database.connect()?;
        if !database.opened.read_only {
            // Readers then do not wait for who writes.
            connection.sqlite.pragma_update(None, "journal_mode", "wal")?;
        }
        Ok(database)
    }
}

/// A database file.
#[derive(Debug)]
pub struct Database {
    opened: Builder,
}

impl Database {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn connect(&self) -> Result<Connection> {
        let how = if self.opened.read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        };
        let sqlite = rusqlite::Connection::open_with_flags(&self.opened.path, how | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        sqlite.busy_timeout(OPENING)?;
        Ok(Connection { sqlite })
    }
}

/// How long to wait for another process while a file is opened.
const OPENING: Duration = Duration::from_secs(5);

/// A connection to a database file.
#[derive(Debug)]
pub struct Connection {
    sqlite: rusqlite::Connection,
}

impl Connection {
    /// How long to wait for another process.
    ///
    /// # Errors
    ///
    /// Never, in fact.
    pub fn busy_timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.sqlite.busy_timeout(timeout)?)
    }

    /// Does a statement, and tells how many rows it changed.
    ///
    /// # Errors
    ///
    /// When SQLite refuses it.
    #[expect(clippy::unused_async, reason = "as turso has it")]
    pub async fn execute(&self, statement: &str, parameters: impl Params) -> Result<u64> {
        Ok(self.sqlite.prepare(statement)?.execute(parameters)? as u64)
    }

    /// Does a statement, and returns its rows.
    ///
    /// # Errors
    ///
    /// When SQLite refuses it.
    #[expect(clippy::unused_async, reason = "as turso has it")]
    pub async fn query(&self, statement: &str, parameters: impl Params) -> Result<Rows> {
        let mut statement = self.sqlite.prepare(statement)?;
        let columns = statement.column_count();
        let rows = statement.query_map(parameters, |row| {
            (0..columns).map(|column| row.get(column)).collect::<rusqlite::Result<_>>().map(|values| Row { values })
        })?;
        Ok(Rows { rows: rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter() })
    }

    /// Does a `PRAGMA`, and hands on each row that answers it.
    ///
    /// # Errors
    ///
    /// When SQLite or `row` refuses it.
    pub async fn pragma_query(&self, pragma: &str, mut row: impl FnMut(&Row) -> Result<()>) -> Result<()> {
        let rows = self.query(&format!("PRAGMA {pragma}"), ()).await?;
        rows.rows.as_slice().iter().try_for_each(&mut row)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// When another process writes for longer than the timeout.
    pub async fn transaction_with_behavior(
        &mut self,
        behavior: transaction::TransactionBehavior,
    ) -> Result<transaction::Transaction<'_>> {
        transaction::Transaction::begin(self, behavior).await
    }
}

/// The rows that answer a query.
#[derive(Debug)]
pub struct Rows {
    rows: std::vec::IntoIter<Row>,
}

impl Rows {
    /// The next one.
    ///
    /// # Errors
    ///
    /// Never: all are there.
    #[expect(clippy::unused_async, reason = "as turso has it")]
    pub async fn next(&mut self) -> Result<Option<Row>> {
        Ok(self.rows.next())
    }
}

/// A row.
#[derive(Debug)]
pub struct Row {
    values: Vec<Value>,
}

impl Row {
    /// The value of a column.
    ///
    /// # Errors
    ///
    /// When there is no such column, or its value is of another type.
    pub fn get<T: FromSql>(&self, column: usize) -> Result<T> {
        let value = self.values.get(column).ok_or_else(|| Error::Error(format!("there is no column {column}")))?;
        T::column_result(value.into()).map_err(|error| Error::Error(error.to_string()))
    }
}
