//! What a caller asks to be run, checked against the limits.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use polyaxon_sandbox::wire::{ExecRequest, RESERVED_ENV_PREFIX};

use super::tag;
use crate::daemon::{CleanPath, Refusal};
use crate::limits::Limits;

/// A command that may be started.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// Edits on top of the base environment; `None` removes.
    pub(crate) env: BTreeMap<String, Option<String>>,
    pub(crate) workdir: Option<CleanPath>,
    /// `None` is `/dev/null`.
    pub(crate) stdin: Option<Bytes>,
    pub(crate) timeout: Duration,
    pub(crate) tag: Option<String>,
    /// Whether nobody waits for it.
    pub(crate) background: bool,
}

impl Command {
    pub(crate) fn check(request: ExecRequest, limits: &Limits) -> Result<Self, Refusal> {
        let tag = request.tag.filter(|tag| !tag.is_empty());
        if let Some(tag) = &tag {
            tag::check(tag)?;
        }
        let words = request.command.unwrap_or_default();
        check_command(&words, limits)?;
        let mut words = words.into_iter();
        let env = request.env.unwrap_or_default();
        check_env(&env, limits)?;
        let workdir = request
            .workdir
            .filter(|path| !path.is_empty())
            .map(|path| CleanPath::new("workdir", &path, limits.path_bytes))
            .transpose()?;
        Ok(Self {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            env,
            workdir,
            stdin: decode_stdin(request.stdin.as_deref(), limits)?,
            timeout: check_timeout(request.timeout_ms.unwrap_or(0), limits)?,
            tag,
            background: true,
        })
    }

    /// One that somebody waits for. Refuses a tag: only a background exec can have one.
    pub(crate) fn awaited(self) -> Result<Self, Refusal> {
        match self.tag {
            None => Ok(Self {
                background: false,
                ..self
            }),
            Some(_) => Err(Refusal::invalid(
                "tag: only a background exec can have a tag",
            )),
        }
    }
}

fn check_command(words: &[String], limits: &Limits) -> Result<(), Refusal> {
    let bytes: usize = words.iter().map(String::len).sum();
    let problem = if words.first().is_none_or(String::is_empty) {
        "needs a program as its first element".to_owned()
    } else if words.len() > limits.command_words {
        format!(
            "has {} elements, at most {} are taken",
            words.len(),
            limits.command_words
        )
    } else if bytes > limits.command_bytes {
        format!(
            "has {bytes} bytes, at most {} are taken; send a long script as stdin or as a file",
            limits.command_bytes
        )
    } else if words.iter().any(|word| word.contains('\0')) {
        "holds a NUL".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::invalid(format!("command: {problem}")))
}

fn check_env(env: &BTreeMap<String, Option<String>>, limits: &Limits) -> Result<(), Refusal> {
    let refuse = |problem: String| Err(Refusal::invalid(format!("env: {problem}")));
    if env.len() > limits.env_keys {
        return refuse(format!(
            "has {} keys, at most {} are taken",
            env.len(),
            limits.env_keys
        ));
    }
    for (key, value) in env {
        if key.is_empty() || key.contains(['=', '\0']) {
            return refuse(format!(
                "{key:?} is not a name: it is empty, or holds `=` or NUL"
            ));
        }
        if key.len() > limits.env_key_bytes {
            return refuse(format!(
                "a name has {} bytes, at most {} are taken",
                key.len(),
                limits.env_key_bytes
            ));
        }
        if key.starts_with(RESERVED_ENV_PREFIX) {
            return Err(Refusal::reserved_env_key(key));
        }
        let value = value.as_deref().unwrap_or_default();
        if value.contains('\0') {
            return refuse(format!("the value of {key:?} holds a NUL"));
        }
        if value.len() > limits.env_value_bytes {
            return refuse(format!(
                "the value of {key:?} has {} bytes, at most {} are taken",
                value.len(),
                limits.env_value_bytes
            ));
        }
    }
    Ok(())
}

fn decode_stdin(text: Option<&str>, limits: &Limits) -> Result<Option<Bytes>, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| Refusal::invalid(format!("stdin: not base64: {error}")))?;
    match bytes.len() {
        size if size > limits.stdin_bytes => Err(Refusal::invalid(format!(
            "stdin: has {size} bytes, at most {} are taken",
            limits.stdin_bytes
        ))),
        _ => Ok(Some(bytes.into())),
    }
}

