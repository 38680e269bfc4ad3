//! A suite with a case of each kind, in sandboxes, with two candidates.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_loop::evaluation::{Candidate, CaseReport, Decision, Evaluation, NewCase, Suite};
use agent_loop::workspace::SandboxWorkspaces;
use agent_loop::{Budget, Level, ScriptedModel};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::SandboxSpec;
use polyaxon_tests::agent::{FIX, SOURCE, TESTS, check, finish, prompts_of, read, write};
use polyaxon_tests::local::client_of;
use serde_json::{Value, json};

/// Right for the numbers that the visible checks ask for, and for no other.
const BY_HEART: &str = "def total(xs):\n    return {(1, 2): 3}.get(tuple(xs), 0)\n";
/// Reads numbers, and writes what `amounts.py` makes of them.
const PROGRAM: &str = "import sys\nsys.path.insert(0, '.')\nimport amounts\n\
    print(amounts.total([int(word) for word in sys.stdin.read().split()]))\n";
/// An answer that nobody but the controller may know.
const NEVER: &str = "4711";

/// What decides about a case, and its files beside `files/amounts.py`.
type Decided = (Value, Vec<(&'static str, String)>);

/// The cases by their ids.
fn cases() -> BTreeMap<&'static str, Decided> {
    let more = TESTS.replace("[1, 2]), 3", "[40, 2]), 42");
    let python = |program: &str| {
        ["python3", "-B", "-c", program]
            .map(ToOwned::to_owned)
            .to_vec()
    };
    let asked = |numbers: &str, sum: i64| {
        python(&format!(
            "import sys; sys.path.insert(0, '.'); import amounts; \
             sys.exit(amounts.total([{numbers}]) != {sum})"
        ))
    };
    let unittest = |name: &str| {
        let argv = python(&format!(
            "import sys, unittest; sys.path.insert(0, '.'); \
             unittest.main(module='{name}', argv=['u'])"
        ));
        json!({"argv": argv, "counter": "unittest", "tests": 2})
    };
    let tests = ("tests/test_amounts.py", TESTS.to_owned());
    BTreeMap::from([
        (
            "unittest",
            (
                json!({
                    "tests": {"path": "test_amounts.py", "count": 2},
                    "hidden": {"path": "test_more.py", "count": 2},
                }),
                vec![tests.clone(), ("hidden/test_more.py", more.clone())],
            ),
        ),
        (
            "command",
            (
                json!({
                    "command": {"argv": asked("1, 2", 3), "limit_ms": 20000},
                    "hidden": {"command": {"argv": asked("40, 2", 42)}},
                }),
                vec![],
            ),
        ),
        (
            "counted",
            (
                json!({
                    "command": unittest("test_amounts"),
                    "hidden": {"command": unittest("test_more")},
                }),
                vec![tests.clone(), ("hidden/test_more.py", more)],
            ),
        ),
        (
            "function",
            (
                json!({"io_cases": {
                    "python": {"file": "amounts.py", "function": "total"},
                    "cases": [
                        {"name": "two", "call": [[1, 2]], "expected": {"json": 3}, "shown": true},
                        {"name": "many", "call": [[4700, 11]], "expected": {"text": NEVER}},
                    ],
                }}),
                vec![],
            ),
        ),
        (
            "program",
            (
                json!({
                    "io_cases": {
                        "command": ["python3", "-B", "main.py"],
                        "cases": [
                            {"name": "two", "input": "1 2\n", "expected": {"text": "3"}},
                        ],
                    },
                    "hidden": {"io_cases": {
                        "command": ["python3", "-B", "main.py"],
                        "cases": [
                            {"name": "many", "input": "4700 11", "expected": {"text": NEVER}},
                            {"name": "none", "input": "", "expected": {"json": 0}},
                        ],
                    }},
                }),
                vec![("tests/main.py", PROGRAM.to_owned())],
            ),
        ),
    ])
}

fn write_suite(suite: &Path) {
    let about = json!({"format": 1, "name": "kinds", "revision": 1, "about": "one of each"});
    let put = |path: String, text: &str| {
        let path = suite.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("suite.json".to_owned(), &about.to_string());
    for (id, (decides, files)) in cases() {
        let mut task = json!({
            "task": "total(xs) in amounts.py must return the sum of xs.",
            "expected": "the sum",
            "editable": ["amounts.py"],
            "readable": [],
        });
        let members = decides.as_object().unwrap().clone();
        task.as_object_mut().unwrap().extend(members);
        put(format!("cases/{id}/task.json"), &task.to_string());
        put(format!("cases/{id}/files/amounts.py"), SOURCE);
        for (path, text) in files {
            put(format!("cases/{id}/{path}"), &text);
        }
    }
}

/// Proposes the same for every case.
fn candidate(name: &str, source: &'static str) -> Candidate {
    let candidate = Candidate::new(name, move |_case| {
        let replies = [read(), write(source), check(), finish()];
        Arc::new(ScriptedModel::new(replies))
    });
    let configured = candidate.unwrap();
    configured.configure(|attempt| attempt.budget(Budget::default().turns(4)))
}

/// What a case came to: the decision, its level, the commands, and the verdicts of its checks.
fn came_to(report: &CaseReport) -> (Decision, Option<Level>, usize, Vec<&str>) {
    let verdicts = report.checks.iter().map(|check| check.verdict.as_str());
    let commands = report.commands.duration_ms.len();
    (report.decision, report.level, commands, verdicts.collect())
}

#[tokio::test]
async fn a_case_of_each_kind_accepts_what_is_right_and_nothing_that_is_by_heart() {
    let server = LocalServer::start().await.unwrap();
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client_of(&server), server.project().clone(), spec);
    let scratch = tempfile::tempdir().unwrap();
    let (folder, out) = (scratch.path().join("suite"), scratch.path().join("out"));
    write_suite(&folder);
    let evaluation = |suite: Suite| {
        Evaluation::new(suite, places.clone(), &out)
            .candidate(candidate("right", FIX))
            .candidate(candidate("by-heart", BY_HEART))
            .parallel(2)
            .allow_checks(true)
    };
    let suite = Suite::load(&folder).unwrap();
    let report = evaluation(suite.clone()).run().await.unwrap();

    let right = report.candidate("right").unwrap();
    let expected = [
        ("command", Level::ExitCode, 2),
        ("counted", Level::Counted, 2),
        ("function", Level::OutsideValues, 2),
        ("program", Level::OutsideValues, 3),
        ("unittest", Level::Counted, 2),
    ];
    for (id, level, commands) in expected {
        let case = right.case(id).unwrap();
        let pass = (Decision::Pass, Some(level), commands, vec!["pass"]);
        assert_eq!(came_to(case), pass, "{id}: {}", case.observed);
    }
    assert_eq!((right.counts.pass, right.counts.all()), (5, 5));

    // What knows the visible answers gets to the hidden ones, and no further; two commands where
    // the hidden one is a stage of its own, and of two answers the first is wrong.
    let by_heart = report.candidate("by-heart").unwrap();
    for (id, commands) in [
        ("command", 2),
        ("counted", 2),
        ("function", 2),
        ("program", 2),
        ("unittest", 2),
    ] {
        let case = by_heart.case(id).unwrap();
        let fail = (Decision::Fail, None, commands, vec!["fail"]);
        assert_eq!(came_to(case), fail, "{id}: {}", case.observed);
        let hidden = "- an independent verification did not pass";
        assert!(case.observed.ends_with(hidden), "{id}: {}", case.observed);
        // Neither the answer nor what was asked is in what the candidate was told.
        let prompts = prompts_of(out.join("by-heart").join(id).join("1")).unwrap();
        let tells = |prompt: &String| prompt.contains(NEVER) || prompt.contains("[40, 2]");
        let told: Vec<bool> = prompts.iter().map(tells).collect();
        assert_eq!(told, [false; 4], "{id}");
    }
    assert_eq!((by_heart.counts.fail, by_heart.counts.all()), (5, 5));

    let comparison = report.comparisons().remove(0).unwrap();
    assert_eq!(
        (comparison.pairs(), comparison.both, comparison.neither),
        (5, 0, 0)
    );
    assert_eq!(
        comparison.only_baseline,
        ["command", "counted", "function", "program", "unittest"]
    );

    // The evidence of every kind proves what it says, and is not made again.
    let again = evaluation(suite).collect().unwrap();
    assert_eq!(again.candidates, report.candidates);

    // What failed is a case that decides as it did.
    for id in ["command", "counted", "function", "program", "unittest"] {
        let run = out.join("by-heart").join(id).join("1");
        let new = NewCase::of(run, "the sum").unwrap();
        assert_eq!(new.changed(), [""; 0], "{id}");
        let suite = new.add_to(&folder, &format!("again-{id}")).unwrap();
        let described = |id: &str| suite.case(id).unwrap().acceptance().description().unwrap();
        assert_eq!(described(&format!("again-{id}")), described(id), "{id}");
    }
    server.stop().await.unwrap();
}
