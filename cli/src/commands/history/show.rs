//! `trainyard history show`: an entry, and what its command printed.

use super::refused;
use crate::failure::{Exit, Failure};
use crate::history_arguments::ShowKeptArguments;
use crate::output::Output;
use serde::de::DeserializeOwned;
use trainyard_history::{KEPT_SCHEMA, KeptDocument, Kind, Store};
use trainyard_plan::document::{COMPARISON_SCHEMA, PLAN_SCHEMA};
use trainyard_plan::list::JOBS_SCHEMA;
use trainyard_plan::{CAMPAIGN_SCHEMA, REPLAY_SCHEMA, WHAT_IF_SCHEMA};
use trainyard_pool::fleet::{self, FLEET_SCHEMA};
use trainyard_pool::queue::{self, QUEUE_SCHEMA};
use trainyard_reports::{self as reports, Detail, Width};

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
        Failure::new(Exit::Failed, format!("the document of entry {} cannot be read", entry.id))
            .because(error.to_string())
            .hint("--document prints it as it is")
    })?;
    let kept = KeptDocument { schema: KEPT_SCHEMA.into(), entry, document };
    output.result(&kept, || {
        let printed = printed(&kept, output.width());
        let printed =
            printed.unwrap_or_else(|| "  another version of the program wrote it; --document prints it\n".into());
        format!("{}\n{printed}", reports::kept(&kept.entry, output.width()))
    });
    Ok(Exit::Done)
}

/// Formats what the command printed for people, if this version knows the document's schema.
fn printed(kept: &KeptDocument, width: Width) -> Option<String> {
    fn read<T: DeserializeOwned>(kept: &KeptDocument) -> Option<T> {
        serde_json::from_value(kept.document.clone()).ok()
    }
    match kept.document.get("schema")?.as_str()? {
        PLAN_SCHEMA if kept.entry.kind == Kind::Simulation => Some(reports::simulation(&read(kept)?, width)),
        PLAN_SCHEMA => Some(reports::plan(&read(kept)?, Detail::Brief(&[]), width)),
        CAMPAIGN_SCHEMA => Some(reports::campaign(&read(kept)?, width)),
        QUEUE_SCHEMA => Some(queue::page(&read(kept)?, width, false)),
        FLEET_SCHEMA => Some(fleet::page(&read(kept)?, width, false)),
        REPLAY_SCHEMA => Some(reports::replay(&read(kept)?)),
        WHAT_IF_SCHEMA => Some(reports::what_if(&read(kept)?, width)),
        COMPARISON_SCHEMA => Some(reports::comparison(&read(kept)?, width)),
        JOBS_SCHEMA => Some(reports::jobs(&read(kept)?, width)),
        _ => None,
    }
}