fn check_timeout(milliseconds: i64, limits: &Limits) -> Result<Duration, Refusal> {
    match u64::try_from(milliseconds).map(Duration::from_millis) {
        Ok(Duration::ZERO) => Ok(limits.timeout),
        Ok(timeout) if timeout <= limits.timeout_max => Ok(timeout),
        _ => Err(Refusal::invalid(format!(
            "timeout_ms: {milliseconds} is not within 0 and {}",
            limits.timeout_max.as_millis()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> ExecRequest {
        ExecRequest {
            command: Some(words.iter().map(|&word| word.to_owned()).collect()),
            ..ExecRequest::default()
        }
    }

    fn with_env(key: &str, value: Option<&str>) -> ExecRequest {
        ExecRequest {
            env: Some(BTreeMap::from([(key.to_owned(), value.map(str::to_owned))])),
            ..request(&["a"])
        }
    }

    fn with_timeout(timeout_ms: i64) -> ExecRequest {
        ExecRequest {
            timeout_ms: Some(timeout_ms),
            ..request(&["a"])
        }
    }

    fn check(request: ExecRequest) -> Result<Command, String> {
        Command::check(request, &Limits::default()).map_err(|refusal| format!("{refusal:?}"))
    }

    #[test]
    fn every_limit_is_taken_at_its_value_and_refused_one_above() {
        let words = |count: usize| request(&vec!["a"; count]);
        let long = |bytes: usize| request(&["a", &"x".repeat(bytes - 1)]);
        let keys = |count: usize| ExecRequest {
            env: Some((0..count).map(|i| (format!("K{i}"), None)).collect()),
            ..request(&["a"])
        };
        let stdin = |bytes: usize| ExecRequest {
            stdin: Some(STANDARD.encode(vec![0; bytes])),
            ..request(&["a"])
        };
        let workdir = |bytes: usize| ExecRequest {
            workdir: Some(format!("/{}", "w".repeat(bytes - 1))),
            ..request(&["a"])
        };
        let table = [
            (words(256), words(257)),
            (long(4096), long(4097)),
            (keys(256), keys(257)),
            (
                with_env(&"k".repeat(256), None),
                with_env(&"k".repeat(257), None),
            ),
            (
                with_env("K", Some(&"v".repeat(4096))),
                with_env("K", Some(&"v".repeat(4097))),
            ),
            (stdin(8 << 20), stdin((8 << 20) + 1)),
            (workdir(4096), workdir(4097)),
            (with_timeout(300_000), with_timeout(300_001)),
            (with_timeout(0), with_timeout(-1)),
        ];
        for (fits, does_not) in table {
            check(fits).unwrap();
            let refusal = check(does_not).unwrap_err();
            assert!(refusal.contains("invalid_request"), "{refusal}");
        }
    }

    #[test]
    fn what_the_kernel_cannot_take_is_refused_by_its_field() {
        let table = [
            (request(&[]), "command:"),
            (request(&[""]), "command:"),
            (request(&["a", "b\0"]), "command:"),
            (with_env("", Some("1")), "env:"),
            (with_env("A=B", Some("1")), "env:"),
            (with_env("A\0", None), "env:"),
            (with_env("A", Some("\0")), "env:"),
            (with_env("POLYAXON_X", None), "reserved_env_key"),
            (
                ExecRequest {
                    tag: Some("a b".into()),
                    ..request(&["a"])
                },
                "tag:",
            ),
            (
                ExecRequest {
                    workdir: Some("w".into()),
                    ..request(&["a"])
                },
                "workdir:",
            ),
            (
                ExecRequest {
                    stdin: Some("a".into()),
                    ..request(&["a"])
                },
                "stdin:",
            ),
        ];
        for (request, word) in table {
            let refusal = check(request).unwrap_err();
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        let command = check(ExecRequest {
            workdir: Some(String::new()),
            stdin: Some(String::new()),
            tag: Some(String::new()),
            ..request(&["a", ""])
        })
        .unwrap();
        assert_eq!(
            (command.program.as_str(), &command.arguments[..]),
            ("a", &[String::new()][..])
        );
        assert_eq!((command.workdir, command.stdin), (None, None));
        assert_eq!(command.timeout, Duration::from_secs(30));
        assert_eq!(
            check(with_timeout(1)).unwrap().timeout,
            Duration::from_millis(1)
        );
    }
}
