//! Sandboxes that are made for one check, and the user that its commands run as.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use polyaxon_client::{Client, Effect, ProjectRef};
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};

use super::SandboxWorkspace;
use crate::ids::RequestId;
use crate::private::Private;
use crate::workspace::{Workspace, WorkspaceError, Workspaces};

/// The folder of a check in a sandbox of its own.
const FOLDER: &str = "check";
/// How long a sandbox lives whatever becomes of the attempt, where its description does not say.
const LIFE_LIMIT: Duration = Duration::from_secs(1800);
/// How long one may take to be ready.
const READY_LIMIT: Duration = Duration::from_secs(600);

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

    async fn make(&self, id: &RequestId) -> Result<SandboxWorkspace, WorkspaceError> {
        let failed = |error: &polyaxon_sandbox::Error| {
            let detail = Private::from_error(error);
            match error.effect() {
                Effect::NotApplied => WorkspaceError::Failed(detail),
                Effect::Applied | Effect::Unknown => WorkspaceError::Uncertain(detail),
            }
        };
        // Each call is a new sandbox, also where the same stage is run again.
        let now = jiff::Timestamp::now().as_nanosecond();
        let spec = self.spec.clone().termination_timeout(self.life_limit);
        // An id may hold a colon, which is no letter of a launch id.
        let launch = format!("{now:x}-{id}").replace(':', ".");
        let spec = spec.launch_id(launch.chars().take(64).collect::<String>());
        let pending = SandboxClient::create(&self.client, &self.project, &spec)
            .await
            .map_err(|error| failed(&error))?;
        let sandbox = pending.sandbox().clone();
        let ready = match pending.ready(self.ready_limit).await {
            Ok(sandbox) => Self::prepared(sandbox, self.life_limit).await,
            Err(error) => Err(WorkspaceError::Failed(Private::from_error(&error))),
        };
        if ready.is_err() {
            // Its life limit ends it where this request does not arrive.
            drop(sandbox.stop().await);
        }
        ready
    }

    async fn prepared(
        sandbox: SandboxClient,
        life_limit: Duration,
    ) -> Result<SandboxWorkspace, WorkspaceError> {
        let workspace = SandboxWorkspace::new(sandbox, FOLDER)
            .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))?;
        workspace.life_limit(life_limit).isolated().await
    }
}

impl Workspaces for SandboxWorkspaces {
    /// # Cancel safety
    /// Dropping the future can leave a sandbox behind, until its life limit.
    fn fresh<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        async move { Ok(Arc::new(self.make(id).await?) as Arc<dyn Workspace>) }.boxed()
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

    /// Gives the user a home and a cache, and tries what it must not be able to do.
    fn trial(self) -> String {
        let (user, run) = (self.id, self.prefix().join(" "));
        format!(
            "set -e; chmod 755 .; mkdir -m 700 home cache; chown {user}:{user} home cache; \
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
