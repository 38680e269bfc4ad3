//! The routes below `/api/v1`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, Method, StatusCode};
use polyaxon_client::runs::{RunStatus, StatusCondition};
use polyaxon_client::{ProjectRef, RunUuid};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Control, Given, NAMESPACE, Operation, Problem, Run};
use crate::auth::{self, Access};
use crate::daemon::body;

type Result<T> = std::result::Result<T, Problem>;
type Api = State<Arc<Control>>;

/// The largest JSON body. The platform has no limit of its own; this keeps memory bounded.
const BODY_BYTES: usize = 32 * 1024 * 1024;
/// The longest name of a run.
const NAME_CHARS: usize = 128;
const PENDING: [&str; 4] = ["approval", "upload", "cache", "build"];
const MANAGED_BY: [&str; 3] = ["user", "cli", "agent"];

/// The API. Paths carry no trailing slash here.
pub(crate) fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route("/api/v1/{owner}/projects/create", post(create_project))
        .route("/api/v1/{owner}/{project}/runs", post(create))
        .route("/api/v1/{owner}/{project}/runs/{uuid}", get(read))
        .route(
            "/api/v1/{owner}/{project}/runs/{uuid}/statuses",
            get(statuses).post(post_status),
        )
        .route(
            "/api/v1/{owner}/{project}/runs/{uuid}/namespace",
            get(namespace),
        )
        .route(
            "/api/v1/{owner}/{project}/runs/{uuid}/approve",
            post(approve),
        )
        .route("/api/v1/{owner}/{project}/runs/{uuid}/stop", post(stop))
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

async fn create_project(
    State(control): Api,
    Path(owner): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let body = object(&headers, body).await?;
    let name: String = member(&body, "name", "Not a valid string.")?
        .ok_or_else(|| Problem::field("name", "This field is required."))?;
    let project = ProjectRef::new(&owner, &name).map_err(|error| {
        Problem::field(
            error.field().replace("project", "name").as_str(),
            error.problem(),
        )
    })?;
    let answer = json!({"owner": project.owner(), "name": project.name()});
    match control.add_project(project) {
        true => Ok((StatusCode::CREATED, Json(answer))),
        false => Err(Problem::field(
            "name",
            "project with this name already exists.",
        )),
    }
}

