//! The program, as tests start it.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The program in a folder, in plain text and without a history.
pub(crate) fn trainyard(folder: impl AsRef<Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
    command.current_dir(folder).args(arguments).env("NO_COLOR", "1").env("TRAINYARD_HISTORY", "off");
    command
}

/// How it ends.
pub(crate) fn ended(folder: impl AsRef<Path>, arguments: &[&str]) -> Output {
    trainyard(folder, arguments).output().expect("the program starts")
}

/// How it ends where it must succeed.
pub(crate) fn done(folder: impl AsRef<Path>, arguments: &[&str]) -> Output {
    let output = ended(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", told(&output));
    output
}

/// What it says beside its results.
pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The document that it prints.
pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("a document")
}

/// A file as an argument.
pub(crate) fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
