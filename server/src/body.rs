//! Bodies of requests and answers as JSON.

use crate::refusal::Refusal;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, Request, Response};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Reads the body of a request whose media type is JSON, if it has at most `limit` bytes.
pub(crate) async fn read(request: Request<Body>, limit: usize) -> Result<Bytes, Refusal> {
    if !is_json(request.headers().get(CONTENT_TYPE)) {
        return Err(Refusal::media_type());
    }
    let stated = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A body whose stated length is too large is refused before it is sent.
    if stated.is_some_and(|bytes| bytes > limit as u64) {
        return Err(Refusal::too_large(limit));
    }
    to_bytes(request.into_body(), limit).await.map_err(|_| Refusal::too_large(limit))
}

/// Parses a body. JSON that is nested deeper than 128 levels, or has a key twice, is refused.
/// Every question is an object, so that a list of what its fields hold is none.
pub(crate) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        let list: Result<Vec<IgnoredAny>, _> = trainyard_documents::from_json_bytes(body);
        return Err(list.map_or_else(|error| Refusal::json(&error), |_| Refusal::list()));
    }
    trainyard_documents::from_json_bytes(body).map_err(|error| Refusal::json(&error))
}

fn is_json(value: Option<&HeaderValue>) -> bool {
    let kind = value.and_then(|value| value.to_str().ok()).and_then(|text| text.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Serializes an answer as JSON text.
pub(crate) fn text<T: Serialize>(answer: &T) -> Bytes {
    serde_json::to_vec(answer).expect("answers hold only what JSON can hold").into()
}

/// Returns the response with an answer that is already JSON text.
pub(crate) fn json(text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
