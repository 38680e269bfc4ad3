//! The first process of a pod: it makes the pod, holds it open, and ends it by ending.

use std::ffi::{CStr, CString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::{fmt, fs};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Entry, default_signals, exit_now, fork, hide, keep_only, kept, raw, tell};
use crate::killed;

/// How a pod is made, in full: its first process can compute nothing.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The folder of this machine that becomes `/`.
    pub(crate) root: CString,
    pub(crate) steps: Vec<Step>,
    /// What is written to `uid_map` and `gid_map`.
    pub(crate) uid_map: String,
    pub(crate) gid_map: String,
    /// Whether the group map needs `setgroups` to be given up first.
    pub(crate) deny_setgroups: bool,
}

/// One thing to mount. `at` is a path of this machine below the root.
#[derive(Debug)]
pub(crate) enum Step {
    /// A folder or a file with all that is mounted below it, read-only.
    ReadOnly { from: CString, at: CString },
    /// A device of this machine, at a file that is made for it.
    Device { from: CString, at: CString },
    /// A file system in memory.
    Memory { at: CString, options: CString },
    /// The terminals of the pod, and nobody else's.
    Terminals { at: CString },
    /// The processes of the pod, and nobody else's.
    Processes { at: CString },
    /// A folder, in a file system that is new.
    Folder { at: CString },
    /// A link, in a file system that is new.
    Link { text: CString, at: CString },
    /// What is there becomes read-only. It need not be there.
    Freeze { at: CString },
    /// A file is covered by an empty one. It need not be there.
    Blank { at: CString },
    /// A folder is covered by an empty one. It need not be there.
    Empty { at: CString },
}

impl Step {
    fn take(&self) -> Result<(), Errno> {
        let harmless = MountFlags::NOSUID | MountFlags::NODEV;
        match self {
            Self::ReadOnly { from, at } => {
                rustix::mount::mount_bind_recursive(from.as_c_str(), at.as_c_str())?;
                restrict(at, libc::MOUNT_ATTR_RDONLY, libc::AT_RECURSIVE)
            }
            Self::Device { from, at } => {
                let made = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::open(at.as_c_str(), made, Mode::from_raw_mode(0o666)).map(drop)?;
                rustix::mount::mount_bind(from.as_c_str(), at.as_c_str())
            }
            Self::Memory { at, options } => {
                rustix::mount::mount(c"tmpfs", at.as_c_str(), c"tmpfs", harmless, &**options)
            }
            Self::Terminals { at } => {
                let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
                let options = c"newinstance,ptmxmode=0666,mode=0620";
                rustix::mount::mount(c"devpts", at.as_c_str(), c"devpts", flags, options)
            }
            Self::Processes { at } => {
                let flags = harmless | MountFlags::NOEXEC;
                rustix::mount::mount(c"proc", at.as_c_str(), c"proc", flags, None)
            }
            Self::Folder { at } => rustix::fs::mkdir(at.as_c_str(), Mode::from_raw_mode(0o755)),
            Self::Link { text, at } => rustix::fs::symlink(text.as_c_str(), at.as_c_str()),
            Self::Freeze { at } => {
                let frozen = rustix::mount::mount_bind_recursive(at.as_c_str(), at.as_c_str())
                    .and_then(|()| restrict(at, libc::MOUNT_ATTR_RDONLY, libc::AT_RECURSIVE));
                if_there(frozen)
            }
            Self::Blank { at } => if_there(rustix::mount::mount_bind(c"/dev/null", at.as_c_str())),
            Self::Empty { at } => if_there(rustix::mount::mount(
                c"tmpfs",
                at.as_c_str(),
                c"tmpfs",
                harmless | MountFlags::RDONLY,
                c"size=4k,mode=555",
            )),
        }
    }

    fn at(&self) -> &CStr {
        match self {
            Self::ReadOnly { at, .. }
            | Self::Device { at, .. }
            | Self::Memory { at, .. }
            | Self::Terminals { at }
            | Self::Processes { at }
            | Self::Folder { at }
            | Self::Link { at, .. }
            | Self::Freeze { at }
            | Self::Blank { at }
            | Self::Empty { at } => at,
        }
    }
}

