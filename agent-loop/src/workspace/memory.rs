//! A workspace in memory, whose commands are a function and whose faults are planned.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt as _, pending, ready};

use super::{
    Capabilities, ExecReceipt, ExecSpec, Lookup, Precondition, StopState, Workspace,
    WorkspaceError, Workspaces,
};
use crate::ids::RequestId;
use crate::manifest::{File, Manifest, Tree};
use crate::path::RelPath;

type Command =
    dyn Fn(&ExecSpec, &mut Tree) -> Result<ExecReceipt, WorkspaceError> + Send + Sync + 'static;

/// A workspace in memory, for tests and for trying things out. Nothing is executed: a function
/// stands for every command, and sees and changes the files of the place it runs in.
///
/// Clones and the places that [`fresh_dir`](Workspace::fresh_dir) makes share the function and the
/// planned faults; clones share the files as well.
///
/// # Examples
/// ```
/// use agent_loop::workspace::MemoryWorkspace;
/// use agent_loop::{ExecReceipt, File};
///
/// let workspace = MemoryWorkspace::new(|spec, _files| {
///     assert_eq!(spec.argv, ["make", "test"]);
///     Ok(ExecReceipt::exited(0))
/// });
/// let path = "amounts.py".parse()?;
/// workspace.edit(|files| { files.insert(path, File::new(*b"x = 1\n")); });
/// assert_eq!(workspace.files().len(), 1);
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone)]
pub struct MemoryWorkspace {
    files: Arc<Mutex<Tree>>,
    /// For what it was made, where it is a place beside the workspace.
    place: Option<RequestId>,
    shared: Arc<Shared>,
}

struct Shared {
    command: Arc<Command>,
    capabilities: Capabilities,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    faults: Vec<Fault>,
    calls: BTreeMap<Operation, u32>,
    finished: BTreeMap<RequestId, ExecReceipt>,
    places: BTreeMap<RequestId, Arc<Mutex<Tree>>>,
    #[cfg(test)]
    written: u32,
}

/// A call of a workspace, for planning faults and for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the methods of the trait")]
pub enum Operation {
    Get,
    List,
    Put,
    Exec,
    Lookup,
    FreshDir,
}

/// Whether a planned fault comes before the call is carried out or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum FaultAt {
    /// Nothing is done.
    Before,
    /// It is done, and only the answer is wrong.
    After,
}

/// A planned fault: one call that goes wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    operation: Operation,
    nth: u32,
    at: FaultAt,
    /// The answer; `None` is none, ever.
    answer: Option<WorkspaceError>,
}

impl Fault {
    /// The `nth` call of `operation`, counted from 1 over all places, ends with `error`.
    #[must_use]
    pub fn new(operation: Operation, nth: u32, at: FaultAt, error: WorkspaceError) -> Self {
        Self {
            operation,
            nth,
            at,
            answer: Some(error),
        }
    }

    /// The `nth` call of `operation`, counted from 1 over all places, never ends.
    #[must_use]
    pub fn hang(operation: Operation, nth: u32, at: FaultAt) -> Self {
        Self {
            operation,
            nth,
            at,
            answer: None,
        }
    }
}

impl MemoryWorkspace {
    /// An empty workspace in which `command` stands for every command.
    #[must_use]
    pub fn new<F>(command: F) -> Self
    where
        F: Fn(&ExecSpec, &mut Tree) -> Result<ExecReceipt, WorkspaceError> + Send + Sync + 'static,
    {
        let capabilities = Capabilities {
            cas_put: true,
            lstat: true,
            kills_tree: true,
            ..Capabilities::default()
        };
        let state = Mutex::default();
        let shared = Shared {
            command: Arc::new(command),
            capabilities,
            state,
        };
        Self {
            files: Arc::default(),
            place: None,
            shared: Arc::new(shared),
        }
    }

