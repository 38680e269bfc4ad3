//! Tracked runs beside the recorded runs of the Python module.

use std::path::Path;

use polyaxon_tests::recorded::{cases, decision_on};

/// How much is the same. It only grows.
const FILES: (usize, usize) = (224, 254);
const REQUESTS: (usize, usize) = (189, 201);

/// What the Python module does wrong, or in a way that cannot be done again: as the page of
/// deviations calls it.
const DEFECTS: [&str; 24] = [
    "`end` of a run that goes nowhere raises",
    "certificates are not checked unless asked for",
    "a cached `.project` goes before the run of the pod",
    "an explicit project in a pod loses the run's id",
    "failures are silent",
    "an absolute path, or one with `..`, leaves the run's folder",
    "a name of which nothing is left, or that is too long",
    "two names that are stored as one share a file",
    "two processes that begin a file can cut each other's header",
    "a bar in a payload breaks its line",
    "a default table has the extension",
    "lines are on the disk after up to ten seconds",
    "SIGTERM leaves the run running",
    "standard output is captured",
    "a value without a form in JSON drops the whole call",
    "metadata of offline runs is written at the end",
    "last values and summaries can be off by one",
    "the hash of a folder depends on the order",
    "the hash of `env.json` is that of a Python object's text",
    "the end is made two to three times, and the status before the files",
    "two headers, `header_name` and `header_value`",
    "the configuration, token included, is printed with errors",
    "a push that broke off cannot be resumed",
    "a run without lineage is not uploaded",
];

#[test]
fn every_defect_of_the_python_module_has_a_decision() {
    for defect in DEFECTS {
        let decision = decision_on(defect);
        assert!(decision.is_some_and(|text| text.len() > 2), "{defect}");
    }
}

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
        for (_, why) in &outcome.known {
            assert!(why.decision().is_some(), "{why}");
        }
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
