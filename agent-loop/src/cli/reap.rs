//! Ends what attempts have left running.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polyaxon_client::runs::RunStatus;
use polyaxon_client::{Client, Config, Error, ProjectRef, RunUuid};
use serde::Deserialize;

use super::{FINE, NOT, UNREADABLE, chain, complain, say};

/// What `workspace.json` says of a run. Whoever writes it may put it below `identity`.
#[derive(Deserialize)]
struct Workspace {
    #[serde(alias = "run_uuid")]
    sandbox_run_uuid: Option<String>,
    project: Option<String>,
    identity: Option<Box<Self>>,
}

/// Ends the runs of these folders, one after the other. The highest exit status wins.
pub(super) async fn all(folders: &[PathBuf], wait: Duration, host: Option<&str>) -> u8 {
    let client = match client(host) {
        Ok(client) => client,
        Err(error) => return complain(chain(&error), UNREADABLE),
    };
    let mut status = FINE;
    for folder in folders {
        let this = match named(folder) {
            Ok((project, run)) => one(&client, folder, &project, run, wait).await,
            Err(problem) => complain(problem, UNREADABLE),
        };
        status = status.max(this);
    }
    status
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

/// The run that the folder names.
fn named(folder: &Path) -> Result<(ProjectRef, RunUuid), String> {
    let file = folder.join("workspace.json");
    let shown = file.display();
    let text = std::fs::read(&file).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let mut workspace: Workspace = serde_json::from_slice(&text)
        .map_err(|error| format!("{shown} cannot be understood: {error}"))?;
    if let Some(identity) = workspace.identity.take() {
        workspace = *identity;
    }
    let (Some(run), Some(project)) = (workspace.sandbox_run_uuid, workspace.project) else {
        return Err(format!("{shown} names no run of a sandbox"));
    };
    let run = run
        .parse()
        .map_err(|error| format!("{shown} names run {run:?}, which is none: {error}"))?;
    let project = project
        .parse()
        .map_err(|error| format!("{shown} names project {project:?}, which is none: {error}"))?;
    Ok((project, run))
}

async fn one(
    client: &Client,
    folder: &Path,
    project: &ProjectRef,
    run: RunUuid,
    wait: Duration,
) -> u8 {
    let runs = client.runs(project);
    let about = format!("{}: run {run} of {project}", folder.display());
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
