//! A program that is ended in the middle of a case, and another one that goes on.

use std::fs;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, pending};
use tempfile::TempDir;

use super::{Places, evaluation, number, suite_of};
use crate::budget::{Budget, Micros};
use crate::evaluation::{Candidate, CaseReport, Decision, Progress, SuiteReport};
use crate::model::{Model, ModelError, ModelReply, ModelRequest};
use crate::private::Private;
use crate::test_kit::{CHECK, FINISH, fix, read, write};
use crate::workspace::{Fault, FaultAt, Operation, WorkspaceError};

/// So many turns are in the script.
const TURNS: usize = 6;

/// Says the reply of its turn for 30 millionths, and one of them never.
struct ByTurn {
    case: usize,
    /// The case and the turn of which nothing is ever said.
    never: Option<(usize, usize)>,
}

impl Model for ByTurn {
    fn name(&self) -> &str {
        "by turn"
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        let wrong = write("amounts.py", "def total(xs):\n    return 1\n");
        let check = || CHECK.to_owned();
        let script: [String; TURNS] = [
            read("amounts.py"),
            wrong,
            check(),
            fix(),
            check(),
            FINISH.to_owned(),
        ];
        let turn = request.id.as_str().rsplit('.').nth(1).unwrap();
        let turn: usize = turn.parse().unwrap();
        if self.never == Some((self.case, turn)) {
            return pending().boxed();
        }
        let reply = ModelReply::new(&script[turn - 1]).cost(Micros::new(30));
        std::future::ready(Ok(reply)).boxed()
    }
}

fn by_turn(never: Option<(usize, usize)>) -> Candidate {
    let candidate = Candidate::new("base", move |case| {
        let case = number(case.id());
        Arc::new(ByTurn { case, never })
    });
    let budget = Budget::default().turns(u32::try_from(TURNS).unwrap());
    let candidate = candidate.unwrap();
    candidate.configure(move |attempt| attempt.budget(budget.clone()))
}

/// Three cases of which the second is broken off, in a folder and places that outlive the program.
struct Broken {
    suite: TempDir,
    out: TempDir,
    places: Places,
}

impl Broken {
    /// Runs until nothing happens any more but waiting, and ends the program there.
    async fn by(candidate: Candidate, places: Places) -> Self {
        Self::on(suite_of(3), candidate, places).await
    }

    async fn on(suite: TempDir, candidate: Candidate, places: Places) -> Self {
        let broken = Self {
            suite,
            out: tempfile::tempdir().unwrap(),
            places,
        };
        let run = evaluation(&broken.suite, &broken.out, &broken.places)
            .candidate(candidate)
            .run();
        let run = tokio::time::timeout(Duration::from_secs(1), run).await;
        assert!(run.is_err(), "it came to its end");
        broken
    }

    /// Runs again, and tells which tries began and which of them went on.
    async fn goes_on(&self, candidate: Candidate) -> (SuiteReport, Vec<(String, u32, bool)>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let report = evaluation(&self.suite, &self.out, &self.places)
            .candidate(candidate)
            .on_progress(move |progress| {
                if let Progress::Began {
                    case,
                    attempt,
                    resumed,
                    ..
                } = progress
                {
                    let began = ((*case).to_owned(), *attempt, *resumed);
                    tell.lock().unwrap().push(began);
                }
            })
            .run()
            .await
            .unwrap();
        let began = std::mem::take(&mut *told.lock().unwrap());
        (report, began)
    }

    /// Writes and commands in the place of the try with this id.
    fn effects(&self, id: &str) -> (u32, u32) {
        let kept = self.places.kept.as_ref().unwrap().lock().unwrap();
        let place = &kept[id];
        (place.written(), place.calls(Operation::Exec))
    }
}

fn found_again() -> Places {
    Places {
        kept: Some(Arc::default()),
        ..Places::default()
    }
}

