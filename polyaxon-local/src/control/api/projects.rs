//! Projects.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::IntoResponse;
use http::{HeaderMap, StatusCode, Uri};
use polyaxon_client::ProjectRef;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::body::{member, object};
use super::list::{List, page};
use super::{Api, Result, find_project};
use crate::control::{Control, Problem, Project};

/// `POST projects/create`
pub(super) async fn create(
    State(control): Api,
    Path(owner): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<impl IntoResponse> {
    let body = object(&headers, body).await?;
    let name: String = member(&body, "name", "Not a valid string.")?
        .ok_or_else(|| Problem::field("name", "This field is required."))?;
    let place = ProjectRef::new(&owner, &name).map_err(|error| {
        Problem::field(
            error.field().replace("project", "name").as_str(),
            error.problem(),
        )
    })?;
    let mut project = Project::new();
    project.description = member(&body, "description", "Not a valid string.")?;
    project.tags = member(&body, "tags", "Expected a list of items.")?.unwrap_or_default();
    project.is_public = member(&body, "is_public", "Must be a valid boolean.")?.unwrap_or_default();
    let answer = to_json(&place, &project);
    match control.add_project(place, project) {
        true => Ok((StatusCode::CREATED, Json(answer))),
        false => Err(Problem::field(
            "name",
            "project with this name already exists.",
        )),
    }
}

/// `GET projects/list`
pub(super) async fn list(
    State(control): Api,
    Path(owner): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let list = List::parse(query.as_deref())?;
    list.refuse_query_and_sort()?;
    Ok(Json(page(
        &list,
        of_owner(&control, &owner),
        &headers,
        &uri,
    )))
}

/// `GET projects/names`
pub(super) async fn names(
    State(control): Api,
    Path(owner): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let list = List::parse(query.as_deref())?;
    list.refuse_query_and_sort()?;
    let mut projects = of_owner(&control, &owner);
    for project in &mut projects {
        project.retain(|member, _| member == "name");
    }
    Ok(Json(page(&list, projects, &headers, &uri)))
}

/// `GET {owner}/{project}`
pub(super) async fn read(
    State(control): Api,
    Path((owner, name)): Path<(String, String)>,
) -> Result<Json<Map<String, Value>>> {
    let place = find_project(&control, &owner, &name)?;
    let project = control
        .project(&place)
        .ok_or_else(|| Problem::no_match("Project"))?;
    Ok(Json(to_json(&place, &project)))
}

fn of_owner(control: &Control, owner: &str) -> Vec<Map<String, Value>> {
    let mut projects = control.projects_of(owner);
    projects.sort_unstable_by(|(one, _), (other, _)| one.name().cmp(other.name()));
    projects
        .iter()
        .map(|(place, project)| to_json(place, project))
        .collect()
}

fn to_json(place: &ProjectRef, project: &Project) -> Map<String, Value> {
    let Project {
        uuid,
        description,
        tags,
        is_public,
        created_at,
    } = project;
    let value = json!({
        "uuid": Uuid::simple(*uuid).to_string(),
        "owner": place.owner(),
        "name": place.name(),
        "description": description,
        "tags": tags,
        "is_public": is_public,
        "created_at": created_at,
        "updated_at": created_at,
        "live_state": 1,
        "bookmarked": false,
    });
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
