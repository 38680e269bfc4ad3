//! The program of an evaluation is killed in the middle of a case, and another one goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent_loop::verify;
use polyaxon_client::runs::ListRuns;
use polyaxon_local::LocalServer;
use polyaxon_sandbox::{Exec, SandboxClient};
use polyaxon_tests::agent::{FIX, SOURCE};
use polyaxon_tests::local::client_of;
use serde_json::{Value, json};

use super::killed::{Moments, kill_at_its_line};

/// How long a sandbox may take to end on a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// The cases by their ids; the program is killed in the second.
const CASES: [&str; 3] = ["first", "second", "third"];

/// A suite, an evaluation of it, and what its commands have left outside of their sandboxes.
struct Case<'a> {
    server: &'a LocalServer,
    scratch: tempfile::TempDir,
}

impl<'a> Case<'a> {
    fn new(server: &'a LocalServer) -> Self {
        let case = Self {
            server,
            scratch: tempfile::tempdir().unwrap(),
        };
        let suite = case.path("suite");
        let write = |path: String, text: &str| {
            let path = suite.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let about = json!({"format": 1, "name": "killed", "revision": 1, "about": ""});
        write("suite.json".to_owned(), &about.to_string());
        for id in CASES {
            // Says outside of its place that it ran, and takes a moment.
            let line =
                format!("echo ran >> ../../../{id}-ran; sleep 0.1; grep -q 'sum(xs)' amounts.py");
            let task = json!({
                "task": "total(xs) in amounts.py must return the sum of xs.",
                "expected": "the sum",
                "editable": ["amounts.py"],
                "readable": [],
                "command": {"argv": ["sh", "-c", line]},
            });
            write(format!("cases/{id}/task.json"), &task.to_string());
            write(format!("cases/{id}/files/amounts.py"), SOURCE);
        }
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn program(&self, stop_at: Option<u64>) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_suite_kill"));
        command
            .args([self.server.url(), self.server.token()])
            .arg(self.server.project().to_string())
            .args([self.path("suite"), self.path("evaluation")])
            .stdout(Stdio::piped());
        if let Some(record) = stop_at {
            command.args(["second".to_owned(), record.to_string()]);
        }
        command.spawn().unwrap()
    }

    /// Runs to the end; how many sandboxes were made for it and the run before.
    async fn goes_on(&self, before: usize) -> usize {
        let program = self.program(None);
        let ended = tokio::task::block_in_place(|| program.wait_with_output().unwrap());
        assert!(ended.status.success(), "{}", ended.status);
        sandboxes(self.server).await - before
    }

    fn report(&self) -> Value {
        let bytes = fs::read(self.path("evaluation/report.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// How often the command of each case has run, and whether its file is the right one. Ends the
    /// sandboxes, and waits for that: the next round counts those that are left.
    async fn effects(&self) -> Vec<(usize, bool)> {
        let client = client_of(self.server);
        let mut effects = Vec::new();
        let report = self.report();
        for (at, id) in CASES.iter().enumerate() {
            let folder = report["candidates"][0]["cases"][at]["folder"]
                .as_str()
                .unwrap();
            let place = self.path("evaluation").join(folder);
            let place = fs::read(place.join("workspace.json")).unwrap();
            let place: Value = serde_json::from_slice(&place).unwrap();
            let run = place["sandbox_run_uuid"].as_str().unwrap().parse().unwrap();
            let sandbox = SandboxClient::connect(&client, self.server.project(), run);
            let look = Exec::shell(format!(
                "cat {id}-ran; cat check/amounts.py; ls check.checks"
            ));
            let said = sandbox.process().exec(&look.workdir("/tmp")).await.unwrap();
            let said = said.stdout.text().unwrap().to_owned();
            effects.push((said.matches("ran\n").count(), said.ends_with(FIX)));
            sandbox.stop_and_wait(STOP_LIMIT).await.unwrap();
        }
        effects
    }
}

async fn sandboxes(server: &LocalServer) -> usize {
    let runs = client_of(server).runs(server.project());
    runs.all(&ListRuns::new()).await.unwrap().runs.len()
}

/// How many of them have not ended.
async fn alive(server: &LocalServer) -> usize {
    let runs = client_of(server).runs(server.project());
    let all = runs.all(&ListRuns::new()).await.unwrap().runs;
    let alive = all
        .iter()
        .filter(|run| !run.status.as_ref().unwrap().is_final());
    alive.count()
}

/// What the report says that does not depend on times, nor on what was lost.
fn same(report: &Value) -> Value {
    let candidate = &report["candidates"][0];
    let cases = candidate["cases"].as_array().unwrap().iter().map(|case| {
        let checks = case["checks"].as_array().unwrap().iter();
        let checks = checks.map(|check| json!([check["turn"], check["verdict"], check["tree"]]));
        let members = [
            "case", "attempt", "decision", "observed", "level", "tree", "turns",
        ];
        let kept = members.map(|name| case[name].clone());
        json!([
            kept,
            checks.collect::<Vec<_>>(),
            case["cost"]["known_micros"],
            case["earlier"]
        ])
    });
    json!([
        candidate["counts"],
        candidate["pass_rate"],
        candidate["coverage"],
        candidate["timeout_rate"],
        candidate["turns"],
        candidate["cost"]["known_micros"],
        candidate["levels"],
        cases.collect::<Vec<_>>(),
    ])
}

/// By default every fifth record of the second case; `AGENT_LOOP_KILLS=1` takes each.
#[tokio::test(flavor = "multi_thread")]
async fn a_suite_that_is_killed_in_a_case_goes_on_in_it_and_repeats_nothing() {
    let step = std::env::var("AGENT_LOOP_KILLS").map_or(5, |said| said.parse().unwrap());
    let server = LocalServer::start().await.unwrap();
    let whole = Case::new(&server);
    assert_eq!(whole.goes_on(0).await, 3);
    let once = [(2, true); 3];
    assert_eq!(whole.effects().await, once);
    let reference = same(&whole.report());
    assert_eq!(
        reference[0],
        json!({"pass": 3, "fail": 0, "invalid": 0, "not_evaluated": 0})
    );
    assert_eq!(reference[5], 3 * 6 * 30);

    let (mut kills, mut lost) = (0, 0);
    for at in (0..).step_by(step) {
        let case = Case::new(&server);
        let before = sandboxes(&server).await;
        if !kill_at_its_line(case.program(Some(at))) {
            // The second case has no such record.
            break;
        }
        let run = case.path("evaluation/repair/second/1");
        // The same three sandboxes, and in them each effect once.
        assert_eq!(case.goes_on(before).await, 3, "record {at}");
        assert_eq!(case.effects().await, once, "record {at}");
        let report = case.report();
        assert_eq!(same(&report), reference, "record {at}");
        let [first, second, third] = [0, 1, 2].map(|at| &report["candidates"][0]["cases"][at]);
        let resumed = [first, second, third].map(|case| case["resumed"].as_u64().unwrap());
        assert_eq!((resumed[0], resumed[2]), (0, 0), "record {at}");
        // A call whose answer was lost is one more, of unknown cost; every other one is known.
        let calls = second["calls"].as_u64().unwrap();
        assert_eq!(second["cost"]["unknown_calls"], calls - 6, "record {at}");
        assert!(calls <= 7, "record {at}: {calls}");
        lost += calls - 6;
        proved(&run, at);
        kills += 1;
    }
    println!(
        "killed {kills} times in a case: the same report, each effect once, {lost} calls of the \
         model lost and counted"
    );
    assert!(kills * step > 40, "{kills}");
}

/// In the middle of anything, also while a sandbox is made for a case. How often:
/// `AGENT_LOOP_TIMED_KILLS`.
#[tokio::test(flavor = "multi_thread")]
async fn a_suite_that_is_killed_at_any_time_has_one_sandbox_a_case_and_the_same_numbers() {
    let wanted = std::env::var("AGENT_LOOP_TIMED_KILLS").map_or(8, |said| said.parse().unwrap());
    let server = LocalServer::start().await.unwrap();
    let whole = Case::new(&server);
    let begun = Instant::now();
    whole.goes_on(0).await;
    let length = begun.elapsed();
    let once = [(2, true); 3];
    assert_eq!(whole.effects().await, once);
    let reference = numbers(&whole.report());

    let mut moments = Moments::new(length, wanted);
    let (mut resumed, mut anew) = (0, 0);
    while let Some(after) = moments.next() {
        let case = Case::new(&server);
        let child = case.program(None);
        tokio::time::sleep(after).await;
        moments.kill(child);
        case.goes_on(0).await;
        assert_eq!(alive(&server).await, 3, "after {after:?}");
        assert_eq!(case.effects().await, once, "after {after:?}");
        let report = case.report();
        assert_eq!(numbers(&report), reference, "after {after:?}");
        for case in report["candidates"][0]["cases"].as_array().unwrap() {
            resumed += case["resumed"].as_u64().unwrap();
            // What has begun goes on, so only what never began was made anew.
            for earlier in case["earlier"].as_array().unwrap() {
                assert_eq!(earlier["why"], "it never began", "after {after:?}");
                anew += 1;
            }
        }
    }
    println!("killed {wanted} times at any time: {resumed} cases went on, {anew} had not begun");
}

/// Of a suite of which single cases may have been begun again.
fn numbers(report: &Value) -> Value {
    let candidate = &report["candidates"][0];
    let members = [
        "counts",
        "pass_rate",
        "coverage",
        "timeout_rate",
        "turns",
        "levels",
    ];
    let numbers = members.map(|name| candidate[name].clone());
    json!([numbers, candidate["cost"]["known_micros"]])
}

fn proved(run: &Path, at: u64) {
    let verification = verify(run).unwrap();
    assert!(
        verification.proves_acceptance(),
        "record {at}: {verification}"
    );
}
