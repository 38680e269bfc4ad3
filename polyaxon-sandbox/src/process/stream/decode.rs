//! From a server-sent event to what it says. No I/O.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use polyaxon_client::transport::SseEvent;
use serde::Deserialize;

use super::super::background::{ExecStarted, LogStream};
use super::super::events::ExecEvent;
use super::super::result::Termination;
use super::event::{Completion, StreamEvent};
use crate::wire::lenient;

/// What an event says.
#[derive(Debug, PartialEq)]
pub(super) enum Decoded {
    /// Something to give out as it is.
    Event(StreamEvent),
    /// Output, and the position behind it where the service says one.
    Output {
        stream: LogStream,
        text: Bytes,
        end: Option<u64>,
    },
    /// The command has ended.
    Complete(Completion),
    /// Nothing happened.
    Ping,
    /// The stream cannot go on.
    Failed(String),
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow, alias = "data")]
    text: Cow<'a, str>,
    #[serde(default, deserialize_with = "lenient::opt_u64")]
    offset: Option<u64>,
}

/// Reads an event; what is wrong with it where it makes no sense.
pub(super) fn decode(event: &SseEvent) -> Result<Decoded, String> {
    let output = |stream| {
        if let Some((text, end)) = super::text::read(&event.data) {
            return Ok(Decoded::Output { stream, text, end });
        }
        let read: Text<'_> = serde_json::from_slice(&event.data).map_err(|e| bad(event, &e))?;
        // Text without escapes is not copied, whatever its length.
        let text = match read.text {
            Cow::Borrowed(text) => event.data.slice_ref(text.as_bytes()),
            Cow::Owned(text) => Bytes::from(text),
        };
        let end = read.offset;
        Ok(Decoded::Output { stream, text, end })
    };
    match &event.name[..] {
        b"stdout" => output(LogStream::Stdout),
        b"stderr" => output(LogStream::Stderr),
        b"ping" => Ok(Decoded::Ping),
        _ => rare(event),
    }
}

fn rare(event: &SseEvent) -> Result<Decoded, String> {
    let name = String::from_utf8_lossy(&event.name);
    let data = std::str::from_utf8(&event.data).map_err(|e| bad(event, &e))?;
    Ok(match ExecEvent::read(&name, data) {
        Ok(ExecEvent::Start {
            exec_id,
            pid,
            started_at,
        }) => Decoded::Event(StreamEvent::Started(ExecStarted {
            exec_id,
            pid,
            started_at,
            tag: None,
        })),
        Ok(ExecEvent::Complete {
            exit_code,
            signal,
            duration_ms,
            timed_out,
        }) => {
            let termination = Termination::read(exit_code, signal, timed_out)
                .ok_or_else(|| format!("in `{name}` {}", Termination::MISSING))?;
            Decoded::Complete(Completion {
                termination,
                duration: Duration::from_millis(duration_ms),
            })
        }
        Ok(ExecEvent::Error { code, message }) => Decoded::Failed(match code {
            Some(code) => format!("{message} ({code})"),
            None => message,
        }),
        Ok(ExecEvent::Other { name, data }) => Decoded::Event(StreamEvent::Other { name, data }),
        // Those were looked at before.
        Ok(ExecEvent::Ping | ExecEvent::Stdout { .. } | ExecEvent::Stderr { .. }) => Decoded::Ping,
        // An `error` of any shape ends the stream all the same.
        Err(_) if name == "error" => Decoded::Failed(data.chars().take(200).collect()),
        Err(error) if matches!(&*name, "start" | "execution_complete") => {
            return Err(bad(event, &error));
        }
        Err(_) => Decoded::Event(StreamEvent::Other {
            name: name.into_owned(),
            data: data.into(),
        }),
    })
}

