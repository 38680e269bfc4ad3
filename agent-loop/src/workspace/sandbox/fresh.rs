//! Sandboxes that are made for one check, and the user that its commands run as.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use polyaxon_client::runs::RunStatus;
use polyaxon_client::{Client, Effect, ProjectRef, RunUuid};
use polyaxon_sandbox::{Exec, ExecResult, SandboxClient, SandboxSpec, Sandboxes};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{KIND, SandboxWorkspace};
use crate::ids::RequestId;
use crate::private::Private;
use crate::workspace::{StopState, Workspace, WorkspaceError, Workspaces};

/// The folder of a check in a sandbox of its own.
const FOLDER: &str = "check";
/// How long a sandbox lives whatever becomes of the attempt, where its description does not say.
const LIFE_LIMIT: Duration = Duration::from_secs(1800);
/// How long one may take to be ready.
const READY_LIMIT: Duration = Duration::from_secs(600);
/// How long the end of one is waited for that nobody holds, before there is another.
const END_LIMIT: Duration = Duration::from_secs(30);
/// As long as a launch id is made here. The platform takes twice as many letters.
const LONGEST_LAUNCH_ID: usize = 64;

/// Makes a sandbox for each stage of a check that asks for a fresh place, and asks for its end
/// after the stage: for tests that the model has never been near.
///
/// Where the sandbox's service runs as root and its image has `setpriv` (util-linux, so every
/// Debian), commands run as a user of their own who can write neither the files that were put nor
/// the folders that they are in, and whose processes are all ended with the command. That is tried
/// out in each sandbox before it is claimed, and makes a pass [`Level::Isolated`]; where it is not
/// possible the place says so, and the level is lower.
///
/// [`Level::Isolated`]: crate::acceptance::Level::Isolated
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use agent_loop::workspace::SandboxWorkspaces;
/// use polyaxon_client::{Client, Config};
/// use polyaxon_sandbox::SandboxSpec;
///
/// let client = Client::new(&Config::explicit("http://127.0.0.1:8000")?)?;
/// let places = SandboxWorkspaces::new(
///     client,
///     "acme/agent-lab".parse()?,
///     SandboxSpec::image("python:3.12-slim"),
/// )
/// .life_limit(Duration::from_secs(600));
/// # let _ = places;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SandboxWorkspaces {
    client: Client,
    project: ProjectRef,
    spec: SandboxSpec,
    life_limit: Duration,
    ready_limit: Duration,
}

impl SandboxWorkspaces {
    /// Sandboxes like `spec` in `project`, which live for half an hour at most.
    #[must_use]
    pub fn new(client: Client, project: ProjectRef, spec: SandboxSpec) -> Self {
        Self {
            client,
            project,
            spec,
            life_limit: LIFE_LIMIT,
            ready_limit: READY_LIMIT,
        }
    }

    /// How long a sandbox lives whatever becomes of the attempt. Default: half an hour.
    #[must_use]
    pub fn life_limit(mut self, limit: Duration) -> Self {
        self.life_limit = limit;
        self
    }

    /// How long one may take to be ready. Default: ten minutes.
    #[must_use]
    pub fn ready_limit(mut self, limit: Duration) -> Self {
        self.ready_limit = limit;
        self
    }

    async fn make(&self, announced: &Value) -> Result<SandboxWorkspace, WorkspaceError> {
        let failed = |error: &polyaxon_sandbox::Error| {
            let detail = Private::from_error(error);
            match error.effect() {
                Effect::NotApplied => WorkspaceError::Failed(detail),
                Effect::Applied | Effect::Unknown => WorkspaceError::Uncertain(detail),
            }
        };
        let Some(Said {
            launch_id: Some(launch),
            ..
        }) = Said::read(announced)
        else {
            let detail = Private::new("what was announced is no sandbox");
            return Err(WorkspaceError::Refused(detail));
        };
        let spec = self.spec.clone().termination_timeout(self.life_limit);
        let spec = spec.launch_id(launch);
        let pending = SandboxClient::create(&self.client, &self.project, &spec)
            .await
            .map_err(|error| failed(&error))?;
        let sandbox = pending.sandbox().clone();
        let ready = match pending.ready(self.ready_limit).await {
            Ok(sandbox) => self.prepared(sandbox).await,
            Err(error) => Err(WorkspaceError::Failed(Private::from_error(&error))),
        };
        match ready {
            Ok(workspace) => Ok(workspace),
            Err(error) => match sandbox.stop().await {
                Ok(()) => Err(error),
                // Its life limit ends it where nobody looks for it.
                Err(_) => Err(WorkspaceError::Uncertain(Private::from_error(&error))),
            },
        }
    }

