//! What an answer has to look like: its status, its headers, the members of its body.

use serde_json::Value;

use crate::raw::Answer;

/// What is wrong, in words.
pub(crate) type Check = Result<(), String>;

/// Refuses with both values where they are not the same.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what is compared is mostly an option of a reference"
)]
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, want: T) -> Check {
    match is == want {
        true => Ok(()),
        false => Err(format!("{what}: {is:?}, not {want:?}")),
    }
}

pub(crate) fn status(answer: &Answer, want: u16) -> Check {
    match answer.status == want {
        true => Ok(()),
        false => Err(format!("{}, not {want}: {}", answer.status, answer.text())),
    }
}

fn kind(answer: &Answer, want: &str) -> Check {
    let is = answer.header("content-type").unwrap_or_default();
    same("content type", is.split(';').next().unwrap(), want)
}

/// A body in JSON with `want` as status.
pub(crate) fn json(answer: &Answer, want: u16) -> Result<Value, String> {
    status(answer, want)?;
    kind(answer, "application/json")?;
    answer.json()
}

/// JSON of the daemon, whose answers have an id.
pub(crate) fn daemon_json(answer: &Answer, want: u16) -> Result<Value, String> {
    let body = json(answer, want)?;
    request_id(answer)?;
    Ok(body)
}

pub(crate) fn request_id(answer: &Answer) -> Check {
    let id = answer.header("x-request-id").unwrap_or_default();
    match id.len() == 36 && id.bytes().filter(|byte| *byte == b'-').count() == 4 {
        true => Ok(()),
        false => Err(format!("x-request-id is {id:?}")),
    }
}

/// An object with `always`, and with nothing else but `sometimes`.
pub(crate) fn members(value: &Value, always: &[&str], sometimes: &[&str]) -> Check {
    let object = value
        .as_object()
        .ok_or_else(|| format!("no object: {value}"))?;
    if let Some(missing) = always.iter().find(|name| !object.contains_key(**name)) {
        return Err(format!("{missing} is missing: {value}"));
    }
    let known = |name: &str| always.contains(&name) || sometimes.contains(&name);
    match object.keys().find(|name| !known(name)) {
        Some(strange) => Err(format!("{strange} is not in the document: {value}")),
        None => Ok(()),
    }
}

/// A time in UTC with `Z`.
pub(crate) fn time(value: &Value) -> Check {
    let text = value.as_str().unwrap_or_default();
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let shaped = text.ends_with('Z')
        && text.as_bytes().get(10) == Some(&b'T')
        && (14..=23).contains(&digits);
    match shaped {
        true => Ok(()),
        false => Err(format!("{value} is no time")),
    }
}

/// The gateway's own page.
pub(crate) fn page(answer: &Answer, want: u16) -> Check {
    status(answer, want)?;
    kind(answer, "text/html")?;
    match answer.text().contains(&format!("<title>{want} ")) {
        true => Ok(()),
        false => Err(format!("no page: {}", answer.text())),
    }
}

/// The error envelope.
pub(crate) fn refused(answer: &Answer, want: u16, code: &str) -> Check {
    let body = daemon_json(answer, want)?;
    members(&body, &["error"], &[])?;
    members(&body["error"], &["code", "message"], &["details"])?;
    same("code", body["error"]["code"].as_str(), Some(code))?;
    match body["error"]["message"].as_str() {
        Some(message) if !message.is_empty() => Ok(()),
        _ => Err(format!("no message: {body}")),
    }
}

/// A page of a file.
pub(crate) fn bytes(answer: &Answer, offset: usize, text: &str, eof: bool) -> Check {
    status(answer, 200)?;
    request_id(answer)?;
    kind(answer, "application/octet-stream")?;
    same("body", answer.text().as_str(), text)?;
    let next = (offset + text.len()).to_string();
    same(
        "next offset",
        answer.header("x-polyaxon-next-offset"),
        Some(&next),
    )?;
    same(
        "eof",
        answer.header("x-polyaxon-eof"),
        Some(&eof.to_string()),
    )
}

pub(crate) fn ping(answer: &Answer) -> Check {
    let body = json(answer, 200)?;
    same("x-request-id", answer.header("x-request-id"), None)?;
    let counts = [
        "execs_running",
        "ptys_running",
        "ptys_attached",
        "uptime_ms",
    ];
    let all = [&counts[..], &["status", "version", "last_activity"]].concat();
    members(&body, &all, &[])?;
    same("status", body["status"].as_str(), Some("ok"))?;
    time(&body["last_activity"])?;
    match counts.iter().all(|name| body[*name].is_u64()) {
        true => Ok(()),
        false => Err(format!("a count is no number: {body}")),
    }
}

/// The answer of a one-shot exec that exits with 0.
pub(crate) fn exec(answer: &Answer, stdout: Option<&str>) -> Check {
    let body = daemon_json(answer, 200)?;
    let always = [
        "exec_id",
        "exit_code",
        "stdout",
        "stderr",
        "duration_ms",
        "timed_out",
    ];
    members(&body, &always, &[])?;
    same("exit code", body["exit_code"].as_i64(), Some(0))?;
    same("timed out", body["timed_out"].as_bool(), Some(false))?;
    same("stderr", body["stderr"].as_str(), Some(""))?;
    match stdout {
        Some(text) => same("stdout", body["stdout"].as_str(), Some(text)),
        None => same("empty", body["stdout"].as_str(), Some(""))
            .map_or_else(|_| Ok(()), |()| Err("stdout is empty".to_owned())),
    }
}

