//! One exec, as everybody who asks for it sees it.

use std::io;
use std::sync::Arc;

use polyaxon_sandbox::process::{ExecId, ExecState, ExecStatus, LogPage, LogStream};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};

use super::record::{End, Started, Written};
use super::store::{Recovered, Store};
use super::text;
use crate::blocking::blocking;
use crate::daemon::Refusal;
use crate::quirks::{Quirk, Quirks};

/// How many orders can wait for the task of an exec.
const ORDERS: usize = 8;

/// A record with its output and, while it runs, a way to its task.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) id: String,
    pub(crate) started: Started,
    /// Whether nobody waits for it. One of an earlier service has nobody left.
    pub(crate) background: bool,
    progress: watch::Sender<Progress>,
    orders: Option<mpsc::Sender<Order>>,
    store: Arc<Store>,
}

/// How far an exec is. Whoever watches sees the last of it, however slow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) pid: u64,
    pub(crate) outcome: Outcome,
    pub(crate) removed: bool,
    stdout: Written,
    stderr: Written,
}

/// Where output may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    /// Between characters, as long as that is possible.
    Characters,
    /// Anywhere.
    Bytes,
}

impl Border {
    pub(crate) fn of(quirks: Quirks) -> Self {
        match quirks.has(Quirk::BrokenCharacters) {
            true => Self::Bytes,
            false => Self::Characters,
        }
    }
}

/// What is known of the end.
#[derive(Clone, Debug, Default)]
pub(crate) enum Outcome {
    #[default]
    Running,
    Ended(Arc<End>),
    Orphaned,
}

/// What the task of an exec is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Send this to the process group, and say when it is done.
    Signal(Signal, oneshot::Sender<()>),
    /// End it, and remove its record.
    Delete,
}

impl Exec {
    /// A new one, and what its task listens to.
    pub(crate) fn new(
        id: String,
        started: Started,
        background: bool,
        store: Arc<Store>,
    ) -> (Self, mpsc::Receiver<Order>) {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let exec = Self {
            id,
            started,
            background,
            progress: watch::Sender::default(),
            orders: Some(orders),
            store,
        };
        (exec, receiver)
    }

    /// One of an earlier service.
    pub(crate) fn recovered(found: Recovered, store: Arc<Store>) -> Self {
        let progress = Progress {
            pid: found.end.as_ref().map_or(0, |end| end.pid),
            outcome: match found.end {
                Some(end) => Outcome::Ended(Arc::new(end)),
                None => Outcome::Orphaned,
            },
            removed: false,
            stdout: found.stdout,
            stderr: found.stderr,
        };
        Self {
            id: found.id,
            started: found.started,
            background: true,
            progress: watch::Sender::new(progress),
            orders: None,
            store,
        }
    }

