//! The rules of the loop, as tables of replies.

use std::time::Duration;

use crate::acceptance::Verdict;
use crate::budget::{Budget, CostLimit, Micros, OnUnknown};
use crate::journal::{Durability, Event, Intended, MemoryJournal, TurnResult};
use crate::manifest::File;
use crate::model::{
    Finish, ModelError, ModelErrorKind, ModelReply, ScriptedModel, Usage, model_fn,
};
use crate::outcome::{AcceptanceState, End, Limit, Outcome};
use crate::policy::{Decision, Paths, policy_fn};
use crate::prompt::Order;
use crate::test_kit::*;
use crate::workspace::{Fault, FaultAt, MemoryWorkspace, Operation, WorkspaceError};
use crate::{Attempt, Private, Task};

use TurnResult::{Accepted, Done, Fail, Failed, Invalid, NotAnAction, Pass, Refused};

/// Drives an attempt, and gives what is needed to look at it.
async fn drive(attempt: Attempt) -> (Outcome, MemoryJournal) {
    let journal = MemoryJournal::new();
    let outcome = attempt
        .clock(JumpingClock::default())
        .journal(journal.clone())
        .drive()
        .await;
    (outcome.unwrap(), journal)
}

fn exhausted(limit: Limit) -> End {
    End::Exhausted { limit }
}

