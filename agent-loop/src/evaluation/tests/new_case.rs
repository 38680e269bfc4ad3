use std::fs;
use std::sync::Arc;

use super::{Places, candidate, entries, evaluation, load, suite_of};
use crate::acceptance::{
    Acceptance, CheckPlan, CommandAcceptance, Description, Evidence, Expected, IoCase, IoCases,
    UnittestAcceptance, Verdict, all, then,
};
use crate::digest::Digest;
use crate::evaluation::{Decision, NewCase, Suite};
use crate::evidence::RunDir;
use crate::test_kit::{CHECK, TESTS, WRONG, acceptance, fix, model, paths, pretending, read};
use crate::{Attempt, Budget, Task};

/// A folder with the evidence of an attempt that was not accepted.
async fn failed(text: &str, source: &str) -> tempfile::TempDir {
    failed_by(acceptance(), text, source).await
}

/// The same, where something else decided.
async fn failed_by(
    acceptance: impl Acceptance + 'static,
    text: &str,
    source: &str,
) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let task = Task::new("amounts", text)
        .file("amounts.py", source)
        .unwrap();
    let task = task.file("test_amounts.py", TESTS).unwrap();
    let run = RunDir::create(folder.path()).unwrap();
    Attempt::new(
        task,
        model([read("amounts.py"), CHECK.to_owned()]),
        pretending(),
        acceptance,
        paths(),
    )
    .allow_checks(true)
    .fresh(Places::default())
    .budget(Budget::default().turns(2))
    .record_in(run)
    .drive()
    .await
    .unwrap();
    folder
}

#[tokio::test]
async fn a_failure_becomes_a_case_that_candidates_run() {
    let folder = suite_of(1);
    let before = load(&folder);
    let run = failed("total(xs) must return the sum of xs.", WRONG).await;
    let suite = NewCase::of(run.path(), "the sum of all numbers")
        .unwrap()
        .add_to(folder.path(), "sums-of-numbers")
        .unwrap();
    assert_ne!(suite.digest(), before.digest());
    let text = fs::read_to_string(folder.path().join("suite.json")).unwrap();
    assert!(text.contains("\"revision\": 2"), "{text}");
    let case = suite.case("sums-of-numbers").unwrap();
    assert_eq!(case.expected(), "the sum of all numbers");
    assert_eq!(case.text(), "total(xs) must return the sum of xs.");
    let names: Vec<_> = case.files().iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["amounts.py"]);
    let task = fs::read_to_string(folder.path().join("cases/sums-of-numbers/task.json")).unwrap();
    assert!(
        task.contains("\"end\": \"exhausted: all turns are used\""),
        "{task}"
    );
    assert!(task.contains("\"changed\": {}"), "{task}");

    let out = tempfile::tempdir().unwrap();
    let base = crate::evaluation::Candidate::new("base", |case| {
        Arc::new(match case.id() {
            "sums-of-numbers" => model([
                read("amounts.py"),
                fix(),
                CHECK.to_owned(),
                crate::test_kit::FINISH.to_owned(),
            ]),
            _ => super::wrong(),
        })
    });
    let report = evaluation(&folder, &out, &Places::default())
        .candidate(
            base.unwrap()
                .configure(|attempt| attempt.budget(Budget::default().turns(4))),
        )
        .run()
        .await
        .unwrap();
    let base = report.candidate("base").unwrap();
    assert_eq!(
        base.case("sums-of-numbers").unwrap().decision,
        Decision::Pass
    );
    assert_eq!(base.case("c00").unwrap().decision, Decision::Fail);
}

#[tokio::test]
async fn a_case_does_not_tell_what_the_attempt_knew() {
    let source =
        "# from /home/ada/work\nAPI_KEY = \"k-TEST-123456\"\ndef total(xs):\n    return 0\n";
    let run = failed(
        "As on /Users/grace: total(xs), with token=k-TEST-123456",
        source,
    )
    .await;
    let folder = suite_of(1);
    let new = NewCase::of(run.path(), "the sum").unwrap();
    assert_eq!(new.changed().len(), 2, "{:?}", new.changed());
    new.add_to(folder.path(), "clean").unwrap();
    let case = folder.path().join("cases/clean");
    for file in ["task.json", "files/amounts.py", "tests/test_amounts.py"] {
        let text = fs::read_to_string(case.join(file)).unwrap();
        for never in ["k-TEST-123456", "/ada", "/grace"] {
            assert!(!text.contains(never), "{file}: {text}");
        }
    }
    let source = fs::read_to_string(case.join("files/amounts.py")).unwrap();
    assert!(
        source.starts_with("# from /home/user/work\nAPI_KEY = \"<redacted>\"\n"),
        "{source}"
    );
}

