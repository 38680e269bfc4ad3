//! The operations that change something.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Exec,
    ExecStream,
    ExecBg,
    Signal,
    Delete,
    Write,
    Append,
    Mkdir,
    Rm,
    CreatePty,
    ResizePty,
    SignalPty,
    DeletePty,
    CreateRun,
    StopRun,
}

impl Op {
    pub(crate) const ALL: [Self; 15] = [
        Self::Exec,
        Self::ExecStream,
        Self::ExecBg,
        Self::Signal,
        Self::Delete,
        Self::Write,
        Self::Append,
        Self::Mkdir,
        Self::Rm,
        Self::CreatePty,
        Self::ResizePty,
        Self::SignalPty,
        Self::DeletePty,
        Self::CreateRun,
        Self::StopRun,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::ExecStream => "exec_stream",
            Self::ExecBg => "exec_bg",
            Self::Signal => "signal",
            Self::Delete => "delete",
            Self::Write => "fs.write",
            Self::Append => "fs.write, add",
            Self::Mkdir => "fs.mkdir",
            Self::Rm => "fs.rm",
            Self::CreatePty => "pty.create",
            Self::ResizePty => "pty.resize",
            Self::SignalPty => "pty.signal",
            Self::DeletePty => "pty.delete",
            Self::CreateRun => "runs.create",
            Self::StopRun => "runs.stop",
        }
    }

    /// Whether its limit is that of the client. The others have limits of their own, which are half
    /// a minute at least.
    pub(crate) fn ends_by_itself(self) -> bool {
        !matches!(self, Self::Exec | Self::Delete | Self::DeletePty)
    }
}
