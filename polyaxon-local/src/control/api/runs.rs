//! Runs: made, read, changed, listed, ended.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use http::{HeaderMap, StatusCode, Uri};
use jiff::Timestamp;
use polyaxon_client::RunUuid;
use serde_json::{Map, Value, json};

use super::body::{member, object};
use super::list::{List, page};
use super::statuses::read_condition;
use super::{Api, Result, RunPath, find_project, find_run, to_json};
use crate::control::query::{ARTIFACTS, RUNS};
use crate::control::record::{Given, LiveState, Record};
use crate::control::store::{Refused, StorePath};
use crate::control::{Operation, Problem, Run, patch};

const PENDING: [&str; 4] = ["approval", "upload", "cache", "build"];
const MANAGED_BY: [&str; 3] = ["user", "cli", "agent"];

/// The members of an answer that makes a run. The status is not among them: it takes a `get` or
/// `statuses` to learn it.
const OF_CREATED: [&str; 11] = [
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
/// The members of a run that lists leave out.
const NOT_IN_LISTS: [&str; 7] = [
    ARTIFACTS,
    "content",
    "raw_content",
    "readme",
    "owner",
    "project",
    "live_state",
];

/// `POST runs`
pub(super) async fn create(
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
    Ok(created(&control.create(project, given, operation)))
}

fn created(run: &Run) -> (StatusCode, Json<Map<String, Value>>) {
    let mut answer = to_json(run);
    answer.retain(|name, _| OF_CREATED.contains(&name.as_str()));
    (StatusCode::CREATED, Json(answer))
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
        ..Given::default()
    };
    patch::check_name(given.name.as_deref())?;
    if given.is_managed && given.content.is_none() {
        return Err(Problem::field(
            "non_field_errors",
            "Run expects a `content`.",
        ));
    }
    Ok(given)
}

