//! Typed client of Polyaxon sandboxes: service runs with processes, files and terminals.
//!
//! ```
//! use std::time::Duration;
//! use polyaxon_client::ProjectRef;
//! use polyaxon_client::runs::Wait;
//! use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = polyaxon_local::LocalServer::start().await?;
//! # let token = polyaxon_client::Token::new(server.token())?;
//! # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
//! # let client = polyaxon_client::Client::new(&config)?;
//! // let client = Client::from_env()?;
//! let project: ProjectRef = "acme/agent-lab".parse()?;
//! let spec = SandboxSpec::image("python:3.12-slim").queue("research/cpu");
//!
//! let pending = SandboxClient::create(&client, &project, &spec).await?;
//! println!("{}", pending.run_uuid()); // known before anything can go wrong
//! let sandbox = pending.ready(Wait::up_to(Duration::from_secs(300))).await?;
//!
//! sandbox.fs().write("/tmp/amounts.py", "print(2 + 3)\n").await?;
//! let exec = Exec::new(["python3", "amounts.py"]).workdir("/tmp").timeout(Duration::from_secs(30));
//! let result = sandbox.process().exec(&exec).await?;
//! println!("{:?}", result.receipt());
//! assert_eq!(result.ensure_success()?.stdout.text()?, "5\n");
//!
//! sandbox.stop().await?; // a request; `stop_and_wait` confirms
//! # Ok(())
//! # }
//! ```
//!
//! What each method sends, and whether it is sent again by itself when the answer is lost:
//!
//! | method | on the wire | repeated |
//! |---|---|---|
//! | [`SandboxClient::create`], [`launch`](SandboxClient::launch) | `POST /api/v1/{owner}/{project}/runs` | only where it surely did not arrive; with a launch id the run is looked for |
//! | [`Sandboxes::list`], [`connect`](Sandboxes::connect), [`created`](Sandboxes::created) | `GET …/runs?query=…`, then `GET …/runs/{uuid}` | yes |
//! | [`Sandboxes::stop`] | the same, then `POST …/runs/{uuid}/stop` | yes |
//! | [`SandboxClient::connect`], [`of_this_pod`](SandboxClient::of_this_pod) | nothing | – |
//! | [`SandboxClient::service_url`] | `GET …/runs/{uuid}/namespace`, once | yes |
//! | [`SandboxClient::ping`] | `GET ping` | yes |
//! | [`SandboxClient::resolve`], [`look_up`](SandboxClient::look_up) | the `GET` that can tell | yes |
//! | [`SandboxClient::stop`] | `POST …/runs/{uuid}/stop` | yes |
//! | [`process().exec`](process::Process::exec) | `POST exec` | only where it surely did not run |
//! | [`exec_stream`](process::Process::exec_stream), [`exec_with`](process::Process::exec_with) | `POST exec/stream`; at its end `GET exec/bg/{id}`; `GET …/logs` for what the stream lacks | only where it surely did not run; the reads yes |
//! | [`ExecEvents::terminate`](process::ExecEvents::terminate) | as [`BgExec::delete`](process::BgExec::delete) | as that |
//! | [`exec_bg`](process::Process::exec_bg) | `POST exec/bg` | only where it surely did not run; with a tag it can be looked up |
//! | [`list`](process::Process::list), [`list_tagged`](process::Process::list_tagged) | `GET exec/bg` | yes |
//! | [`BgExec::status`](process::BgExec::status), [`logs`](process::BgExec::logs) | `GET exec/bg/{id}`, `GET exec/bg/{id}/logs` | yes |
//! | [`BgExec::follow`](process::BgExec::follow), `follow_both`, `follow_from`, [`output`](process::BgExec::output) | `GET …/logs?follow=true`, page by page, then `GET exec/bg/{id}` | yes, for a minute |
//! | [`BgExec::wait`](process::BgExec::wait) | `GET exec/bg/{id}`; between two of them `GET …/logs?follow=true`, or a pause | yes, up to its limit |
//! | [`BgExec::signal`](process::BgExec::signal) | `POST exec/bg/{id}/signal` | only where it surely did not arrive |
//! | [`BgExec::terminate`](process::BgExec::terminate) | a signal, `wait`, another signal | each signal once more where its answer is lost |
//! | [`BgExec::delete`](process::BgExec::delete) | `DELETE exec/bg/{id}` | once; not found is then gone |
//! | [`full_output`](process::Process::full_output) | `GET …/logs` of what was cut | yes |
//! | [`durable`](process::Process::durable), [`reattach`](process::Process::reattach) | `POST exec/bg` with a tag, then as `follow_from` and `delete` | yes: found by its tag, and sent again only where the service refuses it twice |
//! | [`fs().read`](fs::Fs::read), `read_text`, `read_range`, `read_page` | `GET fs/read` | yes |
//! | [`fs().write`](fs::Fs::write) | `POST fs/write` | yes; with [`append`](fs::Write::append) only where it surely did not arrive |
//! | [`fs().stat`](fs::Fs::stat), [`ls`](fs::Fs::ls) | `GET fs/stat`, `GET fs/ls` | yes |
//! | [`fs().mkdir`](fs::Fs::mkdir), [`rm`](fs::Fs::rm) | `POST fs/mkdir`, `DELETE fs/rm` | only where it surely did not arrive |
//! | [`mkdir_with`](fs::Fs::mkdir_with) [`parents`](fs::Mkdir::parents), [`rm_all`](fs::Fs::rm_all) | the same, with parents or recursive | yes |
//! | [`fs().exists`](fs::Fs::exists), [`try_stat`](fs::Fs::try_stat) | `GET fs/stat` | yes |
//! | [`fs().walk`](fs::Fs::walk) | `GET fs/ls`, once or for each directory | yes |
//! | [`fs().append_at`](fs::Fs::append_at) | `GET fs/stat`, `POST fs/write` | where the size says that it did not arrive |
//! | [`fs().rename`](fs::Fs::rename) | `GET fs/stat`, `POST exec` of `mv` | where the old name is still there |
//! | [`fs().reader`](fs::Fs::reader) | `GET fs/stat`, `GET fs/read` by pages | yes, from the byte where it broke |
//! | [`fs().writer`](fs::Fs::writer) | `POST fs/write` by pages | the first; others as `append_at` |
//! | [`fs().download`](fs::Fs::download) | `GET fs/stat`, `GET fs/read` by pages, `POST exec` of `sha256sum` if asked | yes |
//! | [`fs().upload`](fs::Fs::upload) | as `writer` to a new file, `POST exec` of `sha256sum` if asked and of `mv`; `DELETE fs/rm` of what is left | as its parts |
//! | [`fs().download_dir`](fs::Fs::download_dir) | `POST exec` of `tar`, pages of its archive, `DELETE fs/rm`; without `tar` as `walk` and `reader` | yes |
//! | [`fs().upload_dir`](fs::Fs::upload_dir) | an archive as `writer`, `POST exec` of `tar` and `mv`, `DELETE fs/rm`; without `tar` as `mkdir` and `writer` | as its parts |
//! | [`pty().create`](pty::Ptys::create) | `POST pty` | only where it surely did not arrive |
//! | [`pty().open`](pty::Ptys::open) | `POST pty`, then as `attach` with replay | as its parts |
//! | [`pty().list`](pty::Ptys::list), `list_tagged`, [`get`](pty::Ptys::get) | `GET pty`, `GET pty/{id}` | yes |
//! | [`pty().attach`](pty::Ptys::attach) | WebSocket `GET pty/{id}/ws` | the handshake |
//! | [`pty().resize`](pty::Ptys::resize) | `POST pty/{id}/resize` | yes |
//! | [`pty().signal`](pty::Ptys::signal) | `POST pty/{id}/signal` | only where it surely did not arrive |
//! | [`pty().delete`](pty::Ptys::delete) | `DELETE pty/{id}` | once; not found is then gone |
//! | [`AttachedPty`](pty::AttachedPty): `write`, `resize`, `signal` | a frame | no |
//! | [`AttachedPty::reattach`](pty::AttachedPty::reattach) | a close, then as `attach` | as its parts, for 5 s |
//!
//! Coming from the Python client: [`from_python`], method by method.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `client` | yes | [`SandboxClient`] and all that calls a service. Without it: [`wire`] and the data types, for those who write a service |

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod blocking;
#[cfg(feature = "client")]
mod client;
mod error;
#[cfg(feature = "client")]
pub mod from_python;
pub mod fs;
mod path;
mod ping;
pub mod process;
pub mod pty;
#[cfg(feature = "client")]
mod resolve;
#[cfg(feature = "client")]
mod spec;
pub mod wire;

#[cfg(feature = "client")]
pub use client::{Find, Pending, SandboxClient, Sandboxes, StopReport};
pub use error::Error;
#[cfg(feature = "client")]
pub use error::{Ambiguous, Uncertain};
pub use path::{AbsPath, FileMode};
pub use ping::Ping;
pub use process::Exec;
#[cfg(feature = "client")]
pub use process::ExecResult;
#[cfg(feature = "client")]
pub use resolve::{Evidence, Lookup, Resolution};
#[cfg(feature = "client")]
pub use spec::{Quantity, SandboxSpec};
