//! The sandbox that a program runs in.

use polyaxon_client::{Client, InvalidInput, RunRef, Token};
use url::Url;

use super::SandboxClient;
use crate::error::Error;
use crate::wire::PORT;

/// Which run a pod belongs to: `owner.project.runs.uuid`.
const RUN_INSTANCE: &str = "POLYAXON_RUN_INSTANCE";
/// The token of the pod's own service.
const SANDBOX_TOKEN: &str = "POLYAXON_SANDBOX_TOKEN";
/// Where the service listens, `:9090` by default (section 1.5 of the description of the wire).
const LISTEN_ADDR: &str = "POLYAXON_SANDBOX_LISTEN_ADDR";

impl SandboxClient {
    /// The sandbox that this program runs in. Nothing is sent.
    ///
    /// The run is the one of `POLYAXON_RUN_INSTANCE`. Where the pod has `POLYAXON_SANDBOX_TOKEN`,
    /// its service is called at `localhost` and without a gateway; otherwise through the gateway.
    /// What is asked of the platform goes there with the token that is mounted into the pod: see
    /// [`Client::from_env`].
    ///
    /// # Errors
    /// `InvalidInput` where this is no pod of a run; `Config` where a setting cannot be used.
    pub fn of_this_pod() -> Result<Self, Error> {
        Self::of_pod(&Client::from_env()?, |name| std::env::var(name).ok())
    }

    fn of_pod(client: &Client, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let value = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let Some(instance) = value(RUN_INSTANCE) else {
            let problem = "is not set: this is no pod of a run";
            return Err(InvalidInput::new(RUN_INSTANCE, problem).into());
        };
        let RunRef { project, run, .. } = instance.trim().parse()?;
        let sandbox = Self::connect(client, &project, run);
        let Some(token) = value(SANDBOX_TOKEN) else {
            return Ok(sandbox);
        };
        let port = match value(LISTEN_ADDR) {
            None => PORT,
            Some(address) => {
                let port = address
                    .rsplit(':')
                    .next()
                    .and_then(|port| port.trim().parse().ok());
                port.ok_or_else(|| {
                    InvalidInput::new(LISTEN_ADDR, format!("{address:?} has no port"))
                })?
            }
        };
        let url = Url::parse(&format!("http://127.0.0.1:{port}"))
            .map_err(|error| InvalidInput::new(LISTEN_ADDR, error.to_string()))?;
        sandbox.direct(url, &Token::new(token)?)
    }
}

#[cfg(test)]
mod tests {
    use polyaxon_client::Config;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const INSTANCE: (&str, &str) = (
        "POLYAXON_RUN_INSTANCE",
        "acme.lab.runs.8aac02e3a62a4f0aaa257c59da5eab80",
    );

    fn of(variables: &[(&str, &str)]) -> Result<SandboxClient, Error> {
        let client = Client::new(&Config::explicit("http://localhost:1").unwrap()).unwrap();
        SandboxClient::of_pod(&client, |name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[tokio::test]
    async fn a_pod_knows_its_run_and_calls_its_own_service_with_its_own_token() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!(":{}", listener.local_addr().unwrap().port());
        let service = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"status\":\"ok\"}";
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).to_lowercase()
        });
        let variables = [
            INSTANCE,
            (SANDBOX_TOKEN, "pod-secret"),
            (LISTEN_ADDR, &address),
        ];
        let sandbox = of(&variables).unwrap();
        assert_eq!(
            sandbox.run_uuid().to_string(),
            "8aac02e3a62a4f0aaa257c59da5eab80"
        );
        assert_eq!(sandbox.project().to_string(), "acme/lab");
        assert_eq!(sandbox.ping().await.unwrap().status, "ok");
        let request = service.await.unwrap();
        assert!(request.starts_with("get /ping http/1.1\r\n"), "{request}");
        assert!(
            request.contains("x-polyaxon-sandbox-token: pod-secret\r\n"),
            "{request}"
        );
        assert!(!request.contains("authorization"), "{request}");
    }

    #[test]
    fn what_is_no_pod_says_which_variable_is_wrong() {
        let table: [(&[(&str, &str)], &str); 4] = [
            (&[], RUN_INSTANCE),
            (&[(RUN_INSTANCE, " ")], RUN_INSTANCE),
            (&[(RUN_INSTANCE, "acme.lab.jobs.x")], "run instance"),
            (
                &[INSTANCE, (SANDBOX_TOKEN, "t"), (LISTEN_ADDR, "nowhere")],
                LISTEN_ADDR,
            ),
        ];
        for (variables, field) in table {
            let error = of(variables).unwrap_err();
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.starts_with(field), "{field}: {cause}");
        }
        of(&[INSTANCE]).unwrap();
    }
}
