//! A service that is another one: each quirk does what it says.

use std::time::Duration;

use polyaxon_local::{LocalDaemon, LocalServer, Quirk};
use serde_json::{Value, json};

use crate::execs::{Execs, TOKEN, text, within};
use crate::harness::{Plane, base64, code, http};

/// Well below the time for which a page with `follow` waits elsewhere.
const SOON: Duration = Duration::from_secs(20);

async fn with(quirks: &[Quirk]) -> Plane {
    let server = LocalServer::builder().quirks(quirks.iter().copied());
    Plane {
        server: server.start().await.unwrap(),
        http: http(),
    }
}

#[tokio::test]
async fn without_follow_a_page_is_answered_at_once() {
    let plane = with(&[Quirk::NoFollow]).await;
    let execs = Execs::of(&plane.sandbox().await);
    let id = execs.bg("sleep 60", &json!({})).await;
    let page = within(SOON, execs.page(&id, "follow=true")).await;
    assert_eq!((&page["bytes"], &page["eof"]), (&json!(0), &json!(false)));
    execs.delete(&id).await;
}

#[tokio::test]
async fn only_background_execs_have_log_pages() {
    let plane = with(&[Quirk::BackgroundLogsOnly]).await;
    let execs = Execs::of(&plane.sandbox().await);
    let once = execs.sh("echo a", &json!({})).await;
    let streamed = execs.stream("echo a", &json!({})).await;
    let ids = [&once["exec_id"], &streamed[0].1["exec_id"]];
    for id in ids.map(|id| id.as_str().unwrap()) {
        let (status, answer) = execs.get(&format!("exec/bg/{id}/logs")).await;
        assert_eq!((status.as_u16(), code(&answer)), (404, "not_found"));
        // The record is there all the same.
        assert_eq!(execs.status(id).await["state"], "exited");
    }
    let id = execs.bg("echo a", &json!({})).await;
    assert_eq!(execs.output(&id).await["data"], "a\n");
}

#[tokio::test]
async fn a_tag_that_is_a_label_is_used_twice_and_finds_both() {
    let plane = with(&[Quirk::TagsAreLabels]).await;
    let execs = Execs::of(&plane.sandbox().await);
    let one = execs.bg("true", &json!({"tag": "t"})).await;
    let two = execs.bg("true", &json!({"tag": "t"})).await;
    assert_eq!(execs.ids("?tag=t").await, [one.clone(), two.clone()]);
    execs.delete(&one).await;
    assert_eq!(execs.ids("?tag=t").await, [two]);
}

#[tokio::test]
async fn errors_and_numbers_and_times_are_those_of_another_service() {
    let quirks = [
        Quirk::OtherCodes,
        Quirk::ExitCodesOfShells,
        Quirk::NumbersAsText,
        Quirk::OtherTimes,
        Quirk::BareReads,
    ];
    let plane = with(&quirks).await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let (status, answer) = sandbox.mkdir(&json!({"path": "/tmp"})).await;
    assert_eq!((status.as_u16(), code(&answer)), (409, "already_exists"));
    let killed = execs.sh("kill -9 $$", &json!({})).await;
    assert_eq!(
        (&killed["exit_code"], &killed["signal"]),
        (&json!("137"), &json!("SIGKILL"))
    );
    let events = execs.stream("echo a; kill -TERM $$", &json!({})).await;
    assert_eq!(events[1].1, json!({"text": "a\n", "offset": "2"}));
    assert_eq!(events.last().unwrap().1["exit_code"], "143");
    let time = execs.ping().await["last_activity"].clone();
    let time = time.as_str().unwrap();
    assert!(time.ends_with("+00:00") && time.len() == 35, "{time}");
    sandbox.write("/tmp/f", b"abc", &[]).await;
    let read = sandbox.read("/tmp/f", &[]).await;
    let names = ["x-polyaxon-eof", "x-polyaxon-next-offset"];
    assert!(names.iter().all(|name| !read.headers().contains_key(*name)));
    assert_eq!(read.bytes().await.unwrap(), "abc");
}

#[tokio::test]
async fn a_bare_error_has_a_message_and_a_killed_command_no_code() {
    let plane = with(&[Quirk::BareErrors, Quirk::NoExitCodes]).await;
    let sandbox = plane.sandbox().await;
    let (status, answer) = sandbox.stat("/none").await;
    assert_eq!(status, 404);
    assert_eq!(
        answer,
        json!({"message": "/none: no such file or directory"})
    );
    let execs = Execs::of(&sandbox);
    let id = execs.bg("kill -9 $$", &json!({})).await;
    assert_eq!(execs.until(&id, "signaled").await["exit_code"], Value::Null);
}

#[tokio::test]
async fn characters_are_broken_where_output_is_cut() {
    let plane = with(&[Quirk::BrokenCharacters]).await;
    let execs = Execs::of(&plane.sandbox().await);
    // 1021 is no multiple of three.
    let stdin = base64("漢".repeat(700).as_bytes());
    let events = execs.stream("cat", &json!({"stdin": stdin})).await;
    let streamed = text(&events, "stdout");
    assert!(streamed.contains('\u{fffd}'), "{streamed}");
    let last = &events[events.len() - 2].1;
    assert_eq!(last["offset"], 2100);
    let id = events[0].1["exec_id"].as_str().unwrap();
    let page = execs.page(id, "max_bytes=4").await;
    assert_eq!(
        (&page["data"], &page["next_offset"]),
        (&json!("漢\u{fffd}"), &json!(4))
    );
}

#[tokio::test]
async fn a_daemon_alone_has_quirks_too() {
    let quirky = LocalDaemon::builder(TOKEN).quirks([Quirk::BareErrors]);
    let daemon = quirky.start().await.unwrap();
    let (status, answer) = Execs::alone(&daemon).get("exec/bg/none").await;
    assert_eq!(status, 404);
    assert_eq!(answer, json!({"message": "no such exec: \"none\""}));
}
