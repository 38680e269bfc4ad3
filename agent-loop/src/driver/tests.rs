//! The order of effects and evidence, limits of time, cancellation.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::{pending, ready};

use super::*;
use crate::Attempt;
use crate::budget::Budget;
use crate::journal::{FileJournal, MemoryJournal, ReadJournal, TurnResult, observer_fn};
use crate::model::{ModelRequest, ScriptedModel};
use crate::outcome::{AcceptanceState, Limit};
use crate::policy::{Approval, Decision, policy_fn};
use crate::test_kit::*;
use crate::workspace::{Fault, FaultAt, MemoryWorkspace, Operation};

fn script() -> ScriptedModel {
    model([
        read("amounts.py"),
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ])
}

/// A model that never answers.
struct Silent;

impl Model for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn propose<'a>(&'a self, _: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        pending().boxed()
    }
}

/// Ready as soon as `condition` is true. It is looked at again and again, without a clock.
async fn once(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_evidence_of_a_run_fits_together() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path().join("run")).unwrap();
    let outcome = attempt(script(), &pretending())
        .record_in(run.clone())
        .clock(JumpingClock::default())
        .provisioned_in(Duration::from_secs(9))
        .drive()
        .await
        .unwrap();
    let read = |name: &str| fs::read(run.path().join(name)).unwrap();
    let patch = read("patch.diff");
    assert_eq!(
        (Digest::of(&patch), &patch),
        (outcome.patch_sha256, &outcome.patch)
    );
    let journal = ReadJournal::read(run.path()).unwrap();
    assert_eq!(journal.chain_head, outcome.chain_head);
    let written: serde_json::Value = serde_json::from_slice(&read("outcome.json")).unwrap();
    assert_eq!(written, serde_json::to_value(&outcome).unwrap());
    assert_eq!(written["acceptance"]["state"], "accepted");
    assert_eq!(written["acceptance"]["level"], "counted");
    assert_eq!(written["end"]["end"], "accepted");
    assert_eq!(written["turns"], 4);
    assert_eq!(written["checks"][0]["verdict"], "pass");
    assert_eq!(written["cost"]["unknown_calls"], 4);
    assert_eq!(written["cost"]["price_basis"], serde_json::Value::Null);
    assert_eq!(written["latency"]["provision_ms"], 9000);
    assert_eq!(written["latency"]["queue_ms"], serde_json::Value::Null);
    assert_eq!(written["stop"]["state"], "not_requested");
    assert_eq!(written["revisions"]["model"]["name"], "scripted");
    assert_eq!(written.get("patch"), None);
    let workspace: serde_json::Value = serde_json::from_slice(&read("workspace.json")).unwrap();
    assert_eq!(workspace["capabilities"]["cas_put"], true);
    let mut names: Vec<_> = fs::read_dir(run.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "acceptance.json",
            "actions.jsonl",
            "outcome.json",
            "patch.diff",
            "report.html",
            "workspace.json"
        ]
    );
}

#[tokio::test]
async fn workspace_json_is_there_before_anything_is_done_and_the_callers_own_stays() {
    for own in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        if own {
            run.write_workspace(&serde_json::json!({"run_uuid": "r"}))
                .unwrap();
        }
        let file = folder.path().join("workspace.json");
        let seen = Arc::new(AtomicBool::new(false));
        let (at_start, early) = (file.clone(), Arc::clone(&seen));
        let observer = observer_fn(move |record| {
            if record.event.kind() == "started" {
                early.store(at_start.exists(), Ordering::SeqCst);
            }
        });
        attempt(script(), &pretending())
            .record_in(run)
            .observer(observer)
            .drive()
            .await
            .unwrap();
        assert!(seen.load(Ordering::SeqCst));
        assert_eq!(fs::read_to_string(file).unwrap().contains("run_uuid"), own);
    }
}

/// A journal that keeps so many records and then fails.
struct Failing {
    inner: MemoryJournal,
    left: usize,
}

impl Journal for Failing {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        self.inner.append(record, durability)
    }
}

