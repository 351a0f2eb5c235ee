//! `trainyard history export`: what is kept as files that other commands read.

use super::{document, refused};
use crate::failure::{Exit, Failure};
use crate::files::{self, NAMED};
use crate::history_arguments::ExportKeptArguments;
use crate::output::{Output, json};
use serde_json::Value;
use std::path::{Path, PathBuf};
use trainyard_history::{Document, Entry, Filter, HistoryAct, HistoryDocument, Store};
use trainyard_plan::document::PLAN_SCHEMA;
use trainyard_reports as reports;

/// The file name of the list of exported entries, in their folder.
const INDEX: &str = "history.json";
/// The keys of a plan's cluster that name files, in the order of [`NAMED`].
const KEYS: [&str; 3] = ["profile", "file", "constants"];

/// Writes the documents of entries.
pub(super) fn export(arguments: &ExportKeptArguments, store: &Store, output: &Output) -> Result<Exit, Failure> {
    let entries = wanted(arguments, store)?;
    let out = &arguments.out;
    let mut files = if is_file(out) {
        let [entry] = entries.as_slice() else {
            return Err(Failure::input(format!("`--out {}` is one file, for one entry", out.display()))
                .because(format!("{} were asked for", entries.len()))
                .hint("name one ID, or a folder"));
        };
        let stem = out.file_stem().map_or_else(|| entry.id.clone(), |stem| stem.to_string_lossy().into_owned());
        of_entry(entry, out.parent().unwrap_or(Path::new("")), &stem, store)?
    } else {
        let all = entries.iter().map(|entry| of_entry(entry, out, &entry.id, store));
        all.collect::<Result<Vec<_>, _>>()?.concat()
    };
    let names = files.iter().map(|(path, _)| path.display().to_string()).collect();
    let mut told = HistoryDocument { files: names, ..document(store.path(), HistoryAct::Exported, entries) };
    let index = (!is_file(out)).then(|| (out.join(INDEX), json(&told)));
    told.files.extend(index.iter().map(|(path, _)| path.display().to_string()));
    files.extend(index);
    files::write_all(&files)?;
    output.result(&told, || reports::history(&told, output.width(), output.verbose()));
    Ok(Exit::Done)
}

fn is_file(out: &Path) -> bool {
    !out.is_dir() && out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn wanted(arguments: &ExportKeptArguments, store: &Store) -> Result<Vec<Entry>, Failure> {
    if arguments.ids.is_empty() {
        return Ok(store.list(&Filter::default()).map_err(|error| refused(&error))?.entries);
    }
    arguments.ids.iter().map(|id| store.find(id).map_err(|error| refused(&error))).collect()
}

/// Returns the documents of an entry as files of a folder: the first as `STEM.json`, the others as `STEM-NAME`.
fn of_entry(entry: &Entry, folder: &Path, stem: &str, store: &Store) -> Result<Vec<(PathBuf, String)>, Failure> {
    let documents = store.documents(&entry.id).map_err(|error| refused(&error))?;
    Ok(named(&documents, stem).into_iter().map(|(name, text)| (folder.join(name), text)).collect())
}

/// Returns the names and texts of the files of an entry.
fn named(documents: &[Document], stem: &str) -> Vec<(String, String)> {
    let file = |index: usize, name: &str| {
        if index == 0 { format!("{stem}.json") } else { format!("{stem}-{}", files::plain_name(name)) }
    };
    let kept = |name: &str| documents.iter().any(|document| document.name == name);
    let there = NAMED.map(|name| kept(name).then(|| format!("{stem}-{name}")));
    let text = |document: &Document| beside(&document.text, &there).unwrap_or_else(|| document.text.clone());
    documents.iter().enumerate().map(|(index, document)| (file(index, &document.name), text(document))).collect()
}

/// Rewrites a plan so that it names the files of its machines as they are exported beside it. A document that names
/// none stays the same to the last byte.
fn beside(text: &str, there: &[Option<String>; 3]) -> Option<String> {
    if there.iter().all(Option::is_none) {
        return None;
    }
    let mut document: Value = serde_json::from_str(text).ok()?;
    if document.get("schema")?.as_str()? != PLAN_SCHEMA {
        return None;
    }
    let cluster = document.get_mut("plan")?.get_mut("cluster")?.as_object_mut()?;
    for (key, name) in KEYS.into_iter().zip(there) {
        if let (Some(place), Some(name)) = (cluster.get_mut(key), name) {
            *place = name.as_str().into();
        }
    }
    Some(json(&document))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, text: &str) -> Document {
        Document { name: name.into(), text: text.into() }
    }

    #[test]
    fn a_document_stays_as_it_was() {
        let text = "{\"schema\":  \"trainyard.plan/1\", \"plan\": {\"cluster\": {\"profile\": \"away.toml\"}}}";
        assert_eq!(named(&[kept("plan.json", text)], "x"), [("x.json".into(), text.into())]);
        assert_eq!(named(&[kept("../../etc/x\n", "1"), kept("../y", "2")], "x")[1].0, "x--.-y");
    }

    #[test]
    fn a_plan_names_its_files_as_they_are_called_beside_it() {
        let plan = "{\"schema\": \"trainyard.plan/1\", \"plan\": {\"cluster\": {\"instances\": 1.5, \"profile\": \"../a.toml\"}}}";
        let files = named(&[kept("plan.json", plan), kept("profile.toml", "p")], "best");
        let text: Value = serde_json::from_str(&files[0].1).expect("JSON");
        assert_eq!(text["plan"]["cluster"], serde_json::json!({ "instances": 1.5, "profile": "best-profile.toml" }));
        assert_eq!(files[1], ("best-profile.toml".into(), "p".into()));
    }
}
