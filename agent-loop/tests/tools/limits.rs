//! What a command does, and how much of it counts.

use std::time::Duration;

use agent_loop::RequestId;
use agent_loop::tools::{Limits, Session, Tenant, ToolOutcome};
use serde_json::json;

use crate::place::{Line, Place, call, call_with};

fn id(text: &str) -> RequestId {
    text.parse().unwrap()
}

#[tokio::test]
async fn a_command_has_its_files_its_input_and_nothing_of_the_last_one() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmless());
    // It reads all that was given to it, and spoils its copy.
    let line = r#"test -e left && exit 9; read word; cat own.txt > out; cat "$1"/orders.csv >> out;
        echo spoilt > "$1"/orders.csv; touch left; printf '"%s %s %s"' "$GREETING" "$word" "$(cat out | tr '\n' ,)""#;
    for request in ["r.1", "r.2"] {
        let asked = call_with(request, &json!({"line": line, "dataset": "orders"}));
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(
            answer.outcome,
            ToolOutcome::Succeeded,
            "{}",
            place.last_detail()
        );
        assert_eq!(answer.summary, "hello input own,1,2,");
    }
    let record = place.last_record();
    assert_eq!(record.execution_run_uuid, place.sandbox.run_uuid());
    assert_eq!(record.project, place.sandbox.project().to_string());
    assert_eq!(
        (record.tool.as_str(), record.evaluator_passed),
        ("line", Some(true))
    );
    let command = record.command.unwrap();
    assert_eq!((command.exit_code, command.timed_out), (Some(0), false));
    assert!(command.duration <= record.took);
    // Neither a folder nor a record stays.
    assert_eq!(place.left().await, (0, 0));
}

