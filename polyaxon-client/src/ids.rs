//! Names of things in Polyaxon: a run, a project, a run of a project.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::InvalidInput;

/// The id of a run.
///
/// Reads 32 hex digits with or without hyphens, in either case; writes 32 lower-case hex digits
/// without hyphens. The spelling matters: the address and the token of a sandbox are derived from
/// the text, so a hyphenated id leads nowhere.
///
/// # Examples
/// ```
/// use polyaxon_client::RunUuid;
///
/// let run: RunUuid = "8AAC02E3-A62A-4F0A-AA25-7C59DA5EAB80".parse()?;
/// assert_eq!(run.to_string(), "8aac02e3a62a4f0aaa257c59da5eab80");
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunUuid(#[serde(serialize_with = "uuid::serde::simple::serialize")] Uuid);

impl RunUuid {
    /// A fresh random id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for RunUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl fmt::Debug for RunUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunUuid({self})")
    }
}

impl FromStr for RunUuid {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        // `Uuid` also reads URNs and braces, which no Polyaxon service writes.
        let plain = matches!(text.len(), 32 | 36);
        match Uuid::try_parse(text) {
            Ok(uuid) if plain => Ok(Self(uuid)),
            _ => Err(InvalidInput::new(
                "run uuid",
                format!("{text:?} is not 32 hex digits, with or without hyphens"),
            )),
        }
    }
}

/// A project with its owner.
///
/// Reads `owner/project`, `owner.project`, `owner/team/project` (a team is not part of any URL and
/// is dropped) or `project` alone, whose owner is then `default`, the only one of a community
/// installation. Both names are letters, digits, `-` and `_`.
///
/// # Examples
/// ```
/// use polyaxon_client::ProjectRef;
///
/// let project: ProjectRef = "acme/agent-lab".parse()?;
/// assert_eq!((project.owner(), project.name()), ("acme", "agent-lab"));
/// assert!("acme/../agent-lab".parse::<ProjectRef>().is_err());
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProjectRef {
    owner: String,
    name: String,
}

impl ProjectRef {
    /// The owner that is meant where none is said.
    pub const DEFAULT_OWNER: &str = "default";

    /// A project `name` of `owner`.
    ///
    /// # Errors
    /// Where one of the two holds anything but ASCII letters, digits, `-` and `_`, or nothing.
    pub fn new(owner: &str, name: &str) -> Result<Self, InvalidInput> {
        Ok(Self {
            owner: slug("owner", owner)?,
            name: slug("project", name)?,
        })
    }

    /// Who owns the project.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The project's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ProjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for ProjectRef {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let parts: Vec<&str> = match text.contains('/') {
            true => text.split('/').collect(),
            false => text.split('.').collect(),
        };
        match parts[..] {
            [name] => Self::new(Self::DEFAULT_OWNER, name),
            [owner, name] => Self::new(owner, name),
            [owner, team, name] if text.contains('/') => {
                slug("team", team)?;
                Self::new(owner, name)
            }
            _ => Err(InvalidInput::new(
                "project",
                format!("{text:?} is not `project`, `owner/project` or `owner/team/project`"),
            )),
        }
    }
}

fn slug(field: &'static str, text: &str) -> Result<String, InvalidInput> {
    if text.is_empty() {
        return Err(InvalidInput::new(field, "is empty"));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text.chars().find(|c| !fits(*c)) {
        None => Ok(text.to_owned()),
        Some(stray) => Err(InvalidInput::new(
            field,
            format!("{text:?} holds {stray:?}; letters, digits, `-` and `_` are allowed"),
        )),
    }
}

/// A run together with the project it is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RunRef {
    /// The project of the run.
    pub project: ProjectRef,
    /// The run itself.
    pub run: RunUuid,
}

impl RunRef {
    /// The run `run` of `project`.
    #[must_use]
    pub fn new(project: ProjectRef, run: RunUuid) -> Self {
        Self { project, run }
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/runs/{}", self.project, self.run)
    }
}

impl FromStr for RunRef {
    type Err = InvalidInput;

    /// Reads `owner.project.runs.uuid`, the form of `POLYAXON_RUN_INSTANCE` in a pod.
    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        match text.split('.').collect::<Vec<_>>()[..] {
            [owner, project, "runs", uuid] => Ok(Self {
                project: ProjectRef::new(owner, project)?,
                run: uuid.parse()?,
            }),
            _ => Err(InvalidInput::new(
                "run instance",
                format!("{text:?} is not `owner.project.runs.uuid`"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_uuid_is_read_in_every_spelling_and_written_in_one() {
        let spellings = [
            "8aac02e3a62a4f0aaa257c59da5eab80",
            "8AAC02E3A62A4F0AAA257C59DA5EAB80",
            "8aac02e3-a62a-4f0a-aa25-7c59da5eab80",
        ];
        for text in spellings {
            let run: RunUuid = text.parse().unwrap();
            assert_eq!(run.to_string(), spellings[0]);
            let json = serde_json::to_string(&run).unwrap();
            assert_eq!(json, format!("\"{}\"", spellings[0]));
            let back: RunUuid = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(back, run);
        }
    }

    #[test]
    fn what_is_no_run_uuid_says_so() {
        for text in [
            "",
            "run",
            "{8aac02e3-a62a-4f0a-aa25-7c59da5eab80}",
            "8aac02e3a62a4f0aaa257c59da5eab8/",
        ] {
            let error = text.parse::<RunUuid>().unwrap_err();
            assert_eq!(error.field(), "run uuid");
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn a_project_is_read_in_its_four_spellings() {
        let table = [
            ("lab", "default/lab"),
            ("acme/lab", "acme/lab"),
            ("acme.lab", "acme/lab"),
            ("acme/team/lab", "acme/lab"),
        ];
        for (text, full) in table {
            assert_eq!(text.parse::<ProjectRef>().unwrap().to_string(), full);
        }
        let refused = [
            "",
            "/lab",
            "acme/",
            "a/b/c/d",
            "a.b.c",
            "acme/la b",
            "acme/läb",
            "acme/te m/lab",
            "a?b/c",
        ];
        for text in refused {
            text.parse::<ProjectRef>().expect_err(text);
        }
    }

    #[test]
    fn a_run_instance_of_a_pod_is_read() {
        let run: RunRef = "acme.lab.runs.8aac02e3a62a4f0aaa257c59da5eab80"
            .parse()
            .unwrap();
        assert_eq!(
            run.to_string(),
            "acme/lab/runs/8aac02e3a62a4f0aaa257c59da5eab80"
        );
        "acme.lab.jobs.8aac02e3a62a4f0aaa257c59da5eab80"
            .parse::<RunRef>()
            .unwrap_err();
        "acme.lab.runs".parse::<RunRef>().unwrap_err();
    }
}