/// The framing to the byte, and the events of an exec that exits with 0.
pub(crate) fn stream(answer: &Answer, stdout: &str) -> Check {
    status(answer, 200)?;
    request_id(answer)?;
    kind(answer, "text/event-stream")?;
    same(
        "cache-control",
        answer.header("cache-control"),
        Some("no-cache"),
    )?;
    let text = answer.text();
    let frames = text
        .strip_suffix("\n\n")
        .ok_or("the last event has no end")?;
    let events: Vec<(&str, Value)> = frames.split("\n\n").map(event).collect::<Result<_, _>>()?;
    let [first, middle @ .., last] = events.as_slice() else {
        return Err(format!("too few events: {text}"));
    };
    same("first", first.0, "start")?;
    members(&first.1, &["exec_id", "pid", "started_at"], &[])?;
    time(&first.1["started_at"])?;
    let mut got = String::new();
    for (name, data) in middle {
        if *name == "ping" {
            members(data, &[], &[])?;
            continue;
        }
        same("event", *name, "stdout")?;
        members(data, &["text", "offset"], &[])?;
        got.push_str(data["text"].as_str().unwrap_or_default());
        same(
            "offset",
            data["offset"].as_u64(),
            u64::try_from(got.len()).ok(),
        )?;
    }
    same("stdout", got.as_str(), stdout)?;
    same("last", last.0, "execution_complete")?;
    let always = ["exit_code", "signal", "duration_ms", "timed_out"];
    members(&last.1, &always, &[])?;
    same("exit code", last.1["exit_code"].as_i64(), Some(0))?;
    same("signal", &last.1["signal"], &Value::Null)?;
    same("timed out", last.1["timed_out"].as_bool(), Some(false))
}

/// Exactly two lines.
fn event(frame: &str) -> Result<(&str, Value), String> {
    let strange = || format!("not framed as the document says: {frame:?}");
    let (name, data) = frame.split_once('\n').ok_or_else(strange)?;
    let name = name.strip_prefix("event: ").ok_or_else(strange)?;
    let data = data.strip_prefix("data: ").ok_or_else(strange)?;
    let data = serde_json::from_str(data).map_err(|_| strange())?;
    Ok((name, data))
}

/// The record of an exec: alone, with its null fields, or as an item of a list, without.
pub(crate) fn exec_record(record: &Value, in_list: bool) -> Check {
    let always = [
        "exec_id",
        "pid",
        "state",
        "started_at",
        "stdout_bytes",
        "stderr_bytes",
    ];
    let sometimes = ["exit_code", "finished_at", "duration_ms", "signal", "tag"];
    members(record, &always, &sometimes)?;
    time(&record["started_at"])?;
    let unknown = record.get("exit_code").is_some_and(Value::is_null);
    match in_list && unknown {
        true => Err(format!("a null exit code in a list: {record}")),
        false => Ok(()),
    }
}

/// A page of output, against its query.
pub(crate) fn logs(answer: &Answer, stream: &str, offset: usize, data: &str, eof: bool) -> Check {
    let body = daemon_json(answer, 200)?;
    let always = [
        "exec_id",
        "stream",
        "offset",
        "next_offset",
        "bytes",
        "data",
        "eof",
        "state",
    ];
    members(&body, &always, &[])?;
    let number = |name: &str| body[name].as_u64().and_then(|n| usize::try_from(n).ok());
    same("stream", body["stream"].as_str(), Some(stream))?;
    same("data", body["data"].as_str(), Some(data))?;
    same("offset", number("offset"), Some(offset))?;
    same("bytes", number("bytes"), Some(data.len()))?;
    same(
        "next_offset",
        number("next_offset"),
        Some(offset + data.len()),
    )?;
    same("eof", body["eof"].as_bool(), Some(eof))?;
    same("state", body["state"].as_str(), Some("exited"))
}

/// A session record of a terminal.
pub(crate) fn session(record: &Value) -> Check {
    let always = [
        "pty_id",
        "state",
        "started_at",
        "last_activity",
        "last_client_activity",
        "attached",
        "cols",
        "rows",
        "detached_since",
        "pid",
        "tag",
    ];
    members(record, &always, &[])?;
    for name in [
        "started_at",
        "last_activity",
        "last_client_activity",
        "detached_since",
    ] {
        time(&record[name])?;
    }
    same("state", record["state"].as_str(), Some("running"))?;
    same("attached", record["attached"].as_bool(), Some(false))
}

pub(crate) fn entry(entry: &Value) -> Check {
    members(
        entry,
        &["name", "type", "size", "mtime", "mode"],
        &["symlink_target"],
    )?;
    time(&entry["mtime"])?;
    let mode = entry["mode"].as_str().unwrap_or_default();
    same("digits of the mode", mode.len(), 4)
}
