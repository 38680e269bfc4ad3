//! A command to execute, as a value.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use polyaxon_client::InvalidInput;
use serde::{Serialize, Serializer};

use crate::path::AbsPath;

/// A command with its surroundings.
///
/// A value: it can be kept, cloned, compared and sent many times. It is checked when it is sent.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use polyaxon_sandbox::Exec;
///
/// let exec = Exec::new(["python3", "-m", "unittest", "-q"])
///     .workdir("/tmp")
///     .env("LANG", "C.UTF-8")
///     .timeout(Duration::from_secs(30));
/// assert_eq!(exec.command()[0], "python3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use = "an Exec does nothing until it is passed to `process().exec`"]
pub struct Exec {
    command: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workdir: Option<String>,
    #[serde(
        serialize_with = "base64_text",
        skip_serializing_if = "Option::is_none"
    )]
    stdin: Option<Bytes>,
    #[serde(
        rename = "timeout_ms",
        serialize_with = "millis",
        skip_serializing_if = "Option::is_none"
    )]
    timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

impl Exec {
    /// A program with its arguments. No shell is involved: nothing is split, expanded or quoted.
    pub fn new<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            workdir: None,
            stdin: None,
            timeout: None,
            tag: None,
        }
    }

    /// A line for `sh -c`, with pipes, expansion and all that a shell does to it. Do not build
    /// one from text of others.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["sh".to_owned(), "-c".to_owned(), line.into()])
    }

    /// Sets a variable, on top of the service's own environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Takes a variable of the service's own environment away.
    pub fn env_remove(mut self, name: impl Into<String>) -> Self {
        self.env.insert(name.into(), None);
        self
    }

    /// The directory to start in: absolute, and there. Default: the service's own.
    pub fn workdir(mut self, path: impl Into<String>) -> Self {
        self.workdir = Some(path.into());
        self
    }

    /// The whole input. Default: none, the command reads end of file at once. The service takes
    /// 8 MiB.
    pub fn stdin(mut self, bytes: impl Into<Bytes>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// How long the command may run before the service kills it with all its process group.
    /// Sent in whole milliseconds, rounded up. Default: the service's, which is 30 s; the
    /// service's own limit is 300 s, and it refuses more.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A name of the caller's own for a background exec, by which it is found again:
    /// [`list_tagged`](super::Process::list_tagged). The service takes 1 to 128 letters, digits and
    /// `_.:-`, and refuses one that a record it still has bears. Only for
    /// [`exec_bg`](super::Process::exec_bg).
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// The program and its arguments.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// How long it may run, where that was said.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// Its tag, where it has one.
    #[must_use]
    pub fn tag_text(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Looks for what no service can take: no program, a NUL, a name of the platform's own.
    ///
    /// # Errors
    /// The first such thing, by the name of its field.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let refuse = |field, problem: String| Err(InvalidInput::new(field, problem));
        match self.command.first() {
            None => return refuse("command", "is empty".to_owned()),
            Some(program) if program.is_empty() => {
                return refuse(
                    "command",
                    "names no program: its first element is empty".to_owned(),
                );
            }
            Some(_) => {}
        }
        if let Some(at) = self.command.iter().position(|part| part.contains('\0')) {
            return refuse("command", format!("element {at} holds a NUL"));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return refuse("env", format!("{name:?} cannot be the name of a variable"));
            }
            if name.starts_with(crate::wire::RESERVED_ENV_PREFIX) {
                return refuse("env", format!("{name} is kept for the platform"));
            }
            if value.as_ref().is_some_and(|value| value.contains('\0')) {
                return refuse("env", format!("the value of {name} holds a NUL"));
            }
        }
        if let Some(workdir) = &self.workdir {
            AbsPath::check("workdir", workdir)?;
        }
        if self.timeout == Some(Duration::ZERO) {
            return refuse(
                "timeout",
                "is zero, which the service would read as its default".to_owned(),
            );
        }
        Ok(())
    }
}

#[expect(clippy::ref_option, reason = "the shape that serde asks for")]
fn base64_text<S: Serializer>(bytes: &Option<Bytes>, out: S) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => out.serialize_str(&STANDARD.encode(bytes)),
        None => out.serialize_none(),
    }
}

#[expect(clippy::ref_option, reason = "the shape that serde asks for")]
fn millis<S: Serializer>(limit: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    match limit {
        Some(limit) => {
            let millis = limit.as_nanos().div_ceil(1_000_000);
            out.serialize_u64(u64::try_from(millis).unwrap_or(u64::MAX))
        }
        None => out.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::ExecRequest;

    #[test]
    fn only_what_was_said_is_sent() {
        let body = serde_json::to_value(Exec::new(["true"])).unwrap();
        assert_eq!(body, json!({"command": ["true"]}));
        let all = Exec::shell("cat | wc")
            .env("A", "1")
            .env_remove("B")
            .workdir("/w")
            .stdin(&b"\xff\n"[..])
            .timeout(Duration::from_micros(1_500));
        assert_eq!(
            serde_json::to_value(&all).unwrap(),
            json!({
                "command": ["sh", "-c", "cat | wc"],
                "env": {"A": "1", "B": null},
                "workdir": "/w",
                "stdin": "/wo=",
                "timeout_ms": 2
            })
        );
        let empty_input = serde_json::to_value(Exec::new(["cat"]).stdin(Bytes::new())).unwrap();
        assert_eq!(empty_input, json!({"command": ["cat"], "stdin": ""}));
    }

    #[test]
    fn what_is_sent_is_what_the_service_reads() {
        let exec = Exec::new(["a", "b"])
            .env_remove("B")
            .workdir("/w")
            .stdin("in");
        let text = serde_json::to_string(&exec).unwrap();
        let read: ExecRequest = serde_json::from_str(&text).unwrap();
        assert_eq!(read.command.unwrap(), ["a", "b"]);
        assert_eq!(read.env.unwrap()["B"], None);
        assert_eq!(read.workdir.unwrap(), "/w");
        assert_eq!(read.stdin.unwrap(), "aW4=");
        assert_eq!((read.timeout_ms, read.tag), (None, None));
    }

    #[test]
    fn what_no_service_can_take_is_refused_by_its_field() {
        let table = [
            (Exec::new(Vec::<String>::new()), "command"),
            (Exec::new([""]), "command"),
            (Exec::new(["a", "b\0"]), "command"),
            (Exec::new(["a"]).env("X=Y", "1"), "env"),
            (Exec::new(["a"]).env("", "1"), "env"),
            (Exec::new(["a"]).env("A", "\0"), "env"),
            (Exec::new(["a"]).env_remove("POLYAXON_X"), "env"),
            (Exec::new(["a"]).workdir("tmp"), "workdir"),
            (Exec::new(["a"]).timeout(Duration::ZERO), "timeout"),
        ];
        for (exec, field) in table {
            assert_eq!(exec.check().unwrap_err().field(), field, "{exec:?}");
        }
        Exec::new(["a", ""])
            .env("A;touch /tmp/pwn", "1")
            .env("É", "ü\n$(id)")
            .check()
            .unwrap();
    }
}
