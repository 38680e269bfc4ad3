//! What decides about a case, in all its forms.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{load, suite_of};
use crate::acceptance::{At, Description, Level};
use crate::digest::Digest;
use crate::evaluation::{Suite, SuiteError};
use crate::test_kit::TESTS;

/// Writes a case that has these files, and what decides, into the suite of one case.
fn write(suite: &Path, decides: &Value, files: &[&str]) {
    let case = suite.join("cases/c00");
    fs::remove_dir_all(&case).unwrap();
    let mut task = json!({
        "task": "total(xs) must return the sum of xs.",
        "expected": "the sum",
        "editable": ["amounts.py"],
        "readable": [],
    });
    let members = decides.as_object().unwrap().clone();
    task.as_object_mut().unwrap().extend(members);
    for file in ["files/amounts.py"].iter().chain(files) {
        let path = case.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let text = serde_json::to_string_pretty(&task).unwrap();
    fs::write(case.join("task.json"), text).unwrap();
}

fn load_with(decides: &Value, files: &[&str]) -> Result<Suite, SuiteError> {
    let folder = suite_of(1);
    write(folder.path(), decides, files);
    Suite::load(folder.path())
}

/// An error with its causes.
fn whole(error: &SuiteError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| {
        error.source()
    });
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// Where a stage runs, with which files, how many tests, and its command behind our variables.
type Seen = (At, Vec<String>, Option<u32>, String);

fn stages(suite: &Suite) -> (Level, Vec<Seen>) {
    let acceptance = suite.cases()[0].acceptance();
    let plan = acceptance.plan(&acceptance.names()[0]).unwrap();
    let stages = plan.stages.iter().map(|stage| {
        let files = stage.fixtures.iter().map(|(path, _)| path.to_string());
        let argv = stage.spec.argv[5..].join(" ");
        (stage.at, files.collect(), stage.tests, argv)
    });
    (plan.level, stages.collect())
}

#[test]
fn a_command_has_its_files_its_count_and_its_surroundings() {
    let suite = load_with(
        &json!({
            "command": {
                "argv": ["cargo", "test", "--offline"],
                "variables": {"CARGO_TARGET_DIR": "../cache", "B": ""},
                "inherit": ["PATH", "RUSTUP_HOME"],
                "dir": "crate",
                "may_change": ["Cargo.lock"],
                "limit_ms": 1500,
            },
        }),
        &["tests/crate/tests/a.rs", "tests/Cargo.toml"],
    );
    let suite = suite.unwrap();
    let (level, stages) = stages(&suite);
    assert_eq!(level, Level::ExitCode);
    let files = vec!["Cargo.toml".to_owned(), "crate/tests/a.rs".to_owned()];
    // Behind `sh -c …` and the word that is `$0`.
    let argv = "CARGO_TARGET_DIR=../cache cargo test --offline".to_owned();
    assert_eq!(stages, [(At::Here, files, None, argv)]);
    let plan = suite.cases()[0].acceptance().plan("check").unwrap();
    let stage = &plan.stages[0];
    let names = "${PATH+PATH=\"$PATH\"} ${RUSTUP_HOME+RUSTUP_HOME=\"$RUSTUP_HOME\"}";
    assert!(stage.spec.argv[2].contains(names), "{:?}", stage.spec.argv);
    assert_eq!(stage.spec.argv[4], "B=");
    assert_eq!(stage.spec.limit.as_millis(), 1500);
    assert_eq!(stage.spec.dir.as_ref().unwrap().as_str(), "crate");
    assert_eq!(stage.may_change[0].as_str(), "Cargo.lock");
    assert!(!suite.cases()[0].has_hidden_tests());
}

#[test]
fn every_kind_can_follow_every_kind_and_stays_hidden() {
    let command = |tests: u32| json!({"argv": ["t"], "counter": "pytest", "tests": tests});
    let io = json!({"command": ["p"], "cases": [
        {"name": "one", "input": "1", "expected": {"text": "1"}},
    ]});
    let tests = json!({"path": "test_a.py", "count": 2});
    let visible = [
        ("tests", &tests, Level::Counted),
        ("command", &command(3), Level::Counted),
        ("io_cases", &io, Level::OutsideValues),
    ];
    for (kind, check, first) in visible {
        for (more, then) in [("command", &command(4)), ("io_cases", &io)] {
            let mut decides = json!({"hidden": {more: then}});
            decides[kind] = check.clone();
            let suite = load_with(&decides, &["tests/test_a.py", "hidden/b/c.py"]).unwrap();
            let (level, stages) = stages(&suite);
            let second = match more {
                "command" => Level::Counted,
                _ => Level::OutsideValues,
            };
            // The weakest part decides what a pass is worth.
            assert_eq!(level, first.min(second), "{kind} {more}");
            assert_eq!(stages.len(), 2);
            assert_eq!((stages[0].0, stages[1].0), (At::Here, At::Fresh));
            assert_eq!(stages[0].1, ["test_a.py"]);
            assert_eq!(stages[1].1, ["b/c.py"]);
            assert!(suite.cases()[0].has_hidden_tests());
            let Description::Then(parts) = suite.cases()[0].description() else {
                panic!("one after the other");
            };
            if let Description::Command(command) = &parts[1] {
                assert!(command.hidden, "{kind}: what it says must not be told");
            }
        }
    }
    // The same in a fresh place from the start.
    for (kind, check, _) in visible {
        let mut decides = json!({});
        decides[kind] = check.clone();
        decides[kind]["fresh"] = true.into();
        let suite = load_with(&decides, &["tests/test_a.py"]).unwrap();
        assert_eq!(stages(&suite).1[0].0, At::Fresh, "{kind}");
    }
}

#[test]
fn inputs_and_answers_are_read_in_all_their_forms() {
    let of = |program: Value, cases: Value| {
        let mut io = program;
        io["cases"] = cases;
        load_with(&json!({"io_cases": io}), &[])
    };
    let program = json!({"command": ["python3", "sum.py"]});
    let function = json!({"python": {"file": "amounts.py", "function": "total"}});
    let forms = [
        (
            &program,
            json!({"input": "1 2\n", "expected": {"text": "3"}}),
        ),
        (
            &program,
            json!({"input": {"base64": "/w=="}, "expected": {"bytes": {"base64": "/w=="}}}),
        ),
        (
            &program,
            json!({"input": "", "expected": {"json": null}, "shown": true}),
        ),
        (
            &function,
            json!({"call": [[1, 2]], "expected": {"typed": {"of_type": "int", "text": "3"}}}),
        ),
        (
            &function,
            json!({"call": [], "expected": {
                "json_within": {"value": 0.1, "absolute": 1e-9, "relative": 0.0},
            }}),
        ),
        (
            &function,
            json!({"call": ["x"], "expected": {"raised": "TypeError"}}),
        ),
    ];
    for (program, mut form) in forms {
        form["name"] = "a form".into();
        let suite = of(program.clone(), json!([form])).unwrap();
        let acceptance = suite.cases()[0].acceptance();
        let plan = acceptance.plan("cases").unwrap();
        assert_eq!(plan.level, Level::OutsideValues);
        // What is written down is what is read.
        let text = serde_json::to_string(&acceptance.description().unwrap()).unwrap();
        let read: Description = serde_json::from_str(&text).unwrap();
        assert_eq!(&read, suite.cases()[0].description(), "{form}");
    }
}

#[test]
fn what_a_check_cannot_be_is_told_with_its_member() {
    let command = |members: Value| {
        let mut command = json!({"argv": ["t"]});
        command
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        json!({ "command": command })
    };
    let answer = |members: Value| {
        let mut case = json!({"name": "n"});
        case.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        json!({"io_cases": {"command": ["p"], "cases": [case]}})
    };
    let input = |expected: Value| answer(json!({"input": "", "expected": expected}));
    let hidden = |check: Value| json!({"command": {"argv": ["t"]}, "hidden": check});
    let table = [
        (json!({}), "it has none of tests, command and io_cases"),
        (
            json!({"command": {"argv": ["t"]}, "tests": {"path": "test_a.py", "count": 1}}),
            "it has more than one of tests, command and io_cases",
        ),
        (
            json!({"comand": {}}),
            "comand is not what a suite has there: unknown field `comand`",
        ),
        (
            command(json!({"args": []})),
            "command.args is not what a suite has there: unknown field `args`",
        ),
        (
            json!({"command": {}}),
            "command is not what a suite has there: missing field `argv`",
        ),
        (command(json!({"argv": []})), "command.argv: is empty"),
        (
            command(json!({"counter": "cargo", "tests": 2})),
            "command.counter is not what a suite has there: unknown variant `cargo`",
        ),
        (
            command(json!({"counter": "pytest"})),
            "command.tests: how many have to run is missing",
        ),
        (
            command(json!({"counter": "pytest", "tests": 0})),
            "command.tests: at least one test has to run",
        ),
        (
            command(json!({"tests": 2})),
            "command.counter: nobody counts the tests",
        ),
        (
            command(json!({"limit_ms": "5 s"})),
            "command.limit_ms is not what a suite has there: invalid type: string \"5 s\"",
        ),
        (
            command(json!({"limit_ms": 0})),
            "command: limit_ms has to be more than 0",
        ),
        (
            command(json!({"dir": "../x"})),
            "command.dir is not what a suite has there: the path \"../x\"",
        ),
        (
            command(json!({"may_change": ["out", "/x"]})),
            "command.may_change[1] is not what a suite has there: the path \"/x\"",
        ),
        (
            command(json!({"inherit": ["PATH", "A B"]})),
            "command.inherit[1] is not what a suite has there: \"A B\" cannot be inherited",
        ),
        (
            json!({"io_cases": {"command": ["p"], "cases": [], "inherit": ["1A"]}}),
            "io_cases.inherit[0] is not what a suite has there: \"1A\" cannot be inherited",
        ),
        (
            command(json!({"variables": {"A=B": ""}})),
            "command.variables: \"A=B\" cannot be the name of one",
        ),
        (
            json!({"io_cases": {"command": ["p"], "cases": []}}),
            "io_cases.cases: there has to be at least one case",
        ),
        (
            json!({"io_cases": {"cases": []}}),
            "io_cases: it has none of command and python",
        ),
        (
            json!({"io_cases": {"command": [], "cases": []}}),
            "io_cases.command: is empty",
        ),
        (
            answer(json!({"expected": {"text": ""}})),
            "io_cases.cases[0]: it has none of input and call",
        ),
        (
            answer(json!({"input": "", "call": [], "expected": {"text": ""}})),
            "io_cases.cases[0]: it has both input and call",
        ),
        (
            answer(json!({"call": [], "expected": {"text": ""}})),
            "io_cases.cases: the case \"n\" is not one for this program",
        ),
        (
            input(json!({"raised": "E"})),
            "io_cases.cases: the case \"n\" is not one for this program",
        ),
        (
            input(json!({"txt": "E"})),
            "io_cases.cases[0].expected is not what a suite has there: unknown variant `txt`",
        ),
        (
            input(json!({"json_within": {"value": 1, "absolute": 0, "relativ": 0}})),
            "io_cases.cases[0].expected.json_within.relativ is not what a suite has there: \
             unknown field `relativ`",
        ),
        (
            answer(json!({"input": 3, "expected": {"text": ""}})),
            "io_cases.cases[0].input is not what a suite has there: a text, or an object with \
             the bytes in base64",
        ),
        (
            hidden(json!({})),
            "hidden: it has none of path, command and io_cases",
        ),
        (
            hidden(json!({"path": "test_b.py"})),
            "hidden.count: is missing",
        ),
        (
            hidden(json!({"path": "test_b.py", "count": 1})),
            "hidden.path: is for cases with tests",
        ),
        (
            hidden(json!({"command": {"argv": []}})),
            "hidden.command.argv: is empty",
        ),
        (
            hidden(json!({"io_cases": {"command": ["p"], "cases": [
                {"name": "n", "input": "", "expected": {"text": ""}, "shown": true},
            ]}})),
            "hidden.io_cases.cases[0]: a hidden case cannot be shown",
        ),
    ];
    for (decides, problem) in table {
        let error = whole(&load_with(&decides, &[]).unwrap_err());
        assert!(
            error.contains(&format!("task.json: {problem}")),
            "{decides}: {error}"
        );
    }
    let error = load_with(&json!({"command": {"argv": ["t"]}}), &["hidden/amounts.py"]);
    let error = whole(&error.unwrap_err());
    assert!(
        error.ends_with("amounts.py is a test and may be edited"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_would_lose_its_permission_to_run_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let decides = json!({
        "command": {"argv": ["sh", "check.sh"]},
        "hidden": {"command": {"argv": ["sh", "more.sh"]}},
    });
    for file in ["files/run.sh", "tests/check.sh", "hidden/more.sh"] {
        let folder = suite_of(1);
        write(
            folder.path(),
            &decides,
            &["tests/check.sh", "hidden/more.sh", file],
        );
        Suite::load(folder.path()).unwrap();
        let path = folder.path().join("cases/c00").join(file);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        let error = whole(&Suite::load(folder.path()).unwrap_err());
        let name = file.split_once('/').unwrap().1;
        let problem = format!("{name} is executable, which a case cannot keep");
        assert!(error.ends_with(&problem), "{error}");
    }
}

/// The suites of others, whose digests are in their reports: none of these may ever change.
#[test]
fn a_case_with_tests_of_unittest_is_to_the_byte_what_it_was() {
    let folder = suite_of(2);
    let case = folder.path().join("cases/c01");
    fs::create_dir(case.join("hidden")).unwrap();
    fs::write(case.join("hidden/test_more.py"), TESTS).unwrap();
    fs::write(case.join("tests/data.txt"), "1\n").unwrap();
    let path = case.join("task.json");
    let text = fs::read_to_string(&path).unwrap();
    let hidden = "\"hidden\":{\"count\":2,\"path\":\"test_more.py\"},\"task\"";
    fs::write(&path, text.replace("\"task\"", hidden)).unwrap();
    let suite = load(&folder);
    let mut digests = vec![suite.digest().to_string()];
    for case in suite.cases() {
        let acceptance = case.acceptance();
        digests.push(acceptance.revision().to_string());
        digests.push(acceptance.plan("unit").unwrap().digest().to_string());
        let description = serde_json::to_vec(&acceptance.description()).unwrap();
        digests.push(Digest::of(&description).to_string());
    }
    assert_eq!(
        digests,
        [
            "0a5616b26edb1e69ee569e722eb4048d2941bd59feb23dd299fccc54841ebec5",
            "031079c0106aa3645eb8ef85cd99b3ff40f905f7556427741ecc3f41669b8502",
            "c994de9020af0bd120ec39fbd85def6e89fb3fb59d21eeff8a4ce56b47fc47ea",
            "c5e8206a0451db1f22dead7e5c30d226de03b19b28875895219acba0d9851f40",
            "031079c0106aa3645eb8ef85cd99b3ff40f905f7556427741ecc3f41669b8502",
            "be3007a0cf93d89e0c496fd0beb294cf5679f55fc522e5b4dfc61637a0554d7d",
            "1fa86064907a24ac9a1ad20164d8bfa1f5067464011b8987dffd8098dea03ce9",
        ]
    );
}