#[tokio::test]
async fn nothing_is_done_that_the_journal_does_not_hold() {
    let all = {
        let journal = MemoryJournal::new();
        attempt(script(), &pretending())
            .journal(journal.clone())
            .drive()
            .await
            .unwrap();
        journal.records().len()
    };
    for left in 0..all {
        let (inner, workspace) = (MemoryJournal::new(), pretending());
        let journal = Failing {
            inner: inner.clone(),
            left,
        };
        let outcome = attempt(script(), &workspace)
            .journal(journal)
            .drive()
            .await
            .unwrap();
        assert!(
            matches!(outcome.end, End::JournalFailed { .. }),
            "{left}: {:?}",
            outcome.end
        );
        assert_eq!(
            outcome.acceptance.state,
            AcceptanceState::NotEvaluated,
            "{left}"
        );
        assert_eq!(
            (outcome.acceptance.tree, outcome.exit_code()),
            (None, 3),
            "{left}"
        );
        let intents = inner
            .records()
            .iter()
            .filter(|(record, _)| record.event.kind() == "intent")
            .count();
        // Two puts and a list to open; a get, a put, a check, a list.
        let done = [
            workspace.calls(Operation::FreshDir),
            workspace.calls(Operation::Get),
            u32::from(workspace.files().len() == 2),
            u32::from(
                workspace
                    .files()
                    .get(&path("amounts.py"))
                    .is_some_and(|file| file.bytes() == RIGHT.as_bytes()),
            ),
        ];
        assert!(
            done.iter().sum::<u32>() as usize <= intents,
            "{left}: {done:?} for {intents} intents"
        );
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_written_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path()).unwrap();
    fs::create_dir(folder.path().join("outcome.json")).unwrap();
    let outcome = attempt(script(), &pretending())
        .record_in(run)
        .drive()
        .await
        .unwrap();
    assert_eq!((outcome.exit_code(), outcome.evidence_errors.len()), (3, 1));
    assert!(
        outcome.evidence_errors[0].starts_with("outcome.json was not written"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_model_that_never_answers_is_given_up_within_its_deadline() {
    let clock = JumpingClock::default();
    let attempted =
        Attempt::new(task(), Silent, pretending(), acceptance(), paths()).allow_checks(true);
    let outcome = attempted
        .model_deadline(Duration::from_secs(20))
        .clock(clock.clone())
        .drive()
        .await
        .unwrap();
    assert!(matches!(
        outcome.end,
        End::ModelFailed {
            kind: ModelErrorKind::TimedOut,
            ..
        }
    ));
    assert_eq!((outcome.calls, outcome.usage.unknown_calls), (4, 4));
    let calls = clock
        .sleeps()
        .iter()
        .filter(|length| **length == Duration::from_secs(20))
        .count();
    assert_eq!(calls, 4);
    assert_eq!(outcome.latency.model, Duration::from_secs(80));
}

#[tokio::test]
async fn the_time_of_an_attempt_ends_it_and_shortens_its_last_call() {
    let clock = JumpingClock::default();
    let attempted =
        Attempt::new(task(), Silent, pretending(), acceptance(), paths()).allow_checks(true);
    let budget = Budget::default().wall(Duration::from_secs(50));
    let attempted = attempted
        .budget(budget)
        .model_deadline(Duration::from_secs(40));
    let outcome = attempted.clock(clock.clone()).drive().await.unwrap();
    let asked: Vec<u64> = clock
        .sleeps()
        .iter()
        .map(Duration::as_secs)
        .filter(|length| *length > 1)
        .collect();
    assert_eq!(asked, [40, 10]);
    assert_eq!(
        (outcome.end, outcome.calls),
        (End::Exhausted { limit: Limit::Wall }, 2)
    );
}

#[tokio::test]
async fn a_write_that_is_never_answered_is_looked_for() {
    for at in [FaultAt::After, FaultAt::Before] {
        let workspace = pretending().fault(Fault::hang(Operation::Put, 3, at));
        let outcome = attempt(
            model([fix(), CHECK.to_owned(), FINISH.to_owned()]),
            &workspace,
        )
        .clock(JumpingClock::default())
        .drive()
        .await
        .unwrap();
        assert_eq!(outcome.end, End::Accepted, "{at:?}");
        assert_eq!(outcome.uncertain.len(), 1);
    }
}

#[tokio::test]
async fn a_check_that_is_never_answered_is_uncertain() {
    let workspace = pretending().fault(Fault::hang(Operation::Exec, 1, FaultAt::Before));
    let clock = JumpingClock::default();
    let outcome = attempt(model([CHECK]), &workspace)
        .clock(clock.clone())
        .drive()
        .await
        .unwrap();
    assert!(
        matches!(outcome.end, End::Uncertain { .. }),
        "{:?}",
        outcome.end
    );
    assert!(
        clock.sleeps().contains(&Duration::from_secs(60)),
        "its limit and a margin"
    );
}

#[tokio::test]
async fn a_cancelled_attempt_ends_with_its_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path()).unwrap();
    let attempted =
        Attempt::new(task(), Silent, pretending(), acceptance(), paths()).allow_checks(true);
    let outcome = attempted
        .record_in(run)
        .cancel_on(ready(()))
        .drive()
        .await
        .unwrap();
    assert_eq!(
        (outcome.end.clone(), outcome.exit_code()),
        (End::Cancelled, 1)
    );
    assert_eq!(outcome.acceptance.state, AcceptanceState::NotEvaluated);
    assert!(folder.path().join("outcome.json").exists());

    // In the middle of a check, and in the middle of a call of the model.
    let workspace = pretending().fault(Fault::hang(Operation::Exec, 1, FaultAt::Before));
    let watched = workspace.clone();
    let running = once(move || watched.calls(Operation::Exec) == 1);
    let outcome = attempt(model([fix(), CHECK.to_owned()]), &workspace)
        .cancel_on(running)
        .drive()
        .await
        .unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    assert_eq!(
        outcome
            .uncertain
            .iter()
            .map(|request| request.id.as_str())
            .collect::<Vec<_>>(),
        ["amounts-1.2.1"]
    );
    assert!(!outcome.patch.is_empty(), "the partial change is kept");

    let journal = MemoryJournal::new();
    let watched = journal.clone();
    let asked = once(move || {
        watched
            .records()
            .last()
            .is_some_and(|(record, _)| record.event.kind() == "asked")
    });
    let attempted =
        Attempt::new(task(), Silent, pretending(), acceptance(), paths()).allow_checks(true);
    let outcome = attempted
        .journal(journal)
        .cancel_on(asked)
        .drive()
        .await
        .unwrap();
    assert_eq!(
        (outcome.end, outcome.calls, outcome.usage.unknown_calls),
        (End::Cancelled, 1, 1)
    );
}

#[tokio::test]
async fn a_workspace_is_only_stopped_where_that_was_asked_for() {
    let unfinished = || model(["{}", "{}", "{}"].map(str::to_owned));
    let (asked, not) = (StopState::Confirmed, StopState::NotRequested);
    let table = [
        (StopAtEnd::Never, not.clone(), not.clone()),
        (StopAtEnd::Accepted, asked.clone(), not),
        (StopAtEnd::Always, asked.clone(), asked),
    ];
    for (stop, accepted, not_accepted) in table {
        let attempt_with = |replies| attempt(replies, &pretending()).stop_at_end(stop).drive();
        let outcome = attempt_with(script()).await.unwrap();
        assert_eq!(
            (outcome.end, outcome.stop),
            (End::Accepted, accepted),
            "{stop:?}"
        );
        let outcome = attempt_with(unfinished()).await.unwrap();
        assert!(!outcome.is_accepted());
        assert_eq!(outcome.stop, not_accepted, "{stop:?}");
    }
}

#[tokio::test]
async fn the_files_are_kept_where_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path()).unwrap();
    let kept = attempt(script(), &pretending())
        .record_in(run)
        .keep_files(true);
    let outcome = kept.drive().await.unwrap();
    assert_eq!(outcome.evidence_errors, Vec::<String>::new());
    let source = fs::read_to_string(folder.path().join("files/amounts.py")).unwrap();
    assert_eq!(source, RIGHT);
}