    /// Changes what it says it can do. Call it before the workspace is cloned or used.
    #[must_use]
    pub fn with_capabilities(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            change(&mut shared.capabilities);
        }
        self
    }

    /// Plans a fault.
    #[must_use]
    pub fn fault(self, fault: Fault) -> Self {
        self.state().faults.push(fault);
        self
    }

    /// The files as they are now.
    #[must_use]
    pub fn files(&self) -> Tree {
        self.tree().clone()
    }

    /// Changes files behind the back of whoever uses the workspace.
    pub fn edit(&self, change: impl FnOnce(&mut Tree)) {
        change(&mut self.tree());
    }

    /// How often `operation` was called, over all places.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u32 {
        self.state().calls.get(&operation).copied().unwrap_or(0)
    }

    /// Another workspace in the same state, as it is found by whoever comes later.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> Self {
        let mut state = self.state().clone();
        for files in state.places.values_mut() {
            let tree = files.lock().unwrap_or_else(PoisonError::into_inner).clone();
            *files = Arc::new(Mutex::new(tree));
        }
        let shared = Shared {
            command: Arc::clone(&self.shared.command),
            capabilities: self.shared.capabilities,
            state: Mutex::new(state),
        };
        Self {
            files: Arc::new(Mutex::new(self.files())),
            place: self.place.clone(),
            shared: Arc::new(shared),
        }
    }

    /// How many writes have changed it, its places not counted.
    #[cfg(test)]
    pub(crate) fn written(&self) -> u32 {
        self.state().written
    }

    /// How many places beside it there are.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.state().places.len()
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn sibling(&self, id: &RequestId) -> Arc<dyn Workspace> {
        let files = Arc::default();
        let places = &mut self.state().places;
        places.insert(id.clone(), Arc::clone(&files));
        self.place(id, files)
    }

    fn place(&self, id: &RequestId, files: Arc<Mutex<Tree>>) -> Arc<dyn Workspace> {
        Arc::new(Self {
            files,
            place: Some(id.clone()),
            shared: Arc::clone(&self.shared),
        })
    }

    /// Carries out a call with the fault that is planned for it, if any.
    fn call<'a, T: Send + 'a>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, WorkspaceError>,
    ) -> BoxFuture<'a, Result<T, WorkspaceError>> {
        let Some(fault) = self.planned(operation) else {
            return ready(work()).boxed();
        };
        if fault.at == FaultAt::After {
            // What the call does is kept, what it would have answered is lost.
            drop(work());
        }
        match fault.answer {
            Some(error) => ready(Err(error)).boxed(),
            None => pending().boxed(),
        }
    }

    /// Counts a call, and finds the fault that is planned for it.
    fn planned(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.state();
        let count = state.calls.entry(operation).or_default();
        *count += 1;
        let nth = *count;
        let planned = |fault: &Fault| (fault.operation, fault.nth) == (operation, nth);
        let at = state.faults.iter().position(planned)?;
        Some(state.faults.swap_remove(at))
    }

    fn put_now(
        &self,
        path: &RelPath,
        file: &File,
        before: Precondition,
    ) -> Result<(), WorkspaceError> {
        let mut tree = self.tree();
        let there = tree.get(path).map(|file| file.digest());
        let fits = match before {
            Precondition::Absent => there.is_none(),
            Precondition::Is(digest) => there == Some(digest),
        };
        if !fits {
            return Err(WorkspaceError::Conflict(there));
        }
        tree.insert(path.clone(), file.clone());
        #[cfg(test)]
        if self.place.is_none() {
            self.state().written += 1;
        }
        Ok(())
    }

    fn exec_now(&self, id: &RequestId, spec: &ExecSpec) -> Result<ExecReceipt, WorkspaceError> {
        if self.shared.capabilities.exec_lookup
            && let Some(receipt) = self.state().finished.get(id)
        {
            return Ok(receipt.clone());
        }
        let receipt = (self.shared.command)(spec, &mut self.tree())?;
        self.state().finished.insert(id.clone(), receipt.clone());
        Ok(receipt)
    }
}

impl fmt::Debug for MemoryWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWorkspace")
            .field("files", &self.tree())
            .finish_non_exhaustive()
    }
}

impl Workspace for MemoryWorkspace {
    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }

    fn get<'a>(
        &'a self,
        path: &'a RelPath,
        max: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
        self.call(Operation::Get, || {
            let tree = self.tree();
            let file = tree.get(path).ok_or(WorkspaceError::NotFound)?;
            match file.bytes().len() as u64 {
                len if len > max => Err(WorkspaceError::TooLarge(len)),
                _ => Ok(file.bytes().to_vec()),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
        self.call(Operation::List, || Ok(self.tree().manifest()))
    }

    fn put<'a>(
        &'a self,
        _id: &'a RequestId,
        path: &'a RelPath,
        file: &'a File,
        before: Precondition,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.call(Operation::Put, || self.put_now(path, file, before))
    }

    fn exec<'a>(
        &'a self,
        id: &'a RequestId,
        spec: &'a ExecSpec,
    ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
        self.call(Operation::Exec, || self.exec_now(id, spec))
    }

    fn lookup<'a>(&'a self, id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
        self.call(Operation::Lookup, || {
            if !self.shared.capabilities.exec_lookup {
                return Ok(Lookup::Unknown);
            }
            let finished = self.state().finished.get(id).cloned();
            Ok(finished.map_or(Lookup::NeverStarted, Lookup::Finished))
        })
    }

    fn fresh_dir<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        self.call(Operation::FreshDir, || Ok(self.sibling(id)))
    }

    fn reopen<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        let files = self.state().places.get(id).cloned();
        let place = files.map(|files| self.place(id, files));
        ready(place.ok_or(WorkspaceError::NotFound)).boxed()
    }

    fn stop(&self) -> BoxFuture<'_, StopState> {
        self.edit(|files| *files = Tree::new());
        if let Some(id) = &self.place {
            self.state().places.remove(id);
        }
        ready(StopState::Confirmed).boxed()
    }
}

impl Workspaces for MemoryWorkspace {
    fn fresh<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        self.fresh_dir(id)
    }

    fn reopen<'a>(
        &'a self,
        id: &'a RequestId,
        _identity: &'a serde_json::Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        Workspace::reopen(self, id)
    }
}
