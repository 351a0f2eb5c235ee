//! Many processes write at once, and some are killed: nothing is lost that was acknowledged, and nothing is half there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use trainyard_history::{Document, Figures, Filter, Kind, NewEntry, Store, UtcTime};

/// The environment variables of a child process: the file to which it writes, and the number of entries.
const PLACE: &str = "TRAINYARD_TEST_HISTORY";
const COUNT: &str = "TRAINYARD_TEST_COUNT";
/// The prefix of an acknowledged id: test runners print other things too.
const KEPT: &str = "kept ";

#[test]
#[expect(clippy::print_stdout, reason = "the test that starts it reads what it prints")]
#[ignore = "a process that the other tests start"]
fn a_process_that_keeps_entries() {
    let place = std::env::var_os(PLACE).expect("a test says where");
    let count: u64 = std::env::var(COUNT).expect("a test says how many").parse().expect("a number");
    for number in 0..count {
        let new = NewEntry {
            kind: Kind::Plan,
            at: UtcTime::of_unix_seconds(number),
            program: "0.1.0".into(),
            arguments: vec![std::process::id().to_string()],
            model: Some(number.to_string()),
            machines: None,
            figures: Figures::default(),
            documents: vec![
                Document { name: "plan.json".into(), text: number.to_string().repeat(5000) },
                Document { name: "profile.toml".into(), text: "x".into() },
            ],
        };
        let kept = Store::open(Path::new(&place)).and_then(|mut store| store.keep(&new)).expect("room");
        println!("\n{KEPT}{}", kept.id);
    }
}

/// Starts a process that keeps `count` entries and prints the id of each once it is kept.
fn process(place: &Path, count: u64) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "at_once::a_process_that_keeps_entries", "--ignored", "--nocapture"]);
    command.env(PLACE, place).env(COUNT, count.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("this program starts")
}

fn acknowledged(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix(KEPT).map(Into::into))
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("history.db");
    let mut children: Vec<Child> = (0..4).map(|_| process(&place, 8)).collect();
    let mut ids: Vec<String> = children.iter_mut().flat_map(acknowledged).collect();
    assert!(children.iter_mut().all(|child| child.wait().is_ok_and(|status| status.success())));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4 * 8);
    let store = Store::existing(&place).expect("readable").expect("it is there");
    let mut kept: Vec<String> =
        store.list(&Filter::default()).expect("readable").entries.into_iter().map(|entry| entry.id).collect();
    kept.sort();
    assert_eq!(kept, ids);
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged_and_leaves_nothing_half() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("history.db");
    let mut told = Vec::new();
    for after in 1..8 {
        let mut child = process(&place, u64::MAX);
        let mut lines = acknowledged(&mut child);
        told.extend(lines.by_ref().take(after));
        // Kills it at once, at any point; SIGKILL on Unix.
        child.kill().expect("it runs");
        told.extend(lines);
        child.wait().expect("it was killed");
    }
    assert!(told.len() >= (1..8).sum());
    let store = Store::existing(&place).expect("readable").expect("it is there");
    for id in &told {
        assert_eq!(store.find(id).expect("it was acknowledged").documents.len(), 2);
    }
    let kept = store.list(&Filter::default()).expect("readable").entries;
    // An entry may be kept without being acknowledged: at most one of each process.
    assert!((told.len()..=told.len() + 7).contains(&kept.len()), "{} told, {} kept", told.len(), kept.len());
    for entry in kept {
        let documents = store.documents(&entry.id).expect("whole");
        assert_eq!(documents[0].text, entry.model.expect("a number").repeat(5000));
    }
}
