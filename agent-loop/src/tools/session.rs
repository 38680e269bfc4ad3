//! For whom a call is made, and where: what the application knows, and no model says.

use std::collections::BTreeSet;
use std::fmt;

use polyaxon_client::{ProjectRef, RunUuid};
use polyaxon_sandbox::{Error, SandboxClient};
use serde::{Deserialize, Serialize};

/// Whose data and receipts they are: an account, a team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tenant(String);

impl Tenant {
    /// The tenant of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An authenticated session: a tenant, its roles, and the sandbox that was assigned to it.
///
/// Whoever makes one vouches for it. All calls of the session run in this sandbox; a model has no
/// way to name another. Clones are cheap, and the same session.
#[derive(Clone, Debug)]
pub struct Session {
    tenant: Tenant,
    roles: BTreeSet<String>,
    sandbox: SandboxClient,
}

impl Session {
    /// Opens a session of `tenant` in `sandbox`, whose service has to answer: a run that was
    /// created is not ready yet. Ending the sandbox stays the caller's: nothing here does it.
    ///
    /// # Errors
    /// As [`SandboxClient::ping`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn open(tenant: Tenant, sandbox: SandboxClient) -> Result<Self, Error> {
        sandbox.ping().await?;
        Ok(Self {
            tenant,
            roles: BTreeSet::new(),
            sandbox,
        })
    }

    /// Adds a role, for contracts that name who may call.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.roles.insert(role.into());
        self
    }

    /// Whose session it is.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The project of its sandbox.
    #[must_use]
    pub fn project(&self) -> &ProjectRef {
        self.sandbox.project()
    }

    /// The run of its sandbox.
    #[must_use]
    pub fn run_uuid(&self) -> RunUuid {
        self.sandbox.run_uuid()
    }

    pub(super) fn sandbox(&self) -> &SandboxClient {
        &self.sandbox
    }

    /// Whether one of its roles is among these; `None` is everybody.
    pub(super) fn is_among(&self, callers: Option<&BTreeSet<String>>) -> bool {
        callers.is_none_or(|callers| !callers.is_disjoint(&self.roles))
    }
}
