//! Terminals: `pty`.

mod attach;
mod drive;
mod patience;
mod request;
mod ring;
mod start;
mod terminal;
mod tree;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, RawQuery, State, WebSocketUpgrade};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use polyaxon_sandbox::pty::{PtyId, PtyList, PtySession, PtyState};
use polyaxon_sandbox::wire::{ResizeRequest, SignalRequest, route};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use uuid::Uuid;

use self::drive::Drive;
use self::request::{Size, Wanted};
use self::start::Started;
use self::terminal::{Attached, Terminal};
use self::tree::Tree;
use crate::activity::Activity;
use crate::closing::Closer;
use crate::daemon::{Query, Refusal, Sandbox, body};
use crate::limits::Limits;
use crate::process::{Site, allowed_signal, check_tag};

type Result<T> = std::result::Result<T, Refusal>;

/// Messages that wait for a program that reads slowly; a client that sends more waits, too.
const INPUT_MESSAGES: usize = 4;

/// The terminals of one sandbox. Each has a task, and so has each attachment; the tasks belong to
/// this and end with it, their processes killed.
#[derive(Debug)]
pub(crate) struct Terminals {
    shelf: Shelf,
    slots: Arc<Semaphore>,
    limit: usize,
    activity: Arc<Activity>,
    closing: Closer,
    tasks: Mutex<JoinSet<()>>,
}

impl Terminals {
    pub(crate) fn new(limits: &Limits, activity: Arc<Activity>) -> Self {
        Self {
            shelf: Shelf::default(),
            slots: Arc::new(Semaphore::new(limits.pty.running)),
            limit: limits.pty.running,
            activity,
            closing: Closer::new(),
            tasks: Mutex::default(),
        }
    }

    /// How many run now.
    pub(crate) fn running(&self) -> usize {
        self.limit.saturating_sub(self.slots.available_permits())
    }

    /// How many have a client now.
    pub(crate) fn attached(&self) -> usize {
        let known = self.shelf.known();
        known.iter().filter(|known| known.is_attached()).count()
    }

    fn admit(&self) -> Result<OwnedSemaphorePermit> {
        if self.closing.is_closed() {
            return Err(closing());
        }
        Arc::clone(&self.slots)
            .try_acquire_owned()
            .map_err(|_| Refusal::rate_limited("terminals", self.limit))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // A set of tasks is whole at every step, so a panic elsewhere leaves it usable.
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        // Whoever closes says so before it takes the set, so no task is left out of it. One that
        // comes too late is dropped, and what it has started is killed by that.
        if !self.closing.is_closed() {
            tasks.spawn(task);
        }
    }

    /// Refuses new ones, kills all there are, with what they left running, and waits up to `limit`
    /// until that is gone.
    pub(crate) async fn close(&self, limit: Duration) {
        self.closing.close();
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async { while tasks.join_next().await.is_some() {} };
        // Past the limit the set is dropped, which kills the processes once more.
        let _in_time = tokio::time::timeout(limit, ended).await;
    }
}

fn closing() -> Refusal {
    Refusal::internal("the sandbox is being stopped").details(json!({"kind": "stopping"}))
}

/// The terminals that are known, oldest first, and the tags that are taken.
#[derive(Clone, Debug, Default)]
struct Shelf(Arc<Mutex<Vec<Place>>>);

#[derive(Debug)]
struct Place {
    id: PtyId,
    tag: Option<String>,
    /// `None` while it is being started.
    terminal: Option<Arc<Terminal>>,
}