#[tokio::test]
async fn what_can_be_no_case_is_refused_and_the_suite_stays_as_it_is() {
    let folder = suite_of(1);
    let before = load(&folder);
    let out = tempfile::tempdir().unwrap();
    evaluation(&folder, &out, &Places::default())
        .candidate(candidate("base", &[]))
        .run()
        .await
        .unwrap();
    let error = NewCase::of(out.path().join("base/c00/1"), "x")
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("the attempt was accepted"), "{error}");
    let error = NewCase::of(out.path(), "x").unwrap_err().to_string();
    assert!(error.ends_with("nothing is recorded"), "{error}");
    let run = failed("total", WRONG).await;
    let new = || NewCase::of(run.path(), "the sum").unwrap();
    let error = new().add_to(folder.path(), "c00").unwrap_err().to_string();
    assert!(error.ends_with("there is a case c00 already"), "{error}");
    new().add_to(folder.path(), "../out").unwrap_err();
    let hidden = new().hidden("no module.py", "x", 1).unwrap();
    hidden.add_to(folder.path(), "h").unwrap_err();
    assert_eq!(load(&folder), before);
    let hidden = new().hidden("test_more.py", TESTS, 2).unwrap();
    let suite = hidden.add_to(folder.path(), "h").unwrap();
    assert!(suite.case("h").unwrap().has_hidden_tests());
}

const SECRET: &str = "k-TEST-123456";

/// A visible command, and a hidden one after it, with what a case must not tell.
fn commands() -> [CommandAcceptance; 2] {
    let visible = CommandAcceptance::new(["check", "/home/ada/x", "--fast"])
        .variable("API_KEY", SECRET)
        .variable("MODE", "a \"b\" c")
        .inherit(["PATH"])
        .unwrap()
        .fixture("test_amounts.py", TESTS)
        .unwrap();
    let hidden = CommandAcceptance::new(["check", "more.txt"])
        .fixture("more.txt", format!("password = {SECRET:?}\n"))
        .unwrap();
    [visible, hidden.hidden()]
}

fn arcs<const N: usize>(parts: [CommandAcceptance; N]) -> [Arc<dyn Acceptance>; N] {
    parts.map(|part| Arc::new(part) as Arc<dyn Acceptance>)
}

