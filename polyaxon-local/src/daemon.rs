//! The daemon of one sandbox: the HTTP service that a pod of that run would have.

pub(crate) mod body;
mod query;
mod refusal;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::{HeaderValue, Method};
use polyaxon_sandbox::Ping;
use polyaxon_sandbox::wire::{header, route};
use uuid::Uuid;

pub(crate) use self::query::{CleanPath, Query};
pub(crate) use self::refusal::Refusal;
use crate::activity::Activity;
use crate::auth::{self, Access, Secret};
use crate::blocking::blocking;
use crate::fs::{self, Files};
use crate::limits::Limits;
use crate::pod::{Ground, Pod};
use crate::process::{self, BaseEnv};
use crate::pty::{self, Terminals};
use crate::quirks::{self, Quirks};

/// One sandbox: its files, its commands, and who may ask for them.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// First, so that commands are gone before their pod.
    pub(crate) processes: process::Table,
    pub(crate) terminals: Terminals,
    pub(crate) ground: Ground,
    pub(crate) files: Files,
    pub(crate) base_env: BaseEnv,
    pub(crate) limits: Limits,
    pub(crate) quirks: Quirks,
    token: Secret,
    started: Instant,
    activity: Arc<Activity>,
}

impl Sandbox {
    /// A sandbox whose root folder is `root`, with the folders that every sandbox has. Records and
    /// logs of its execs are kept in `state`, which has to be out of reach of its file API. With
    /// `shown` it lives in a pod, which shows these folders of the machine beside the system's.
    pub(crate) async fn open(
        root: &Path,
        state: &Path,
        token: Secret,
        limits: Limits,
        shown: Option<Arc<[PathBuf]>>,
    ) -> io::Result<Self> {
        let files = Files::open(root).await?;
        let Some(shown) = shown else {
            let env = BaseEnv::new(&root.join(fs::HOME), &root.join(fs::TMP));
            return Self::on(Ground::Machine, files, env, state, token, limits).await;
        };
        let root = root.to_owned();
        let pod = blocking(move || {
            Pod::start(&root, &shown).map_err(|why| io::Error::other(why.to_string()))
        });
        let pod = Arc::new(pod.await?);
        let [home, tmp] = [fs::HOME, fs::TMP].map(|name| Path::new("/").join(name));
        let (files, env) = (Files::inside(Arc::clone(&pod)), BaseEnv::new(&home, &tmp));
        Self::on(Ground::Pod(pod), files, env, state, token, limits).await
    }

    /// The sandbox that is all of the file system and the environment that the service runs in.
    /// Commands start in `workdir`; records and logs of execs are kept in `state`.
    pub(crate) async fn here(
        workdir: &Path,
        state: &Path,
        token: Secret,
        limits: Limits,
    ) -> io::Result<Self> {
        let (files, env) = (Files::everything(workdir), BaseEnv::inherited());
        Self::on(Ground::Machine, files, env, state, token, limits).await
    }

    async fn on(
        ground: Ground,
        files: Files,
        base_env: BaseEnv,
        state: &Path,
        token: Secret,
        limits: Limits,
    ) -> io::Result<Self> {
        let activity = Arc::new(Activity::new());
        Ok(Self {
            processes: process::Table::open(state.to_owned(), &limits).await?,
            terminals: Terminals::new(&limits, Arc::clone(&activity)),
            ground,
            files,
            base_env,
            limits,
            quirks: Quirks::default(),
            token,
            started: Instant::now(),
            activity,
        })
    }

    /// Ends everything that runs, within `limit`.
    pub(crate) async fn close(&self, limit: Duration) {
        let pod = async {
            if let Some(pod) = self.ground.pod() {
                pod.close(limit).await;
            }
        };
        tokio::join!(
            self.processes.close(limit),
            self.terminals.close(limit),
            pod
        );
    }
}

/// The routes of the daemon, at the root. Whoever calls it is behind a gateway or a listener.
pub(crate) fn router(sandbox: Arc<Sandbox>) -> Router {
    let at = |route: &str| format!("/{route}");
    let bg = |below: &str| format!("/{}/{{id}}{below}", route::EXEC_BG);
    Router::new()
        .route(&at(route::PING), get(ping))
        .route(&at(route::EXEC), post(process::exec))
        .route(&at(route::EXEC_STREAM), post(process::exec_stream))
        .route(&at(route::EXEC_BG), post(process::start).get(process::list))
        .route(&bg(""), get(process::get).delete(process::delete))
        .route(&bg("/logs"), get(process::logs))
        .route(&bg("/signal"), post(process::send_signal))
        .route(&at(route::FS_READ), get(fs::read))
        .route(&at(route::FS_WRITE), post(fs::write))
        .route(&at(route::FS_LS), get(fs::ls))
        .route(&at(route::FS_MKDIR), post(fs::mkdir))
        .route(&at(route::FS_RM), delete(fs::rm))
        .route(&at(route::FS_STAT), get(fs::stat))
        .route(&at(route::PTY), get(pty::list).post(pty::create))
        .route("/pty/{id}", get(pty::get).delete(pty::delete))
        .route("/pty/{id}/resize", post(pty::resize))
        .route("/pty/{id}/signal", post(pty::signal))
        .route("/pty/{id}/ws", get(pty::attach))
        .fallback(no_route)
        .method_not_allowed_fallback(no_route)
        .layer(middleware::from_fn_with_state(Arc::clone(&sandbox), guard))
        .with_state(sandbox)
}