#[tokio::test]
async fn an_evaluator_decides_and_an_exit_code_does_not() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmless());
    let answer = controller
        .call(&place.session, &call("r.1", r#"echo '"wrong"'"#))
        .await;
    assert_eq!(
        (answer.outcome, &*answer.summary),
        (ToolOutcome::Rejected, "wrong")
    );
    assert_eq!(place.last_record().evaluator_passed, Some(false));
}

#[tokio::test]
async fn what_is_not_a_whole_result_is_never_read() {
    let place = Place::start().await;
    let limits = Limits::default().result_bytes(100);
    let controller = place.controller(Line::harmless().limits(limits));
    // The first hundred bytes of each are a JSON document by themselves.
    let long = "echo 1; yes '' | head -n 200";
    let size = "the result has more than 100 bytes, and was not read (code TL-SIZE)";
    let promise = "the result is not what the tool promises (code TL-RESULT)";
    let file = "the result is no regular file (code TL-FILE)";
    let table = [
        (long.to_owned(), None, size, ""),
        (format!("({long}) > out"), Some("out"), size, "bytes"),
        ("echo '[1'".to_owned(), None, promise, "EOF"),
        ("printf '\"\\377\"'".to_owned(), None, promise, "UTF-8"),
        (
            "printf '\"\\377\"' > out".to_owned(),
            Some("out"),
            promise,
            "unicode",
        ),
        ("true".to_owned(), None, promise, "EOF"),
        ("true".to_owned(), Some("out"), promise, "there is no file"),
        ("echo 1; echo 2".to_owned(), None, promise, "trailing"),
        (
            "ln -s /etc/hostname out".to_owned(),
            Some("out"),
            file,
            "out is no regular file",
        ),
        (
            "mkdir out".to_owned(),
            Some("out"),
            file,
            "out is no regular file",
        ),
        (
            "ln -s /etc sub".to_owned(),
            Some("sub/hostname"),
            file,
            "is no folder",
        ),
    ];
    for (index, (line, file, summary, detail)) in table.into_iter().enumerate() {
        let request = format!("r.{index}");
        let asked = call_with(&request, &json!({"line": line, "result_file": file}));
        let answer = controller.call(&place.session, &asked).await;
        assert_eq!(answer.outcome, ToolOutcome::Failed, "{line}: {answer:?}");
        assert_eq!(answer.summary, summary, "{line}");
        assert!(
            place.last_detail().contains(detail),
            "{line}: {}",
            place.last_detail()
        );
        let record = place.last_record();
        assert_eq!(record.evaluator_passed, None);
        assert_eq!(record.command.unwrap().exit_code, Some(0));
        // It is final: the same request is not carried out again.
        assert_eq!(controller.call(&place.session, &asked).await, answer);
        assert!(place.last_record().repeated);
    }
    // As much as may be is read.
    let fits = r#"printf '"%096d"\n\n' 5"#;
    let answer = controller.call(&place.session, &call("fits", fits)).await;
    assert_eq!(answer.outcome, ToolOutcome::Succeeded, "{answer:?}");
    assert_eq!(answer.summary, format!("{:096}", 5));
    assert_eq!(place.left().await, (0, 0));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_and_told_as_that() {
    let place = Place::start().await;
    let limits = Limits::default().deadline(Duration::from_secs(10));
    let controller = place.controller(Line::harmless().limits(limits));
    // What it has written by then would be a result.
    let asked = call("r.1", "echo 1; sleep 300");
    let answer = controller.call(&place.session, &asked).await;
    assert_eq!(answer.outcome, ToolOutcome::TimedOut, "{answer:?}");
    assert_eq!(
        answer.summary,
        "the tool was ended at its time limit of 10s (code TL-TIME)"
    );
    let record = place.last_record();
    assert!(record.took < Duration::from_secs(30), "{:?}", record.took);
    assert!(record.command.unwrap().timed_out);
    assert_eq!(controller.call(&place.session, &asked).await, answer);
    assert_eq!(place.left().await, (0, 0));
}

#[tokio::test]
async fn a_failure_shows_a_model_neither_a_traceback_nor_a_path_nor_a_secret() {
    let place = Place::start().await;
    let controller = place.controller(Line::harmless());
    let program = "import os\npassword = 'k-TEST-123456'\nraise RuntimeError('at /home/op/.config token=k-TEST-123456')";
    let line = format!("python3 -c \"{program}\"; kill -SEGV $$");
    let answer = controller.call(&place.session, &call("r.1", &line)).await;
    let shown = serde_json::to_string(&answer).unwrap();
    assert_eq!(
        (answer.outcome, &*answer.summary),
        (ToolOutcome::Failed, "the tool failed (code TL-EXIT)")
    );
    for private in ["Traceback", "/home", "k-TEST", "/tmp"] {
        assert!(!shown.contains(private), "{shown}");
    }
    // The operator gets it without the secret.
    let record = place.last_record();
    assert_eq!(
        record.command.as_ref().unwrap().signal.as_deref(),
        Some("SIGSEGV")
    );
    let detail = place.last_detail();
    assert!(
        detail.contains("RuntimeError") && detail.contains("/home/op"),
        "{detail}"
    );
    assert!(!detail.contains("k-TEST"), "{detail}");
    assert!(!format!("{record:?}").contains("/home"));
}

#[tokio::test]
async fn a_summary_is_printable_and_short() {
    let place = Place::start().await;
    let limits = Limits::default().summary_bytes(10);
    let controller = place.controller(Line::harmless().limits(limits));
    let line = r#"printf '"a\\u001b[2J\\u00e4%05000d"' 1"#;
    let answer = controller.call(&place.session, &call("r.1", line)).await;
    assert_eq!(answer.summary, "a\\u{1b}[2J [cut, 5012 bytes in all]");
}

#[tokio::test]
async fn what_a_command_may_leave_is_kept_for_its_tenant_as_it_was() {
    let place = Place::start().await;
    let contract = Line::harmless()
        .artifact("table", "out/table.csv", 10)
        .unwrap();
    let contract = contract.artifact("chart", "chart.bin", 10).unwrap();
    let controller = place.controller(contract);
    let line = "mkdir out; printf 'a,b\n\\377' > out/table.csv; touch other; echo 1";
    let answer = controller.call(&place.session, &call("r.1", line)).await;
    assert_eq!(
        answer.outcome,
        ToolOutcome::Succeeded,
        "{}",
        place.last_detail()
    );
    // Of the two that it may leave it has left one; what nobody named is not kept.
    let names: Vec<_> = answer
        .artifacts
        .iter()
        .map(|link| (&*link.name, link.bytes))
        .collect();
    assert_eq!(names, [("table", 5)]);
    let artifact = |name| controller.artifact(&place.session, &id("r.1"), name);
    assert_eq!(artifact("table").unwrap().unwrap(), b"a,b\n\xff");
    for nothing in ["chart", "other", "../table", ""] {
        assert_eq!(artifact(nothing).unwrap(), None, "{nothing}");
    }
    let other = Session::open(Tenant::new("other"), place.sandbox.clone())
        .await
        .unwrap();
    assert_eq!(
        controller.artifact(&other, &id("r.1"), "table").unwrap(),
        None
    );

    let large = "mkdir out; printf '%011d' 1 > out/table.csv; echo 1";
    let answer = controller.call(&place.session, &call("r.2", large)).await;
    assert_eq!(answer.outcome, ToolOutcome::Failed);
    assert_eq!(
        answer.summary,
        "the artifact has more than 10 bytes, and was not read (code TL-SIZE)"
    );
    assert_eq!(answer.artifacts, []);

    let kept = std::fs::read_dir(&place.receipts)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let kept = kept
        .filter(|path| path.join("table").is_file())
        .collect::<Vec<_>>();
    assert_eq!(kept.len(), 1);
    std::fs::write(kept[0].join("table"), "a,c\n").unwrap();
    assert_eq!(
        artifact("table").unwrap_err().kind(),
        std::io::ErrorKind::InvalidData
    );
}
