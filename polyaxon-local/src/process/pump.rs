//! From a pipe of a command to its log.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use polyaxon_sandbox::process::LogStream;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout};

use super::exec::Exec;
use super::log::Log;
use super::record::Cut;
use super::store::Store;
use crate::blocking::blocking;
use crate::closing::Closing;

/// How much is asked of a pipe at once: as much as a pipe holds by default.
const CHUNK: usize = 64 * 1024;
/// Output that comes this soon after the end of a command, or after other such output, is its.
const QUIET: Duration = Duration::from_millis(100);
/// A process left behind that never stops writing does not hold the end back longer than this.
const DRAIN: Duration = Duration::from_secs(1);

/// Moves what `pipe` gives to `log`, and tells `exec` how far it is, until the pipe is at its end,
/// or the command has `ended` and its pipe is quiet. Gives the pipe back where it is still open.
/// Memory is that of one chunk, however fast the command and however slow its readers.
pub(crate) async fn pump<R: AsyncRead + AsFd + Unpin>(
    pipe: Option<R>,
    stream: LogStream,
    mut log: Log,
    store: Arc<Store>,
    exec: Arc<Exec>,
    ended: Closing,
) -> Option<R> {
    let mut reading = Reading::new(pipe?, ended);
    let mut chunk = BytesMut::new();
    loop {
        match reading.next(&mut chunk).await {
            Next::Bytes => {}
            Next::Closed => return None,
            Next::Quiet => return Some(reading.pipe),
        }
        (log, chunk) = keep(log, chunk, &store, stream, &exec).await;
        exec.wrote(stream, log.written());
    }
}

/// A pipe that is read until there is no more, or enough.
struct Reading<R> {
    pipe: R,
    ended: Closing,
    /// Set once the command has ended.
    enough_at: Option<Instant>,
    /// Set then: how many bytes of those that the pipe held are not read.
    left: Option<u64>,
}

#[derive(Debug, PartialEq)]
enum Next {
    Bytes,
    Closed,
    /// The command has ended, and what it has written is read.
    Quiet,
}

impl<R: AsyncRead + AsFd + Unpin> Reading<R> {
    fn new(pipe: R, ended: Closing) -> Self {
        Self {
            pipe,
            ended,
            enough_at: None,
            left: None,
        }
    }

    /// Reads a chunk. What the pipe holds is read, however late that is: where the machine stood
    /// still, or a disk was slow, a limit is over before anybody has looked.
    async fn next(&mut self, chunk: &mut BytesMut) -> Next {
        chunk.clear();
        chunk.reserve(CHUNK);
        let read = loop {
            let Some(enough_at) = self.enough_at else {
                tokio::select! {
                    read = self.pipe.read_buf(chunk) => break read,
                    () = self.ended.heard() => self.enough_at = Some(Instant::now() + DRAIN),
                }
                continue;
            };
            if Instant::now() < enough_at {
                match timeout(QUIET, self.pipe.read_buf(chunk)).await {
                    Ok(read) => break read,
                    Err(_quiet) if self.holds() > 0 => continue,
                    Err(_quiet) => return Next::Quiet,
                }
            }
            let left = self.left.unwrap_or_else(|| self.holds());
            if left == 0 {
                return Next::Quiet;
            }
            let read = self.pipe.read_buf(chunk).await;
            self.left = Some(left.saturating_sub(chunk.len() as u64));
            break read;
        };
        match read {
            Ok(1..) => Next::Bytes,
            Ok(0) | Err(_) => Next::Closed,
        }
    }

    /// How many bytes are in the pipe.
    fn holds(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0)
    }
}

async fn keep(
    mut log: Log,
    chunk: BytesMut,
    store: &Arc<Store>,
    stream: LogStream,
    exec: &Exec,
) -> (Log, BytesMut) {
    if let Some(why) = log.written().cut {
        log.drop_bytes(chunk.len(), why);
        return (log, chunk);
    }
    let (before, size) = (log.written(), chunk.len());
    let disk = Arc::clone(store);
    let kept = blocking(move || {
        log.append(&disk, &chunk);
        Ok((log, chunk))
    });
    match kept.await {
        Ok(both) => both,
        Err(error) => {
            tracing::error!(%error, "the output of a command is lost");
            let mut log = Log::resume(store, &exec.id, stream, before);
            log.drop_bytes(size, Cut::DiskError);
            (log, BytesMut::new())
        }
    }
}

/// Reads what comes, and keeps nothing, until there is no more; then it never ends.
///
/// # Cancel safety
/// Nothing is lost that anybody wants.
pub(crate) async fn discard<R: AsyncRead + Unpin>(pipe: &mut Option<R>, waste: &mut BytesMut) {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    waste.clear();
    waste.reserve(CHUNK);
    if !matches!(open.read_buf(waste).await, Ok(1..)) {
        *pipe = None;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::net::unix::pipe;
    use tokio::time::advance;

    use super::*;
    use crate::closing::Closer;

    #[tokio::test(start_paused = true)]
    async fn what_is_in_a_pipe_is_read_however_late_it_is_looked_at() {
        let (end, pipe) = pipe::pipe().unwrap();
        let ended = Closer::new();
        let mut reading = Reading::new(pipe, ended.listen());
        let mut chunk = BytesMut::new();
        ended.close();
        // It has heard of the end of the command, and waits for what may come yet.
        assert_eq!(reading.next(&mut chunk).now_or_never(), None);
        rustix::io::write(&end, b"late").unwrap();
        advance(10 * DRAIN).await;
        assert_eq!(reading.next(&mut chunk).await, Next::Bytes);
        assert_eq!(chunk, "late");
        // It is still open, and what comes now is nobody's.
        rustix::io::write(&end, b"later").unwrap();
        assert_eq!(reading.next(&mut chunk).await, Next::Quiet);
    }
}