impl Shelf {
    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        // The list is whole at every step, so a panic elsewhere leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Vec<Arc<Terminal>> {
        let places = self.places();
        let known = places.iter().filter_map(|place| place.terminal.as_ref());
        known.cloned().collect()
    }

    fn find(&self, id: &str) -> Result<Arc<Terminal>> {
        let known = self.known();
        let found = known.into_iter().find(|known| known.id.as_str() == id);
        found.ok_or_else(|| Refusal::not_found(format!("no pty {id:?}")))
    }

    /// Takes a place, and the tag with it, for a terminal that is about to be started.
    fn reserve(&self, tag: Option<String>) -> Result<Reserved> {
        let mut places = self.places();
        let holder = places
            .iter()
            .find(|place| tag.is_some() && place.tag == tag);
        if let (Some(tag), Some(holder)) = (&tag, holder) {
            let state = holder
                .terminal
                .as_ref()
                .map_or(PtyState::Running, |t| t.word());
            let message = format!("tag: {tag:?} is in use");
            let details = json!({"tag": tag, "state": state, "existing_id": holder.id});
            return Err(Refusal::conflict(message).details(details));
        }
        let id = PtyId::from(Uuid::new_v4().to_string());
        places.push(Place {
            id: id.clone(),
            tag: tag.clone(),
            terminal: None,
        });
        Ok(Reserved {
            id,
            tag,
            shelf: self.clone(),
            filled: false,
        })
    }

    fn forget(&self, id: &PtyId) {
        self.places().retain(|place| place.id != *id);
    }
}

/// A place that is given back unless it is filled.
struct Reserved {
    id: PtyId,
    tag: Option<String>,
    shelf: Shelf,
    filled: bool,
}

