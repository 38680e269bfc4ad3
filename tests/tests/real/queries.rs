//! Typed queries, orders and streams on the open-source control plane. The same on ours:
//! `tests/tests/local/queries.rs`.

use polyaxon_client::RunUuid;
use polyaxon_client::runs::{ListRuns, Run, Runs, Sort};
use polyaxon_tests::queries;

use crate::runs::runs;

#[tokio::test]
#[ignore = "needs a real server"]
async fn of_200_runs_typed_queries_find_what_the_bare_language_and_a_model_find() {
    let (_, runs) = runs("queries").await;
    let known = queries::fill(&runs).await;
    queries::queries_find_what_the_bare_language_and_a_model_find(&runs, &known).await;
    queries::the_bare_language_lets_in_what_typed_queries_leave_out(&runs, &known).await;
    queries::orders_put_what_is_missing_where_they_say(&runs, &known).await;
    an_order_that_is_not_known_is_ignored(&runs).await;
    queries::a_stream_has_each_run_once_while_runs_change(&runs, &known).await;
}

/// Why there is a typed order.
async fn an_order_that_is_not_known_is_ignored(runs: &Runs) {
    let order = async |list: ListRuns| ids(&runs.list(&list.limit(1000)).await.unwrap().runs);
    let default = order(ListRuns::new()).await;
    for bare in ["nope", "-nope", "metric.score"] {
        assert_eq!(order(ListRuns::new().sort(bare)).await, default, "{bare}");
        bare.parse::<Sort>().unwrap_err();
    }
    // A key that is a field of runs, too.
    let error = runs
        .list(&ListRuns::new().sort("metrics.name"))
        .await
        .unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(500));
    "metrics.name".parse::<Sort>().unwrap_err();
    let error = runs.list(&ListRuns::new().query("inputs.contains:1")).await;
    assert!(
        error
            .unwrap_err()
            .status()
            .is_some_and(|status| status.is_server_error())
    );
}

fn ids(runs: &[Run]) -> Vec<RunUuid> {
    runs.iter().map(|run| run.uuid).collect()
}
