use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agent_loop::conformance::{self, COMMANDS, CaseResult};
use agent_loop::workspace::{
    Capabilities, Lookup, Precondition, SandboxWorkspace, SandboxWorkspaces, StopState,
};
use agent_loop::{
    ExecReceipt, ExecSpec, File, Manifest, MemoryWorkspace, RelPath, RequestId, Tree, Workspace,
    WorkspaceError, Workspaces as _,
};
use futures::future::BoxFuture;
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

/// Plays the kit's commands.
fn play(spec: &ExecSpec, _files: &mut Tree) -> Result<ExecReceipt, WorkspaceError> {
    let kept = |bytes: &[u8]| {
        let mut receipt =
            ExecReceipt::exited(0).stdout(&bytes[bytes.len().saturating_sub(spec.keep_bytes)..]);
        receipt.stdout_truncated = bytes.len() > spec.keep_bytes;
        receipt
    };
    let which = COMMANDS.iter().position(|line| *line == spec.argv[2]);
    Ok(match which.unwrap() {
        0 => {
            let mut receipt = kept(b"out\n").stderr(*b"err\n");
            receipt.exit_code = Some(124);
            receipt
        }
        1 => kept(&spec.stdin),
        2 => {
            static RUNS: AtomicU32 = AtomicU32::new(0);
            kept(format!("run {}\n", RUNS.fetch_add(1, Ordering::Relaxed)).as_bytes())
        }
        3 => ExecReceipt::timed_out(spec.limit).stdout(*b"begun\n"),
        _ => kept(b"0123456789"),
    })
}

#[tokio::test]
async fn memory_passes_and_claims_no_lookup_unless_it_is_told_to() {
    let plain = MemoryWorkspace::new(play);
    let report = conformance::workspace(&plain).await;
    assert_eq!(report.failed(), [] as [&str; 0], "{report}");
    assert_eq!(report.passed(), 9, "{report}");
    let not_claimed = report
        .cases()
        .filter(|(_, result)| **result == CaseResult::NotClaimed);
    let not_claimed: Vec<&str> = not_claimed.map(|(name, _)| name).collect();
    assert_eq!(
        not_claimed,
        ["runs_one_id_once", "finds_a_command_by_its_id"]
    );
    let remembering = plain_with_lookup();
    assert_eq!(conformance::workspace(&remembering).await.passed(), 11);
}

fn plain_with_lookup() -> MemoryWorkspace {
    MemoryWorkspace::new(play).with_capabilities(|can| can.exec_lookup = true)
}

#[tokio::test]
async fn a_sandbox_passes_and_so_does_a_fresh_one_of_another_user() {
    let server = LocalServer::start().await.unwrap();
    let token = Token::new(server.token()).unwrap();
    let config = Config::explicit(server.url()).unwrap().token(token);
    let client = Client::new(&config).unwrap();
    let spec = SandboxSpec::image("python:3.12-slim");
    let sandbox = SandboxClient::launch(&client, server.project(), &spec)
        .await
        .unwrap();
    let workspace = SandboxWorkspace::new(sandbox, "kit").unwrap();
    let report = conformance::workspace(&workspace).await;
    assert_eq!(report.failed(), [] as [&str; 0], "{report}");
    assert_eq!(report.passed(), 11, "{report}");

    let places = SandboxWorkspaces::new(client, server.project().clone(), spec);
    let id: RequestId = "kit-2.1.1".parse().unwrap();
    let place = places.fresh(&id).await.unwrap();
    assert!(place.capabilities().other_uid);
    let report = conformance::workspace(&*place).await;
    assert_eq!(report.failed(), [] as [&str; 0], "{report}");
    assert!(place.stop().await.is_requested());
}

/// Says that commands can be found by their id, and runs each call again.
struct Forgetful {
    inner: MemoryWorkspace,
    /// Whether it writes over what is there.
    overwrites: AtomicBool,
}

impl Workspace for Forgetful {
    fn capabilities(&self) -> Capabilities {
        let mut can = self.inner.capabilities();
        can.exec_lookup = true;
        can
    }

    fn get<'a>(
        &'a self,
        path: &'a RelPath,
        max: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, WorkspaceError>> {
        self.inner.get(path, max)
    }

    fn list(&self) -> BoxFuture<'_, Result<Manifest, WorkspaceError>> {
        self.inner.list()
    }

    fn put<'a>(
        &'a self,
        id: &'a RequestId,
        path: &'a RelPath,
        file: &'a File,
        before: Precondition,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        if self.overwrites.load(Ordering::Relaxed) {
            self.inner
                .edit(|files| drop(files.insert(path.clone(), file.clone())));
            return Box::pin(std::future::ready(Ok(())));
        }
        self.inner.put(id, path, file, before)
    }

    fn exec<'a>(
        &'a self,
        id: &'a RequestId,
        spec: &'a ExecSpec,
    ) -> BoxFuture<'a, Result<ExecReceipt, WorkspaceError>> {
        self.inner.exec(id, spec)
    }

    fn lookup<'a>(&'a self, id: &'a RequestId) -> BoxFuture<'a, Result<Lookup, WorkspaceError>> {
        self.inner.lookup(id)
    }

    fn fresh_dir<'a>(
        &'a self,
        _id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        let place = Self {
            inner: MemoryWorkspace::new(play),
            overwrites: AtomicBool::new(self.overwrites.load(Ordering::Relaxed)),
        };
        Box::pin(std::future::ready(
            Ok(Arc::new(place) as Arc<dyn Workspace>),
        ))
    }

    fn stop(&self) -> BoxFuture<'_, StopState> {
        self.inner.stop()
    }
}

#[tokio::test]
async fn one_that_runs_the_same_id_twice_or_writes_over_everything_fails() {
    let faulty = Forgetful {
        inner: MemoryWorkspace::new(play),
        overwrites: AtomicBool::new(false),
    };
    let report = conformance::workspace(&faulty).await;
    assert_eq!(
        report.failed(),
        ["runs_one_id_once", "finds_a_command_by_its_id"]
    );
    assert!(
        report
            .to_string()
            .contains("2 answers of 3 are of another run"),
        "{report}"
    );
    faulty.overwrites.store(true, Ordering::Relaxed);
    let failed = conformance::workspace(&faulty).await.failed();
    assert!(
        failed.contains(&"writes_where_the_condition_holds"),
        "{failed:?}"
    );
}