    pub(crate) fn exec_id(&self) -> ExecId {
        ExecId::from(self.id.clone())
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    pub(crate) fn runs_as(&self, pid: u64) {
        self.progress.send_modify(|now| now.pid = pid);
    }

    pub(crate) fn wrote(&self, stream: LogStream, written: Written) {
        self.progress.send_modify(|now| match stream {
            LogStream::Stdout => now.stdout = written,
            LogStream::Stderr => now.stderr = written,
        });
    }

    pub(crate) fn ends(&self, outcome: Outcome) {
        self.progress.send_modify(|now| now.outcome = outcome);
    }

    pub(crate) fn is_removed(&self) {
        self.progress.send_modify(|now| now.removed = true);
    }

    /// Tells the task of this exec. False where it has ended, or ends now.
    pub(crate) async fn order(&self, order: Order) -> bool {
        match &self.orders {
            Some(orders) => orders.send(order).await.is_ok(),
            None => false,
        }
    }

    pub(crate) fn status(&self) -> ExecStatus {
        let now = self.progress();
        let mut status = ExecStatus {
            exec_id: self.exec_id(),
            pid: now.pid,
            state: now.state(),
            started_at: Some(self.started.started_at),
            tag: self.started.tag.clone(),
            stdout_bytes: now.stdout.seen,
            stderr_bytes: now.stderr.seen,
            ..ExecStatus::default()
        };
        match &now.outcome {
            Outcome::Running => {}
            Outcome::Orphaned => status.pid = 0,
            Outcome::Ended(end) => {
                status.finished_at = Some(end.finished_at);
                status.duration_ms = Some(end.duration_ms);
                status.exit_code = Some(end.exit_code);
                status.signal = end.signal.as_deref().map(Into::into);
            }
        }
        status
    }

    /// The first `limit` bytes of an output that has ended, and whether there were more. Blocks.
    pub(crate) fn first(&self, stream: LogStream, limit: usize) -> Result<(String, bool), Refusal> {
        let written = self.progress().written(stream);
        let limit_bytes = limit as u64;
        if let Some(dropped) = self.dropped(stream, written, limit_bytes.min(written.seen)) {
            return Err(dropped);
        }
        let truncated = written.seen > limit_bytes;
        let size = usize::try_from(written.stored).map_or(limit, |stored| stored.min(limit));
        let bytes = self.read_now(stream, 0, size).map_err(unreadable)?;
        let text = match truncated {
            true => text::beginning(bytes),
            false => text::text(bytes),
        };
        Ok((text, truncated))
    }

    /// A page of a log as it is now, of at most `max` bytes.
    ///
    /// An incomplete character at the end of a page is left for the next one; only where the page
    /// would be empty for that alone, its bytes are sent as they are.
    pub(crate) async fn page(
        self: &Arc<Self>,
        now: &Progress,
        stream: LogStream,
        offset: u64,
        max: usize,
        border: Border,
    ) -> Result<LogPage, Refusal> {
        let written = now.written(stream);
        if offset < written.seen
            && let Some(dropped) = self.dropped(stream, written, offset + 1)
        {
            return Err(dropped);
        }
        let rest = written.stored.saturating_sub(offset);
        let size = usize::try_from(rest).map_or(max, |rest| rest.min(max));
        let mut bytes = self.read(stream, offset, size).await?;
        let more_may_come = now.is_running() && written.cut.is_none();
        let reaches_the_end = bytes.len() as u64 == rest;
        if border == Border::Characters && (more_may_come || !reaches_the_end) {
            let whole = text::whole(&bytes);
            if whole > 0 || reaches_the_end {
                bytes.truncate(whole);
            }
        }
        let count = bytes.len() as u64;
        let next_offset = offset.saturating_add(count);
        Ok(LogPage {
            exec_id: self.exec_id(),
            stream,
            offset,
            next_offset,
            bytes: count,
            data: text::text(bytes),
            eof: !now.is_running() && next_offset >= written.seen,
            state: now.state(),
        })
    }

    /// The error for output up to byte `end` that was dropped, where it was.
    fn dropped(&self, stream: LogStream, written: Written, end: u64) -> Option<Refusal> {
        let why = written.cut.filter(|_| end > written.stored)?;
        let Written { stored, seen, .. } = written;
        let refusal = Refusal::internal(format!(
            "{stream} is kept up to byte {stored} of {seen} only: {}",
            why.sentence()
        ));
        Some(refusal.details(json!({
            "kind": "output_dropped",
            "reason": why,
            "exec_id": self.id,
            "stream": stream,
            "stored_bytes": stored,
            "written_bytes": seen,
        })))
    }

    async fn read(
        self: &Arc<Self>,
        stream: LogStream,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, Refusal> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let exec = Arc::clone(self);
        let read = blocking(move || exec.read_now(stream, offset, length));
        read.await.map_err(unreadable)
    }

    /// Bytes that are there, or an error. Blocks.
    fn read_now(&self, stream: LogStream, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.store.read(&self.id, stream, offset, length)?;
        match bytes.len() == length {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Removes what is on disk. It goes on when the future is dropped.
    pub(crate) async fn remove_files(self: &Arc<Self>) -> io::Result<()> {
        let now = self.progress();
        let logged = now.stdout.stored.saturating_add(now.stderr.stored);
        let exec = Arc::clone(self);
        blocking(move || exec.store.remove(&exec.id, logged)).await
    }
}

fn unreadable(error: io::Error) -> Refusal {
    Refusal::internal("the log cannot be read").because(error)
}

impl Progress {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.outcome, Outcome::Running)
    }

    pub(crate) fn written(&self, stream: LogStream) -> Written {
        match stream {
            LogStream::Stdout => self.stdout,
            LogStream::Stderr => self.stderr,
        }
    }

    pub(crate) fn state(&self) -> ExecState {
        match &self.outcome {
            Outcome::Running => ExecState::Running,
            Outcome::Orphaned => ExecState::Orphaned,
            Outcome::Ended(end) if end.timed_out => ExecState::TimedOut,
            Outcome::Ended(end) if end.signal.is_some() => ExecState::Signaled,
            Outcome::Ended(_) => ExecState::Exited,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::super::log::Log;
    use super::super::record::Cut;
    use super::*;

    /// An exec with a log that a test writes.
    struct Fixture {
        _folder: TempDir,
        store: Arc<Store>,
        log: Log,
        exec: Arc<Exec>,
    }

    impl Fixture {
        fn new(log_limit: u64) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(Store::open(folder.path(), u64::MAX).unwrap().0);
            let started = Started {
                started_at: Timestamp::UNIX_EPOCH,
                tag: None,
            };
            let log = Log::new(&store, "e", LogStream::Stdout, log_limit);
            let (exec, _orders) = Exec::new("e".to_owned(), started, true, Arc::clone(&store));
            Self {
                _folder: folder,
                store,
                log,
                exec: Arc::new(exec),
            }
        }

        fn write(&mut self, bytes: &[u8]) {
            self.log.append(&self.store, bytes);
            self.exec.wrote(LogStream::Stdout, self.log.written());
        }

        async fn page(&self, offset: u64, max: usize) -> Result<LogPage, Refusal> {
            let now = self.exec.progress();
            self.exec
                .page(&now, LogStream::Stdout, offset, max, Border::Characters)
                .await
        }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(work)
    }

    fn output() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            3 => "[aé漢😀]{1,3}".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 1..4),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn pages_of_any_size_at_any_time_give_the_bytes_and_the_text(
            bytes in output(), writes in 1..9_usize, sizes in proptest::collection::vec(1..9_usize, 1..6)
        ) {
            let fits = sizes.iter().all(|&size| size >= 4);
            let (count, got, eof) = run(async {
                let mut fixture = Fixture::new(u64::MAX);
                let mut chunks = bytes.chunks(writes);
                let mut sizes = sizes.iter().cycle();
                let (mut offset, mut got) = (0, String::new());
                loop {
                    let page = fixture.page(offset, *sizes.next().unwrap()).await.unwrap();
                    assert_eq!(page.next_offset, offset + page.bytes);
                    offset = page.next_offset;
                    got.push_str(&page.data);
                    if page.eof {
                        break (offset, got, true);
                    }
                    match chunks.next() {
                        Some(chunk) => fixture.write(chunk),
                        None => fixture.exec.ends(Outcome::Orphaned),
                    }
                }
            });
            prop_assert!(eof);
            prop_assert_eq!(count, bytes.len() as u64);
            if fits {
                prop_assert_eq!(got, text::text(bytes));
            }
        }
    }

