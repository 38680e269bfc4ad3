//! The calls on terminals.

use polyaxon_client::Effect;
use polyaxon_client::transport::Operation;

use super::attached::{Attach, AttachedPty};
use super::request::{Pty, check_size};
use super::{PtyCreated, PtyId, PtyList, PtySession};
use crate::client::SandboxClient;
use crate::error::Error;
use crate::process::Signal;
use crate::resolve::Lookup;
use crate::wire::{ResizeRequest, SignalRequest, route, segment};

/// What [`Ptys::open`] asks to be sent again of what was written before the attachment stood: all
/// that a service with default settings keeps (256 KiB), or, where it refuses that, less.
const REPLAYS: [u32; 3] = [256 * 1024, 64 * 1024, 4 * 1024];

/// The path of a call on one terminal.
pub(super) fn route_of(pty_id: &PtyId, rest: &str) -> String {
    format!("{}/{}{rest}", route::PTY, segment(pty_id.as_str()))
}

/// The terminals of a sandbox. A handle, cheap to clone.
///
/// A terminal lives in the service and not in a connection: it is created, attached to and left
/// again, by one client at a time. A service ends one that nobody was attached to for 30 minutes,
/// and forgets one that has ended after 10 (unless set up otherwise).
#[derive(Clone, Debug)]
pub struct Ptys {
    sandbox: SandboxClient,
}

impl Ptys {
    pub(crate) fn new(sandbox: SandboxClient) -> Self {
        Self { sandbox }
    }

    /// Starts a terminal and attaches to it; what was written in between comes as replay, so
    /// nothing is missed that a service keeps (256 KiB).
    ///
    /// # Errors
    /// As [`create`](Self::create). [`Error::NotAttached`] with the id where the terminal exists
    /// and could not be attached to: it is left to the caller to delete it. A program that ends
    /// before the attachment stands is one of those, as its output is lost:
    /// [`PtyExit::of`](super::PtyExit::of) tells how it ended.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future can leave a terminal behind, which
    /// [`list_tagged`](Self::list_tagged) finds by its tag.
    pub async fn open(&self, pty: &Pty) -> Result<AttachedPty, Error> {
        let created = self.create(pty).await?;
        let mut tried = Attach::new();
        let mut refused = None;
        for replay in REPLAYS.map(Some).into_iter().chain([None]) {
            tried.replay = replay;
            match self.attach(&created.pty_id, tried).await {
                Ok(attached) => return Ok(attached),
                Err(error) => {
                    let too_much = error.service_status() == Some(400);
                    refused = Some(error);
                    if !too_much {
                        break;
                    }
                }
            }
        }
        let source = refused.unwrap_or(Error::Protocol {
            operation: "pty.attach",
            problem: "it was not tried".to_owned(),
        });
        Err(Error::NotAttached {
            pty_id: created.pty_id,
            source: Box::new(source),
        })
    }

    /// Starts a terminal. Nobody is attached to it yet: see [`open`](Self::open).
    ///
    /// # Errors
    /// What [`Pty::check`] refuses, before anything is sent. `invalid_request` where the service
    /// cannot use it, `conflict` where the tag is taken, `rate_limited` where too many run (16,
    /// unless set up otherwise), `internal` where the program cannot be started. Where the effect
    /// is unknown a terminal may exist: [`resolve`](SandboxClient::resolve) finds it by its tag,
    /// where it has one of its own.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropping the future leaves open whether there is a terminal.
    pub async fn create(&self, pty: &Pty) -> Result<PtyCreated, Error> {
        pty.check()?;
        let operation = Operation::post("pty.create", route::PTY).json(pty)?;
        let sent = self.sandbox.send(operation).await;
        let answer = sent.and_then(|answer| Ok(answer.json()?));
        let created: PtyCreated = answer.map_err(|error: Error| match pty.tagged() {
            Some(tag) => error.uncertain(Lookup::CreatedPty {
                tag: tag.to_owned(),
            }),
            None => error,
        })?;
        if created.pty_id.as_str().is_empty() {
            return Err(Error::Protocol {
                operation: "pty.create",
                problem: "it names no terminal".to_owned(),
            });
        }
        Ok(created)
    }

