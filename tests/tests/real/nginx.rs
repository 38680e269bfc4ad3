//! The contract of a sandbox through nginx, set up as the platform's gateway: the control plane that
//! others made says who may pass and with which token, a daemon in a pod answers behind it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac as _};
use polyaxon_client::transport::Operation;
use polyaxon_client::{Client, Config, ProjectRef, RunUuid, Token};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use polyaxon_tests::authority::Authority;
use polyaxon_tests::contract::{background, files, lifecycle, processes, pty, streams, transfers};
use polyaxon_tests::for_each_contract;
use polyaxon_tests::local::LocalSandbox;
use serde_json::json;
use sha2::Sha256;

use crate::program::{Port, Program};
use crate::provided::{self, scratch, script};

/// What the control plane derives the tokens of daemons from.
const SIGNING_KEY: &[u8] = b"internal-test-token";
const START_LIMIT: Duration = Duration::from_secs(60);

/// A sandbox behind nginx. All of it ends when this is dropped.
pub(crate) struct Gateway {
    pub(crate) sandbox: SandboxClient,
    pub(crate) client: Client,
    pub(crate) url: String,
    /// Where nginx says what goes wrong.
    pub(crate) error_log: PathBuf,
    _nginx: Program,
    _authority: Option<Authority>,
    _local: LocalSandbox,
}

/// Whether nginx is called with TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tls {
    Without,
    With,
}

impl Gateway {
    pub(crate) async fn start(tls: Tls) -> Self {
        let control_plane = provided::get("REAL_CONTROL_PLANE").into_string().unwrap();
        let project = RunUuid::random().to_string();
        let run = create_run(&control_plane, &project).await;
        let local = LocalSandbox::start().await;
        let program = Path::new(env!("CARGO_BIN_EXE_daemon"));
        let daemon = local.start_daemon(program, &token_of(run)).await;

        let taken = Port::take();
        let port = taken.number();
        let authority = (tls == Tls::With).then(Authority::make);
        let folder = scratch(&format!("nginx-{port}"));
        let settings = settings(port, &control_plane, &daemon, authority.as_ref());
        std::fs::write(folder.join("nginx.conf"), settings).unwrap();
        let nginx = start_nginx(&folder);

        let scheme = match tls {
            Tls::Without => "http",
            Tls::With => "https",
        };
        let url = format!("{scheme}://localhost:{port}");
        let mut config = Config::explicit(&url)
            .unwrap()
            .token(Token::new("a-token-of-the-test").unwrap());
        if let Some(authority) = &authority {
            config = config.ca_file(authority.ca_file());
        }
        let client = Client::new(&config).unwrap();
        let project = ProjectRef::new("default", &project).unwrap();
        let sandbox = SandboxClient::connect(&client, &project, run);
        let begun = Instant::now();
        while let Err(error) = sandbox.ping().await {
            assert!(begun.elapsed() < START_LIMIT, "{error}, see {folder:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self {
            sandbox,
            client,
            url,
            error_log: folder.join("error.log"),
            _nginx: nginx,
            _authority: authority,
            _local: local,
        }
    }
}

/// A run of its own in a project of its own. Nobody schedules it, so its status is written here.
async fn create_run(control_plane: &str, project: &str) -> RunUuid {
    let client = Client::new(&Config::explicit(control_plane).unwrap()).unwrap();
    let create = Operation::post("projects.create", "/api/v1/default/projects/create")
        .json(&json!({"name": project}))
        .unwrap();
    client.transport().send(create).await.unwrap();
    let project = ProjectRef::new("default", project).unwrap();
    let spec = SandboxSpec::image("python:3.12-slim");
    let pending = SandboxClient::create(&client, &project, &spec).await;
    let run = pending.unwrap().run_uuid();
    let condition = json!({"type": "running", "status": true, "reason": "Test"});
    let path = format!("/api/v1/{project}/runs/{run}/statuses");
    let running = Operation::post("runs.post_status", path)
        .json(&json!({"condition": condition}))
        .unwrap();
    client.transport().send(running).await.unwrap();
    run
}

/// The token that the control plane gives to the gateway for this run.
fn token_of(run: RunUuid) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SIGNING_KEY).unwrap();
    mac.update(format!("sandbox:v1:{run}").as_bytes());
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn start_nginx(folder: &Path) -> Program {
    let mut command = script("REAL_POLYAXON_PYTHON", "with_parent.py");
    let log = std::fs::File::create(folder.join("output.log")).unwrap();
    let nginx = PathBuf::from(provided::get("REAL_NGINX"));
    let command: &mut Command = command
        .arg(nginx)
        .arg("-p")
        .arg(folder)
        .args(["-c", "nginx.conf"])
        .stderr(log);
    Program::spawn(command)
}

