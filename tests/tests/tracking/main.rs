//! Tracked runs beside the recorded runs of the Python module.

use std::path::Path;

use polyaxon_tests::recorded::cases;

/// How much is the same. It only grows.
const FILES: (usize, usize) = (205, 254);
const REQUESTS: (usize, usize) = (187, 201);

#[tokio::test]
async fn the_same_calls_make_the_same_files_and_requests_but_for_named_reasons() {
    let program = Path::new(env!("CARGO_BIN_EXE_tracking_report"));
    let (mut files, mut requests) = ((0, 0), (0, 0));
    let mut unknown = Vec::new();
    for case in cases() {
        let outcome = case.run(program).await;
        files = (files.0 + outcome.files.0, files.1 + outcome.files.1);
        requests = (
            requests.0 + outcome.requests.0,
            requests.1 + outcome.requests.1,
        );
        unknown.extend(
            outcome
                .unknown
                .into_iter()
                .map(|what| format!("{}: {what}", outcome.case)),
        );
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert_eq!((files, requests), (FILES, REQUESTS));
}
