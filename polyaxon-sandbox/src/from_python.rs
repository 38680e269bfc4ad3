//! Coming from the Python client (`SandboxClient` of `polyaxon` 2.18): method by method, and what
//! is different. This module has no items.
//!
//! The service and its words are the same: `workdir`, `timed_out`, `replay_bytes`, `tag`. There is
//! one API and it is asynchronous; what `AsyncSandboxClient` has is here once.
//!
//! # In short
//!
//! ```python
//! client = SandboxClient(owner="acme", project="agent-lab")        # Python
//! client.create(image="python:3.12-slim", cpu="500m..1")
//! # wait until it runs, by hand
//! result = client.process.exec(["python", "-V"], timeout_ms=30000)
//! client.fs.write_text("/tmp/a", "text")
//! ```
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = polyaxon_local::LocalServer::start().await?;
//! # let token = polyaxon_client::Token::new(server.token())?;
//! # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
//! # let client = polyaxon_client::Client::new(&config)?;
//! use std::time::Duration;
//! use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
//!
//! // let client = polyaxon_client::Client::from_env()?;
//! let spec = SandboxSpec::image("python:3.12-slim").cpu("500m..1");
//! let sandbox = SandboxClient::launch(&client, &"acme/agent-lab".parse()?, &spec).await?;
//! let exec = Exec::new(["python3", "-V"]).timeout(Duration::from_secs(30));
//! let result = sandbox.process().exec(&exec).await?;
//! sandbox.fs().write("/tmp/a", "text").await?;
//! # assert!(result.success());
//! # Ok(())
//! # }
//! ```
//!
//! # The sandbox
//!
//! | Python | here | what differs |
//! |---|---|---|
//! | `SandboxClient(owner, project, run_uuid)` | [`SandboxClient::connect`](crate::SandboxClient::connect) | the project is said; no `.polyaxon/.project` or `.run` is read |
//! | – | [`SandboxClient::of_this_pod`](crate::SandboxClient::of_this_pod) | the run of `POLYAXON_RUN_INSTANCE`, the pod's own service |
//! | `create(image=…, cmd=…, …)` | [`SandboxClient::create`](crate::SandboxClient::create) with a [`SandboxSpec`](crate::SandboxSpec) | ends by itself after 30 minutes unless told otherwise; what fails on the cluster is refused at once |
//! | `create(content=…)` | [`SandboxSpec::from_content`](crate::SandboxSpec::from_content), [`from_json`](crate::SandboxSpec::from_json) | a JSON document; read YAML before |
//! | `create(tags="a, b")` | [`tag`](crate::SandboxSpec::tag), for each | |
//! | `create(is_managed=…)` | [`managed_by`](crate::SandboxSpec::managed_by) | |
//! | – | [`Pending::ready`](crate::Pending::ready), [`SandboxClient::launch`](crate::SandboxClient::launch) | waiting until the service answers, with approvals and reasons |
//! | `run_uuid`, `run_data`, `settings` | [`run_uuid`](crate::SandboxClient::run_uuid), `runs().get(run)` | |
//! | `namespace`, `get_namespace()` | `runs().namespace(run)` | asked for when it is needed, once |
//! | `ping()` | [`ping`](crate::SandboxClient::ping) | |
//! | `RunClient.stop()` | [`stop`](crate::SandboxClient::stop), [`stop_and_wait`](crate::SandboxClient::stop_and_wait) | |
//! | – | [`Sandboxes`](crate::Sandboxes) | list, connect by name or tag, stop what is left over |
//!
//! # Processes: `client.process` is [`process()`](crate::SandboxClient::process)
//!
//! | Python | here | what differs |
//! |---|---|---|
//! | `exec(command, env, workdir, stdin, timeout_ms)` | [`exec`](crate::process::Process::exec) with an [`Exec`](crate::Exec) | Python gives up after 60 s; here the limit follows the command's. `env={"A": None}` is [`env_remove`](crate::Exec::env_remove) |
//! | `result.stdout` | `result.stdout.text()?`, `.bytes()`, `.json()` | text that was cut is not handed out as if it were whole |
//! | `result.exit_code` | `result.termination`, [`exit_code()`](crate::ExecResult::exit_code) | a signal is not an exit code; `ensure_success()` |
//! | `exec_stream(…)` | [`exec_stream`](crate::process::Process::exec_stream) | an end without `execution_complete` is an error; unknown events and CRLF are read |
//! | `exec_bg(…, tag)` | [`exec_bg`](crate::process::Process::exec_bg) | where the answer is lost, [`resolve`](crate::SandboxClient::resolve) looks by the tag |
//! | – | [`durable`](crate::process::Process::durable) | executed once and told whole, over lost answers and restarts |
//! | `list(tag)` | [`list`](crate::process::Process::list), [`list_tagged`](crate::process::Process::list_tagged) | |
//! | `get(id)` | [`bg(id)`](crate::process::Process::bg)`.status()` | unknown states are kept, Python raises |
//! | `logs(id, stream, offset, max_bytes)`, `output`, `stdout`, `stderr` | [`logs`](crate::process::BgExec::logs), [`output`](crate::process::BgExec::output) | characters cut at a border are put together |
//! | `iter_logs`, `iter_stdout`, `iter_stderr` | [`follow`](crate::process::BgExec::follow), [`follow_both`](crate::process::BgExec::follow_both) | the service tells when there is more, where it can; Python sleeps 1 s |
//! | `wait(timeout, interval)` | [`wait`](crate::process::BgExec::wait) | |
//! | `signal`, `kill` | [`signal`](crate::process::BgExec::signal), [`terminate`](crate::process::BgExec::terminate) | `terminate` waits, and kills in the end |
//! | `delete(id)` | [`delete`](crate::process::BgExec::delete) | sent again where the answer is lost |
//!
//! # Files: `client.fs` is [`fs()`](crate::SandboxClient::fs)
//!
//! | Python | here | what differs |
//! |---|---|---|
//! | `read(path, offset, length)` | [`read_range`](crate::fs::Fs::read_range), [`read_page`](crate::fs::Fs::read_page) | |
//! | `read_bytes`, `read_text` | [`read`](crate::fs::Fs::read), [`read_text`](crate::fs::Fs::read_text) | pages of up to 16 MiB, not 64 KiB |
//! | `iter_bytes` | [`reader`](crate::fs::Fs::reader) | `AsyncRead`, or a stream; several pages at once |
//! | `write`, `write_bytes`, `write_text` | [`write`](crate::fs::Fs::write), [`write_with`](crate::fs::Fs::write_with) | an append whose answer is lost is not repeated; [`append_at`](crate::fs::Fs::append_at) looks |
//! | – | [`writer`](crate::fs::Fs::writer) | |
//! | `download_file`, `upload_file` | [`download`](crate::fs::Fs::download), [`upload`](crate::fs::Fs::upload) | replaced in one step, resumed, compared |
//! | – | [`download_dir`](crate::fs::Fs::download_dir), [`upload_dir`](crate::fs::Fs::upload_dir) | |
//! | `ls(path, recursive, max_entries)` | [`ls`](crate::fs::Fs::ls), [`ls_with`](crate::fs::Fs::ls_with), [`walk`](crate::fs::Fs::walk) | |
//! | `mkdir(parents, mode)` | [`mkdir`](crate::fs::Fs::mkdir), [`mkdir_with`](crate::fs::Fs::mkdir_with) | |
//! | `rm(path, recursive)` | [`rm`](crate::fs::Fs::rm), [`rm_all`](crate::fs::Fs::rm_all) | |
//! | `stat(path)` | [`stat`](crate::fs::Fs::stat), [`exists`](crate::fs::Fs::exists) | |
//!
//! # Terminals: `client.pty` is [`pty()`](crate::SandboxClient::pty)
//!
//! | Python | here | what differs |
//! |---|---|---|
//! | `create(command, env, workdir, cols, rows, tag)` | [`create`](crate::pty::Ptys::create) with a [`Pty`](crate::pty::Pty) | sizes that cannot be are refused at once |
//! | `create` and `attach` | [`open`](crate::pty::Ptys::open) | what was written in between is not lost |
//! | `attach(id, replay_bytes, timeout)` | [`attach`](crate::pty::Ptys::attach) | read in the background, so that an idle handle lives |
//! | `session.send_stdin(bytes)` | [`write`](crate::pty::PtyWriter::write) | |
//! | `session.recv()` | [`read`](crate::pty::PtyReader::read), or as a stream | an `error` frame is not the end; a close without an end is [`Error::Detached`](crate::Error::Detached) |
//! | `session.send_control({"type": "resize", …})`, `session.resize`, `session.signal`, `session.kill` | [`resize`](crate::pty::PtyWriter::resize), [`signal`](crate::pty::PtyWriter::signal) | by a frame; [`Ptys::resize`](crate::pty::Ptys::resize), [`Ptys::signal`](crate::pty::Ptys::signal) by a call |
//! | `session.close()` | [`detach`](crate::pty::AttachedPty::detach), or dropping it | |
//! | – | [`reattach`](crate::pty::AttachedPty::reattach), [`ask`](crate::pty::AttachedPty::ask) | |
//! | `list(tag)`, `get`, `resize`, `signal`, `delete` | [`list`](crate::pty::Ptys::list), [`list_tagged`](crate::pty::Ptys::list_tagged), [`get`](crate::pty::Ptys::get), … | |
//!
//! # Settings and errors
//!
//! * Host and token come from the same files and variables, in the same order; see
//!   [`Config`](polyaxon_client::Config). The files are never changed or deleted.
//! * Certificates are checked unless `POLYAXON_VERIFY_SSL` is false; one setting holds for calls,
//!   streams and terminals. In Python it does not.
//! * Python raises one exception with a text. Here every [`Error`](crate::Error) has the service's
//!   [`code`](crate::Error::code) and says with [`effect`](crate::Error::effect) whether the call was carried
//!   out, was not, or nobody knows.
//! * Python repeats some calls after a timeout, a non-recursive `rm` among them. What is repeated
//!   here is in the table of the [front page](crate).
//! * There is no `no_op` and no offline mode.
//! * Each call is in a `tracing` span: its fields are listed in [`polyaxon_client::transport`].