fn if_there(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        done => done,
    }
}

/// Takes rights away from a mount. Bits can only be added: those that the machine has set on it
/// stay, which is what the kernel asks for.
fn restrict(at: &CStr, more: u64, how: libc::c_int) -> Result<(), Errno> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | more,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path ends in a NUL, and the kernel reads as many bytes of the struct as it is
    // told there are.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            at.as_ptr(),
            how,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(super::last()),
    }
}

/// What the first process says when it is ready, and when it is not.
const READY: u64 = u64::MAX;
/// Places beside the steps of the plan where it can fail.
const AT_START: u64 = 1 << 32;
const AT_ROOT: u64 = AT_START + 1;

/// Why there is no pod.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    source: io::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self {
            what: what.into(),
            source: source.into(),
        }
    }
}

/// The first process of a pod. The pod ends with it, every process in it: by [`end`](Self::end),
/// when this is dropped, and when the process that holds this ends in whatever way, since then the
/// pipe closes that it waits at.
#[derive(Debug)]
pub(crate) struct Init {
    /// `None` once it was waited for.
    handle: Option<OwnedFd>,
    lifeline: Option<OwnedFd>,
}

impl Init {
    /// Ends the pod. It can take a moment until it is gone: see [`reap`](Self::reap).
    pub(crate) fn kill(&mut self) {
        self.lifeline = None;
        if let Some(handle) = &self.handle {
            let _gone = rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL);
        }
    }

    /// Waits until the pod is gone, without blocking: whether it is.
    ///
    /// # Errors
    /// What the system says: somebody else has waited for a child of ours.
    pub(crate) fn reap(&mut self) -> io::Result<bool> {
        let Some(handle) = &self.handle else {
            return Ok(true);
        };
        let gone = killed::is_gone(handle.as_fd());
        if !matches!(gone, Ok(false)) {
            self.handle = None;
        }
        gone
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        self.kill();
        // The kernel kills the pod's processes one after the other. It waits for those that are our
        // children too: whoever holds them waits for them.
        if let Some(handle) = &self.handle {
            killed::wait_for(handle.as_fd());
        }
    }
}

/// Makes a pod.
///
/// # Errors
/// Which step the system refused, and what it said.
pub(crate) fn start(plan: &Plan) -> Result<(Init, Entry, OwnedFd), Failure> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|e| Failure::new("a pipe", e));
    let (life_end, lifeline) = pipe()?;
    let (report, report_end) = pipe()?;
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    // SAFETY: `first_process` keeps to system calls on what was prepared, and ends by `_exit`.
    let forked = unsafe { fork(namespaces, libc::SIGCHLD) };
    let pid = match forked {
        Ok(None) => first_process(plan, raw(&life_end), raw(&report_end)),
        Ok(Some(pid)) => pid,
        Err(error) => return Err(Failure::new("new namespaces", error)),
    };
    drop((life_end, report_end));
    let handle = pidfd_open(pid, PidfdFlags::empty());
    let mut init = Init {
        handle: Some(handle.map_err(|error| Failure::new("a handle of the pod", error))?),
        lifeline: None,
    };
    let mut lifeline = fs::File::from(lifeline);
    let mut go_on = || {
        lifeline
            .write_all(&[1])
            .map_err(|error| Failure::new("the first process of the pod", error))
    };
    map_ids(plan, pid)?;
    go_on()?;
    let mut report = fs::File::from(report);
    hear(plan, &mut report)?;
    let entry = Entry::of(pid)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(
        format!("/proc/{}/root", pid.as_raw_nonzero()),
        flags,
        Mode::empty(),
    )
    .map_err(|error| Failure::new("the root of the pod", error))?;
    // From here on nobody can look into it any more, not even we. No command is started before.
    go_on()?;
    hear(plan, &mut report)?;
    init.lifeline = Some(lifeline.into());
    Ok((init, entry, root))
}

