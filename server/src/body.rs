//! Bodies of requests and answers as JSON.

use crate::refusal::Refusal;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, Request, Response};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

/// Reads the body of a request whose media type is JSON, if it has at most `limit` bytes and arrives within `time`.
pub(crate) async fn read(request: Request<Body>, limit: usize, time: Duration) -> Result<Bytes, Refusal> {
    let headers = request.headers();
    if !is_json(headers.get(CONTENT_TYPE)) {
        return Err(Refusal::media_type());
    }
    let plain = |coding: &&HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    if let Some(coding) = headers.get_all(CONTENT_ENCODING).iter().find(|coding| !plain(coding)) {
        return Err(Refusal::encoded(&String::from_utf8_lossy(coding.as_bytes())));
    }
    let stated = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // A body whose stated length is too large is refused before it is sent.
    if stated.is_some_and(|bytes| bytes > limit as u64) {
        return Err(Refusal::too_large(limit));
    }
    let arrived = tokio::time::timeout(time, whole(request.into_body(), limit)).await;
    arrived.unwrap_or_else(|_| Err(Refusal::slow_body(time.as_secs_f64())))
}

/// Reads a body to its end.
async fn whole(mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        // What is no data is a trailer, of which nothing is read.
        let Ok(part) = frame.map_err(|_| Refusal::broken_body())?.into_data() else { continue };
        if part.len() > limit - bytes.len() {
            return Err(Refusal::too_large(limit));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}

/// Parses a body. JSON that is nested deeper than 128 levels, or has a key twice, is refused.
/// Every question is an object, so that a list of what its fields hold is none. `root` is the field with the job or the
/// fleet, whose own fields are named as in their files.
pub(crate) fn parse<T: DeserializeOwned>(body: &Bytes, root: &str) -> Result<T, Refusal> {
    // Whatever is no sound JSON is told before its fields are looked at.
    let _: IgnoredAny = trainyard_documents::from_json_bytes(body).map_err(|error| Refusal::json(&error, None))?;
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Refusal::list());
    }
    let read = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(body));
    read.map_err(|error| {
        let whole = error.path().iter().next().is_some().then(|| error.path().to_string());
        let own = |field: &str| field.strip_prefix(root)?.strip_prefix('.').map(str::to_owned);
        let field = whole.map(|field| own(&field).unwrap_or(field));
        Refusal::json(error.inner(), field.as_deref())
    })
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
