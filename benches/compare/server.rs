//! The one server of all sides, a process of its own: its time and memory are nobody's.

use std::io::Read as _;

use anyhow::Result;
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{Limits, LocalServer};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use tokio::runtime::Runtime;

use crate::events;
use crate::place::Place;

/// Serves until its input is closed.
pub(crate) fn serve() -> Result<()> {
    let runtime = Runtime::new()?;
    let (server, place) = runtime.block_on(start())?;
    println!("{}", serde_json::to_string(&place)?);
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing)?;
    runtime.block_on(server.stop())?;
    Ok(())
}

async fn start() -> Result<(LocalServer, Place)> {
    let mut limits = Limits::default();
    // A thousand commands at once is one of the scenarios.
    limits.execs_running = 2048;
    let server = LocalServer::builder().limits(limits).start().await?;
    let config = Config::explicit(server.url())?.token(Token::new(server.token())?);
    let client = Client::new(&config)?;
    let spec = SandboxSpec::image("compare");
    let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    let place = Place {
        url: server.url().to_owned(),
        events_url: events::start().await?,
        token: server.token().to_owned(),
        owner: server.project().owner().to_owned(),
        project: server.project().name().to_owned(),
        run: sandbox.run_uuid().to_string(),
    };
    Ok((server, place))
}
