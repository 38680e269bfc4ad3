//! The one command of a plain job, run by the daemon of its run, with its output kept as a log.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use http::{HeaderValue, Method};
use jiff::Timestamp;
use polyaxon_client::RunUuid;
use polyaxon_sandbox::wire::{header, route};
use serde_json::{Value, json};
use tokio::join;
use tokio::time::sleep;
use tower::ServiceExt as _;

use super::store::{LOGS, Refused, Store, StorePath};
use crate::auth::Secret;

/// The file of a job's log.
const LOG: &str = "main.jsonl";
/// The name of the container that a job's command is said to run in.
const CONTAINER: &str = "main";
/// The largest answer that is read: a page of a log, in which each byte can take six.
const ANSWER_BYTES: usize = 8 * 1024 * 1024;

/// How often a command is looked at whose output cannot be followed to its end.
const POLL: Duration = Duration::from_millis(200);

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded(String),
    Failed(String),
}

/// A job whose daemon answers.
pub(super) struct Job {
    pub(super) daemon: Router,
    pub(super) token: Secret,
    pub(super) store: Store,
    pub(super) run: RunUuid,
}

impl Job {
    /// Runs `command` to its end. `first` is the first line of its log.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the command running, until its sandbox is closed.
    pub(super) async fn drive(&self, first: &str, command: Vec<String>) -> Outcome {
        match self.try_drive(first, command).await {
            Ok(outcome) => outcome,
            Err(why) => {
                // The line is for people: the outcome says the same.
                let _logged = self.log(&why).await;
                Outcome::Failed(why)
            }
        }
    }

    async fn try_drive(&self, first: &str, command: Vec<String>) -> Result<Outcome, String> {
        self.log(first).await?;
        let body = json!({"command": command}).to_string();
        let started = self.ask(Method::POST, route::EXEC_BG, body).await?;
        let id = started
            .get("exec_id")
            .and_then(Value::as_str)
            .ok_or("the daemon gave the command no id")?;
        join!(self.keep(id, "stdout"), self.keep(id, "stderr"));
        // Both outputs are at their end now, as a rule with the command itself.
        let path = format!("{}/{id}", route::EXEC_BG);
        loop {
            let status = self.ask(Method::GET, &path, String::new()).await?;
            if status
                .get("finished_at")
                .is_some_and(|time| !time.is_null())
            {
                return Ok(outcome(&status));
            }
            sleep(POLL).await;
        }
    }

    /// Keeps one stream of the exec `id` in the log. Where that fails, a full disk for one, the log
    /// says so and ends, and the command goes on.
    async fn keep(&self, id: &str, stream: &str) {
        if let Err(why) = self.follow(id, stream).await {
            tracing::warn!(run = %self.run, stream, why, "the log of a job is not complete");
            let line = format!("The log of {stream} is not complete: {why}.");
            let _logged = self.log(&line).await;
        }
    }

    /// Copies one stream of the exec `id` into the log until its end, line by line.
    async fn follow(&self, id: &str, stream: &str) -> Result<(), String> {
        let mut offset = 0;
        let mut begun = String::new();
        loop {
            let path = format!(
                "{}/{id}/logs?stream={stream}&offset={offset}&follow=true",
                route::EXEC_BG
            );
            let page = self.ask(Method::GET, &path, String::new()).await?;
            begun.push_str(page.get("data").and_then(Value::as_str).unwrap_or_default());
            offset = page
                .get("next_offset")
                .and_then(Value::as_u64)
                .ok_or("a page of the log has no next offset")?;
            let is_end = page.get("eof") == Some(&Value::Bool(true));
            if let Some(end) = begun.rfind('\n') {
                let rest = begun.split_off(end + 1);
                self.log(&begun).await?;
                begun = rest;
            }
            if is_end {
                return self.log(&begun).await;
            }
        }
    }

    /// Adds the lines of `text` to the log.
    async fn log(&self, text: &str) -> Result<(), String> {
        let now = Timestamp::now();
        let pod = self.run.to_string();
        let lines: String = text
            .lines()
            .map(|line| {
                let line = json!({
                    "timestamp": now,
                    "node": "local",
                    "pod": pod,
                    "container": CONTAINER,
                    "value": line,
                });
                format!("{line}\n")
            })
            .collect();
        if lines.is_empty() {
            return Ok(());
        }
        let path = StorePath::parse(LOGS).and_then(|folder| folder.join(LOG));
        let appended = async { self.store.append(self.run, path?, lines).await };
        appended.await.map_err(|why| match why {
            Refused::Failed(error) => format!("the log cannot be written: {error}"),
            Refused::Missing | Refused::Invalid(_) => "the log cannot be written".to_owned(),
        })
    }

    /// Asks the command to end.
    pub(super) async fn terminate(&self) {
        let Ok(list) = self.ask(Method::GET, route::EXEC_BG, String::new()).await else {
            return;
        };
        let execs = list.get("execs").and_then(Value::as_array);
        for exec in execs.into_iter().flatten() {
            if let Some(id) = exec.get("exec_id").and_then(Value::as_str) {
                let path = format!("{}/{id}/signal", route::EXEC_BG);
                let body = json!({"signal": "SIGTERM"}).to_string();
                // One that has ended meanwhile needs no signal.
                let _asked = self.ask(Method::POST, &path, body).await;
            }
        }
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> Result<Value, String> {
        let token = HeaderValue::from_str(self.token.expose()).map_err(|e| e.to_string())?;
        let request = Request::builder()
            .method(method)
            .uri(format!("/{path}"))
            .header(header::SANDBOX_TOKEN, token)
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        let response = match self.daemon.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        let bytes = to_bytes(response.into_body(), ANSWER_BYTES)
            .await
            .map_err(|error| error.to_string())?;
        let answer: Value = match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes).map_err(|error| error.to_string())?,
        };
        match status.is_success() {
            true => Ok(answer),
            false => Err(answer
                .pointer("/error/message")
                .and_then(Value::as_str)
                .unwrap_or("the daemon refused the command")
                .to_owned()),
        }
    }
}

fn outcome(status: &Value) -> Outcome {
    let signal = status.get("signal").and_then(Value::as_str);
    let code = status.get("exit_code").and_then(Value::as_i64);
    match (signal, code) {
        (Some(signal), _) => Outcome::Failed(format!("The command was ended by {signal}.")),
        (None, Some(0)) => Outcome::Succeeded("The command ended with exit code 0.".to_owned()),
        (None, Some(code)) => Outcome::Failed(format!("The command ended with exit code {code}.")),
        (None, None) => Outcome::Failed("How the command ended is not known.".to_owned()),
    }
}
