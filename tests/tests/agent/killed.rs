//! A program that is killed, and another one that goes on.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent_loop::journal::{Answer, Event, ReadJournal};
use agent_loop::{Outcome, verify};
use polyaxon_client::runs::ListRuns;
use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
use polyaxon_tests::agent::FIX;
use polyaxon_tests::local::LocalSandbox;

/// The program in a sandbox, with a folder of its own.
struct Case<'a> {
    place: &'a LocalSandbox,
    sandbox: SandboxClient,
    folder: tempfile::TempDir,
}

impl<'a> Case<'a> {
    async fn new(place: &'a LocalSandbox) -> Self {
        let spec = SandboxSpec::image("python:3.12-slim");
        let sandbox = SandboxClient::launch(&place.client, &place.project, &spec);
        Self {
            place,
            sandbox: sandbox.await.unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    fn program(&self, how: &str, stop_at: Option<u64>) -> Child {
        let server = &self.place.server;
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent_kill"));
        command
            .args([how, server.url(), server.token()])
            .arg(self.place.project.to_string())
            .arg(self.sandbox.run_uuid().to_string())
            .arg(self.run())
            .args(stop_at.map(|number| number.to_string()))
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Goes on in another program, and looks at what it has come to.
    async fn goes_on(self, about: &str) -> Outcome {
        let outcome = self.resumed("resume", about);
        let run = self.run();
        // Each effect once: two checks have run, two writes were done, and nothing is left over.
        assert_eq!(
            self.says("cat checks-that-ran").await,
            "ran\nran\n",
            "{about}"
        );
        assert_eq!(self.says("cat repair/amounts.py").await, FIX, "{about}");
        assert_eq!(self.says("ls repair.checks").await, "", "{about}");
        assert_eq!(writes(&run), 2, "{about}");
        self.sandbox.stop().await.unwrap();
        outcome
    }

    /// Goes on in another program, and gives what that has proved.
    fn resumed(&self, how: &str, about: &str) -> Outcome {
        let resumed = self.program(how, None);
        let resumed = tokio::task::block_in_place(|| resumed.wait_with_output().unwrap());
        assert!(resumed.status.success(), "{about}: {}", resumed.status);
        let verification = verify(self.run()).unwrap();
        assert!(verification.proves_acceptance(), "{about}: {verification}");
        let outcome = verification.outcome.unwrap();
        assert_eq!(outcome.turns, 6, "{about}");
        let verdicts: Vec<&str> = outcome
            .checks
            .iter()
            .map(|check| check.verdict.as_str())
            .collect();
        assert_eq!(verdicts, ["fail", "pass"], "{about}");
        outcome
    }

    /// The sandboxes that were made for checks; each of them ends within a while.
    async fn fresh_sandboxes_that_have_ended(&self) -> usize {
        let runs = self.place.client.runs(&self.place.project);
        let all = runs.all(&ListRuns::new()).await.unwrap().runs;
        let own = all.iter().find(|run| run.uuid == self.sandbox.run_uuid());
        let begun = own.unwrap().created_at;
        let fresh = all.iter().filter(|run| run.created_at > begun);
        let mut ended = 0;
        for run in fresh {
            let limit = Duration::from_secs(20);
            runs.wait_until_final(run.uuid, limit).await.unwrap();
            ended += 1;
        }
        ended
    }

    async fn says(&self, line: &str) -> String {
        let exec = Exec::shell(line).workdir("/tmp");
        let said = self.sandbox.process().exec(&exec).await.unwrap();
        said.ensure_success()
            .unwrap()
            .stdout
            .text()
            .unwrap()
            .to_owned()
    }
}

/// How many writes were answered or found.
fn writes(run: &Path) -> usize {
    let journal = ReadJournal::read(run).unwrap();
    let done = journal.known().filter(|record| match &record.event {
        Event::Turn(turn) => turn
            .action
            .as_deref()
            .is_some_and(|action| action.starts_with("write")),
        Event::Receipt(receipt) => {
            assert!(!matches!(receipt.answer, Answer::Failed(_)));
            false
        }
        _ => false,
    });
    done.count()
}

/// Whether it did not end before.
fn kill(mut child: Child) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    child.kill().unwrap();
    child.wait().unwrap().signal() == Some(9)
}

/// Moments to kill a program at, spread over its length, the ends left out.
pub(super) struct Moments {
    length: Duration,
    wanted: u32,
    kills: u32,
}

impl Moments {
    pub(super) fn new(length: Duration, wanted: u32) -> Self {
        Self {
            length,
            wanted,
            kills: 0,
        }
    }

    /// How long after its beginning the next one is; none where the program was killed often enough.
    pub(super) fn next(&self) -> Option<Duration> {
        let part = (f64::from(self.kills) + 0.5) / f64::from(self.wanted);
        (self.kills < self.wanted).then(|| self.length.mul_f64(part))
    }

    /// Kills a program at its moment. False where it did not last until then: a machine is not
    /// equally fast all the time, and the moments after this one are earlier.
    pub(super) fn kill(&mut self, child: Child) -> bool {
        let killed = kill(child);
        match killed {
            true => self.kills += 1,
            false => self.length = self.length.mul_f64(0.8),
        }
        killed
    }
}

/// Kills a program when it has printed a line. False where it came to its end, a good one, without.
pub(super) fn kill_at_its_line(mut child: Child) -> bool {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    tokio::task::block_in_place(|| lines.read_line(&mut line).unwrap());
    if line.is_empty() {
        assert!(child.wait().unwrap().success());
        return false;
    }
    assert!(kill(child));
    true
}

/// By default every third record; `AGENT_LOOP_KILLS=1` takes each.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_killed_at_any_record_loses_nothing_and_repeats_nothing() {
    let step = std::env::var("AGENT_LOOP_KILLS").map_or(3, |said| said.parse().unwrap());
    let place = LocalSandbox::start().await;
    let mut kills = 0;
    for at in (0..).step_by(step) {
        let case = Case::new(&place).await;
        if !kill_at_its_line(case.program("drive", Some(at))) {
            break;
        }
        case.goes_on(&format!("record {at}")).await;
        kills += 1;
    }
    println!("killed {kills} times at a record: the same outcome, each effect applied once");
    assert!(kills * step > 40, "{kills}");
}

/// By default every fifth record; `AGENT_LOOP_KILLS=1` takes each.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_killed_at_any_record_leaves_no_fresh_sandbox() {
    let step = std::env::var("AGENT_LOOP_KILLS").map_or(5, |said| said.parse().unwrap());
    let place = LocalSandbox::start().await;
    let (mut kills, mut replaced) = (0, 0);
    for at in (0..).step_by(step) {
        let case = Case::new(&place).await;
        if !kill_at_its_line(case.program("drive-fresh", Some(at))) {
            assert_eq!(case.fresh_sandboxes_that_have_ended().await, 2);
            break;
        }
        let outcome = case.resumed("resume-fresh", &format!("record {at}"));
        let made = case.fresh_sandboxes_that_have_ended().await;
        // One for each check, and one more where the first was no good any more.
        let looked_for = outcome.uncertain.len();
        assert!((2..=2 + looked_for).contains(&made), "record {at}: {made}");
        replaced += made - 2;
        kills += 1;
        case.sandbox.stop().await.unwrap();
    }
    println!("killed {kills} times at a record: no sandbox is left, {replaced} were replaced");
    assert!(kills * step > 40, "{kills}");
}