    async fn prepared(&self, sandbox: SandboxClient) -> Result<SandboxWorkspace, WorkspaceError> {
        self.workspace(sandbox)?.isolated().await
    }

    fn workspace(&self, sandbox: SandboxClient) -> Result<SandboxWorkspace, WorkspaceError> {
        let workspace = SandboxWorkspace::new(sandbox, FOLDER)
            .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))?;
        Ok(workspace.life_limit(self.life_limit))
    }

    /// The sandbox that says this of itself, where it still runs.
    async fn again(&self, identity: &Value) -> Result<SandboxWorkspace, WorkspaceError> {
        let said = Said::read(identity);
        let Some((said, run)) = said.and_then(|said| said.sandbox_run_uuid.map(|run| (said, run)))
        else {
            let detail = Private::new("this names no run of a sandbox");
            return Err(WorkspaceError::Uncertain(detail));
        };
        let project = said.project;
        let statuses = self.client.runs(&project).statuses(run).await;
        let statuses =
            statuses.map_err(|error| WorkspaceError::Uncertain(Private::from_error(&error)))?;
        // One that is being stopped is of no use any more.
        if statuses.status != RunStatus::Running {
            return Err(WorkspaceError::NotFound);
        }
        let sandbox = SandboxClient::connect(&self.client, &project, run);
        let mut workspace = self.workspace(sandbox)?;
        workspace.life_limit = said.life_limit_s.map(Duration::from_secs);
        workspace.isolation = said.commands_run_as.map(|id| OtherUser { id });
        Ok(workspace)
    }

    /// Ends the sandbox of which this was said, before or after it was made.
    async fn end_of(&self, said: &Value) -> StopState {
        let Some(said) = Said::read(said) else {
            return StopState::NotRequested;
        };
        let found = match (said.sandbox_run_uuid, said.launch_id) {
            (Some(run), _) => Ok(Some(run)),
            (None, Some(launch)) => {
                let sandboxes = Sandboxes::of(&self.client, &said.project);
                let found = sandboxes.look_for(&launch).await;
                found.map(|run| run.map(|run| run.uuid))
            }
            (None, None) => Ok(None),
        };
        let run = match found {
            Ok(Some(run)) => run,
            Ok(None) => return StopState::NotRequested,
            Err(error) => return StopState::failed(Private::from_error(&error)),
        };
        let runs = self.client.runs(&said.project);
        if let Err(error) = runs.stop(run).await {
            return StopState::failed(Private::from_error(&error));
        }
        match runs.wait_until_final(run, END_LIMIT).await {
            Ok(_) => StopState::Confirmed,
            Err(_) => StopState::Requested,
        }
    }
}

/// What is said of a sandbox before it is made, and what it says of itself.
#[derive(Deserialize)]
struct Said {
    kind: String,
    #[serde(deserialize_with = "project")]
    project: ProjectRef,
    /// Before it is made.
    launch_id: Option<String>,
    /// From then on.
    sandbox_run_uuid: Option<RunUuid>,
    life_limit_s: Option<u64>,
    commands_run_as: Option<u32>,
}

impl Said {
    fn read(said: &Value) -> Option<Self> {
        Self::deserialize(said)
            .ok()
            .filter(|said| said.kind == KIND)
    }
}

