//! What a command reads from standard input and from pipes of the shell: read once, before its work, up to a limit.

use crate::arguments::Command;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use trainyard_documents::{Unreadable, text_from};

/// What stands for standard input.
const STANDARD_INPUT: &str = "-";

/// The largest text in bytes: as long as a plan may be, the largest of what is read so.
const LONGEST: u64 = 16 << 20;

/// Reads the streams that a command names in place of files: `-`, and what a shell writes for `<(COMMAND)`. Returns their
/// texts by the paths that name them.
///
/// # Errors
///
/// When one cannot be read, is longer than its kind may be, or is no text.
pub(crate) fn read(command: &Command) -> Result<BTreeMap<PathBuf, String>, Failure> {
    let mut texts = BTreeMap::new();
    for path in inputs(command) {
        let input: Box<dyn Read> = match path {
            path if path == Path::new(STANDARD_INPUT) => Box::new(std::io::stdin().lock()),
            path if is_pipe(path) => Box::new(File::open(path).map_err(|error| refused(path, &error.into()))?),
            _ => continue,
        };
        if texts.contains_key(path) {
            return Err(Failure::input(format!("`{}` is given twice, but it can be read once", path.display()))
                .hint("write one of the two to a file, and name that"));
        }
        let text = text_from(input, LONGEST).map_err(|why| refused(path, &why))?;
        texts.insert(path.to_owned(), text);
    }
    Ok(texts)
}

/// Returns the files that a command reads first: its job, or its plans.
fn inputs(command: &Command) -> Vec<&Path> {
    match command {
        Command::Plan(plan) => plan.job.job.iter().map(PathBuf::as_path).collect(),
        Command::WhatIf(what_if) => what_if.job.job.iter().map(PathBuf::as_path).collect(),
        Command::Simulate(simulate) => vec![&simulate.plan],
        Command::Explain(explain) => {
            [&explain.plan].into_iter().chain(&explain.against).map(PathBuf::as_path).collect()
        }
        Command::Report(report) => vec![&report.plan],
        Command::Export(export) => vec![&export.plan],
        _ => Vec::new(),
    }
}

/// Returns `true` if a path is that of a pipe which is open already: somebody writes to it. A FIFO of another name may wait
/// for its writer for ever.
#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_open = ["/dev/fd", "/proc/self/fd", "/dev/stdin"].iter().any(|place| path.starts_with(place));
    is_open && std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

fn refused(path: &Path, why: &Unreadable) -> Failure {
    Failure::input(format!("cannot read `{}`", path.display())).because(why.to_string()).hint(why.hint())
}
