//! `trainyard schemas`: the JSON Schemas of files and results, and the description of the server's API.

use crate::arguments::SchemasArguments;
use crate::failure::{ErrorDocument, Exit, Failure};
use crate::files;
use crate::output::{Output, json};
use schemars::{JsonSchema, schema_for};
use std::path::PathBuf;
use trainyard_calibration::{RefitDocument, ValidationDocument};
use trainyard_hardware_profiles::ClusterFile;
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
    let written: Vec<(PathBuf, String)> =
        all().into_iter().map(|(name, text)| (folder.join(format!("{name}.json")), text)).collect();
    files::write_all(&written)?;
    output.note(format!("{} written to {}", counted(written.len() as u64, "file"), folder.display()));
    Ok(Exit::Done)
}

/// Returns the schemas with the names of their files: those of documents are named after the documents' `schema` field.
fn all() -> Vec<(&'static str, String)> {
    vec![
        ("campaign", of::<CampaignDocument>()),
        ("cluster-file", of::<ClusterFile>()),
        ("comparison", of::<ComparisonDocument>()),
        ("error", of::<ErrorDocument>()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value};
    use std::collections::{BTreeMap, VecDeque};
    use std::fmt::Write as _;

    /// The tables of a file as sections of a page, each with a row for every key.
    struct Page<'a> {
        schemas: &'a Map<String, Value>,
        /// The sections of tables by the names of their schemas.
        written: Sections,
        /// What stands before the keys of the file in headings, of which a page has one each.
        of: &'static str,
        text: String,
    }

    impl<'a> Page<'a> {
        /// Writes the section of a table of the file, and those of tables in it.
        fn write(&mut self, root: &'a Value) {
            let mut open = VecDeque::from([(String::new(), root)]);
            while let Some((path, table)) = open.pop_front() {
                let mut rows = String::new();
                for (key, field) in table["properties"].as_object().expect("a table has keys") {
                    let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    let heading = format!("{}{inner}", self.of);
                    let mut values = match self.table(field) {
                        Some((name, table, others)) => {
                            let section = self.written.entry(name).or_insert_with(|| {
                                open.push_back((inner, table));
                                heading
                            });
                            format!("{others}[table](#{})", section.replace('.', "").replace(' ', "-"))
                        }
                        None => self.values(field),
                    };
                    let required = table.get("required").and_then(Value::as_array).into_iter().flatten();
                    if required.into_iter().any(|name| name == key) {
                        values += ", required";
                    }
                    let about =
                        field["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
                    let _ = writeln!(rows, "| `{key}` | {values} | {about} |");
                }
                if !path.is_empty() {
                    let _ = write!(self.text, "\n### {}{path}\n\n", self.of);
                }
                let _ = write!(self.text, "| key | values | meaning |\n|---|---|---|\n{rows}");
            }
        }

        /// The table that a field holds, or a list of which, with the name of its schema, and what the field may be
        /// instead.
        fn table(&self, field: &'a Value) -> Option<(String, &'a Value, String)> {
            let item = field.get("items").unwrap_or(field);
            let choice = item.get("anyOf").and_then(|choices| choices.get(0)).unwrap_or(item);
            let name = choice.get("$ref")?.as_str()?.trim_start_matches("#/$defs/");
            let schema = self.schemas.get(name)?;
            if let Some([other, table]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
                let (name, schema, _) = self.table(table)?;
                return Some((name, schema, format!("{} or ", self.values(other))));
            }
            schema.get("properties").map(|_| (name.to_owned(), schema, String::new()))
        }

        /// What a field may be.
        fn values(&self, field: &Value) -> String {
            if let Some(name) = field.get("$ref").and_then(Value::as_str) {
                return self.values(&self.schemas[name.trim_start_matches("#/$defs/")]);
            }
            if let Some(word) = field.get("const").and_then(Value::as_str) {
                return format!("`{word}`");
            }
            let is_null = |choice: &&Value| choice["type"] == "null";
            let any = ["anyOf", "oneOf"].into_iter().find_map(|kind| field.get(kind)?.as_array());
            if let Some(choices) = any {
                let words: Vec<String> =
                    choices.iter().filter(|one| !is_null(one)).map(|one| self.values(one)).collect();
                let words_only = words.iter().all(|word| word.starts_with('`'));
                return words.join(if words_only { ", " } else { " or " });
            }
            let item = || field.get("items").or_else(|| field.get("prefixItems")?.get(0));
            let list = || format!("list of {}", item().map_or_else(String::new, |item| self.values(item)));
            let keys = || {
                let names = field.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
                let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
                if names.is_empty() { "table".to_owned() } else { format!("table of {}", names.join(", ")) }
            };
            let kind = &field["type"];
            match kind.as_str().or_else(|| kind.get(0)?.as_str()) {
                Some("integer") => "whole number".into(),
                Some("string") => "text".into(),
                Some("boolean") => "`true`, `false`".into(),
                Some("array") => list(),
                Some("object") => keys(),
                other => other.unwrap_or("anything").into(),
            }
        }
    }

    type Sections = BTreeMap<String, String>;

    fn section<T: JsonSchema>(title: &str, of: &'static str, written: Sections) -> (String, Sections) {
        let schema = serde_json::to_value(schema_for!(T)).expect("a schema is JSON");
        let schemas = schema["$defs"].as_object().expect("schemas of the tables");
        let mut page = Page { schemas, written, of, text: format!("## {title}\n\n") };
        page.write(&schema);
        (page.text, page.written)
    }

    #[test]
    fn the_page_of_keys_follows_from_the_schemas() {
        let (job, written) = section::<JobSpec>("A job", "", Sections::new());
        let (fleet, written) = section::<FleetSpec>("A fleet", "fleet ", written);
        let (queue, written) = section::<QueueSpec>("A queue", "queue ", written);
        let (cluster, _) = section::<ClusterFile>("A cluster", "cluster file ", written);
        let keys = format!("{job}\n{fleet}\n{queue}\n{cluster}");
        let page = include_str!("../../../docs/job-file.md");
        assert!(page.ends_with(&keys), "docs/job-file.md should end:\n{keys}<end>");
    }
}
