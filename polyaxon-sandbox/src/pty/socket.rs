//! The reading side of an attachment: a task that always reads, so that pings are answered, and
//! keeps what the consumer has not taken yet.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::SplitStream;
use polyaxon_client::Effect;
use polyaxon_client::transport::Upgraded;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::exit::PtyExit;
use super::reader::PtyOutput;
use super::{FrameError, PtyEvent, PtyId};
use crate::error::Error;

pub(super) type Socket = WebSocketStream<Upgraded>;

/// How long the first frame may take.
const FIRST_FRAME: Duration = Duration::from_secs(10);

/// Unread output that is kept before reading stops: four times the largest replay of a service
/// with default settings.
const KEPT_BYTES: usize = 1024 * 1024;

/// Output that came in small frames is handed over in pieces of up to this size.
const PIECE_BYTES: usize = 64 * 1024;

/// What a control frame counts for, besides its text.
const CONTROL_BYTES: usize = 64;

/// How long the service may take to close after it said that the program has ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The socket on a connection whose handshake is done.
pub(super) async fn socket(connection: Upgraded) -> Socket {
    let config = WebSocketConfig::default()
        // Allocated at once; a thousand idle terminals must not cost 128 MiB.
        .read_buffer_size(16 * 1024)
        .write_buffer_size(16 * 1024)
        // Above the largest replay that a deployment can ask for, which is 4 MiB.
        .max_message_size(Some(16 * 1024 * 1024));
    WebSocketStream::from_raw_socket(connection, Role::Client, Some(config)).await
}

/// The first frame, which has to be `attached`.
pub(super) async fn first_frame(
    stream: &mut SplitStream<Socket>,
    pty_id: &PtyId,
    silence: Duration,
) -> Result<PtyEvent, Error> {
    let limit = FIRST_FRAME.min(silence);
    let refuse = |problem: String| Error::Protocol {
        operation: "pty.attach",
        problem,
    };
    let first = async {
        loop {
            match stream.next().await {
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(text))) => {
                    return PtyEvent::parse(&text).map_err(|error| {
                        refuse(format!("the first frame cannot be read: {}", plain(&error)))
                    });
                }
                Some(Ok(Message::Binary(_))) => {
                    return Err(refuse(
                        "the first frame is output, not `attached`".to_owned(),
                    ));
                }
                Some(Ok(Message::Close(_))) | None => {
                    return Err(detached(pty_id, Effect::NotApplied, "closed at once"));
                }
                Some(Err(error)) => {
                    return Err(detached(pty_id, Effect::NotApplied, plain(&error)));
                }
            }
        }
    };
    let event = match timeout(limit, first).await {
        Ok(event) => event?,
        Err(_) => return Err(refuse(format!("no frame came within {limit:?}"))),
    };
    match event {
        PtyEvent::Attached { .. } => Ok(event),
        PtyEvent::Error { code, message } => Err(refuse(format!("{message} ({code})"))),
        PtyEvent::Exited(_) | PtyEvent::Other(_) => Err(refuse(format!(
            "the first frame is not `attached` but {event}"
        ))),
    }
}

/// The error of a connection that is gone without the end of the program.
pub(super) fn detached(pty_id: &PtyId, effect: Effect, why: impl Into<String>) -> Error {
    Error::Detached {
        pty_id: pty_id.clone(),
        effect,
        source: why.into().into(),
    }
}

/// An error with its causes as one text: the library's own types are not shown in public.
pub(super) fn plain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Reads until the connection ends, hands over what comes, and at last says how it ended.
pub(super) async fn read(
    mut stream: SplitStream<Socket>,
    pty_id: PtyId,
    events: mpsc::Sender<Result<PtyOutput, Error>>,
    silence: Duration,
) {
    let mut kept = Kept::default();
    let mut wanted = true;
    let mut exit: Option<Result<PtyExit, Error>> = None;
    let mut silent_at = after(silence);
    let gone = loop {
        let room = !wanted || kept.bytes < KEPT_BYTES;
        if !room {
            // Who does not read cannot know whether the service is silent.
            silent_at = after(silence);
        }
        tokio::select! {
            permit = events.reserve(), if wanted && !kept.is_empty() => match permit {
                Ok(permit) => {
                    if let Some(output) = kept.pop() {
                        permit.send(Ok(output));
                    }
                }
                // Nobody listens. Reading goes on for the sake of who writes.
                Err(_) => {
                    wanted = false;
                    kept = Kept::default();
                }
            },
            message = stream.next(), if room => {
                if exit.is_none() {
                    silent_at = after(silence);
                }
                let output = match message {
                    None => break "the connection was closed".to_owned(),
                    Some(Err(error)) => break why(&error),
                    Some(Ok(Message::Close(frame))) => {
                        // The answer to it is written by reading on.
                        let _answered = timeout(CLOSE_LIMIT, stream.next()).await;
                        break match frame {
                            Some(frame) => format!("the service closed the connection: {} ({})", frame.reason, frame.code),
                            None => "the service closed the connection".to_owned(),
                        };
                    }
                    Some(Ok(Message::Binary(bytes))) if !bytes.is_empty() => PtyOutput::Bytes(bytes),
                    Some(Ok(Message::Text(text))) => match PtyEvent::parse(&text) {
                        Ok(PtyEvent::Exited(exited)) => {
                            let said = exited.clone();
                            exit = Some(PtyExit::read(exited).ok_or_else(|| Error::Protocol {
                                operation: "pty.attach",
                                problem: format!("the end has neither code nor signal: {said:?}"),
                            }));
                            silent_at = after(CLOSE_LIMIT);
                            continue;
                        }
                        Ok(PtyEvent::Error { code, message }) => PtyOutput::Refused { code, message },
                        Ok(PtyEvent::Other(object)) => PtyOutput::Other(object),
                        Ok(PtyEvent::Attached { .. }) => continue,
                        Err(FrameError::Shape | FrameError::Field { .. }) => PtyOutput::Text(text.to_string()),
                    },
                    Some(Ok(_)) => continue,
                };
                if wanted && exit.is_none() {
                    kept.push(output);
                }
            }
            () = sleep_until(silent_at), if room => break format!("nothing came for {silence:.1?}"),
        }
    };
    // Closes the connection for the writer too, who sees it at the next frame.
    drop(stream);
    while let Some(output) = kept.pop() {
        if events.send(Ok(output)).await.is_err() {
            return;
        }
    }
    let last = match exit {
        Some(exit) => exit.map(PtyOutput::Exited),
        None => Err(detached(&pty_id, Effect::NotApplied, gone)),
    };
    // Where nobody listens, nobody needs to know.
    let _heard = events.send(last).await;
}

