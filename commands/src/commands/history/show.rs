//! `trainyard history show`: an entry, and what its command printed.

use super::refused;
use crate::failure::{Exit, Failure};
use crate::history_arguments::ShowKeptArguments;
use crate::output::Output;
use crate::shown;
use trainyard_history::{KEPT_SCHEMA, KeptDocument, Kind, Store};
use trainyard_reports as reports;

/// Shows an entry, or only its document.
pub(super) fn show(arguments: &ShowKeptArguments, store: &Store, output: &Output) -> Result<Exit, Failure> {
    let entry = store.find(&arguments.id).map_err(|error| refused(&error))?;
    let documents = store.documents(&entry.id).map_err(|error| refused(&error))?;
    let text = documents.into_iter().next().map(|document| document.text).unwrap_or_default();
    if arguments.document {
        output.as_it_is(&text);
        return Ok(Exit::Done);
    }
    let document = serde_json::from_str(&text).map_err(|error| {
        Failure::input(format!("the document of entry {} cannot be read", entry.id))
            .because(error.to_string())
            .hint("--document prints it as it is")
    })?;
    let kept = KeptDocument { schema: KEPT_SCHEMA.into(), entry, document };
    output.result(&kept, || {
        let schema = kept.document.get("schema").and_then(serde_json::Value::as_str).unwrap_or_default();
        let simulated = kept.entry.kind == Kind::Simulation;
        let printed = shown::page(schema, kept.document.clone(), simulated, output.width());
        let printed =
            printed.unwrap_or_else(|| "  another version of the program wrote it; --document prints it\n".into());
        format!("{}\n{printed}", reports::kept(&kept.entry, output.width()))
    });
    Ok(Exit::Done)
}
