//! Typed client of the Polyaxon control plane: configuration, token, one transport, errors that
//! say what a failed call may have done, and the runs API.
//!
//! ```
//! use std::time::Duration;
//! use polyaxon_client::runs::{CreateRun, RunStatus, Wait};
//! use polyaxon_client::{Client, Config, ProjectRef, Token};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = polyaxon_local::LocalServer::start().await?;
//! # let (url, token) = (server.url(), server.token());
//! // `Client::from_env()` takes both from the surroundings.
//! let client = Client::new(&Config::explicit(url)?.token(Token::new(token)?))?;
//! let project: ProjectRef = "acme/agent-lab".parse()?;
//! let runs = client.runs(&project);
//!
//! let service = json!({"plugins": {"sandbox": true}, "ports": [], "container": {"image": "python:3.12"}});
//! let run = runs.create(&CreateRun::operation(&service).name("lab")).await?.uuid;
//! let wait = Wait::up_to(Duration::from_secs(300)).on_progress(|now| println!("{}", now.status));
//! runs.wait_for(run, &RunStatus::Running, wait).await?;
//!
//! runs.stop(run).await?; // a request; its status confirms
//! let ended = runs.wait_until_final(run, Duration::from_secs(60)).await?;
//! assert_eq!(ended.status, RunStatus::Stopped);
//!
//! let nowhere = client.runs(&"acme/nowhere".parse()?);
//! let error = nowhere.get(run).await.unwrap_err();
//! assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
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
#[cfg(feature = "http")]
mod credentials;
mod error;
#[cfg(all(feature = "http", any(fuzzing, test)))]
#[doc(hidden)]
pub mod fuzzing;
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