fn bad(event: &SseEvent, error: &dyn std::error::Error) -> String {
    let name = String::from_utf8_lossy(&event.name);
    format!("the data of `{name}` cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use polyaxon_client::transport::SseDecoder;
    use serde_json::json;

    use super::*;

    fn read(name: &str, data: &str) -> Result<Decoded, String> {
        let mut decoder = SseDecoder::new();
        decoder.push(format!("event: {name}\ndata: {data}\n\n").into());
        decode(&decoder.next_event().unwrap().unwrap())
    }

    #[test]
    fn output_is_read_in_every_spelling_and_not_copied_where_it_is_plain() {
        let table = [
            (r#"{"text":"a","offset":1}"#, "a", Some(1)),
            (r#"{"offset":"7","text":"é\n\u003c"}"#, "é\n<", Some(7)),
            (r#"{"data":"half"}"#, "half", None),
            (r#"{"text":"","offset":0,"new":[1]}"#, "", Some(0)),
        ];
        for (data, text, end) in table {
            let want = Decoded::Output {
                stream: LogStream::Stderr,
                text: Bytes::copy_from_slice(text.as_bytes()),
                end,
            };
            assert_eq!(read("stderr", data).unwrap(), want, "{data}");
        }
        let mut decoder = SseDecoder::new();
        let frame = Bytes::from("event: stdout\ndata: {\"text\":\"plain\",\"offset\":5}\n\n");
        let within = frame.as_ptr_range();
        decoder.push(frame.clone());
        let event = decoder.next_event().unwrap().unwrap();
        let Decoded::Output { text, .. } = decode(&event).unwrap() else {
            panic!("it is output")
        };
        assert!(within.contains(&text.as_ptr()));
    }

    #[test]
    fn what_is_not_known_passes_through_and_what_makes_no_sense_does_not() {
        let other = StreamEvent::Other {
            name: "resource_usage".to_owned(),
            data: json!({"cpu": 1}),
        };
        assert_eq!(
            read("resource_usage", r#"{"cpu":1}"#),
            Ok(Decoded::Event(other))
        );
        assert_eq!(read("ping", "{}"), Ok(Decoded::Ping));
        let plain = StreamEvent::Other {
            name: "message".to_owned(),
            data: json!("no JSON"),
        };
        assert_eq!(read("message", "no JSON"), Ok(Decoded::Event(plain)));
        for (name, data, problem) in [
            ("stdout", "{}", "the data of `stdout` cannot be read"),
            ("stdout", "7", "the data of `stdout` cannot be read"),
            ("start", "[", "the data of `start` cannot be read"),
            ("execution_complete", "{}", "there is no exit code"),
        ] {
            let error = read(name, data).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        for (data, message) in [
            (
                r#"{"message":"no space","code":"internal"}"#,
                "no space (internal)",
            ),
            (r#"{"error":{"code":"x"}}"#, r#"{"error":{"code":"x"}}"#),
            (r#""gone""#, r#""gone""#),
        ] {
            assert_eq!(read("error", data), Ok(Decoded::Failed(message.to_owned())));
        }
    }

    #[test]
    fn an_end_is_told_in_all_spellings() {
        let end = |termination, millis| {
            Ok(Decoded::Complete(Completion {
                termination,
                duration: Duration::from_millis(millis),
            }))
        };
        let kill = || Termination::Signaled("SIGKILL".into());
        let table = [
            (r#"{"exit_code":0}"#, end(Termination::Exited(0), 0)),
            (
                r#"{"exit_code":3,"signal":null,"duration_ms":"12","timed_out":false}"#,
                end(Termination::Exited(3), 12),
            ),
            (r#"{"exit_code":-1,"signal":"SIGKILL"}"#, end(kill(), 0)),
            (r#"{"exit_code":137,"signal":"SIGKILL"}"#, end(kill(), 0)),
            (
                r#"{"exit_code":-1,"signal":"SIGKILL","timed_out":true}"#,
                end(Termination::TimedOut, 0),
            ),
        ];
        for (data, want) in table {
            assert_eq!(read("execution_complete", data), want, "{data}");
        }
    }
}