    #[test]
    fn a_log_that_was_cut_never_reaches_its_end() {
        run(async {
            let mut fixture = Fixture::new(4);
            fixture.write("abc漢".as_bytes());
            fixture.exec.ends(Outcome::Orphaned);
            let page = fixture.page(0, 99).await.unwrap();
            // The bytes that are there are given, and that is not all.
            assert_eq!(
                (page.data.as_str(), page.next_offset, page.eof),
                ("abc\u{fffd}", 4, false)
            );
            for offset in [4, 5] {
                let refusal = format!("{:?}", fixture.page(offset, 99).await.unwrap_err());
                assert!(refusal.contains("output_dropped"), "{refusal}");
            }
            assert!(fixture.page(6, 99).await.unwrap().eof);
            let first = |limit| fixture.exec.first(LogStream::Stdout, limit);
            assert_eq!(first(3).unwrap(), ("abc".to_owned(), true));
            assert_eq!(first(4).unwrap(), ("abc".to_owned(), true));
            let refusal = format!("{:?}", first(5).unwrap_err());
            assert!(refusal.contains("log_limit"), "{refusal}");
        });
    }

    #[test]
    fn a_log_that_lost_its_last_bytes_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let id = "6d3c4c1e-0f53-4f6c-9c2e-2f0f6a1d3c55";
        let open = || Store::open(folder.path(), 1 << 20).unwrap();
        let written = Written {
            stored: 6,
            seen: 6,
            cut: None,
        };
        {
            let (store, _) = open();
            let started = Started {
                started_at: Timestamp::UNIX_EPOCH,
                tag: None,
            };
            let record = store.create(id, &started).unwrap();
            let mut log = Log::new(&store, id, LogStream::Stderr, 10);
            log.append(&store, b"abc");
            let end = End {
                pid: 1,
                exit_code: 0,
                signal: None,
                timed_out: false,
                finished_at: Timestamp::UNIX_EPOCH,
                duration_ms: 1,
                stdout: Written::default(),
                stderr: written,
            };
            record.end(&end).unwrap();
        }
        let (_store, mut found) = open();
        let found = found.pop().unwrap();
        assert_eq!(found.stdout, Written::default());
        let cut = Written {
            stored: 3,
            cut: Some(Cut::DiskError),
            ..written
        };
        assert_eq!(found.stderr, cut);
    }
}
