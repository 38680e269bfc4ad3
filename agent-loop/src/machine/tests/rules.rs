//! The rules of the loop, as tables of replies.

use super::{drive, exhausted};
use crate::acceptance::Verdict;
use crate::budget::Budget;
use crate::journal::TurnResult::{Accepted, Done, Fail, Invalid, NotAnAction, Pass, Refused};
use crate::journal::{Event, TurnResult};
use crate::manifest::File;
use crate::model::{Finish, ModelReply, ScriptedModel, Usage, model_fn};
use crate::outcome::{AcceptanceState, End, Limit};
use crate::policy::{Decision, policy_fn};
use crate::test_kit::{
    CHECK, FINISH, RIGHT, WRONG, acceptance, attempt, fix, model, path, paths, pretended,
    pretending, prompts, read, reply, results, task, turns, write,
};
use crate::workspace::MemoryWorkspace;
use crate::{Attempt, Task};

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
async fn line_ends_are_bytes_like_others() {
    let windows = |text: &str| text.replace('\n', "\r\n");
    let task = Task::new("t", "x")
        .file("amounts.py", windows(WRONG))
        .unwrap();
    let workspace = pretending();
    let fixed = write("amounts.py", &windows(RIGHT));
    let script = model([fixed, CHECK.to_owned(), FINISH.to_owned()]);
    let attempt = Attempt::new(task, script, workspace, acceptance(), paths());
    let (outcome, _) = drive(attempt.allow_checks(true)).await;
    assert_eq!(outcome.end, End::Accepted);
    let patch = String::from_utf8(outcome.patch).unwrap();
    assert!(
        patch.ends_with(" def total(xs):\r\n-    return 0\r\n+    return sum(xs)\r\n"),
        "{patch}"
    );
}
