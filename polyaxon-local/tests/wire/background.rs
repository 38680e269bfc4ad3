//! `exec/bg`: records, logs, signals and deletes.

use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::Timestamp;
use polyaxon_local::Limits;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::execs::{Execs, shell, within};
use crate::harness::{
    Plane, base64, code, eventually, growing, marker, no_process, one_process, processes,
};

/// Well below the time for which a page with `follow` waits by default.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_background_exec_has_a_record_from_its_start_to_its_end() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let script = "echo out; echo err >&2; until [ -e tmp/go ]; do sleep .02; done; exit 3";
    let (status, started) = execs
        .post("exec/bg", &shell(script, &json!({"tag": "build:1"})))
        .await;
    assert_eq!(status, 202);
    let id = started["exec_id"].as_str().unwrap();
    let pid = started["pid"].as_u64().unwrap();
    let members: Vec<&String> = started.as_object().unwrap().keys().collect();
    assert_eq!(members, ["exec_id", "pid", "started_at", "tag"]);
    assert_eq!(execs.ping().await["execs_running"], 1);

    let running = execs.status(id).await;
    let want = json!({
        "exec_id": id, "pid": pid, "state": "running", "started_at": started["started_at"],
        "tag": "build:1", "exit_code": null,
        "stdout_bytes": running["stdout_bytes"], "stderr_bytes": running["stderr_bytes"],
    });
    assert_eq!(running, want);
    sandbox.write("/tmp/go", b"", &[]).await;
    let ended = execs.until(id, "exited").await;
    assert_eq!(
        (&ended["exit_code"], ended.get("signal")),
        (&json!(3), None)
    );
    assert_eq!(
        (&ended["stdout_bytes"], &ended["stderr_bytes"]),
        (&json!(4), &json!(4))
    );
    assert_eq!(ended["pid"], pid);
    let time = |name: &str| ended[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(time("finished_at") >= time("started_at"));
    assert!(ended["duration_ms"].as_u64().unwrap() < 20_000);
    assert_eq!(execs.page(id, "stream=stderr").await["data"], "err\n");
    assert_eq!(execs.ping().await["execs_running"], 0);
}

#[tokio::test]
async fn all_kinds_of_execs_are_listed_oldest_first_and_filtered_by_tag() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let (status, list) = execs.get("exec/bg").await;
    assert_eq!((status.as_u16(), list), (200, json!({"execs": []})));
    let one = execs.sh("exit 1", &json!({})).await["exec_id"].clone();
    let two = execs.stream("exit 2", &json!({})).await[0].1["exec_id"].clone();
    let three = execs.bg("sleep 600", &json!({"tag": "three"})).await;
    assert_eq!(execs.ids("").await, [one.clone(), two, json!(three)]);
    assert_eq!(execs.ids("?tag=three").await, [three.as_str()]);
    assert_eq!(execs.ids("?tag=thre").await, [] as [&str; 0]);
    assert_eq!(execs.ids("?tag=").await.len(), 3);
    assert_eq!(
        code(&execs.get("exec/bg?tag=a%20b").await.1),
        "invalid_request"
    );
    let (_, list) = execs.get("exec/bg?tag=three").await;
    // Here what is not known is left out.
    assert_eq!(list["execs"][0].get("exit_code"), None);
    assert_eq!(list["execs"][0]["state"], "running");
    let status = execs.status(one.as_str().unwrap()).await;
    assert_eq!(
        (&status["state"], &status["exit_code"]),
        (&json!("exited"), &json!(1))
    );
}

