//! A workspace that says when it is stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::{BoxFuture, FutureExt as _, ready};

use super::Places;
use crate::ids::RequestId;
use crate::manifest::{File, Manifest};
use crate::path::RelPath;
use crate::workspace::{
    Capabilities, ExecReceipt, ExecSpec, Lookup, MemoryWorkspace, Precondition, StopState,
    Workspace, WorkspaceError,
};

pub(super) struct Counted {
    pub(super) place: MemoryWorkspace,
    pub(super) places: Places,
}

impl Workspace for Counted {
    fn capabilities(&self) -> Capabilities {
        self.place.capabilities()
    }

    fn identity(&self) -> serde_json::Value {
        let uuid = self.places.uuid;
        serde_json::json!({"run_uuid": uuid.unwrap_or("8aac02e3a62a4f0aaa257c59da5eab80")})
    }

    fn get<'a>(
        &'a self,
        path: &'a RelPath,
        max: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
        self.place.get(path, max)
    }

    fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
        self.place.list()
    }

    fn put<'a>(
        &'a self,
        id: &'a RequestId,
        path: &'a RelPath,
        file: &'a File,
        before: Precondition,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.place.put(id, path, file, before)
    }

    fn exec<'a>(
        &'a self,
        id: &'a RequestId,
        spec: &'a ExecSpec,
    ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
        self.place.exec(id, spec)
    }

    fn lookup<'a>(&'a self, id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
        self.place.lookup(id)
    }

    fn fresh_dir<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        self.place.fresh_dir(id)
    }

    fn reopen<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        self.place.reopen(id)
    }

    fn stop(&self) -> BoxFuture<'_, StopState> {
        self.places.stopped.fetch_add(1, Ordering::SeqCst);
        if self.places.unconfirmed {
            return ready(StopState::Requested).boxed();
        }
        self.places.in_use.fetch_sub(1, Ordering::SeqCst);
        self.place.stop()
    }
}
