//! Which part of the service a request is for.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use http::Uri;
use tower::ServiceExt as _;

use crate::control::{self, Control};
use crate::gateway;

#[derive(Clone)]
struct Parts {
    control: Arc<Control>,
    api: Router,
}

/// Everything on one address: the gateway's paths, and the API for the rest.
pub(crate) fn router(control: Arc<Control>) -> Router {
    let api = control::router(Arc::clone(&control));
    Router::new()
        .fallback(dispatch)
        .with_state(Parts { control, api })
}

async fn dispatch(State(parts): State<Parts>, mut request: Request) -> Response {
    if gateway::is_sandbox(request.uri().path()) {
        return gateway::forward(&parts.control, request).await;
    }
    if let Some(uri) = without_trailing_slash(request.uri()) {
        *request.uri_mut() = uri;
    }
    match parts.api.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The platform takes its paths with and without a trailing slash.
fn without_trailing_slash(uri: &Uri) -> Option<Uri> {
    let path = uri
        .path()
        .strip_suffix('/')
        .filter(|path| !path.is_empty())?;
    let query = uri.query().map(|query| format!("?{query}"));
    format!("{path}{}", query.unwrap_or_default()).parse().ok()
}