/// What must be the same however often a program was ended.
fn same(case: &CaseReport) -> (Decision, &str, u32, Micros, Vec<(u32, &str)>) {
    let checks = case.checks.iter();
    let checks = checks.map(|check| (check.turn, check.verdict.as_str()));
    (
        case.decision,
        &case.observed,
        case.turns,
        case.whole_cost().known_micros,
        checks.collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_case_that_was_broken_off_goes_on_in_its_place_and_repeats_nothing() {
    let whole = Broken {
        suite: suite_of(3),
        out: tempfile::tempdir().unwrap(),
        places: found_again(),
    };
    let (reference, _) = whole.goes_on(by_turn(None)).await;
    let reference = reference.candidate("base").unwrap();
    assert_eq!(reference.counts.pass, 3);
    assert_eq!(whole.effects("base:c01-1"), (4, 2));

    for turn in 1..=TURNS {
        let lost = by_turn(Some((1, turn))).resumable(true);
        let broken = Broken::by(lost, found_again()).await;
        let (report, began) = broken.goes_on(by_turn(None).resumable(true)).await;
        assert_eq!(began, [("c01".to_owned(), 1, true)], "turn {turn}");
        let base = report.candidate("base").unwrap();
        for (case, as_it_was) in base.cases.iter().zip(&reference.cases) {
            assert_eq!(same(case), same(as_it_was), "turn {turn}");
        }
        let case = base.case("c01").unwrap();
        assert_eq!((case.attempt, case.resumed), (1, 1), "turn {turn}");
        assert_eq!(case.earlier, []);
        // The call whose reply was lost is paid for, and nobody knows how much.
        assert_eq!((case.calls, case.cost.unknown_calls), (7, 1));
        assert_eq!(base.cost.unknown_calls, 1);
        assert_eq!(broken.effects("base:c01-1"), (4, 2), "turn {turn}");
        let (places, stopped) = (broken.places.made(), &broken.places.stopped);
        assert_eq!((places, stopped.load(Ordering::SeqCst)), (3, 3));
        // What went on is as good as what was never broken off.
        let (again, began) = broken.goes_on(by_turn(None).resumable(true)).await;
        assert_eq!((began.len(), &again.candidates), (0, &report.candidates));
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_or_a_write_that_was_on_its_way_is_found_and_not_repeated() {
    for (operation, nth) in [
        (Operation::Put, 3),
        (Operation::Exec, 1),
        (Operation::Exec, 2),
    ] {
        let mut places = found_again();
        let hang = Fault::hang(operation, nth, FaultAt::After);
        places.faults.insert("base:c01-1", hang);
        let candidate = || by_turn(None).resumable(true);
        let broken = Broken::by(candidate(), places).await;
        let (report, began) = broken.goes_on(candidate()).await;
        assert_eq!(began, [("c01".to_owned(), 1, true)]);
        let base = report.candidate("base").unwrap();
        let case = base.case("c01").unwrap();
        assert_eq!((case.decision, case.resumed), (Decision::Pass, 1));
        // No call of the model was lost.
        assert_eq!((case.calls, case.cost.known_micros), (6, Micros::new(180)));
        assert_eq!(base.cost.unknown_calls, 0);
        assert_eq!(broken.effects("base:c01-1"), (4, 2), "{operation:?} {nth}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_go_on_is_made_anew_and_the_lost_half_is_paid_for() {
    let gone = |broken: &mut Broken| {
        let kept = broken.places.kept.as_ref().unwrap().lock().unwrap();
        let place = kept["base:c01-1"].clone();
        let next = place.calls(Operation::List) + 1;
        let gone = WorkspaceError::Gone(Private::new("evicted"));
        drop(place.fault(Fault::new(Operation::List, next, FaultAt::Before, gone)));
    };
    let lost = |broken: &mut Broken| {
        let kept = broken.places.kept.as_ref().unwrap();
        kept.lock().unwrap().clear();
    };
    let another = |broken: &mut Broken| broken.places.uuid = Some("another");
    let nothing = |_: &mut Broken| {};
    type Between<'a> = &'a dyn Fn(&mut Broken);
    let table: [(bool, Between<'_>, usize, &str); 4] = [
        (false, &nothing, 4, "its candidate is not resumable"),
        (true, &lost, 3, "its place is not there any more"),
        (true, &gone, 4, "its place is gone"),
        (
            true,
            &another,
            4,
            "the journal is of another attempt: its workspace is not the same",
        ),
    ];
    for (resumable, between, stopped, why) in table {
        let lost = by_turn(Some((1, 4))).resumable(resumable);
        let mut broken = Broken::by(lost, found_again()).await;
        between(&mut broken);
        let (report, began) = broken.goes_on(by_turn(None).resumable(resumable)).await;
        let last = began.last().unwrap();
        assert_eq!(last, &("c01".to_owned(), 2, false), "{why}");
        let base = report.candidate("base").unwrap();
        let case = base.case("c01").unwrap();
        assert_eq!(
            (case.decision, case.attempt, case.resumed),
            (Decision::Pass, 2, 0)
        );
        let [half] = &case.earlier[..] else {
            panic!("{:?}", case.earlier);
        };
        let began = "it was broken off: the attempt has no end: ";
        assert!(half.why.starts_with(began), "{}", half.why);
        let end = format!("; it was not resumed: {why}");
        assert!(half.why.ends_with(&end), "{}", half.why);
        let places = &broken.places;
        let ended = places.stopped.load(Ordering::SeqCst);
        assert_eq!((places.made(), ended), (4, stopped), "{why}");
        // Why it was given up is in its folder, so another program tells the same.
        let (again, began) = broken.goes_on(by_turn(None).resumable(resumable)).await;
        assert_eq!((began.len(), &again.candidates), (0, &report.candidates));
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_being_made_is_ended_before_there_is_another() {
    let mut places = found_again();
    places.untold = Some("base:c01-1");
    let mut broken = Broken::by(by_turn(None).resumable(true), places).await;
    let said = broken.out.path().join("base/c01/1/workspace.json");
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("\"name\": \"base:c01-1\""), "{said}");
    broken.places.untold = None;
    let (report, began) = broken.goes_on(by_turn(None).resumable(true)).await;
    assert_eq!(began, [("c01".to_owned(), 2, false)]);
    let base = report.candidate("base").unwrap();
    let case = base.case("c01").unwrap();
    assert_eq!(case.decision, Decision::Pass);
    assert_eq!(case.earlier[0].why, "it never began");
    assert_eq!(case.whole_cost().known_micros, Micros::new(180));
    let (made, ended) = (broken.places.made(), &broken.places.stopped);
    assert_eq!((made, ended.load(Ordering::SeqCst)), (4, 4));
    let (again, _) = broken.goes_on(by_turn(None).resumable(true)).await;
    assert_eq!(again.candidates, report.candidates);
}

#[tokio::test(start_paused = true)]
async fn a_half_that_nobody_can_read_has_a_cost_that_nobody_knows_and_its_place_is_ended() {
    let broken = Broken::by(by_turn(Some((1, 4))), found_again()).await;
    let journal = broken.out.path().join("base/c01/1/actions.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let damaged = text.replacen("\"replied\"", "\"replies\"", 1);
    assert_ne!(text, damaged);
    fs::write(journal, damaged).unwrap();
    let (report, began) = broken.goes_on(by_turn(None).resumable(true)).await;
    assert_eq!(began, [("c01".to_owned(), 2, false)]);
    let base = report.candidate("base").unwrap();
    let half = &base.case("c01").unwrap().earlier[0];
    assert!(half.why.starts_with("its evidence is refused"), "{half:?}");
    assert_eq!((half.calls, half.cost.unknown_calls), (0, 1));
    let places = &broken.places;
    let (stopped, alive) = (&places.stopped, &places.in_use);
    assert_eq!((places.made(), stopped.load(Ordering::SeqCst)), (4, 4));
    // At no time more than of a run that was never broken off.
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!(base.cost.unknown_calls, 1);
    assert_eq!(base.cost.per_accepted_micros, None);
}

#[tokio::test(start_paused = true)]
async fn the_sum_of_a_case_that_was_made_anew_has_both_halves() {
    let broken = Broken::by(by_turn(Some((1, 4))), found_again()).await;
    let (report, _) = broken.goes_on(by_turn(None)).await;
    let base = report.candidate("base").unwrap();
    let case = base.case("c01").unwrap();
    // Three replies and a question before, six replies after.
    let half = &case.earlier[0];
    assert_eq!((half.calls, half.cost.known_micros), (4, Micros::new(90)));
    assert_eq!(half.cost.unknown_calls, 1);
    let whole = case.whole_cost();
    assert_eq!(
        (whole.known_micros, whole.unknown_calls),
        (Micros::new(270), 1)
    );
    assert_eq!(base.cost.known_micros, Micros::new(270 + 180 + 180));
    assert_eq!(base.cost.unknown_calls, 1);
}

#[tokio::test]
async fn a_place_whose_end_nobody_has_confirmed_is_ended_before_there_is_another() {
    for (unconfirmed, stopped) in [(true, 6), (false, 3)] {
        let mut broken = Broken {
            suite: suite_of(3),
            out: tempfile::tempdir().unwrap(),
            places: found_again(),
        };
        broken.places.unconfirmed = unconfirmed;
        broken.goes_on(by_turn(None)).await;
        let ended = &broken.places.stopped;
        assert_eq!((broken.places.made(), ended.load(Ordering::SeqCst)), (3, 3));
        let other = by_turn(None).configure(|attempt| attempt.budget(Budget::default()));
        let (report, began) = broken.goes_on(other).await;
        assert_eq!((began.len(), report.candidates[0].counts.pass), (3, 3));
        // Those before, where they may still be there, and those of the new tries.
        let ended = broken.places.stopped.load(Ordering::SeqCst);
        assert_eq!((broken.places.made(), ended), (6, 3 + stopped));
    }
}

#[tokio::test(start_paused = true)]
async fn the_fresh_place_of_a_check_is_ended_with_the_try_that_is_given_up() {
    let mut places = found_again();
    let check = "base:c01-1.3.1";
    places
        .faults
        .insert(check, Fault::hang(Operation::Exec, 1, FaultAt::After));
    let suite = suite_of(3);
    let task = suite.path().join("cases/c01/task.json");
    let text = fs::read_to_string(&task).unwrap();
    let fresh = text.replace("\"count\":2", "\"count\":2,\"fresh\":true");
    assert_ne!(text, fresh);
    fs::write(task, fresh).unwrap();
    let broken = Broken::on(suite, by_turn(None), places).await;
    let (report, began) = broken.goes_on(by_turn(None)).await;
    assert_eq!(began, [("c01".to_owned(), 2, false)]);
    assert_eq!(report.candidates[0].counts.pass, 3);
    let (made, ended) = (broken.places.made(), &broken.places.stopped);
    // A place for each try, and one for each check of the second case, of which one was lost.
    assert_eq!((made, ended.load(Ordering::SeqCst)), (4 + 3, 4 + 3));
}
