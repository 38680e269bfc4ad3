//! Misuse is refused before anything is done, and an acceptance can be recomputed from the journal.

mod fresh;
mod resume;

use proptest::prelude::*;

use super::*;
use crate::acceptance::{Evidence, Level, Stage, Verdict};
use crate::budget::{CostLimit, Micros};
use crate::journal::{Answer, Durability, Event, Intended};
use crate::model::ScriptedModel;
use crate::outcome::{AcceptanceState, End};
use crate::policy::Paths;
use crate::private::Private;
use crate::test_kit::*;
use crate::workspace::{ExecSpec, Fault, FaultAt, MemoryWorkspace, Operation, WorkspaceError};

/// An acceptance that is nothing but its plans.
struct Plans(Vec<(&'static str, Option<CheckPlan>)>);

impl Acceptance for Plans {
    fn revision(&self) -> Digest {
        Digest::of(b"plans")
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        self.0.iter().find(|(other, _)| *other == name)?.1.clone()
    }

    fn judge(&self, _: &Evidence<'_>) -> Verdict {
        Verdict::pass("always")
    }
}

#[tokio::test]
async fn misuse_is_refused_with_a_sentence_and_nothing_is_done() {
    let plan = || CheckPlan::new(Stage::new(ExecSpec::new(["true"])), Level::ExitCode);
    let fresh = CheckPlan::new(
        Stage::new(ExecSpec::new(["true"])).at(At::Fresh),
        Level::ExitCode,
    );
    let fixture = Stage::new(ExecSpec::new(["true"])).fixture(path("amounts.py"), File::new("x"));
    let fixture = CheckPlan::new(fixture, Level::ExitCode);
    let with = |acceptance: Plans| {
        let workspace = MemoryWorkspace::new(|_, _| Err(WorkspaceError::NotFound));
        Attempt::new(task(), model([FINISH]), workspace, acceptance, paths()).allow_checks(true)
    };
    let good = || with(Plans(vec![("a", Some(plan()))]));
    let limit = CostLimit::new(Micros::new(1));
    let no_paths: [&str; 0] = [];
    let no_paths = Paths::editable(no_paths).unwrap();
    let workspace = pretending();
    let nothing = Attempt::new(
        task(),
        model([FINISH]),
        workspace.clone(),
        acceptance(),
        no_paths,
    );
    let odd = Attempt::new(
        Task::new("a b", "x"),
        model([FINISH]),
        workspace.clone(),
        acceptance(),
        paths(),
    );
    let table = [
        (
            good().allow_checks(false),
            "checks run code that a model wrote, so they have to be allowed: `allow_checks(true)`",
        ),
        (
            good().budget(Budget::default().turns(0)),
            "the budget has no turns",
        ),
        (
            nothing.allow_checks(true),
            "no path may be written, so nothing can be changed",
        ),
        (odd.allow_checks(true), "the task's id cannot be used"),
        (
            good().budget(Budget::default().cost(limit)),
            "the cost is limited and the price of model \"scripted\" is not known",
        ),
        (with(Plans(vec![])), "the acceptance has no check"),
        (
            with(Plans(vec![("a", None)])),
            "the check \"a\" has no plan",
        ),
        (
            with(Plans(vec![("a", Some(plan())), ("b", Some(fresh))])),
            "the check \"b\" needs a fresh place, and none was given: `fresh(workspaces)`",
        ),
        (
            with(Plans(vec![("a", Some(fixture))])),
            "amounts.py belongs to a check, and may be written by name",
        ),
    ];
    for (attempt, sentence) in table {
        assert_eq!(attempt.drive().await.unwrap_err().to_string(), sentence);
    }
    assert!(workspace.files().is_empty());
}

#[tokio::test]
async fn stages_run_one_after_the_other_as_long_as_they_pass() {
    let hidden = || acceptance().hidden("test_hidden.py", "secret", 3).unwrap();
    let fresh = |passes: bool| {
        MemoryWorkspace::new(move |_, files| {
            assert!(files.get(&path("work/test_hidden.py")).is_some());
            Ok(match passes {
                true => crate::ExecReceipt::exited(0).stderr("Ran 3 tests in 0.001s\n\nOK\n"),
                false => crate::ExecReceipt::exited(1)
                    .stderr("secret\nRan 3 tests in 0.001s\n\nFAILED (failures=1)\n"),
            })
        })
    };
    let script = || model([fix(), CHECK.to_owned(), FINISH.to_owned()]);
    for passes in [true, false] {
        let (places, journal) = (fresh(passes), MemoryJournal::new());
        let outcome = Attempt::new(task(), script(), pretending(), hidden(), paths())
            .allow_checks(true)
            .fresh(places.clone())
            .budget(Budget::default().turns(3))
            .journal(journal.clone())
            .drive()
            .await
            .unwrap();
        assert_eq!(outcome.is_accepted(), passes);
        assert_eq!(places.calls(Operation::Exec), 1);
        assert!(!prompts(&journal).concat().contains("secret"));
        assert_eq!(
            outcome.checks[0].summary,
            if passes {
                "3 tests passed"
            } else {
                "- an independent verification did not pass"
            }
        );
    }
    // What fails here is not taken elsewhere.
    let places = fresh(true);
    let outcome = Attempt::new(task(), model([CHECK]), pretending(), hidden(), paths())
        .allow_checks(true)
        .fresh(places.clone())
        .budget(Budget::default().turns(1))
        .drive()
        .await
        .unwrap();
    assert_eq!(
        (outcome.checks.len(), places.calls(Operation::Exec)),
        (1, 0)
    );
}

/// Recomputes from the records alone what acceptance promises. `Err` says what does not hold.
fn verify(records: &[Event], acceptance: &dyn Acceptance, patch: &[u8]) -> Result<(), String> {
    let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    // What each request was for.
    let intent = |id: &crate::RequestId| {
        records.iter().find_map(|event| match event {
            Event::Intent(intent) if intent.id == *id => Some(&intent.effect),
            _ => None,
        })
    };
    let base = records.iter().find_map(|event| match event {
        Event::Receipt(receipt) => match &receipt.answer {
            Answer::Opened(tree) => Some(tree.clone()),
            _ => None,
        },
        _ => None,
    });
    let base = base.ok_or("nothing was taken over")?;
    let at = records
        .iter()
        .rposition(|event| matches!(event, Event::Judged(judged) if judged.level.is_some()));
    let at = at.ok_or("nothing has passed")?;
    let Event::Judged(judged) = &records[at] else {
        unreachable!()
    };

    // Nothing was done after the pass but reading.
    let only_reads = records[at..].iter().all(|event| match event {
        Event::Intent(intent) => matches!(intent.effect, Intended::Get { .. } | Intended::ReadBack),
        _ => true,
    });
    ensure(only_reads, "something was done after the pass")?;

    // The check ran the plan on the tree, and says so again when it is judged again.
    let mut plan = acceptance
        .plan(&judged.check)
        .ok_or("there is no such check")?;
    for stage in &mut plan.stages {
        stage.spec.limit = stage.spec.limit.min(Duration::from_secs(30));
    }
    ensure(plan.digest() == judged.plan, "another plan")?;
    ensure(
        acceptance.revision() == judged.evaluator,
        "another evaluator",
    )?;
    let first = records
        .iter()
        .position(|event| matches!(event, Event::Intent(intent) if intent.id == judged.id));
    let runs: Vec<_> = records[first.ok_or("the check was never started")?..at]
        .iter()
        .filter_map(|event| match event {
            Event::Receipt(receipt) => match &receipt.answer {
                Answer::Stage(run) => Some(run.clone()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    ensure(runs.len() == plan.stages.len(), "not all stages have run")?;

    // The files that were checked: the base with every write that was done.
    let mut tree = base.clone();
    for event in &records[..at] {
        let Event::Receipt(receipt) = event else {
            continue;
        };
        if let (Answer::Got(bytes), Some(Intended::Get { path })) =
            (&receipt.answer, intent(&receipt.id))
        {
            let old = tree.get(path).is_some_and(|file| file.is_executable());
            tree.insert(path.clone(), File::new(bytes.clone()).executable(old));
        }
        if let (Answer::Put, Some(Intended::Put { path, after, .. })) =
            (&receipt.answer, intent(&receipt.id))
        {
            // The content is in the reply of the turn.
            let content = records.iter().find_map(|event| match event {
                Event::Replied(replied) if replied.turn == receipt.turn => match &replied.reply {
                    crate::journal::ReplyRecord::Reply { text, finish, .. } => {
                        match crate::action::parse(text, *finish) {
                            Ok(crate::Action::Write { content, .. }) => Some(content),
                            _ => None,
                        }
                    }
                    _ => None,
                },
                _ => None,
            });
            let content = content.ok_or("a write without a reply")?;
            ensure(Digest::of(&content) == *after, "a write of something else")?;
            tree.insert(path.clone(), File::new(content));
        }
    }
    ensure(
        tree.hash() == judged.tree,
        "the files that were checked are others",
    )?;
    for (stage, run) in plan.stages.iter().zip(&runs) {
        let mut expected: BTreeMap<_, _> = tree
            .iter()
            .map(|(path, file)| (path.clone(), file.entry()))
            .collect();
        expected.extend(
            stage
                .fixtures
                .iter()
                .map(|(path, file)| (path.clone(), file.entry())),
        );
        let expected = expected.into_iter().collect();
        ensure(run.before == expected, "the copy was another one")?;
        ensure(run.after.is_none(), "the copy was changed")?;
    }
    let verdict = acceptance.judge(&Evidence::new(&plan, &tree, &runs));
    ensure(
        verdict == judged.verdict && matches!(verdict, Verdict::Pass { .. }),
        "it did not pass",
    )?;

    // What was there in the end is what passed, and the patch leads there.
    let listed = records[at..].iter().rev().find_map(|event| match event {
        Event::Receipt(receipt) => match &receipt.answer {
            Answer::Listed(manifest) => Some(manifest.hash()),
            _ => None,
        },
        _ => None,
    });
    ensure(
        listed == Some(judged.tree),
        "what was there in the end is something else",
    )?;
    let own = crate::patch::diff(&base, &tree).map_err(|error| error.to_string())?;
    ensure(own == patch, "the patch leads elsewhere")
}

/// Replies in groups, because single ones rarely come to anything: with these groups about two
/// attempts in five are accepted.
fn replies() -> impl Strategy<Value = Vec<String>> {
    let fixed = |replies: &[&str]| {
        Just(
            replies
                .iter()
                .map(|reply| (*reply).to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let (fix, wrong) = (fix(), write("amounts.py", WRONG));
    let read = read("amounts.py");
    prop_oneof![
        4 => fixed(&[&fix, CHECK, FINISH]),
        2 => fixed(&[&fix, CHECK, &fix, FINISH]),
        2 => fixed(&[&fix, CHECK, &wrong, FINISH]),
        2 => fixed(&[&wrong, CHECK]),
        2 => fixed(&[&fix, CHECK, &read, FINISH]),
        1 => fixed(&[CHECK]),
        1 => fixed(&[FINISH]),
        1 => fixed(&[&read]),
        1 => fixed(&[&write("test_amounts.py", "")]),
        1 => fixed(&["done"]),
    ]
}

/// What somebody else does to the workspace before a turn.
#[derive(Clone, Copy, Debug)]
enum Meddling {
    Nothing,
    Change,
    Add,
    Remove,
}

fn meddling() -> impl Strategy<Value = Meddling> {
    prop_oneof![
        40 => Just(Meddling::Nothing),
        1 => Just(Meddling::Change),
        1 => Just(Meddling::Add),
        1 => Just(Meddling::Remove),
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
    let at = prop_oneof![Just(FaultAt::Before), Just(FaultAt::After)];
    let detail = Private::default;
    let error = prop_oneof![
        Just(WorkspaceError::Failed(detail())),
        Just(WorkspaceError::Uncertain(detail())),
        Just(WorkspaceError::NotFound),
        Just(WorkspaceError::Conflict(None)),
        Just(WorkspaceError::Gone(detail())),
    ];
    let fault = (operation, 1..12_u32, at, error)
        .prop_map(|(operation, nth, at, error)| Fault::new(operation, nth, at, error));
    prop_oneof![
        2 => Just(Vec::new()),
        3 => proptest::collection::vec(fault, 1..3),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_is_accepted_can_be_recomputed_from_the_journal(
        groups in proptest::collection::vec(replies(), 1..6),
        meddling in proptest::collection::vec(meddling(), 20),
        faults in faults(),
        cheats in prop_oneof![6 => Just(false), 1 => Just(true)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let workspace = MemoryWorkspace::new(move |_, files| {
            if cheats {
                files.insert(path("work/test_amounts.py"), File::new("pass"));
            }
            Ok(pretended(files.get(&path("work/amounts.py")).map_or(b"", |file| file.bytes())))
        });
        let workspace = faults.into_iter().fold(workspace, MemoryWorkspace::fault);
        let (outside, script) = (workspace.clone(), std::sync::Mutex::new(groups.concat().into_iter().zip(meddling)));
        let script = crate::model_fn("random", move |_| {
            let Some((text, meddling)) = script.lock().unwrap().next() else {
                return Err(crate::ModelError::new(crate::ModelErrorKind::BadRequest, "at its end"));
            };
            outside.edit(|files| match meddling {
                Meddling::Nothing => {}
                Meddling::Change => drop(files.insert(path("amounts.py"), File::new("# theirs\n"))),
                Meddling::Add => drop(files.insert(path("added"), File::new("x"))),
                Meddling::Remove => drop(files.remove(&path("amounts.py"))),
            });
            reply(text)
        });
        let journal = MemoryJournal::new();
        let attempt = Attempt::new(task(), script, workspace.clone(), acceptance(), paths())
            .allow_checks(true)
            .clock(JumpingClock::default())
            .journal(journal.clone());
        let outcome = runtime.block_on(attempt.drive()).unwrap();
        let records: Vec<Event> = journal.records().into_iter().map(|(record, _)| record.event).collect();
        let verified = verify(&records, &acceptance(), &outcome.patch);
        match outcome.end.clone() {
            End::Accepted => {
                prop_assert_eq!(verified, Ok(()));
                prop_assert!(!cheats);
                prop_assert_eq!(Some(workspace.files().hash()), outcome.acceptance.tree);
                let amounts = workspace.files().get(&path("amounts.py")).cloned().unwrap();
                prop_assert_eq!(amounts.bytes(), RIGHT.as_bytes());
            }
            end => {
                prop_assert_ne!(end.acceptance(), AcceptanceState::Accepted);
                prop_assert_ne!(outcome.exit_code(), 0);
                // Only the one who finished may have what an acceptance needs.
                let finished = records.iter().any(|event| matches!(event, Event::Turn(turn) if turn.result == crate::journal::TurnResult::Accepted));
                prop_assert!(!finished);
            }
        }
        // However it ended, every intent but the last has its receipt, and only one.
        let intents: Vec<_> = records.iter().filter_map(|event| match event { Event::Intent(intent) => Some(&intent.id), _ => None }).collect();
        let receipts: Vec<_> = records.iter().filter_map(|event| match event { Event::Receipt(receipt) => Some(&receipt.id), _ => None }).collect();
        prop_assert_eq!(intents, receipts);
    }
}

/// The property above says little where nothing is ever accepted.
#[test]
fn a_script_that_is_right_is_accepted_and_verified() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let journal = MemoryJournal::new();
    let script: ScriptedModel = model([fix(), CHECK.to_owned(), FINISH.to_owned()]);
    let outcome = runtime
        .block_on(
            attempt(script, &pretending())
                .journal(journal.clone())
                .drive(),
        )
        .unwrap();
    let records: Vec<Event> = journal
        .records()
        .into_iter()
        .map(|(record, _)| record.event)
        .collect();
    assert_eq!(verify(&records, &acceptance(), &outcome.patch), Ok(()));
    // And whoever changes a record is found out.
    let tampered: Vec<Event> = records
        .iter()
        .map(|event| match event {
            Event::Judged(judged) => {
                let mut judged = judged.clone();
                judged.tree = Tree::new().hash();
                Event::Judged(judged)
            }
            event => event.clone(),
        })
        .collect();
    verify(&tampered, &acceptance(), &outcome.patch).unwrap_err();
    verify(&records, &acceptance(), b"").unwrap_err();
}

#[test]
fn what_a_killed_program_has_left_without_a_name_is_gone_when_the_attempt_goes_on() {
    use self::resume::{is_proved, killed};
    let script = || by_turn(vec![fix(), CHECK.to_owned(), FINISH.to_owned()]);
    let an_attempt = |workspace: &MemoryWorkspace| {
        let attempt = Attempt::new(task(), script(), workspace.clone(), acceptance(), paths());
        attempt.allow_checks(true).clock(JumpingClock::default())
    };
    // Before anything was taken over, and in the middle.
    for at in [0, 9] {
        let workspace = pretending();
        let (folder, ended) = killed(an_attempt(&workspace), at, Moment::After);
        assert!(ended.is_none());
        for name in [".tmp-1-0", ".tmp-31337-4"] {
            std::fs::write(folder.path().join(name), "{\"half").unwrap();
        }
        let outcome = run_or_die(an_attempt(&workspace).resume(folder.path())).unwrap();
        assert!(outcome.is_accepted(), "{}", outcome.end);
        assert!(is_proved(folder.path()));
        let uncovered = crate::verify(folder.path()).unwrap().uncovered;
        assert_eq!(uncovered, [""; 0], "record {at}");
    }
}
