//! Commands.

use std::time::Duration;

use polyaxon_sandbox::process::{LogStream, Logs, Signal};
use polyaxon_sandbox::{Error, Exec, SandboxClient};

use super::{Made, NOT_WRITTEN};

const SOON: Duration = Duration::from_secs(60);

pub(super) async fn make(call: &str, sandbox: &SandboxClient) -> Result<Made, Error> {
    if let Some(of_exec) = call.strip_prefix("exec.") {
        let exec = match of_exec {
            "timeout_negative" => {
                return Ok(Made::NotOffered("a time limit is never below zero"));
            }
            "unicode_args" => {
                return Ok(Made::NotOffered("no program can be given a NUL: refused"));
            }
            other => exec(other),
        };
        let Some(exec) = exec else {
            return Ok(Made::NotOffered(NOT_WRITTEN));
        };
        sandbox.process().exec(&exec).await?;
        return Ok(Made::Sent);
    }
    let process = sandbox.process();
    let bg = process.bg("exec-1");
    let started = async || process.exec_bg(&Exec::new(["true"])).await;
    match call {
        "exec_stream.minimal" => {
            let events = process.exec_stream(&Exec::new(["true"])).await?;
            events.collect(1024).await?;
        }
        "exec_stream.all" => {
            let exec = Exec::new(["sh", "-c", "cat"])
                .env("A", "1")
                .env_remove("UNSET")
                .workdir("/tmp")
                .stdin("x")
                .timeout(Duration::from_secs(1));
            process.exec_stream(&exec).await?.collect(1024).await?;
        }
        "exec_bg.minimal" => drop(started().await?),
        "exec_bg.all" => {
            let exec = Exec::new(["sleep", "9"])
                .env_remove("A")
                .workdir("/")
                .stdin("x")
                .timeout(Duration::from_secs(60))
                .tag("nightly");
            process.exec_bg(&exec).await?;
        }
        "exec_bg.tag_empty" => drop(process.exec_bg(&Exec::new(["true"]).tag("")).await?),
        "exec_bg.list" => drop(process.list().await?),
        "exec_bg.list_tag" => drop(process.list_tagged("nightly").await?),
        "exec_bg.list_tag_odd" => drop(process.list_tagged("a b/c+d%e&f=g#é").await?),
        "exec_bg.list_tag_empty" => drop(process.list_tagged("").await?),
        "exec_bg.get" => drop(bg.status().await?),
        "exec_bg.logs.default" => drop(bg.logs(Logs::new()).await?),
        "exec_bg.logs.all" => {
            let part = Logs::new()
                .stream(LogStream::Stderr)
                .offset(5)
                .max_bytes(10);
            bg.logs(part).await?;
        }
        "exec_bg.logs.zero" => drop(bg.logs(Logs::new().offset(0).max_bytes(0)).await?),
        "exec_bg.signal" => bg.signal(Signal::Term).await?,
        "exec_bg.delete" => bg.delete().await?,
        "exec_bg.handle.stdout" => drop(started().await?.logs(from(LogStream::Stdout, 0)).await?),
        "exec_bg.handle.stderr_range" => {
            let part = from(LogStream::Stderr, 3).max_bytes(4);
            started().await?.logs(part).await?;
        }
        "exec_bg.handle.output" => {
            let bg = started().await?;
            bg.logs(from(LogStream::Stdout, 0)).await?;
            bg.logs(from(LogStream::Stderr, 0)).await?;
        }
        "exec_bg.handle.kill" => started().await?.signal(Signal::Term).await?,
        "exec_bg.handle.wait" => drop(started().await?.wait(SOON).await?),
        "exec_bg.handle.iter_logs" => {
            let bg = started().await?;
            for offset in [0, 4, 8] {
                let part = from(LogStream::Stdout, offset).max_bytes(4);
                bg.logs(part).await?;
            }
        }
        _ => return Ok(Made::NotOffered(NOT_WRITTEN)),
    }
    Ok(Made::Sent)
}

fn from(stream: LogStream, offset: u64) -> Logs {
    Logs::new().stream(stream).offset(offset)
}

fn exec(call: &str) -> Option<Exec> {
    let cat = Exec::new(["cat"]);
    let plain = Exec::new(["true"]);
    Some(match call {
        // The service reads a limit of zero, and no folder, as none that is named; so they are not.
        "minimal" | "timeout_zero" | "workdir_empty" => plain,
        "env_empty" => Exec::new(["env"]),
        "tuple_generator" => Exec::new(["echo", "hi"]),
        "all" => Exec::new(["sh", "-c", "cat"])
            .env("A", "1")
            .env("EMPTY", "")
            .env_remove("UNSET")
            .env("U", "é")
            .workdir("/tmp")
            .stdin("héllo")
            .timeout(Duration::from_millis(1500)),
        "stdin_bytes" => cat.stdin(&[0x00, 0xff, 0xfe, 0x0a][..]),
        "stdin_bytearray" => cat.stdin(vec![b'x']),
        "stdin_empty_str" | "stdin_empty_bytes" => cat.stdin(""),
        _ => return None,
    })
}