#[tokio::test]
async fn a_failure_by_commands_becomes_a_case_that_candidates_run() {
    let run = failed_by(then(arcs(commands())), "Sum them.", WRONG).await;
    let folder = suite_of(1);
    let new = NewCase::of(run.path(), "the sum").unwrap();
    assert_eq!(
        new.changed(),
        [
            "hidden/more.txt: secrets, names of the workspace or folders of people were replaced",
            "the check: secrets, names of the workspace or folders of people were replaced",
        ]
    );
    let suite = new.add_to(folder.path(), "c01").unwrap();
    let case = suite.case("c01").unwrap();
    let files = [
        ("tests/test_amounts.py", TESTS),
        ("files/amounts.py", WRONG),
    ];
    for (path, text) in files {
        let path = folder.path().join("cases/c01").join(path);
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
    let Some(Description::Then(parts)) = case.acceptance().description() else {
        panic!("a command and a hidden one after it");
    };
    let [Description::Command(visible), Description::Command(hidden)] = &parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!(visible.argv, ["check", "/home/user/x", "--fast"]);
    assert_eq!(visible.variables["API_KEY"], "<redacted>");
    assert_eq!(visible.variables["MODE"], "a \"b\" c");
    assert_eq!(visible.fixtures, commands()[0].fixtures);
    assert!(hidden.hidden && !visible.hidden);
    assert_eq!(hidden.argv, ["check", "more.txt"]);
    assert_eq!(hidden.fixtures[0].1.bytes(), b"password = \"<redacted>\"\n");

    let out = tempfile::tempdir().unwrap();
    let places = Places::default();
    let report = evaluation(&folder, &out, &places)
        .candidate(candidate("good", &[]))
        .candidate(candidate("bad", &[1]))
        .run()
        .await
        .unwrap();
    let case = |name: &str| report.candidate(name).unwrap().case("c01").unwrap().clone();
    assert_eq!(case("good").decision, Decision::Pass);
    assert_eq!(case("good").commands.duration_ms.len(), 2);
    assert_eq!(case("bad").decision, Decision::Fail);
    // A place a try, and one for the hidden check of what passed the visible one.
    assert_eq!(places.made(), 4 + 1);
}

#[tokio::test]
async fn a_failure_by_answers_becomes_a_case_with_the_same_answers() {
    let cases = [
        IoCase::call("two", [serde_json::json!([1, 2])], Expected::json(3)).shown(),
        IoCase::call("none", [serde_json::json!([])], Expected::typed("int", "0")),
        IoCase::call("text", ["x"], Expected::raised("TypeError")),
        IoCase::call("near", ["y"], Expected::json_within(0.5, 0.1, 0.0)),
        IoCase::call("bytes", ["z"], Expected::bytes(*b"\xff")),
    ];
    let kept = IoCases::python("amounts.py", "total", cases).unwrap();
    let program = [IoCase::input("one", "1\n", Expected::text("1"))];
    let hidden = IoCases::command(["python3", "amounts.py"], program).unwrap();
    let hidden = hidden.fixture("data.txt", *b"1\n").unwrap().fresh();
    let parts = [
        Arc::new(kept.clone()) as Arc<dyn Acceptance>,
        Arc::new(hidden.clone()),
    ];
    let run = failed_by(then(parts), "Sum them.", WRONG).await;
    let folder = suite_of(1);
    let new = NewCase::of(run.path(), "the sum").unwrap();
    assert_eq!(
        new.changed(),
        ["the check: bytes: is no text, so nothing was looked for"]
    );
    let suite = new.add_to(folder.path(), "answers").unwrap();
    let description = suite.case("answers").unwrap().acceptance().description();
    let boxed = |one: &IoCases| Description::IoCases(Box::new(one.clone()));
    assert_eq!(
        description,
        Some(Description::Then(vec![boxed(&kept), boxed(&hidden)]))
    );

    // What a name or a value tells is taken out of an answer, too.
    let telling = IoCases::python(
        "amounts.py",
        "total",
        [IoCase::call(
            "of /home/ada",
            [serde_json::json!({"api_key": SECRET, "in": "/Users/grace"})],
            Expected::text(format!("token={SECRET}")),
        )],
    );
    let run = failed_by(telling.unwrap(), "Sum them.", WRONG).await;
    let new = NewCase::of(run.path(), "the sum").unwrap();
    let changed = new.changed();
    let told: Vec<_> = changed
        .iter()
        .filter_map(|line| line.split(": secrets").next())
        .collect();
    assert_eq!(told, ["the check", "the check: of /home/user"]);
    new.add_to(folder.path(), "clean").unwrap();
    let text = fs::read_to_string(folder.path().join("cases/clean/task.json")).unwrap();
    for never in [SECRET, "/ada", "/grace"] {
        assert!(!text.contains(never), "{text}");
    }
}

/// Accepts nothing, and cannot be written down.
struct Own;

impl Acceptance for Own {
    fn revision(&self) -> Digest {
        Digest::of(b"own 1")
    }

    fn names(&self) -> Vec<String> {
        acceptance().names()
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        acceptance().plan(name)
    }

    fn judge(&self, _evidence: &Evidence<'_>) -> Verdict {
        Verdict::fail("- no")
    }
}

#[tokio::test]
async fn an_acceptance_that_no_case_can_have_is_refused_with_the_reason() {
    let [visible, hidden] = commands();
    let shown = [IoCase::input("one", "1", Expected::text("1")).shown()];
    let shown = IoCases::command(["p"], shown).unwrap().fresh();
    let shown = Arc::new(shown) as Arc<dyn Acceptance>;
    let [first, second] = arcs([visible.clone(), hidden.clone()]);
    let elsewhere = UnittestAcceptance::new("test_other.py", TESTS, 2).unwrap();
    let table: [(Arc<dyn Acceptance>, &str); 7] = [
        (
            Arc::new(Own),
            "its acceptance is of no kind that a suite has",
        ),
        (
            Arc::new(all([Arc::clone(&first)])),
            "a case has one visible check, and it has all of several",
        ),
        (
            Arc::new(then([Arc::clone(&first), Arc::clone(&first)])),
            "a case has one visible check and after it a hidden one at most",
        ),
        (
            Arc::new(then([Arc::clone(&first), shown])),
            "a case has one visible check and after it a hidden one at most",
        ),
        (
            Arc::new(then([
                Arc::new(then([first, Arc::clone(&second)])) as _,
                second,
            ])),
            "it has more than one hidden check, and a case has one",
        ),
        (
            Arc::new(hidden),
            "its only check is hidden, and a case has a visible one",
        ),
        (
            Arc::new(elsewhere),
            "test_other.py belongs to the check, and was not among the files",
        ),
    ];
    for (acceptance, problem) in table {
        let run = failed_by(acceptance, "Sum them.", WRONG).await;
        let error = NewCase::of(run.path(), "x").unwrap_err().to_string();
        assert!(error.ends_with(problem), "{error}");
    }
    let run = failed("Sum them.", WRONG).await;
    let path = run.path().join("acceptance.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"count\": 2", "\"count\": 1")).unwrap();
    let error = NewCase::of(run.path(), "x").unwrap_err().to_string();
    assert!(
        error.ends_with("acceptance.json is not what it was at the start"),
        "{error}"
    );
}

