//! The routes below `/streams/v1`: files of runs, series of events, logs. Their errors are plain
//! text.

mod artifacts;
mod events;
mod logs;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::get;
use http::StatusCode;

use super::store::{Refused, StorePath};
use super::{Control, NAMESPACE, Problem, Run, api};
use crate::daemon::Query;

type Result<T> = std::result::Result<T, Problem>;
type Api = State<Arc<Control>>;

/// The parts of a path that name a run: namespace, owner, project, uuid.
type At = (String, String, String, String);

pub(super) fn routes() -> Router<Arc<Control>> {
    let run = "/streams/v1/{namespace}/{owner}/{project}/runs/{uuid}";
    let at = |path: &str| format!("{run}{path}");
    Router::new()
        .route(&at("/events/{kind}"), get(events::of_run))
        .route(
            "/streams/v1/{namespace}/{owner}/{project}/runs/multi/events/{kind}",
            get(events::of_runs),
        )
        .route(&at("/resources"), get(events::resources))
        .route(&at("/logs"), get(logs::read))
        .route(&at("/artifacts/tree"), get(artifacts::tree))
        .route(
            &at("/artifact"),
            get(artifacts::read)
                .post(artifacts::upload)
                .delete(artifacts::delete),
        )
        .route(
            &at("/artifacts"),
            get(artifacts::pack)
                .post(artifacts::upload_all)
                .delete(artifacts::delete),
        )
        // An upload goes to the disk as it comes.
        .layer(DefaultBodyLimit::disable())
}

/// The run that a path names. All of its parts have to be right.
fn find(control: &Control, (namespace, owner, project, uuid): &At) -> Result<Arc<Run>> {
    let at = (owner.clone(), project.clone(), uuid.clone());
    let run = api::find_run(control, &at).ok();
    run.filter(|_| namespace == NAMESPACE)
        .ok_or_else(|| Problem::text(StatusCode::NOT_FOUND, "Run not found"))
}

fn parse(query: Option<&str>) -> Result<Query> {
    Query::parse(query).map_err(|_| invalid("The query string has a broken escape."))
}

/// The `path` of a query; none at all is the folder of the run.
fn path_of(query: &Query) -> Result<StorePath> {
    StorePath::parse(query.text("path").unwrap_or_default()).map_err(refused)
}

fn invalid(text: impl Into<String>) -> Problem {
    Problem::text(StatusCode::BAD_REQUEST, text)
}

fn refused(why: Refused) -> Problem {
    match why {
        Refused::Missing => Problem::text(StatusCode::NOT_FOUND, "Artifact not found"),
        Refused::Invalid(text) => invalid(text),
        Refused::Failed(error) => {
            tracing::error!(%error, "the store of artifacts failed");
            let text = format!("The file system refused: {}", error.kind());
            Problem::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}
