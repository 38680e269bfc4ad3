//! What a call sends: bytes, or a form with a file that is read while it is sent.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use tokio::io::AsyncReadExt as _;

use super::pulse::Pulse;
use crate::error::InvalidInput;

/// How much of a file is read at once.
const CHUNK: u64 = 64 * 1024;

#[derive(Clone, Debug)]
pub(super) enum Body {
    Bytes(Bytes),
    Form(Form),
}

/// A form of two parts, a file and a text. Each time it is sent, the file is read anew: as much of
/// it as was there when the form was made.
#[derive(Clone)]
pub(super) struct Form {
    head: Bytes,
    tail: Bytes,
    path: PathBuf,
    length: u64,
    progress: Option<Progress>,
    pulse: Pulse,
}

/// How long the receiver may take for so many bytes of a file, once it was handed the last: they can
/// wait in the buffers of a slow line, or be handed on to a store.
const DIGESTED_IN_A_SECOND: u64 = 64 * 1024;
/// And no longer than this.
const LONGEST_DIGESTION: Duration = Duration::from_secs(5 * 60);

/// The file of a form cannot be read to the length that was told. That is no fault of the connection.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub(super) struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl Unreadable {
    /// The one behind an error, if it is that.
    pub(super) fn of(error: &reqwest::Error) -> Option<InvalidInput> {
        let mut next = std::error::Error::source(error);
        while let Some(error) = next {
            if let Some(it) = error.downcast_ref::<Self>() {
                let problem = match it.source.kind() {
                    io::ErrorKind::UnexpectedEof => "became shorter while it was sent".to_owned(),
                    _ => format!("cannot be read: {}", it.source),
                };
                let path = it.path.display();
                return Some(InvalidInput::new("file", format!("{path} {problem}")));
            }
            next = error.source();
        }
        None
    }
}

/// Is told how many bytes of the file were handed to the connection, and how many there are.
pub(super) type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Form")
            .field("path", &self.path)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Form {
    /// The form, and the content type that belongs to it.
    pub(super) fn new(
        path: &Path,
        length: u64,
        file_name: &str,
        json: &str,
        progress: Option<Progress>,
    ) -> Result<(Self, String), InvalidInput> {
        let stray = |c: char| c == '"' || c == '\r' || c == '\n';
        if file_name.contains(stray) {
            return Err(InvalidInput::new(
                "file name",
                "holds a quote or a line break",
            ));
        }
        // 122 random bits: no file has this line by chance.
        let boundary = uuid::Uuid::new_v4().simple().to_string();
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"upload_file\"; \
             filename=\"{file_name}\"\r\nContent-Type: text/plain\r\n\r\n"
        );
        let tail = format!(
            "\r\n--{boundary}\r\nContent-Disposition: form-data; name=\"json\"\r\n\r\n{json}\r\n\
             --{boundary}--\r\n"
        );
        let form = Self {
            head: head.into(),
            tail: tail.into(),
            path: path.to_owned(),
            length,
            progress,
            pulse: Pulse::new(),
        };
        Ok((form, format!("multipart/form-data; boundary={boundary}")))
    }

    /// How many bytes it has on the wire.
    pub(super) fn length(&self) -> u64 {
        self.head.len() as u64 + self.length + self.tail.len() as u64
    }

    /// Beats with each piece of the file that goes on its way.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Its bytes. A file that has become shorter is an error, as the length was told before.
    pub(super) fn into_body(self) -> reqwest::Body {
        let Self {
            head,
            tail,
            path,
            length,
            progress,
            pulse,
        } = self;
        let head = stream::once(async { Ok::<_, Unreadable>(head) });
        let file = stream::try_unfold((None, length), move |(open, left)| {
            let (path, progress, pulse) = (path.clone(), progress.clone(), pulse.clone());
            async move {
                if left == 0 {
                    return Ok(None);
                }
                let failed = |source| Unreadable {
                    path: path.clone(),
                    source,
                };
                let mut file = match open {
                    Some(file) => file,
                    None => tokio::fs::File::open(&path).await.map_err(failed)?,
                };
                let most = left.min(CHUNK);
                let mut bytes = BytesMut::with_capacity(usize::try_from(most).unwrap_or(0));
                let read = (&mut file).take(most).read_buf(&mut bytes).await;
                if read.map_err(failed)? == 0 {
                    return Err(failed(io::ErrorKind::UnexpectedEof.into()));
                }
                let left = left.saturating_sub(bytes.len() as u64);
                pulse.beat(match left {
                    0 => Duration::from_secs(length / DIGESTED_IN_A_SECOND).min(LONGEST_DIGESTION),
                    _ => Duration::ZERO,
                });
                if let Some(tell) = progress {
                    tell(length.saturating_sub(left), length);
                }
                Ok(Some((bytes.freeze(), (Some(file), left))))
            }
        });
        let tail = stream::once(async { Ok::<_, Unreadable>(tail) });
        reqwest::Body::wrap_stream(head.chain(file).chain(tail))
    }
}
