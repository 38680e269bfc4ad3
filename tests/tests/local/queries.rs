//! Typed queries, orders and streams on the control plane of this machine. The same on the
//! open-source one: `tests/tests/real/queries.rs`.

use polyaxon_client::runs::ListRuns;
use polyaxon_local::LocalServer;
use polyaxon_tests::local::client_of;
use polyaxon_tests::queries;

#[tokio::test]
async fn queries_orders_and_streams_are_those_of_the_model() {
    let server = LocalServer::start().await.unwrap();
    let runs = client_of(&server).runs(server.project());
    let known = queries::fill(&runs).await;
    queries::queries_find_what_the_bare_language_and_a_model_find(&runs, &known).await;
    queries::the_bare_language_lets_in_what_typed_queries_leave_out(&runs, &known).await;
    queries::orders_put_what_is_missing_where_they_say(&runs, &known).await;
    // What the platform ignores is refused here.
    let error = runs.list(&ListRuns::new().sort("nope")).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
    queries::a_stream_has_each_run_once_while_runs_change(&runs, &known).await;
}