    /// The terminals that the service knows, oldest first, those that have ended included.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list(&self) -> Result<Vec<PtySession>, Error> {
        self.listed(Operation::get("pty.list", route::PTY)).await
    }

    /// The terminals with this tag. Services allow one at most.
    ///
    /// # Errors
    /// [`Error::Client`]; `invalid_request` where it cannot be a tag.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_tagged(&self, tag: &str) -> Result<Vec<PtySession>, Error> {
        let operation = Operation::get("pty.list", route::PTY).query("tag", tag);
        self.listed(operation).await
    }

    async fn listed(&self, operation: Operation) -> Result<Vec<PtySession>, Error> {
        let list: PtyList = self.sandbox.send(operation).await?.json()?;
        Ok(list.sessions)
    }

    /// What the service says about a terminal.
    ///
    /// # Errors
    /// `not_found` where there is none, or it was forgotten.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn get(&self, pty_id: &PtyId) -> Result<PtySession, Error> {
        let operation = Operation::get("pty.get", route_of(pty_id, ""));
        Ok(self.sandbox.send(operation).await?.json()?)
    }

    /// Gives a terminal another size, each number 1 to [`Pty::SIZE_MAX`]. Also before anybody is
    /// attached; the last one wins.
    ///
    /// # Errors
    /// `InvalidInput` where it cannot be, before anything is sent. `not_found`, and `gone` where
    /// the program has ended. Harmless to repeat, and repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is done.
    pub async fn resize(&self, pty_id: &PtyId, cols: u16, rows: u16) -> Result<(), Error> {
        check_size(cols, rows)?;
        let body = ResizeRequest {
            cols: cols.into(),
            rows: rows.into(),
        };
        let operation = Operation::post("pty.resize", route_of(pty_id, "/resize"));
        let operation = operation.harmless().json(&body)?;
        self.sandbox.send(operation).await.map(drop)
    }

    /// Sends a signal. `SIGINT` and `SIGQUIT` are typed, so they reach the job in the foreground,
    /// as the terminal's mode says; the others go to the process group of the session's leader.
    ///
    /// # Errors
    /// `invalid_request` for a signal that the service does not take, `not_found`, and `gone`
    /// where the program has ended. Not repeated: twice can be twice.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is done.
    pub async fn signal(&self, pty_id: &PtyId, signal: &Signal) -> Result<(), Error> {
        let body = SignalRequest {
            signal: signal.to_string(),
        };
        let operation = Operation::post("pty.signal", route_of(pty_id, "/signal")).json(&body)?;
        self.sandbox.send(operation).await.map(drop)
    }

    /// Ends a terminal with all that runs in it (SIGTERM, and SIGKILL after 5 s, which interactive
    /// shells often need) and forgets it. Returns when it is gone.
    ///
    /// Sent again where the answer is lost: an id is never used twice.
    ///
    /// # Errors
    /// `not_found` where there is none. Where the effect is unknown even so,
    /// [`resolve`](SandboxClient::resolve) finds out.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is done.
    pub async fn delete(&self, pty_id: &PtyId) -> Result<(), Error> {
        let operation = Operation::delete("pty.delete", route_of(pty_id, ""));
        let Err(error) = self.sandbox.send(operation.clone()).await else {
            return Ok(());
        };
        if error.effect() != Effect::Unknown {
            return Err(error);
        }
        match self.sandbox.send(operation).await {
            Ok(_) => Ok(()),
            // The first one has done it, or there was none: it is gone.
            Err(error) if error.service_status() == Some(404) => Ok(()),
            Err(_) => {
                let pty_id = pty_id.clone();
                Err(error.uncertain(Lookup::DeletedPty { pty_id }))
            }
        }
    }

    /// Attaches to a terminal. One client at a time can be.
    ///
    /// # Errors
    /// `not_found`; `already_attached` where somebody else is; `gone` where the program has ended
    /// ([`PtyExit::of`](super::PtyExit::of) tells how); `invalid_request` where more replay is
    /// asked for than is kept. [`Error::Protocol`] where the first frame is not `attached`, or
    /// does not come within 10 s.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn attach(&self, pty_id: &PtyId, how: Attach) -> Result<AttachedPty, Error> {
        AttachedPty::attach(self.sandbox.clone(), pty_id.clone(), how).await
    }
}
