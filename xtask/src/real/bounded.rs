//! Programs that are given a limited time.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Runs a command to its end; it has to succeed. What it prints to stdout is not shown.
pub(super) fn run(name: &str, command: &mut Command, limit: Duration) -> Result<()> {
    let status = to_end(name, command, limit, |_| {})?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// Runs a program of tests and shows what it prints; all have to pass. Returns how many: none is a
/// failure, since then nothing was looked at.
pub(super) fn tests(name: &str, command: &mut Command, limit: Duration) -> Result<u64> {
    println!("── {name}");
    let started = Instant::now();
    let mut passed = None;
    let status = to_end(name, command, limit, |line| {
        println!("{line}");
        passed = count(line).or(passed);
    })?;
    ensure!(status.success(), "{name}: {status}");
    let passed = passed.with_context(|| format!("{name} did not say how many passed"))?;
    ensure!(passed > 0, "{name}: none was run");
    println!("   {name}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(passed)
}

/// `test result: ok. 12 passed; 0 failed; …`
fn count(line: &str) -> Option<u64> {
    let (number, _) = line
        .strip_prefix("test result: ok. ")?
        .split_once(" passed;")?;
    number.parse().ok()
}

fn to_end(
    name: &str,
    command: &mut Command,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> Result<ExitStatus> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name}: cannot start {}", command.get_program().display()))?;
    let lines = lines(&mut child)?;
    loop {
        let left = limit.saturating_sub(started.elapsed());
        match lines.recv_timeout(left) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?),
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                bail!("{name} was ended after {} s", limit.as_secs());
            }
        }
    }
}

/// What a child prints, a line at a time. The channel is closed when the child ends, which is
/// something that can be waited for with a limit.
pub(super) fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let stdout = child.stdout.take().context("its output is not piped")?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        // Nobody may be listening any more; the pipe is read all the same, so that it never fills.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _heard = send.send(line);
        }
    });
    Ok(receive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let started = Instant::now();
        let error = run(
            "it",
            &mut shell("exec sleep 60"),
            Duration::from_millis(100),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "it was ended after 0 s");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn tests_are_passed_where_some_ran_and_none_failed() {
        let limit = Duration::from_secs(30);
        let table = [
            (
                "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'",
                Ok(2),
            ),
            (
                "echo 'test result: ok. 0 passed; 0 failed'",
                Err("t: none was run"),
            ),
            ("true", Err("t did not say how many passed")),
            (
                "echo 'test result: FAILED. 1 passed; 1 failed'; exit 101",
                Err("t: exit status: 101"),
            ),
        ];
        for (script, expected) in table {
            let result = tests("t", &mut shell(script), limit).map_err(|error| error.to_string());
            assert_eq!(result, expected.map_err(str::to_owned), "{script}");
        }
    }
}
