//! `exec/stream`: a command and its output as server-sent events.
//!
//! The events are read from the logs, as pages are. So a slow reader holds nobody up and takes no
//! memory, and at the end nothing is missing.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName};
use polyaxon_sandbox::process::{ExecEvent, LogStream};
use polyaxon_sandbox::wire::code;
use tokio::sync::watch;
use tokio::time::timeout;

use super::exec::{Border, Exec, Outcome, Progress};
use super::request::Command;
use super::run::Caller;
use crate::daemon::{Refusal, Sandbox, body};

/// Bytes of output in one event at most.
const CHUNK: usize = 256 * 1024;
/// And where characters are broken: small and odd, so that many are.
const BROKEN_CHUNK: usize = 1021;

/// `POST exec/stream`: runs a command and sends its output as it comes. Whoever stops reading does
/// not stop the command: that goes on until its time limit, a signal or a delete.
pub(crate) async fn exec_stream(
    State(sandbox): State<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let request = body::json(&headers, body, sandbox.limits.exec_body).await?;
    let command = Command::check(request, &sandbox.limits)?.awaited()?;
    let exec = sandbox
        .processes
        .start(&sandbox, command, Caller::Leaves)
        .await?;
    let border = Border::of(sandbox.quirks);
    let events = Events::new(exec, border, sandbox.limits.stream_ping);
    let frames = stream::unfold(events, async |mut events| {
        let frame = events.next().await?.to_frame();
        Some((frame.map(Bytes::from), events))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        // Said to proxies that would collect an answer before they pass it on.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(frames)).into_response())
}

/// What is left to be sent of an exec.
struct Events {
    exec: Arc<Exec>,
    progress: watch::Receiver<Progress>,
    border: Border,
    ping: Duration,
    sent: Sent,
    /// The output that is looked at first: the one whose turn it is.
    turn: LogStream,
}

enum Sent {
    Nothing,
    /// How far both outputs are.
    Output {
        stdout: u64,
        stderr: u64,
    },
    All,
}

impl Events {
    fn new(exec: Arc<Exec>, border: Border, ping: Duration) -> Self {
        Self {
            progress: exec.watch(),
            exec,
            border,
            ping,
            sent: Sent::Nothing,
            turn: LogStream::Stdout,
        }
    }

    async fn next(&mut self) -> Option<ExecEvent> {
        let (mut stdout, mut stderr) = match self.sent {
            Sent::Nothing => {
                (self.sent, self.turn) = (
                    Sent::Output {
                        stdout: 0,
                        stderr: 0,
                    },
                    LogStream::Stdout,
                );
                let (id, pid) = (self.exec.exec_id(), self.exec.progress().pid);
                return Some(ExecEvent::start(id, pid, self.exec.started.started_at));
            }
            Sent::Output { stdout, stderr } => (stdout, stderr),
            Sent::All => return None,
        };
        let size = match self.border {
            Border::Characters => CHUNK,
            Border::Bytes => BROKEN_CHUNK,
        };
        loop {
            let now = self.progress.borrow_and_update().clone();
            let mut failed = None;
            for stream in [self.turn, other(self.turn)] {
                let offset = match stream {
                    LogStream::Stdout => &mut stdout,
                    LogStream::Stderr => &mut stderr,
                };
                let page = self.exec.page(&now, stream, *offset, size, self.border);
                match page.await {
                    Ok(page) if page.bytes > 0 => {
                        *offset = page.next_offset;
                        self.sent = Sent::Output { stdout, stderr };
                        self.turn = other(stream);
                        return Some(ExecEvent::output(stream, page.data, page.next_offset));
                    }
                    Ok(_) => {}
                    Err(refusal) => failed = Some(refusal),
                }
            }
            if let Some(refusal) = failed {
                self.sent = Sent::All;
                return Some(ExecEvent::error(code::INTERNAL, refusal.message()));
            }
            match now.outcome {
                Outcome::Running => {}
                Outcome::Ended(end) => {
                    self.sent = Sent::All;
                    return Some(ExecEvent::complete(
                        Some(end.exit_code),
                        end.signal.as_deref().map(Into::into),
                        end.duration_ms,
                        end.timed_out,
                    ));
                }
                Outcome::Orphaned => {
                    self.sent = Sent::All;
                    let message = "how the command ended is not known";
                    return Some(ExecEvent::error(code::INTERNAL, message));
                }
            }
            if timeout(self.ping, self.progress.changed()).await.is_err() {
                return Some(ExecEvent::Ping);
            }
        }
    }
}

fn other(stream: LogStream) -> LogStream {
    match stream {
        LogStream::Stdout => LogStream::Stderr,
        LogStream::Stderr => LogStream::Stdout,
    }
}
