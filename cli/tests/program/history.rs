//! What commands keep: where, at the same time, and whatever happens to the history.

use crate::trainyard::{document, told, trainyard};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn plan(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/history.in").join(name)
}

/// The program in a folder, with the usual place of its history.
fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = trainyard(folder, arguments);
    command.env_remove("TRAINYARD_HISTORY").env_remove("SOURCE_DATE_EPOCH").stdin(Stdio::null());
    command
}

/// Runs a command that must end with this exit code.
fn ends(code: i32, folder: &Path, arguments: &[&str]) -> Output {
    let output = program(folder, arguments).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
    output
}

fn entries(folder: &Path) -> Vec<Value> {
    let listed = document(&ends(0, folder, &["history", "list", "--limit", "1000", "--format", "json"]));
    listed["entries"].as_array().expect("a list").clone()
}

/// A folder with a plan in it.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["one.json", "two.json"] {
        fs::copy(plan(name), folder.path().join(name)).expect("room");
    }
    folder
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn results_are_kept_beside_the_runs_and_nothing_else_is_touched() {
    let place = workplace();
    let place = place.path();
    assert_eq!(entries(place), Vec::<Value>::new());
    assert_eq!(files(place), ["one.json", "two.json"], "looking makes no file");
    let simulated = ends(0, place, &["simulate", "one.json", "--format", "json"]);
    assert_eq!(
        (files(place), files(&place.join("runs"))),
        (vec!["one.json".into(), "runs".into(), "two.json".into()], vec!["history.db".to_owned()])
    );
    let kept = entries(place);
    let id = kept[0]["id"].as_str().expect("an id");
    let kept_as = format!("kept as {id} in runs/history.db, which is new: results are kept there from now on");
    assert!(told(&simulated).contains(&kept_as) && told(&simulated).contains("--history off"), "{}", told(&simulated));
    assert_eq!(kept[0]["arguments"], serde_json::json!(["simulate", "one.json", "--format", "json"]));
    assert_eq!(kept[0]["figures"]["step_time_s"], document(&simulated)["prediction"]["step_time_s"]);
    // What was printed is what is kept, to the last byte, and is a plan as any other.
    assert_eq!(ends(0, place, &["history", "show", id, "--document"]).stdout, simulated.stdout);
    ends(0, place, &["history", "export", id, "--out", "again.json"]);
    assert_eq!(fs::read(place.join("again.json")).expect("written"), simulated.stdout);
    let again = ends(0, place, &["simulate", "again.json", "--format", "json", "--history", "off"]);
    assert_eq!(again.stdout, simulated.stdout);
    assert_eq!(entries(place).len(), 1);
    // Where it is kept is news once.
    assert!(!told(&ends(0, place, &["simulate", "two.json"])).contains("which is new"));
}

#[test]
fn a_flag_stands_before_the_environment() {
    let place = workplace();
    let place = place.path();
    let simulate = |environment: &str, arguments: &[&str]| {
        let mut command = program(place, &[&["simulate", "one.json"], arguments].concat());
        assert!(command.env("TRAINYARD_HISTORY", environment).output().expect("it starts").status.success());
    };
    simulate("off", &[]);
    assert_eq!(files(place), ["one.json", "two.json"]);
    simulate("a/b.db", &[]);
    assert_eq!(files(place), ["one.json", "two.json"], "no folder is made that was not named");
    std::fs::create_dir(place.join("a")).expect("room");
    simulate("a/b.db", &[]);
    simulate("off", &["--history", "c.db"]);
    simulate("d.db", &["--history", "off"]);
    assert_eq!(files(place), ["a", "c.db", "one.json", "two.json"]);
    assert_eq!(files(&place.join("a")), ["b.db"]);
    let off = program(place, &["history", "list"]).env("TRAINYARD_HISTORY", "off").output().expect("it starts");
    assert_eq!(off.status.code(), Some(2), "{}", told(&off));
}

#[test]
fn commands_that_run_at_once_keep_all_their_results() {
    let place = workplace();
    let place = place.path();
    let children: Vec<_> = (0..6)
        .map(|_| program(place, &["simulate", "one.json", "-q"]).stdout(Stdio::piped()).spawn().expect("it starts"))
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
    }
    assert_eq!(entries(place).len(), 6);
}

#[test]
fn a_history_that_cannot_be_written_takes_no_result_along() {
    let place = workplace();
    let place = place.path();
    let well = ends(0, place, &["simulate", "one.json", "--history", "off"]).stdout;
    fs::write(place.join("notes.txt"), "not a database").expect("room");
    // A file that is none, one below a file, a folder.
    for history in ["notes.txt", "notes.txt/history.db", "."] {
        let output = ends(0, place, &["simulate", "one.json", "--history", history]);
        assert_eq!(output.stdout, well, "{history}");
        let warnings = told(&output).lines().filter(|line| line.starts_with("warning: the result")).count();
        assert_eq!(warnings, 1, "{history}: {}", told(&output));
        assert!(told(&output).contains("the result is not kept"), "{}", told(&output));
    }
    assert_eq!(fs::read_to_string(place.join("notes.txt")).expect("readable"), "not a database");
    assert_eq!(files(place), ["notes.txt", "one.json", "two.json"]);
}

