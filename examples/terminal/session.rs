//! Keys to the sandbox, output to the screen, until one side ends it.

use std::time::Duration;

use anyhow::Result;
use polyaxon_sandbox::pty::{Attach, AttachedPty, PtyExit, PtyReader, PtyWriter};
use polyaxon_sandbox::{Error, SandboxClient};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Stdin, stdin, stdout};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::screen;

/// Ctrl-], which leaves.
const LEAVE: u8 = 0x1d;
/// Ctrl-D, which is the end of input.
const END: &[u8] = b"\x04";
/// How often a lost connection is replaced before that is an error.
const AGAIN: u32 = 5;
/// What is shown again after a connection was lost.
const REPLAY: u32 = 4096;

/// How it ended.
pub(crate) enum Ended {
    /// The program did.
    Exited(PtyExit),
    /// This side left, with this code.
    Left(u8),
}

pub(crate) struct Session {
    sandbox: SandboxClient,
    keys: Keys,
    killed: Killed,
}

impl Session {
    pub(crate) fn new(sandbox: SandboxClient) -> Result<Self> {
        Ok(Self {
            sandbox,
            keys: Keys {
                stdin: stdin(),
                resized: signal(SignalKind::window_change())?,
                at_end: false,
            },
            killed: Killed {
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
        })
    }

    pub(crate) async fn run(mut self, mut pty: AttachedPty) -> Result<Ended> {
        let mut lost = 0;
        loop {
            let pty_id = pty.pty_id().clone();
            let (mut reader, mut writer) = pty.split();
            // The three run side by side; none waits for another.
            let ended = tokio::select! {
                ended = show(&mut reader) => ended.map(Ended::Exited),
                ended = self.keys.send(&mut writer) => ended.map(|()| Ended::Left(0)),
                code = self.killed.by() => Ok(Ended::Left(code)),
            };
            match ended {
                Err(error) if is_lost(&error) && lost < AGAIN => {}
                other => return other,
            }
            drop((reader, writer));
            lost += 1;
            let ptys = self.sandbox.pty();
            if let Some(exit) = ptys.get(&pty_id).await?.exit() {
                return Ok(Ended::Exited(exit));
            }
            tokio::time::sleep(Duration::from_millis(200) * lost).await;
            pty = ptys
                .attach(&pty_id, Attach::new().replay_bytes(REPLAY))
                .await?;
        }
    }
}

fn is_lost(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Detached { .. }))
}

async fn show(reader: &mut PtyReader) -> Result<PtyExit> {
    let mut screen = stdout();
    while let Some(bytes) = reader.read().await? {
        screen.write_all(&bytes).await?;
        screen.flush().await?;
    }
    Ok(reader.wait().await?)
}

struct Keys {
    stdin: Stdin,
    resized: Signal,
    at_end: bool,
}

impl Keys {
    /// Until the user wants to leave.
    async fn send(&mut self, writer: &mut PtyWriter) -> Result<()> {
        let mut keys = vec![0; 4096];
        // A window may have changed while there was no connection.
        self.tell_size(writer).await?;
        loop {
            tokio::select! {
                read = self.stdin.read(&mut keys), if !self.at_end => {
                    let typed = keys.get(..read?).unwrap_or_default();
                    if typed.is_empty() {
                        self.at_end = true;
                        writer.write(END).await?;
                    } else if typed.contains(&LEAVE) {
                        return Ok(());
                    } else {
                        writer.write(typed.to_vec()).await?;
                    }
                }
                Some(()) = self.resized.recv() => self.tell_size(writer).await?,
            }
        }
    }

    async fn tell_size(&self, writer: &mut PtyWriter) -> Result<()> {
        if let Some((cols, rows)) = screen::size() {
            writer.resize(cols, rows).await?;
        }
        Ok(())
    }
}

struct Killed {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
}

impl Killed {
    /// The code of a program that such a signal ends.
    async fn by(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + 15,
            _ = self.hangup.recv() => 128 + 1,
            _ = self.interrupt.recv() => 128 + 2,
        }
    }
}
