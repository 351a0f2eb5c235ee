//! What a path names in its last part.

use crate::refusal::Refusal;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

/// The name at the end of a path, `{id}` of `/api/v1/history/{id}`.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(name) = Path::from_request_parts(parts, state).await.map_err(|_| Refusal::path())?;
        Ok(Self(name))
    }
}
