//! What typed queries, orders and streams of runs find, on any server: 200 runs, each answer laid
//! beside that of the bare language and beside a model that knows what the runs hold.

mod cases;
mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use polyaxon_client::runs::{CreateRun, ListRuns, RunStatus, Runs, Sort, StatusCondition};
use polyaxon_client::{Error, RunUuid};
use serde_json::{Map, Value, json};

pub use cases::{Case, cases};
pub use model::{Known, Plain};

/// How many runs there are.
pub const COUNT: usize = 200;

/// Creates the runs, four at a time.
pub async fn fill(runs: &Runs) -> Vec<Known> {
    let known = stream::iter((0..COUNT).map(Known::number))
        .map(|known| async { store(runs, known).await })
        .buffered(4);
    known.collect().await
}

/// Repeats what a busy server has refused: the community edition answers a locked database with 405.
async fn patient<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> T {
    for _ in 0..50 {
        match call().await {
            Err(error) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            result => return result.unwrap(),
        }
    }
    panic!("the server stays busy")
}

async fn store(runs: &Runs, mut known: Known) -> Known {
    let mut create = CreateRun::unmanaged().meta("number", known.number);
    create.name = known.name.clone();
    create.description = known.description.clone();
    // Not found by the number of a run that was created although the call failed: then it is there
    // twice, and the count of all at the end says so.
    known.uuid = patient(|| runs.create(&create)).await.uuid;
    let mut change = Map::new();
    if !known.inputs.is_empty() {
        change.insert("inputs".to_owned(), Value::Object(known.inputs.clone()));
    }
    if !known.outputs.is_empty() {
        change.insert("outputs".to_owned(), Value::Object(known.outputs.clone()));
    }
    if !change.is_empty() {
        patient(|| runs.update(known.uuid, &change)).await;
    }
    if known.status != RunStatus::Created {
        let condition = StatusCondition::now(known.status.clone(), None, None);
        patient(|| runs.log_status(known.uuid, &condition)).await;
    }
    let records: Vec<Value> = known
        .artifacts
        .iter()
        .map(|(name, kind)| json!({"name": name, "kind": kind, "summary": {}, "path": name}))
        .collect();
    if !records.is_empty() {
        patient(|| runs.log_lineage(known.uuid, &records)).await;
    }
    known
}

async fn found(runs: &Runs, list: &ListRuns) -> Vec<RunUuid> {
    let runs = runs.stream(list).map_ok(|run| run.uuid);
    runs.try_collect().await.unwrap()
}

