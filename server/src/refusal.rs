//! Why a request is not answered: problem details (RFC 9457).

use crate::wording::{field_of_api, of_api};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;
use trainyard_documents::plain_words;
use trainyard_planner::what_if::WhatIfError;
use trainyard_planner::{JobError, NoPlan};
use trainyard_pool::fleet::FleetError;
use trainyard_units::Invalid;

/// Where a client finds what may be asked.
const DESCRIBED: &str = "GET /api/v1/openapi.json describes every field";

/// What may be done about a refusal of a kind, where nothing better is known.
fn advice(kind: &str) -> &'static str {
    match kind {
        "not-found" => "GET /api/v1/openapi.json lists the paths, and GET /api/v1/history the entries",
        "method" => "GET /api/v1/openapi.json says which method each path takes",
        "timeout" => "send the body at once",
        "forbidden" => "ask from the page that the server serves, or from a program that sends no `Origin`",
        "failed" => "what the server prints says more; ask again once that is mended",
        _ => DESCRIBED,
    }
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refusal {
    /// The HTTP status code.
    pub status: u16,
    /// What kind of refusal it is, one of a closed list: `bad-request`, `bad-json`, `bad-input`, `no-plan`,
    /// `too-large`, `busy`, `timeout`, `unauthorized`, `forbidden`, `not-found`, `method`, `media-type`, `failed`.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// What is wrong: field, value, and what is allowed.
    pub detail: String,
    /// The field of the job, the fleet or the plan that is wrong, `data.tokens`, or that of the question beside them,
    /// `vary`; absent where it is no single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Box<str>>,
    /// What stands there, where that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<str>>,
    /// What may stand there, where that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Box<str>>,
    /// What may be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        let (status, detail) = (status.as_u16(), of_api(&detail.into()));
        let hint = Some(advice(kind).to_owned());
        Self { status, kind: kind.into(), detail, field: None, value: None, allowed: None, hint }
    }

    /// Returns `true` if the question is at fault, so that asking again would not help.
    pub(crate) fn is_of_the_question(&self) -> bool {
        (400..500).contains(&self.status)
    }

    /// Adds advice on what may be done about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().map(|hint| of_api(&hint)).or(self.hint);
        self
    }

    /// Says which field is wrong.
    #[must_use]
    pub(crate) fn field(mut self, field: &str) -> Self {
        self.field = Some(Box::<str>::from(field_of_api(field))).filter(|field| !field.is_empty());
        self
    }

    /// Says which field is wrong, what stands there, and what may.
    fn at(mut self, invalid: &Invalid) -> Self {
        self = self.field(invalid.field());
        let allowed = invalid.allowed().map(|allowed| of_api(allowed).into());
        (self.value, self.allowed) = (invalid.given().map(Into::into), allowed);
        self
    }

    /// Refuses a text that is not the expected JSON; `field` is where, if it is in one.
    pub(crate) fn json(error: &serde_json::Error, field: Option<&str>) -> Self {
        let told = error.to_string();
        let (message, place) = told.rfind(" at line ").map_or((told.as_str(), ""), |at| told.split_at(at));
        let message = plain_words(message, "an object");
        let within = field.map(|field| format!("in `{field}`: ")).unwrap_or_default();
        let detail = format!("the body cannot be read: {within}{message}{place}");
        let refusal = Self::new(StatusCode::BAD_REQUEST, "bad-json", detail).hint(DESCRIBED.to_owned());
        // A key that is not known or not there is no value.
        let is_key = message.starts_with("unknown key") || message.starts_with("missing");
        let value = message.split('`').nth(1).filter(|_| !is_key).map(Into::into);
        let allowed = message.split_once(", expected ").map(|(_, allowed)| allowed.into());
        Self { value, allowed, ..refusal }.field(field.unwrap_or_default())
    }

    /// Refuses a list where an object is expected.
    pub(crate) fn list() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-json", "the body is a list, but it must be an object: `{…}`")
            .hint(DESCRIBED.to_owned())
    }

    /// Refuses a request that does not say in one way what it is for.
    pub(crate) fn request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
            .hint("send one `Host`, the one of the address that is asked".to_owned())
    }

    /// Refuses a parameter behind the path.
    pub(crate) fn parameter(name: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-request",
            format!("the path takes no parameters, but `{name}` is given"),
        )
        .hint(DESCRIBED.to_owned())
    }

    /// Refuses a path that no text stands for.
    pub(crate) fn path() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "the path is not UTF-8 text")
    }

    /// Refuses a body that ends before it says it does, or is not divided as its headers say.
    pub(crate) fn broken_body() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "the body breaks off, or is not divided as its headers say")
    }

    /// Refuses a body that does not arrive in time.
    pub(crate) fn slow_body(seconds: f64) -> Self {
        let detail = format!("the body did not arrive within {seconds} s");
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
    }

    /// Refuses a request whose content makes no sense.
    pub fn input(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-input", detail)
    }

    /// Tells that nothing that is asked for is possible.
    fn no_plan(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "no-plan", detail)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let detail = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
            .hint("a configuration or a plan is a small file; weights and data are not needed".to_owned())
    }

    pub(crate) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests wait for a search")
            .hint("ask again in a second".to_owned())
    }

    pub(crate) fn timeout(seconds: f64) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", format!("the request took longer than {seconds} s"))
            .hint("allow fewer instances, vary fewer values, or ask for a draft".to_owned())
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "the token is missing or wrong")
            .hint("send `Authorization: Bearer TOKEN` with the token that the server was started with".to_owned())
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub(crate) fn misdirected(host: &str) -> Self {
        let detail = format!("this server is not `{host}`");
        Self::new(StatusCode::MISDIRECTED_REQUEST, "forbidden", detail)
            .hint("on this machine it is reached as localhost or 127.0.0.1".to_owned())
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", format!("there is no {what}"))
    }

    /// Refuses a request for something that does not exist.
    pub(crate) fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Tells that the server cannot read a file that it was given.
    pub(crate) fn unreadable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", detail)
    }

    pub(crate) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", "the path does not take this method")
    }

    pub(crate) fn media_type() -> Self {
        let detail = "the body must be JSON";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail)
            .hint("send `Content-Type: application/json`".to_owned())
    }

    /// Refuses a body that is packed.
    pub(crate) fn encoded(coding: &str) -> Self {
        let detail = format!("`Content-Encoding` is `{coding}`, but bodies are read as they are");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail)
            .hint("send the JSON without `Content-Encoding`".to_owned())
    }

    /// Tells of a bug, of which the server's own output says more.
    pub(crate) fn failed() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the server failed to answer")
    }
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Self {
        Self::input(error.to_string()).hint(error.hint()).at(error.invalid())
    }
}

