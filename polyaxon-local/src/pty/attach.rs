//! An attachment: a WebSocket between a client and a terminal.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use polyaxon_sandbox::pty::{PtyControl, PtyEvent, PtyExited};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite;

use super::patience::Patience;
use super::request::Size;
use super::terminal::{Attached, Over, Terminal};
use crate::daemon::Refusal;
use crate::process::allowed_signal;

/// How long a client has to take the last frames and to close its side.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// Answers to bad frames that wait for a client who does not read.
const ANSWERS: usize = 16;
/// Frames that are written at once, so that a burst is not a system call a frame.
const BATCH: usize = 32;

/// Serves the attachment until one side ends it.
pub(super) async fn serve(mut attached: Attached, socket: WebSocket) {
    let (sink, stream) = socket.split();
    let (answers, answers_out) = mpsc::channel(ANSWERS);
    let mut reading = Reading {
        terminal: Arc::clone(&attached.terminal),
        stream,
        answers,
    };
    let mut writing = Writing {
        sink,
        answers: answers_out,
    };
    let left = tokio::select! {
        left = reading.run() => left,
        left = writing.run(&mut attached) => left,
    };
    // From here on somebody else can attach.
    drop(attached);
    let close = async {
        match left {
            // The answer to a close frame is on its way already, and only has to be written.
            Left::Closed => {
                let _gone = writing.sink.flush().await;
                return;
            }
            Left::Silent | Left::Broken => return,
            Left::Refused(code) => writing.close(code, "").await,
            Left::Detached => writing.close(close_code::NORMAL, "pty detached").await,
            Left::Exited(exited) => {
                let text = PtyEvent::Exited(exited).to_string();
                let _gone = writing.sink.feed(Message::text(text)).await;
                writing.close(close_code::NORMAL, "pty detached").await;
            }
        }
        // A socket that is closed with unread bytes takes back what was last written to it.
        while let Some(Ok(_)) = reading.stream.next().await {}
    };
    let _in_time = Patience::new(CLOSE_LIMIT).wait(close).await;
}

/// Why an attachment ended.
enum Left {
    /// The program has ended by itself, and all of its output is written.
    Exited(PtyExited),
    /// The terminal gave up the client.
    Detached,
    /// The client closed the connection.
    Closed,
    /// The client broke a rule that this code stands for.
    Refused(u16),
    /// The client sends no pongs.
    Silent,
    /// The connection broke.
    Broken,
}

/// From the client to the terminal.
struct Reading {
    terminal: Arc<Terminal>,
    stream: SplitStream<WebSocket>,
    answers: mpsc::Sender<PtyEvent>,
}

impl Reading {
    fn patience(&self) -> Patience {
        Patience::new(self.terminal.limits.pong_timeout)
    }

    async fn run(&mut self) -> Left {
        let mut patience = self.patience();
        loop {
            let Some(message) = patience.wait(self.stream.next()).await else {
                return Left::Silent;
            };
            let message = match message {
                None => return Left::Broken,
                Some(Err(error)) => return broken(&error),
                Some(Ok(message)) => message,
            };
            self.terminal.heard();
            match message {
                Message::Pong(_) => patience.renew(),
                Message::Ping(_) => {}
                Message::Close(_) => return Left::Closed,
                Message::Binary(bytes) => {
                    if self.type_in(bytes).await {
                        // While the program kept us waiting, nobody listened for pongs.
                        patience.renew();
                    }
                }
                Message::Text(text) => {
                    if let Err(refusal) = self.control(&text)
                        && self.answer(refusal).await.is_break()
                    {
                        return Left::Silent;
                    }
                }
            }
        }
    }

