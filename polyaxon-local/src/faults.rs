//! Faults on purpose, for tests of any client: answers that break off, arrive in pieces, late, or
//! not at all. They are made in one layer in front of the routes, so that no endpoint knows of
//! them.

mod body;
mod rule;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use http::{Method, Request, Response, header};
use hyper::body::Incoming;
use tower::ServiceExt as _;

pub use self::rule::{Fault, FaultRule};

/// The faults of a server, to be changed while it runs. A clone is the same set.
///
/// # Examples
/// ```
/// use polyaxon_local::{Fault, FaultRule, LocalServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), polyaxon_local::Error> {
/// let server = LocalServer::start().await?;
/// // The next read of a file breaks off after ten bytes.
/// server.faults().add(FaultRule::new(Fault::CutAfter(10)).path("*/fs/read").times(1));
/// assert_eq!(server.faults().applied(), 0);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    rules: Vec<FaultRule>,
    applied: u64,
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule behind those that are there.
    pub fn add(&self, rule: FaultRule) {
        self.state().rules.push(rule);
    }

    /// Takes all rules away. Answers that are under way keep their faults.
    pub fn clear(&self) {
        self.state().rules.clear();
    }

    /// How often a fault was applied so far.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.state().applied
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The rules are whole at every step, so a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the connection that was just accepted has to be closed at once.
    pub(crate) fn refuses_connection(&self) -> bool {
        self.take_one(|fault| *fault == Fault::Refuse)
    }

    /// Whether the run that would start now does not.
    pub(crate) fn refuses_start(&self) -> bool {
        self.take_one(|fault| *fault == Fault::RefuseStart)
    }

    fn take_one(&self, is: fn(&Fault) -> bool) -> bool {
        let mut state = self.state();
        let found = state.rules.iter_mut().any(|r| is(r.fault()) && r.count());
        state.applied += u64::from(found);
        found
    }

    /// The faults for a request. What forms the answer's bytes adds up; of what replaces the
    /// answer the first counts.
    fn for_request(&self, method: &Method, path: &str) -> Vec<FaultRule> {
        let mut state = self.state();
        let mut taken: Vec<FaultRule> = Vec::new();
        for rule in &mut state.rules {
            let replaced = taken.iter().any(|rule| rule.fault().replaces_answer());
            let wanted = rule.is_for(method, path) && !(replaced && rule.fault().replaces_answer());
            if wanted && rule.count() {
                taken.push(rule.clone());
            }
        }
        state.applied += taken.len() as u64;
        taken
    }

    /// Answers `request` by `router`, as far as the faults let it. An error closes the connection.
    pub(crate) async fn serve(
        self,
        router: Router,
        request: Request<Incoming>,
    ) -> io::Result<Response<Body>> {
        let request = request.map(Body::new);
        let rules = self.for_request(request.method(), request.uri().path());
        if rules.is_empty() {
            return Ok(ask(router, request).await);
        }
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        tracing::info!(%method, path, faults = ?rules.iter().map(FaultRule::fault).collect::<Vec<_>>(), "fault on purpose");
        let replacing = rules.iter().find(|rule| rule.fault().replaces_answer());
        let answer = match replacing {
            None => ask(router, request).await,
            Some(rule) => {
                if rule.is_carried_out() {
                    drop(ask(router, request).await);
                }
                rule.fault()
                    .answer()
                    .ok_or_else(|| io::Error::other("closed on purpose"))?
            }
        };
        Ok(rules
            .iter()
            .fold(answer, |answer, rule| shaped(answer, rule.fault())))
    }
}

async fn ask(router: Router, request: Request<Body>) -> Response<Body> {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn shaped(answer: Response<Body>, fault: &Fault) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    let is_events = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let body = match *fault {
        Fault::CutAfter(bytes) => body::cut(body, bytes),
        Fault::StallAfter(bytes) => body::stall(body, bytes),
        Fault::Split(bytes) => body::split(body, bytes),
        Fault::Slow(bytes_per_second) => body::slow(body, bytes_per_second),
        Fault::Crlf if is_events => {
            parts.headers.remove(header::CONTENT_LENGTH);
            body::crlf(body)
        }
        _ => body,
    };
    Response::from_parts(parts, body)
}
