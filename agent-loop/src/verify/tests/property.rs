//! For random replies, faults, changes by others, bad verdicts and ends of the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::manifest::File;
use crate::model::{ModelError, ModelErrorKind, model_fn};
use crate::outcome::AcceptanceState;
use crate::private::Private;
use crate::workspace::{Fault, FaultAt, Operation, WorkspaceError};

/// Replies in groups, because single ones rarely come to anything.
fn replies() -> impl Strategy<Value = Vec<String>> {
    let fixed = |replies: &[&str]| {
        let replies = replies.iter().map(|reply| (*reply).to_owned());
        Just(replies.collect::<Vec<_>>())
    };
    let (fix, wrong) = (fix(), write("amounts.py", WRONG));
    let read = read("amounts.py");
    prop_oneof![
        4 => fixed(&[&fix, CHECK, FINISH]),
        2 => fixed(&[&fix, CHECK, &wrong, FINISH]),
        2 => fixed(&[&wrong, CHECK]),
        2 => fixed(&[&fix, CHECK, &read, FINISH]),
        1 => fixed(&[CHECK]),
        1 => fixed(&[FINISH]),
        1 => fixed(&[&read]),
        1 => fixed(&[&write("test_amounts.py", "")]),
        1 => fixed(&["done"]),
        1 => fixed(&[""]),
    ]
}

/// What somebody else does to the workspace before a turn.
fn meddling() -> impl Strategy<Value = Option<(&'static str, Option<&'static str>)>> {
    prop_oneof![
        40 => Just(None),
        1 => Just(Some(("amounts.py", Some("# theirs\n")))),
        1 => Just(Some(("added", Some("x")))),
        1 => Just(Some(("amounts.py", None))),
    ]
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let operation = prop_oneof![
        Just(Operation::Get),
        Just(Operation::List),
        Just(Operation::Put),
        Just(Operation::Exec),
        Just(Operation::FreshDir),
    ];
    let detail = Private::default;
    let error = prop_oneof![
        Just(WorkspaceError::Failed(detail())),
        Just(WorkspaceError::Uncertain(detail())),
        Just(WorkspaceError::NotFound),
        Just(WorkspaceError::Conflict(None)),
        Just(WorkspaceError::Gone(detail())),
    ];
    let at = prop_oneof![Just(FaultAt::Before), Just(FaultAt::After)];
    let fault = (operation, 1..12_u32, at, error)
        .prop_map(|(operation, nth, at, error)| Fault::new(operation, nth, at, error));
    prop_oneof![
        2 => Just(Vec::new()),
        3 => proptest::collection::vec(fault, 1..3),
    ]
}

/// The command of the check: honest, or one that changes its own tests, or one that lies.
#[derive(Clone, Copy, Debug)]
enum Check {
    Honest,
    ChangesTests,
    Contradicts,
}

fn workspace(check: Check, lookup: bool) -> MemoryWorkspace {
    let workspace = MemoryWorkspace::new(move |_, files| {
        let amounts = files.get(&path("work/amounts.py")).cloned();
        let receipt = pretended(amounts.as_ref().map_or(b"", |file| file.bytes()));
        Ok(match check {
            Check::Honest => receipt,
            Check::ChangesTests => {
                files.insert(path("work/test_amounts.py"), File::new("pass"));
                receipt
            }
            Check::Contradicts => ExecReceipt::exited(0).stderr("FAILED (failures=1)\n"),
        })
    });
    workspace.with_capabilities(|can| can.exec_lookup = lookup)
}

type Case = (
    Vec<Vec<String>>,
    Vec<Option<(&'static str, Option<&'static str>)>>,
    Vec<Fault>,
    Check,
    bool,
    Vec<(u64, Moment)>,
);

fn cases() -> impl Strategy<Value = Case> {
    let check = prop_oneof![
        6 => Just(Check::Honest),
        1 => Just(Check::ChangesTests),
        1 => Just(Check::Contradicts),
    ];
    let moment = prop_oneof![Just(Moment::Before), Just(Moment::After)];
    let deaths = prop_oneof![
        1 => Just(Vec::new()),
        1 => proptest::collection::vec((0..40_u64, moment), 1..3),
    ];
    (
        proptest::collection::vec(replies(), 1..6),
        proptest::collection::vec(meddling(), 20),
        faults(),
        check,
        any::<bool>(),
        deaths,
    )
}

