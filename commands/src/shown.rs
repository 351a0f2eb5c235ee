//! Documents as people see them: the page of the command that printed one, a fragment for a page of others, a picture.

use serde::de::DeserializeOwned;
use trainyard_plan::document::{COMPARISON_SCHEMA, PLAN_SCHEMA, PlanDocument};
use trainyard_plan::list::JOBS_SCHEMA;
use trainyard_plan::{
    CAMPAIGN_SCHEMA, EXPLANATION_SCHEMA, ExplainedPlan, ExplanationDocument, REPLAY_SCHEMA, WHAT_IF_SCHEMA,
};
use trainyard_pool::fleet::{self, FLEET_SCHEMA};
use trainyard_pool::queue::{self, QUEUE_SCHEMA};
use trainyard_reports::{self as reports, Breadth, Detail, Picture, Scheme, Width};

/// The form in which a document is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The page for people, as the command line prints it.
    Page,
    /// A fragment of a page in HTML.
    Html,
    /// The front of a plan as a fragment of a page in HTML.
    FrontHtml,
    /// The picture of the document, in SVG.
    Svg,
    /// The cases of a sweep as rows, in CSV.
    Csv,
}

/// Width in columns of a page that no terminal limits.
const WIDTH: Width = Width(100);

/// Returns a document in a form for people; `None` if it has none, or is of no schema of this version.
pub fn shown(document: &str, form: Form) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(document).ok()?;
    let schema = value.get("schema")?.as_str()?.to_owned();
    match form {
        Form::Page => page(&schema, value, false, WIDTH),
        Form::FrontHtml => (schema == PLAN_SCHEMA).then(|| read(value).map(|plan| reports::front_fragment(&plan)))?,
        Form::Svg => Some(picture(&schema, value)?.svg(Scheme::Auto)),
        Form::Csv => (schema == WHAT_IF_SCHEMA).then(|| read(value).map(|sweep| reports::what_if_csv(&sweep)))?,
        Form::Html => match schema.as_str() {
            PLAN_SCHEMA => Some(reports::plan_fragment(&read(value)?)),
            WHAT_IF_SCHEMA => Some(reports::what_if_fragment(&read(value)?)),
            _ => Some(reports::picture_fragment(picture(&schema, value)?)),
        },
    }
}

fn read<T: DeserializeOwned>(document: serde_json::Value) -> Option<T> {
    serde_json::from_value(document).ok()
}

/// Returns what the command that made a document prints for people, if this version knows its schema. Plans are of
/// searches, or of simulations.
pub(crate) fn page(schema: &str, document: serde_json::Value, simulated: bool, width: Width) -> Option<String> {
    match schema {
        PLAN_SCHEMA if simulated => Some(reports::simulation(&read(document)?, width)),
        PLAN_SCHEMA => Some(reports::plan(&read(document)?, Detail::Brief(&[]), width)),
        CAMPAIGN_SCHEMA => Some(reports::campaign(&read(document)?, width)),
        QUEUE_SCHEMA => Some(queue::page(&read(document)?, width, false)),
        FLEET_SCHEMA => Some(fleet::page(&read(document)?, width, false)),
        REPLAY_SCHEMA => Some(reports::replay(&read(document)?)),
        WHAT_IF_SCHEMA => Some(reports::what_if(&read(document)?, width)),
        EXPLANATION_SCHEMA => Some(reports::explanation(&read(document)?, width)),
        COMPARISON_SCHEMA => Some(reports::comparison(&read(document)?, width)),
        JOBS_SCHEMA => Some(reports::jobs(&read(document)?, width)),
        _ => None,
    }
}

/// Draws a document, if it can be drawn without being computed anew.
fn picture(schema: &str, document: serde_json::Value) -> Option<Picture> {
    match schema {
        PLAN_SCHEMA => reports::front_plot(&read::<PlanDocument>(document)?, Breadth::Wide).ok(),
        WHAT_IF_SCHEMA => reports::what_if_plot(&read(document)?, Breadth::Wide).ok(),
        CAMPAIGN_SCHEMA => reports::campaign_plot(&read(document)?, Breadth::Wide).ok(),
        EXPLANATION_SCHEMA => explained(&read(document)?).ok(),
        QUEUE_SCHEMA => queue::gantt(&read(document)?).ok(),
        FLEET_SCHEMA => fleet::gantt(&read(document)?).ok(),
        _ => None,
    }
}

/// Draws the critical paths on one axis, and the memory that devices hold.
pub(crate) fn explained(document: &ExplanationDocument) -> Result<Picture, String> {
    let memory = |plan: &ExplainedPlan| {
        reports::memory_plot(&plan.plan.model.name, &plan.prediction.memory_bytes, Breadth::Wide)
    };
    match &document.against {
        None => Ok(reports::path_plot(&document.plan, Breadth::Wide)?.above(memory(&document.plan)?)),
        Some(other) => reports::paths_plot(&document.plan, other, Breadth::Wide),
    }
}
