//! Keeping results: where, and what of them.
//!
//! A result is kept before it is shown, so that nothing is lost that somebody saw. A history that cannot be written
//! never makes a command fail: it says so once.

use crate::arguments::{Global, UNTIL_INPUT_ENDS};
use crate::failure::Failure;
use crate::headline::Headline;
use crate::output::{Output, json};
use crate::{files, machine};
use serde::Serialize;
use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use trainyard_history::{Document, HistoryError, Kind, NewEntry, Store};

/// Default place of the history: beside the runs and profiles, the only place that the program writes to by default. A
/// history belongs to the folder of its plans, as its profiles and runs do: entries name files relative to it.
const HISTORY: &str = "runs/history.db";
/// The environment variable that names the place.
const ENVIRONMENT: &str = "TRAINYARD_HISTORY";
/// The value that turns the history off.
const OFF: &str = "off";

/// What is said once, of a history at a place that nobody named.
const NEW: &str =
    ", which is new: results are kept there from now on (`--history off` or TRAINYARD_HISTORY=off keeps none)";

/// The history of results, if it is on.
#[derive(Debug)]
pub(crate) struct History {
    place: Option<PathBuf>,
    /// The place that the command line names, which child processes do not see.
    named: Option<PathBuf>,
    arguments: Vec<String>,
    warned: Cell<bool>,
}

/// The message about a result that was kept or not, to be printed after the result.
#[must_use]
#[derive(Debug)]
pub(crate) struct Kept(Option<String>);

/// A result to be kept.
#[derive(Debug)]
pub(crate) struct Outcome {
    kind: Kind,
    headline: Headline,
    documents: Vec<Document>,
}

impl Outcome {
    /// Creates a result from a document, under the name that its file has when it is exported.
    pub(crate) fn new<T: Serialize>(kind: Kind, name: &str, document: &T, headline: Headline) -> Self {
        Self { kind, headline, documents: Vec::new() }.with(name, json(document))
    }

    /// Adds a document that belongs to the result.
    pub(crate) fn with(mut self, name: &str, text: String) -> Self {
        self.documents.push(Document { name: name.into(), text });
        self
    }

    /// Adds documents that belong to the result.
    pub(crate) fn with_all(mut self, documents: Vec<Document>) -> Self {
        self.documents.extend(documents);
        self
    }
}

impl History {
    /// Creates the history that the command line and the environment name.
    pub(crate) fn new(global: &Global, arguments: &[OsString]) -> Self {
        // A user who repeats a job of a list does not hold its standard input, so that the flag is left out.
        let words = arguments.iter().skip(1).filter(|word| *word != UNTIL_INPUT_ENDS);
        Self {
            place: place(global.history.clone(), std::env::var_os(ENVIRONMENT).map(PathBuf::from)),
            named: global.history.clone(),
            arguments: words.map(|word| word.to_string_lossy().into_owned()).collect(),
            warned: Cell::new(false),
        }
    }

    /// Returns the file; `None` if results are not kept.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// Refuses a place that the command line names in a folder that does not exist: none is made that was not named.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(path) = self.named.as_deref().filter(|path| *path != Path::new(OFF)) else { return Ok(()) };
        let folder = files::folder_of(path);
        if folder.exists() || path.as_os_str().is_empty() {
            return Ok(());
        }
        Err(Failure::input(format!("`--history {}`: there is no folder `{}`", path.display(), folder.display()))
            .hint("make it first, or name a file in a folder that there is; `--history off` keeps nothing"))
    }

    /// Returns the arguments with which a child process keeps its results at the same place.
    pub(crate) fn words(&self) -> Vec<String> {
        self.named.iter().flat_map(|path| ["--history".into(), path.display().to_string()]).collect()
    }

    /// Keeps a result.
    pub(crate) fn keep(&self, outcome: Outcome, output: &Output) -> Kept {
        let Some(place) = &self.place else { return Kept(None) };
        let Outcome { kind, headline, documents } = outcome;
        let new = NewEntry {
            kind,
            at: machine::now(),
            program: env!("CARGO_PKG_VERSION").into(),
            arguments: self.arguments.clone(),
            model: headline.model,
            machines: headline.machines,
            figures: headline.figures,
            documents,
        };
        let mut told = "";
        if place == Path::new(HISTORY) {
            if !place.exists() {
                told = NEW;
            }
            // The folder of runs is the program's own. If it cannot be made, the history says so.
            let _ = std::fs::create_dir_all(files::folder_of(place));
        }
        match Store::open(place).and_then(|mut store| store.keep(&new)) {
            Ok(entry) => Kept(Some(format!("kept as {} in {}{told}", entry.id, place.display()))),
            Err(error) => {
                self.warn(&error, output);
                Kept(None)
            }
        }
    }

    fn warn(&self, error: &HistoryError, output: &Output) {
        if !self.warned.replace(true) {
            let hint = error.hint().map_or_else(String::new, |hint| format!(" ({hint})"));
            output.warn(format!("the result is not kept: {error}{hint}"));
        }
    }
}

impl Kept {
    /// Tells the id under which a result was kept, if it was.
    pub(crate) fn tell(self, output: &Output) {
        if let Some(text) = self.0 {
            output.note(text);
        }
    }
}

/// Returns the place that a flag or the environment names; an empty one counts as absent.
fn place(flag: Option<PathBuf>, environment: Option<PathBuf>) -> Option<PathBuf> {
    let said = |path: &PathBuf| !path.as_os_str().is_empty();
    let path = flag.filter(said).or(environment.filter(said)).unwrap_or_else(|| HISTORY.into());
    (path.as_os_str() != OFF).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_stands_before_the_environment_and_off_is_no_place() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(place(None, None), path("runs/history.db"));
        assert_eq!(place(None, path("")), path("runs/history.db"));
        assert_eq!(place(None, path("a.db")), path("a.db"));
        assert_eq!(place(path("b.db"), path("a.db")), path("b.db"));
        assert_eq!(place(path("b.db"), path("off")), path("b.db"));
        assert_eq!(place(path("off"), path("a.db")), None);
        assert_eq!(place(path("./off"), None), path("./off"));
    }
}