/// Each typed query finds what its bare form finds and what the model says; nothing comes twice.
pub async fn queries_find_what_the_bare_language_and_a_model_find(runs: &Runs, known: &[Known]) {
    let mut wrong = Vec::new();
    for Case { query, bare, fits } in cases() {
        let list = ListRuns::new().matching(&query).unwrap().limit(50);
        let typed = found(runs, &list).await;
        let typed_set: BTreeSet<_> = typed.iter().copied().collect();
        assert_eq!(typed.len(), typed_set.len(), "{bare}: a run came twice");
        let by_hand = found(runs, &ListRuns::new().query(bare).limit(50)).await;
        let by_hand: BTreeSet<_> = by_hand.into_iter().collect();
        let model: BTreeSet<_> = known
            .iter()
            .filter(|run| fits(run))
            .map(|run| run.uuid)
            .collect();
        if typed_set != model || by_hand != model {
            let (typed, by_hand) = (typed_set.len(), by_hand.len());
            wrong.push(format!(
                "{bare}: model {}, typed {typed}, bare {by_hand}",
                model.len()
            ));
        }
        // A query that finds all or nothing shows little.
        assert!(
            model.len() < COUNT && !model.is_empty(),
            "{bare} finds {}",
            model.len()
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the bare language does, and the typed one evens out or refuses.
pub async fn the_bare_language_lets_in_what_typed_queries_leave_out(runs: &Runs, known: &[Known]) {
    let bare = async |text: &str| found(runs, &ListRuns::new().query(text)).await.len();
    let count = |fits: &dyn Fn(&Known) -> bool| known.iter().filter(|run| fits(run)).count();
    // A negated value lets in runs without the key.
    let missing = count(&|run| !run.inputs.contains_key("rev"));
    let others = count(&|run| {
        run.inputs
            .get("rev")
            .is_some_and(|rev| *rev != json!("1234"))
    });
    assert!(missing > 0);
    assert_eq!(bare(r#"inputs.rev:~"1234""#).await, others + missing);
    // What is no number is larger than every number.
    let above = |run: &Known| {
        run.score()
            .is_some_and(|score| score.compared_with(0.0).is_gt())
    };
    let numbers = |run: &Known| matches!(run.score(), Some(Plain::Number(score)) if score > 0.0);
    assert!(count(&numbers) < count(&above));
    assert_eq!(bare("outputs.score:>0").await, count(&above));
    // Text that is not quoted is read as what it looks like.
    let number = count(&|run| run.inputs.get("rev") == Some(&json!(1234)));
    assert_eq!(bare("inputs.rev:1234").await, number);
}

/// Typed orders are those of the model, with what is missing at their beginning or end.
pub async fn orders_put_what_is_missing_where_they_say(runs: &Runs, known: &[Known]) {
    for text in [
        "metrics.score",
        "-metrics.score",
        "-outputs.score,name",
        "name",
        "inputs.rev,-name",
    ] {
        let order: Sort = text.parse().unwrap();
        let list = ListRuns::new().sorted(&order).limit(1000);
        let page = runs.list(&list).await.unwrap();
        assert_eq!(page.runs.len(), COUNT);
        let by_id = |uuid: RunUuid| known.iter().find(|run| run.uuid == uuid).unwrap();
        let got: Vec<_> = page
            .runs
            .iter()
            .map(|run| by_id(run.uuid).keys(text))
            .collect();
        let mut want = got.clone();
        want.sort_by(|one, other| model::in_order(text, one, other));
        assert_eq!(got, want, "{text}");
        assert!(
            got.iter().any(|keys| keys[0].is_none()),
            "{text}: nothing is missing"
        );
    }
}

/// A stream has each run once that is there all the time, while others come, change and go.
pub async fn a_stream_has_each_run_once_while_runs_change(runs: &Runs, known: &[Known]) {
    let list = ListRuns::new().limit(20);
    let mut walk = runs.stream(&list);
    let mut seen = Vec::new();
    while seen.len() < 50 {
        seen.push(walk.next().await.unwrap().unwrap().uuid);
    }
    let created: Vec<RunUuid> = known.iter().map(|run| run.uuid).collect();
    // Some that came, which moves all others in counted pages, and some that have not.
    let gone: Vec<RunUuid> = seen[..25]
        .iter()
        .copied()
        .chain(created[190..].iter().copied())
        .collect();
    for run in &gone {
        runs.delete(*run).await.unwrap();
    }
    for run in created.iter().skip(100).step_by(7).take(10) {
        let change = json!({"description": "changed"});
        runs.update(*run, change.as_object().unwrap())
            .await
            .unwrap();
    }
    let new = runs
        .create(&CreateRun::unmanaged().name("late"))
        .await
        .unwrap()
        .uuid;
    let rest: Vec<RunUuid> = walk.map_ok(|run| run.uuid).try_collect().await.unwrap();
    seen.extend(rest);

    let once: BTreeSet<RunUuid> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "a run came twice");
    let stayed: BTreeSet<RunUuid> = created
        .iter()
        .filter(|run| !gone.contains(run))
        .copied()
        .collect();
    let lost: Vec<_> = stayed.difference(&once).collect();
    assert!(
        lost.is_empty(),
        "{} of {} runs were not told",
        lost.len(),
        stayed.len()
    );
    assert_eq!(seen.last(), Some(&new));
    assert!(
        created[190..].iter().all(|run| !once.contains(run)),
        "a deleted run was told"
    );
    // Dropped in the middle, it leaves nothing behind that the next would notice.
    drop(runs.stream(&list).next().await);
    assert_eq!(found(runs, &list).await.len(), COUNT - gone.len() + 1);
}
