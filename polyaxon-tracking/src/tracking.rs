//! Where a run is tracked, and as what.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polyaxon_client::runs::CreateRun;
use polyaxon_client::{Client, ProjectRef, RunUuid};
use tempfile::TempDir;

use crate::artifact::RunFolder;
use crate::error::Error;
use crate::ground::{self, Created};
use crate::place::{Places, Role};
use crate::plan::{Duties, Introduction, Plan, Post};

/// Where a run is tracked, and as what.
///
/// # Examples
/// ```
/// use polyaxon_tracking::Tracking;
///
/// let tracking = Tracking::offline("offline")
///     .project("acme/agent-lab".parse()?)
///     .name("candidate-7")
///     .tag("nightly");
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a Tracking does nothing until it is passed to `TrackedRun::start`"]
pub struct Tracking {
    pub(crate) way: Way,
    pub(crate) uuid: Option<RunUuid>,
    pub(crate) resumes: bool,
    pub(crate) introduction: Introduction,
    pub(crate) capacity: usize,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) resources: Option<Duration>,
    pub(crate) send_limit: Duration,
    pub(crate) collects: Collects,
}

/// What is logged of the surroundings at the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collects {
    pub(crate) env: bool,
    /// The folder of the code.
    pub(crate) code: Option<PathBuf>,
}

/// Where a run goes.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// Into a folder below this one.
    Offline(PathBuf),
    /// Nowhere: it leaves nothing behind.
    Nowhere,
    /// To a server, from the folders of these places.
    Online {
        client: Client,
        role: Role,
        places: Places,
        /// The project of the pod's run.
        pod: Option<ProjectRef>,
    },
}

impl Tracking {
    pub(crate) fn on(way: Way) -> Self {
        Self {
            way,
            uuid: None,
            resumes: false,
            introduction: Introduction::default(),
            capacity: 100_000,
            folder: None,
            resources: None,
            send_limit: Duration::from_secs(60),
            collects: Collects::default(),
        }
    }

    /// In the folder `root/runs/UUID` of this machine; nothing is sent. `root` is what the Python
    /// client calls `POLYAXON_OFFLINE_ROOT`. [`push`](crate::push) and its `polyaxon ops push`
    /// send such a run later.
    pub fn offline(root: impl Into<PathBuf>) -> Self {
        Self::on(Way::Offline(root.into())).run(RunUuid::random())
    }

    /// In a project of a server: a new run, or with [`run`](Self::run) one that is there. Its
    /// files are first written below `POLYAXON_ARTIFACTS_ROOT` (`/tmp/plx/artifacts`) and then
    /// uploaded.
    ///
    /// A new run is this process's: it has its statuses. One that is there already keeps those
    /// that others give it.
    pub fn new(client: &Client, project: &ProjectRef) -> Self {
        let way = Way::Online {
            client: client.clone(),
            role: Role::Unmanaged,
            places: Places::of_process(),
            pod: None,
        };
        Self::on(way).project(project.clone())
    }

    /// Where the surroundings say: in a pod, for the run of that pod; else offline where
    /// `POLYAXON_IS_OFFLINE` says so; else as a new run in the cached project.
    ///
    /// | variable | default | meaning |
    /// |---|---|---|
    /// | `POLYAXON_NO_OP` | false | nothing is kept: calls are checked and forgotten |
    /// | `POLYAXON_IS_OFFLINE` | false | a folder below `POLYAXON_OFFLINE_ROOT` (`/tmp/plx/offline`) |
    /// | `POLYAXON_IS_MANAGED` | false | in a pod: the run that `POLYAXON_RUN_INSTANCE` names |
    /// | `POLYAXON_HAS_PROCESS_SIDECAR` | – | any text: in a pod without a container for the files, which this process then sends itself |
    /// | `POLYAXON_CONTEXT_ROOT` | `/plx-context` | where a pod has its files |
    /// | `POLYAXON_ARTIFACTS_ROOT` | `/tmp/plx/artifacts` | where files are outside of pods |
    /// | `POLYAXON_ARTIFACTS_STORE_NAME` | – | the store that lineage records name |
    /// | `POLYAXON_COLLECT_RESOURCES` | false | the machine's load is measured, as by [`with_resources`](Self::with_resources) |
    /// | `POLYAXON_HOME` | `~` | where `.polyaxon/.project` is, after that in the current folder |
    ///
    /// Host and token are those of [`Config::from_env`](polyaxon_client::Config::from_env). In a
    /// pod the run instance goes before a cached project.
    ///
    /// # Errors
    /// [`Error::Surroundings`] where a variable or file cannot be used, or nothing names a
    /// project; [`Error::Client`] where the client's settings cannot be used.
    pub fn from_env() -> Result<Self, Error> {
        crate::place::from_env(&crate::place::Variables::of_process())
    }

