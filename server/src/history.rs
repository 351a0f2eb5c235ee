//! What is kept, for the page and for programs: looked at, never changed.

use crate::refusal::Refusal;
use std::path::Path;
use trainyard_history::{
    Filter, HISTORY_SCHEMA, HistoryAct, HistoryDocument, HistoryError, KEPT_SCHEMA, KeptDocument, Listing, Store,
};

/// Maximum number of entries that are listed, the newest.
const LISTED: u32 = 200;
/// The name that stands for no history.
const OFF: &str = "off";

/// Lists the newest entries; none where nothing is kept.
pub(crate) fn list(place: Option<&Path>) -> Result<HistoryDocument, Refusal> {
    let filter = Filter { limit: Some(LISTED), ..Filter::default() };
    let store = place.map(Store::existing).transpose()?.flatten();
    let listed = store.map(|store| store.list(&filter)).transpose()?;
    let Listing { entries, left_out } = listed.unwrap_or(Listing { entries: Vec::new(), left_out: 0 });
    let store = place.map_or_else(|| OFF.into(), |path| path.display().to_string());
    Ok(HistoryDocument {
        schema: HISTORY_SCHEMA.into(),
        store,
        act: HistoryAct::Listed,
        entries,
        left_out,
        files: Vec::new(),
    })
}

/// Returns the entry whose id starts with `id`, with the document that its command printed.
pub(crate) fn kept(place: Option<&Path>, id: &str) -> Result<KeptDocument, Refusal> {
    let store = place.map(Store::existing).transpose()?.flatten();
    let store = store.ok_or_else(|| Refusal::not_found("history").hint("nothing is kept here yet".to_owned()))?;
    let entry = store.find(id)?;
    let first = store.documents(&entry.id)?.into_iter().next();
    let document = first.and_then(|document| serde_json::from_str(&document.text).ok());
    let document = document.ok_or_else(Refusal::failed)?;
    Ok(KeptDocument { schema: KEPT_SCHEMA.into(), entry, document })
}

impl From<HistoryError> for Refusal {
    fn from(error: HistoryError) -> Self {
        let hint = error.hint();
        match error {
            HistoryError::Unknown { .. } | HistoryError::Ambiguous { .. } => {
                Self::missing(error.to_string()).hint(hint)
            }
            _ => Self::unreadable(error.to_string()).hint(hint),
        }
    }
}