#[tokio::test]
async fn a_tag_is_one_exec_s_until_its_record_is_deleted() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    for tag in ["a b", "a/b", "é", &"x".repeat(129)] {
        let (status, _) = execs
            .post("exec/bg", &shell("true", &json!({"tag": tag})))
            .await;
        assert_eq!(status, 400, "{tag}");
    }
    let script = "until [ -e tmp/go ]; do sleep .02; done";
    let body = shell(script, &json!({"tag": "once"}));
    let starts = join_all((0..8).map(|_| execs.post("exec/bg", &body))).await;
    let (started, refused): (Vec<_>, Vec<_>) =
        starts.into_iter().partition(|(status, _)| *status == 202);
    assert_eq!((started.len(), refused.len()), (1, 7));
    let id = started[0].1["exec_id"].as_str().unwrap();
    for (status, answer) in refused {
        assert_eq!((status.as_u16(), code(&answer)), (409, "conflict"));
        let details = json!({"tag": "once", "state": "running", "existing_id": id});
        assert_eq!(answer["error"]["details"], details);
    }
    sandbox.write("/tmp/go", b"", &[]).await;
    execs.until(id, "exited").await;
    let (status, answer) = execs.post("exec/bg", &body).await;
    assert_eq!(status, 409);
    assert_eq!(answer["error"]["details"]["state"], "exited");
    assert_eq!(execs.delete(id).await.0, 204);
    assert_eq!(execs.post("exec/bg", &body).await.0, 202);
    // A start that failed keeps no tag.
    let broken = json!({"command": ["no-such-program-here"], "tag": "broken"});
    for _ in 0..2 {
        assert_eq!(execs.post("exec/bg", &broken).await.0, 500);
    }
    assert_eq!(execs.ids("?tag=broken").await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_log_is_read_in_pages() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let id = execs.bg("printf 0123456789", &json!({})).await;
    execs.until(&id, "exited").await;
    let table = [
        ("offset=0&max_bytes=4", "0123", 0, 4, false),
        ("offset=4&max_bytes=100", "456789", 4, 10, true),
        ("offset=4&max_bytes=6", "456789", 4, 10, true),
        ("offset=10", "", 10, 10, true),
        ("offset=50", "", 50, 50, true),
        ("", "0123456789", 0, 10, true),
        ("max_bytes=99999999&follow=true", "0123456789", 0, 10, true),
    ];
    for (query, data, offset, next_offset, eof) in table {
        let page = execs.page(&id, query).await;
        let want = json!({
            "exec_id": id, "stream": "stdout", "offset": offset, "next_offset": next_offset,
            "bytes": next_offset - offset, "data": data, "eof": eof, "state": "exited",
        });
        assert_eq!(page, want, "{query}");
    }
    let bad = [
        "stream=both",
        "offset=-1",
        "offset=x",
        "max_bytes=0",
        "max_bytes=-1",
        "follow=1",
    ];
    for query in bad {
        let (status, answer) = execs.get(&format!("exec/bg/{id}/logs?{query}")).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (400, "invalid_request"),
            "{query}"
        );
    }
}

#[tokio::test]
async fn pages_of_any_size_give_the_bytes_and_where_a_character_fits_the_text() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let script = "printf 'aé漢😀'; printf '\\377\\346\\274x\\360\\237'; printf '漢é😀\\303'";
    let id = execs.bg(script, &json!({})).await;
    let total = execs.until(&id, "exited").await["stdout_bytes"]
        .as_u64()
        .unwrap();
    assert_eq!(total, 10 + 6 + 10);
    let whole = execs.page(&id, "").await["data"].clone();
    let fffd = "\u{fffd}";
    let want = format!("aé漢😀{fffd}{fffd}{fffd}x{fffd}{fffd}漢é😀{fffd}");
    assert_eq!(whole, want);
    for size in 1..=12 {
        let (mut offset, mut text) = (0, String::new());
        loop {
            let page = execs
                .page(&id, &format!("offset={offset}&max_bytes={size}"))
                .await;
            let bytes = page["bytes"].as_u64().unwrap();
            assert!((1..=size).contains(&bytes), "{page}");
            offset += bytes;
            assert_eq!(page["next_offset"], offset);
            text.push_str(page["data"].as_str().unwrap());
            if page["eof"] == true {
                break;
            }
        }
        assert_eq!(offset, total);
        if size >= 4 {
            assert_eq!(text, want, "pages of {size}");
        }
    }
}