fn project<'de, D: Deserializer<'de>>(text: D) -> Result<ProjectRef, D::Error> {
    let text = String::deserialize(text)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// A launch id that no other call makes: by the time, and by chance for those who look at the clock
/// at the same time. With the request in it, for people; an id may hold a colon and be longer.
fn launch_id(id: &RequestId) -> String {
    let now = jiff::Timestamp::now().as_nanosecond();
    let chance = RandomState::new().build_hasher().finish();
    let launch = format!("{now:x}-{chance:016x}-{id}").replace(':', ".");
    launch.chars().take(LONGEST_LAUNCH_ID).collect()
}

impl Workspaces for SandboxWorkspaces {
    /// # Cancel safety
    /// Dropping the future can leave a sandbox behind, until its life limit.
    fn fresh<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move { self.fresh_as(id, &self.announce(id)).await }.boxed()
    }

    /// A launch id ([`SandboxSpec::launch_id`]), which the platform keeps with the run and can be
    /// asked for.
    fn announce(&self, id: &RequestId) -> Value {
        json!({
            "kind": KIND,
            "project": self.project.to_string(),
            "launch_id": launch_id(id),
            "life_limit_s": self.life_limit.as_secs(),
        })
    }

    fn fresh_as<'a>(
        &'a self,
        _id: &'a RequestId,
        announced: &'a Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move { Ok(Arc::new(self.make(announced).await?) as Arc<dyn Workspace>) }.boxed()
    }

    /// By its run, if that is running, whoever has made it.
    fn reopen<'a>(
        &'a self,
        _id: &'a RequestId,
        identity: &'a Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move { Ok(Arc::new(self.again(identity).await?) as Arc<dyn Workspace>) }.boxed()
    }

    /// Stops the run, and waits up to half a minute until it has ended. Where only its launch id is
    /// known the run is looked for, for five seconds where there is none: the request that makes it
    /// can have been on its way when its program was ended.
    fn end<'a>(&'a self, _id: &'a RequestId, said: &'a Value) -> BoxFuture<'a, StopState> {
        self.end_of(said).boxed()
    }
}

/// A user whom commands run as, and whose processes and files are of nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherUser {
    id: u32,
}

impl OtherUser {
    /// A user of which it is unlikely that the image has it: what is ended with a command are all
    /// its processes. Below 65,534, beyond which some containers have no users.
    fn choose() -> Self {
        let chance = jiff::Timestamp::now().subsec_nanosecond().unsigned_abs();
        Self {
            id: 60_000 + chance % 5_000,
        }
    }

    pub(super) fn id(self) -> u32 {
        self.id
    }

    /// What comes before a command that is to run as this user.
    pub(super) fn prefix(self) -> [String; 7] {
        [
            "setpriv".to_owned(),
            format!("--reuid={}", self.id),
            format!("--regid={}", self.id),
            "--clear-groups".to_owned(),
            "--inh-caps=-all".to_owned(),
            "--no-new-privs".to_owned(),
            "--".to_owned(),
        ]
    }

    /// Gives the user a home and a cache in the working folder, in which it can make nothing itself.
    fn folders(self) -> String {
        let user = self.id;
        format!("mkdir -m 700 home cache && chown {user}:{user} home cache")
    }

    /// Gives the user its folders, and tries what it must not be able to do.
    fn trial(self) -> String {
        let (user, run, folders) = (self.id, self.prefix().join(" "), self.folders());
        format!(
            "set -e; chmod 755 .; {folders}; \
             echo kept >.trial; here=$PWD; \
             test \"$({run} id -u)\" = {user}; \
             if {run} sh -c 'echo x >.trial' 2>/dev/null; then exit 1; fi; \
             if {run} rm -f .trial 2>/dev/null; then exit 1; fi; \
             if {run} mv \"$here\" \"$here.moved\" 2>/dev/null; then exit 1; fi; \
             {run} sh -c 'echo x >home/trial && rm home/trial'; \
             test \"$(cat .trial)\" = kept; rm .trial"
        )
    }

