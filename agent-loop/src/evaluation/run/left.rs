//! The place of a try that is decided: nothing is done there any more but to end it.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, ready};

use crate::ids::RequestId;
use crate::journal::WorkspaceRecord;
use crate::manifest::{File, Manifest};
use crate::path::RelPath;
use crate::private::Private;
use crate::workspace::{
    Capabilities, ExecReceipt, ExecSpec, Lookup, Precondition, StopState, Workspace,
    WorkspaceError, Workspaces,
};

pub(super) struct Left {
    pub(super) places: Arc<dyn Workspaces>,
    pub(super) id: RequestId,
    /// What the place was, as the try has it on record.
    pub(super) record: WorkspaceRecord,
}

/// The answer to everything but the request to end.
fn is_left<T: Send + 'static>() -> BoxFuture<'static, Result<T, WorkspaceError>> {
    let why = Private::new("the program that worked here was ended");
    ready(Err(WorkspaceError::Gone(why))).boxed()
}

impl Workspace for Left {
    fn capabilities(&self) -> Capabilities {
        self.record.capabilities
    }

    fn identity(&self) -> serde_json::Value {
        self.record.identity.clone()
    }

    fn get<'a>(
        &'a self,
        _path: &'a RelPath,
        _max: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
        is_left()
    }

    fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
        is_left()
    }

    fn put<'a>(
        &'a self,
        _id: &'a RequestId,
        _path: &'a RelPath,
        _file: &'a File,
        _before: Precondition,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        is_left()
    }

    fn exec<'a>(
        &'a self,
        _id: &'a RequestId,
        _spec: &'a ExecSpec,
    ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
        is_left()
    }

    fn lookup<'a>(&'a self, _id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
        is_left()
    }

    fn fresh_dir<'a>(
        &'a self,
        _id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        is_left()
    }

    fn stop(&self) -> BoxFuture<'_, StopState> {
        self.places.end(&self.id, &self.record.identity)
    }
}