#[tokio::test]
async fn an_unfinished_character_waits_for_its_rest() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let script = "printf 'a\\303'; until [ -e tmp/go ]; do sleep .02; done; printf '\\251'";
    let id = execs.bg(script, &json!({})).await;
    eventually("both bytes", async || {
        (execs.status(&id).await["stdout_bytes"] == 2).then_some(())
    })
    .await;
    let page = execs.page(&id, "").await;
    assert_eq!(
        (&page["data"], &page["next_offset"]),
        (&json!("a"), &json!(1))
    );
    let page = execs.page(&id, "offset=1").await;
    assert_eq!(
        (&page["data"], &page["next_offset"]),
        (&json!(""), &json!(1))
    );
    assert_eq!(
        (&page["eof"], &page["state"]),
        (&json!(false), &json!("running"))
    );
    sandbox.write("/tmp/go", b"", &[]).await;
    let page = within(SOON, execs.page(&id, "offset=1&follow=true")).await;
    assert_eq!(
        (&page["data"], &page["next_offset"]),
        (&json!("é"), &json!(3))
    );
}

#[tokio::test]
async fn a_page_with_follow_waits_for_output_for_the_end_or_for_its_time() {
    let mut limits = Limits::default();
    limits.follow = Duration::from_secs(10);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let script = "until [ -e tmp/go ]; do sleep .02; done; echo more; \
                  until [ -e tmp/end ]; do sleep .02; done";
    let id = execs.bg(script, &json!({})).await;
    let follow = |offset: u32| format!("offset={offset}&follow=true");
    // At once without it, and with an answer that says so.
    let page = execs.page(&id, "").await;
    assert_eq!((&page["data"], &page["eof"]), (&json!(""), &json!(false)));
    for (file, offset, data, eof) in [("/tmp/go", 0, "more\n", false), ("/tmp/end", 5, "", true)] {
        let query = follow(offset);
        let (page, _) = tokio::join!(execs.page(&id, &query), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            sandbox.write(file, b"", &[]).await
        });
        assert_eq!(
            (&page["data"], &page["eof"]),
            (&json!(data), &json!(eof)),
            "{file}"
        );
    }
    let quiet = execs.bg("sleep 600", &json!({})).await;
    let begun = Instant::now();
    let page = execs.page(&quiet, &follow(0)).await;
    assert!(begun.elapsed() >= Duration::from_secs(10));
    assert_eq!(
        (&page["data"], &page["state"]),
        (&json!(""), &json!("running"))
    );
}

#[tokio::test]
async fn a_signal_reaches_the_whole_group_and_is_the_end_that_is_reported() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let names = [
        "SIGTERM", "SIGINT", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2",
    ];
    for name in names {
        let mark = marker();
        let script = format!("sleep {mark} & echo up; exec sleep {mark}");
        let id = execs.bg(&script, &json!({})).await;
        eventually("both", async || (processes(&mark).len() == 2).then_some(())).await;
        assert_eq!(
            execs.signal(&id, name).await,
            (StatusCode::NO_CONTENT, json!(""))
        );
        let status = execs.until(&id, "signaled").await;
        assert_eq!(
            (&status["signal"], &status["exit_code"]),
            (&json!(name), &json!(-1))
        );
        // The shell has let its background child ignore these two.
        if !["SIGINT", "SIGQUIT"].contains(&name) {
            no_process(&mark).await;
        }
        assert_eq!(execs.signal(&id, name).await.0, 204);
    }
    let id = execs.bg("sleep 600", &json!({})).await;
    for name in ["SIGNOPE", "TERM", "15", "SIGSTOP", ""] {
        let (status, answer) = execs.signal(&id, name).await;
        assert_eq!((status.as_u16(), code(&answer)), (400, "invalid_request"));
    }
    assert_eq!(execs.status(&id).await["state"], "running");
}

