//! What CubeCL keeps kernels in (`third-party/turso`): its statements, by SQLite, from several connections at once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use turso::transaction::TransactionBehavior;
use turso::{Builder, Connection, Database, Error};

/// Statements are done when they are first asked for.
fn done<T>(future: impl Future<Output = T>) -> T {
    let Poll::Ready(result) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits for something");
    };
    result
}

fn database(path: &str, read_only: bool) -> Result<Database, Error> {
    done(Builder::new_local(path).read_only(read_only).build())
}

fn kept(connection: &Connection, key: &str) -> Option<Vec<u8>> {
    let mut rows = done(connection.query("SELECT v FROM kept WHERE k = ?1", (key,))).expect("it is read");
    let row = done(rows.next()).expect("all rows are there")?;
    Some(row.get(0).expect("bytes"))
}

fn keep(connection: &Connection, key: &str, value: u8) -> Result<u64, Error> {
    done(connection.execute("INSERT INTO kept VALUES (?1, ?2) ON CONFLICT DO NOTHING", (key, vec![value])))
}

/// A database with an empty table, in a folder that goes with what is returned.
fn empty() -> (tempfile::TempDir, String, Database) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.db").to_str().expect("UTF-8").to_owned();
    let opened = database(&path, false).expect("it is made");
    let table = "CREATE TABLE kept (k TEXT PRIMARY KEY, v BLOB NOT NULL)";
    done(opened.connect().expect("it opens").execute(table, ())).expect("a table");
    (folder, path, opened)
}

#[test]
fn what_one_connection_keeps_others_find_and_may_not_replace() {
    let (_folder, path, opened) = empty();
    let [one, other] = [(); 2].map(|()| opened.connect().expect("it opens"));
    assert_eq!((keep(&one, "a", 1).ok(), keep(&other, "a", 2).ok()), (Some(1), Some(0)));
    let reader = database(&path, true).and_then(|opened| opened.connect()).expect("it is there");
    assert_eq!((kept(&other, "a"), kept(&reader, "a"), kept(&other, "b")), (Some(vec![1]), Some(vec![1]), None));
    assert!(keep(&reader, "b", 1).is_err());
}

#[test]
fn a_transaction_keeps_others_waiting_and_is_undone_unless_it_is_committed() {
    let (_folder, _, opened) = empty();
    let [mut one, other] = [(); 2].map(|()| opened.connect().expect("it opens"));
    other.busy_timeout(Duration::ZERO).expect("any time");
    let begun = done(one.transaction_with_behavior(TransactionBehavior::Immediate)).expect("nobody writes");
    keep(&begun, "a", 1).expect("its own");
    assert!(matches!(keep(&other, "b", 1), Err(Error::Busy(_))));
    drop(begun);
    assert_eq!((kept(&other, "a"), keep(&other, "b", 1).ok()), (None, Some(1)));
    let begun = done(one.transaction_with_behavior(TransactionBehavior::Immediate)).expect("nobody writes");
    keep(&begun, "a", 1).expect("its own");
    done(begun.commit()).expect("nobody reads");
    assert_eq!(kept(&other, "a"), Some(vec![1]));
}

#[test]
fn a_file_that_is_none_of_its_own_or_not_there_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    assert!(database(&path("missing.db"), true).is_err());
    std::fs::write(path("noise.db"), [7; 4096]).expect("a file");
    assert!(database(&path("noise.db"), false).is_err());
}
