//! How the control plane says no.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

/// An answer that is an error, in one of the shapes of the platform.
#[derive(Debug)]
pub(crate) struct Problem(StatusCode, Value);

impl Problem {
    /// `{"detail": …}`
    pub(crate) fn detail(status: StatusCode, detail: impl Into<String>) -> Self {
        Self(status, json!({ "detail": detail.into() }))
    }

    pub(crate) fn not_found() -> Self {
        Self::detail(StatusCode::NOT_FOUND, "Not found.")
    }

    /// Nothing of this name: `Run`, `Project`.
    pub(crate) fn no_match(model: &str) -> Self {
        Self::detail(
            StatusCode::NOT_FOUND,
            format!("No {model} matches the given query."),
        )
    }

    /// `{field: [text]}`
    pub(crate) fn field(field: &str, text: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, json!({ field: [text.into()] }))
    }

    /// `[text]`
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, json!([text.into()]))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}
