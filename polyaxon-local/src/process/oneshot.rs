//! `exec`: a command whose caller waits for its end.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::HeaderMap;
use polyaxon_sandbox::wire::ExecAnswer;
use tokio::sync::oneshot;

use super::request::Command;
use super::run::{Answer, Caller, Lost};
use super::table::closing;
use crate::daemon::{Refusal, Sandbox, body};

/// `POST exec`: runs a command and answers with its end.
pub(crate) async fn exec(
    State(sandbox): State<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ExecAnswer>, Refusal> {
    let request = body::json(&headers, body, sandbox.limits.exec_body).await?;
    let command = Command::check(request, &sandbox.limits)?.awaited()?;
    let (reply, ended) = oneshot::channel();
    let caller = Caller::Waits {
        output: sandbox.limits.exec_output,
        reply,
    };
    let exec = sandbox.processes.start(&sandbox, command, caller).await?;
    let Answer {
        end,
        stdout,
        stderr,
    } = match ended.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(Lost::Unknown(error))) => {
            return Err(Refusal::internal("how the command ended is not known").because(error));
        }
        Ok(Err(Lost::Closing)) | Err(_) => return Err(closing()),
    };
    let (stdout, stdout_truncated) = stdout?;
    let (stderr, stderr_truncated) = stderr?;
    Ok(Json(ExecAnswer {
        exec_id: exec.id.clone(),
        exit_code: Some(end.exit_code),
        signal: end.signal.clone(),
        stdout,
        stderr,
        duration_ms: end.duration_ms,
        timed_out: end.timed_out,
        stdout_truncated,
        stderr_truncated,
    }))
}
