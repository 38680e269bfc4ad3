//! Budgets, repetitions, and calls of the model that fail.

use std::time::Duration;

use super::{drive, exhausted};
use crate::budget::{Budget, CostLimit, Micros, OnUnknown};
use crate::journal::TurnResult::{Done, Fail, NotAnAction, Pass, Refused};
use crate::model::{ModelError, ModelErrorKind, ModelReply, ScriptedModel, Usage};
use crate::outcome::{AcceptanceState, End, Limit};
use crate::test_kit::{
    CHECK, FINISH, JumpingClock, WRONG, attempt, fix, model, pretending, prompts, read, reply,
    results, write,
};
use crate::workspace::Operation;

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
