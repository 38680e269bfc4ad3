//! The gateway: from the public address of a run's sandbox to its daemon.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, StatusCode, Uri, header};
use polyaxon_client::RunUuid;
use polyaxon_sandbox::wire;
use tower::ServiceExt as _;

use crate::auth::{self, Access, Secret};
use crate::control::{Control, NAMESPACE};

/// Forwards `/sandbox/v1/{namespace}/{owner}/{project}/runs/{uuid}/{subpath}` to the daemon of the
/// run. Errors of the gateway itself are HTML pages, as those of the platform's are; errors of the
/// daemon pass through.
pub(crate) async fn forward(control: &Control, request: Request) -> Response {
    let Some(target) = Target::parse(request.uri().path()) else {
        return page(StatusCode::NOT_FOUND);
    };
    match auth::authorization(request.headers(), control.token()) {
        Access::Granted => {}
        Access::Missing => return page(StatusCode::UNAUTHORIZED),
        Access::Wrong => return page(StatusCode::FORBIDDEN),
    }
    // The daemon's host name is made of the text of the id, so another spelling leads nowhere.
    let run = target
        .run
        .parse::<RunUuid>()
        .ok()
        .filter(|uuid| uuid.to_string() == target.run && target.namespace == NAMESPACE)
        .and_then(|uuid| control.run(uuid));
    let Some(run) = run else {
        return page(StatusCode::BAD_GATEWAY);
    };
    if run.project.owner() != target.owner || run.project.name() != target.project {
        return page(StatusCode::FORBIDDEN);
    }
    let subpath = target.subpath.to_owned();
    let Some(daemon) = run.daemon() else {
        return page(StatusCode::BAD_GATEWAY);
    };
    to_daemon(daemon, &control.sandbox_token(run.uuid), request, &subpath).await
}

/// The routes of a daemon that is served alone, and the gateway's path to it: a client of the
/// platform knows no other. The path is that of any run; its token is that of the daemon, behind
/// any scheme.
pub(crate) fn alone(daemon: Router, token: Secret) -> Router {
    Router::new()
        .fallback(forward_alone)
        .with_state((daemon, token))
}

async fn forward_alone(
    State((daemon, token)): State<(Router, Secret)>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    if !is_sandbox(&path) {
        return match daemon.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
    }
    let Some(target) = Target::parse(&path) else {
        return page(StatusCode::NOT_FOUND);
    };
    match auth::authorization(request.headers(), &token) {
        Access::Granted => to_daemon(daemon, &token, request, target.subpath).await,
        Access::Missing => page(StatusCode::UNAUTHORIZED),
        Access::Wrong => page(StatusCode::FORBIDDEN),
    }
}

async fn to_daemon(
    daemon: Router,
    token: &Secret,
    mut request: Request<Body>,
    subpath: &str,
) -> Response {
    let query = request.uri().query().map(|query| format!("?{query}"));
    let uri = format!("/{subpath}{}", query.unwrap_or_default()).parse::<Uri>();
    let token = HeaderValue::from_str(token.expose());
    let (Ok(uri), Ok(token)) = (uri, token) else {
        return page(StatusCode::BAD_REQUEST);
    };
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    for emptied in [header::AUTHORIZATION, header::COOKIE, header::ORIGIN] {
        headers.remove(emptied);
    }
    headers.insert(wire::header::SANDBOX_TOKEN, token);
    match daemon.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The parts of a path behind the gateway's prefix.
struct Target<'a> {
    namespace: &'a str,
    owner: &'a str,
    project: &'a str,
    run: &'a str,
    subpath: &'a str,
}

impl<'a> Target<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(wire::GATEWAY_PREFIX)?.strip_prefix('/')?;
        let parts: Vec<&str> = rest.splitn(6, '/').collect();
        let [namespace, owner, project, "runs", run, subpath] = parts[..] else {
            return None;
        };
        let named = [namespace, owner, project, run].into_iter().all(is_id);
        (named && !subpath.is_empty()).then_some(Self {
            namespace,
            owner,
            project,
            run,
            subpath,
        })
    }
}

fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

fn page(status: StatusCode) -> Response {
    let title = format!(
        "{} {}",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default()
    );
    let html = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         <hr><center>polyaxon-local gateway</center>\r\n</body>\r\n</html>\r\n"
    );
    (status, Html(html)).into_response()
}

/// Whether a path is the gateway's to answer.
pub(crate) fn is_sandbox(path: &str) -> bool {
    path.strip_prefix(wire::GATEWAY_PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_with_all_its_parts_has_a_route() {
        let target = Target::parse("/sandbox/v1/ns/o/p/runs/u/fs/read").unwrap();
        assert_eq!((target.namespace, target.owner), ("ns", "o"));
        assert_eq!(
            (target.project, target.run, target.subpath),
            ("p", "u", "fs/read")
        );
        for path in [
            "/sandbox/v1",
            "/sandbox/v1/ns/o/p/runs/u",
            "/sandbox/v1/ns/o/p/runs/u/",
            "/sandbox/v1/ns/o/p/jobs/u/ping",
            "/sandbox/v1/ns//p/runs/u/ping",
            "/sandbox/v1/ns/o%20/p/runs/u/ping",
            "/sandbox/v1x/ns/o/p/runs/u/ping",
            "/sandbox/v2/ns/o/p/runs/u/ping",
        ] {
            assert!(Target::parse(path).is_none(), "{path}");
        }
    }
}
