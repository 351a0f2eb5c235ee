//! What planning a fleet writes: all of it, or nothing.

use std::path::Path;
use std::process::{Command, Output};

const FLEET: &str = "tests/cmd/fleet.in/plain.toml";

fn trainyard(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    program.env("NO_COLOR", "1").env("TRAINYARD_HISTORY", "off").args(arguments).output().expect("the program starts")
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn plans_of_a_fleet_are_plans_as_any_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [out, plot, plans] = ["fleet.json", "gantt.svg", "plans"].map(|name| path(folder.path(), name));
    let done = trainyard(&["plan", FLEET, "--out", &out, "--plot", &plot, "--plans", &plans, "-q", "--format", "json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    assert_eq!(read(&out), String::from_utf8_lossy(&done.stdout));
    assert!(read(&plot).starts_with("<svg ") && read(&plot).contains("trial"));
    let plan = trainyard(&["simulate", &path(Path::new(&plans), "trial.json"), "-q"]);
    assert!(plan.status.success(), "{}", String::from_utf8_lossy(&plan.stderr));
    let document = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (fleet, trial) = (document(&read(&out)), document(&read(&path(Path::new(&plans), "trial.json"))));
    assert_eq!(fleet["plans"][0]["plan"], trial["plan"]);
}

#[test]
fn nothing_is_written_where_something_cannot_be() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = path(folder.path(), "fleet.json");
    // A folder stands where the picture should be.
    let picture = path(folder.path(), "picture.svg");
    std::fs::create_dir(&picture).expect("room");
    let failed = trainyard(&["plan", FLEET, "--out", &out, "--plot", &picture, "-q"]);
    assert_eq!(failed.status.code(), Some(2));
    std::fs::remove_dir(&picture).expect("it is empty");
    let refused = trainyard(&["plan", "tests/cmd/fleet.in/no-trials.toml", "--out", &out]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn a_fleet_is_the_same_whatever_the_number_of_threads() {
    let plan = |threads| trainyard(&["plan", FLEET, "--threads", threads, "--format", "json", "-q"]).stdout;
    assert_eq!(plan("1"), plan("2"));
}
