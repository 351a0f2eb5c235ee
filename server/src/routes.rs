//! Paths, and what they are answered with.

use crate::answer;
use crate::assets;
use crate::body::{self, json, parse, read};
use crate::bounds::Bounds;
use crate::catalogs::Catalogs;
use crate::export::{Target, export};
use crate::guard::{Access, Token, guard};
use crate::history;
use crate::named::Named;
use crate::openapi::openapi;
use crate::planning::Planning;
use crate::question::{Effort, FleetQuestion, ModelQuestion, PlanQuestion, WhatIfQuestion};
use crate::refusal::Refusal;
use crate::threads::Lane;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, Response};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::SearchCache;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The limits of requests.
    pub bounds: Bounds,
    /// `true` if the server is reached from this machine only; requests for other host names are then refused.
    pub loopback: bool,
    /// The token that clients of the API must send.
    pub token: Option<Token>,
    /// Launchers for which launch files can be written.
    pub exports: &'static [Target],
    /// The history that is shown, if there is one; the server only reads it.
    pub history: Option<PathBuf>,
}

/// The state that all requests share.
struct Shared {
    settings: Settings,
    planning: Planning,
    cache: SearchCache,
    catalogs: Bytes,
    openapi: Bytes,
}

type Server = Arc<Shared>;

type Answer = Result<Response<Body>, Refusal>;

/// Creates the routes of the page and the API, without a socket.
pub fn router(settings: Settings) -> Router {
    let access =
        Access { loopback: settings.loopback, token: settings.token.clone(), time_limit: settings.bounds.request };
    let server = Arc::new(Shared {
        planning: Planning::new(&settings.bounds),
        cache: SearchCache::default(),
        catalogs: body::text(&Catalogs::new(settings.exports)),
        openapi: body::text(&openapi()),
        settings,
    });
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/v1/openapi.json", get(description))
        .route("/api/v1/catalogs", get(catalogs))
        .route("/api/v1/model", post(model))
        .route("/api/v1/plan", post(plan))
        .route("/api/v1/what-if", post(what_if))
        .route("/api/v1/fleet", post(fleet))
        .route("/api/v1/simulate", post(simulate))
        .route("/api/v1/export/{target}", post(launch_files))
        .route("/api/v1/history", get(kept))
        .route("/api/v1/history/{id}", get(kept_entry))
        .fallback(|| async { Refusal::not_found("such path") })
        .method_not_allowed_fallback(|| async { Refusal::method() })
        .layer(from_fn_with_state(access, guard))
        .with_state(server)
}

async fn description(State(server): State<Server>) -> Response<Body> {
    json(server.openapi.clone())
}

async fn catalogs(State(server): State<Server>) -> Response<Body> {
    json(server.catalogs.clone())
}

/// Returns a question's key in the cache: equal questions have the same, however they were written.
fn key<T: Serialize>(path: &str, question: &T) -> String {
    format!("{path} {}", serde_json::to_string(question).expect("questions hold only what JSON can hold"))
}

/// Reads the body of a question that is none of a whole plan.
async fn read_question(server: &Shared, request: Request<Body>) -> Result<Bytes, Refusal> {
    let bounds = &server.settings.bounds;
    read(request, bounds.question, bounds.sending).await
}

async fn model(State(server): State<Server>, request: Request<Body>) -> Answer {
    let question: ModelQuestion = parse(&read_question(&server, request).await?, "")?;
    let work = move |_| answer::model(&question).map(|answer| body::text(&answer));
    server.planning.find(Lane::Quick, work).await.map(json)
}

async fn plan(State(server): State<Server>, request: Request<Body>) -> Answer {
    // Questions hold whole jobs, and what an answer waits with is copied.
    let question: Box<PlanQuestion> = parse(&read_question(&server, request).await?, "job").map(Box::new)?;
    let lane = match question.effort {
        Effort::Draft => Lane::Quick,
        Effort::Proof => Lane::Thorough,
    };
    let key = key("plan", &question);
    let cache = server.cache.clone();
    let work = move |cancellation| answer::plan(&question, cancellation, cache).map(|answer| body::text(&answer));
    server.planning.answer(lane, key, work).await.map(json)
}

async fn what_if(State(server): State<Server>, request: Request<Body>) -> Answer {
    let question: Box<WhatIfQuestion> = parse(&read_question(&server, request).await?, "job").map(Box::new)?;
    let key = key("what-if", &question);
    let (cache, bounds) = (server.cache.clone(), server.settings.bounds);
    let work = move |cancellation| {
        answer::what_if(&question, (cancellation, cache), &bounds).map(|answer| body::text(&answer))
    };
    server.planning.answer(Lane::Thorough, key, work).await.map(json)
}

async fn fleet(State(server): State<Server>, request: Request<Body>) -> Answer {
    let question: Box<FleetQuestion> = parse(&read_question(&server, request).await?, "fleet").map(Box::new)?;
    let key = key("fleet", &question);
    let work = move |cancellation| answer::fleet(&question, &cancellation).map(|answer| body::text(&answer));
    server.planning.answer(Lane::Thorough, key, work).await.map(json)
}

/// Parses a plan document. A long one takes many times its length in memory, so it is parsed where only some are at a
/// time.
fn document(body: &Bytes) -> Result<PlanDocument, Refusal> {
    parse(body, "")
}

async fn simulate(State(server): State<Server>, request: Request<Body>) -> Answer {
    let bounds = server.settings.bounds;
    let body = read(request, bounds.body, bounds.sending).await?;
    let work = move |_| answer::simulate(&document(&body)?, &bounds).map(|answer| body::text(&answer));
    server.planning.find(Lane::Quick, work).await.map(json)
}

async fn launch_files(State(server): State<Server>, Named(target): Named, request: Request<Body>) -> Answer {
    let bounds = server.settings.bounds;
    let body = read(request, bounds.body, bounds.sending).await?;
    let targets = server.settings.exports;
    let work = move |_| export(targets, &target, &document(&body)?).map(|answer| body::text(&answer));
    server.planning.find(Lane::Light, work).await.map(json)
}

async fn kept(State(server): State<Server>) -> Answer {
    let place = server.settings.history.clone();
    let work = move |_| history::list(place.as_deref()).map(|answer| body::text(&answer));
    server.planning.find(Lane::Light, work).await.map(json)
}

async fn kept_entry(State(server): State<Server>, Named(id): Named) -> Answer {
    let place = server.settings.history.clone();
    let work = move |_| history::kept(place.as_deref(), &id).map(|answer| body::text(&answer));
    server.planning.find(Lane::Light, work).await.map(json)
}