#[tokio::test]
async fn the_way_through_is_read_write_check_finish() {
    let workspace = pretending();
    let script = model([
        read("amounts.py"),
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ]);
    let (outcome, journal) = drive(attempt(script, &workspace)).await;
    assert_eq!(outcome.end, End::Accepted);
    assert_eq!(
        (outcome.turns, outcome.calls, outcome.exit_code()),
        (4, 4, 0)
    );
    assert_eq!(results(&journal), [Done, Done, Pass, Accepted]);
    assert_eq!(outcome.acceptance.tree, Some(workspace.files().hash()));
    assert_eq!(outcome.usage.known, Usage::new(400, 80));
    assert_eq!(outcome.cost.unknown_calls, 4);
    let patch = String::from_utf8(outcome.patch).unwrap();
    assert!(
        patch.ends_with("@@ -1,2 +1,2 @@\n def total(xs):\n-    return 0\n+    return sum(xs)\n"),
        "{patch}"
    );
    // The first prompt shows nothing and offers a read; each later one is the state.
    let prompts = prompts(&journal);
    insta::assert_snapshot!(prompts[0], @r"
    Files: amounts.py (may be written), test_amounts.py (the tests; may only be read).

    Task: total(xs) must return the sum of xs.
    Next: read amounts.py.
    ");
    assert!(prompts[1].contains("--- amounts.py\ndef total(xs):\n    return 0\n---\n"));
    assert!(prompts[2].ends_with("Next: check.\n") && prompts[2].contains("sum(xs)"));
    assert!(prompts[3].ends_with("The check passed.\nNext: finish.\n"));
}

#[tokio::test]
async fn the_rules_of_the_loop() {
    let wrong = || write("amounts.py", WRONG);
    let (check, finish) = (CHECK.to_owned(), FINISH.to_owned());
    let out = |name: &str| write(name, "x = 1\n");
    let table: Vec<(&str, Vec<String>, Vec<TurnResult>, AcceptanceState)> = vec![
        (
            "finish without a check",
            vec![fix(), finish.clone()],
            vec![Done, Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "finish after a failed check",
            vec![wrong(), check.clone(), finish.clone()],
            vec![Done, Fail, Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "a write after the pass",
            vec![fix(), check.clone(), out("amounts.py"), finish.clone()],
            vec![Done, Pass, Done, Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "a write of the same bytes after the pass",
            vec![fix(), check.clone(), fix(), finish.clone()],
            vec![Done, Pass, Done, Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "checked again after that",
            vec![fix(), check.clone(), fix(), check.clone(), finish.clone()],
            vec![Done, Pass, Done, Pass, Accepted],
            AcceptanceState::Accepted,
        ),
        (
            "other line ends after the pass",
            vec![
                fix(),
                check.clone(),
                write("amounts.py", &RIGHT.replace('\n', "\r\n")),
                finish.clone(),
            ],
            vec![Done, Pass, Done, Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "reading keeps the pass",
            vec![
                fix(),
                check.clone(),
                read("amounts.py"),
                read("test_amounts.py"),
                finish.clone(),
            ],
            vec![Done, Pass, Done, Done, Accepted],
            AcceptanceState::Accepted,
        ),
        (
            "the tests",
            vec![out("test_amounts.py")],
            vec![Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "another file",
            vec![out("unittest.py"), read("secret")],
            vec![Refused, Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "paths that lead out",
            vec![
                out("../x"),
                out("/etc/passwd"),
                read("./amounts.py"),
                read("a//b"),
                read(""),
            ],
            vec![Refused; 5],
            AcceptanceState::NotAccepted,
        ),
        (
            "a check that does not exist",
            vec![r#"{"action":"check","name":"unit; rm -rf /"}"#.to_owned()],
            vec![Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "bytecode",
            vec![out("__pycache__/amounts.pyc")],
            vec![Refused],
            AcceptanceState::NotAccepted,
        ),
        (
            "prose at the end",
            vec![fix(), "Everything is finished.".to_owned()],
            vec![Done, NotAnAction],
            AcceptanceState::NotAccepted,
        ),
        (
            "an empty file",
            vec![write("amounts.py", "")],
            vec![Done],
            AcceptanceState::NotAccepted,
        ),
    ];
    for (name, script, expected, state) in table {
        let workspace = pretending();
        let turns = u32::try_from(script.len()).unwrap();
        let attempt = attempt(model(script), &workspace).budget(Budget::default().turns(turns));
        let (outcome, journal) = drive(attempt).await;
        assert_eq!(results(&journal), expected, "{name}: {:?}", turns);
        assert_eq!(outcome.acceptance.state, state, "{name}");
        if state == AcceptanceState::NotAccepted {
            assert_eq!(outcome.end, exhausted(Limit::Turns), "{name}");
            assert_eq!(
                (outcome.exit_code(), outcome.acceptance.level),
                (1, None),
                "{name}"
            );
        }
        assert_eq!(
            workspace.files().len(),
            2,
            "{name}: nothing but the task's files is there"
        );
    }
}

#[tokio::test]
async fn every_refusal_says_why_and_what_to_do() {
    let table = [
        (
            FINISH.to_owned(),
            "Your last action, finish, was not done: nothing has been checked; check first.",
        ),
        (
            write("test_amounts.py", ""),
            "Your last action, write test_amounts.py, was not done: test_amounts.py belongs to the check and may not be written.",
        ),
        (
            write("x.py", ""),
            "Your last action, write x.py, was not done: x.py may not be written; these may: amounts.py.",
        ),
        (
            r#"{"action":"check","name":"x"}"#.to_owned(),
            "Your last action, check x, was not done: there is no check \"x\"; the checks are unit.",
        ),
        (
            r#"{"action":"wite"}"#.to_owned(),
            "Your last answer was not used: there is no action \"wite\"; the actions are read, write, check and finish.",
        ),
        (
            read("amounts.py\0.txt"),
            "Your last answer was not used: the path \"amounts.py\\0.txt\" holds a control character.",
        ),
    ];
    for (reply, said) in table {
        let script = model([reply.clone(), read("amounts.py")]);
        let attempt = attempt(script, &pretending()).budget(Budget::default().turns(2));
        let (_, journal) = drive(attempt).await;
        let prompt = &prompts(&journal)[1];
        let lines: Vec<&str> = prompt.lines().rev().collect();
        assert_eq!(lines[1], said, "{reply}");
        assert_eq!(lines[0], "Next: read amounts.py.", "{reply}");
    }
}

#[tokio::test]
async fn what_is_done_clears_the_refusal() {
    let script = model([FINISH.to_owned(), read("amounts.py"), fix()]);
    let attempt = attempt(script, &pretending()).budget(Budget::default().turns(3));
    let (_, journal) = drive(attempt).await;
    let prompts = prompts(&journal);
    assert!(prompts[1].contains("was not done") && !prompts[2].contains("was not done"));
}

#[tokio::test]
async fn turns_are_counted_to_the_last_one() {
    for turns in [1, 2, 12] {
        let mut budget = Budget::default().turns(turns);
        budget.stuck_after = 100;
        let script = model(vec![read("amounts.py"); 20]);
        let (outcome, _) = drive(attempt(script, &pretending()).budget(budget)).await;
        assert_eq!((outcome.turns, outcome.calls), (turns, turns));
        assert_eq!(outcome.end, exhausted(Limit::Turns));
    }
}

#[tokio::test]
async fn the_same_action_on_the_same_files_is_told_and_then_ends_the_attempt() {
    let script = model(vec![read("amounts.py"); 12]);
    let workspace = pretending();
    let (outcome, journal) = drive(attempt(script, &workspace)).await;
    assert_eq!(
        results(&journal),
        [Done, Done, Refused, Refused, Refused, Refused]
    );
    assert_eq!((outcome.end, outcome.turns), (End::Stuck, 6));
    assert_eq!(workspace.calls(Operation::Get), 2);
    let told = &prompts(&journal)[3];
    assert!(told.contains("you have asked for this 3 times"), "{told}");

    let other = write("amounts.py", "def total(xs):\n    return 1\n");
    let wrong = write("amounts.py", WRONG);
    let script = [
        CHECK.to_owned(),
        other.clone(),
        CHECK.to_owned(),
        wrong,
        CHECK.to_owned(),
        other,
        CHECK.to_owned(),
    ];
    let (_, journal) =
        drive(attempt(model(script), &pretending()).budget(Budget::default().turns(7))).await;
    assert_eq!(
        results(&journal),
        [Fail, Done, Fail, Done, Fail, Done, Fail]
    );
}

#[tokio::test]
async fn replies_that_are_no_action_have_their_own_small_budget() {
    let prose = "All tests pass, done.".to_owned();
    let (outcome, _) = drive(attempt(model(vec![prose.clone(); 5]), &pretending())).await;
    assert_eq!(
        (outcome.end.clone(), outcome.turns),
        (exhausted(Limit::FormatErrors), 3)
    );
    assert_eq!(outcome.usage.known, Usage::new(300, 60));
    // An action in between, also one that is refused, starts the count anew.
    let script = [
        prose.clone(),
        prose.clone(),
        FINISH.to_owned(),
        prose.clone(),
        prose,
        read("../x"),
    ];
    let (outcome, _) =
        drive(attempt(model(script), &pretending()).budget(Budget::default().turns(6))).await;
    assert_eq!(outcome.end, exhausted(Limit::Turns));
}

#[tokio::test]
async fn an_answer_without_a_message_is_a_turn_and_no_action() {
    let empty = || Err(ModelError::new(ModelErrorKind::Empty, "no choices"));
    let script = ScriptedModel::of([empty(), reply(""), empty()]);
    let (outcome, journal) = drive(attempt(script, &pretending())).await;
    assert_eq!(
        (outcome.end, outcome.turns, outcome.calls),
        (exhausted(Limit::FormatErrors), 3, 3)
    );
    assert_eq!(results(&journal), [NotAnAction; 3]);
    assert_eq!(outcome.usage.unknown_calls, 2);
}

#[tokio::test]
async fn a_write_that_was_cut_off_is_not_done() {
    let cut = ModelReply::new(fix())
        .finish(Finish::Length)
        .usage(Usage::new(100, 20));
    let workspace = pretending();
    let attempt = attempt(ScriptedModel::of([Ok(cut), reply(CHECK)]), &workspace);
    let (outcome, journal) = drive(attempt.budget(Budget::default().turns(2))).await;
    assert_eq!(
        workspace.files().get(&path("amounts.py")).unwrap().bytes(),
        WRONG.as_bytes()
    );
    assert_eq!(results(&journal), [NotAnAction, Fail]);
    assert!(prompts(&journal)[1].contains("cut off at the limit of its length"));
    assert_eq!(outcome.usage.known.output, Some(40));
}

#[tokio::test]
async fn text_in_a_file_that_looks_like_an_action_is_text() {
    let task = Task::new("t", "x")
        .file("amounts.py", "# {\"action\":\"finish\"}\n")
        .unwrap();
    let script = model([
        read("amounts.py"),
        "I see {\"action\":\"finish\"} in the file.".to_owned(),
    ]);
    let attempt =
        Attempt::new(task, script, pretending(), acceptance(), paths()).allow_checks(true);
    let (_, journal) = drive(attempt.budget(Budget::default().turns(2))).await;
    assert_eq!(results(&journal), [Done, NotAnAction]);
}

#[tokio::test]
async fn a_limit_of_cost_holds_for_replies_that_are_no_action() {
    let reply = || Ok(ModelReply::new("not json").cost(Micros::new(40_000)));
    let limit =
        CostLimit::new(Micros::new(100_000)).unknown(OnUnknown::AssumeAtMost(Micros::new(40_000)));
    let mut budget = Budget::default().cost(limit);
    budget.format_errors_in_a_row = 10;
    let script = ScriptedModel::of((0..9).map(|_| reply()));
    let (outcome, _) = drive(attempt(script, &pretending()).budget(budget)).await;
    assert_eq!((outcome.end, outcome.calls), (exhausted(Limit::Cost), 2));
    assert_eq!(outcome.cost.known_micros, Micros::new(80_000));
}

#[tokio::test]
async fn tokens_and_checks_have_limits() {
    let budget = Budget::default().tokens(1450);
    let script = model([read("amounts.py"), fix(), CHECK.to_owned()]);
    let attempted = attempt(script, &pretending())
        .budget(budget)
        .max_output_tokens(1000);
    let (outcome, _) = drive(attempted).await;
    assert_eq!(outcome.end, exhausted(Limit::Tokens));
    assert_eq!(outcome.turns, 2);

    let budget = Budget {
        checks: Some(1),
        ..Budget::default()
    };
    let script = model([fix(), CHECK.to_owned(), fix(), CHECK.to_owned()]);
    let (outcome, journal) = drive(attempt(script, &pretending()).budget(budget)).await;
    assert_eq!(
        (outcome.end, outcome.checks.len()),
        (exhausted(Limit::Checks), 1)
    );
    assert_eq!(results(&journal), [Done, Pass, Done, Refused]);
}

#[tokio::test]
async fn a_write_never_overwrites_what_the_loop_has_not_seen() {
    let workspace = pretending();
    let outside = workspace.clone();
    let turn = std::sync::atomic::AtomicU32::new(0);
    let script = model_fn("outside change", move |_| {
        let turn = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if turn == 1 {
            outside.edit(|files| drop(files.insert(path("amounts.py"), File::new(*b"# theirs\n"))));
        }
        reply(
            [
                read("amounts.py"),
                fix(),
                read("amounts.py"),
                fix(),
                fix(),
                CHECK.to_owned(),
            ][turn as usize]
                .clone(),
        )
    });
    let attempt = Attempt::new(task(), script, workspace.clone(), acceptance(), paths());
    let (_, journal) = drive(
        attempt
            .allow_checks(true)
            .budget(Budget::default().turns(6)),
    )
    .await;
    assert_eq!(results(&journal), [Done, Refused, Done, Done, Done, Pass]);
    let prompts = prompts(&journal);
    assert!(prompts[2].contains("was changed by something else since you saw it; read it again"));
    assert!(prompts[2].ends_with("Next: read amounts.py.\n"));
    assert!(prompts[3].contains("--- amounts.py\n# theirs\n---"));
}

#[tokio::test]
async fn finish_compares_what_is_there_with_what_passed() {
    type Change = fn(&mut crate::Tree);
    let changes: [(Change, &str); 4] = [
        (
            |files| drop(files.insert(path("amounts.py"), File::new(*b"x"))),
            "amounts.py",
        ),
        (
            |files| drop(files.insert(path("test_amounts.py"), File::new(*b"x"))),
            "test_amounts.py",
        ),
        (
            |files| drop(files.insert(path("extra"), File::new(*b"x"))),
            "extra",
        ),
        (
            |files| drop(files.remove(&path("test_amounts.py"))),
            "test_amounts.py",
        ),
    ];
    for (change, named) in changes {
        let workspace = pretending();
        let outside = workspace.clone();
        let turn = std::sync::atomic::AtomicU32::new(0);
        let script = model_fn("outside change", move |_| {
            let turn = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if turn == 2 {
                outside.edit(change);
            }
            reply(
                [
                    fix(),
                    CHECK.to_owned(),
                    FINISH.to_owned(),
                    FINISH.to_owned(),
                ][turn as usize]
                    .clone(),
            )
        });
        let attempt = Attempt::new(task(), script, workspace, acceptance(), paths());
        let (outcome, journal) = drive(
            attempt
                .allow_checks(true)
                .budget(Budget::default().turns(4)),
        )
        .await;
        assert_eq!(results(&journal), [Done, Pass, Refused, Refused], "{named}");
        assert_eq!(outcome.acceptance.state, AcceptanceState::NotAccepted);
        let said = &turns(&journal)[2].said;
        assert!(
            said.contains(&format!("since the check passed: {named}")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_workspace_that_is_gone_ends_the_attempt_at_once() {
    let gone = WorkspaceError::Gone(Private::new("connection refused"));
    for (operation, script) in [
        (
            Operation::Get,
            vec![read("amounts.py"), read("test_amounts.py"), fix()],
        ),
        (
            Operation::Put,
            vec![read("amounts.py"), fix(), CHECK.to_owned()],
        ),
        (
            Operation::Exec,
            vec![fix(), CHECK.to_owned(), FINISH.to_owned()],
        ),
    ] {
        let nth = match operation {
            Operation::Put => 3,
            Operation::Get => 2,
            _ => 1,
        };
        let fault = Fault::new(operation, nth, FaultAt::Before, gone.clone());
        let (outcome, journal) = drive(attempt(model(script), &pretending().fault(fault))).await;
        assert!(
            matches!(outcome.end, End::WorkspaceFailed { .. }),
            "{operation:?}: {:?}",
            outcome.end
        );
        assert_eq!(
            (outcome.turns, outcome.exit_code()),
            (2, 3),
            "{operation:?}"
        );
        assert_eq!(outcome.acceptance.state, AcceptanceState::NotEvaluated);
        assert_eq!(results(&journal).last(), Some(&Failed));
    }
}

#[tokio::test]
async fn a_storage_error_is_told_without_its_detail_and_only_so_often() {
    let secret = || WorkspaceError::Failed(Private::new("/home/op/.config/token=abc"));
    let mut workspace = pretending();
    for nth in 3..=5 {
        workspace = workspace.fault(Fault::new(Operation::Put, nth, FaultAt::Before, secret()));
    }
    let other = write("amounts.py", "x = 1\n");
    let script = model([fix(), fix(), other, fix()]);
    let (outcome, journal) = drive(attempt(script, &workspace)).await;
    assert!(
        matches!(outcome.end, End::WorkspaceFailed { .. }),
        "{:?}",
        outcome.end
    );
    assert_eq!(results(&journal), [Failed; 3]);
    let prompt = &prompts(&journal)[1];
    assert!(
        prompt.contains("was not done: write failed: storage error (code WS-PUT)."),
        "{prompt}"
    );
    assert!(!prompts(&journal).concat().contains("/home/op"));
    assert!(!serde_json::to_string(&outcome).unwrap().contains("abc"));
}

#[tokio::test]
async fn an_uncertain_write_is_looked_at_and_not_guessed() {
    let lost = || WorkspaceError::Uncertain(Private::new("reset"));
    // Written or not, the file says it.
    for (at, gets, puts) in [(FaultAt::After, 1, 3), (FaultAt::Before, 1, 4)] {
        let workspace = pretending().fault(Fault::new(Operation::Put, 3, at, lost()));
        let script = model([fix(), CHECK.to_owned(), FINISH.to_owned()]);
        let (outcome, _) = drive(attempt(script, &workspace)).await;
        assert_eq!(outcome.end, End::Accepted, "{at:?}");
        assert_eq!(workspace.calls(Operation::Get), gets, "{at:?}");
        // Two files of the task, the write, and two for the copy of the check.
        assert_eq!(workspace.calls(Operation::Put), puts + 2, "{at:?}");
        assert_eq!(outcome.uncertain.len(), 1);
        assert!(outcome.uncertain[0].resolved);
    }
    // Lost twice, or not to be read: nobody knows.
    let twice = pretending()
        .fault(Fault::new(Operation::Put, 3, FaultAt::Before, lost()))
        .fault(Fault::new(Operation::Put, 4, FaultAt::Before, lost()));
    let unreadable = pretending()
        .fault(Fault::new(Operation::Put, 3, FaultAt::After, lost()))
        .fault(Fault::new(Operation::Get, 1, FaultAt::Before, lost()));
    for workspace in [twice, unreadable] {
        let (outcome, _) = drive(attempt(model([fix(), CHECK.to_owned()]), &workspace)).await;
        assert!(
            matches!(outcome.end, End::Uncertain { .. }),
            "{:?}",
            outcome.end
        );
        assert_eq!(
            (outcome.exit_code(), outcome.acceptance.state),
            (3, AcceptanceState::NotEvaluated)
        );
        assert!(outcome.uncertain.iter().any(|request| !request.resolved));
    }
}

#[tokio::test]
async fn a_check_whose_answer_was_lost_is_looked_up_and_never_started_again() {
    let lost = || {
        Fault::new(
            Operation::Exec,
            1,
            FaultAt::After,
            WorkspaceError::Uncertain(Private::new("reset")),
        )
    };
    let script = || model([fix(), CHECK.to_owned(), FINISH.to_owned()]);
    let blind = pretending().fault(lost());
    let (outcome, _) = drive(attempt(script(), &blind)).await;
    assert!(
        matches!(&outcome.end, End::Uncertain { request, .. } if request.as_str() == "amounts-1.2.1")
    );
    assert_eq!((blind.calls(Operation::Exec), outcome.exit_code()), (1, 3));
    assert_eq!(outcome.uncertain.len(), 1);
    assert!(outcome.checks.is_empty(), "no verdict comes from it");

    let seeing = pretending()
        .with_capabilities(|can| can.exec_lookup = true)
        .fault(lost());
    let (outcome, _) = drive(attempt(script(), &seeing)).await;
    assert_eq!(
        (outcome.end, seeing.calls(Operation::Exec)),
        (End::Accepted, 1)
    );
}

#[tokio::test]
async fn checks_without_a_verdict_end_the_attempt_early() {
    let broken = MemoryWorkspace::new(|_, _| {
        Ok(crate::ExecReceipt::exited(127).stderr("env: 'python3': No such file or directory\n"))
    });
    let script = model([fix(), CHECK.to_owned(), CHECK.to_owned(), FINISH.to_owned()]);
    let (outcome, journal) = drive(attempt(script, &broken)).await;
    assert_eq!(results(&journal), [Done, Invalid, Invalid]);
    let why = "the test command could not be started: env: 'python3': No such file or directory";
    assert_eq!(
        outcome.end,
        End::CheckInvalid {
            why: why.to_owned()
        }
    );
    assert_eq!(
        (outcome.exit_code(), outcome.acceptance.state),
        (3, AcceptanceState::Invalid)
    );

    let failing = pretending().fault(Fault::new(
        Operation::FreshDir,
        1,
        FaultAt::Before,
        WorkspaceError::Failed(Private::default()),
    ));
    let script = model([fix(), CHECK.to_owned(), CHECK.to_owned(), FINISH.to_owned()]);
    let (outcome, journal) = drive(attempt(script, &failing)).await;
    assert_eq!(results(&journal), [Done, Invalid, Pass, Accepted]);
    assert_eq!(
        outcome.checks[0].summary,
        "the check could not be carried out: storage error (code WS-CHECK)"
    );
}

#[tokio::test]
async fn a_fixture_that_is_changed_during_the_check_makes_it_invalid() {
    let cheating = MemoryWorkspace::new(|_, files| {
        files.insert(path("work/test_amounts.py"), File::new(*b""));
        Ok(pretended(b" sum(xs)"))
    });
    let (outcome, journal) = drive(attempt(model([CHECK, CHECK, FINISH]), &cheating)).await;
    assert_eq!(results(&journal), [Invalid, Invalid]);
    assert_eq!(
        outcome.checks[0].summary,
        "test_amounts.py belongs to the check and was changed while it ran"
    );
    let judged = journal
        .records()
        .into_iter()
        .find_map(|(record, _)| match record.event {
            Event::Judged(judged) => Some(judged),
            _ => None,
        });
    assert!(matches!(judged.unwrap().verdict, Verdict::Invalid { .. }));
}

#[tokio::test]
async fn policies_narrow_and_never_widen() {
    let deny_all = policy_fn(|_, action| match action {
        crate::Action::Write { .. } => Decision::deny("not today"),
        _ => Decision::Allow,
    });
    let allow_all = policy_fn(|_, _| Decision::Allow);
    let script = model([fix(), write("x.py", "")]);
    let attempted = attempt(script, &pretending())
        .policy(allow_all)
        .policy(deny_all);
    let (_, journal) = drive(attempted.budget(Budget::default().turns(2))).await;
    assert_eq!(results(&journal), [Refused, Refused]);
    assert_eq!(turns(&journal)[0].said, "not today");
    assert_eq!(
        turns(&journal)[1].said,
        "x.py may not be written; these may: amounts.py"
    );

    let stop = policy_fn(|context, _| match context.turn {
        2 => Decision::stop("enough"),
        _ => Decision::Allow,
    });
    let (outcome, _) =
        drive(attempt(model([fix(), CHECK.to_owned()]), &pretending()).policy(stop)).await;
    assert_eq!(
        outcome.end,
        End::PolicyStop {
            reason: "enough".to_owned()
        }
    );
    assert_eq!((outcome.turns, outcome.exit_code()), (2, 1));
}

#[tokio::test]
async fn a_byte_order_mark_is_kept_and_never_doubled() {
    let marked = |text: &str| format!("\u{feff}{text}");
    for content in [RIGHT.to_owned(), marked(RIGHT)] {
        let task = Task::new("t", "x")
            .file("amounts.py", marked(WRONG))
            .unwrap();
        let workspace = pretending();
        let script = model([write("amounts.py", &content)]);
        let attempt = Attempt::new(task, script, workspace.clone(), acceptance(), paths());
        drive(
            attempt
                .allow_checks(true)
                .budget(Budget::default().turns(1)),
        )
        .await;
        assert_eq!(
            workspace.files().get(&path("amounts.py")).unwrap().bytes(),
            marked(RIGHT).as_bytes()
        );
    }
}

#[tokio::test]
async fn a_mode_survives_a_write() {
    let workspace = pretending();
    workspace
        .edit(|files| drop(files.insert(path("amounts.py"), File::new(WRONG).executable(true))));
    let task = Task::new("t", "x");
    let attempt = Attempt::new(
        task,
        model([fix()]),
        workspace.clone(),
        acceptance(),
        paths(),
    );
    let (outcome, _) = drive(
        attempt
            .allow_checks(true)
            .budget(Budget::default().turns(1)),
    )
    .await;
    assert!(
        workspace
            .files()
            .get(&path("amounts.py"))
            .unwrap()
            .is_executable()
    );
    assert!(
        String::from_utf8(outcome.patch)
            .unwrap()
            .contains(" 100755\n")
    );
}

#[tokio::test]
async fn an_intent_is_kept_before_its_effect_and_a_receipt_after_it() {
    let script = model([
        read("amounts.py"),
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ]);
    let (_, journal) = drive(attempt(script, &pretending())).await;
    let kinds: Vec<(&str, bool)> = journal
        .records()
        .iter()
        .map(|(record, durability)| (record.event.kind(), *durability == Durability::Synced))
        .collect();
    let turn = |read_only: bool| {
        let synced = !read_only;
        vec![
            ("asked", false),
            ("replied", false),
            ("decided", false),
            ("intent", synced),
            ("receipt", synced),
        ]
    };
    let mut expected = vec![("started", false), ("intent", true), ("receipt", true)];
    expected.extend(turn(true));
    expected.push(("turn", false));
    expected.extend(turn(false));
    expected.push(("turn", false));
    expected.extend(turn(false));
    expected.extend([("judged", false), ("turn", false)]);
    expected.extend(turn(true));
    expected.extend([("turn", false), ("ended", true)]);
    assert_eq!(kinds, expected);
    let ids: Vec<String> = journal
        .records()
        .iter()
        .filter_map(|(record, _)| match &record.event {
            Event::Intent(intent) => Some(intent.id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        ids,
        [
            "amounts-1.0.0",
            "amounts-1.1.1",
            "amounts-1.2.1",
            "amounts-1.3.1",
            "amounts-1.4.1"
        ]
    );
}

#[tokio::test]
async fn the_offer_follows_the_state() {
    let offered = |journal: &MemoryJournal| -> Vec<String> {
        let words = |schema: &str| {
            let words = ["read", "write", "check", "finish"];
            words
                .into_iter()
                .filter(|word| schema.contains(&format!("\"enum\":[\"{word}\"]")))
                .collect::<Vec<_>>()
                .join(" ")
        };
        journal
            .records()
            .iter()
            .filter_map(|(record, _)| match &record.event {
                Event::Asked(asked) => Some(words(&asked.schema)),
                _ => None,
            })
            .collect()
    };
    let script = || {
        model([
            read("amounts.py"),
            write("amounts.py", "x = 1\n"),
            CHECK.to_owned(),
            fix(),
            CHECK.to_owned(),
            FINISH.to_owned(),
        ])
    };
    let (_, journal) = drive(attempt(script(), &pretending())).await;
    assert_eq!(
        offered(&journal),
        ["read", "write", "check", "write", "check", "finish"]
    );
    let (_, journal) = drive(attempt(script(), &pretending()).order(Order::Open)).await;
    assert_eq!(
        offered(&journal),
        [
            "read write",
            "read write",
            "read write check",
            "read write",
            "read write check",
            "read write finish"
        ]
    );
}

#[tokio::test]
async fn twelve_turns_with_full_observations_fit_a_window_of_8192_tokens() {
    let long =
        |letter: &str, len: usize| format!("{}\n", format!("{letter} = 12345\n").repeat(len / 10));
    let mut task = Task::new(
        "long",
        "Make total(xs) return the sum, and keep everything else as it is. ".repeat(4),
    );
    let mut replies = Vec::new();
    for at in 0..6 {
        let name = format!("f{at}.py");
        task = task.file(&name, long("a", 9000)).unwrap();
        replies.push(read(&name));
        replies.push(write(&name, &long("b", 9000)));
    }
    let noisy = MemoryWorkspace::new(|_, _| Ok(crate::ExecReceipt::exited(1)));
    struct Noisy;
    impl crate::Acceptance for Noisy {
        fn revision(&self) -> crate::Digest {
            crate::Digest::of(b"noisy")
        }
        fn names(&self) -> Vec<String> {
            vec!["unit".to_owned()]
        }
        fn plan(&self, _: &str) -> Option<crate::CheckPlan> {
            Some(crate::CheckPlan::new(
                crate::Stage::new(crate::ExecSpec::new(["true"])),
                crate::Level::ExitCode,
            ))
        }
        fn judge(&self, _: &crate::Evidence<'_>) -> Verdict {
            Verdict::fail("- failed: 0123456789\n".repeat(1000))
        }
    }
    replies.insert(4, CHECK.to_owned());
    // Refusals at their longest stand in each later prompt as well.
    replies.insert(5, write(&"x".repeat(3000), ""));
    replies.truncate(12);
    let names: Vec<String> = (0..6).map(|at| format!("f{at}.py")).collect();
    let attempt = Attempt::new(
        task,
        model(replies),
        noisy,
        Noisy,
        Paths::editable(names).unwrap(),
    );
    let (outcome, journal) = drive(attempt.allow_checks(true).order(Order::Open)).await;
    assert_eq!(outcome.turns, 12);
    let estimates: Vec<u64> = journal
        .records()
        .iter()
        .filter_map(|(record, _)| match &record.event {
            Event::Asked(asked) => Some(asked.estimated_tokens),
            _ => None,
        })
        .collect();
    let largest = estimates.iter().max().unwrap() + 1024;
    println!(
        "largest prompt and reply, at a token for three bytes: {largest}; prompts: {estimates:?}"
    );
    assert!(largest < 8192, "{largest}");
    assert!(
        *estimates.iter().max().unwrap() > 3000,
        "the test must come near the limit: {estimates:?}"
    );
}

#[tokio::test]
async fn a_question_before_a_write_has_its_intent_with_both_digests() {
    let (_, journal) =
        drive(attempt(model([fix()]), &pretending()).budget(Budget::default().turns(1))).await;
    let put = journal
        .records()
        .into_iter()
        .find_map(|(record, _)| match record.event {
            Event::Intent(intent) => match intent.effect {
                Intended::Put {
                    before, after, len, ..
                } => Some((before, after, len)),
                _ => None,
            },
            _ => None,
        });
    let before = crate::workspace::Precondition::Is(crate::Digest::of(WRONG.as_bytes()));
    assert_eq!(
        put,
        Some((
            before,
            crate::Digest::of(RIGHT.as_bytes()),
            RIGHT.len() as u64
        ))
    );
}

#[tokio::test]
async fn a_pause_is_as_long_as_the_server_asks() {
    let throttled = |wait| {
        Err(ModelError::new(ModelErrorKind::RateLimited, "429")
            .retry_after(Duration::from_secs(wait)))
    };
    let clock = JumpingClock::with_chance(0.5);
    let script = ScriptedModel::of([
        throttled(7),
        Err(ModelError::new(ModelErrorKind::Overloaded, "503")),
        reply(FINISH),
    ]);
    let attempted = attempt(script, &pretending())
        .budget(Budget::default().turns(1))
        .clock(clock.clone());
    let outcome = attempted.drive().await.unwrap();
    // The chance part is half of one second, then half of two.
    assert_eq!(
        clock.sleeps(),
        [Duration::from_secs(7), Duration::from_secs(1)]
    );
    assert_eq!((outcome.turns, outcome.calls), (1, 3));
    assert_eq!(outcome.latency.backoff, Duration::from_secs(8));

    let clock = JumpingClock::default();
    let script = ScriptedModel::of([throttled(7), reply(FINISH)]);
    let budget = Budget::default().wall(Duration::from_secs(5));
    let outcome = attempt(script, &pretending())
        .budget(budget)
        .clock(clock.clone())
        .drive()
        .await
        .unwrap();
    assert!(matches!(
        outcome.end,
        End::ModelFailed {
            kind: ModelErrorKind::RateLimited,
            ..
        }
    ));
    assert_eq!((clock.sleeps().len(), outcome.exit_code()), (0, 3));
}

#[tokio::test]
async fn a_model_is_asked_four_times_at_most_and_not_again_where_that_is_vain() {
    let error = |kind| Err(ModelError::new(kind, "x"));
    let script = ScriptedModel::of((0..9).map(|_| error(ModelErrorKind::Transport)));
    let (outcome, _) = drive(attempt(script, &pretending())).await;
    assert!(matches!(
        outcome.end,
        End::ModelFailed {
            kind: ModelErrorKind::Transport,
            ..
        }
    ));
    assert_eq!(
        (outcome.turns, outcome.calls, outcome.usage.unknown_calls),
        (0, 4, 4)
    );
    for kind in [
        ModelErrorKind::Auth,
        ModelErrorKind::BadRequest,
        ModelErrorKind::Refused,
    ] {
        let (outcome, _) = drive(attempt(ScriptedModel::of([error(kind)]), &pretending())).await;
        assert_eq!(outcome.calls, 1, "{kind}");
        assert_eq!(outcome.acceptance.state, AcceptanceState::NotEvaluated);
    }
    let (outcome, _) = drive(attempt(
        ScriptedModel::of([error(ModelErrorKind::ContextTooLong)]),
        &pretending(),
    ))
    .await;
    assert_eq!((outcome.end, outcome.calls), (End::ContextTooLong, 1));
}

#[tokio::test]
async fn every_turn_has_a_seed_of_its_own() {
    let script = model([read("amounts.py"), fix()]);
    let (_, journal) = drive(
        attempt(script, &pretending())
            .seed(4)
            .budget(Budget::default().turns(2)),
    )
    .await;
    let seeds: Vec<Option<u64>> = journal
        .records()
        .iter()
        .filter_map(|(record, _)| match &record.event {
            Event::Asked(asked) => Some(asked.seed),
            _ => None,
        })
        .collect();
    assert_eq!(seeds, [Some(4000), Some(4001)]);
}
