//! Statements that happen together or not at all.

use crate::{Connection, Result};
use std::ops::Deref;

/// When a transaction keeps others from writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionBehavior {
    /// From its first write.
    Deferred,
    /// From its beginning.
    Immediate,
}

/// Statements that are undone unless they are committed.
#[derive(Debug)]
pub struct Transaction<'a> {
    connection: &'a Connection,
    is_open: bool,
}

impl<'a> Transaction<'a> {
    pub(crate) async fn begin(connection: &'a Connection, behavior: TransactionBehavior) -> Result<Self> {
        let begin = match behavior {
            TransactionBehavior::Deferred => "BEGIN DEFERRED",
            TransactionBehavior::Immediate => "BEGIN IMMEDIATE",
        };
        connection.execute(begin, ()).await?;
        Ok(Self { connection, is_open: true })
    }

    /// Keeps what was done.
    ///
    /// # Errors
    ///
    /// When it cannot be written; it is undone then.
    pub async fn commit(mut self) -> Result<()> {
        self.connection.execute("COMMIT", ()).await?;
        self.is_open = false;
        Ok(())
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // Closing the connection undoes it too.
            let _ = self.connection.sqlite.execute_batch("ROLLBACK");
        }
    }
}
