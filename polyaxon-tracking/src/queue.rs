//! The bounded queue between the callers and the writer, and the writer's thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use polyaxon_client::runs::RunStatus;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::artifact::{Reference, RunFolder};
use crate::error::Error;
use crate::files::Source;
use crate::kind::SeriesKey;
use crate::mailbox::{Inbox, Outbox, mailbox};
use crate::metrics::Number;
use crate::name::Name;
use crate::plan::Plan;
use crate::record::{Change, Ending};
use crate::report::Report;
use crate::run::LastPanic;
use crate::sender::Mail;
use crate::writer::Writer;

/// What callers hand to the writer.
#[derive(Debug)]
pub(crate) enum Command {
    /// A metric gets its first value: from now on it goes by its number, which is the next one.
    Metric(Name),
    Value(Number),
    /// What is known at the start was logged: the run is running.
    Begin,
    /// A line, its line break in front, of a series that is no metric.
    Line(SeriesKey, String),
    Change(Change),
    /// How far the run is.
    Progress(f64),
    Status(Box<StatusChange>),
    Artifact(Name, Box<Reference>),
    Copy(Box<Copying>),
    /// Write all that came before, and say whether it worked.
    Flush(oneshot::Sender<Result<(), Error>>),
    End(Box<Ending>, oneshot::Sender<Report>),
    /// Nobody is there any more to end the run.
    Abandon,
}

impl Command {
    /// Whether somebody waits until it is carried out.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self, Self::Flush(_) | Self::End(..) | Self::Abandon)
    }
}

/// A status of the run, with its reason and message.
#[derive(Debug)]
pub(crate) struct StatusChange {
    pub(crate) status: RunStatus,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
}

/// A file or folder that comes into the run's folder, or is made there, and what is logged once it is there.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) from: Source,
    pub(crate) to: PathBuf,
    pub(crate) then: Then,
}

#[derive(Debug)]
pub(crate) enum Then {
    Line(SeriesKey, String),
    Artifact(Name, Reference),
}

/// The room for what was taken and is not written.
///
/// It is given back when a value is in its file, not when the writer has read it from the queue:
/// so a full disk fills the queue, and callers hear of it, whatever the writer holds.
#[derive(Debug)]
pub(crate) struct Room {
    capacity: usize,
    used: AtomicUsize,
    is_closed: AtomicBool,
}

impl Room {
    fn of(capacity: usize) -> Self {
        Self {
            capacity,
            used: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        }
    }

    fn take(&self, count: usize) -> Result<(), Error> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::RuntimeGone);
        }
        let take = |used: usize| used.checked_add(count).filter(|sum| *sum <= self.capacity);
        match self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::QueueFull {
                capacity: self.capacity,
            }),
        }
    }

    pub(crate) fn give_back(&self, count: usize) {
        self.used.fetch_sub(count, Ordering::Relaxed);
    }

    /// Refuses everything from now on: the writer will not be there any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }
}

/// The callers' end of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    intake: QueueIntake,
    watch: AbortHandle,
}

/// What can hand commands over, and does not keep the run from being dropped.
#[derive(Clone, Debug)]
pub(crate) struct QueueIntake {
    commands: Outbox,
    room: Arc<Room>,
}

/// Room for some commands, given back where they are not sent.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    queue: &'a QueueIntake,
    count: usize,
}

impl Permit<'_> {
    /// Hands them over; as many as room was reserved for.
    pub(crate) fn send(mut self, commands: impl IntoIterator<Item = Command>) -> Result<(), Error> {
        match self.queue.commands.send(commands) {
            true => {
                self.count = 0;
                Ok(())
            }
            false => Err(Error::RuntimeGone),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.queue.room.give_back(self.count);
        }
    }
}

impl Queue {
    /// Starts the writer of a run and waits until it has its files.
    ///
    /// It is one of the runtime's blocking tasks and not a thread of its own, for a runtime that
    /// ends waits for those: so what is queued when `main` returns early is written.
    pub(crate) async fn start(plan: Plan, panics: LastPanic) -> Result<(Self, RunFolder), Error> {
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let room = Arc::new(Room::of(plan.capacity));
        let (commands, mut inbox) = mailbox(plan.capacity);
        let (opened, is_open) = oneshot::channel();
        // Made here and not in the task, which may never be polled before the runtime ends.
        let abandon = AbandonOnDrop(commands.clone());
        let watch = runtime.spawn(async move {
            let _abandon = abandon;
            std::future::pending::<()>().await;
        });
        let queue = Self {
            intake: QueueIntake {
                commands,
                room: Arc::clone(&room),
            },
            watch: watch.abort_handle(),
        };
        let (mail, sender) = Mail::open(&plan, &room);
        runtime.spawn_blocking(move || {
            // The sender has a thread of its own, which this task waits for: so a run takes one of
            // the runtime's threads, and what is left to be sent when that ends is sent.
            std::thread::scope(|scope| {
                if let Some(sender) = sender {
                    let thread = std::thread::Builder::new().name("polyaxon-send".to_owned());
                    if let Err(error) = thread.spawn_scoped(scope, || sender.run()) {
                        tracing::error!(%error, "a run cannot be sent: no thread");
                    }
                }
                write(&plan, &mut inbox, opened, |plan| {
                    Writer::open(plan, room, mail, panics)
                });
            });
        });
        let folder = is_open.await.map_err(|_| Error::RuntimeGone)??;
        Ok((queue, folder))
    }

    /// The part of it that can be shared.
    pub(crate) fn intake(&self) -> &QueueIntake {
        &self.intake
    }
}

impl QueueIntake {
    /// Reserves room for some commands, without waiting.
    pub(crate) fn reserve(&self, count: usize) -> Result<Permit<'_>, Error> {
        self.room.take(count)?;
        Ok(Permit { queue: self, count })
    }

    /// Hands a command over that needs no room.
    pub(crate) fn control(&self, command: Command) -> Result<(), Error> {
        match self.commands.send([command]) {
            true => Ok(()),
            false => Err(Error::RuntimeGone),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Whoever drops a run that has not ended abandons it. After an end nobody listens.
        let _ = self.intake.control(Command::Abandon);
        self.watch.abort();
    }
}

fn write(
    plan: &Plan,
    commands: &mut Inbox,
    opened: oneshot::Sender<Result<RunFolder, Error>>,
    open: impl FnOnce(&Plan) -> Result<Writer, Error>,
) {
    match open(plan) {
        Ok(writer) => {
            // Where nobody waits for the answer any more, the queue is closed too, and the writer
            // ends the run as one that was dropped.
            let _ = opened.send(Ok(writer.folder().clone()));
            writer.run(commands);
        }
        Err(error) => drop(opened.send(Err(error))),
    }
}

/// Tells the writer when the runtime ends: then this is dropped with the task that holds it.
/// Without that, the end of a runtime would wait for ever for the writer of a run that is kept
/// elsewhere, in a static for example.
#[derive(Debug)]
struct AbandonOnDrop(Outbox);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.send([Command::Abandon]);
    }
}