/// Answers every question alike, after three seconds.
struct Person {
    answer: bool,
    clock: JumpingClock,
}

impl Approver for Person {
    fn approve<'a>(&'a self, question: &'a Approval) -> BoxFuture<'a, bool> {
        assert_eq!(question.question, "really?");
        self.clock.advance(Duration::from_secs(3));
        ready(self.answer).boxed()
    }
}

#[tokio::test]
async fn a_person_is_asked_where_a_policy_asks() {
    let ask = || {
        policy_fn(|_, action| match action {
            crate::Action::Write { .. } => Decision::ask("really?"),
            _ => Decision::Allow,
        })
    };
    for (answer, result) in [(true, TurnResult::Done), (false, TurnResult::Refused)] {
        let (journal, clock) = (MemoryJournal::new(), JumpingClock::default());
        let attempted = attempt(model([fix()]), &pretending()).budget(Budget::default().turns(1));
        let person = Person {
            answer,
            clock: clock.clone(),
        };
        let attempted = attempted
            .policy(ask())
            .approver(person)
            .clock(clock)
            .journal(journal.clone());
        let outcome = attempted.drive().await.unwrap();
        assert_eq!(results(&journal), [result]);
        assert_eq!(outcome.latency.approval, Duration::from_secs(3));
        let kinds: Vec<&str> = journal
            .records()
            .iter()
            .map(|(record, _)| record.event.kind())
            .collect();
        assert!(kinds.contains(&"approval"));
    }
    let journal = MemoryJournal::new();
    let attempted = attempt(model([fix()]), &pretending()).budget(Budget::default().turns(1));
    attempted
        .policy(ask())
        .journal(journal.clone())
        .drive()
        .await
        .unwrap();
    assert_eq!(
        turns(&journal)[0].said,
        "this needs a person's approval, and nobody is there to give it"
    );
}

