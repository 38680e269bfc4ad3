//! What happens between the fork of a command and its program.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::pod::{Failure, open_namespace};
use super::{close_on_exec, default_signals, exit_now, fork, hide, keep_only, kept, raw, tell};

/// The way into a pod.
#[derive(Debug)]
pub(crate) struct Entry {
    user: OwnedFd,
    mounts: OwnedFd,
    ipc: OwnedFd,
    uts: OwnedFd,
    processes: OwnedFd,
}

impl Entry {
    pub(super) fn of(pid: Pid) -> Result<Self, Failure> {
        Ok(Self {
            user: open_namespace(pid, "user")?,
            mounts: open_namespace(pid, "mnt")?,
            ipc: open_namespace(pid, "ipc")?,
            uts: open_namespace(pid, "uts")?,
            processes: open_namespace(pid, "pid")?,
        })
    }

    fn enter(&self) -> Result<(), Errno> {
        use LinkNameSpaceType as Kind;
        let way = [
            // The first gives the right to the others.
            (&self.user, Kind::User),
            (&self.mounts, Kind::Mount),
            (&self.ipc, Kind::InterProcessCommunication),
            (&self.uts, Kind::HostNameAndNISDomainName),
            (&self.processes, Kind::ProcessID),
        ];
        way.into_iter()
            .try_for_each(|(fd, kind)| move_into_link_name_space(fd.as_fd(), Some(kind)))?;
        // SAFETY: a name space for the host name shares nothing that memory safety hangs on.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUTS) }
    }
}

/// What a command may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Open files at once.
    pub(crate) files: u64,
    /// Bytes of one file.
    pub(crate) file_bytes: Option<u64>,
}

impl Limits {
    fn apply(self) -> Result<(), Errno> {
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
        let files = hard.map_or(self.files, |hard| hard.min(self.files));
        set(Resource::Nofile, files)?;
        set(Resource::Core, 0)?;
        match self.file_bytes {
            Some(bytes) => set(Resource::Fsize, bytes),
            None => Ok(()),
        }
    }
}

fn set(resource: Resource, most: u64) -> Result<(), Errno> {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    rustix::process::setrlimit(resource, limit)
}

/// The program of a command with its arguments and its environment, as the kernel takes them.
///
/// It is executed by us, since the standard library hands a file that is no program to a shell.
#[derive(Debug)]
pub(crate) struct Image {
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Image {
    pub(crate) fn new(file: CString, arguments: Vec<CString>, environment: Vec<CString>) -> Self {
        Self {
            file,
            arguments,
            environment,
        }
    }
}

/// Where strings are, with the end that the kernel wants. It is made before the fork.
struct Pointers(Vec<*const libc::c_char>);

// SAFETY: what they point to is owned by the image beside them, never changed, and freed after it.
unsafe impl Send for Pointers {}
// SAFETY: as above: they are only read.
unsafe impl Sync for Pointers {}

impl Pointers {
    fn to(strings: &[CString]) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        Self(pointers.chain([std::ptr::null()]).collect())
    }
}

/// How a command is started.
#[derive(Debug)]
pub(crate) struct Setup {
    /// `None` outside of pods: then a supervisor stands beside the command.
    pub(crate) entry: Option<Arc<Entry>>,
    /// Where the command starts; `None` is where the server is.
    pub(crate) workdir: Option<OwnedFd>,
    pub(crate) limits: Limits,
    pub(crate) image: Image,
    /// Whether the standard input is a terminal that becomes the command's own.
    pub(crate) terminal: bool,
    /// What is told to the server, see [`Report`].
    pub(crate) report: OwnedFd,
    /// The supervisor ends the command when the other end is closed.
    pub(crate) lifeline: OwnedFd,
}

/// What the server is told about a command: two numbers each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The id of its process on this machine; it leads a session and a group.
    HostId(i32),
    /// The id of its process as it sees it itself.
    OwnId(i32),
    /// What all of its processes have in common: the number of their namespace for host names.
    Mark(u64),
    /// The status that it ended with, in the form of `waitpid`.
    Ended(i32),
}

const HOST_ID: u64 = 1;
const OWN_ID: u64 = 2;
const MARK: u64 = 3;
const ENDED: u64 = 4;

impl Report {
    /// The size of one on the pipe.
    pub(crate) const SIZE: usize = 16;

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (what, number) = (word(0)?, word(8)?);
        let small = i32::try_from(number);
        match what {
            HOST_ID => small.map(Self::HostId).ok(),
            OWN_ID => small.map(Self::OwnId).ok(),
            MARK => Some(Self::Mark(number)),
            ENDED => small.map(Self::Ended).ok(),
            _ => None,
        }
    }
}

