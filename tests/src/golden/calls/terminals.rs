//! Terminals.

use polyaxon_sandbox::process::Signal;
use polyaxon_sandbox::pty::{Attach, Pty, PtyId};
use polyaxon_sandbox::{Error, SandboxClient};

use super::{Made, NOT_WRITTEN};

pub(super) async fn make(call: &str, sandbox: &SandboxClient) -> Result<Made, Error> {
    let ptys = sandbox.pty();
    let id = PtyId::from("pty-1".to_owned());
    match call {
        "pty.create.default" => drop(ptys.create(&Pty::shell()).await?),
        "pty.create.all" => {
            let pty = Pty::new(["bash", "-l"])
                .env("A", "1")
                .env_remove("B")
                .workdir("/tmp")
                .size(120, 40)
                .tag("t");
            ptys.create(&pty).await?;
        }
        "pty.create.no_size" => drop(ptys.create(&Pty::shell().size_of_service()).await?),
        "pty.list" => drop(ptys.list().await?),
        "pty.list_tag" => drop(ptys.list_tagged("t").await?),
        "pty.get" => drop(ptys.get(&id).await?),
        "pty.resize" => ptys.resize(&id, 100, 30).await?,
        "pty.signal" => ptys.signal(&id, &Signal::Hup).await?,
        "pty.delete" => ptys.delete(&id).await?,
        "pty.attach.default" => attach(sandbox, &id, Attach::new()).await?,
        "pty.attach.odd_id.async" => {
            // Without a word.
            let id = PtyId::from("x y".to_owned());
            drop(ptys.attach(&id, Attach::new()).await?);
        }
        "pty.attach.replay" => attach(sandbox, &id, Attach::new().replay_bytes(1024)).await?,
        "pty.attach.replay_zero" => attach(sandbox, &id, Attach::new().replay_bytes(0)).await?,
        "pty.attach.session" => {
            let mut attached = ptys.attach(&id, Attach::new()).await?;
            attached.write("echo é\n").await?;
            attached.resize(100, 30).await?;
            ptys.resize(&id, 120, 40).await?;
            ptys.signal(&id, &Signal::Term).await?;
            attached.detach().await;
        }
        "pty.attach.session.async" => {
            let mut attached = ptys.attach(&id, Attach::new().replay_bytes(7)).await?;
            attached.write("echo é\n").await?;
            attached.signal(&Signal::Int).await?;
            ptys.resize(&id, 120, 40).await?;
            ptys.signal(&id, &Signal::Kill).await?;
            attached.detach().await;
        }
        _ => return Ok(Made::NotOffered(NOT_WRITTEN)),
    }
    Ok(Made::Sent)
}

async fn attach(sandbox: &SandboxClient, id: &PtyId, how: Attach) -> Result<(), Error> {
    sandbox.pty().attach(id, how).await?.detach().await;
    Ok(())
}