#[tokio::test]
async fn a_workspace_that_is_not_as_expected_is_not_taken_over() {
    let refused = |workspace: MemoryWorkspace| async move {
        let outcome = attempt(script(), &workspace).drive().await.unwrap();
        assert!(
            matches!(outcome.end, End::WorkspaceFailed { .. }),
            "{:?}",
            outcome.end
        );
        assert_eq!((outcome.turns, outcome.exit_code()), (0, 3));
        outcome.end.to_string()
    };
    let other = pretending();
    other.edit(|files| drop(files.insert(path("amounts.py"), crate::File::new(*b"theirs"))));
    assert!(refused(other).await.contains("something else is there"));
    let broken = pretending().fault(Fault::new(
        Operation::List,
        1,
        FaultAt::Before,
        WorkspaceError::Failed(Private::default()),
    ));
    assert!(
        refused(broken)
            .await
            .contains("taking over the files: storage error")
    );
    // The same file that is there already is no obstacle, and files beside it are taken over.
    let same = pretending();
    same.edit(|files| {
        files.insert(path("amounts.py"), crate::File::new(WRONG));
        files.insert(path("more/data.bin"), crate::File::new(*b"\0\xff"));
    });
    let outcome = attempt(script(), &same).drive().await.unwrap();
    assert_eq!(outcome.end, End::Accepted);
    assert_eq!(outcome.acceptance.tree, Some(same.files().hash()));
}

#[tokio::test]
async fn an_attempt_can_be_spawned_and_shares_its_parts() {
    let workspace = Arc::new(pretending());
    let model: Box<dyn Model> = Box::new(script());
    let attempted = Attempt::new(
        task(),
        model,
        Arc::clone(&workspace),
        Arc::new(acceptance()),
        paths(),
    );
    let outcome = tokio::spawn(attempted.allow_checks(true).drive())
        .await
        .unwrap()
        .unwrap();
    assert!(outcome.is_accepted());
}

#[tokio::test]
async fn an_observer_sees_what_the_journal_holds() {
    let journal = MemoryJournal::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = Arc::clone(&seen);
    let observer = observer_fn(move |record| watching.lock().unwrap().push(record.clone()));
    attempt(script(), &pretending())
        .journal(journal.clone())
        .observer(observer)
        .drive()
        .await
        .unwrap();
    let kept: Vec<Record> = journal
        .records()
        .into_iter()
        .map(|(record, _)| record)
        .collect();
    assert_eq!(*seen.lock().unwrap(), kept);
    let numbers: Vec<u64> = kept.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (0..kept.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_folder_with_another_journal_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path()).unwrap();
    drop(FileJournal::create(folder.path()).unwrap());
    let workspace = pretending();
    let error = attempt(script(), &workspace)
        .record_in(run)
        .drive()
        .await
        .unwrap_err();
    assert!(matches!(error, crate::Error::RunDir(_)), "{error:?}");
    assert!(workspace.files().is_empty());
}

#[tokio::test]
async fn waiting_for_people_is_not_working() {
    let ask = policy_fn(|_, _| Decision::ask("really?"));
    let clock = JumpingClock::default();
    let (person, model_clock) = (clock.clone(), clock.clone());
    let person = Person {
        answer: false,
        clock: person,
    };
    // Two seconds of work a turn, and three of waiting.
    let slow = crate::model_fn("slow", move |_| {
        model_clock.advance(Duration::from_secs(2));
        reply(read("amounts.py"))
    });
    let budget = Budget {
        working: Some(Duration::from_secs(5)),
        ..Budget::default()
    };
    let attempted = Attempt::new(task(), slow, pretending(), acceptance(), paths());
    let attempted = attempted
        .allow_checks(true)
        .budget(budget)
        .policy(ask)
        .approver(person);
    let outcome = attempted.clock(clock).drive().await.unwrap();
    assert_eq!(
        outcome.end,
        End::Exhausted {
            limit: Limit::Working
        }
    );
    assert_eq!(outcome.turns, 3);
    assert_eq!(outcome.latency.total, Duration::from_secs(12));
}
