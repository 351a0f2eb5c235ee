//! `trainyard schemas`: the JSON Schemas of files and results, and the description of the server's API.

use crate::arguments::SchemasArguments;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::{Output, json};
use schemars::{JsonSchema, schema_for};
use std::path::{Path, PathBuf};
use trainyard_calibration::{RefitDocument, ValidationDocument};
use trainyard_history::{ComparedDocument, HistoryDocument, KeptDocument};
use trainyard_plan::document::{ComparisonDocument, PlanDocument};
use trainyard_plan::list::{JobListSpec, JobsDocument};
use trainyard_plan::{CampaignDocument, ExplanationDocument, JobSpec, LaunchDocument, ReplayDocument, WhatIfDocument};
use trainyard_pool::fleet::{FleetDocument, FleetSpec};
use trainyard_pool::queue::{QueueDocument, QueueSpec};
use trainyard_units::counted;

/// Writes each schema into a file.
pub(crate) fn schemas(arguments: &SchemasArguments, output: &Output) -> Result<Exit, Failure> {
    let folder = &arguments.out;
    let schemas = all();
    let paths: Vec<PathBuf> = schemas.iter().map(|(name, _)| folder.join(format!("{name}.json"))).collect();
    let texts = schemas.iter().map(|(_, text)| text.as_str());
    let written: Vec<(&Path, &str)> = paths.iter().map(PathBuf::as_path).zip(texts).collect();
    files::write_all(&written)?;
    output.note(format!("{} written to {}", counted(written.len() as u64, "file"), folder.display()));
    Ok(Exit::Done)
}

/// Returns the schemas with the names of their files: those of documents are named after the documents' `schema` field.
fn all() -> Vec<(&'static str, String)> {
    vec![
        ("campaign", of::<CampaignDocument>()),
        ("comparison", of::<ComparisonDocument>()),
        ("explanation", of::<ExplanationDocument>()),
        ("fleet", of::<FleetDocument>()),
        ("fleet-file", of::<FleetSpec>()),
        ("history", of::<HistoryDocument>()),
        ("history-comparison", of::<ComparedDocument>()),
        ("history-entry", of::<KeptDocument>()),
        ("job", of::<JobSpec>()),
        ("jobs", of::<JobsDocument>()),
        ("jobs-file", of::<JobListSpec>()),
        ("launch", of::<LaunchDocument>()),
        ("openapi", json(&trainyard_server::openapi())),
        ("plan", of::<PlanDocument>()),
        ("queue", of::<QueueDocument>()),
        ("queue-file", of::<QueueSpec>()),
        ("refit", of::<RefitDocument>()),
        ("replay", of::<ReplayDocument>()),
        ("validation", of::<ValidationDocument>()),
        ("what-if", of::<WhatIfDocument>()),
    ]
}

fn of<T: JsonSchema>() -> String {
    json(&schema_for!(T))
}
