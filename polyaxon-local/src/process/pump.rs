//! From a pipe of a command to its log.

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
pub(crate) async fn pump<R: AsyncRead + Unpin>(
    pipe: Option<R>,
    stream: LogStream,
    mut log: Log,
    store: Arc<Store>,
    exec: Arc<Exec>,
    mut ended: Closing,
) -> Option<R> {
    let mut pipe = pipe?;
    let mut chunk = BytesMut::new();
    let mut enough = None;
    loop {
        chunk.clear();
        chunk.reserve(CHUNK);
        let read = match enough {
            None => tokio::select! {
                read = pipe.read_buf(&mut chunk) => read,
                () = ended.heard() => {
                    enough = Some(Instant::now() + DRAIN);
                    continue;
                }
            },
            Some(enough) if Instant::now() < enough => {
                match timeout(QUIET, pipe.read_buf(&mut chunk)).await {
                    Ok(read) => read,
                    Err(_quiet) => return Some(pipe),
                }
            }
            Some(_) => return Some(pipe),
        };
        if !matches!(read, Ok(1..)) {
            return None;
        }
        (log, chunk) = keep(log, chunk, &store, stream, &exec).await;
        exec.wrote(stream, log.written());
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
