//! No request is carried out twice, whatever is lost on the way.

use std::time::Duration;

use agent_loop::tools::{Limits, Receipts, Session, Tenant, ToolCall, ToolOutcome};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};

use crate::place::{Line, Place, call, counted};

#[tokio::test]
async fn of_many_calls_with_one_id_one_is_carried_out_and_all_get_its_answer() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmful());
    let asked = call("r.1", &format!("sleep 0.2; {}", counted("count")));
    let calls = (0..8).map(|_| controller.call(&place.session, &asked));
    let answers = futures::future::join_all(calls).await;
    assert_eq!(
        answers[0].outcome,
        ToolOutcome::Succeeded,
        "{:?}",
        answers[0]
    );
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    // And then another, and the first again: more than the last answer is known.
    controller
        .call(&place.session, &call("r.2", &counted("other")))
        .await;
    assert_eq!(controller.call(&place.session, &asked).await, answers[0]);
    assert_eq!(
        (place.runs("count").await, place.runs("other").await),
        (1, 1)
    );
    let repeated = place
        .records
        .lock()
        .unwrap()
        .iter()
        .filter(|record| record.repeated)
        .count();
    assert_eq!(repeated, 8);
}

#[tokio::test]
async fn an_answer_outlives_the_controller_and_an_id_belongs_to_one_call_of_one_tenant() {
    let place = Place::start().await;
    let asked = call("r.1", &counted("count"));
    let answer = place
        .controller(Line::harmful())
        .call(&place.session, &asked)
        .await;
    assert_eq!(
        (answer.outcome, &*answer.summary),
        (ToolOutcome::Succeeded, "7")
    );

    let controller = place.controller(Line::harmful());
    assert_eq!(controller.call(&place.session, &asked).await, answer);
    let changed = ToolCall::new(
        asked.request_id.clone(),
        "line",
        format!("{} ", asked.arguments),
    );
    let refused = controller.call(&place.session, &changed).await;
    assert_eq!(refused.outcome, ToolOutcome::Refused);
    assert_eq!(refused.summary, "the request id belongs to another call");
    assert_eq!(place.runs("count").await, 1);
    let other = Session::open(Tenant::new("other"), place.sandbox.clone())
        .await
        .unwrap();
    controller.call(&other, &asked).await;
    assert_eq!(place.runs("count").await, 2);
}

const STARTS: [(&str, bool); 5] = [
    (
        r#"{"fault": "bad_gateway", "method": "POST", "path": "*/exec/bg", "times": 1, "carried_out": true}"#,
        true,
    ),
    (
        r#"{"fault": "close", "method": "POST", "path": "*/exec/bg", "times": 1, "carried_out": true}"#,
        true,
    ),
    (
        r#"{"fault": {"cut_after": 20}, "method": "POST", "path": "*/exec/bg", "times": 1}"#,
        true,
    ),
    (
        r#"{"fault": "bad_gateway", "method": "POST", "path": "*/exec/bg", "times": 1}"#,
        false,
    ),
    (
        r#"{"fault": "close", "method": "POST", "path": "*/exec/bg", "times": 1}"#,
        false,
    ),
];

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_looked_for_before_anything_is_repeated() {
    let place = Place::start().await;
    for harmless in [true, false] {
        let contract = if harmless {
            Line::harmless()
        } else {
            Line::harmful()
        };
        let controller = place.controller(contract);
        for (index, (fault, arrived)) in STARTS.into_iter().enumerate() {
            place.spoil(fault);
            let name = format!("count-{harmless}-{index}");
            let asked = call(&name, &counted(&name));
            let answer = controller.call(&place.session, &asked).await;
            let again = controller.call(&place.session, &asked).await;
            assert_eq!(again, answer, "{fault}");
            let done = usize::from(arrived || harmless);
            assert_eq!(place.runs(&name).await, done, "{harmless} {fault}");
            let outcome = match done {
                1 => ToolOutcome::Succeeded,
                _ => ToolOutcome::Uncertain,
            };
            assert_eq!(
                answer.outcome,
                outcome,
                "{harmless} {fault}: {}",
                place.last_detail()
            );
        }
        // What is open is on a list, and can be done anew once a person knows that it was not done.
        let open = controller.receipts().open_calls().unwrap();
        assert_eq!(open.len(), if harmless { 0 } else { 2 });
        for open in open {
            assert!(open.may_have_started);
            assert_eq!(open.run, place.sandbox.run_uuid());
            assert!(
                controller
                    .receipts()
                    .forget(&open.tenant, &open.request_id)
                    .unwrap()
            );
            let name = open.request_id.as_str();
            let answer = controller
                .call(&place.session, &call(name, &counted(name)))
                .await;
            assert_eq!(answer.outcome, ToolOutcome::Succeeded);
            assert_eq!(place.runs(name).await, 1);
        }
    }
}