impl Reserved {
    fn fill(mut self, terminal: &Arc<Terminal>) {
        self.filled = true;
        let mut places = self.shelf.places();
        if let Some(place) = places.iter_mut().find(|place| place.id == self.id) {
            place.terminal = Some(Arc::clone(terminal));
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.filled {
            self.shelf.forget(&self.id);
        }
    }
}

/// `POST pty`: starts a program in a terminal.
pub(crate) async fn create(
    State(sandbox): State<Arc<Sandbox>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let request = body::json(&headers, body, sandbox.limits.json_body).await?;
    let mut wanted = Wanted::check(request, &sandbox.limits)?;
    let permit = sandbox.terminals.admit()?;
    let reserved = sandbox.terminals.shelf.reserve(wanted.tag.take())?;
    let workdir = sandbox.files.workdir(wanted.command.workdir.take()).await?;
    let started = start::start(
        &wanted,
        Site {
            base: &sandbox.base_env,
            ground: &sandbox.ground,
            workdir,
            limits: sandbox.limits.of_processes(),
        },
    )
    .await?;
    let terminal =
        sandbox
            .terminals
            .take_up(started, reserved, wanted.size, &sandbox.limits, permit);
    let location = [(header::LOCATION, format!("/{}/{}", route::PTY, terminal.id))];
    Ok((StatusCode::CREATED, location, Json(terminal.created())).into_response())
}

impl Terminals {
    fn take_up(
        &self,
        started: Started,
        reserved: Reserved,
        size: Size,
        limits: &Limits,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Terminal> {
        let Started {
            spawned,
            pty,
            master,
        } = started;
        let (input, input_out) = mpsc::channel(INPUT_MESSAGES);
        let (reader, writer) = pty.into_split();
        let terminal = Arc::new(Terminal::new(
            reserved.id.clone(),
            reserved.tag.clone(),
            size,
            ((spawned.child.id(), spawned.leader), master),
            (&limits.pty, &self.activity),
            input,
        ));
        let drive = Drive {
            terminal: Arc::clone(&terminal),
            shelf: self.shelf.clone(),
            tree: Tree::led_by(spawned.leader, spawned.tree),
            child: spawned.child,
            reader,
            writer,
            input: input_out,
            kill_grace: limits.kill_grace,
            permit,
            closing: self.closing.listen(),
        };
        reserved.fill(&terminal);
        self.spawn(drive.run());
        terminal
    }
}

/// `GET pty`: all that are known, or those with one tag.
pub(crate) async fn list(
    State(sandbox): State<Arc<Sandbox>>,
    RawQuery(query): RawQuery,
) -> Result<Json<PtyList>> {
    let query = Query::parse(query.as_deref())?;
    let tag = query.text("tag");
    if let Some(tag) = tag {
        check_tag(tag)?;
    }
    let known = sandbox.terminals.shelf.known();
    let asked = known
        .iter()
        .filter(|t| tag.is_none() || t.tag.as_deref() == tag);
    Ok(Json(PtyList {
        sessions: asked.map(|terminal| terminal.session()).collect(),
    }))
}

/// `GET pty/{id}`: one of them.
pub(crate) async fn get(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
) -> Result<Json<PtySession>> {
    Ok(Json(sandbox.terminals.shelf.find(&id)?.session()))
}

/// `POST pty/{id}/resize`: another size.
pub(crate) async fn resize(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode> {
    // Read first: an answer before the end of a request costs the caller the connection.
    let request: ResizeRequest = body::json(&headers, body, sandbox.limits.json_body).await?;
    let terminal = sandbox.terminals.shelf.find(&id)?;
    terminal.resize(Size::of(request, &sandbox.limits.pty)?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST pty/{id}/signal`: a signal for its program.
pub(crate) async fn signal(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode> {
    // Read first: an answer before the end of a request costs the caller the connection.
    let request: SignalRequest = body::json(&headers, body, sandbox.limits.json_body).await?;
    let terminal = sandbox.terminals.shelf.find(&id)?;
    terminal.signal(allowed_signal(&request.signal)?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE pty/{id}`: ends it, with all of its processes, and forgets it.
pub(crate) async fn delete(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
) -> Result<StatusCode> {
    let terminal = sandbox.terminals.shelf.find(&id)?;
    terminal.delete.close();
    terminal.gone.listen().heard().await;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET pty/{id}/ws`: attaches a client. Refusals are plain answers; the attachment is taken
/// before the upgrade, so that no output and no end is lost in between.
pub(crate) async fn attach(
    State(sandbox): State<Arc<Sandbox>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    upgrade: std::result::Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let limits = &sandbox.limits.pty;
    let terminal = sandbox.terminals.shelf.find(&id)?;
    let asked = Query::parse(query.as_deref())?.number("replay_bytes", 0, 0)?;
    let replay = usize::try_from(asked)
        .ok()
        .filter(|bytes| *bytes <= limits.replay_bytes)
        .ok_or_else(|| {
            let most = limits.replay_bytes;
            Refusal::invalid(format!(
                "replay_bytes: {asked} is above the limit of {most}"
            ))
        })?;
    let upgrade = upgrade
        .map_err(|error| Refusal::invalid(format!("a WebSocket handshake is needed: {error}")))?;
    let attached = terminal.attach(replay)?;
    let (socket, handed) = oneshot::channel();
    sandbox.terminals.spawn(serve(attached, handed));
    Ok(upgrade
        .max_message_size(limits.message_bytes)
        .max_frame_size(limits.message_bytes)
        .on_upgrade(async move |upgraded| {
            // The task that takes it belongs to the terminals, this one to nobody.
            let _closing = socket.send(upgraded);
        }))
}

async fn serve(attached: Attached, socket: oneshot::Receiver<axum::extract::ws::WebSocket>) {
    // An error is a handshake that was not completed; dropping the attachment gives it back.
    if let Ok(socket) = socket.await {
        attach::serve(attached, socket).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_comes_after_the_end_is_dropped_and_one_before_is_waited_for() {
        let terminals = Terminals::new(&Limits::default(), Arc::new(Activity::new()));
        let (early, early_ran) = oneshot::channel();
        let mut told = terminals.closing.listen();
        terminals.spawn(async move {
            told.heard().await;
            let _listens = early.send(());
        });
        terminals.close(Duration::from_secs(5)).await;
        early_ran.await.unwrap();
        let (late, late_ran) = oneshot::channel();
        terminals.spawn(async move {
            let _nobody = late.send(());
        });
        late_ran.await.unwrap_err();
        let refusal = format!("{:?}", terminals.admit().unwrap_err());
        assert!(refusal.contains("stopping"), "{refusal}");
    }
}
