//! Where a run is tracked when nobody says so: variables, the pod, cached files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use polyaxon_client::{Client, ProjectRef, RunRef, RunUuid};
use serde::Deserialize;

use crate::error::Error;
use crate::tracking::{Tracking, Way};

/// How a process stands to the run that it tracks on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// In no pod.
    Unmanaged,
    /// In the pod of the run, with a container beside it for the files.
    Pod,
    /// In the pod of another run.
    PodOfAnother,
    /// In the pod of the run, with nothing beside it.
    PodAlone,
}

impl Role {
    pub(crate) fn with_a_run_of_its_own(self) -> Self {
        match self {
            Self::Pod => Self::PodOfAnother,
            other => other,
        }
    }
}

/// The folders that runs have their files in, and the store that they end up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    context: PathBuf,
    artifacts: PathBuf,
    store: Option<String>,
}

impl Places {
    pub(crate) fn of_process() -> Self {
        Self::of(&Variables::of_process())
    }

    fn of(variables: &Variables) -> Self {
        let folder = |name, usual: &str| PathBuf::from(variables.text(name).unwrap_or(usual));
        Self {
            context: folder("POLYAXON_CONTEXT_ROOT", "/plx-context"),
            artifacts: folder("POLYAXON_ARTIFACTS_ROOT", "/tmp/plx/artifacts"),
            store: variables
                .text("POLYAXON_ARTIFACTS_STORE_NAME")
                .map(str::to_owned),
        }
    }

    /// What paths in summaries are relative to.
    pub(crate) fn base(&self) -> PathBuf {
        self.context.join("artifacts")
    }

    /// The folder of a run.
    pub(crate) fn folder(&self, role: Role, run: RunUuid) -> PathBuf {
        let runs = match role {
            Role::Unmanaged => self.artifacts.clone(),
            Role::Pod | Role::PodAlone => self.base(),
            Role::PodOfAnother => self.base().join("_related_runs"),
        };
        runs.join(run.to_string())
    }

    pub(crate) fn store(&self) -> Option<String> {
        self.store.clone()
    }
}

/// The environment variables that say where a run is tracked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn of_process() -> Self {
        // A value that is not UTF-8 cannot be one of ours.
        let all = std::env::vars_os();
        let texts = all.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(
            texts
                .filter(|(name, _)| name.starts_with("POLYAXON_") || name == "HOME")
                .collect(),
        )
    }

    fn text(&self, name: &str) -> Option<&str> {
        let text = self.0.get(name)?.trim();
        Some(text).filter(|text| !text.is_empty())
    }

    fn flag(&self, name: &str) -> Result<bool, Error> {
        let Some(text) = self.text(name) else {
            return Ok(false);
        };
        match text.to_ascii_lowercase().as_str() {
            "y" | "yes" | "t" | "true" | "on" | "1" => Ok(true),
            "n" | "no" | "f" | "false" | "off" | "0" => Ok(false),
            _ => Err(Error::Surroundings {
                variable: name.to_owned(),
                problem: format!("{text:?} is neither true nor false"),
            }),
        }
    }
}

/// How often the platform's own module measures the machine.
const RESOURCES_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) fn from_env(variables: &Variables) -> Result<Tracking, Error> {
    if variables.flag("POLYAXON_NO_OP")? {
        return Ok(Tracking::no_op());
    }
    let mut tracking = if variables.flag("POLYAXON_IS_OFFLINE")? {
        let root = variables.text("POLYAXON_OFFLINE_ROOT");
        let offline = Tracking::offline(root.unwrap_or("/tmp/plx/offline"));
        match cached_project(variables, Path::new("."))? {
            Some(project) => offline.project(project),
            None => offline,
        }
    } else {
        online(variables, Path::new("."))?
    };
    if variables.flag("POLYAXON_COLLECT_RESOURCES")? {
        tracking = tracking.with_resources(RESOURCES_INTERVAL);
    }
    Ok(tracking)
}

fn online(variables: &Variables, folder: &Path) -> Result<Tracking, Error> {
    let on = |role, pod: Option<&ProjectRef>| -> Result<Tracking, Error> {
        Ok(Tracking::on(Way::Online {
            client: Client::from_env()?,
            role,
            places: Places::of(variables),
            pod: pod.cloned(),
        }))
    };
    if variables.flag("POLYAXON_IS_MANAGED")? {
        let run = pod_run(variables)?;
        let role = match variables.text("POLYAXON_HAS_PROCESS_SIDECAR") {
            Some(_) => Role::PodAlone,
            None => Role::Pod,
        };
        return Ok(on(role, Some(&run.project))?
            .project(run.project)
            .run(run.run));
    }
    match cached_project(variables, folder)? {
        Some(project) => Ok(on(Role::Unmanaged, None)?.project(project)),
        None => Err(Error::Surroundings {
            variable: "the project".to_owned(),
            problem: "is named by no run of a pod and by no .polyaxon/.project".to_owned(),
        }),
    }
}

/// The run of this pod. It goes before a cached project: an image can bring one along.
fn pod_run(variables: &Variables) -> Result<RunRef, Error> {
    let name = "POLYAXON_RUN_INSTANCE";
    let problem = |problem: String| Error::Surroundings {
        variable: name.to_owned(),
        problem,
    };
    let text = variables.text(name);
    let text = text.ok_or_else(|| problem("it is not set, in a managed process".to_owned()))?;
    text.parse()
        .map_err(|error: polyaxon_client::InvalidInput| problem(error.problem().to_owned()))
}