#[tokio::test]
async fn a_command_can_take_a_signal_and_go_on() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let script = "trap 'echo got; exit 7' USR1; echo up; while :; do sleep .05; done";
    let id = execs.bg(script, &json!({})).await;
    assert_eq!(execs.output(&id).await["data"], "up\n");
    assert_eq!(execs.signal(&id, "SIGUSR1").await.0, 204);
    assert_eq!(execs.until(&id, "exited").await["exit_code"], 7);
    assert_eq!(execs.page(&id, "").await["data"], "up\ngot\n");
}

#[tokio::test]
async fn a_delete_ends_the_tree_and_leaves_neither_record_nor_log() {
    let mut limits = Limits::default();
    limits.kill_grace = Duration::from_millis(300);
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let execs = Execs::of(&sandbox);
    let state = plane
        .server
        .folder()
        .join(format!("{}.state", sandbox.uuid));
    let files = || std::fs::read_dir(&state).unwrap().count();
    let before = files();
    let mark = marker();
    let scripts = [
        format!("echo up; sleep {mark}"),
        format!("trap '' TERM; echo up; sleep {mark} & sleep {mark}"),
        format!(
            "trap 'exit 0' TERM; (trap '' TERM; sleep {mark}) & echo up; while :; do sleep .05; done"
        ),
    ];
    for script in scripts {
        let id = execs.bg(&script, &json!({"tag": "t"})).await;
        execs.output(&id).await;
        assert_eq!(files(), before + 2);
        let (status, body) = within(SOON, execs.delete(&id)).await;
        assert_eq!((status.as_u16(), body), (204, json!("")));
        assert_eq!(processes(&mark), [] as [u32; 0], "{script}");
        assert_eq!(files(), before);
        for gone in [
            execs.get(&format!("exec/bg/{id}")).await,
            execs.get(&format!("exec/bg/{id}/logs")).await,
            execs.signal(&id, "SIGTERM").await,
            execs.delete(&id).await,
        ] {
            assert_eq!((gone.0.as_u16(), code(&gone.1)), (404, "not_found"));
        }
    }
    assert_eq!(execs.ids("").await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_delete_is_carried_out_for_a_caller_who_does_not_wait() {
    let mut limits = Limits::default();
    limits.kill_grace = Duration::from_secs(3);
    let plane = Plane::with(limits).await;
    let execs = Execs::of(&plane.sandbox().await);
    let mark = marker();
    // What a shell ignores its programs ignore too; what it only traps ends them.
    let script = format!("trap : TERM; while :; do sleep {mark}; done");
    let id = execs.bg(&script, &json!({})).await;
    let sleeping = format!("sleep\0{mark}");
    one_process(&sleeping).await;
    let first = processes(&sleeping);
    let request = execs.request(Method::DELETE, &format!("exec/bg/{id}"));
    let call = tokio::spawn(request.send());
    // The SIGTERM ends the `sleep` and not the shell, which starts the next one.
    eventually("the signal", async || {
        let now = processes(&sleeping);
        first.iter().all(|id| !now.contains(id)).then_some(())
    })
    .await;
    call.abort();
    eventually("the removal", async || {
        (execs.get(&format!("exec/bg/{id}")).await.0 == 404).then_some(())
    })
    .await;
    assert_eq!(processes(&mark), [] as [u32; 0]);
}

#[tokio::test]
async fn a_delete_of_a_record_leaves_what_its_ended_command_started() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let mark = marker();
    let answer = execs
        .sh(&format!("sleep {mark} & echo up"), &json!({}))
        .await;
    let id = answer["exec_id"].as_str().unwrap();
    assert_eq!(execs.delete(id).await.0, 204);
    one_process(&mark).await;
    assert_eq!(execs.get(&format!("exec/bg/{id}")).await.0, 404);
}

#[tokio::test]
async fn a_background_exec_ends_at_its_timeout_and_the_default_one_is_there() {
    growing(async |limit| {
        let mut limits = Limits::default();
        limits.timeout = Duration::from_millis(limit);
        let plane = Plane::with(limits).await;
        let execs = Execs::of(&plane.sandbox().await);
        let mut all_wrote = true;
        for members in [json!({}), json!({"timeout_ms": limit / 2})] {
            let mark = marker();
            let script = format!("trap '' TERM; echo before; sleep {mark} & sleep {mark}");
            let id = execs.bg(&script, &members).await;
            let status = execs.until(&id, "timed_out").await;
            assert_eq!(
                (&status["exit_code"], &status["signal"]),
                (&json!(-1), &json!("SIGKILL"))
            );
            all_wrote &= execs.page(&id, "").await["data"] == "before\n";
            no_process(&mark).await;
        }
        all_wrote
    })
    .await;
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let (status, _) = execs
        .post("exec/bg", &shell("true", &json!({"timeout_ms": 300_001})))
        .await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn running_execs_of_all_kinds_count_to_the_limit() {
    let mut limits = Limits::default();
    limits.execs_running = 2;
    let plane = Plane::with(limits).await;
    let execs = Execs::of(&plane.sandbox().await);
    let one = execs.bg("sleep 600", &json!({})).await;
    let body = shell("sleep 600", &json!({}));
    let request = execs.request(Method::POST, "exec/stream").json(&body);
    let mut stream = request.send().await.unwrap();
    stream.chunk().await.unwrap().unwrap();
    assert_eq!(execs.ping().await["execs_running"], 2);
    for path in ["exec", "exec/bg", "exec/stream"] {
        let request = execs.request(Method::POST, path).json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 429, "{path}");
        assert_eq!(response.headers()["retry-after"], "1");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["error"]["details"], json!({"retry_after_ms": 1000}));
    }
    assert_eq!(execs.delete(&one).await.0, 204);
    assert_eq!(execs.ping().await["execs_running"], 1);
    assert_eq!(execs.sh("echo ok", &json!({})).await["stdout"], "ok\n");
}

