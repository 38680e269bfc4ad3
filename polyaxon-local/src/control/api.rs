//! The routes below `/api/v1`.

mod body;
mod lineage;
mod list;
mod projects;
mod runs;
mod statuses;

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{Method, StatusCode};
use polyaxon_client::{ProjectRef, RunUuid};
use serde_json::{Map, Value, json};

use super::{Control, NAMESPACE, Problem, Run, streams};
use crate::auth::{self, Access};

type Result<T> = std::result::Result<T, Problem>;
type Api = State<Arc<Control>>;
type RunPath = Path<(String, String, String)>;

/// The API, the streams included. Paths carry no trailing slash here.
pub(crate) fn router(control: Arc<Control>) -> Router {
    let of_runs = |path: &str| format!("/api/v1/{{owner}}/{{project}}/runs{path}");
    let of_run = |path: &str| of_runs(&format!("/{{uuid}}{path}"));
    Router::new()
        .route("/api/v1/installation", get(installation))
        .route("/api/v1/{owner}/projects/create", post(projects::create))
        .route("/api/v1/{owner}/projects/list", get(projects::list))
        .route("/api/v1/{owner}/projects/names", get(projects::names))
        .route("/api/v1/{owner}/{project}", get(projects::read))
        .route(&of_runs(""), get(runs::list).post(runs::create))
        .route(&of_runs("/sync"), post(runs::sync))
        .route(&of_runs("/lineage/artifacts"), get(lineage::of_project))
        .route(
            &of_run(""),
            get(runs::read).patch(runs::change).delete(runs::delete),
        )
        .route(
            &of_run("/statuses"),
            get(statuses::read).post(statuses::post),
        )
        .route(&of_run("/namespace"), get(namespace))
        .route(&of_run("/approve"), post(runs::approve))
        .route(&of_run("/stop"), post(runs::stop))
        .route(&of_run("/skip"), post(runs::skip))
        .route(&of_run("/archive"), post(runs::archive))
        .route(&of_run("/restore"), post(runs::restore))
        .route(&of_run("/invalidate"), post(runs::invalidate))
        .route(&of_run("/restart"), post(runs::restart))
        .route(&of_run("/copy"), post(runs::copy))
        .route(&of_run("/resume"), post(runs::resume))
        .route(
            &of_run("/lineage/artifacts"),
            get(lineage::list).post(lineage::log),
        )
        .route(&of_run("/lineage/artifacts/names"), get(lineage::names))
        .route(
            &of_run("/lineage/artifacts/{name}"),
            get(lineage::read).delete(lineage::delete),
        )
        .merge(streams::routes())
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async |method: Method| {
            let detail = format!("Method \"{method}\" not allowed.");
            Problem::detail(StatusCode::METHOD_NOT_ALLOWED, detail)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&control), guard))
        .with_state(control)
}

async fn guard(State(control): Api, request: Request, next: Next) -> Response {
    let problem = match auth::authorization(request.headers(), &control.token) {
        Access::Granted => return next.run(request).await,
        Access::Missing => "Authentication credentials were not provided.",
        Access::Wrong => "Invalid token.",
    };
    Problem::detail(StatusCode::UNAUTHORIZED, problem).into_response()
}

/// It answers as the open-source edition does, so it says that it is that one: clients decide by it
/// what answers mean, a 405 for one, which there is a database that is locked.
async fn installation(State(control): Api) -> Json<Value> {
    Json(json!({
        "key": control.key(),
        "version": env!("CARGO_PKG_VERSION"),
        "dist": "ce",
        "mode": "sandbox",
    }))
}

async fn namespace(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?;
    Ok(Json(json!({"namespace": NAMESPACE})))
}

fn find_project(control: &Control, owner: &str, name: &str) -> Result<ProjectRef> {
    ProjectRef::new(owner, name)
        .ok()
        .filter(|project| control.project(project).is_some())
        .ok_or_else(|| Problem::no_match("Project"))
}

pub(super) fn find_run(
    control: &Control,
    (owner, project, uuid): &(String, String, String),
) -> Result<Arc<Run>> {
    // Only the spelling without dashes has a route.
    let id: RunUuid = uuid
        .parse()
        .ok()
        .filter(|id: &RunUuid| id.to_string() == *uuid)
        .ok_or_else(Problem::not_found)?;
    let project = find_project(control, owner, project)?;
    control
        .run(id)
        .filter(|run| run.project == project)
        .ok_or_else(|| Problem::no_match("Run"))
}

fn to_json(run: &Run) -> Map<String, Value> {
    let mut members = run.record().to_json();
    members.insert("uuid".to_owned(), json!(run.uuid));
    members.insert("owner".to_owned(), json!(run.project.owner()));
    members.insert("project".to_owned(), json!(run.project.name()));
    members.insert("settings".to_owned(), json!({"namespace": NAMESPACE}));
    members
}