/// In the middle of anything: of a write, of a command, of a sync. How often: `AGENT_LOOP_TIMED_KILLS`.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_killed_at_any_time_loses_nothing_and_repeats_nothing() {
    let wanted = std::env::var("AGENT_LOOP_TIMED_KILLS").map_or(8, |said| said.parse().unwrap());
    let place = LocalSandbox::start().await;
    let whole = Case::new(&place).await;
    let begun = Instant::now();
    let child = whole.program("drive", None);
    let child = tokio::task::block_in_place(|| child.wait_with_output().unwrap());
    assert!(child.status.success());
    let length = begun.elapsed();
    let mut moments = Moments::new(length, wanted);
    let mut found = 0;
    while let Some(after) = moments.next() {
        let case = Case::new(&place).await;
        let mut child = case.program("drive", None);
        // Before the folder is there, there is nothing to go on with.
        let has_begun = || case.run().join("workspace.json").exists();
        while !has_begun() {
            let runs = child.try_wait().unwrap().is_none();
            assert!(runs || has_begun(), "it has not begun");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(after).await;
        if !moments.kill(child) {
            continue;
        }
        let outcome = case.goes_on(&format!("after {after:?}")).await;
        found += outcome.uncertain.len();
    }
    println!(
        "killed {wanted} times at any time: the same outcome, each effect applied once, {found} \
         requests looked for"
    );
}