    /// Hands bytes on to be typed, and says whether that took time. A program that reads slowly
    /// slows its client down; one that does not read at all does not stop the client for ever.
    async fn type_in(&mut self, bytes: Bytes) -> bool {
        match self.terminal.input.try_send(bytes) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(bytes)) => {
                let size = bytes.len();
                let typed = self.patience().wait(self.terminal.input.send(bytes)).await;
                if typed.is_none() {
                    let message = format!("the program does not read: {size} bytes were dropped");
                    let _gone = self.answer(Refusal::internal(message)).await;
                }
                true
            }
        }
    }

    fn control(&self, text: &str) -> Result<(), Refusal> {
        match PtyControl::parse(text) {
            Ok(PtyControl::Resize { cols, rows }) => {
                let (cols, rows) = (i64::from(cols), i64::from(rows));
                self.terminal
                    .resize(Size::check(cols, rows, &self.terminal.limits)?)
            }
            Ok(PtyControl::Signal(signal)) => {
                self.terminal.signal(allowed_signal(signal.as_str())?)
            }
            Ok(_) => Err(Refusal::invalid(
                "type: only `resize` and `signal` are known",
            )),
            Err(error) => Err(Refusal::invalid(error.to_string())),
        }
    }

    /// Breaks where the client reads none of the answers that it has already.
    async fn answer(&mut self, refusal: Refusal) -> ControlFlow<()> {
        let (code, message) = refusal.into_code_and_message();
        let sent = self.answers.send(PtyEvent::error(code, message));
        match self.patience().wait(sent).await {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    }
}

fn broken(error: &axum::Error) -> Left {
    let cause = std::error::Error::source(error);
    match cause.and_then(|cause| cause.downcast_ref::<tungstenite::Error>()) {
        Some(tungstenite::Error::Capacity(_)) => Left::Refused(close_code::SIZE),
        Some(tungstenite::Error::Utf8(_)) => Left::Refused(close_code::INVALID),
        Some(tungstenite::Error::Protocol(
            tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        )) => Left::Broken,
        Some(tungstenite::Error::Protocol(_)) => Left::Refused(close_code::PROTOCOL),
        _ => Left::Broken,
    }
}

/// From the terminal to the client.
struct Writing {
    sink: SplitSink<WebSocket, Message>,
    answers: mpsc::Receiver<PtyEvent>,
}

impl Writing {
    async fn run(&mut self, attached: &mut Attached) -> Left {
        let Attached {
            terminal,
            first,
            replay,
            output,
            over,
            ..
        } = attached;
        let every = terminal
            .limits
            .heartbeat_interval
            .max(Duration::from_millis(1));
        let mut ping_at = Instant::now() + every;
        let mut waiting: Vec<Message> = vec![Message::text(first.to_string())];
        waiting.extend(replay.drain(..).map(Message::Binary));
        let mut over = Listening { over, exited: None };
        let mut all_read = false;
        loop {
            // In this order, so that a program that never stops writing holds up neither.
            while let Ok(event) = self.answers.try_recv() {
                waiting.push(Message::text(event.to_string()));
            }
            if ping_at <= Instant::now() {
                waiting.push(Message::Ping(Bytes::new()));
                ping_at = Instant::now() + every;
            }
            while waiting.len() < BATCH
                && let Ok(bytes) = output.try_recv()
            {
                waiting.push(Message::Binary(bytes));
            }
            if !waiting.is_empty() {
                let batch = std::mem::take(&mut waiting);
                match over.unless_detached(write(&mut self.sink, batch)).await {
                    Some(Ok(())) => continue,
                    Some(Err(_)) => return Left::Broken,
                    None => return Left::Detached,
                }
            }
            if all_read && let Some(exited) = over.exited.take() {
                return Left::Exited(exited);
            }
            tokio::select! {
                biased;
                () = over.said() => if over.exited.is_none() { return Left::Detached },
                bytes = output.recv(), if !all_read => match bytes {
                    Some(bytes) => waiting.push(Message::Binary(bytes)),
                    None => all_read = true,
                },
                Some(event) = self.answers.recv() => waiting.push(Message::text(event.to_string())),
                () = sleep_until(ping_at) => {}
            }
        }
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        let _gone = self.sink.send(Message::Close(Some(frame))).await;
    }
}

async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    batch: Vec<Message>,
) -> Result<(), axum::Error> {
    for message in batch {
        sink.feed(message).await?;
    }
    sink.flush().await
}

/// Hears why the attachment is over, once.
struct Listening<'a> {
    over: &'a mut oneshot::Receiver<Over>,
    exited: Option<PtyExited>,
}

impl Listening<'_> {
    /// Until it is said, where it was not said yet.
    async fn said(&mut self) {
        if self.exited.is_some() {
            return std::future::pending().await;
        }
        if let Ok(Over::Exited(exited)) = (&mut *self.over).await {
            self.exited = Some(exited);
        }
    }

    /// The result of `work`, unless the client is given up meanwhile: then what it has not read
    /// is not waited for.
    async fn unless_detached<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                () = self.said() => drop(self.exited.as_ref()?),
            }
        }
    }
}
