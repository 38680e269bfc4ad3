//! Runs one stage of a check in an empty place.

use std::sync::Arc;
use std::time::Duration;

use super::{Places, within};
use crate::acceptance::{At, Stage, StageRun};
use crate::ids::RequestId;
use crate::machine::sources;
use crate::manifest::{File, Manifest, Tree};
use crate::path::RelPath;
use crate::private::Private;
use crate::workspace::{ExecReceipt, ExecSpec, Lookup, Precondition, Workspace, WorkspaceError};

/// The folder of the copy in its place. Beside it, `home` and `cache` are the command's own.
const COPY: &str = "work";
/// How much longer than its limit the answer of a command may take.
const EXEC_MARGIN: Duration = Duration::from_secs(30);
/// How long a fresh place may take. A sandbox has to be scheduled, and its image pulled.
const FRESH_LIMIT: Duration = Duration::from_secs(900);
/// How long to wait between two questions after a command whose answer was lost.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Places<'_> {
    /// Copies the files and then the fixtures, lists, runs, lists again, and removes the place.
    pub(super) async fn stage(
        &self,
        id: &RequestId,
        stage: &Stage,
        tree: &Tree,
    ) -> Result<StageRun, WorkspaceError> {
        let place = self.place(id, stage.at).await?;
        let run = self.run_in(&*place, id, stage, tree).await;
        // What is left over is in the way of nobody; what the check has shown stands.
        within(self.clock, super::FILES_LIMIT, place.stop()).await;
        run
    }

    async fn place(&self, id: &RequestId, at: At) -> Result<Arc<dyn Workspace>, WorkspaceError> {
        match (at, self.fresh) {
            (At::Here, _) => self.reading(self.workspace.fresh_dir(id)).await,
            (At::Fresh, Some(fresh)) => {
                let place = within(self.clock, FRESH_LIMIT, fresh.fresh(id)).await;
                let none =
                    || WorkspaceError::Failed(Private::new("no fresh place within the limit"));
                place.unwrap_or_else(|| Err(none()))
            }
            (At::Fresh, None) => Err(WorkspaceError::Failed(Private::new(
                "nobody makes fresh places",
            ))),
        }
    }

    async fn run_in(
        &self,
        place: &dyn Workspace,
        id: &RequestId,
        stage: &Stage,
        tree: &Tree,
    ) -> Result<StageRun, WorkspaceError> {
        let sources = sources(tree).filter(|(path, _)| stage.fixtures.get(path).is_none());
        for (path, file) in sources.chain(stage.fixtures.iter()) {
            self.copy(place, id, path, file).await?;
        }
        let before = self.list(place).await?;
        let receipt = self.exec(place, id, &in_copy(&stage.spec)?).await?;
        let after = self.list(place).await?;
        Ok(StageRun::new(id.clone(), place.capabilities(), before, receipt).after(after))
    }

    /// Puts a file into the copy. The place is new and ours alone, so a lost answer does no harm:
    /// the list that is taken before the command says what is there.
    async fn copy(
        &self,
        place: &dyn Workspace,
        id: &RequestId,
        path: &RelPath,
        file: &File,
    ) -> Result<(), WorkspaceError> {
        let path = below_copy(path)?;
        match self
            .writing(place.put(id, &path, file, Precondition::Absent))
            .await
        {
            Err(WorkspaceError::Uncertain(_)) => Ok(()),
            other => other,
        }
    }

    async fn list(&self, place: &dyn Workspace) -> Result<Manifest, WorkspaceError> {
        Ok(self.reading(place.list()).await?.below(COPY))
    }

    async fn exec(
        &self,
        place: &dyn Workspace,
        id: &RequestId,
        spec: &ExecSpec,
    ) -> Result<ExecReceipt, WorkspaceError> {
        let limit = spec.limit.saturating_add(EXEC_MARGIN);
        let answer = within(self.clock, limit, place.exec(id, spec)).await;
        match answer {
            Some(Err(WorkspaceError::Uncertain(detail))) => {
                self.look_up(place, id, limit, detail).await
            }
            Some(answer) => answer,
            None => {
                self.look_up(place, id, limit, Private::new("no answer"))
                    .await
            }
        }
    }

    /// Finds out what became of a command whose answer was lost. It is never started again.
    async fn look_up(
        &self,
        place: &dyn Workspace,
        id: &RequestId,
        limit: Duration,
        detail: Private,
    ) -> Result<ExecReceipt, WorkspaceError> {
        if !place.capabilities().exec_lookup {
            return Err(WorkspaceError::Uncertain(detail));
        }
        let until = self.clock.elapsed().saturating_add(limit);
        loop {
            match self.reading(place.lookup(id)).await {
                Ok(Lookup::Finished(receipt)) => return Ok(receipt),
                Ok(Lookup::NeverStarted) => return Err(WorkspaceError::Failed(detail)),
                Err(WorkspaceError::Gone(detail)) => return Err(WorkspaceError::Gone(detail)),
                Ok(Lookup::Running) | Err(_) if self.clock.elapsed() < until => {
                    self.clock.sleep(LOOK_AGAIN).await;
                }
                Ok(Lookup::Running | Lookup::Unknown) | Err(_) => {
                    return Err(WorkspaceError::Uncertain(detail));
                }
            }
        }
    }
}

fn below_copy(path: &RelPath) -> Result<RelPath, WorkspaceError> {
    RelPath::parse(&format!("{COPY}/{path}"))
        .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))
}

/// The command as the place sees it, with its folder below the copy.
fn in_copy(spec: &ExecSpec) -> Result<ExecSpec, WorkspaceError> {
    let folder = match &spec.dir {
        Some(dir) => below_copy(dir)?,
        None => RelPath::parse(COPY)
            .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))?,
    };
    Ok(spec.clone().dir(folder))
}