async fn create(
    State(control): Api,
    Path((owner, project)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let project = find_project(&control, &owner, &project)?;
    let given = given(&object(&headers, body).await?)?;
    let operation = match &given.content {
        Some(content) => Some(Operation::parse(content).map_err(Problem::refused)?),
        None => None,
    };
    let run = control.create(project, given, operation);
    let whole = to_json(&run);
    // The answer has no status; it takes a `get` or `statuses` to learn it.
    let members = [
        "uuid",
        "kind",
        "name",
        "description",
        "content",
        "is_managed",
        "managed_by",
        "pending",
        "meta_info",
        "tags",
        "settings",
    ];
    let answer: Map<String, Value> = whole
        .into_iter()
        .filter(|(name, _)| members.contains(&name.as_str()))
        .collect();
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Checks the members of a `create` body. Unknown ones are ignored, as the platform does it.
fn given(body: &Map<String, Value>) -> Result<Given> {
    let text = |name: &str| member::<String>(body, name, "Not a valid string.");
    let choice = |name: &'static str, choices: &[&str]| match text(name)? {
        Some(word) if !choices.contains(&word.as_str()) => Err(Problem::field(
            name,
            format!("\"{word}\" is not a valid choice."),
        )),
        word => Ok(word),
    };
    let managed_by = choice("managed_by", &MANAGED_BY)?;
    let is_managed = member(body, "is_managed", "Must be a valid boolean.")?;
    let is_managed = is_managed.unwrap_or(managed_by.as_deref().is_none_or(|by| by == "agent"));
    let given = Given {
        name: text("name")?,
        description: text("description")?,
        tags: member(body, "tags", "Expected a list of items.")?.unwrap_or_default(),
        meta_info: member(body, "meta_info", "Value must be valid JSON.")?,
        managed_by: managed_by
            .or_else(|| Some(if is_managed { "agent" } else { "user" }.to_owned())),
        is_managed,
        pending: choice("pending", &PENDING)?,
        content: text("content")?,
    };
    if given
        .name
        .as_ref()
        .is_some_and(|name| name.chars().count() > NAME_CHARS)
    {
        let text = format!("Ensure this field has no more than {NAME_CHARS} characters.");
        return Err(Problem::field("name", text));
    }
    if given.is_managed && given.content.is_none() {
        return Err(Problem::field(
            "non_field_errors",
            "Run expects a `content`.",
        ));
    }
    Ok(given)
}

type RunPath = Path<(String, String, String)>;

async fn read(State(control): Api, Path(at): RunPath) -> Result<Json<Map<String, Value>>> {
    Ok(Json(to_json(find_run(&control, &at)?.as_ref())))
}

async fn statuses(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    let run = find_run(&control, &at)?;
    let record = run.record();
    Ok(Json(json!({
        "uuid": run.uuid,
        "status": record.status(),
        "status_conditions": record.conditions(),
        "meta_info": record.given.meta_info,
    })))
}

async fn post_status(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let run = find_run(&control, &at)?;
    let body = object(&headers, body).await?;
    let force = member(&body, "force", "Must be a valid boolean.")?.unwrap_or(false);
    let wanted = "Expected a dictionary of items.";
    if let Some(condition) = member::<Map<String, Value>>(&body, "condition", wanted)? {
        let condition = read_condition(condition)?;
        run.record().post(condition, force);
    }
    let nothing = json!({"status": null, "status_conditions": null, "meta_info": null});
    Ok((StatusCode::CREATED, Json(nothing)))
}

fn read_condition(mut condition: Map<String, Value>) -> Result<StatusCondition> {
    if let Some(Value::String(word)) = condition.get_mut("type") {
        *word = word.to_lowercase();
    }
    let mut condition: StatusCondition = serde_json::from_value(Value::Object(condition))
        .map_err(|error| Problem::field("condition", error.to_string()))?;
    if let RunStatus::Other(word) = &condition.kind {
        return Err(Problem::field(
            "condition",
            format!("\"{word}\" is no status."),
        ));
    }
    let now = jiff::Timestamp::now();
    condition.last_update_time.get_or_insert(now);
    condition.last_transition_time.get_or_insert(now);
    Ok(condition)
}

async fn namespace(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?;
    Ok(Json(json!({"namespace": NAMESPACE})))
}

async fn approve(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    control.approve(&find_run(&control, &at)?);
    Ok(Json(json!({})))
}

async fn stop(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?.stop("StoppedByUser", "The run was stopped through the API.");
    Ok(Json(json!({})))
}

fn find_project(control: &Control, owner: &str, name: &str) -> Result<ProjectRef> {
    ProjectRef::new(owner, name)
        .ok()
        .filter(|project| control.has_project(project))
        .ok_or_else(|| Problem::no_match("Project"))
}

fn find_run(
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

/// The body, a JSON object; none at all counts as an empty one.
async fn object(headers: &HeaderMap, body: Body) -> Result<Map<String, Value>> {
    let bytes = body::bytes(headers, body, BODY_BYTES).await.map_err(|_| {
        let detail = format!("The body broke off or is larger than {BODY_BYTES} bytes.");
        Problem::detail(StatusCode::PAYLOAD_TOO_LARGE, detail)
    })?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Problem::field(
            "non_field_errors",
            "Invalid data. Expected a dictionary.",
        )),
        Err(error) => Err(Problem::detail(
            StatusCode::BAD_REQUEST,
            format!("JSON parse error - {error}"),
        )),
    }
}

/// The member `name`, where it is there and not null.
fn member<T: DeserializeOwned>(
    body: &Map<String, Value>,
    name: &str,
    problem: &str,
) -> Result<Option<T>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|_| Problem::field(name, problem)),
    }
}