#[test]
fn a_plan_is_kept_with_the_files_of_its_machines() {
    let place = workplace();
    let place = place.path();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    fs::create_dir(place.join("jobs")).expect("room");
    fs::copy(examples.join("cluster-mixed.toml"), place.join("jobs/cluster.toml")).expect("an example");
    let job = "[model]\nname = \"gpt2\"\n[data]\ntokens = 1e8\n[training]\nglobal_batch = 64\n[cluster]\nfile = \"cluster.toml\"\n";
    fs::write(place.join("jobs/job.toml"), job).expect("room");
    let planned = ends(0, place, &["plan", "jobs/job.toml", "--format", "json"]);
    assert_eq!(document(&planned)["plan"]["cluster"]["file"], "jobs/cluster.toml");
    fs::remove_dir_all(place.join("jobs")).expect("it is there");
    let id = entries(place)[0]["id"].as_str().expect("an id").to_owned();
    let told = document(&ends(0, place, &["history", "export", "--out", "out", "--format", "json"]));
    assert_eq!(
        told["files"],
        serde_json::json!([format!("out/{id}.json"), format!("out/{id}-cluster.toml"), "out/history.json"])
    );
    let simulated = ends(0, place, &["simulate", &format!("out/{id}.json"), "--format", "json"]);
    assert_eq!(document(&simulated)["prediction"]["step_time_s"], document(&planned)["prediction"]["step_time_s"]);
    // With a plan of its own the same, from what was kept.
    let compared = document(&ends(0, place, &["history", "compare", &id, &id, "--format", "json"]));
    assert_eq!(compared["schema"], "trainyard.explanation/1");
}

#[test]
fn old_entries_are_pruned_and_the_tagged_stay() {
    let place = workplace();
    let place = place.path();
    for file in ["one.json", "two.json", "one.json"] {
        ends(0, place, &["simulate", file, "-q"]);
    }
    let ids: Vec<String> = entries(place).iter().map(|entry| entry["id"].as_str().expect("an id").to_owned()).collect();
    ends(0, place, &["history", "tag", &ids[2], "baseline"]);
    let dry = document(&ends(0, place, &["history", "prune", "--keep", "1", "--dry-run", "--format", "json"]));
    assert_eq!((dry["act"].clone(), dry["entries"][0]["id"].clone()), ("would-prune".into(), ids[1].clone().into()));
    assert_eq!(entries(place).len(), 3);
    ends(0, place, &["history", "prune", "--keep", "1"]);
    assert_eq!(entries(place).len(), 2);
    ends(0, place, &["history", "prune", "--before", "2000-01-01", "--tagged"]);
    ends(0, place, &["history", "prune", "--keep", "0", "--tagged"]);
    assert_eq!(entries(place).len(), 0);
}

#[test]
fn entries_are_found_by_kind_model_and_age_and_ids_as_people_type_them() {
    let place = workplace();
    let place = place.path();
    for file in ["one.json", "two.json"] {
        ends(0, place, &["simulate", file, "-q"]);
    }
    let listed = |filter: &[&str]| {
        let listed = document(&ends(0, place, &[&["history", "list", "--format", "json"], filter].concat()));
        listed["entries"].as_array().expect("a list").len()
    };
    assert_eq!(listed(&["--kind", "simulation", "--model", "gpt2-*", "--since", "7d"]), 2);
    assert_eq!(listed(&["--kind", "run", "--model", "gpt2-*"]), 0);
    assert_eq!(listed(&["--model", "llama*"]), 0);
    let id = entries(place)[0]["id"].as_str().expect("an id").to_owned();
    let typed = id[..5].to_uppercase().replace('0', "O");
    let changed = |arguments: &[&str]| {
        let command = [&["history"], arguments, &["--format", "json"]].concat();
        document(&ends(0, place, &command))["entries"][0].clone()
    };
    assert_eq!(changed(&["tag", &typed, "baseline", "paper"])["tags"], serde_json::json!(["baseline", "paper"]));
    assert_eq!(changed(&["tag", &typed, "paper", "--remove"])["tags"], serde_json::json!(["baseline"]));
    assert_eq!(changed(&["note", &typed, "<b>the</b> one"])["note"], "<b>the</b> one");
    assert_eq!(entries(place)[0]["id"], id);
}

#[test]
fn names_of_others_are_text_whatever_is_in_them() {
    let place = workplace();
    let place = place.path();
    fs::copy(plan("hostile.json"), place.join("hostile.json")).expect("room");
    ends(0, place, &["simulate", "hostile.json", "-q"]);
    let id = entries(place)[0]["id"].as_str().expect("an id").to_owned();
    let shown = String::from_utf8(ends(0, place, &["history", "show", &id]).stdout).expect("text");
    assert!(shown.contains("<b>\\u{1b}[31m") && shown.contains("red\\u{202e}"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_and_a_kill_leave_the_history_whole() {
    let place = workplace();
    let place = place.path();
    ends(0, place, &["simulate", "one.json", "-q"]);
    let acknowledged = entries(place).len();
    for _ in 0..4 {
        // Killed at once, wherever it is.
        let mut child = program(place, &["simulate", "two.json"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
    }
    ends(0, place, &["simulate", "one.json", "-q"]);
    let kept = entries(place);
    assert!((acknowledged + 1..=acknowledged + 5).contains(&kept.len()), "{}", kept.len());
    for entry in &kept {
        ends(0, place, &["history", "show", entry["id"].as_str().expect("an id"), "--document"]);
    }
}
