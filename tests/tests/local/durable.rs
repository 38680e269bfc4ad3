//! A durable exec runs once and is told whole, whatever is lost on the way.

use std::time::Duration;

use polyaxon_client::Effect;
use polyaxon_local::{FaultRule, LocalServer, Quirk};
use polyaxon_sandbox::process::{DurableHandle, LogStream, StreamEvent, Termination};
use polyaxon_sandbox::{Error, Evidence, Exec, Resolution};
use polyaxon_tests::cancel::poll_n;
use polyaxon_tests::local::LocalSandbox;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

async fn with(quirks: &[Quirk]) -> LocalSandbox {
    let builder = LocalServer::builder().quirks(quirks.iter().copied());
    LocalSandbox::on(builder.start().await.unwrap()).await
}

/// What goes wrong, as a file of faults says it.
fn faults(rules: &str) -> Vec<FaultRule> {
    FaultRule::parse_all(&format!(r#"{{"faults": [{rules}]}}"#)).unwrap()
}

fn spoil(local: &LocalSandbox, rules: &str) {
    for rule in faults(rules) {
        local.server.faults().add(rule);
    }
}

/// A command that leaves a line for each time that it is executed.
fn counted(name: &str) -> Exec {
    Exec::shell(format!(
        "echo run >> {name}; echo out; echo err >&2; exit 3"
    ))
    .workdir("/tmp")
}

/// How often it was.
async fn runs(local: &LocalSandbox, name: &str) -> usize {
    match local.sandbox.fs().read_text(format!("/tmp/{name}")).await {
        Ok(text) => text.lines().count(),
        Err(_) => 0,
    }
}

const STARTS: [&str; 5] = [
    r#"{"fault": "bad_gateway", "method": "POST", "path": "*/exec/bg", "times": 1, "carried_out": true}"#,
    r#"{"fault": "bad_gateway", "method": "POST", "path": "*/exec/bg", "times": 1}"#,
    r#"{"fault": "close", "method": "POST", "path": "*/exec/bg", "times": 1, "carried_out": true}"#,
    r#"{"fault": "close", "method": "POST", "path": "*/exec/bg", "times": 1}"#,
    r#"{"fault": {"cut_after": 20}, "method": "POST", "path": "*/exec/bg", "times": 1}"#,
];

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_found_or_sent_again_but_never_twice() {
    let local = with(&[]).await;
    for (index, fault) in STARTS.into_iter().enumerate() {
        spoil(&local, fault);
        let name = format!("count-{index}");
        let mut durable = local.sandbox.process().durable(&counted(&name));
        let result = timeout(LIMIT, durable.collect(1 << 20)).await.unwrap();
        let result = result.unwrap();
        assert_eq!(result.termination, Termination::Exited(3), "{fault}");
        assert_eq!(result.stdout.text().unwrap(), "out\n");
        assert_eq!(result.stderr.text().unwrap(), "err\n");
        assert_eq!(runs(&local, &name).await, 1, "{fault}");
        // Nothing stays: no record of it, none of a probe.
        assert_eq!(local.sandbox.process().list().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_service_that_does_not_mind_tags_is_never_asked_twice() {
    let quirks = [Quirk::TagsAreLabels, Quirk::NoFollow, Quirk::OtherCodes];
    let local = with(&quirks).await;
    for (index, fault) in STARTS.into_iter().enumerate() {
        spoil(&local, fault);
        let name = format!("count-{index}");
        let mut durable = local.sandbox.process().durable(&counted(&name));
        let result = timeout(LIMIT, durable.collect(1 << 20)).await.unwrap();
        let was_carried_out = fault.contains("carried_out") || fault.contains("cut_after");
        if was_carried_out {
            assert_eq!(result.unwrap().stdout.text().unwrap(), "out\n");
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.effect(), Effect::Unknown);
            let found = local.sandbox.resolve(&error).await.unwrap();
            assert_eq!(found, Resolution::NotApplied);
        }
        let count = usize::from(was_carried_out);
        assert_eq!(runs(&local, &name).await, count, "{fault}");
    }
}

#[tokio::test]
async fn a_lookup_that_fails_does_not_say_that_nothing_was_started() {
    let local = with(&[]).await;
    spoil(&local, STARTS[2]);
    spoil(
        &local,
        r#"{"fault": "close", "method": "GET", "path": "*/exec/bg*"}"#,
    );
    let exec = counted("lost");
    let process = local.sandbox.process();
    let mut durable = process.durable(&exec).patience(Duration::ZERO);
    let error = durable.start().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    local.server.faults().clear();
    let result = timeout(LIMIT, durable.collect(1 << 20)).await.unwrap();
    assert_eq!(result.unwrap().stdout.text().unwrap(), "out\n");
    assert_eq!(runs(&local, "lost").await, 1);
}

#[tokio::test]
async fn the_tag_of_a_piece_of_work_runs_it_once_whoever_asks() {
    let local = with(&[]).await;
    let process = local.sandbox.process();
    let exec = counted("once").tag("work:7");
    let mut first = process.durable(&exec).keep();
    let result = first.collect(99).await.unwrap();
    let mut second = process.durable(&exec);
    assert_eq!(second.collect(99).await.unwrap(), result);
    assert_eq!(runs(&local, "once").await, 1);
    // The second did not keep it.
    assert_eq!(process.list_tagged("work:7").await.unwrap(), []);
}

#[tokio::test]
async fn output_has_no_gap_and_no_repetition_over_broken_answers() {
    let want: String = (1..=3000).map(|n| format!("é{n}\n")).collect();
    for quirks in [&[][..], &[Quirk::NoFollow, Quirk::BrokenCharacters]] {
        let local = with(quirks).await;
        spoil(
            &local,
            r#"{"fault": "bad_gateway", "path": "*/logs", "skip": 1, "times": 3},
               {"fault": {"cut_after": 150}, "path": "*/logs", "skip": 5, "times": 3},
               {"fault": "close", "path": "*/logs", "skip": 9, "times": 3},
               {"fault": {"split": 7000}, "path": "*/logs", "times": 40}"#,
        );
        let line = "for i in $(seq 6); do seq -f 'é%.0f' $((i * 500 - 499)) $((i * 500)); sleep 0.05; done";
        let mut durable = local.sandbox.process().durable(&Exec::shell(line));
        let mut text = Vec::new();
        let read = async {
            while let Some(event) = durable.next().await {
                if let StreamEvent::Output(chunk) = event.unwrap() {
                    assert_eq!(chunk.start, text.len() as u64, "a gap or a repetition");
                    text.extend_from_slice(&chunk.bytes);
                }
            }
        };
        timeout(LIMIT, read).await.unwrap();
        assert!(text == want.as_bytes(), "{} bytes", text.len());
        assert!(durable.completion().unwrap().success());
        assert!(durable.next().await.is_none());
    }
}

#[tokio::test]
async fn a_caller_that_begins_anew_anywhere_misses_nothing() {
    let local = with(&[]).await;
    let process = local.sandbox.process();
    let line = "for i in 1 2 3 4; do echo o$i; echo e$i >&2; sleep 0.02; done; exit 9";
    for events in 0.. {
        let mut durable = process.durable(&Exec::shell(line));
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for _ in 0..events {
            if let Some(StreamEvent::Output(chunk)) = durable.next().await.transpose().unwrap() {
                match chunk.stream {
                    LogStream::Stdout => stdout.extend_from_slice(&chunk.bytes),
                    LogStream::Stderr => stderr.extend_from_slice(&chunk.bytes),
                }
            }
        }
        let was_complete = durable.completion().is_some();
        let kept = serde_json::to_string(durable.handle()).unwrap();
        drop(durable);
        let handle: DurableHandle = serde_json::from_str(&kept).unwrap();
        // Where it had not been started, it is started now.
        let mut again = process
            .reattach(handle)
            .unwrap()
            .or_start(&Exec::shell(line));
        let rest = timeout(LIMIT, again.collect(1 << 20))
            .await
            .unwrap()
            .unwrap();
        stdout.extend_from_slice(rest.stdout.bytes());
        stderr.extend_from_slice(rest.stderr.bytes());
        assert_eq!(stdout, b"o1\no2\no3\no4\n", "after {events} events");
        assert_eq!(stderr, b"e1\ne2\ne3\ne4\n", "after {events} events");
        assert_eq!(rest.termination, Termination::Exited(9));
        if was_complete {
            assert!(events > 2, "{events}");
            break;
        }
    }
}

#[tokio::test]
async fn dropping_after_any_number_of_polls_loses_nothing() {
    let local = with(&[]).await;
    let mut durable = local.sandbox.process().durable(&counted("polled"));
    let mut polls = 0;
    let collected = async {
        loop {
            if let Some(result) = poll_n(durable.collect(1 << 20), polls).await {
                return result.unwrap();
            }
            local.sandbox.ping().await.unwrap();
            polls += 1;
        }
    };
    let result = timeout(LIMIT, collected).await.unwrap();
    assert_eq!(result.stdout.text().unwrap(), "out\n");
    assert_eq!(runs(&local, "polled").await, 1);
    assert!(polls > 3, "{polls}");
}

#[tokio::test]
async fn what_was_never_started_is_said_and_another_sandbox_is_refused() {
    let local = with(&[]).await;
    let process = local.sandbox.process();
    let handle = process.durable(&counted("never")).handle().clone();
    let mut lost = process.reattach(handle.clone()).unwrap();
    let error = lost.collect(9).await.unwrap_err();
    assert!(matches!(&error, Error::NotStarted { tag, .. } if *tag == handle.tag));
    assert_eq!(error.effect(), Effect::NotApplied);

    let other = with(&[]).await;
    let error = other.sandbox.process().reattach(handle).unwrap_err();
    assert_eq!(error.field(), "handle");
}

#[tokio::test]
async fn what_was_lost_is_found_out_afterwards() {
    let local = with(&[]).await;
    let process = local.sandbox.process();
    let lost = |path: &str, method: &str, carried_out: bool| {
        let rule = format!(
            r#"{{"fault": "close", "method": "{method}", "path": "*{path}", "times": 1,
                "carried_out": {carried_out}}}"#
        );
        spoil(&local, &rule);
    };
    let exec = Exec::new(["sleep", "30"]).tag("lost-1");
    lost("/exec/bg", "POST", false);
    let error = process.exec_bg(&exec).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let found = local.sandbox.resolve(&error).await.unwrap();
    assert_eq!(found, Resolution::NotApplied);

    lost("/exec/bg", "POST", true);
    let error = process.exec_bg(&exec).await.unwrap_err();
    // What to look for can be kept.
    let kept = serde_json::to_string(&error.lookup().unwrap()).unwrap();
    let lookup = serde_json::from_str(&kept).unwrap();
    let found = local.sandbox.look_up(&lookup).await.unwrap();
    let Resolution::Applied {
        evidence: Evidence::Exec(record),
        ..
    } = found
    else {
        panic!("{found:?}")
    };
    let started = process.bg(record.exec_id.clone());

    lost("/signal", "POST", false);
    let error = started.signal("SIGKILL".into()).await.unwrap_err();
    let found = local.sandbox.resolve(&error).await.unwrap();
    assert_eq!(found, Resolution::NotApplied);
    lost("/signal", "POST", true);
    let error = started.signal("SIGKILL".into()).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let found = local.sandbox.resolve(&error).await.unwrap();
    assert!(matches!(found, Resolution::Applied { .. }), "{found:?}");

    // A delete may be sent twice, and so is.
    lost("/exec/bg/*", "DELETE", true);
    started.delete().await.unwrap();
    assert_eq!(process.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_no_failure_of_the_command() {
    let local = with(&[]).await;
    let process = local.sandbox.process();
    let exec = Exec::shell("echo a; sleep .3; exit 0");
    let started = process.exec_bg(&exec).await.unwrap();
    spoil(
        &local,
        r#"{"fault": "bad_gateway", "path": "*/logs", "times": 3}"#,
    );
    let end = started.wait(LIMIT).await.unwrap();
    assert_eq!(end.termination, Termination::Exited(0));
    let result = started.output(99).await.unwrap();
    assert_eq!(result.stdout.bytes(), "a\n");
}
