//! How long terminals and attachments live, and what they leave behind: nothing.

use std::time::Duration;

use futures::SinkExt as _;
use polyaxon_local::Limits;
use reqwest::Method;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Plane, code, eventually, marker, no_process, one_process, processes, reply};

fn quick() -> Limits {
    let mut limits = Limits::default();
    limits.kill_grace = Duration::from_millis(200);
    limits.pty.check_interval = Duration::from_millis(20);
    limits
}

/// A shell with jobs in groups of their own, all of which ignore what can be ignored.
fn stubborn(mark: &str) -> String {
    format!(
        "set -m; trap '' TERM HUP INT QUIT\n\
         sh -c \"trap '' TERM HUP; sleep {mark}; :\" & nohup sleep {mark} >/dev/null 2>&1 &\n\
         (sleep {mark} & sleep {mark}) & sleep {mark} | sleep {mark} & echo up; sleep {mark}; :"
    )
}

#[tokio::test]
async fn a_deleted_terminal_leaves_no_process_and_no_record() {
    let plane = Plane::with(quick()).await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    let id = sandbox.pty_sh(&stubborn(&mark)).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=9999").await;
    socket.until("up").await;
    eventually("the jobs", async || {
        (processes(&mark).len() > 6).then_some(())
    })
    .await;
    assert_eq!(sandbox.pty_delete(&id).await.0, 204);
    assert_eq!(processes(&mark), [] as [u32; 0]);
    let seen = socket.end().await;
    assert_eq!(seen.events, [] as [serde_json::Value; 0]);
    assert_eq!(seen.close, Some((1000, "pty detached".to_owned())));
    let (status, answer) = sandbox.pty_delete(&id).await;
    assert_eq!((status.as_u16(), code(&answer)), (404, "not_found"));
}

#[tokio::test]
async fn a_program_that_ends_at_sigterm_is_not_waited_for_longer() {
    let mut limits = Limits::default();
    // No call of these tests waits for so long.
    limits.kill_grace = Duration::from_secs(600);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({"command": ["sleep", "600"]})).await;
    // Two at once get the same answer.
    let (one, two) = tokio::join!(sandbox.pty_delete(&id), sandbox.pty_delete(&id));
    assert_eq!(one.0, 204);
    assert!([204, 404].contains(&two.0.as_u16()), "{two:?}");
}

#[tokio::test]
async fn a_stopped_run_and_a_dropped_server_leave_no_process_of_a_terminal() {
    let plane = Plane::start().await;
    let (one, two) = (plane.sandbox().await, plane.sandbox().await);
    let (mark_one, mark_two) = (marker(), marker());
    let mut sockets = Vec::new();
    for (sandbox, mark) in [(&one, &mark_one), (&two, &mark_two)] {
        let id = sandbox.pty_sh(&stubborn(mark)).await;
        let mut socket = sandbox.attach(&id, "?replay_bytes=9999").await;
        socket.until("up").await;
        sockets.push(socket);
    }
    plane.post(&format!("{}/stop", one.run()), &json!({})).await;
    plane.until(&one.run(), "stopped").await;
    no_process(&mark_one).await;
    assert!(!processes(&mark_two).is_empty());
    let seen = sockets.remove(0).end().await;
    assert_eq!(seen.events, [] as [serde_json::Value; 0]);
    drop(plane);
    assert_eq!(processes(&mark_two), [] as [u32; 0]);
}

#[tokio::test]
async fn what_a_shell_left_running_lives_until_its_record_is_deleted() {
    let plane = Plane::with(quick()).await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    let script = format!("set -m; nohup sleep {mark} >/dev/null 2>&1 & exit 4");
    let id = sandbox.pty_sh(&script).await;
    sandbox.pty_until(&id, "state", &json!("exited")).await;
    one_process(&mark).await;
    assert_eq!(sandbox.pty_delete(&id).await.0, 204);
    assert_eq!(processes(&mark), [] as [u32; 0]);
}

#[tokio::test]
async fn a_terminal_that_nobody_is_attached_to_is_ended() {
    let mut limits = quick();
    limits.pty.idle_ttl = Duration::from_millis(400);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    // One that ended before anybody could attach is made anew.
    let attached = async |body: &serde_json::Value| {
        eventually("an attachment in time", async || {
            let id = sandbox.pty(body).await;
            let socket = sandbox.try_attach(&id, "?replay_bytes=9999").await;
            socket.map(|socket| (id, socket))
        })
        .await
    };
    let (kept, mut socket) = attached(&json!({})).await;
    let (id, mut left) = attached(&json!({"command": ["sh", "-c", stubborn(&mark)]})).await;
    left.until("up").await;
    left.close().await;
    let session = sandbox.pty_until(&id, "state", &json!("exited")).await;
    assert_eq!(session["signal"], "SIGKILL");
    let lived = session["duration_ms"].as_u64().unwrap();
    assert!(lived >= 400, "{session}");
    no_process(&mark).await;
    // Somebody was attached to this one all the time.
    socket.type_in(*b"echo here-$((1+1))\n").await;
    socket.until("here-2").await;
    socket.close().await;
    sandbox.pty_until(&kept, "state", &json!("exited")).await;
}