/// The locations of sandboxes and services are those which the control plane's own generator writes,
/// where services ask for no login; only the name of the pod is an address here.
fn settings(port: u16, control_plane: &str, daemon: &str, authority: Option<&Authority>) -> String {
    let listen = match authority {
        None => format!("listen 127.0.0.1:{port};"),
        Some(authority) => format!(
            "listen 127.0.0.1:{port} ssl; ssl_certificate {:?}; ssl_certificate_key {:?};",
            authority.certificate_file(),
            authority.key_file()
        ),
    };
    // One process, so that it needs no other user.
    format!(
        r#"daemon off; master_process off; pid nginx.pid; error_log error.log notice;
events {{ worker_connections 256; }}
http {{
  access_log off; charset utf-8; gzip on; gzip_types *; gzip_proxied any;
  client_body_temp_path body; proxy_temp_path proxy;
  client_max_body_size 0; client_body_buffer_size 50m; large_client_header_buffers 8 1m;
  proxy_read_timeout 650; send_timeout 650; keepalive_timeout 650;
  server {{
    {listen}
    location = /auth-request/v1/ {{
      internal;
      proxy_pass {control_plane};
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Origin-URI $request_uri;
      proxy_set_header X-Origin-Method $request_method;
      proxy_set_header Host $http_host;
    }}
    location ~ ^/sandbox/v1/[^/]+/[^/]+/[^/]+/runs/[^/]+/.+ {{
      auth_request /auth-request/v1/;
      auth_request_set $sandbox_token $upstream_http_sandbox_token;
      rewrite ^/sandbox/v1/[^/]+/[^/]+/[^/]+/runs/[^/]+/(.+) /$1 break;
      proxy_pass {daemon};
      proxy_http_version 1.1; proxy_redirect off; proxy_buffering off;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_set_header Origin "";
      proxy_set_header Authorization "";
      proxy_set_header Cookie "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header X-Polyaxon-Sandbox-Token $sandbox_token;
    }}
    location ~ ^/rewrite-services/v1/[^/]+/[^/]+/[^/]+/runs/[^/]+/([0-9]+)/(.*) {{
      rewrite ^/rewrite-services/v1/[^/]+/[^/]+/[^/]+/runs/[^/]+/([0-9]+)/(.*) /$2 break;
      proxy_pass http://127.0.0.1:$1;
      proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_set_header Origin "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Real-IP $remote_addr;
    }}
    location / {{
      proxy_pass {control_plane};
      proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Host $http_host;
    }}
  }}
}}
"#
    )
}

/// One test for each function of the contract.
macro_rules! contract {
    (($tls:expr) $($area:ident::$name:ident),+ $(,)?) => {$(
        #[tokio::test]
        #[ignore = "needs a real server"]
        async fn $name() {
            let gateway = Gateway::start($tls).await;
            $area::$name(&gateway.sandbox).await;
        }
    )+};
}

mod plain {
    use super::*;
    for_each_contract!(contract, { Tls::Without });
}

mod over_tls {
    use super::*;
    for_each_contract!(contract, { Tls::With });
}