impl From<Invalid> for Refusal {
    fn from(error: Invalid) -> Self {
        Self::input(error.to_string()).hint(error.hint()).at(&error)
    }
}

impl From<NoPlan> for Refusal {
    fn from(error: NoPlan) -> Self {
        Self::no_plan(error.to_string()).hint(error.hint())
    }
}

impl From<WhatIfError> for Refusal {
    fn from(error: WhatIfError) -> Self {
        match error {
            WhatIfError::Job(error) => error.into(),
            WhatIfError::Plan(error) => error.into(),
        }
    }
}

impl From<FleetError> for Refusal {
    fn from(error: FleetError) -> Self {
        let refusal = match &error {
            FleetError::NoPlan { index, .. } => Self::no_plan(error.to_string()).field(&format!("job[{index}]")),
            FleetError::Invalid(invalid) => Self::input(error.to_string()).at(invalid),
            FleetError::Job { index, error: own } => {
                Self::input(error.to_string()).at(&own.invalid().clone().within(&format!("job[{index}]")))
            }
        };
        refusal.hint(error.hint())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match status {
            StatusCode::SERVICE_UNAVAILABLE => headers.insert(RETRY_AFTER, HeaderValue::from_static("1")),
            StatusCode::UNAUTHORIZED => headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            _ => None,
        };
        response
    }
}