#[tokio::test]
async fn a_terminal_that_has_ended_is_forgotten_after_its_time() {
    let mut limits = quick();
    limits.pty.terminal_ttl = Duration::from_millis(300);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty_sh("exit 3").await;
    // Whether the record is seen in between is a matter of luck.
    eventually("the end of the record", async || {
        let request = sandbox.request(Method::GET, &format!("pty/{id}"));
        (reply(request).await.0 == 404).then_some(())
    })
    .await;
    assert_eq!(sandbox.handshake(&id, "").await.0, 404);
}

#[tokio::test]
async fn a_client_that_answers_pings_is_kept() {
    let mut limits = quick();
    limits.pty.heartbeat_interval = Duration::from_millis(100);
    limits.pty.pong_timeout = Duration::from_secs(4);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({})).await;
    // A client that reads answers by that alone, for longer than the limit.
    let mut socket = sandbox.attach(&id, "").await;
    let before = sandbox.ping().await["last_activity"].clone();
    socket.pings(60).await;
    let session = sandbox.pty_get(&id).await;
    assert_eq!(session["attached"], true);
    assert!(session["last_client_activity"].as_str() > session["started_at"].as_str());
    socket.type_in(*b"echo alive-$((6*7))\n").await;
    socket.until("alive-42").await;
    let after = sandbox.ping().await["last_activity"].clone();
    assert!(after.as_str() > before.as_str());
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_dropped() {
    let mut limits = quick();
    limits.pty.heartbeat_interval = Duration::from_millis(50);
    limits.pty.pong_timeout = Duration::from_millis(400);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({})).await;
    // Who does not read does not answer.
    let socket = sandbox.attach(&id, "").await;
    let session = sandbox.pty_until(&id, "attached", &json!(false)).await;
    assert_eq!(session["state"], "running");
    let seen = socket.end().await;
    assert_eq!((seen.close, seen.events.len()), (None, 0));
}

#[tokio::test]
async fn a_program_that_never_stops_writing_holds_up_no_heartbeat_and_no_answer() {
    let mut limits = quick();
    limits.pty.heartbeat_interval = Duration::from_millis(50);
    limits.pty.pong_timeout = Duration::from_secs(4);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({"command": ["yes"]})).await;
    let mut socket = sandbox.attach(&id, "").await;
    // Longer than a client may be silent.
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        let pings = socket.seen.pings;
        socket.pings(pings + 1).await;
        socket.seen.output.clear();
    }
    socket.control(&json!({"type": "brand_new"})).await;
    socket.events(1).await;
    let interrupt = json!({"type": "signal", "signal": "SIGINT"});
    socket.control(&interrupt).await;
    let seen = socket.end().await;
    assert_eq!(seen.events.last().unwrap()["signal"], "SIGINT");
}

#[tokio::test]
async fn a_program_can_close_its_terminal_and_open_it_again() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let script = "read line; exec </dev/null >/dev/null 2>&1; sleep .4; \
                  echo again >/dev/tty; sleep .4; echo last >/dev/tty; exit 6";
    let id = sandbox.pty_sh(script).await;
    let mut socket = sandbox.attach(&id, "").await;
    socket.type_in(*b"\n").await;
    let seen = socket.end().await;
    assert_eq!(seen.output, b"\r\nagain\r\nlast\r\n");
    assert_eq!(seen.events.last().unwrap()["exit_code"], 6);
}

#[tokio::test]
async fn an_attached_terminal_counts_as_activity() {
    let mut limits = quick();
    limits.pty.heartbeat_interval = Duration::from_millis(30);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({"command": ["sleep", "600"]})).await;
    let mut socket = sandbox.attach(&id, "").await;
    let ping = sandbox.ping().await;
    assert_eq!(
        (&ping["ptys_running"], &ping["ptys_attached"]),
        (&json!(1), &json!(1))
    );
    socket.pings(3).await;
    let later = sandbox.ping().await;
    assert!(later["last_activity"].as_str() > ping["last_activity"].as_str());
    socket.close().await;
    sandbox.pty_until(&id, "attached", &json!(false)).await;
    let ping = sandbox.ping().await;
    assert_eq!(
        (&ping["ptys_running"], &ping["ptys_attached"]),
        (&json!(1), &json!(0))
    );
    sandbox.pty_delete(&id).await;
    assert_eq!(sandbox.ping().await["ptys_running"], 0);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off_and_the_program_goes_on() {
    let mut limits = quick();
    limits.pty.behind_for = Duration::from_secs(4);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let script =
        "stty raw -echo; echo go; read line; head -c 30000000 /dev/zero; echo done; read line";
    let id = sandbox.pty_sh(script).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=100").await;
    socket.until("go\n").await;
    socket.type_in(*b"\n").await;
    // More than all buffers on the way can hold, and nobody reads.
    sandbox.pty_until(&id, "attached", &json!(false)).await;
    let mut second = sandbox.attach(&id, "?replay_bytes=100").await;
    second.until("done\n").await;
    let seen = socket.end().await;
    assert_eq!(seen.events, [] as [serde_json::Value; 0]);
    assert!(seen.output.len() < 30_000_000);
    assert!(seen.close.is_none_or(|(code, _)| code == 1000));
    second.type_in(*b"\n").await;
    assert_eq!(second.end().await.events.last().unwrap()["exit_code"], 0);
}

