//! `exec/bg`: commands that nobody waits for, and the records and logs of execs of every kind.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use http::{HeaderMap, StatusCode};
use polyaxon_sandbox::process::{ExecList, ExecStarted, ExecStatus, LogPage, LogStream};
use polyaxon_sandbox::wire::SignalRequest;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::exec::{Border, Exec, Order};
use super::request::Command;
use super::run::Caller;
use super::{signal, tag};
use crate::daemon::{Query, Refusal, Sandbox, body};
use crate::quirks::Quirk;

type Id = Result<Path<String>, PathRejection>;

fn find(sandbox: &Sandbox, id: Id) -> Result<Arc<Exec>, Refusal> {
    let Path(id) = id.map_err(|_| Refusal::not_found("no such exec"))?;
    sandbox.processes.get(&id)
}

/// `POST exec/bg`: starts a command that goes on until its time limit.
pub(crate) async fn start(
    State(sandbox): State<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<ExecStarted>), Refusal> {
    let request = body::json(&headers, body, sandbox.limits.exec_body).await?;
    let command = Command::check(request, &sandbox.limits)?;
    let exec = sandbox
        .processes
        .start(&sandbox, command, Caller::Leaves)
        .await?;
    let started = ExecStarted {
        exec_id: exec.exec_id(),
        pid: exec.progress().pid,
        started_at: Some(exec.started.started_at),
        tag: exec.started.tag.clone(),
    };
    Ok((StatusCode::ACCEPTED, Json(started)))
}

/// `GET exec/bg`: all execs, or that with a tag.
pub(crate) async fn list(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
) -> Result<Json<ExecList>, Refusal> {
    let query = Query::parse(query.as_deref())?;
    let tag = query.text("tag");
    if let Some(tag) = tag {
        tag::check(tag)?;
    }
    Ok(Json(ExecList {
        execs: sandbox.processes.list(tag),
    }))
}

/// `GET exec/bg/{id}`: the record of one.
pub(crate) async fn get(
    State(sandbox): State<Arc<Sandbox>>,
    id: Id,
) -> Result<Json<ExecStatus>, Refusal> {
    Ok(Json(find(&sandbox, id)?.status()))
}

/// `GET exec/bg/{id}/logs`: a page of its output; with `follow` one that has something in it, or
/// the end, if either comes in time.
pub(crate) async fn logs(
    State(sandbox): State<Arc<Sandbox>>,
    id: Id,
    RawQuery(query): RawQuery,
) -> Result<Json<LogPage>, Refusal> {
    let limits = &sandbox.limits;
    let query = Query::parse(query.as_deref())?;
    let stream = match query.text("stream") {
        None | Some("stdout") => LogStream::Stdout,
        Some("stderr") => LogStream::Stderr,
        Some(other) => {
            return Err(Refusal::invalid(format!(
                "stream: {other:?} is neither `stdout` nor `stderr`"
            )));
        }
    };
    let offset = query.number("offset", 0, 0)?;
    let max = query.number("max_bytes", limits.log_page as u64, 1)?;
    let max = usize::try_from(max).map_or(limits.log_page_max, |max| max.min(limits.log_page_max));
    let follow = query.flag("follow", false)? && !sandbox.quirks.has(Quirk::NoFollow);
    let exec = find(&sandbox, id)?;
    if !exec.background && sandbox.quirks.has(Quirk::BackgroundLogsOnly) {
        return Err(Refusal::not_found("no such background exec"));
    }
    let border = Border::of(sandbox.quirks);

    let mut progress = exec.watch();
    let deadline = Instant::now() + limits.follow;
    loop {
        let now = progress.borrow_and_update().clone();
        let page = exec.page(&now, stream, offset, max, border).await?;
        let worth_it = page.bytes > 0 || !now.is_running();
        if worth_it || !follow || timeout_at(deadline, progress.changed()).await.is_err() {
            return Ok(Json(page));
        }
    }
}

/// `POST exec/bg/{id}/signal`: to its process group; nothing where it has ended.
pub(crate) async fn send_signal(
    State(sandbox): State<Arc<Sandbox>>,
    id: Id,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Refusal> {
    // First of all, so that an answer never leaves a connection with a body that nobody reads.
    let request: SignalRequest = body::json(&headers, body, sandbox.limits.json_body).await?;
    let exec = find(&sandbox, id)?;
    let signal = signal::allowed(&request.signal)?;
    let (sent, done) = oneshot::channel();
    if exec.order(Order::Signal(signal, sent)).await {
        // An error is an end that came first.
        let _done = done.await;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE exec/bg/{id}`: ends it, SIGTERM first, and removes its record and logs.
pub(crate) async fn delete(
    State(sandbox): State<Arc<Sandbox>>,
    id: Id,
) -> Result<StatusCode, Refusal> {
    let exec = find(&sandbox, id)?;
    let mut progress = exec.watch();
    if exec.order(Order::Delete).await {
        // Its task removes it, whether this caller waits for that or not.
        drop(progress.wait_for(|now| now.removed).await);
    } else {
        drop(progress.wait_for(|now| !now.is_running()).await);
        sandbox.processes.remove(&exec.id).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
