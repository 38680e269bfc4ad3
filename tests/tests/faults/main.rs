//! What an error says of its effect, against what the service did: every operation that changes
//! something, with its connection cut, reset, stalled and split at the borders of bytes of its
//! request and of its answer.
//!
//! A sample of the borders by default; all of them with `POLYAXON_FAULTS=all`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests; a failure is a failed test"
)]

mod cases;
mod matrix;
mod message;
mod operations;
mod proxy;
mod stage;
mod whole;

use futures::{StreamExt as _, stream};
use polyaxon_client::Effect;

use crate::cases::{Case, Kind};
use crate::matrix::{Matrix, Outcome};
use crate::operations::Op;
use crate::proxy::{Proxy, Seen};
use crate::stage::Stage;

/// How many cases are under way at once. Most of them wait.
const AT_ONCE: usize = 48;
/// The fewest cases that say something.
const ENOUGH: usize = 2_000;

/// A case, and how it went for its caller.
struct Went {
    case: Case,
    number: usize,
    outcome: Outcome,
    connections: usize,
    /// Of the last connection; where nothing goes wrong, of the one that carried the call.
    seen: Seen,
    error: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_says_what_the_service_did() {
    let stage = Stage::start().await;
    let mut cases = Vec::new();
    for op in Op::ALL {
        let number = cases.len();
        let plain = run(&stage, number, Case::plain(op)).await;
        assert_eq!(plain.outcome, Outcome::Ok, "{op:?}: {}", plain.error);
        cases.push(Case::plain(op));
        cases.extend(Case::of(op, &plain.seen, all()));
    }
    let faulty = cases.into_iter().enumerate();
    let faulty = faulty.filter(|(_, case)| !case.is_plain());
    let went: Vec<Went> = stream::iter(faulty)
        .map(|(number, case)| run(&stage, number, case))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;

    stage.settle().await;
    let mut matrix = Matrix::default();
    let mut wrong = Vec::new();
    for went in &went {
        let done = stage.done(went.case.op, went.number).await;
        matrix.count(went.case.op, went.outcome, done);
        if let Err(why) = judge(went, done) {
            let Went {
                case, seen, error, ..
            } = went;
            wrong.push(format!("{case:?}: {why}; {seen:?}; {error}"));
        }
    }
    println!("{matrix}");
    assert!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        went.len()
    );
    assert!(went.len() >= ENOUGH, "{} cases", went.len());
}

/// Whether every border is wanted.
fn all() -> bool {
    std::env::var_os("POLYAXON_FAULTS").is_some_and(|which| which == "all")
}

/// What has to hold of each case.
fn judge(went: &Went, done: usize) -> Result<(), &'static str> {
    let Seen {
        request,
        whole_answer,
        ..
    } = went.seen;
    // Who gives up waiting can do so while the answer arrives.
    let whole_answer = whole_answer && !matches!(went.case.kind, Kind::Stall(_));
    match (went.outcome, done) {
        (_, 2..) => return Err("it was done twice"),
        (Outcome::Failed(Effect::NotApplied), 1) => return Err("it was done all the same"),
        (Outcome::Failed(Effect::Applied) | Outcome::Ok, 0) => return Err("it was not done"),
        _ => {}
    }
    if went.outcome == Outcome::Failed(Effect::Unknown) {
        if whole_answer {
            return Err("a whole answer came, and its effect is called unknown");
        }
        // Without a byte read here the caller can have written one: the connection stood.
        if request == 0 && went.connections == 0 {
            return Err("nothing was sent, and its effect is called unknown");
        }
    }
    if went.case.kind == Kind::Split && went.outcome != Outcome::Ok {
        return Err("pieces are no fault");
    }
    if whole_answer && went.outcome != Outcome::Ok {
        return Err("a whole answer came, and was not taken");
    }
    Ok(())
}

async fn run(stage: &Stage, number: usize, case: Case) -> Went {
    stage.prepare(case.op, number).await;
    let proxy = Proxy::start(stage.address(case.op), case.fault());
    let result = stage.call(&case, number, proxy.address()).await;
    let seen = proxy.end().await;
    stage.finish(case.op, number).await;
    let error = result.as_ref().err().map(sentence).unwrap_or_default();
    let of = match case.is_plain() {
        // A second one is only made where the first is not free again at once; it may carry nothing.
        true => seen.iter().max_by_key(|seen| seen.request),
        false => seen.last(),
    };
    Went {
        outcome: match result {
            Ok(()) => Outcome::Ok,
            Err(error) => Outcome::Failed(error.effect()),
        },
        connections: seen.len(),
        seen: of.copied().unwrap_or_default(),
        case,
        number,
        error,
    }
}

fn sentence(error: &polyaxon_sandbox::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
