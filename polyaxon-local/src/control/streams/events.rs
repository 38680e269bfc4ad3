//! Series of events, from the files that tracking uploads.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use polyaxon_client::RunUuid;
use serde_json::{Map, Value, json};

use super::{Api, At, Result, find, invalid, parse, refused};
use crate::control::store::{Refused, Store, StorePath};
use crate::control::{lineage, series};
use crate::daemon::Query;

/// What of the series is asked for.
struct Wanted {
    names: Option<BTreeSet<String>>,
    as_text: bool,
    sample: Option<usize>,
}

impl Wanted {
    fn parse(query: &Query) -> Result<Self> {
        let as_text = match query.text("orient") {
            None | Some("dict") => false,
            Some("csv") => true,
            Some(other) => return Err(invalid(format!("orient: {other} is not answered here"))),
        };
        let sample = query.text("sample").map(|text| {
            text.parse()
                .map_err(|_| invalid(format!("sample: {text} is no number")))
        });
        Ok(Self {
            names: query.text("names").map(set),
            as_text,
            sample: sample.transpose()?,
        })
    }
}

fn set(names: &str) -> BTreeSet<String> {
    let names = names.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `GET events/{kind}`
pub(super) async fn of_run(
    State(control): Api,
    Path((namespace, owner, project, uuid, kind)): Path<(String, String, String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let run = find(&control, &(namespace, owner, project, uuid))?;
    let wanted = Wanted::parse(&parse(query.as_deref())?)?;
    let folder = folder(&kind)?;
    let data = read(control.store(), run.uuid, &folder, &kind, &named(wanted)?).await?;
    Ok(Json(json!({"data": data})))
}

/// `GET runs/multi/events/{kind}`
pub(super) async fn of_runs(
    State(control): Api,
    Path((namespace, owner, project, kind)): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let query = parse(query.as_deref())?;
    let runs = query
        .text("runs")
        .ok_or_else(|| invalid("runs: is required"))?;
    let wanted = named(Wanted::parse(&query)?)?;
    let folder = folder(&kind)?;
    let mut data = Map::new();
    for uuid in set(runs) {
        let at = (
            namespace.clone(),
            owner.clone(),
            project.clone(),
            uuid.clone(),
        );
        let series = match find(&control, &at) {
            Ok(run) => read(control.store(), run.uuid, &folder, &kind, &wanted).await?,
            Err(_) => Vec::new(),
        };
        data.insert(uuid, series.into());
    }
    Ok(Json(json!({"data": data})))
}

/// `GET resources`: metrics of the machine that the run was on; all where no names are given.
pub(super) async fn resources(
    State(control): Api,
    Path(at): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let run = find(&control, &at)?;
    let wanted = Wanted::parse(&parse(query.as_deref())?)?;
    let data = read(
        control.store(),
        run.uuid,
        "resources/metric",
        "metric",
        &wanted,
    )
    .await?;
    Ok(Json(json!({"data": data})))
}

fn named(mut wanted: Wanted) -> Result<Wanted> {
    wanted.names.get_or_insert_default();
    Ok(wanted)
}

fn folder(kind: &str) -> Result<String> {
    match lineage::KINDS.contains(&kind) {
        true => Ok(format!("events/{kind}")),
        false => Err(invalid(format!("{kind} is no kind of event"))),
    }
}

async fn read(
    store: &Store,
    run: RunUuid,
    folder: &str,
    kind: &str,
    wanted: &Wanted,
) -> Result<Vec<Value>> {
    let folder = StorePath::parse(folder).map_err(refused)?;
    let texts = match store.texts(run, folder).await {
        Err(Refused::Missing) => return Ok(Vec::new()),
        texts => texts.map_err(refused)?,
    };
    let mut found = Vec::new();
    for (file, text) in texts {
        let Some(name) = file.strip_suffix(".plx") else {
            continue;
        };
        if wanted
            .names
            .as_ref()
            .is_some_and(|names| !names.contains(name))
        {
            continue;
        }
        let data = match wanted.as_text {
            true => Some(text.into()),
            false => series::columns(&text, kind, wanted.sample)
                .map_err(|why| invalid(format!("{file}: {why}")))?,
        };
        found.extend(data.map(|data| json!({"name": name, "kind": kind, "data": data})));
    }
    Ok(found)
}
