//! The JSON Schemas of the documents, in `docs/schemas`, are those of the types.
//!
//! After a change of a document's type, `UPDATE_SCHEMAS=1 cargo test --release -p trainyard-tests --test schemas` writes
//! them anew; the difference is then reviewed like code.

use schemars::{JsonSchema, schema_for};
use std::path::Path;
use trainyard_calibration::{RefitDocument, ValidationDocument};
use trainyard_history::{ComparedDocument, HistoryDocument, KeptDocument};
use trainyard_plan::document::{ComparisonDocument, PlanDocument};
use trainyard_plan::fleet::FleetSpec;
use trainyard_plan::fleet::document::FleetDocument;
use trainyard_plan::list::{JobListSpec, JobsDocument};
use trainyard_plan::queue::QueueSpec;
use trainyard_plan::queue::document::QueueDocument;
use trainyard_plan::{CampaignDocument, ExplanationDocument, JobSpec, LaunchDocument, ReplayDocument, WhatIfDocument};

fn agrees<T: JsonSchema>(name: &str) {
    is_kept(name, serde_json::to_string_pretty(&schema_for!(T)));
}

fn is_kept(name: &str, text: serde_json::Result<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas").join(format!("{name}.json"));
    let generated = text.expect("a schema is JSON") + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the repository can be written");
        std::fs::write(&path, &generated).expect("the repository can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == generated, "docs/schemas/{name}.json is not the schema of the type; see the head of this file");
}

#[test]
fn plan_document() {
    agrees::<PlanDocument>("plan");
}

#[test]
fn comparison_document() {
    agrees::<ComparisonDocument>("comparison");
}

#[test]
fn validation_document() {
    agrees::<ValidationDocument>("validation");
}

#[test]
fn refit_document() {
    agrees::<RefitDocument>("refit");
}

#[test]
fn campaign_document() {
    agrees::<CampaignDocument>("campaign");
}

#[test]
fn what_if_document() {
    agrees::<WhatIfDocument>("what-if");
}

#[test]
fn explanation_document() {
    agrees::<ExplanationDocument>("explanation");
}

#[test]
fn replay_document() {
    agrees::<ReplayDocument>("replay");
}

#[test]
fn launch_document() {
    agrees::<LaunchDocument>("launch");
}

#[test]
fn job() {
    agrees::<JobSpec>("job");
}

#[test]
fn list_of_jobs() {
    agrees::<JobListSpec>("jobs-file");
    agrees::<JobsDocument>("jobs");
}

#[test]
fn queue() {
    agrees::<QueueSpec>("queue-file");
    agrees::<QueueDocument>("queue");
}

#[test]
fn api() {
    is_kept("openapi", serde_json::to_string_pretty(&trainyard_server::openapi()));
}

#[test]
fn history() {
    agrees::<HistoryDocument>("history");
    agrees::<KeptDocument>("history-entry");
    agrees::<ComparedDocument>("history-comparison");
}

#[test]
fn fleet() {
    agrees::<FleetSpec>("fleet-file");
    agrees::<FleetDocument>("fleet");
}