    /// Nowhere: calls are checked and forgotten, and files go into a folder that is deleted with
    /// the run.
    pub fn no_op() -> Self {
        Self::on(Way::Nowhere)
    }

    /// As this run. Default: a new one, in a pod the pod's. A run whose folder is there already is
    /// continued: it keeps what it has, and its status where that is final.
    pub fn run(mut self, uuid: RunUuid) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// As this run, which an earlier process of this program made, with the same
    /// [`folder`](Self::folder), and did not end: it was killed, for example. What it left in the
    /// folder is sent, and the run's statuses are this process's. Offline it is as
    /// [`run`](Self::run), which always goes on with what is there.
    ///
    /// The earlier process must be gone: else what the two tell the server is mixed.
    pub fn resume(mut self, uuid: RunUuid) -> Self {
        self.resumes = true;
        self.run(uuid)
    }

    /// As a run of its own, in a pod too: beside the run of the pod, with its own statuses. The
    /// platform has its files. Outside of pods it takes [`run`](Self::run) back.
    pub fn new_run(mut self) -> Self {
        self.uuid = None;
        self.resumes = false;
        if let Way::Online { role, .. } = &mut self.way {
            *role = role.with_a_run_of_its_own();
        }
        self
    }

    /// In this project. Default offline: none, until the run is sent to one. In a pod it is the
    /// pod's, and another is an error of the start.
    pub fn project(mut self, project: ProjectRef) -> Self {
        self.introduction.project = Some(project);
        self
    }

