//! The client: one transport, and what hangs on it.

use crate::config::Config;
use crate::error::Error;
use crate::ids::ProjectRef;
use crate::runs::Runs;
use crate::transport::Transport;

/// A client of one Polyaxon installation. Cheap to clone; clones share their connections.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), polyaxon_client::Error> {
/// use polyaxon_client::{Client, ProjectRef};
///
/// let client = Client::from_env()?;
/// let project: ProjectRef = "acme/agent-lab".parse()?;
/// let run = "8aac02e3a62a4f0aaa257c59da5eab80".parse()?;
/// println!("{}", client.runs(&project).statuses(run).await?.status);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
}

impl Client {
    /// A client with these settings. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Config`] where a certificate of the settings cannot be used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        Ok(Self {
            transport: Transport::new(config)?,
        })
    }

    /// A client with the settings of its surroundings: see [`Config::from_env`].
    ///
    /// # Errors
    /// [`Error::Config`] where a setting cannot be used.
    pub fn from_env() -> Result<Self, Error> {
        Self::new(&Config::from_env()?)
    }

    /// The same client with connections of its own, for use on another runtime: a connection lives
    /// and dies with the runtime that it was first used on. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Config`] where a certificate of the settings cannot be used any more.
    pub fn with_own_connections(&self) -> Result<Self, Error> {
        Ok(Self {
            transport: self.transport.separate()?,
        })
    }

    /// The runs of `project`.
    #[must_use]
    pub fn runs(&self, project: &ProjectRef) -> Runs {
        Runs::new(self.transport.clone(), project.clone())
    }

    /// The transport, for clients that build on this one.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }
}

const _: () = {
    const fn check<T: Send + Sync + Clone>() {}
    check::<Client>();
};
