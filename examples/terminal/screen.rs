//! The terminal that this program runs in.

use std::io::stdin;

use anyhow::{Context as _, Result};
use polyaxon_sandbox::pty::Pty;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// Columns and rows, within what a sandbox takes; `None` where this is no terminal.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(stdin()).ok()?;
    let fit = |number: u16| number.clamp(1, Pty::SIZE_MAX);
    Some((fit(size.ws_col), fit(size.ws_row)))
}

/// While it lives, each key goes on as it is: no echo, no lines, no signals. Dropped, also by a
/// panic, the terminal is as it was before.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// `None` where the input is no terminal.
    pub(crate) fn enter() -> Result<Option<Self>> {
        if !isatty(stdin()) {
            return Ok(None);
        }
        let before = tcgetattr(stdin()).context("the mode of the terminal cannot be read")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)
            .context("the mode of the terminal cannot be set")?;
        Ok(Some(Self { before }))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone has no mode.
        let _restored = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}
