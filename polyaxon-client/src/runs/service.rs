//! Where the ports of a service run are reached.

use url::Url;

use super::Runs;
use crate::error::{Error, InvalidInput};
use crate::ids::RunUuid;

/// How the gateway hands calls on to a port of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the gateway has these four")]
pub enum ServiceRoute {
    /// The pod gets the whole path, the caller has to be authenticated. What a service without
    /// more settings has.
    #[default]
    Services,
    /// The pod gets the path behind the port: a service with `rewritePath`.
    Rewrite,
    /// As [`Services`](Self::Services), open to everybody: a service with `isExternal`.
    External,
    /// As [`Rewrite`](Self::Rewrite), open to everybody.
    RewriteExternal,
}

impl ServiceRoute {
    /// The first segment of the path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Rewrite => "rewrite-services",
            Self::External => "external",
            Self::RewriteExternal => "rewrite-external",
        }
    }
}

impl Runs {
    /// The URL of a port of a service run, without a slash at its end: append a path with one.
    /// Nothing is sent. The port has to be one of the run's `ports`; callers send their token as
    /// everywhere.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the namespace cannot be part of a URL, or the port is 0.
    ///
    /// # Examples
    /// ```
    /// use polyaxon_client::{Client, Config, ProjectRef};
    /// use polyaxon_client::runs::ServiceRoute;
    ///
    /// let client = Client::new(&Config::explicit("https://polyaxon.example.org/base")?)?;
    /// let project: ProjectRef = "acme/lab".parse()?;
    /// let run = "8aac02e3a62a4f0aaa257c59da5eab80".parse()?;
    /// let url = client.runs(&project).service_url("plx", run, 8000, ServiceRoute::Rewrite)?;
    /// assert_eq!(
    ///     url.as_str(),
    ///     "https://polyaxon.example.org/base/rewrite-services/v1/plx/acme/lab/runs/8aac02e3a62a4f0aaa257c59da5eab80/8000"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn service_url(
        &self,
        namespace: &str,
        run: RunUuid,
        port: u16,
        route: ServiceRoute,
    ) -> Result<Url, Error> {
        let path = self.service_path(namespace, run, port, route)?;
        let mut url = self.transport().host().clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}{path}"));
        Ok(url)
    }

    /// The path of a port of a service, below the host's base path.
    pub(super) fn service_path(
        &self,
        namespace: &str,
        run: RunUuid,
        port: u16,
        route: ServiceRoute,
    ) -> Result<String, InvalidInput> {
        check_namespace(namespace)?;
        if port == 0 {
            return Err(InvalidInput::new("port", "is 0"));
        }
        let (owner, name) = (self.project().owner(), self.project().name());
        let route = route.as_str();
        Ok(format!(
            "/{route}/v1/{namespace}/{owner}/{name}/runs/{run}/{port}"
        ))
    }
}

/// Whether a namespace can be a segment of a path that the gateway knows: `[-_.:A-Za-z0-9]+`.
///
/// # Errors
/// Where it cannot.
pub fn check_namespace(namespace: &str) -> Result<(), InvalidInput> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match namespace.is_empty() || namespace.starts_with('.') || !namespace.chars().all(fits) {
        false => Ok(()),
        true => {
            let problem = format!("{namespace:?} cannot be a part of a URL");
            Err(InvalidInput::new("namespace", problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Config};

    #[test]
    fn what_cannot_be_a_url_is_refused() {
        let client = Client::new(&Config::explicit("http://localhost:1/").unwrap()).unwrap();
        let runs = client.runs(&"acme/lab".parse().unwrap());
        let run = "8aac02e3a62a4f0aaa257c59da5eab80".parse().unwrap();
        let url = runs
            .service_url("n", run, 80, ServiceRoute::External)
            .unwrap();
        assert_eq!(url.path(), format!("/external/v1/n/acme/lab/runs/{run}/80"));
        for (namespace, port) in [("", 80), ("..", 80), ("a/b", 80), ("n", 0)] {
            let error = runs.service_url(namespace, run, port, ServiceRoute::Services);
            assert!(
                matches!(error, Err(Error::InvalidInput(_))),
                "{namespace:?} {port}"
            );
        }
    }
}