/// `GET runs`
pub(super) async fn list(
    State(control): Api,
    Path((owner, project)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let project = find_project(&control, &owner, &project)?;
    let list = List::parse(query.as_deref())?;
    let filter = list.filter(&RUNS)?;
    let order = list.order(&RUNS, "-updated_at")?;
    let mut runs: Vec<_> = control
        .runs_of(&project)
        .iter()
        .map(|run| with_artifacts(run))
        .filter(|run| filter.mentions("live_state") || run.get("live_state") == Some(&json!(1)))
        .filter(|run| filter.fits(run))
        .collect();
    order.sort(&mut runs);
    for run in &mut runs {
        run.retain(|name, _| !NOT_IN_LISTS.contains(&name.as_str()));
    }
    Ok(Json(page(&list, runs, &headers, &uri)))
}

/// The run with its lineage, which lists can be asked by.
fn with_artifacts(run: &Run) -> Map<String, Value> {
    let mut item = to_json(run);
    let record = run.record();
    let name = record.given.name.as_deref();
    let artifacts = record.artifacts.iter();
    let artifacts: Vec<_> = artifacts.map(|one| one.to_json(run, name).into()).collect();
    item.insert(ARTIFACTS.to_owned(), Value::Array(artifacts));
    item
}

/// `GET runs/{uuid}`
pub(super) async fn read(
    State(control): Api,
    Path(at): RunPath,
) -> Result<Json<Map<String, Value>>> {
    Ok(Json(to_json(find_run(&control, &at)?.as_ref())))
}

/// `PATCH runs/{uuid}`
pub(super) async fn change(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Map<String, Value>>> {
    let run = find_run(&control, &at)?;
    let body = object(&headers, body).await?;
    patch::apply(&mut run.record(), &body)?;
    Ok(Json(to_json(&run)))
}

/// `DELETE runs/{uuid}`: the run is gone from lists and is stopped; a `get` still finds it.
pub(super) async fn delete(State(control): Api, Path(at): RunPath) -> Result<StatusCode> {
    let run = find_run(&control, &at)?;
    run.record().live_state = LiveState::Deleted;
    run.stop("Deleted", "The run was deleted.");
    Ok(StatusCode::NO_CONTENT)
}

/// `POST runs/{uuid}/archive`: out of the lists, and stopped.
pub(super) async fn archive(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    let run = find_run(&control, &at)?;
    run.record().live_state = LiveState::Archived;
    run.stop("Archived", "The run was archived.");
    Ok(Json(json!({})))
}

/// `POST runs/{uuid}/restore`: back in the lists; its status stays.
pub(super) async fn restore(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?.record().live_state = LiveState::Live;
    Ok(Json(json!({})))
}

/// `POST runs/{uuid}/approve`
pub(super) async fn approve(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    control.approve(&find_run(&control, &at)?);
    Ok(Json(json!({})))
}

/// `POST runs/{uuid}/stop`
pub(super) async fn stop(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?.stop("StoppedByUser", "The run was stopped through the API.");
    Ok(Json(json!({})))
}

/// `POST runs/{uuid}/skip`: only a run that was not queued is skipped; nothing happens to others.
pub(super) async fn skip(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?.record().skip();
    Ok(Json(json!({})))
}

/// `POST runs/{uuid}/restart`
pub(super) async fn restart(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let original = find_run(&control, &at)?;
    let body = object(&headers, body).await?;
    let (given, operation) = clone_of(&original, &body, "restart")?;
    let run = control.create(original.project.clone(), given, operation);
    Ok((StatusCode::CREATED, Json(to_json(&run))))
}

/// `POST runs/{uuid}/copy`: a restart that begins with files of the original: those that
/// `meta_info.copy_artifacts` names, else all.
pub(super) async fn copy(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let original = find_run(&control, &at)?;
    let body = object(&headers, body).await?;
    let paths = copied_paths(&original, &body)?;
    let (given, operation) = clone_of(&original, &body, "copy")?;
    let uuid = RunUuid::random();
    let copied = control.store().copy(original.uuid, uuid, paths).await;
    copied.map_err(|why| {
        let why = match why {
            Refused::Missing => "an artifact to copy is not there".to_owned(),
            Refused::Invalid(text) => text,
            Refused::Failed(error) => error.to_string(),
        };
        Problem::refused(format!("Cloning was not successful, error: {why}."))
    })?;
    let run = control.create_as(uuid, original.project.clone(), given, operation);
    Ok((StatusCode::CREATED, Json(to_json(&run))))
}

/// The files and folders that a copy names; each begins with the uuid of the original.
fn copied_paths(original: &Run, body: &Map<String, Value>) -> Result<Vec<StorePath>> {
    let wrong = || {
        Problem::field(
            "meta_info",
            "copy_artifacts: Expected lists of paths of the run.",
        )
    };
    let Some(named) = body
        .get("meta_info")
        .and_then(|meta| meta.get("copy_artifacts"))
    else {
        return StorePath::parse("")
            .map(|all| vec![all])
            .map_err(|_| wrong());
    };
    let lists = ["files", "dirs"]
        .into_iter()
        .filter_map(|name| named.get(name));
    let paths = lists.map(|list| list.as_array().ok_or_else(wrong));
    let mut copied = Vec::new();
    for path in paths.collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        let text = path.as_str().ok_or_else(wrong)?;
        let below = text
            .strip_prefix(&original.uuid.to_string())
            .filter(|rest| rest.is_empty() || rest.starts_with('/'))
            .ok_or_else(wrong)?;
        copied.push(StorePath::parse(below).map_err(|_| wrong())?);
    }
    Ok(copied)
}

/// `POST runs/{uuid}/resume`: there is nothing left of an ended run that could go on.
pub(super) async fn resume(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?;
    Err(Problem::refused(
        "Cannot resume this run, polyaxon-local resumes none: restart or copy it.",
    ))
}

/// `POST runs/{uuid}/invalidate`: no run is a cache hit here, so nothing changes.
pub(super) async fn invalidate(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    find_run(&control, &at)?;
    Ok(Json(json!({})))
}

/// What a run is made of that is a clone of `original` with the changes in `body`.
fn clone_of(
    original: &Arc<Run>,
    body: &Map<String, Value>,
    kind: &str,
) -> Result<(Given, Option<Operation>)> {
    let text = |name: &str| member::<String>(body, name, "Not a valid string.");
    let of = original.record().given.clone();
    let content = text("content")?.or(of.content).ok_or_else(|| {
        Problem::refused("Cloning was not successful, error: the run has no content.")
    })?;
    let operation = Operation::parse(&content).map_err(Problem::refused)?;
    let given = Given {
        original: Some(json!({"uuid": original.uuid, "name": of.name, "kind": kind})),
        name: text("name")?.or(of.name),
        description: text("description")?.or(of.description),
        tags: member(body, "tags", "Expected a list of items.")?.unwrap_or(of.tags),
        meta_info: member(body, "meta_info", "Value must be valid JSON.")?.or(of.meta_info),
        managed_by: of.managed_by,
        is_managed: of.is_managed,
        content: Some(content),
        ..Given::default()
    };
    patch::check_name(given.name.as_deref())?;
    Ok((given, Some(operation)))
}

/// `POST runs/sync`: takes a run that was somewhere else, as it was.
pub(super) async fn sync(
    State(control): Api,
    Path((owner, project)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let project = find_project(&control, &owner, &project)?;
    let body = object(&headers, body).await?;
    let text = |name: &str| member::<String>(&body, name, "Not a valid string.");
    let uuid = match text("uuid")? {
        Some(uuid) => uuid
            .parse::<RunUuid>()
            .map_err(|error| Problem::field("uuid", error.problem()))?,
        None => RunUuid::random(),
    };
    let time = |name: &str| -> Result<Option<Timestamp>> {
        text(name)?
            .map(|text| {
                text.parse()
                    .map_err(|_| Problem::field(name, "Datetime has wrong format."))
            })
            .transpose()
    };
    let created_at = time("created_at")?
        .ok_or_else(|| Problem::field("created_at", "This field is required."))?;
    let given = Given {
        name: text("name")?,
        description: text("description")?,
        readme: text("readme")?,
        tags: member(&body, "tags", "Expected a list of items.")?.unwrap_or_default(),
        meta_info: member(&body, "meta_info", "Value must be valid JSON.")?,
        managed_by: text("managed_by")?.or_else(|| Some("user".to_owned())),
        inputs: body.get("inputs").cloned().unwrap_or_default(),
        outputs: body.get("outputs").cloned().unwrap_or_default(),
        ..Given::default()
    };
    patch::check_name(given.name.as_deref())?;
    let conditions =
        member::<Vec<Map<String, Value>>>(&body, "status_conditions", "Expected a list of items.")?;
    let conditions = conditions
        .unwrap_or_default()
        .into_iter()
        .map(read_condition)
        .collect::<Result<_>>()?;
    let times = [Some(created_at), time("started_at")?, time("finished_at")?];
    let record = Record::synced(given, conditions, times);
    let run = control
        .add(uuid, project, record)
        .ok_or_else(|| Problem::refused(format!("A run with uuid {uuid} already exists.")))?;
    let mut answer = to_json(&run);
    let conditions = json!(run.record().conditions());
    answer.insert("status_conditions".to_owned(), conditions);
    Ok((StatusCode::CREATED, Json(answer)))
}