fn after(limit: Duration) -> Instant {
    let now = Instant::now();
    // As good as never.
    now.checked_add(limit)
        .unwrap_or(now + Duration::from_secs(86_400 * 365))
}

fn why(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            "the connection was closed".to_owned()
        }
        other => plain(other),
    }
}

/// What has come and was not taken yet.
#[derive(Default)]
struct Kept {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

enum Waiting {
    Bytes(Bytes),
    Joined(BytesMut),
    Control(PtyOutput, usize),
}

impl Kept {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn push(&mut self, output: PtyOutput) {
        let bytes = match output {
            PtyOutput::Bytes(bytes) => bytes,
            other => {
                let size = CONTROL_BYTES + other.text_bytes();
                self.bytes += size;
                self.waiting.push_back(Waiting::Control(other, size));
                return;
            }
        };
        self.bytes += bytes.len();
        let joined = match self.waiting.back_mut() {
            Some(Waiting::Joined(last)) if last.len() + bytes.len() <= PIECE_BYTES => {
                last.extend_from_slice(&bytes);
                return;
            }
            // Frames of a few bytes would cost more to keep one by one than they hold.
            Some(Waiting::Bytes(last)) if last.len() + bytes.len() <= PIECE_BYTES => {
                let mut joined = BytesMut::with_capacity((last.len() + bytes.len()) * 2);
                joined.extend_from_slice(last);
                joined.extend_from_slice(&bytes);
                joined
            }
            _ => {
                self.waiting.push_back(Waiting::Bytes(bytes));
                return;
            }
        };
        self.waiting.pop_back();
        self.waiting.push_back(Waiting::Joined(joined));
    }

    fn pop(&mut self) -> Option<PtyOutput> {
        let (output, size) = match self.waiting.pop_front()? {
            Waiting::Bytes(bytes) => {
                let size = bytes.len();
                (PtyOutput::Bytes(bytes), size)
            }
            Waiting::Joined(bytes) => {
                let size = bytes.len();
                (PtyOutput::Bytes(bytes.freeze()), size)
            }
            Waiting::Control(output, size) => (output, size),
        };
        self.bytes -= size;
        Some(output)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Neither the order nor a byte depends on when the consumer takes what is there.
        #[test]
        fn what_is_kept_comes_out_in_order_and_whole(
            steps in proptest::collection::vec((0..40_000_usize, any::<bool>(), any::<bool>()), 1..40)
        ) {
            let mut kept = Kept::default();
            let (mut want, mut got) = (Vec::new(), Vec::new());
            let mut take = |kept: &mut Kept| match kept.pop() {
                Some(PtyOutput::Bytes(bytes)) => got.extend_from_slice(&bytes),
                Some(PtyOutput::Text(text)) => got.extend_from_slice(text.as_bytes()),
                _ => {}
            };
            for (number, (size, control, taken)) in steps.into_iter().enumerate() {
                let filler = vec![u8::try_from(number).unwrap(); size + 1];
                want.extend_from_slice(&filler);
                kept.push(PtyOutput::Bytes(filler.into()));
                if control {
                    want.extend_from_slice(b"control");
                    kept.push(PtyOutput::Text("control".to_owned()));
                }
                if taken {
                    take(&mut kept);
                }
            }
            while !kept.is_empty() {
                take(&mut kept);
            }
            prop_assert_eq!(kept.bytes, 0);
            prop_assert!(got == want);
        }
    }

    #[test]
    fn small_frames_are_kept_as_few_pieces() {
        let mut kept = Kept::default();
        for _ in 0..PIECE_BYTES * 2 {
            kept.push(PtyOutput::Bytes(Bytes::from_static(b"x")));
        }
        assert_eq!((kept.waiting.len(), kept.bytes), (2, PIECE_BYTES * 2));
    }
}
