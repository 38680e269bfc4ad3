//! A workspace that fails, and answers that are lost.

use super::drive;
use crate::Private;
use crate::journal::TurnResult::{Accepted, Done, Failed, Invalid, Pass, Refused};
use crate::outcome::{AcceptanceState, End};
use crate::test_kit::{
    CHECK, FINISH, attempt, fix, model, pretending, prompts, read, results, write,
};
use crate::workspace::{Fault, FaultAt, MemoryWorkspace, Operation, WorkspaceError};

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
    let secret = || WorkspaceError::Failed(Private::new("/home/op/.config/token=zyxw"));
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
    assert!(!serde_json::to_string(&outcome).unwrap().contains("zyxw"));
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

    assert_eq!(
        blind.calls(Operation::Lookup),
        0,
        "it says that it cannot tell"
    );

    // The first question after it gets no answer either.
    let busy = WorkspaceError::Failed(Private::default());
    let seeing = pretending()
        .with_capabilities(|can| can.exec_lookup = true)
        .fault(lost())
        .fault(Fault::new(Operation::Lookup, 1, FaultAt::Before, busy));
    let (outcome, _) = drive(attempt(script(), &seeing)).await;
    assert_eq!(
        (outcome.end, seeing.calls(Operation::Exec)),
        (End::Accepted, 1)
    );
    assert_eq!(seeing.calls(Operation::Lookup), 2);

    // What was surely never started gives no verdict, and the next check may.
    let reset = WorkspaceError::Uncertain(Private::new("reset"));
    let refused = pretending()
        .with_capabilities(|can| can.exec_lookup = true)
        .fault(Fault::new(Operation::Exec, 1, FaultAt::Before, reset));
    let again = model([fix(), CHECK.to_owned(), CHECK.to_owned(), FINISH.to_owned()]);
    let (outcome, journal) = drive(attempt(again, &refused)).await;
    assert_eq!(results(&journal), [Done, Invalid, Pass, Accepted]);
    assert!(outcome.uncertain.is_empty());
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
async fn what_fails_after_a_pass_destroys_it_too() {
    let failed = || WorkspaceError::Failed(Private::default());
    // Two files of the task, the write, two for the copy of the check: the next one is the sixth.
    let write = Fault::new(Operation::Put, 6, FaultAt::Before, failed());
    let check = Fault::new(Operation::FreshDir, 2, FaultAt::Before, failed());
    let table = [
        (write, fix(), [Done, Pass, Failed, Refused, Pass, Accepted]),
        (
            check,
            CHECK.to_owned(),
            [Done, Pass, Invalid, Refused, Pass, Accepted],
        ),
    ];
    for (fault, again, expected) in table {
        let script = [
            fix(),
            CHECK.to_owned(),
            again,
            FINISH.to_owned(),
            CHECK.to_owned(),
            FINISH.to_owned(),
        ];
        let attempt = attempt(model(script), &pretending().fault(fault));
        let (_, journal) = drive(attempt).await;
        assert_eq!(results(&journal), expected);
    }
}
