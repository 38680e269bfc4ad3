//! A program beside a test, for as long as a value lives.

use std::io::{BufRead as _, BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpSocket;

/// How long a server has to come up, and to end.
const START_LIMIT: Duration = Duration::from_secs(90);
const END_LIMIT: Duration = Duration::from_secs(15);

/// A script of `tests/real`. It ends when its stdin is closed: by a drop, which waits for that, or by
/// the end of the tests, whatever that was.
pub(crate) struct Program {
    child: Child,
    /// What it prints; closed when it has ended.
    lines: Receiver<String>,
}

impl Program {
    /// Starts it without waiting for anything.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().unwrap();
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Read to the end even where nobody listens, so that the pipe never fills.
                let _heard = send.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits for the line `{"ready": "http://…"}`, and returns it whole.
    pub(crate) fn ready(&self) -> Value {
        let line = self.lines.recv_timeout(START_LIMIT);
        let line = line.expect("the program should say within the limit that it is ready");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert!(said["ready"].is_string(), "{said}");
        said
    }

    /// The next line that it prints; an error where it has ended, or says nothing within the limit.
    pub(crate) fn line(&self, limit: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(limit)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        loop {
            match self.lines.recv_timeout(END_LIMIT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    println!("{:?} did not end when asked, and is killed", self.child);
                    let _killed = self.child.kill();
                    break;
                }
            }
        }
        let _ended = self.child.wait();
    }
}

/// A port of 127.0.0.1 that nobody else is given, for a server that reuses addresses, as nearly all
/// do: it is bound and not listened at, and until that server does, connections are refused.
pub(crate) struct Port(TcpSocket);

impl Port {
    pub(crate) fn take() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Servers ask for the one or the other; who shares a port with them has to ask for it too.
        socket.set_reuseaddr(true).unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn number(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}

#[test]
fn a_port_that_is_taken_is_for_the_server_that_is_given_it() {
    let port = Port::take();
    let address = ("127.0.0.1", port.number());
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // This one reuses addresses.
    let server = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(address).unwrap();
    let (_, peer) = server.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
}
