//! `trainyard history`: what was planned, simulated and run.

mod compare;
mod export;
mod show;

use crate::failure::{Exit, Failure};
use crate::history::History;
use crate::history_arguments::{HistoryCommand, ListArguments, NoteArguments, PruneArguments, TagArguments};
use crate::output::Output;
use std::path::Path;
use trainyard_history::{
    Entry, Filter, HISTORY_SCHEMA, HistoryAct, HistoryDocument, HistoryError, Old, Prune, Store, Tagged,
};
use trainyard_reports as reports;

/// Runs a command on the history.
pub(crate) fn history(command: &HistoryCommand, history: &History, output: &Output) -> Result<Exit, Failure> {
    let Some(place) = history.place() else {
        return Err(Failure::input("no history is kept here: its place is `off`")
            .hint("--history PATH names one, and stands before TRAINYARD_HISTORY"));
    };
    match command {
        HistoryCommand::List(arguments) => list(arguments, place, output),
        HistoryCommand::Show(arguments) => show::show(arguments, &opened(place)?, output),
        HistoryCommand::Compare(arguments) => compare::compare(arguments, &opened(place)?, output),
        HistoryCommand::Tag(arguments) => tag(arguments, opened(place)?, output),
        HistoryCommand::Note(arguments) => note(arguments, opened(place)?, output),
        HistoryCommand::Export(arguments) => export::export(arguments, &opened(place)?, output),
        HistoryCommand::Prune(arguments) => prune(arguments, place, output),
    }
}

/// Returns the failure of an operation on a history.
pub(super) fn refused(error: &HistoryError) -> Failure {
    let exit = if error.is_input() { Exit::Input } else { Exit::Failed };
    Failure::of(exit, error).maybe_hint(error.hint())
}

/// Opens the history for a command that needs an existing one.
fn opened(place: &Path) -> Result<Store, Failure> {
    Store::existing(place).map_err(|error| refused(&error))?.ok_or_else(|| {
        Failure::input(format!("there is no history `{}`", place.display()))
            .hint("it begins with the first plan, simulation or run; --history PATH names another")
    })
}

fn document(place: &Path, act: HistoryAct, entries: Vec<Entry>) -> HistoryDocument {
    let store = place.display().to_string();
    HistoryDocument { schema: HISTORY_SCHEMA.into(), store, act, entries, left_out: 0, files: Vec::new() }
}

fn tell(document: &HistoryDocument, output: &Output) {
    output.result(document, || reports::history(document, output.width(), output.verbose()));
}

/// Lists entries. A history that does not exist yet is empty.
fn list(arguments: &ListArguments, place: &Path, output: &Output) -> Result<Exit, Failure> {
    let filter = Filter {
        kind: arguments.kind,
        model: arguments.model.clone(),
        tags: arguments.tag.clone(),
        since: arguments.since,
        limit: Some(arguments.limit),
    };
    let store = Store::existing(place).map_err(|error| refused(&error))?;
    let listed = store.map(|store| store.list(&filter)).transpose().map_err(|error| refused(&error))?;
    let (entries, left_out) = listed.map_or_else(Default::default, |listed| (listed.entries, listed.left_out));
    tell(&HistoryDocument { left_out, ..document(place, HistoryAct::Listed, entries) }, output);
    Ok(Exit::Done)
}

fn tag(arguments: &TagArguments, mut store: Store, output: &Output) -> Result<Exit, Failure> {
    let (id, words) = (&arguments.id, &arguments.words);
    let changed = if arguments.remove { store.untag(id, words) } else { store.tag(id, words) };
    changed_to(changed, &store, output)
}

fn note(arguments: &NoteArguments, mut store: Store, output: &Output) -> Result<Exit, Failure> {
    changed_to(store.note(&arguments.id, arguments.text.as_deref()), &store, output)
}

fn changed_to(changed: Result<Entry, HistoryError>, store: &Store, output: &Output) -> Result<Exit, Failure> {
    let entry = changed.map_err(|error| refused(&error))?;
    tell(&document(store.path(), HistoryAct::Changed, vec![entry]), output);
    Ok(Exit::Done)
}

fn prune(arguments: &PruneArguments, place: &Path, output: &Output) -> Result<Exit, Failure> {
    let old = match (arguments.before, arguments.keep) {
        (Some(time), _) => Old::Before(time),
        (None, Some(count)) => Old::AllBut(count),
        (None, None) => unreachable!("one of the group is required"),
    };
    let tagged = if arguments.tagged { Tagged::Go } else { Tagged::Stay };
    let wanted = Prune { old, kind: arguments.kind, tagged };
    let store = Store::existing(place).map_err(|error| refused(&error))?;
    let act = if arguments.dry_run { HistoryAct::WouldPrune } else { HistoryAct::Pruned };
    let gone = match store {
        None => Ok(Vec::new()),
        Some(store) if arguments.dry_run => store.prunable(&wanted),
        Some(mut store) => store.prune(&wanted),
    };
    tell(&document(place, act, gone.map_err(|error| refused(&error))?), output);
    Ok(Exit::Done)
}
