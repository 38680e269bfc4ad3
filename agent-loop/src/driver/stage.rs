//! Runs one stage of a check in an empty place.

use std::sync::Arc;
use std::time::Duration;

use super::{Book, Places, Used, within};
use crate::acceptance::{At, Stage, StageRun};
use crate::ids::RequestId;
use crate::journal::{Durability, Event, Prepared};
use crate::machine::sources;
use crate::manifest::{File, Manifest, Tree};
use crate::path::RelPath;
use crate::play::LeftOver;
use crate::private::Private;
use crate::workspace::{ExecReceipt, ExecSpec, Lookup, Precondition, Workspace, WorkspaceError};

/// The folder of the copy in its place. Beside it, `home` and `cache` are the command's own.
const COPY: &str = "work";
/// How much longer than its limit the answer of a command may take.
const EXEC_MARGIN: Duration = Duration::from_secs(30);
/// How long to wait between two questions after a command whose answer was lost.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Places<'_> {
    /// Copies the files and then the fixtures, lists, runs and lists again. The place is left for
    /// the caller to remove, once what the command has shown is kept.
    pub(super) async fn stage(
        &self,
        id: &RequestId,
        stage: &Stage,
        tree: &Tree,
        book: &mut Book,
        left: &mut Option<Used>,
    ) -> Result<StageRun, WorkspaceError> {
        let place = match stage.at {
            At::Here => {
                let place = self.reading(self.workspace.fresh_dir(id)).await?;
                *left = Some(Used::Here(Arc::clone(&place)));
                place
            }
            At::Fresh => self.fresh(id, book, left).await?,
        };
        let identity = place.identity();
        let sources = sources(tree).filter(|(path, _)| stage.fixtures.get(path).is_none());
        for (path, file) in sources.chain(stage.fixtures.iter()) {
            self.copy(&*place, id, path, file).await?;
        }
        let before = self.list(&*place).await?;
        let prepared = Prepared {
            id: id.clone(),
            place: place.capabilities(),
            identity,
            before,
        };
        // Whoever finds out later how the command ended has to know what it ran on.
        book.keep(Event::Prepared(prepared.clone()), Durability::Buffered)
            .map_err(|error| WorkspaceError::Failed(Private::from_error(&error)))?;
        let receipt = self.exec(&*place, id, &in_copy(&stage.spec)?).await?;
        let after = self.list(&*place).await?;
        Ok(ran(prepared, receipt, after))
    }

    /// What became of a command that an earlier program has started, where that can be found out:
    /// in a place that is still there, from a service that knows. Nothing where it cannot. The place
    /// is left for the caller to remove.
    pub(super) async fn found(
        &self,
        id: &RequestId,
        stage: &Stage,
        prepared: Option<&Prepared>,
        fresh: Option<LeftOver>,
        left: &mut Option<Used>,
    ) -> Result<Option<StageRun>, WorkspaceError> {
        let reopened = match (stage.at, fresh) {
            (At::Here, _) => self.reading(self.workspace.reopen(id)).await,
            (At::Fresh, Some(fresh)) => {
                return self.found_fresh(fresh, stage, prepared, left).await;
            }
            (At::Fresh, None) => return Ok(None),
        };
        let place = match reopened {
            Ok(place) => place,
            Err(gone @ WorkspaceError::Gone(_)) => return Err(gone),
            Err(_) => return Ok(None),
        };
        *left = Some(Used::Here(Arc::clone(&place)));
        match prepared {
            Some(prepared) => self.run_in(&*place, stage, prepared).await,
            None => Ok(None),
        }
    }

    /// The same in a fresh place. Where the command has to run again, it is not enough to ask for
    /// the end of this one: it is to be gone before there is another.
    async fn found_fresh(
        &self,
        fresh: LeftOver,
        stage: &Stage,
        prepared: Option<&Prepared>,
        left: &mut Option<Used>,
    ) -> Result<Option<StageRun>, WorkspaceError> {
        let place = self.fresh_again(&fresh).await;
        let run = match place.as_deref().zip(prepared) {
            Some((place, prepared)) => self.run_in(place, stage, prepared).await,
            None => Ok(None),
        };
        let LeftOver { id, said, .. } = fresh;
        *left = Some(match (place, &run) {
            (Some(place), Ok(Some(_))) => Used::Fresh { id, place },
            _ => Used::Named { id, said },
        });
        match run {
            // What is gone is this place, and not the workspace.
            Err(WorkspaceError::Gone(_)) => Ok(None),
            run => run,
        }
    }

    /// What became of a command in a place that it was prepared in.
    async fn run_in(
        &self,
        place: &dyn Workspace,
        stage: &Stage,
        prepared: &Prepared,
    ) -> Result<Option<StageRun>, WorkspaceError> {
        // What can do less than it could is no proof of what it could.
        let can = place.capabilities();
        if !can.exec_lookup || can != prepared.place {
            return Ok(None);
        }
        let limit = stage.spec.limit.saturating_add(EXEC_MARGIN);
        let detail = Private::new("the program that started it was ended");
        match self.look_up(place, &prepared.id, limit, detail).await? {
            Found::Receipt(receipt) => {
                let after = self.list(place).await?;
                Ok(Some(ran(prepared.clone(), receipt, after)))
            }
            // It never ran, or a second run in another place changes nothing.
            Found::NeverStarted | Found::Unknown => Ok(None),
        }
    }

    /// Removes the place of an earlier command, where it is still there.
    pub(super) async fn remove_place(&self, id: &RequestId) {
        if let Ok(place) = self.reading(self.workspace.reopen(id)).await {
            within(self.clock, super::FILES_LIMIT, place.stop()).await;
        }
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
        let copy = copy()?;
        self.reading(place.list_below(&copy)).await
    }

    async fn exec(
        &self,
        place: &dyn Workspace,
        id: &RequestId,
        spec: &ExecSpec,
    ) -> Result<ExecReceipt, WorkspaceError> {
        let limit = spec.limit.saturating_add(EXEC_MARGIN);
        let detail = match within(self.clock, limit, place.exec(id, spec)).await {
            Some(Err(WorkspaceError::Uncertain(detail))) => detail,
            Some(answer) => return answer,
            None => Private::new("no answer"),
        };
        if !place.capabilities().exec_lookup {
            return Err(WorkspaceError::Uncertain(detail));
        }
        match self.look_up(place, id, limit, detail.clone()).await? {
            Found::Receipt(receipt) => Ok(receipt),
            Found::NeverStarted => Err(WorkspaceError::Failed(detail)),
            Found::Unknown => Err(WorkspaceError::Uncertain(detail)),
        }
    }

    /// Finds out what became of a command whose answer was lost. It is never started again here.
    async fn look_up(
        &self,
        place: &dyn Workspace,
        id: &RequestId,
        limit: Duration,
        detail: Private,
    ) -> Result<Found, WorkspaceError> {
        let until = self.clock.elapsed().saturating_add(limit);
        loop {
            match self.reading(place.lookup(id)).await {
                Ok(Lookup::Finished(receipt)) => return Ok(Found::Receipt(receipt)),
                Ok(Lookup::NeverStarted) => return Ok(Found::NeverStarted),
                Ok(Lookup::Unknown) => return Ok(Found::Unknown),
                Err(gone @ WorkspaceError::Gone(_)) => return Err(gone),
                Ok(Lookup::Running) | Err(_) if self.clock.elapsed() < until => {
                    self.clock.sleep(LOOK_AGAIN).await;
                }
                Ok(Lookup::Running) | Err(_) => return Err(WorkspaceError::Uncertain(detail)),
            }
        }
    }
}

/// A command that was prepared and has run.
fn ran(prepared: Prepared, receipt: ExecReceipt, after: Manifest) -> StageRun {
    StageRun::new(prepared.id, prepared.place, prepared.before, receipt)
        .identity(prepared.identity)
        .after(after)
}

/// What became of a command.
enum Found {
    Receipt(ExecReceipt),
    NeverStarted,
    Unknown,
}

fn copy() -> Result<RelPath, WorkspaceError> {
    RelPath::parse(COPY).map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))
}

fn below_copy(path: &RelPath) -> Result<RelPath, WorkspaceError> {
    RelPath::parse(&format!("{COPY}/{path}"))
        .map_err(|error| WorkspaceError::Refused(Private::from_error(&error)))
}

/// The command as the place sees it, with its folder below the copy.
fn in_copy(spec: &ExecSpec) -> Result<ExecSpec, WorkspaceError> {
    let folder = match &spec.dir {
        Some(dir) => below_copy(dir)?,
        None => copy()?,
    };
    Ok(spec.clone().dir(folder))
}