fn map_ids(plan: &Plan, pid: Pid) -> Result<(), Failure> {
    let write = |file: &str, text: &str| {
        fs::write(format!("/proc/{}/{file}", pid.as_raw_nonzero()), text)
            .map_err(|error| Failure::new(format!("the {file} of a user namespace"), error))
    };
    if plan.deny_setgroups {
        write("setgroups", "deny")?;
    }
    write("uid_map", &plan.uid_map)?;
    write("gid_map", &plan.gid_map)
}

/// What the first process says about the plan.
fn hear(plan: &Plan, report: &mut fs::File) -> Result<(), Failure> {
    let mut words = [0; 16];
    report
        .read_exact(&mut words)
        .map_err(|error| Failure::new("the first process of the pod", error))?;
    let word = |at: usize| words.get(at..at + 8).and_then(|word| word.try_into().ok());
    let place = u64::from_ne_bytes(word(0).unwrap_or_default());
    let code = u64::from_ne_bytes(word(8).unwrap_or_default());
    if place == READY {
        return Ok(());
    }
    let step = usize::try_from(place)
        .ok()
        .and_then(|at| plan.steps.get(at));
    let what = match (step, place) {
        (Some(step), _) => {
            let root = plan.root.to_string_lossy();
            let at = step.at().to_string_lossy();
            format!("mounting {}", at.strip_prefix(&*root).unwrap_or(&at))
        }
        (None, AT_ROOT) => "the root of the pod".to_owned(),
        (None, _) => "the start of the pod".to_owned(),
    };
    let code = i32::try_from(code).unwrap_or_default();
    Err(Failure::new(what, io::Error::from_raw_os_error(code)))
}

/// What the first process does: makes the pod, then waits until its pipe closes.
fn first_process(plan: &Plan, life_end: i32, report_end: i32) -> ! {
    if keep_only(life_end, report_end).is_err() {
        exit_now(1);
    }
    default_signals();
    // First the ids are mapped, then the namespaces are opened.
    wait_for_a_word();
    if let Err((place, error)) = build(plan) {
        tell(
            kept(1),
            place,
            u64::from(error.raw_os_error().cast_unsigned()),
        );
        exit_now(1);
    }
    tell(kept(1), READY, 0);
    wait_for_a_word();
    hide();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let _more_than_needed = rustix::thread::set_capabilities(None, none);
    let _name = rustix::thread::set_name(c"pod");
    // SAFETY: no handler: children that end are reaped by the kernel, those that were given to us
    // when their parents ended among them.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    tell(kept(1), READY, 0);
    // SAFETY: nothing uses the descriptor after this.
    unsafe { libc::close(1) };
    wait_for_a_word();
    exit_now(0)
}

fn wait_for_a_word() {
    let mut byte = [0_u8];
    match rustix::io::retry_on_intr(|| rustix::io::read(kept(0), &mut byte)) {
        Ok(1) => {}
        // The other end is closed: the server is gone, or wants the pod gone.
        _ => exit_now(0),
    }
}

fn build(plan: &Plan) -> Result<(), (u64, Errno)> {
    let start = |error| (AT_START, error);
    // A session of its own: the server's terminal has no say here.
    rustix::process::setsid().map_err(start)?;
    rustix::process::umask(Mode::empty());
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private).map_err(start)?;
    let root = plan.root.as_c_str();
    rustix::mount::mount_bind(root, root).map_err(start)?;
    restrict(root, 0, 0).map_err(start)?;
    for (place, step) in (0_u64..).zip(&plan.steps) {
        step.take().map_err(|error| (place, error))?;
    }
    let turn = || {
        rustix::process::chdir(root)?;
        // The old root lands on top of the new one, and is taken away from there.
        rustix::process::pivot_root(c".", c".")?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
        rustix::process::chdir(c"/")
    };
    turn().map_err(|error| (AT_ROOT, error))
}

/// What [`Entry::of`] needs.
pub(super) fn open_namespace(pid: Pid, name: &str) -> Result<OwnedFd, Failure> {
    let path = format!("/proc/{}/ns/{name}", pid.as_raw_nonzero());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::empty())
        .map_err(|error| Failure::new(format!("the {name} namespace of the pod"), error))
}