/// Makes `command` start as `setup` says.
///
/// In a pod the process that is started forks into it and ends; the command is a child of the
/// server too, whose id it reports. Elsewhere the process that is started stays as the supervisor
/// of the command, which it reports, and its end.
pub(crate) fn prepare(command: &mut tokio::process::Command, setup: Setup) {
    let arguments = Pointers::to(&setup.image.arguments);
    let environment = Pointers::to(&setup.image.environment);
    let run = move || {
        let (arguments, environment) = (&arguments, &environment);
        step_in(&setup).map_err(io::Error::from)?;
        // SAFETY: the strings and the lists of them end as they have to, and live in `setup`.
        unsafe {
            libc::execve(
                setup.image.file.as_ptr(),
                arguments.0.as_ptr(),
                environment.0.as_ptr(),
            );
        }
        Err(io::Error::last_os_error())
    };
    // SAFETY: `step_in` keeps to system calls on what was prepared, numbers and the stack.
    unsafe { command.pre_exec(run) };
}

fn step_in(setup: &Setup) -> Result<(), Errno> {
    hide();
    default_signals();
    match &setup.entry {
        Some(entry) => {
            entry.enter()?;
            // SAFETY: one side ends by `_exit`, the other goes on to execute a program.
            match unsafe { fork(libc::CLONE_PARENT, 0) }? {
                Some(pid) => {
                    tell_id(setup, HOST_ID, pid);
                    exit_now(0);
                }
                None => {
                    tell_id(setup, OWN_ID, rustix::process::getpid());
                    let mark = rustix::fs::stat(c"/proc/self/ns/uts")?;
                    tell(setup.report.as_fd(), MARK, mark.st_ino);
                }
            }
        }
        None => {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
            // SAFETY: one side is `supervise`, which ends by `_exit`, the other goes on to execute
            // a program.
            if let Some(pid) = unsafe { fork(0, libc::SIGCHLD) }? {
                tell_id(setup, HOST_ID, pid);
                tell_id(setup, OWN_ID, pid);
                supervise(pid, raw(&setup.lifeline), raw(&setup.report));
            }
        }
    }
    rustix::process::setsid()?;
    if setup.terminal {
        // SAFETY: the call takes a number; the standard input is open.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } != 0 {
            return Err(super::last());
        }
    }
    if let Some(workdir) = &setup.workdir {
        rustix::process::fchdir(workdir)?;
    }
    rustix::process::umask(Mode::from_raw_mode(0o022));
    setup.limits.apply()?;
    if setup.entry.is_some() {
        give_up_capabilities()?;
    }
    rustix::thread::set_no_new_privs(true)?;
    close_on_exec();
    Ok(())
}

fn tell_id(setup: &Setup, what: u64, pid: Pid) {
    let id = u64::from(pid.as_raw_nonzero().get().cast_unsigned());
    tell(setup.report.as_fd(), what, id);
}

/// What a container has by default, without what would let a command change the mounts of its pod,
/// read another process's memory or raise its limits.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

fn give_up_capabilities() -> Result<(), Errno> {
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(one) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // The kernel has no more than this.
            Err(Errno::INVAL) => break,
            done => done?,
        }
    }
    Ok(())
}

/// What stands beside a command outside of pods: every process of its tree ends up as a child of
/// this one, whatever session it is in and whoever started it. It lives as long as one of them
/// does, tells how the command ended, and kills all of them when its lifeline closes: by the server,
/// or because the server is gone.
fn supervise(command: Pid, lifeline: i32, report: i32) -> ! {
    if keep_only(lifeline, report).is_err() {
        exit_now(1);
    }
    // Nobody reads the report once the server is gone, and its writing must not be the end of this.
    // SAFETY: to be ignored runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // A session of its own: no signal for the server's terminal or the command's group gets here.
    let _new = rustix::process::setsid();
    let _name = rustix::thread::set_name(c"supervisor");
    let mut ending = false;
    let Ok(ended) = child_signals() else {
        exit_now(1)
    };
    loop {
        if reap(command) == Err(Errno::CHILD) {
            exit_now(0);
        }
        if ending {
            kill_children();
        }
        ending = wait_for_news(ended, ending);
    }
}

