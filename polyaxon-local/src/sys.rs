//! The only unsafe code of this crate: processes that are forked without a program of their own.
//!
//! A fork of a process with threads may do very little: no allocation, no lock, no formatting,
//! since another thread can hold what it would wait for. All that such a child needs is prepared
//! before the fork; what it calls here are system calls on numbers, prepared C strings and buffers
//! on its stack.
#![expect(
    unsafe_code,
    reason = "a fork has no safe form; everything around it is kept small and in one place"
)]

mod pod;
mod start;

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) use self::pod::{Failure, Init, Plan, Step, start as start_pod};
pub(crate) use self::start::{Entry, Image, Limits, Report, Setup, prepare};

/// Forks with these flags of `clone(2)`. `None` is the child.
///
/// # Safety
/// The child may only call what is safe in a signal handler, and must end by [`exit_now`] or by
/// executing a program.
unsafe fn fork(flags: libc::c_int, exit_signal: libc::c_int) -> Result<Option<Pid>, Errno> {
    // SAFETY: the struct is plain numbers, for which zero means "not used".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.cast_unsigned());
    arguments.exit_signal = u64::from(exit_signal.cast_unsigned());
    // SAFETY: without CLONE_VM the child gets a copy of this memory, and without a stack of its own
    // goes on with the copy of this one, as after fork(2). The caller keeps the rest.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    };
    match result {
        0 => Ok(None),
        id if id > 0 => Ok(i32::try_from(id).ok().and_then(Pid::from_raw)),
        _ => Err(last()),
    }
}

/// Ends a forked child at once: nothing is flushed, no destructor runs.
fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// Every signal back to its default, nothing blocked: what a fork inherits are handlers of the
/// server, and what a program inherits is what the server ignores.
fn default_signals() {
    // The kernel's structure is smaller than this everywhere; zero is the default action.
    let default = [0_usize; 8];
    let set_bytes: libc::c_long = 8;
    for signal in 1..=64_i64 {
        // By the kernel's own call: the C library refuses the signals that it uses itself, and
        // leaves one of them ignored in what it spawns.
        // SAFETY: the structure is larger than what is read of it, and the default action runs no
        // code of ours. A number that cannot be set is refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<libc::c_void>(),
                set_bytes,
            );
        }
    }
    // SAFETY: a set of signals is plain data, filled by `sigemptyset` before it is used.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// In a forked child that will never execute a program: keeps two descriptors, as 0 and 1, and
/// closes all others, the server's sockets and the pipes of other commands among them.
fn keep_only(zero: RawFd, one: RawFd) -> Result<(), Errno> {
    // Out of the way first: each can be where the other has to go.
    const HIGH: libc::c_int = 10;
    // SAFETY: these calls take numbers, and this child owns no descriptor by a Rust value that it
    // will still use or drop: it ends by `_exit`.
    unsafe {
        let (zero, one) = (
            libc::fcntl(zero, libc::F_DUPFD, HIGH),
            libc::fcntl(one, libc::F_DUPFD, HIGH),
        );
        if zero < 0 || one < 0 || libc::dup2(zero, 0) < 0 || libc::dup2(one, 1) < 0 {
            return Err(last());
        }
        if libc::syscall(libc::SYS_close_range, 2, libc::c_uint::MAX, 0) != 0 {
            return Err(last());
        }
    }
    Ok(())
}

/// Closes every descriptor but the standard ones when the next program is executed.
fn close_on_exec() {
    // SAFETY: it takes numbers and closes nothing now. An old kernel refuses it: then only what
    // was opened without the flag, by others in this process, stays open.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

/// One of the two descriptors that [`keep_only`] has kept.
fn kept(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: 0 and 1 are open until this child ends.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// Sends two numbers, in one piece: less than a pipe takes at once.
fn tell(to: BorrowedFd<'_>, what: u64, number: u64) {
    let mut words = [0_u8; 16];
    let (first, second) = words.split_at_mut(8);
    first.copy_from_slice(&what.to_ne_bytes());
    second.copy_from_slice(&number.to_ne_bytes());
    // Whoever should have heard it is gone: there is nobody left to tell.
    let _nobody_listens = rustix::io::write(to, &words);
}

/// Marks this process and its memory as nobody's to look at: it still holds the server's.
fn hide() {
    let hidden = rustix::process::DumpableBehavior::NotDumpable;
    let _always_known = rustix::process::set_dumpable_behavior(hidden);
}

/// Watches a descriptor that can be waited for, as a handle of a process can.
///
/// # Errors
/// What the system said, or that there is no runtime.
pub(crate) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned by what is returned, which gives it out by reference only, so
    // that it stays open and the same for as long as it is registered.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}

/// The terminal that `master` is our end of.
///
/// # Errors
/// What the system said, or that there is no runtime.
pub(crate) fn terminal(master: OwnedFd) -> Result<pty_process::Pty, pty_process::Error> {
    // SAFETY: the descriptor is owned, and was opened from `ptmx` by the only caller.
    unsafe { pty_process::Pty::from_fd(master) }
}

fn last() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn raw(fd: &impl std::os::fd::AsFd) -> RawFd {
    fd.as_fd().as_raw_fd()
}