#[tokio::test]
async fn what_fails_before_the_start_is_not_done_and_can_be_asked_for_again() {
    let place = Place::start().await;
    // Each fault lasts longer than this.
    let impatient = Limits::default().deadline(Duration::from_secs(3));
    for (index, fault) in [
        r#"{"fault": "bad_gateway", "method": "POST", "path": "*/fs/mkdir"}"#,
        r#"{"fault": "bad_gateway", "method": "POST", "path": "*/fs/write"}"#,
        r#"{"fault": {"stall_after": 0}, "method": "POST", "path": "*/fs/write"}"#,
        r#"{"fault": {"too_many_requests": 60}, "method": "POST", "path": "*/exec/bg"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let controller = place.controller(Line::harmful().limits(impatient.clone()));
        place.spoil(fault);
        let name = format!("count-{index}");
        let asked = call(&name, &counted(&name));
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(
            answer.outcome,
            ToolOutcome::Failed,
            "{fault}: {}",
            place.last_detail()
        );
        assert!(
            answer.summary.starts_with("nothing was done"),
            "{}",
            answer.summary
        );
        assert_eq!(controller.receipts().open_calls().unwrap(), []);
        place.server.faults().clear();
        drop(controller);
        let controller = place.controller(Line::harmful());
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(
            answer.outcome,
            ToolOutcome::Succeeded,
            "{fault}: {}",
            place.last_detail()
        );
        assert_eq!(place.runs(&name).await, 1, "{fault}");
    }
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_uncertain_until_it_can() {
    let place = Place::start().await;
    let limits = Limits::default().deadline(Duration::from_secs(10));
    for (name, fault, code) in [
        (
            "logs",
            r#"{"fault": "close", "method": "GET", "path": "*/logs"}"#,
            "TL-LOST",
        ),
        (
            "files",
            r#"{"fault": "close", "method": "GET", "path": "*/fs/read", "skip": 1}"#,
            "TL-FETCH",
        ),
    ] {
        let controller = place.controller(Line::harmful().limits(limits.clone()));
        // The first read is of a file that was put.
        place.spoil(fault);
        let line = format!("{} > out", counted(name));
        let asked = serde_json::json!({"line": line, "result_file": "out"}).to_string();
        let asked = ToolCall::new(name.parse().unwrap(), "line", asked);
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(answer.outcome, ToolOutcome::Uncertain, "{answer:?}");
        assert!(answer.summary.contains(code), "{}", answer.summary);
        place.server.faults().clear();
        // Also another controller finds it.
        drop(controller);
        let controller = place.controller(Line::harmful().limits(limits.clone()));
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(
            (answer.outcome, &*answer.summary),
            (ToolOutcome::Succeeded, "7"),
            "{}",
            place.last_detail()
        );
        assert_eq!(place.runs(name).await, 1);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_goes_on_and_is_found() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmful());
    let line = format!(
        "{}; until [ -e /tmp/go ]; do sleep .05; done",
        counted("count")
    );
    let asked = call("r.1", &line);
    {
        let mut dropped = std::pin::pin!(controller.call(&place.session, &asked));
        while place.runs("count").await == 0 {
            let soon = tokio::time::timeout(Duration::from_millis(20), &mut dropped).await;
            soon.unwrap_err();
        }
    }
    place.sandbox.fs().write("/tmp/go", "").await.unwrap();
    let answer = controller.call(&place.session, &asked).await;
    assert_eq!(
        (answer.outcome, &*answer.summary),
        (ToolOutcome::Succeeded, "7")
    );
    assert_eq!(place.runs("count").await, 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_before_its_start_is_known_not_to_have_started() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmful());
    place.spoil(r#"{"fault": {"stall_after": 0}, "method": "POST", "path": "*/fs/write"}"#);
    let asked = call(
        "r.1",
        &format!("test $(cat own.txt) = own && {}", counted("count")),
    );
    {
        let mut dropped = std::pin::pin!(controller.call(&place.session, &asked));
        while place.server.faults().applied() == 0 {
            let soon = tokio::time::timeout(Duration::from_millis(20), &mut dropped).await;
            soon.unwrap_err();
        }
    }
    let open = controller.receipts().open_calls().unwrap();
    assert_eq!((open.len(), open[0].may_have_started), (1, false));
    place.server.faults().clear();
    // Whatever the broken try has left there.
    let half = format!("/tmp/{}/own.txt", open[0].tag);
    place.sandbox.fs().write(&*half, "ow").await.unwrap();
    let answer = controller.call(&place.session, &asked).await;
    assert_eq!(
        answer.outcome,
        ToolOutcome::Succeeded,
        "{}",
        place.last_detail()
    );
    assert_eq!(place.runs("count").await, 1);
    assert_eq!(controller.receipts().open_calls().unwrap(), []);
}

#[tokio::test]
async fn a_command_of_which_every_trace_is_gone_is_not_done_again() {
    let place = Place::start().await;
    let limits = Limits::default().deadline(Duration::from_secs(10));
    let controller = place.controller(Line::harmful().limits(limits));
    place.spoil(r#"{"fault": "close", "method": "GET", "path": "*/logs"}"#);
    let asked = call("r.1", &counted("count"));
    let answer = controller.call(&place.session, &asked).await;
    assert_eq!(answer.outcome, ToolOutcome::Uncertain);
    place.server.faults().clear();
    for exec in place.sandbox.process().list().await.unwrap() {
        place
            .sandbox
            .process()
            .bg(exec.exec_id)
            .delete()
            .await
            .unwrap();
    }
    let answer = controller.call(&place.session, &asked).await;
    assert_eq!(answer.outcome, ToolOutcome::Uncertain);
    assert!(place.last_detail().contains("there is no such command"));

    // Nor in another sandbox, which knows nothing of it.
    let spec = SandboxSpec::image("python:3.12-slim");
    let next = SandboxClient::launch(&place.client, place.server.project(), &spec)
        .await
        .unwrap();
    let session = Session::open(Tenant::new("acme"), next).await.unwrap();
    let answer = controller.call(&session, &asked).await;
    assert!(answer.summary.contains("TL-RUN"), "{}", answer.summary);
    assert_eq!(place.runs("count").await, 1);
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_stands_in_the_way_and_one_that_cannot_be_written_too() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmful());
    let asked = call("r.1", &counted("count"));
    controller.call(&place.session, &asked).await;
    let receipt = std::fs::read_dir(&place.receipts)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let receipt = receipt
        .filter(|path| path.extension().is_some())
        .collect::<Vec<_>>();
    let whole = std::fs::read(&receipt[0]).unwrap();
    for cut in [0, 1, whole.len() / 2] {
        std::fs::write(&receipt[0], &whole[..cut]).unwrap();
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(answer.outcome, ToolOutcome::Uncertain, "{cut}");
        assert!(answer.summary.contains("TL-RECEIPT"), "{}", answer.summary);
    }
    assert_eq!(place.runs("count").await, 1);

    // In the place of the folder there is a file, so nothing can be written down.
    std::fs::remove_dir_all(&place.receipts).unwrap();
    std::fs::write(&place.receipts, "").unwrap();
    let answer = controller
        .call(&place.session, &call("r.2", &counted("other")))
        .await;
    assert_ne!(answer.outcome, ToolOutcome::Succeeded);
    assert!(answer.summary.contains("TL-RECEIPT"), "{}", answer.summary);
    assert_eq!(place.runs("other").await, 0);
    Receipts::open(&place.receipts).unwrap_err();
}
