//! Ends what attempts have left running.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_loop::RequestId;
use agent_loop::journal::{CorruptJournal, Event, ReadJournal};
use agent_loop::workspace::StopState;
use polyaxon_client::runs::RunStatus;
use polyaxon_client::{Client, Config, Error, ProjectRef, RunUuid};
use polyaxon_sandbox::Sandboxes;
use serde::Deserialize;

use super::{FINE, NOT, UNREADABLE, chain, complain, say};

/// What `workspace.json` says of a run. Whoever writes it may put it below `identity`.
#[derive(Deserialize)]
struct Workspace {
    #[serde(alias = "run_uuid")]
    sandbox_run_uuid: Option<String>,
    project: Option<String>,
    /// What the sandbox is found by of which it is not known whether it was made.
    launch_id: Option<String>,
    identity: Option<Box<Self>>,
}

/// A fresh place of which no record says that it has ended.
struct LeftOver {
    id: RequestId,
    /// What it says of itself, or what was announced before it was made.
    said: serde_json::Value,
}

/// Ends the runs of these folders, one after the other: that of the workspace, and then those of
/// fresh places whose end the journal does not confirm. The highest exit status wins.
pub(super) async fn all(folders: &[PathBuf], wait: Duration, host: Option<&str>) -> u8 {
    let client = match client(host) {
        Ok(client) => client,
        Err(error) => return complain(chain(&error), UNREADABLE),
    };
    let mut status = FINE;
    for folder in folders {
        let about = folder.display().to_string();
        let this = match named(folder) {
            Ok(said) => end(&client, &about, said, wait).await,
            Err(problem) => complain(problem, UNREADABLE),
        };
        status = status.max(this).max(fresh(&client, folder, wait).await);
    }
    status
}

/// Ends the fresh places that the journal names.
async fn fresh(client: &Client, folder: &Path, wait: Duration) -> u8 {
    let shown = folder.display();
    let left_over = match left_over(folder) {
        Ok(left_over) => left_over,
        Err(error) => {
            let problem = format!(
                "{shown}: whether fresh places are left over is not known: {}",
                chain(&error)
            );
            return complain(problem, UNREADABLE);
        }
    };
    let mut status = FINE;
    for place in left_over {
        let about = format!("{shown}: fresh place of {}", place.id);
        status = status.max(end(client, &about, place.said, wait).await);
    }
    status
}

/// Ends a fresh place, if it was made.
async fn end(client: &Client, about: &str, said: serde_json::Value, wait: Duration) -> u8 {
    if said.is_null() {
        return complain(
            format!("{about}: it may be left over, and nothing is known to find it by"),
            NOT,
        );
    }
    let run = match serde_json::from_value::<Workspace>(said) {
        Ok(workspace) => workspace.made(client, about).await,
        Err(error) => Err(format!("{about} cannot be understood: {error}")),
    };
    match run {
        Ok(Some(run)) => one(client, about, &run, wait).await,
        Ok(None) => {
            say(format_args!(
                "{about}: the platform knows no sandbox that was made for it"
            ));
            FINE
        }
        Err(problem) => complain(problem, UNREADABLE),
    }
}

/// The fresh places of which no record says that they have ended, in order. None where nothing was
/// recorded.
fn left_over(folder: &Path) -> Result<Vec<LeftOver>, CorruptJournal> {
    let journal = match ReadJournal::read(folder) {
        Ok(journal) => journal,
        Err(CorruptJournal::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut places: Vec<LeftOver> = Vec::new();
    for record in journal.known() {
        let (id, said) = match &record.event {
            Event::Placing(placing) => (&placing.id, Some(&placing.announced)),
            Event::Placed(placed) => (&placed.id, Some(&placed.identity)),
            Event::Left(left) if left.stop == StopState::Confirmed => (&left.id, None),
            _ => continue,
        };
        // What is said later says more.
        places.retain(|place| place.id != *id);
        places.extend(said.map(|said| LeftOver {
            id: id.clone(),
            said: said.clone(),
        }));
    }
    Ok(places)
}

fn client(host: Option<&str>) -> Result<Client, Error> {
    match host {
        None => Client::from_env(),
        Some(host) => {
            let host = Config::explicit(host)?.host_url().clone();
            Client::new(&Config::from_env()?.host(host))
        }
    }
}

/// A run of a sandbox.
struct Run {
    project: ProjectRef,
    run: RunUuid,
}

impl Workspace {
    /// The run that it names. `shown` is where it was read.
    fn run(mut self, shown: &str) -> Result<Run, String> {
        if let Some(identity) = self.identity.take() {
            self = *identity;
        }
        let Some(run) = &self.sandbox_run_uuid else {
            return Err(format!("{shown} names no run of a sandbox"));
        };
        Ok(Run {
            run: run
                .parse()
                .map_err(|error| format!("{shown} names run {run:?}, which is none: {error}"))?,
            project: self.project(shown)?,
        })
    }

    fn project(&self, shown: &str) -> Result<ProjectRef, String> {
        let Some(project) = &self.project else {
            return Err(format!("{shown} names no project"));
        };
        project
            .parse()
            .map_err(|error| format!("{shown} names project {project:?}, which is none: {error}"))
    }

    /// The run that it names, or that was made under the launch id that it names; nothing where
    /// none was.
    async fn made(self, client: &Client, shown: &str) -> Result<Option<Run>, String> {
        let (None, Some(launch)) = (&self.sandbox_run_uuid, &self.launch_id) else {
            return self.run(shown).map(Some);
        };
        let project = self.project(shown)?;
        let found = Sandboxes::of(client, &project).look_for(launch).await;
        let found = found.map_err(|error| format!("{shown}: {}", chain(&error)))?;
        Ok(found.map(|run| Run {
            project,
            run: run.uuid,
        }))
    }
}

/// What the folder says of the workspace: a run, or what one was to be found by.
fn named(folder: &Path) -> Result<serde_json::Value, String> {
    let file = folder.join("workspace.json");
    let shown = file.display();
    let text = std::fs::read(&file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{shown} cannot be understood: {error}"))
}

/// Ends a run, and says under `about` how far that has come.
async fn one(client: &Client, about: &str, run: &Run, wait: Duration) -> u8 {
    let Run { project, run } = run;
    let run = *run;
    let runs = client.runs(project);
    let about = format!("{about}: run {run} of {project}");
    let before = match runs.statuses(run).await {
        Ok(before) => before.status,
        Err(error) => return complain(format!("{about}: {}", chain(&error)), UNREADABLE),
    };
    if before.is_final() {
        say(format_args!("{about} has ended already: {before}"));
        return FINE;
    }
    if let Err(error) = runs.stop(run).await {
        let problem = format!("{about}: the stop was not requested: {}", chain(&error));
        return complain(problem, UNREADABLE);
    }
    let unconfirmed = |last: Option<&RunStatus>| {
        let last = last.map_or(String::new(), |last| format!("; its status is {last}"));
        say(format_args!("{about}: stop requested, not confirmed{last}"));
        NOT
    };
    match runs.wait_until_final(run, wait).await {
        Ok(now) => {
            say(format_args!("{about}: stop confirmed: {}", now.status));
            FINE
        }
        Err(Error::WaitTimedOut { last, .. }) => unconfirmed(Some(&last)),
        Err(error) => {
            complain(format!("{about}: {}", chain(&error)), NOT);
            unconfirmed(None)
        }
    }
}