/// The project that the command line tool was told to use, here or for this user.
fn cached_project(variables: &Variables, folder: &Path) -> Result<Option<ProjectRef>, Error> {
    let home = variables
        .text("POLYAXON_HOME")
        .or_else(|| variables.text("HOME"));
    let folders = [Some(folder), home.map(Path::new)];
    for folder in folders.into_iter().flatten() {
        let path = folder.join(".polyaxon/.project");
        let problem = |problem: String| Error::Surroundings {
            variable: path.display().to_string(),
            problem,
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => continue,
            Err(error) => return Err(problem(error.to_string())),
        };
        #[derive(Deserialize)]
        struct Project {
            #[serde(default)]
            owner: Option<String>,
            name: String,
        }
        let cached: Project =
            serde_json::from_str(&text).map_err(|error| problem(error.to_string()))?;
        // A team is not part of any URL.
        let owner = cached.owner.as_deref().unwrap_or(ProjectRef::DEFAULT_OWNER);
        let owner = owner.split('/').next().unwrap_or(owner);
        let project = ProjectRef::new(owner, &cached.name);
        return project
            .map(Some)
            .map_err(|error| problem(error.to_string()));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "8aac02e3a62a4f0aaa257c59da5eab80";

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        let pairs = pairs.iter();
        Variables(
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn flags_are_read_in_the_platforms_words() {
        let table = [
            ("true", Some(true)),
            ("Yes", Some(true)),
            ("1", Some(true)),
            ("off", Some(false)),
            ("F", Some(false)),
            ("", Some(false)),
            ("maybe", None),
        ];
        for (text, expected) in table {
            let found = variables(&[("POLYAXON_NO_OP", text)]).flag("POLYAXON_NO_OP");
            assert_eq!(found.ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn each_role_has_its_folder() {
        let places = Places::of(&variables(&[("POLYAXON_ARTIFACTS_STORE_NAME", "store")]));
        let run = RUN.parse().unwrap();
        let table = [
            (Role::Unmanaged, "/tmp/plx/artifacts/"),
            (Role::Pod, "/plx-context/artifacts/"),
            (Role::PodAlone, "/plx-context/artifacts/"),
            (Role::PodOfAnother, "/plx-context/artifacts/_related_runs/"),
        ];
        for (role, folder) in table {
            let expected = format!("{folder}{RUN}");
            assert_eq!(places.folder(role, run), Path::new(&expected));
        }
        assert_eq!(places.store().as_deref(), Some("store"));
        assert_eq!(Role::Pod.with_a_run_of_its_own(), Role::PodOfAnother);
    }

    #[test]
    fn a_pod_says_which_run_it_is_whatever_is_cached() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join(".polyaxon");
        std::fs::create_dir(&cache).unwrap();
        std::fs::write(
            cache.join(".project"),
            r#"{"owner":"o/team","name":"cached"}"#,
        )
        .unwrap();
        let instance = format!("acme.lab.runs.{RUN}");
        let mut pairs = vec![
            ("POLYAXON_HOME", folder.path().to_str().unwrap()),
            ("POLYAXON_IS_MANAGED", "true"),
            ("POLYAXON_RUN_INSTANCE", instance.as_str()),
        ];
        let tracking = online(&variables(&pairs), folder.path()).unwrap();
        assert_eq!(tracking.uuid, Some(RUN.parse().unwrap()));
        let project = tracking.introduction.project.unwrap();
        assert_eq!(project.to_string(), "acme/lab");
        assert!(matches!(
            tracking.way,
            Way::Online {
                role: Role::Pod,
                ..
            }
        ));

        let other = online(&variables(&pairs), folder.path()).unwrap();
        let other = other.project("acme/other".parse().unwrap());
        let refused = tokio::runtime::Builder::new_current_thread().build();
        let refused = refused.unwrap().block_on(other.plan()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the run belongs to acme/lab, not to acme/other"
        );

        pairs.push(("POLYAXON_HAS_PROCESS_SIDECAR", "false"));
        let alone = online(&variables(&pairs), folder.path()).unwrap();
        assert!(matches!(
            alone.way,
            Way::Online {
                role: Role::PodAlone,
                ..
            }
        ));

        pairs[1].1 = "false";
        let outside = online(&variables(&pairs), folder.path()).unwrap();
        let project = outside.introduction.project.unwrap();
        assert_eq!(
            (project.to_string().as_str(), outside.uuid),
            ("o/cached", None)
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = [("HOME", folder.path().to_str().unwrap())];
        let error = online(&variables(&nowhere), folder.path()).unwrap_err();
        assert!(
            error.to_string().starts_with("the project cannot be used"),
            "{error}"
        );
        let broken = [
            ("POLYAXON_IS_MANAGED", "true"),
            ("POLYAXON_RUN_INSTANCE", "acme.lab.jobs.x"),
        ];
        let error = online(&variables(&broken), folder.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("POLYAXON_RUN_INSTANCE cannot be used"),
            "{error}"
        );
        let unset = [("POLYAXON_IS_MANAGED", "true")];
        let error = online(&variables(&unset), folder.path()).unwrap_err();
        assert!(error.to_string().contains("not set"), "{error}");
    }
}
