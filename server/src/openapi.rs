//! The description of the API for programs: an OpenAPI document whose schemas are those of the types.

use crate::answer::{ModelAnswer, PlanAnswer};
use crate::catalogs::Catalogs;
use crate::export::ExportAnswer;
use crate::question::{FleetQuestion, ModelQuestion, PlanQuestion, WhatIfQuestion};
use crate::refusal::Refusal;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use trainyard_history::{HistoryDocument, KeptDocument};
use trainyard_plan::WhatIfDocument;
use trainyard_plan::document::PlanDocument;
use trainyard_pool::fleet::FleetDocument;

/// One operation of the API.
#[derive(Clone)]
struct Operation {
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    question: Option<Schema>,
    answer: Schema,
    about_answer: &'static str,
}

/// Returns the OpenAPI document of version 1 of the API.
///
/// # Source
///
/// OpenAPI Specification 3.1.0, OpenAPI Initiative, 2021.
pub fn openapi() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let refusal = generator.subschema_for::<Refusal>();
    let operations = [operations(&mut generator), history(&mut generator)].concat();
    let paths: Map<String, Value> =
        operations.into_iter().map(|operation| (operation.path.into(), described(operation, &refusal))).collect();
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Trainyard",
            "version": "1",
            "summary": "Plans of distributed training: which machines, how many, split how, how long, and how much.",
            "description": "Durations are seconds, sizes bytes, money USD; the suffix of a field says so. Version 1 keeps its \
                            fields: others may be added to answers, none is removed or changes its meaning. Schemas of \
                            answers are those of this version: ignore fields that you do not know.",
        },
        "servers": [{ "url": "/", "description": "`trainyard serve`" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that the server was started with. A server that is reached from its own \
                                    machine only may have none.",
                },
            },
        },
    })
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn operations(generator: &mut SchemaGenerator) -> Vec<Operation> {
    vec![
        Operation {
            path: "/api/v1/catalogs",
            id: "catalogs",
            summary: "What a job can name: models, instances, Regions, terms.",
            question: None,
            answer: schema::<Catalogs>(generator),
            about_answer: "Everything that the program knows by name.",
        },
        Operation {
            path: "/api/v1/model",
            id: "model",
            summary: "The model that a config.json of Hugging Face describes.",
            question: Some(schema::<ModelQuestion>(generator)),
            answer: schema::<ModelAnswer>(generator),
            about_answer: "The model with every dimension.",
        },
        Operation {
            path: "/api/v1/plan",
            id: "plan",
            summary: "The best plan for a job: a draft that follows a slider, or one that is proved, with reasons.",
            question: Some(schema::<PlanQuestion>(generator)),
            answer: schema::<PlanAnswer>(generator),
            about_answer: "The plan. One that misses deadline or budget is answered too, with what it misses.",
        },
        Operation {
            path: "/api/v1/what-if",
            id: "whatIf",
            summary: "A job with one key or two varied: the best plan for each combination of values, proved, or the \
                      job's plan held; or what matters most to that plan.",
            question: Some(schema::<WhatIfQuestion>(generator)),
            answer: schema::<WhatIfDocument>(generator),
            about_answer: "The cases, and the job as it is. A case without a plan has the reason, and one that misses \
                           deadline or budget says so.",
        },
        Operation {
            path: "/api/v1/fleet",
            id: "fleet",
            summary: "Jobs that share a pool, a deadline and a budget: a plan for each kind of them, and a schedule.",
            question: Some(schema::<FleetQuestion>(generator)),
            answer: schema::<FleetDocument>(generator),
            about_answer: "The plans and the schedule. One that misses the goal is answered too, with what it misses.",
        },
        Operation {
            path: "/api/v1/simulate",
            id: "simulate",
            summary: "A plan document, its prediction made anew.",
            question: Some(schema::<PlanDocument>(generator)),
            answer: schema::<PlanAnswer>(generator),
            about_answer: "The plan with today's prediction.",
        },
        Operation {
            path: "/api/v1/export/{target}",
            id: "export",
            summary: "The files with which another program launches a plan.",
            question: Some(schema::<PlanDocument>(generator)),
            answer: schema::<ExportAnswer>(generator),
            about_answer: "The files. What a target cannot express is refused with the reason.",
        },
        Operation {
            path: "/api/v1/openapi.json",
            id: "openapi",
            summary: "This document.",
            question: None,
            answer: schemars::json_schema!({ "type": "object" }),
            about_answer: "An OpenAPI document.",
        },
    ]
}

/// Returns the operations on the history.
fn history(generator: &mut SchemaGenerator) -> Vec<Operation> {
    vec![
        Operation {
            path: "/api/v1/history",
            id: "history",
            summary: "What was planned, simulated and run, the newest first.",
            question: None,
            answer: schema::<HistoryDocument>(generator),
            about_answer: "Up to 200 entries; none where nothing is kept.",
        },
        Operation {
            path: "/api/v1/history/{id}",
            id: "entry",
            summary: "An entry of the history.",
            question: None,
            answer: schema::<KeptDocument>(generator),
            about_answer: "The entry with the document that its command printed.",
        },
    ]
}

/// Returns the parameter in braces in a path: its name, its description, and the error where no such thing exists.
fn parameter(path: &str) -> Option<(&str, &'static str, &'static str)> {
    let (_, rest) = path.split_once('{')?;
    match rest.trim_end_matches('}') {
        name @ "id" => Some((name, "The id of an entry, or the start of it.", "There is no such entry.")),
        name => Some((name, "One of `exports` of the catalogs.", "There is no such target.")),
    }
}

/// Describes an operation as OpenAPI does.
fn described(operation: Operation, refusal: &Schema) -> Value {
    let refused = |about: &str| {
        let content = json!({ "application/problem+json": { "schema": refusal } });
        json!({ "description": about, "content": content })
    };
    let content = json!({ "application/json": { "schema": operation.answer } });
    let mut responses = json!({ "200": { "description": operation.about_answer, "content": content } });
    let mut refusals = vec![
        ("401", "The token is missing or wrong."),
        ("403", "Another site's page asks."),
        ("421", "The request was meant for another host."),
    ];
    if operation.question.is_none() {
        refusals.push(("400", "The path has parameters, or the request names several hosts."));
    }
    if operation.question.is_some() {
        refusals.extend([
            (
                "400",
                "The path has parameters, the request names no host or several, or its body is broken or not the JSON that \
                 is expected.",
            ),
            ("408", "The body did not arrive in time."),
            ("413", "The body is too large."),
            ("415", "The body is not JSON, or it is packed."),
            ("422", "What is asked makes no sense, or there is no plan."),
            ("503", "Too many requests wait."),
            ("504", "It took too long."),
        ]);
    }
    let parameter = parameter(operation.path);
    if let Some((.., missing)) = parameter {
        refusals.push(("404", missing));
    }
    if operation.path.starts_with("/api/v1/history") {
        refusals.push(("500", "The history cannot be read."));
    }
    refusals.sort_unstable();
    for (status, about) in refusals {
        responses[status] = refused(about);
    }
    let mut value = json!({ "operationId": operation.id, "summary": operation.summary, "responses": responses });
    if let Some((name, about, _)) = parameter {
        value["parameters"] = json!([{
            "name": name, "in": "path", "required": true, "schema": { "type": "string" }, "description": about,
        }]);
    }
    match operation.question {
        None => json!({ "get": value }),
        Some(question) => {
            let content = json!({ "application/json": { "schema": question } });
            value["requestBody"] = json!({ "required": true, "content": content });
            json!({ "post": value })
        }
    }
}
