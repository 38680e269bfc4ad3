//! Typed client of the Polyaxon control plane: configuration, token, one transport, errors that
//! say what a failed call may have done, and the runs API.
//!
//! ```no_run
//! use std::time::Duration;
//! use polyaxon_client::{Client, ProjectRef, runs::{RunStatus, Wait}};
//!
//! # async fn example() -> Result<(), polyaxon_client::Error> {
//! let client = Client::from_env()?;
//! let project: ProjectRef = "acme/agent-lab".parse()?;
//! let run = "8aac02e3a62a4f0aaa257c59da5eab80".parse()?;
//!
//! let wait = Wait::up_to(Duration::from_secs(300)).on_progress(|now| println!("{}", now.status));
//! client.runs(&project).wait_for(run, &RunStatus::Running, wait).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `http` | yes | the HTTP client: [`Client`], [`Config`], [`Token`], [`transport`], the calls of [`runs`]. Without it: ids, run models and errors |
//!
//! What to know: [`Client`] makes the calls, [`Config`] says where and as whom,
//! [`Error::effect`] whether a failed call was carried out, [`RunUuid`] and [`ProjectRef`] name
//! things.

#![forbid(unsafe_code)]

#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod config;
mod error;
mod ids;
pub mod runs;
#[cfg(feature = "http")]
mod token;
#[cfg(feature = "http")]
pub mod transport;

#[cfg(feature = "http")]
pub use client::Client;
#[cfg(feature = "http")]
pub use config::{Config, Origin};
pub use error::{ApiError, BoxError, Effect, Error, InvalidInput};
pub use ids::{ProjectRef, RunRef, RunUuid};
#[cfg(feature = "http")]
pub use token::Token;
