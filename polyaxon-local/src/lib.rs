//! The Polyaxon sandbox service on one machine: projects, runs and their sandboxes on one address,
//! for development and tests.
//!
//! A [`LocalServer`] speaks the wire of a deployment to clients of any language: create a run
//! below `/api/v1`, wait until it runs, call its sandbox through the gateway path. It starts with
//! one call and takes everything along when it is dropped: processes, folders, connections.
//!
//! ```
//! use polyaxon_local::LocalServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = LocalServer::start().await?;
//! // A client of any kind takes it from here.
//! let (host, token, project) = (server.url(), server.token(), server.project());
//! assert!(host.starts_with("http://127.0.0.1:"));
//! assert_eq!((token.len(), project.name()), (64, "agent-lab"));
//!
//! let folder = server.folder().to_owned();
//! drop(server);
//! assert!(!folder.exists());
//! # Ok(()) }
//! ```
//!
//! # What it is not
//!
//! It is a double of a cluster sandbox, **not a boundary against hostile code**: no image is
//! pulled, commands are programs of this machine and run as the user of the server.
//! [`LocalServer::report`] says, layer by layer, what protects and what does not.
//!
//! Where the machine allows it (Linux with user namespaces), each sandbox lives in a *pod*: its
//! own `/tmp`, `/workspace`, `/home` and processes, the system's folders and what programs in
//! `PATH` need read-only, nothing else of the machine. Commands and the file API see the same
//! files by the same paths. Elsewhere paths of the file API are mapped below the folder of the
//! sandbox; a command then sees its files by relative paths from its `workdir`, and the rest of
//! the machine as the server does. [`Isolation`] says which is wanted.
//!
//! # What it serves
//!
//! | path | what |
//! |---|---|
//! | `/api/v1/{owner}/projects/…`, `/api/v1/{owner}/{project}` | projects: create, list, get |
//! | `/api/v1/{owner}/{project}/runs/…` | runs: create, list, get, change, statuses, lineage, end |
//! | `/streams/v1/{namespace}/{owner}/{project}/runs/{uuid}/…` | files, series of events, logs |
//! | `/sandbox/v1/{namespace}/{owner}/{project}/runs/{uuid}/…` | `ping`, `exec`, `exec/stream`, `exec/bg`, `fs/*`, `pty` of a sandbox |
//!
//! Services with the sandbox plugin and plain jobs run; others fail with a status that says so. The
//! limits of a sandbox are [`Limits`]. A [`LocalDaemon`] is the daemon of one sandbox alone.
//!
//! # Faults on purpose
//!
//! [`LocalServerBuilder::faults`] and [`LocalServer::faults`] make answers go wrong, for tests of
//! any client:
//!
//! ```
//! use polyaxon_local::{Fault, FaultRule, LocalServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The first write has its effect, and its answer is lost at the gateway.
//! let lost = FaultRule::new(Fault::BadGateway).path("*/fs/write").times(1).carried_out();
//! let server = LocalServer::builder().faults([lost]).start().await?;
//! // The reads break off in the middle from now on.
//! server.faults().add(FaultRule::new(Fault::CutAfter(100)).path("*/fs/read"));
//! # Ok(()) }
//! ```
//!
//! # Another service
//!
//! The wire leaves some things open, and services differ. [`LocalServerBuilder::quirks`] makes this
//! one a service that a client has to get along with too: without `follow`, with tags that are only
//! labels, with other error codes, and what else [`Quirk`] lists.
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `cli` | yes | the `polyaxon-local` program; a library needs none of it |

#![deny(unsafe_code)]
#![cfg(unix)]

mod activity;
mod auth;
mod blocking;
mod closing;
mod control;
mod daemon;
mod error;
mod faults;
mod folder;
mod fs;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod isolation;
mod killed;
mod limits;
mod pod;
mod process;
mod pty;
mod quirks;
mod report;
mod routes;
mod rustup;
mod server;
mod sys;

pub use error::Error;
pub use faults::{Fault, FaultRule, Faults};
pub use isolation::{Isolation, IsolationLevel};
pub use limits::{Limits, PtyLimits};
pub use quirks::Quirk;
pub use report::{Layer, LayerState, Report};
pub use server::{LocalDaemon, LocalDaemonBuilder, LocalServer, LocalServerBuilder};
