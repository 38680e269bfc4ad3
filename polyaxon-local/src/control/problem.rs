//! How the control plane says no.

use axum::Json;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

/// An answer that is an error, in one of the shapes of the platform.
#[derive(Debug)]
pub(crate) struct Problem(StatusCode, Body);

#[derive(Debug)]
enum Body {
    Json(Value),
    Text(String),
}

impl Problem {
    /// `{"detail": …}`
    pub(crate) fn detail(status: StatusCode, detail: impl Into<String>) -> Self {
        Self(status, Body::Json(json!({ "detail": detail.into() })))
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
        let body = json!({ field: [text.into()] });
        Self(StatusCode::BAD_REQUEST, Body::Json(body))
    }

    /// `[text]`
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, Body::Json(json!([text.into()])))
    }

    /// Plain text that calls itself HTML, as the streams answer.
    pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self(status, Body::Text(text.into()))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        match self.1 {
            Body::Json(body) => (self.0, Json(body)).into_response(),
            Body::Text(text) => (self.0, Html(text)).into_response(),
        }
    }
}
