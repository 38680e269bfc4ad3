//! Where in a folder that is which the model is not told.

use super::*;
use crate::manifest::Tree;

#[test]
fn hidden_tests_that_pass_are_in_the_description_of_the_evaluator_and_nowhere_else() {
    let folder = with_a_fresh_place();
    assert!(verify(folder.path()).unwrap().proves_acceptance());
    let holding: Vec<String> = files(folder.path())
        .into_iter()
        .filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("hidden-1234"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(holding, ["acceptance.json"]);
    // Without it the folder says what is missing.
    fs::remove_file(folder.path().join("acceptance.json")).unwrap();
    let shown = verify(folder.path()).unwrap();
    assert!(shown.is_consistent() && !shown.proves_acceptance());
    let said = shown.to_string();
    assert!(
        said.ends_with("is not at hand: acceptance.json is not there"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn what_hidden_tests_have_said_is_in_files_that_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let large = "x".repeat(40_000);
    let said = move |files: &Tree, hidden: bool| {
        let source = files.get(&path("work/amounts.py")).unwrap().bytes();
        match (hidden, source == b"first") {
            (false, _) => ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n"),
            (true, true) => {
                let report =
                    "AssertionError: hidden-1234\nRan 3 tests in 0.001s\n\nFAILED (failures=1)\n";
                ExecReceipt::exited(1).stderr(format!("{large}\n{report}"))
            }
            (true, false) => ExecReceipt::exited(127).stderr("hidden-1234"),
        }
    };
    let place = |hidden: bool| {
        let said = said.clone();
        MemoryWorkspace::new(move |_, files| Ok(said(files, hidden)))
    };
    let tests = acceptance().hidden("test_hidden.py", "hidden-1234", 3);
    let writes = ["first", "other"].map(|content| write("amounts.py", content));
    let [first, other] = writes;
    let script = by_turn(vec![first, CHECK.to_owned(), other, CHECK.to_owned()]);
    let folder = fast_folder();
    let attempt = Attempt::new(task(), script, place(false), tests.unwrap(), paths())
        .allow_checks(true)
        .fresh(place(true))
        .keep_files(true)
        .budget(Budget::default().turns(4))
        .clock(JumpingClock::default())
        .record_in(RunDir::create(folder.path()).unwrap());
    run_or_die(attempt.drive()).unwrap();
    assert!(verify(folder.path()).unwrap().is_consistent());
    let (mut holding, mut private) = (Vec::new(), Vec::new());
    for (name, bytes) in files(folder.path()) {
        let mode = fs::metadata(folder.path().join(&name))
            .unwrap()
            .permissions();
        let name = match name.starts_with("blobs/") {
            true => "blobs".to_owned(),
            false => name,
        };
        if String::from_utf8_lossy(&bytes).contains("hidden-1234") {
            holding.push(name.clone());
        }
        match mode.mode() & 0o777 {
            0o600 => private.push(name),
            mode => assert_eq!(mode, 0o644, "{name}"),
        }
    }
    holding.dedup();
    private.dedup();
    let expected = [
        "acceptance.json",
        "actions.jsonl",
        "blobs",
        "outcome.json",
        "report.html",
    ];
    assert_eq!(holding, expected);
    assert_eq!(private, expected);
}
