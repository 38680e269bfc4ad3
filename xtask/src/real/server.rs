//! A server of ours for as long as a value lives.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::bounded;

/// How long a server has to end by itself.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A script of `tests/real` that serves. It ends when its stdin is closed: by a drop here, or by the
/// end of this process, whatever that was.
pub(super) struct Server {
    child: Child,
    /// Closed when the child has ended.
    lines: Receiver<String>,
    url: String,
}

impl Server {
    /// Starts a server and waits until it says `{"ready": "http://…"}`.
    pub(super) fn start(name: &str, command: &mut Command, limit: Duration) -> Result<Self> {
        println!("── real: start the {name}");
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the {name}"))?;
        let lines = bounded::lines(&mut child)?;
        let url = String::new();
        // Ended by its drop from here on, whatever happens.
        let mut server = Self { child, lines, url };
        let Ok(line) = server.lines.recv_timeout(limit) else {
            bail!("the {name} did not come up within {} s", limit.as_secs());
        };
        let said: Value = serde_json::from_str(&line)
            .with_context(|| format!("the {name} said {line:?} where it should say its address"))?;
        let url = said.get("ready").and_then(Value::as_str);
        server.url = url.context("the server names no address")?.to_owned();
        println!("   {name}: {:.1} s", started.elapsed().as_secs_f64());
        Ok(server)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        loop {
            match self.lines.recv_timeout(END_LIMIT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("a server did not end when asked, and is killed");
                    let _killed = self.child.kill();
                    break;
                }
            }
        }
        let _ended = self.child.wait();
    }
}
