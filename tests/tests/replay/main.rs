//! Every recorded request of the Python client, as it was on the wire, against the whole service:
//! through the gateway's path, by a client that knows nothing but HTTP and WebSocket.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests; a failure is a failed test"
)]

mod answers;
mod raw;
mod recorded;
mod shape;
mod socket;
mod stage;

use crate::answers::{NOT_AS_RECORDED, wanted};
use crate::recorded::recorded;
use crate::stage::Stage;

#[tokio::test]
async fn every_recorded_request_is_answered_as_the_document_says() {
    let rows = recorded();
    let (sent, kept): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.method.is_some());
    // What the Python client refuses by itself is no business of a service.
    assert!(
        kept.iter().all(|row| row.note.starts_with("no request is")),
        "a case without a request has to say so"
    );
    let mut stage = Stage::start().await;
    let mut wrong = Vec::new();
    let mut case = "";
    for row in &sent {
        if row.call_of_case() != case {
            case = row.call_of_case();
            stage.reset(row).await;
        }
        if let Err(problem) = stage.play(row, wanted(&row.case)).await {
            wrong.push(format!("{}: {problem}", row.case));
        }
    }
    let answered = sent.len() - wrong.len();
    println!(
        "answered {answered} of {}; {} cases make no request",
        sent.len(),
        kept.len()
    );
    for (case, reason) in NOT_AS_RECORDED {
        assert!(sent.iter().any(|row| row.case == case), "{case} is gone");
        println!("  {case}: {reason}");
    }
    assert_eq!(answered, sent.len(), "\n{}", wrong.join("\n"));
    assert_eq!((sent.len(), kept.len()), (213, 19));
}

/// The same case from the blocking and from the async client is one case of the table.
#[test]
fn every_case_has_its_answer_in_the_table() {
    for row in recorded().iter().filter(|row| row.method.is_some()) {
        let _found = wanted(&row.case);
    }
}