    /// Ends every process of the user and sees that none is left. `kill -1` signals all that this
    /// user may signal, and these are its own.
    fn sweep(self) -> String {
        let (user, run) = (self.id, self.prefix().join(" "));
        format!(
            "n=0; while [ $n -lt 50 ]; do \
             {run} sh -c 'kill -KILL -1' 2>/dev/null; left=0; \
             for p in /proc/[0-9]*; do \
             if grep -qs '^Uid:[[:space:]]*{user}[[:space:]]' $p/status && \
             ! grep -qs '^State:[[:space:]]*[ZX]' $p/status; then left=1; fi; done; \
             [ $left = 0 ] && exit 0; n=$((n+1)); done; exit 1"
        )
    }

    /// Ends what the user's commands have left running.
    pub(super) async fn end_processes(self, sandbox: &SandboxClient) -> Result<(), WorkspaceError> {
        let swept = sandbox.process().exec(&Exec::shell(self.sweep())).await;
        match swept {
            Ok(swept) if swept.success() => Ok(()),
            Ok(_) => Err(WorkspaceError::Uncertain(Private::new(
                "processes of the check are left",
            ))),
            Err(error) => Err(WorkspaceError::Uncertain(Private::from_error(&error))),
        }
    }
}

impl SandboxWorkspace {
    /// Gives the user of the commands, if they have one of their own, its folders in this new place.
    pub(super) async fn with_folders(self) -> Result<Self, WorkspaceError> {
        if let Some(user) = self.isolation {
            let made = Exec::shell(user.folders()).workdir(self.root.as_str());
            let made = self.answered(self.sandbox.process().exec(&made).await);
            let made = made.and_then(ExecResult::ensure_success);
            made.map_err(|error| self.read_failed(&error))?;
        }
        Ok(self)
    }

    /// The same folder, made, with commands that run as a user of their own where that is possible.
    async fn isolated(mut self) -> Result<Self, WorkspaceError> {
        let made = self.fs().mkdir(&self.root).await;
        made.map_err(|error| self.write_failed(&error))?;
        let user = OtherUser::choose();
        let trial = Exec::shell(user.trial()).workdir(self.root.as_str());
        let tried = self.answered(self.sandbox.process().exec(&trial).await);
        let tried = tried.map_err(|error| self.write_failed(&error))?;
        self.isolation = tried.success().then_some(user);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_id_is_one_and_no_other_whatever_the_request() {
        let longest = "a:".repeat(RequestId::MAX_LEN / 2);
        for request in ["amounts-1.2.1", "suite:case-1.1.1", longest.as_str()] {
            let request = request.parse().unwrap();
            let [one, other] = [launch_id(&request), launch_id(&request)];
            assert_ne!(one, other);
            // It ends before the request does, and not before what makes it another.
            assert!((40..=LONGEST_LAUNCH_ID).contains(&one.len()), "{one}");
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            assert!(one.bytes().all(fits), "{one}");
        }
    }

    #[test]
    fn what_is_said_of_a_sandbox_is_read_back_and_nothing_else_is_one() {
        let run = "8aac02e3a62a4f0aaa257c59da5eab80";
        let table = [
            (
                json!({"kind": KIND, "project": "a/b", "launch_id": "1"}),
                true,
            ),
            (
                json!({"kind": KIND, "project": "a/b", "sandbox_run_uuid": run, "folder": "/tmp/x"}),
                true,
            ),
            (
                json!({"kind": KIND, "project": "a/b", "sandbox_run_uuid": "x"}),
                false,
            ),
            (
                json!({"kind": KIND, "project": "", "launch_id": "1"}),
                false,
            ),
            (
                json!({"kind": "vm", "project": "a/b", "launch_id": "1"}),
                false,
            ),
            (json!({"kind": KIND, "launch_id": "1"}), false),
            (json!("a/b"), false),
            (Value::Null, false),
        ];
        for (said, is_one) in table {
            assert_eq!(Said::read(&said).is_some(), is_one, "{said}");
        }
    }
}
