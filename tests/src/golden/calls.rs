//! The call of our client for each call of the Python client.

mod creating;
mod files;
mod processes;
mod refusals;
mod terminals;

use polyaxon_client::{Client, Config, ProjectRef, Token};
use polyaxon_sandbox::{Error, SandboxClient};

use super::recorder::{RUN, Recorder};

pub(super) use self::refusals::{Refusal, refused};

/// Every printable ASCII symbol, and some characters beyond.
const ODD: &str = "/tmp/é 日本/a b+c%20d#e?f&g=h;i:j@k,l'm\"n\\o~p*q(r)[s]{t}|u^v`w!x$y<z>.txt";

/// No case has this for its reason: the test of the report looks for it.
pub(super) const NOT_WRITTEN: &str = "nobody has written this call down";

/// How a call is made here.
pub(super) enum Made {
    /// It was made, and came back.
    Sent,
    /// There is none, and this is why.
    NotOffered(&'static str),
}

/// Who calls, and where.
pub(super) struct Caller<'a> {
    recorder: &'a Recorder,
}

impl<'a> Caller<'a> {
    pub(super) fn of(recorder: &'a Recorder) -> Self {
        Self { recorder }
    }

    fn config(&self) -> Config {
        let config = Config::explicit(&self.recorder.url()).unwrap();
        config.token(Token::new("test-token").unwrap())
    }

    fn client(&self) -> Client {
        Client::new(&self.config()).unwrap()
    }

    fn project() -> ProjectRef {
        ProjectRef::new("acme", "demo").unwrap()
    }

    fn sandbox(&self) -> SandboxClient {
        Self::sandbox_of(&self.config())
    }

    fn sandbox_of(config: &Config) -> SandboxClient {
        let client = Client::new(config).unwrap();
        SandboxClient::connect(&client, &Self::project(), RUN.parse().unwrap())
    }
}

/// Makes the call that the Python client makes in `call`.
pub(super) async fn make(call: &str, caller: &Caller<'_>) -> Result<Made, Error> {
    // The async client does the same in most calls, and something else in a few.
    let call = match call {
        "pty.attach.session.async" | "pty.attach.odd_id.async" | "create.default.async" => call,
        _ => call.strip_suffix(".async").unwrap_or(call),
    };
    let area = call.split(['.', '_']).next().unwrap_or_default();
    match area {
        "exec" => processes::make(call, &caller.sandbox()).await,
        "fs" => files::make(call, &caller.sandbox()).await,
        "pty" => terminals::make(call, &caller.sandbox()).await,
        "create" => creating::make(call, caller).await,
        _ => reaching(call, caller).await,
    }
}

/// Who is called, and by which token.
async fn reaching(call: &str, caller: &Caller<'_>) -> Result<Made, Error> {
    let scheme = |scheme: &str| caller.config().authentication_type(scheme).unwrap();
    let host = |host: String| caller.config().host(host.parse().unwrap());
    let config = match call
        .strip_suffix(".raw")
        .or(call.strip_suffix(".ws"))
        .unwrap_or(call)
    {
        "namespace.first_call" => {
            let sandbox = caller.sandbox();
            sandbox.ping().await?;
            sandbox.ping().await?;
            return Ok(Made::Sent);
        }
        "namespace.get_namespace" => {
            let runs = caller.client().runs(&Caller::project());
            runs.namespace(RUN.parse().unwrap()).await?;
            return Ok(Made::Sent);
        }
        "ping" => caller.config(),
        "auth.no_token" => caller.config().no_token(),
        "auth.type.Token" => scheme("Token"),
        "auth.type.InternalToken" => scheme("InternalToken"),
        "auth.type.EphemeralToken" => scheme("EphemeralToken"),
        "auth.type.Bearer" => scheme("Bearer"),
        "auth.service_header" => caller.config().header("X-POLYAXON-SERVICE", "cli")?,
        // The internal client of Python sends the user's token here.
        "auth.internal_client" if call.ends_with(".raw") => caller.config(),
        "auth.internal_client" => scheme("InternalToken")
            .token(Token::new("internal-secret")?)
            .header("X-POLYAXON-INTERNAL", "agent")?,
        "host.trailing_slash" => host(format!("{}/", caller.recorder.url())),
        "host.base_path" => host(format!("{}/base", caller.recorder.url())),
        "host.no_scheme" => {
            let bare = caller.recorder.url().replace("http://", "");
            Config::explicit(&bare)?.token(Token::new("test-token")?)
        }
        "url.odd_exec_id" => {
            caller.sandbox().process().bg("x/y z?#%").status().await?;
            return Ok(Made::Sent);
        }
        "url.odd_pty_id" => {
            return terminals::make("pty.attach.odd_id.async", &caller.sandbox()).await;
        }
        "url.odd_ids" => {
            return Ok(Made::NotOffered(
                "a run is named by a UUID, and its namespace by the platform",
            ));
        }
        "ssh.tunnel" => {
            return Ok(Made::NotOffered(
                "tunnels of SSH are not part of this client",
            ));
        }
        _ => return Ok(Made::NotOffered(NOT_WRITTEN)),
    };
    let sandbox = Caller::sandbox_of(&config);
    if call.ends_with(".raw") {
        sandbox.fs().read_page("/a", 0).await?;
    } else if call.ends_with(".ws") {
        return terminals::make("pty.attach.default", &sandbox).await;
    } else {
        sandbox.ping().await?;
    }
    Ok(Made::Sent)
}
