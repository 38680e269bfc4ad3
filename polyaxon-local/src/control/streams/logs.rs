//! Logs: the lines that jobs and tracking clients left in the files of a run.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use serde_json::{Value, json};

use super::{Api, At, Result, find, invalid, parse, refused};
use crate::control::store::{LOGS, Refused, StorePath};

/// `GET logs`: one file after the other. A caller repeats it with the `last_file` of the answer
/// until that is the last of `files`.
pub(super) async fn read(
    State(control): Api,
    Path(at): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let run = find(&control, &at)?;
    let query = parse(query.as_deref())?;
    let folder = StorePath::parse(LOGS).map_err(refused)?;
    let texts = match control.store().texts(run.uuid, folder).await {
        Err(Refused::Missing) => Vec::new(),
        texts => texts.map_err(refused)?,
    };
    let files: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    let next = match query.text("last_file") {
        None => texts.first(),
        Some(last) => texts.iter().find(|(name, _)| name.as_str() > last),
    };
    let mut lines = Vec::new();
    for line in next.map(|(_, text)| text.lines()).into_iter().flatten() {
        if !line.is_empty() {
            let line: Value = serde_json::from_str(line)
                .map_err(|error| invalid(format!("a line of the log is no JSON: {error}")))?;
            lines.push(line);
        }
    }
    Ok(Json(json!({
        "last_time": Value::Null,
        "last_file": next.map(|(name, _)| name),
        "logs": lines,
        "files": files,
    })))
}