/// Waits for the end of a child or of the lifeline; with `ending` no longer than a moment. Whether
/// the lifeline is closed.
fn wait_for_news(ended: i32, ending: bool) -> bool {
    let of = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut news = [
        of(ended, libc::POLLIN),
        of(if ending { -1 } else { 0 }, libc::POLLIN),
    ];
    // SAFETY: the array has the two elements that are announced.
    unsafe { libc::poll(news.as_mut_ptr(), 2, if ending { 1 } else { -1 }) };
    let [children, line] = news;
    if children.revents != 0 {
        let mut heap = [0_u8; 1024];
        // SAFETY: the buffer is as large as is said. What is read are signals that all say the same.
        unsafe { libc::read(ended, heap.as_mut_ptr().cast(), heap.len()) };
    }
    ending || line.revents != 0
}

fn child_signals() -> Result<i32, Errno> {
    // SAFETY: a set of signals is plain data, filled by `sigemptyset` before it is used.
    let fd = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK)
    };
    match fd {
        0.. => Ok(fd),
        _ => Err(super::last()),
    }
}

/// Takes the children that have ended, and tells of one.
fn reap(command: Pid) -> Result<(), Errno> {
    while let Some((pid, status)) = rustix::process::wait(WaitOptions::NOHANG)? {
        if pid == command {
            let status = u64::from(status.as_raw().cast_unsigned());
            tell(kept(1), ENDED, status);
        }
    }
    Ok(())
}

/// Kills every child. Theirs become ours, and are next.
fn kill_children() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(processes) = rustix::fs::openat(CWD, c"/proc", flags, Mode::empty()) else {
        return;
    };
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&processes, &mut space);
    while let Some(Ok(entry)) = entries.next() {
        let id = number(entry.file_name().to_bytes());
        let Some(pid) = id.and_then(Pid::from_raw) else {
            continue;
        };
        if parent(&processes, entry.file_name()) == Some(own) {
            let _gone = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// The parent of the process whose folder in `/proc` is `folder`.
fn parent(processes: &OwnedFd, folder: &std::ffi::CStr) -> Option<i32> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(processes, folder, flags, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let stat = rustix::fs::openat(&folder, c"stat", flags, Mode::empty()).ok()?;
    let mut text = [0_u8; 512];
    let length = rustix::io::read(&stat, &mut text).ok()?;
    parent_in(text.get(..length)?)
}

/// The fourth field of `/proc/PID/stat`. The second is a name that can hold anything, in brackets.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let mut rest = stat.get(name_ends + 1..)?.split(|byte| *byte == b' ');
    number(rest.nth(2)?)
}

fn number(digits: &[u8]) -> Option<i32> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i32::from(byte - b'0'));
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i32, |number, byte| {
        number.checked_mul(10)?.checked_add(digit(byte)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_whatever_name_the_process_has() {
        let table: [(&[u8], Option<i32>); 6] = [
            (b"12 (sh) S 7 12 12 0 -1", Some(7)),
            (b"12 (a) S 9 (x) R 8 1", Some(8)),
            (b"12 (:-) ) Z 1 0", Some(1)),
            (b"12 (sh) S", None),
            (b"12 sh S 7", None),
            (b"", None),
        ];
        for (stat, want) in table {
            assert_eq!(parent_in(stat), want, "{stat:?}");
        }
        let own = std::fs::read("/proc/self/stat").unwrap();
        assert_eq!(
            parent_in(&own),
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get())
        );
    }

    #[test]
    fn a_number_is_all_digits_and_small_enough() {
        let table: [(&[u8], Option<i32>); 6] = [
            (b"0", Some(0)),
            (b"2147483647", Some(i32::MAX)),
            (b"2147483648", None),
            (b"", None),
            (b"12a", None),
            (b"self", None),
        ];
        for (digits, want) in table {
            assert_eq!(number(digits), want);
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_told() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        for (what, number, want) in [
            (HOST_ID, 12, Some(Report::HostId(12))),
            (OWN_ID, 2, Some(Report::OwnId(2))),
            (MARK, 4_026_532_000, Some(Report::Mark(4_026_532_000))),
            (ENDED, 9, Some(Report::Ended(9))),
            (99, 9, None),
        ] {
            tell(write.as_fd(), what, number);
            let mut bytes = [0; Report::SIZE];
            rustix::io::read(&read, &mut bytes).unwrap();
            assert_eq!(Report::read(&bytes), want);
        }
        assert_eq!(Report::read(&[0; 7]), None);
    }
}
