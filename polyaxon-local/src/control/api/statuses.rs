//! Statuses of runs.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::{HeaderMap, StatusCode};
use polyaxon_client::runs::{RunStatus, StatusCondition};
use serde_json::{Map, Value, json};

use super::body::{member, object};
use super::{Api, Result, RunPath, find_run};
use crate::control::Problem;

/// `GET statuses`
pub(super) async fn read(State(control): Api, Path(at): RunPath) -> Result<Json<Value>> {
    let run = find_run(&control, &at)?;
    let record = run.record();
    Ok(Json(json!({
        "uuid": run.uuid,
        "status": record.status(),
        "status_conditions": record.conditions(),
        "meta_info": record.given.meta_info,
    })))
}

/// `POST statuses`: the answer says nothing, also where the status was ignored.
pub(super) async fn post(
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

pub(super) fn read_condition(mut condition: Map<String, Value>) -> Result<StatusCondition> {
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