async fn no_route(request: Request<Body>) -> Refusal {
    let (parts, sent) = request.into_parts();
    // A body that nobody reads would cost its sender the connection, without a word.
    let _read = body::bytes(&parts.headers, sent, 0).await;
    Refusal::not_found(format!("no route: {} {}", parts.method, parts.uri.path()))
}

/// Checks the token, counts the activity and gives the answer its id.
async fn guard(State(sandbox): State<Arc<Sandbox>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    if method == Method::GET && path.trim_matches('/') == route::PING {
        return quirks::change(sandbox.quirks, next.run(request).await).await;
    }
    let id = Uuid::new_v4().to_string();
    let begun = Instant::now();
    let mut response = match auth::sandbox_token(request.headers(), &sandbox.token) {
        Access::Granted => {
            sandbox.activity.touch();
            next.run(request).await
        }
        Access::Missing | Access::Wrong => Refusal::unauthorized().into_response(),
    };
    response = quirks::change(sandbox.quirks, response).await;
    tracing::debug!(
        request = id,
        %method,
        path,
        status = response.status().as_u16(),
        elapsed_ms = begun.elapsed().as_millis(),
        "sandbox"
    );
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(header::REQUEST_ID, id);
    }
    response
}

async fn ping(State(sandbox): State<Arc<Sandbox>>) -> Json<Ping> {
    let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
    let ping = Ping::ok(
        env!("CARGO_PKG_VERSION"),
        sandbox.started.elapsed(),
        sandbox.activity.last(),
        count(sandbox.processes.running()),
    );
    let terminals = &sandbox.terminals;
    Json(ping.ptys(count(terminals.running()), count(terminals.attached())))
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use http::StatusCode;
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;
    use crate::auth::derive_sandbox_token;

    async fn ask(router: &Router, target: &str, token: Option<&Secret>) -> (StatusCode, Value) {
        let mut request = Request::get(target);
        if let Some(token) = token {
            request = request.header(header::SANDBOX_TOKEN, token.expose());
        }
        let request = request.body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Two runs, each with its folder, its token and its routes.
    async fn two() -> [(tempfile::TempDir, Secret, Router); 2] {
        let key = Secret::random();
        let one = async || {
            let folder = tempfile::tempdir().unwrap();
            let token = derive_sandbox_token(&key, polyaxon_client::RunUuid::random());
            let [root, state] = ["root", "state"].map(|name| folder.path().join(name));
            std::fs::create_dir(&root).unwrap();
            let sandbox =
                Sandbox::open(&root, &state, token.clone(), Limits::default(), None).await;
            (folder, token, router(Arc::new(sandbox.unwrap())))
        };
        [one().await, one().await]
    }

    #[tokio::test]
    async fn the_token_of_one_run_is_refused_by_the_daemon_of_another() {
        let [(_one, one_token, one), (_two, two_token, two)] = two().await;
        let target = "/fs/stat?path=/tmp";
        assert_eq!(ask(&one, target, Some(&one_token)).await.0, StatusCode::OK);
        assert_eq!(ask(&two, target, Some(&two_token)).await.0, StatusCode::OK);
        for (router, token) in [(&one, &two_token), (&two, &one_token)] {
            let (status, body) = ask(router, target, Some(token)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
            assert_eq!(body["error"]["code"], "unauthorized");
        }
    }

    #[tokio::test]
    async fn only_a_ping_needs_no_token() {
        let [(_folder, token, router), _] = two().await;
        let (status, ping) = ask(&router, "/ping", None).await;
        assert_eq!(
            (status, &ping["status"]),
            (StatusCode::OK, &Value::from("ok"))
        );
        for target in [
            "/fs/stat?path=/tmp",
            "/exec",
            "/no-such-route",
            "/",
            "/ping/x",
        ] {
            let (status, body) = ask(&router, target, None).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{target}");
            assert_eq!(body["error"]["code"], "unauthorized");
        }
        let (status, body) = ask(&router, "/no-such-route", Some(&token)).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (StatusCode::NOT_FOUND, &Value::from("not_found"))
        );
    }
}
