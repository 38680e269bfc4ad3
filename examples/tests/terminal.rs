//! The example `terminal` in a real terminal: what a person would see and type.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests; a failure is a failed test"
)]

use std::path::PathBuf;
use std::time::Duration;

use pty_process::{Command, Pty, Size};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::timeout;

/// A sandbox has to start first.
const LIMIT: Duration = Duration::from_secs(60);

/// The program, which `cargo test` builds beside this one.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("examples/terminal");
    assert!(
        built.is_file(),
        "{built:?} is not built: cargo build -p examples --example terminal"
    );
    built
}

struct Screen {
    pty: Pty,
    seen: Vec<u8>,
    before: Termios,
}

impl Screen {
    fn start(arguments: &[&str]) -> (Self, Child) {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(30, 100)).unwrap();
        let before = tcgetattr(&pty).unwrap();
        let command = Command::new(program()).args(arguments).kill_on_drop(true);
        let child = command.spawn(pts).unwrap();
        let seen = Vec::new();
        (Self { pty, seen, before }, child)
    }

    async fn type_in(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Reads until `text` has come behind all that was waited for before.
    async fn until(&mut self, text: &str) {
        let read = async {
            loop {
                if let Some(at) = self
                    .seen
                    .windows(text.len())
                    .position(|part| part == text.as_bytes())
                {
                    self.seen.drain(..at + text.len());
                    return true;
                }
                let mut part = [0; 4096];
                match self.pty.read(&mut part).await {
                    Ok(count) if count > 0 => self.seen.extend_from_slice(&part[..count]),
                    _ => return false,
                }
            }
        };
        let came = timeout(LIMIT, read).await;
        let seen = String::from_utf8_lossy(&self.seen);
        assert_eq!(came, Ok(true), "{text:?} did not come: {seen}");
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.pty)
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
    }

    fn is_as_before(&self) -> bool {
        let now = tcgetattr(&self.pty).unwrap();
        now.local_modes == self.before.local_modes
            && now.input_modes == self.before.input_modes
            && now.output_modes == self.before.output_modes
            && now.control_modes == self.before.control_modes
    }
}

async fn code_of(mut child: Child, screen: &mut Screen) -> Option<i32> {
    let mut rest = [0; 4096];
    let ended = async {
        // What is printed at the end has to be taken by somebody. Once nobody has the terminal open
        // any more, it says so by an error.
        while let Ok(count @ 1..) = screen.pty.read(&mut rest).await {
            screen.seen.extend_from_slice(&rest[..count]);
        }
        child.wait().await.unwrap().code()
    };
    timeout(LIMIT, ended).await.unwrap()
}

#[tokio::test]
async fn a_shell_in_a_sandbox_is_like_one_here() {
    let (mut screen, child) = Screen::start(&["--local"]);
    screen.type_in("stty size; echo mark-$((40+2))\r").await;
    screen.until("30 100\r\n").await;
    screen.until("mark-42\r\n").await;
    assert!(screen.is_raw());

    screen.pty.resize(Size::new(40, 120)).unwrap();
    screen
        .type_in("until [ \"$(stty size)\" = \"40 120\" ]; do :; done; echo resized-$((1+1))\r")
        .await;
    screen.until("resized-2\r\n").await;

    // The word comes from the job itself, so that it is there to be interrupted.
    screen
        .type_in("sh -c 'echo up-$((1+1)); exec sleep 600'\r")
        .await;
    screen.until("up-2\r\n").await;
    screen.type_in("\x03").await;
    screen.type_in("echo code-$?\r").await;
    screen.until("code-130\r\n").await;

    screen.type_in("exit 7\r").await;
    assert_eq!(code_of(child, &mut screen).await, Some(7));
    assert!(screen.is_as_before());
}

#[tokio::test]
async fn a_signal_leaves_the_terminal_as_it_was() {
    let (mut screen, child) =
        Screen::start(&["--local", "--", "sh", "-c", "echo up; exec sleep 600"]);
    screen.until("up\r\n").await;
    assert!(screen.is_raw());
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(code_of(child, &mut screen).await, Some(143));
    assert!(screen.is_as_before());
}

#[tokio::test]
async fn ctrl_and_bracket_leaves() {
    let (mut screen, child) = Screen::start(&["--local", "--", "cat"]);
    screen.type_in("it\r").await;
    screen.until("it\r\nit\r\n").await;
    screen.type_in("\x1d").await;
    assert_eq!(code_of(child, &mut screen).await, Some(0));
    assert!(screen.is_as_before());
    let seen = String::from_utf8_lossy(&screen.seen);
    assert!(seen.contains("is left as it is"), "{seen}");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_leaves_the_terminal_as_it_was() {
    let (mut screen, child) = Screen::start(&["--local", "--", "/no/such/program"]);
    screen.until("no terminal could be started").await;
    assert_eq!(code_of(child, &mut screen).await, Some(1));
    assert!(screen.is_as_before());
}
