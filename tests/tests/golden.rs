//! Our client makes the requests of the Python client.

use polyaxon_tests::golden::report;

#[tokio::test]
async fn the_recorded_requests_are_made_by_our_client_too() {
    let report = report().await;
    println!("{report}");
    assert_eq!(report.wrong(), Vec::<&str>::new());
    let (matched, of) = report.matched("sync");
    assert_eq!(of, 156);
    assert!(matched * 100 >= of * 95, "{matched} of {of}");
    let (matched, of) = report.matched("async");
    assert_eq!((matched, of), (39, 39));
    assert_eq!(report.cases.len(), 232);
}