#[tokio::test]
async fn a_client_that_is_merely_slower_loses_nothing() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox
        .pty_sh("stty raw -echo; read line; head -c 20000000 /dev/zero | tr '\\0' x")
        .await;
    let mut socket = sandbox.attach(&id, "").await;
    socket.type_in(*b"\n").await;
    let seen = socket.end().await;
    let bytes = seen.output.iter().filter(|byte| **byte == b'x').count();
    assert_eq!(bytes, 20_000_000);
    assert_eq!(seen.events.last().unwrap()["exit_code"], 0);
}

#[tokio::test]
async fn a_program_that_does_not_read_holds_up_nobody() {
    let mut limits = quick();
    limits.pty.heartbeat_interval = Duration::from_millis(50);
    limits.pty.pong_timeout = Duration::from_secs(3);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let id = sandbox
        .pty_sh("stty raw -echo; echo up; exec sleep 600")
        .await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=100").await;
    socket.until("up").await;
    for _ in 0..7 {
        socket.type_in(vec![b'x'; 100_000]).await;
    }
    // What finds no room is dropped, and the client is told.
    let event = socket.events(1).await[0].clone();
    assert_eq!(
        (&event["type"], &event["code"]),
        (&json!("error"), &json!("internal"))
    );
    let resize = json!({"cols": 100, "rows": 50});
    assert_eq!(sandbox.pty_post(&id, "resize", &resize).await.0, 204);
    // An interrupt cannot be typed any more, and still gets through.
    let interrupt = json!({"signal": "SIGINT"});
    assert_eq!(sandbox.pty_post(&id, "signal", &interrupt).await.0, 204);
    let seen = socket.end().await;
    assert_eq!(seen.events.last().unwrap()["signal"], "SIGINT");
}

#[tokio::test]
async fn a_message_has_a_limit() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox
        .pty_sh("stty raw -echo; echo go; head -c 1048576 | tr -d x; echo all; exec cat")
        .await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=100").await;
    socket.until("go\n").await;
    socket.type_in(vec![b'x'; 1 << 20]).await;
    socket.until("all\n").await;
    let too_large = Message::binary(vec![b'x'; (1 << 20) + 1]);
    let _cut = socket.inner.send(too_large).await;
    let seen = socket.end().await;
    assert!(seen.close.is_none_or(|(code, _)| code == 1009));
    let session = sandbox.pty_until(&id, "attached", &json!(false)).await;
    assert_eq!(session["state"], "running");
}

#[tokio::test]
async fn no_more_terminals_run_at_once_than_the_limit_says() {
    let mut limits = quick();
    limits.pty.running = 2;
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let body = json!({"command": ["sleep", "600"]});
    let first = sandbox.pty(&body).await;
    sandbox.pty(&body).await;
    let (status, answer) = sandbox.create(&body).await;
    assert_eq!((status.as_u16(), code(&answer)), (429, "rate_limited"));
    assert_eq!(answer["error"]["details"]["retry_after_ms"], 1000);
    let kill = json!({"signal": "SIGKILL"});
    assert_eq!(sandbox.pty_post(&first, "signal", &kill).await.0, 204);
    sandbox.pty_until(&first, "state", &json!("exited")).await;
    sandbox.pty(&body).await;
}

#[tokio::test]
async fn a_hundred_terminals_leave_nothing_behind() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let round = async || {
        let id = sandbox.pty_sh("echo one; exit 2").await;
        sandbox.pty_until(&id, "state", &json!("exited")).await;
        assert_eq!(sandbox.pty_delete(&id).await.0, 204);
    };
    for _ in 0..5 {
        round().await;
    }
    let before = descriptors();
    for _ in 0..95 {
        round().await;
    }
    // Other tests of this process open and close some meanwhile; a leak would be 95 and more.
    eventually("the end of the descriptors", async || {
        (descriptors() < before + 90).then_some(())
    })
    .await;
    assert_eq!(sandbox.ping().await["ptys_running"], 0);
}
