//! A terminal to start, as a value.

use std::collections::BTreeMap;

use polyaxon_client::InvalidInput;
use serde::Serialize;

use crate::process::Exec;

/// A terminal to start: its program, the surroundings of that, and its size.
///
/// A value: it can be kept, cloned, compared and sent many times. It is checked when it is sent.
///
/// # Examples
/// ```
/// use polyaxon_sandbox::pty::Pty;
///
/// let pty = Pty::new(["bash", "-l"]).workdir("/tmp").env("LANG", "C.UTF-8").size(120, 40);
/// assert_eq!(pty.command().unwrap()[0], "bash");
/// assert!(Pty::shell().size(0, 40).check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use = "a Pty does nothing until it is passed to `pty().create` or `pty().open`"]
pub struct Pty {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workdir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cols: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
}

impl Pty {
    /// The largest width and the largest height that a service takes (section 8.1 of the
    /// description of the wire); the smallest is 1.
    pub const SIZE_MAX: u16 = 1000;

    /// The service's shell, which is `/bin/sh`, in a terminal of 80 columns and 24 rows.
    pub fn shell() -> Self {
        Self {
            command: None,
            env: BTreeMap::new(),
            workdir: None,
            cols: Some(80),
            rows: Some(24),
            tag: None,
        }
    }

    /// A program with its arguments, in a terminal of 80 columns and 24 rows. No shell is
    /// involved.
    pub fn new<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        Self {
            command: Some(command.into_iter().map(Into::into).collect()),
            ..Self::shell()
        }
    }

    /// Sets a variable, on top of the service's own environment. `TERM` is `xterm-256color`
    /// unless it is set here.
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

    /// Columns and rows, each 1 to [`SIZE_MAX`](Self::SIZE_MAX). Default: 80 and 24.
    pub fn size(mut self, cols: u16, rows: u16) -> Self {
        (self.cols, self.rows) = (Some(cols), Some(rows));
        self
    }

    /// Leaves the size to the service.
    pub fn size_of_service(mut self) -> Self {
        (self.cols, self.rows) = (None, None);
        self
    }

    /// A name of your own to find it by. Services refuse a second terminal of the same name with
    /// `conflict`, until the first is deleted or forgotten.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// The program and its arguments; `None` for the service's shell.
    #[must_use]
    pub fn command(&self) -> Option<&[String]> {
        self.command.as_deref()
    }

    /// The name to find it by, where it has one.
    #[must_use]
    pub fn tagged(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Looks for what no service can take: no program, a NUL, a name of the platform's own, a
    /// size that cannot be.
    ///
    /// # Errors
    /// The first such thing, by the name of its field.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let mut exec = match &self.command {
            Some(command) => Exec::new(command.iter().map(String::as_str)),
            None => Exec::new(["/bin/sh"]),
        };
        for (name, value) in &self.env {
            exec = match value {
                Some(value) => exec.env(name, value),
                None => exec.env_remove(name),
            };
        }
        if let Some(workdir) = &self.workdir {
            exec = exec.workdir(workdir);
        }
        exec.check()?;
        if let (Some(cols), Some(rows)) = (self.cols, self.rows) {
            check_size(cols, rows)?;
        }
        Ok(())
    }
}

/// Whether a terminal can be of this size.
pub(super) fn check_size(cols: u16, rows: u16) -> Result<(), InvalidInput> {
    for (field, number) in [("cols", cols), ("rows", rows)] {
        if !(1..=Pty::SIZE_MAX).contains(&number) {
            let problem = format!("{number} is not within 1 and {}", Pty::SIZE_MAX);
            return Err(InvalidInput::new(field, problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::PtyRequest;

    #[test]
    fn what_is_sent_is_what_the_service_reads() {
        let all = Pty::new(["bash", "-l"])
            .env("A", "1")
            .env_remove("B")
            .workdir("/tmp")
            .size(120, 40)
            .tag("t");
        let written = serde_json::to_value(&all).unwrap();
        let want = json!({
            "command": ["bash", "-l"], "env": {"A": "1", "B": null}, "workdir": "/tmp",
            "cols": 120, "rows": 40, "tag": "t",
        });
        assert_eq!(written, want);
        let read: PtyRequest = serde_json::from_value(written).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), want);
        let shell = serde_json::to_value(Pty::shell()).unwrap();
        assert_eq!(shell, json!({"cols": 80, "rows": 24}));
        let least = serde_json::to_value(Pty::shell().size_of_service()).unwrap();
        assert_eq!(least, json!({}));
    }

    #[test]
    fn what_no_service_can_take_is_refused_by_its_field() {
        let table = [
            (Pty::new(Vec::<String>::new()), "command"),
            (Pty::new([""]), "command"),
            (Pty::shell().env("X=Y", "1"), "env"),
            (Pty::shell().env_remove("POLYAXON_X"), "env"),
            (Pty::shell().workdir("tmp"), "workdir"),
            (Pty::shell().size(0, 24), "cols"),
            (Pty::shell().size(80, 0), "rows"),
            (Pty::shell().size(1001, 24), "cols"),
            (Pty::shell().size(80, u16::MAX), "rows"),
        ];
        for (pty, field) in table {
            assert_eq!(pty.check().unwrap_err().field(), field, "{pty:?}");
        }
        Pty::shell().size(1, 1000).check().unwrap();
        Pty::shell().size_of_service().check().unwrap();
    }
}