    /// Under this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.introduction.name = Some(name.into());
        self
    }

    /// With a text for people.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.introduction.description = Some(description.into());
        self
    }

    /// With a tag more.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.introduction.tags.push(tag.into());
        self
    }

    /// How many values may wait to be written, and calls to be sent, before no more are taken.
    /// Default: 100,000, which take some megabytes.
    pub fn queue_capacity(mut self, values: usize) -> Self {
        self.capacity = values;
        self
    }

    /// With its files in this folder and not in a folder of its own below that of all runs. It is
    /// uploaded as it is, so it should be a new one, or that of the [`run`](Self::run) that is gone
    /// on with.
    ///
    /// One that holds the record of another run is an error of the start,
    /// [`Error::OtherRun`](crate::Error::OtherRun), offline too: a run that is gone on with is named
    /// by [`run`](Self::run) or [`resume`](Self::resume), and its record is sent by
    /// [`push`](crate::push).
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Measures how busy the machine is: processors and memory in per cent, and the load, at the
    /// start and then as often as this. The platform's module does it every 10 s. Linux only.
    pub fn with_resources(mut self, interval: Duration) -> Self {
        self.resources = Some(interval);
        self
    }

    /// Logs at the start what [`log_env`](crate::TrackedRun::log_env) logs.
    pub fn with_env(mut self) -> Self {
        self.collects.env = true;
        self
    }

    /// Logs at the start the commit of the code in this folder, as
    /// [`log_code_ref`](crate::TrackedRun::log_code_ref) does.
    pub fn with_code(mut self, folder: impl Into<PathBuf>) -> Self {
        self.collects.code = Some(folder.into());
        self
    }

    /// How long sending may go on once the run has ended; the final status has the last quarter of
    /// it, and 10 s at most. Default: 60 s.
    pub fn send_limit(mut self, limit: Duration) -> Self {
        self.send_limit = limit;
        self
    }

    /// Settles what is open. Creates the run, where that is to be done.
    pub(crate) async fn plan(self) -> Result<(Plan, Option<TempDir>), Error> {
        let chosen = self.folder.clone();
        let at = |base: &Path, usual: PathBuf, uuid| {
            let root = chosen.clone().unwrap_or(usual);
            RunFolder::new(base, &root, uuid)
        };
        let (mut temporary, mut created) = (None, None);
        let (folder, post) = match &self.way {
            Way::Offline(root) => {
                let uuid = self.uuid.unwrap_or_else(RunUuid::random);
                let usual = root.join("runs").join(uuid.to_string());
                (at(root, usual, uuid)?, None)
            }
            Way::Nowhere => {
                let made = tempfile::tempdir()
                    .map_err(Error::io("create", Path::new("a temporary folder")))?;
                let uuid = self.uuid.unwrap_or_else(RunUuid::random);
                let folder = RunFolder::new(made.path(), &made.path().join("run"), uuid)?;
                temporary = Some(made);
                (folder, None)
            }
            Way::Online {
                client,
                role,
                places,
                pod,
            } => {
                self.check_project(pod.as_ref())?;
                // Before a run is created: the folders of all runs are in one place.
                let usual = places.folder(*role, self.uuid.unwrap_or_else(RunUuid::random));
                ground::check(chosen.clone().unwrap_or(usual), self.uuid).await?;
                let project = self.introduction.project.as_ref();
                let project = project.ok_or_else(|| Error::Surroundings {
                    variable: "the project".to_owned(),
                    problem: "is not named".to_owned(),
                })?;
                let runs = client.runs(project);
                let (uuid, namespace) = match self.uuid {
                    Some(uuid) => (uuid, None),
                    None => {
                        let made = runs.create(&self.creation()).await?;
                        let namespace = made.namespace().map(str::to_owned);
                        let run = made.uuid;
                        created = Some(Created {
                            runs: runs.clone(),
                            run,
                        });
                        (run, namespace)
                    }
                };
                let settle = async {
                    let namespace = match namespace {
                        Some(namespace) => namespace,
                        // Says too whether there is such a run.
                        None => {
                            let run = runs.get(uuid).await?;
                            run.namespace().unwrap_or("polyaxon").to_owned()
                        }
                    };
                    let post = Post {
                        runs: client.with_own_connections()?.runs(project),
                        namespace,
                        store: places.store(),
                        duties: self.duties(*role, created.is_some()),
                        resumes: self.resumes,
                        limit: self.send_limit,
                    };
                    let folder = at(&places.base(), places.folder(*role, uuid), uuid)?;
                    Ok((folder, Some(post)))
                };
                match (settle.await, created.clone()) {
                    (Ok(settled), _) => settled,
                    (Err(error), None) => return Err(error),
                    (Err(error), Some(created)) => return Err(created.failed(error).await),
                }
            }
        };
        let plan = Plan {
            folder,
            introduction: self.introduction,
            capacity: self.capacity,
            resources: self.resources,
            post,
            created,
        };
        Ok((plan, temporary))
    }

    /// In a pod, the project is the pod's.
    fn check_project(&self, pod: Option<&ProjectRef>) -> Result<(), Error> {
        match (pod, &self.introduction.project) {
            (Some(found), Some(asked)) if found != asked => Err(Error::OtherProject {
                found: found.to_string(),
                asked: asked.to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn duties(&self, role: Role, is_new: bool) -> Duties {
        match role {
            Role::Pod => Duties::Pod,
            Role::PodOfAnother => Duties::PodOfAnother,
            Role::PodAlone => Duties::PodAlone,
            Role::Unmanaged if is_new || self.resumes => Duties::All,
            Role::Unmanaged => Duties::Guest,
        }
    }

    fn creation(&self) -> CreateRun {
        let mut run = CreateRun::unmanaged();
        run.name.clone_from(&self.introduction.name);
        run.description.clone_from(&self.introduction.description);
        run.tags.clone_from(&self.introduction.tags);
        run
    }
}