#[tokio::test]
async fn a_hidden_check_of_any_kind_can_be_set() {
    let run = failed("Sum them.", WRONG).await;
    let folder = suite_of(1);
    let new = || NewCase::of(run.path(), "the sum").unwrap();
    let io = || [IoCase::input("one", "1", Expected::text("1"))];
    let answers = IoCases::command(["python3", "p.py"], io()).unwrap();
    let set = new().hidden_by(answers).unwrap();
    let suite = set.add_to(folder.path(), "answers").unwrap();
    let case = suite.case("answers").unwrap();
    assert!(case.has_hidden_tests());
    let set = new().hidden_by(&commands()[1]).unwrap();
    let suite = set.add_to(folder.path(), "command").unwrap();
    let Some(Description::Then(parts)) = suite.case("command").unwrap().acceptance().description()
    else {
        panic!("tests and a command after them");
    };
    assert!(matches!(&parts[1], Description::Command(command) if command.hidden));
    let error = new().hidden_by(Own).unwrap_err().to_string();
    assert_eq!(
        error,
        "task.json: hidden: its acceptance is of no kind that a suite has"
    );
    let shown = IoCases::command(["p"], io().map(IoCase::shown)).unwrap();
    let error = new()
        .hidden_by(shown)
        .unwrap()
        .add_to(folder.path(), "shown");
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("a hidden case cannot be shown"), "{error}");
}

#[tokio::test]
async fn what_a_program_that_was_ended_has_left_is_no_part_of_a_suite_and_goes_with_the_next_case()
{
    let folder = suite_of(1);
    let before = load(&folder);
    // One of them as of this very process.
    for process in [7, std::process::id()] {
        let half = folder.path().join(format!(".new-{process}/files"));
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join("stale.py"), "").unwrap();
    }
    fs::write(folder.path().join(".tmp-7-0"), "{").unwrap();
    assert_eq!(load(&folder), before);
    let run = failed("total", WRONG).await;
    let new = || NewCase::of(run.path(), "the sum").unwrap();
    let suite = new().add_to(folder.path(), "c01").unwrap();
    assert_eq!(entries(folder.path()), ["cases", "suite.json"]);
    assert_eq!(
        entries(&folder.path().join("cases/c01/files")),
        ["amounts.py"]
    );
    assert_eq!(suite.cases().len(), 2);
    // A case that cannot be used leaves nothing either.
    let hidden = new().hidden("no module.py", "x", 1).unwrap();
    hidden.add_to(folder.path(), "c02").unwrap_err();
    assert_eq!(entries(folder.path()), ["cases", "suite.json"]);
    // Nothing else is overlooked.
    for name in [
        ".new-", ".new-7x", ".new-7-1", ".tmp-7", ".tmp-7-", ".tmp-x-1", "new-7",
    ] {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        let error = Suite::load(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("is no part of a suite"), "{name}: {error}");
        fs::remove_file(path).unwrap();
    }
}

#[tokio::test]
async fn a_suite_to_which_several_add_can_be_loaded_at_any_moment() {
    let folder = suite_of(1);
    let run = failed("total", WRONG).await;
    let new = NewCase::of(run.path(), "the sum").unwrap();
    let at = folder.path();
    std::thread::scope(|scope| {
        let adding = (1..9).map(|number| {
            let new = new.clone();
            scope.spawn(move || new.add_to(at, &format!("c{number:02}")).unwrap())
        });
        let adding: Vec<_> = adding.collect();
        let mut loaded = 0;
        while adding.iter().any(|thread| !thread.is_finished()) || loaded == 0 {
            assert!((1..10).contains(&load(&folder).cases().len()));
            loaded += 1;
        }
    });
    let suite = load(&folder);
    assert_eq!((suite.cases().len(), suite.as_ref().revision), (9, 9));
}
