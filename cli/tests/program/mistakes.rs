//! What a user gets wrong is told with the facts: the file, the field, the value, what is allowed, and a hint.
//! `tests/cmd/bad_input.md` shows how such messages look as a whole.

use crate::commands::{Commands, program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A message is read at a glance.
const LINES_MAX: usize = 20;

/// The files in a folder, with their sizes and times.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        let about = fs::metadata(&path).expect("it is there");
        if about.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path, (about.len(), about.modified().expect("a time")));
        }
    }
    found
}

/// Makes what some of the commands read, and returns the id of an entry in a history.
fn prepared(folder: &Path, name: &str) -> String {
    let done = |arguments: &str| {
        let output = program(folder, arguments).output().expect("the program starts");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).and_then(|()| fs::write(path, text)).expect("room");
    };
    match name {
        "bad_input" => {
            write("other-answer.json", "{\n  \"schema\": \"trainyard.what-if/1\"\n}\n");
            write("other-picture.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\">\n</svg>\n");
            write("mine/plan.json", "{\n  \"schema\": \"trainyard.plan/1\"\n}\n");
        }
        "export" => write("mine/torchrun.sh", "#!/usr/bin/env bash\ntorchrun train.py\n"),
        "chakra" => drop(done("simulate plan.json --chakra et -q")),
        "trace" => drop(done("simulate plan.json --trace step.json.gz -q")),
        "history" => {
            done("simulate one.json -q --history history.db");
            done("simulate two.json -q --history history.db");
            let listed = done("history list --format json --history history.db");
            let listed: Value = serde_json::from_slice(&listed).expect("a document");
            return listed["entries"][0]["id"].as_str().expect("an id").to_owned();
        }
        _ => {}
    }
    String::new()
}

#[test]
fn mistakes_are_told_with_their_facts_and_leave_nothing() {
    let mut wrong = Vec::new();
    for Commands { name, folder, rows } in Commands::read(include_str!("mistakes.txt")) {
        let id = prepared(folder.path(), &name);
        let before = contents(folder.path());
        for row in rows {
            let arguments = row.arguments.replace("ID", &id);
            let output = program(folder.path(), &arguments).output().expect("the program starts");
            let (said, code) = (String::from_utf8_lossy(&output.stderr), output.status.code());
            let lines = said.lines().count();
            let missing = row.missing(&said.replace(&id, if id.is_empty() { "" } else { "ID" }));
            if !missing.is_empty() || code != Some(row.code) || lines > LINES_MAX || !output.stdout.is_empty() {
                wrong.push(format!("[{name}] {arguments}: code {code:?}, {lines} lines, without {missing:?}:\n{said}"));
            }
            assert!(contents(folder.path()) == before, "[{name}] {arguments}: something was written");
        }
    }
    assert!(wrong.is_empty(), "{} commands:\n{}", wrong.len(), wrong.join("\n"));
}