#[tokio::test]
async fn the_rest_of_a_cut_output_is_in_the_log_of_its_record() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let script = "head -c 2000000 /dev/zero | tr '\\0' x; printf end";
    let answer = execs.sh(script, &json!({})).await;
    assert_eq!(answer["stdout"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(answer["stdout_truncated"], true);
    let id = answer["exec_id"].as_str().unwrap();
    assert_eq!(execs.status(id).await["stdout_bytes"], 2_000_003);
    let page = execs
        .page(id, &format!("offset={}&max_bytes=9999999", 1 << 20))
        .await;
    assert_eq!(page["bytes"], 2_000_003 - (1 << 20));
    assert!(page["data"].as_str().unwrap().ends_with("xend"));
    assert_eq!(page["eof"], true);
}

#[tokio::test]
async fn large_input_and_output_of_a_background_exec_do_not_wait_for_each_other() {
    let plane = Plane::start().await;
    let execs = Execs::of(&plane.sandbox().await);
    let input: Vec<u8> = (b'a'..b'x').cycle().take(8 << 20).collect();
    let id = execs
        .bg("cat; cat >&2", &json!({"stdin": base64(&input)}))
        .await;
    let status = execs.until(&id, "exited").await;
    assert_eq!(status["stdout_bytes"], 8 << 20);
    let page = execs.page(&id, "offset=8000000&max_bytes=1000000").await;
    assert_eq!(
        page["data"].as_str().unwrap().as_bytes(),
        &input[8_000_000..]
    );
    // Input that nobody reads neither fails the command nor keeps it.
    let mut members = json!({"stdin": base64(&input[..1 << 20])});
    let id = execs.bg("true", &members).await;
    assert_eq!(execs.until(&id, "exited").await["exit_code"], 0);
    members["timeout_ms"] = json!(300);
    let id = execs.bg("exec sleep 600", &members).await;
    execs.until(&id, "timed_out").await;
}
