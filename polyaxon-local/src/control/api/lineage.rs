//! What runs say they read and made.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Map, Value, json};

use super::list::{List, page};
use super::{Api, Result, RunPath, body, find_project, find_run};
use crate::control::lineage::Artifact;
use crate::control::query::LINEAGE;
use crate::control::{Problem, Run};
use crate::daemon::Query;

type ArtifactPath = Path<(String, String, String, String)>;

/// `POST lineage/artifacts`: all of them are taken, or none.
pub(super) async fn log(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode> {
    let run = find_run(&control, &at)?;
    let sent = match body::value(&headers, body).await? {
        Value::Object(mut members) => members.remove("artifacts").unwrap_or_default(),
        list => list,
    };
    let Value::Array(sent) = sent else {
        return Err(Problem::refused("Received no artifacts."));
    };
    let artifacts = sent
        .iter()
        .map(|artifact| Artifact::read(artifact, &run).map_err(Problem::refused))
        .collect::<Result<Vec<_>>>()?;
    let mut record = run.record();
    for artifact in artifacts {
        artifact.insert(&mut record.artifacts);
    }
    Ok(StatusCode::CREATED)
}

/// `GET lineage/artifacts`
pub(super) async fn list(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let run = find_run(&control, &at)?;
    listed(of_run(&run), query.as_deref(), &headers, &uri)
}

/// `GET lineage/artifacts/names`
pub(super) async fn names(
    State(control): Api,
    Path(at): RunPath,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let list = List::parse(query.as_deref())?;
    list.refuse_query_and_sort()?;
    let mut artifacts = of_run(find_run(&control, &at)?.as_ref());
    for artifact in &mut artifacts {
        artifact.retain(|member, _| member == "name");
    }
    artifacts.dedup();
    Ok(Json(page(&list, artifacts, &headers, &uri)))
}

/// `GET runs/lineage/artifacts`: those of all runs of a project; with `mode=distinct` each name,
/// kind and direction once.
pub(super) async fn of_project(
    State(control): Api,
    Path((owner, project)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let project = find_project(&control, &owner, &project)?;
    let runs = control.runs_of(&project);
    let mut artifacts: Vec<_> = runs.iter().flat_map(|run| of_run(run)).collect();
    let mode = Query::parse(query.as_deref()).ok();
    if mode.is_some_and(|query| query.text("mode") == Some("distinct")) {
        let mut seen: Vec<Map<String, Value>> = Vec::new();
        for mut artifact in artifacts {
            artifact.retain(|member, _| ["name", "kind", "is_input"].contains(&member.as_str()));
            if !seen.contains(&artifact) {
                seen.push(artifact);
            }
        }
        artifacts = seen;
    }
    listed(artifacts, query.as_deref(), &headers, &uri)
}

/// `GET lineage/artifacts/{name}`
pub(super) async fn read(
    State(control): Api,
    Path((owner, project, uuid, name)): ArtifactPath,
) -> Result<Json<Map<String, Value>>> {
    let run = find_run(&control, &(owner, project, uuid))?;
    let found = of_run(&run)
        .into_iter()
        .find(|artifact| artifact.get("name") == Some(&json!(name)));
    found.map(Json).ok_or_else(no_artifact)
}

/// `DELETE lineage/artifacts/{name}`
pub(super) async fn delete(
    State(control): Api,
    Path((owner, project, uuid, name)): ArtifactPath,
) -> Result<StatusCode> {
    let run = find_run(&control, &(owner, project, uuid))?;
    let mut record = run.record();
    let before = record.artifacts.len();
    record.artifacts.retain(|artifact| artifact.name != name);
    match record.artifacts.len() < before {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_artifact()),
    }
}

fn no_artifact() -> Problem {
    Problem::no_match("ArtifactLineage")
}

fn of_run(run: &Run) -> Vec<Map<String, Value>> {
    let record = run.record();
    let name = record.given.name.as_deref();
    let artifacts = record.artifacts.iter();
    artifacts
        .map(|artifact| artifact.to_json(run, name))
        .collect()
}

fn listed(
    mut artifacts: Vec<Map<String, Value>>,
    query: Option<&str>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Json<Value>> {
    let list = List::parse(query)?;
    let filter = list.filter(&LINEAGE)?;
    artifacts.retain(|artifact| filter.fits(artifact));
    list.order(&LINEAGE, "")?.sort(&mut artifacts);
    Ok(Json(page(&list, artifacts, headers, uri)))
}