/// How many cases: `AGENT_LOOP_CASES`.
#[test]
fn a_proof_holds_exactly_where_the_outcome_says_accepted() {
    let cases_wanted = how_many("AGENT_LOOP_CASES", 400);
    let config = Config::with_cases(u32::try_from(cases_wanted).unwrap());
    let counts: [AtomicU32; 4] = Default::default();
    let mut runner = TestRunner::new(config);
    let result = runner.run(&cases(), |case| {
        let (groups, meddling, faults, check, lookup, mut deaths) = case;
        let folder = fast_folder();
        let workspace = faults
            .into_iter()
            .fold(workspace(check, lookup), MemoryWorkspace::fault);
        let script = Arc::new(groups.concat());
        let attempt = || {
            let (outside, script) = (workspace.clone(), Arc::clone(&script));
            let meddling = meddling.clone();
            let model = model_fn("random", move |request| {
                let turn = request.id.as_str().rsplit('.').nth(1).unwrap();
                let at = turn.parse::<usize>().unwrap() - 1;
                let Some(text) = script.get(at) else {
                    return Err(ModelError::new(ModelErrorKind::BadRequest, "at its end"));
                };
                outside.edit(|files| match meddling.get(at).copied().flatten() {
                    None => {}
                    Some((name, Some(text))) => drop(files.insert(path(name), File::new(text))),
                    Some((name, None)) => drop(files.remove(&path(name))),
                });
                reply(text)
            });
            Attempt::new(task(), model, workspace.clone(), acceptance(), paths())
                .allow_checks(true)
                .clock(JumpingClock::default())
        };
        deaths.sort_by_key(|(at, _)| *at);
        let mut outcome = None;
        if let Some((at, moment)) = deaths.first().copied() {
            let dying = Dying {
                journal: FileJournal::create(folder.path()).unwrap(),
                at,
                moment,
            };
            let run = RunDir::open(folder.path()).unwrap();
            outcome = run_or_die(attempt().record_in(run).journal(dying).drive());
            counts[3].fetch_add(u32::from(outcome.is_none()), Ordering::Relaxed);
            if outcome.is_none() {
                // Whatever was recorded until then proves nothing.
                let half = verify(folder.path());
                prop_assert!(half.is_ok_and(|half| !half.proves_acceptance()));
            }
        }
        let outcome = match (outcome, deaths.is_empty()) {
            (Some(outcome), _) => outcome,
            (None, true) => {
                let run = RunDir::create(folder.path()).unwrap();
                run_or_die(attempt().record_in(run).drive()).unwrap()
            }
            (None, false) => run_or_die(attempt().resume(folder.path())).unwrap(),
        };
        let verification = verify(folder.path()).unwrap();
        prop_assert!(verification.is_consistent(), "{}", verification);
        prop_assert_eq!(verification.proves_acceptance(), outcome.is_accepted());
        let said: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.path().join("outcome.json")).unwrap()).unwrap();
        prop_assert_eq!(
            &said["acceptance"]["state"],
            outcome.acceptance.state.as_str()
        );
        counts[0].fetch_add(1, Ordering::Relaxed);
        if outcome.is_accepted() {
            counts[1].fetch_add(1, Ordering::Relaxed);
            prop_assert!(matches!(check, Check::Honest));
            prop_assert_eq!(Some(workspace.files().hash()), outcome.acceptance.tree);
            let amounts = workspace.files().get(&path("amounts.py")).cloned().unwrap();
            prop_assert_eq!(amounts.bytes(), RIGHT.as_bytes());
        }
        if outcome.acceptance.state == AcceptanceState::NotEvaluated {
            counts[2].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    result.unwrap();
    let [cases, accepted, troubled, killed] = counts.map(AtomicU32::into_inner);
    println!(
        "{cases} cases: {accepted} accepted and proved, {troubled} not evaluated, {killed} killed \
         and resumed"
    );
    assert!(
        accepted * 10 > cases,
        "the generator makes too little that is accepted"
    );
    assert!(killed * 10 > cases, "the generator kills too rarely");
}
