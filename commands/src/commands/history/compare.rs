//! `trainyard history compare`: two entries side by side.

use super::refused;
use crate::commands::simulate::enough_memory;
use crate::failure::{Exit, Failure};
use crate::files::NAMED;
use crate::history_arguments::CompareKeptArguments;
use crate::output::Output;
use crate::read;
use std::path::Path;
use trainyard_history::{COMPARED_SCHEMA, ComparedDocument, Document, Entry, Store};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{ExplanationDocument, Plan};
use trainyard_planner::{NamedPlan, explain};
use trainyard_reports as reports;
use trainyard_sim::Options;

/// Compares two plans of one model as `explain --against` does, and all other entries by their figures.
pub(super) fn compare(arguments: &CompareKeptArguments, store: &Store, output: &Output) -> Result<Exit, Failure> {
    let find = |id: &str| store.find(id).map_err(|error| refused(&error));
    let (a, b) = (find(&arguments.a)?, find(&arguments.b)?);
    if let Some(document) = explained(&a, &b, store)? {
        output.result(&document, || reports::explanation(&document, output.width()));
        return Ok(Exit::Done);
    }
    let document = ComparedDocument { schema: COMPARED_SCHEMA.into(), a, b };
    output.result(&document, || reports::compared(&document, output.width()));
    Ok(Exit::Done)
}

/// Explains both plans, if both entries are plans of one model that can still be simulated.
fn explained(a: &Entry, b: &Entry, store: &Store) -> Result<Option<ExplanationDocument>, Failure> {
    let (Some(a), Some(b)) = (plan(a, store)?, plan(b, store)?) else { return Ok(None) };
    Ok(explain(&a, Some(&b)).ok())
}

/// Returns the plan of an entry, with the files that it names; `None` if the entry is something else.
fn plan(entry: &Entry, store: &Store) -> Result<Option<NamedPlan>, Failure> {
    let documents = store.documents(&entry.id).map_err(|error| refused(&error))?;
    Ok(documents.split_first().and_then(|(first, files)| named(entry, first, files)))
}

fn named(entry: &Entry, first: &Document, kept: &[Document]) -> Option<NamedPlan> {
    if first.name != "plan.json" {
        return None;
    }
    let document: PlanDocument = serde_json::from_str(&first.text).ok()?;
    let plan = Plan::try_from(document.plan.clone()).ok()?;
    enough_memory(&plan, Options::default()).ok()?;
    let text = |name: &str| kept.iter().find(|file| file.name == name).map(|file| file.text.as_str());
    let [profile, cluster, constants] = NAMED.map(|name| (text(name), Path::new(name)));
    let files = read::machine_files(profile, cluster, constants).ok()?;
    Some(NamedPlan { file: entry.id.clone(), document, files })
}
