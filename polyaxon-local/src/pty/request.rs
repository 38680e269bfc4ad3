//! What a caller asks of a terminal, checked against the limits.

use polyaxon_sandbox::wire::{ExecRequest, PtyRequest, ResizeRequest};

use crate::daemon::Refusal;
use crate::limits::{Limits, PtyLimits};
use crate::process::Command;

const SHELL: &str = "/bin/sh";
const COLS: i64 = 80;
const ROWS: i64 = 24;
/// What programs may assume of the terminal at the other end, where the caller says nothing.
const TERM: (&str, &str) = ("TERM", "xterm-256color");

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) cols: u16,
    pub(super) rows: u16,
}

impl Size {
    pub(super) fn check(cols: i64, rows: i64, limits: &PtyLimits) -> Result<Self, Refusal> {
        let within = |name: &str, number: i64| match u16::try_from(number) {
            Ok(number) if (1..=limits.size_max).contains(&number) => Ok(number),
            _ => Err(Refusal::invalid(format!(
                "{name}: {number} is not within 1 and {}",
                limits.size_max
            ))),
        };
        Ok(Self {
            cols: within("cols", cols)?,
            rows: within("rows", rows)?,
        })
    }

    pub(super) fn of(request: ResizeRequest, limits: &PtyLimits) -> Result<Self, Refusal> {
        Self::check(request.cols, request.rows, limits)
    }
}

/// A terminal that may be started.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) command: Command,
    pub(super) size: Size,
    pub(super) tag: Option<String>,
}

impl Wanted {
    pub(super) fn check(request: PtyRequest, limits: &Limits) -> Result<Self, Refusal> {
        let size = Size::check(
            request.cols.unwrap_or(COLS),
            request.rows.unwrap_or(ROWS),
            &limits.pty,
        )?;
        let exec = ExecRequest {
            command: request.command.or_else(|| Some(vec![SHELL.to_owned()])),
            env: request.env,
            workdir: request.workdir,
            tag: request.tag,
            ..ExecRequest::default()
        };
        let mut command = Command::check(exec, limits)?;
        let (term, value) = TERM;
        command
            .env
            .entry(term.to_owned())
            .or_insert_with(|| Some(value.to_owned()));
        Ok(Self {
            tag: command.tag.take(),
            command,
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(body: Value) -> Result<Wanted, String> {
        let request = serde_json::from_value(body).unwrap();
        Wanted::check(request, &Limits::default()).map_err(|refusal| format!("{refusal:?}"))
    }

    #[test]
    fn nothing_said_is_a_shell_of_the_usual_size() {
        for body in [json!({}), json!({"tag": "", "workdir": ""})] {
            let wanted = check(body).unwrap();
            assert_eq!(wanted.command.program, "/bin/sh");
            assert_eq!(wanted.command.arguments, [] as [&str; 0]);
            assert_eq!(wanted.size, Size { cols: 80, rows: 24 });
            assert_eq!(wanted.tag, None);
            let term = wanted.command.env.get("TERM").unwrap().as_deref();
            assert_eq!(term, Some("xterm-256color"));
        }
    }

    #[test]
    fn a_caller_decides_about_term() {
        let vt = check(json!({"env": {"TERM": "vt100"}})).unwrap();
        assert_eq!(vt.command.env["TERM"].as_deref(), Some("vt100"));
        let none = check(json!({"env": {"TERM": null}})).unwrap();
        assert_eq!(none.command.env["TERM"], None);
    }

    #[test]
    fn a_size_is_within_1_and_1000() {
        let limits = PtyLimits::default();
        for (cols, rows) in [(1, 1), (1000, 1000), (80, 24)] {
            let size = Size::check(cols, rows, &limits).unwrap();
            assert_eq!((i64::from(size.cols), i64::from(size.rows)), (cols, rows));
        }
        for (cols, rows) in [
            (0, 0),
            (0, 24),
            (80, 0),
            (1001, 24),
            (80, 1001),
            (65_535, 65_535),
            (70_000, -1),
            (65_536 + 80, 24),
            (i64::MIN, i64::MAX),
        ] {
            let refusal = format!("{:?}", Size::check(cols, rows, &limits).unwrap_err());
            assert!(refusal.contains("invalid_request"), "{refusal}");
        }
    }

    #[test]
    fn what_an_exec_could_not_have_a_terminal_cannot_have_either() {
        for body in [
            json!({"command": []}),
            json!({"command": [""]}),
            json!({"workdir": "relative"}),
            json!({"env": {"A=B": "1"}}),
            json!({"tag": "a b"}),
            json!({"cols": 0}),
        ] {
            let refusal = check(body).unwrap_err();
            assert!(refusal.contains("invalid_request"), "{refusal}");
        }
        let reserved = check(json!({"env": {"POLYAXON_X": "1"}})).unwrap_err();
        assert!(reserved.contains("reserved_env_key"), "{reserved}");
    }
}
