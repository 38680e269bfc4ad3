//! Terminals: REST, frames, replay, sizes, signals and ends.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Plane, code, reply};

fn resize(cols: i64, rows: i64) -> Value {
    json!({"cols": cols, "rows": rows})
}

#[tokio::test]
async fn a_terminal_is_created_described_and_listed() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let body = json!({"command": ["sh"], "cols": 100, "rows": 40, "tag": "t:1"});
    let response = sandbox
        .request(Method::POST, "pty")
        .json(&body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 201);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let created: Value = response.json().await.unwrap();
    let id = created["pty_id"].as_str().unwrap();
    assert_eq!(location, format!("/pty/{id}"));
    let names: Vec<_> = created.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        names,
        ["cols", "pid", "pty_id", "rows", "started_at", "tag"]
    );

    let session = sandbox.pty_get(id).await;
    assert_eq!(session["pid"], created["pid"]);
    assert_eq!(session["state"], "running");
    assert_eq!(
        (&session["cols"], &session["rows"]),
        (&json!(100), &json!(40))
    );
    assert_eq!(
        (&session["attached"], &session["tag"]),
        (&json!(false), &json!("t:1"))
    );
    assert_eq!(session["detached_since"], session["started_at"]);
    for absent in ["finished_at", "exit_code", "signal", "duration_ms"] {
        assert_eq!(session.get(absent), None, "{absent}");
    }

    let plain = sandbox.pty(&json!({})).await;
    let list = async |query: &str| {
        let (status, list) = reply(sandbox.request(Method::GET, &format!("pty{query}"))).await;
        assert_eq!(status, 200, "{list}");
        let sessions = list["sessions"].as_array().unwrap().iter();
        let ids: Vec<String> = sessions
            .map(|session| session["pty_id"].as_str().unwrap().to_owned())
            .collect();
        ids
    };
    assert_eq!(list("").await, [id, &plain]);
    assert_eq!(list("?tag=").await, [id, &plain]);
    assert_eq!(list("?tag=t:1").await, [id]);
    assert_eq!(list("?tag=t:2").await, [] as [&str; 0]);
    let (status, answer) = reply(sandbox.request(Method::GET, "pty?tag=a%20b")).await;
    assert_eq!((status.as_u16(), code(&answer)), (400, "invalid_request"));
}

#[tokio::test]
async fn a_tag_is_for_one_terminal_until_that_is_deleted() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let body = json!({"command": ["true"], "tag": "mine"});
    let first = sandbox.pty(&body).await;
    sandbox.pty_until(&first, "state", &json!("exited")).await;
    let (status, answer) = sandbox.create(&body).await;
    assert_eq!((status.as_u16(), code(&answer)), (409, "conflict"));
    assert_eq!(
        answer["error"]["details"],
        json!({"tag": "mine", "state": "exited", "existing_id": first})
    );
    // A terminal that could not be started holds no tag.
    let broken = json!({"command": ["/no/such/program"], "tag": "other"});
    for _ in 0..2 {
        let (status, answer) = sandbox.create(&broken).await;
        assert_eq!(status, 500, "{answer}");
        assert_eq!(answer["error"]["details"]["kind"], "not_found");
    }
    assert_eq!(sandbox.pty_delete(&first).await.0, 204);
    sandbox.pty(&body).await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_what_it_is() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for body in [
        json!({"command": []}),
        json!({"command": "sh"}),
        json!({"cols": 0}),
        json!({"rows": 1001}),
        json!({"cols": 80.5}),
        json!({"tag": "a b"}),
        json!({"workdir": "/no/such/folder"}),
        json!({"stdin": ""}),
        json!({"env": {"": "1"}}),
    ] {
        let (status, answer) = sandbox.create(&body).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (400, "invalid_request"),
            "{body}"
        );
    }
    let missing = "no-such-pty";
    let answers = [
        reply(sandbox.request(Method::GET, &format!("pty/{missing}"))).await,
        sandbox.pty_delete(missing).await,
        sandbox.pty_post(missing, "resize", &resize(10, 10)).await,
        sandbox
            .pty_post(missing, "signal", &json!({"signal": "SIGTERM"}))
            .await,
        sandbox.handshake(missing, "").await,
    ];
    for (status, answer) in answers {
        assert_eq!((status.as_u16(), code(&answer)), (404, "not_found"));
    }
    assert_eq!(sandbox.ping().await["ptys_running"], 0);
}

#[tokio::test]
async fn a_shell_has_a_terminal_of_its_own_and_answers_through_it() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox
        .pty(&json!({"env": {"A": "é", "PS1": "> "}, "workdir": "/tmp"}))
        .await;
    let mut socket = sandbox.attach(&id, "").await;
    assert_eq!(
        (
            &socket.attached["cols"],
            &socket.attached["rows"],
            &socket.attached["state"]
        ),
        (&json!(80), &json!(24), &json!("running"))
    );
    socket
        .type_in(*b"echo \"mark-$((40+2))-$A-$TERM-$(pwd | tail -c 5)\"\n")
        .await;
    let text = socket.until("mark-42-é-xterm-256color-/tmp\r\n").await;
    assert!(text.contains("echo \"mark-$((40+2))"), "no echo: {text}");
    // Its own session, with this as its controlling terminal.
    socket
        .type_in(*b"set -- $(cat /proc/$$/stat); echo \"s-$(( $6 == $$ ))-$(( $7 != 0 ))\"; : >/dev/tty && echo tty-$((1+1))\n")
        .await;
    socket.until("s-1-1").await;
    socket.until("tty-2").await;
    assert_eq!(sandbox.pty_get(&id).await["attached"], true);
    assert_eq!(sandbox.pty_get(&id).await["detached_since"], Value::Null);
    socket.close().await;
    let session = sandbox.pty_until(&id, "attached", &json!(false)).await;
    assert_eq!(session["state"], "running");
    assert!(session["detached_since"].is_string());
}

#[tokio::test]
async fn every_byte_goes_through_in_both_directions() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox
        .pty_sh("stty raw -echo; echo go; head -c 256; sleep 60")
        .await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=1024").await;
    socket.until("go\n").await;
    let all: Vec<u8> = (0..=255).collect();
    socket.type_in(all.clone()).await;
    socket.until(&all).await;
    assert_eq!(socket.seen.output, [b"go\n", &all[..]].concat());
}

#[tokio::test]
async fn output_that_is_no_text_comes_in_binary_frames() {
    // SB-10; and a text frame of a kind that is not known does not end the session.
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let script = r"stty raw -echo; printf '\377\376ok\n'; read line; printf 'z'; read line";
    let id = sandbox.pty_sh(script).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=100").await;
    socket.until("ok\n").await;
    assert_eq!(socket.seen.output, b"\xff\xfeok\n");
    socket.control(&json!({"type": "brand_new", "x": 1})).await;
    let event = socket.events(1).await[0].clone();
    assert_eq!(
        (&event["type"], &event["code"]),
        (&json!("error"), &json!("invalid_request"))
    );
    socket.type_in(*b"\n").await;
    socket.until("z").await;
    assert_eq!(socket.seen.output, b"\xff\xfeok\nz");
}

#[tokio::test]
async fn a_size_is_seen_by_the_program_however_early_it_comes() {
    // SB-52.
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    // It is asked for the size once both are set, however long that takes.
    let script = "until [ -e go ]; do sleep .02; done; \
                  stty size; read line; stty size; read line; stty size; read line";
    let command = ["sh", "-c", script];
    let body = json!({"command": command, "workdir": "/tmp", "cols": 100, "rows": 30});
    let id = sandbox.pty(&body).await;
    assert_eq!(
        sandbox.pty_post(&id, "resize", &resize(110, 35)).await.0,
        204
    );
    assert_eq!(
        sandbox.pty_post(&id, "resize", &resize(120, 40)).await.0,
        204
    );
    sandbox.write("/tmp/go", b"", &[]).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=1000").await;
    assert_eq!(socket.attached["cols"], 120);
    socket.until("40 120\r\n").await;
    assert_eq!(
        sandbox.pty_post(&id, "resize", &resize(90, 20)).await.0,
        204
    );
    socket.type_in(*b"\n").await;
    socket.until("20 90\r\n").await;
    socket
        .control(&json!({"type": "resize", "cols": 111, "rows": 44}))
        .await;
    socket.type_in(*b"\n").await;
    socket.until("44 111\r\n").await;
    let session = sandbox.pty_get(&id).await;
    assert_eq!(
        (&session["cols"], &session["rows"]),
        (&json!(111), &json!(44))
    );
}

#[tokio::test]
async fn a_size_that_cannot_be_is_refused_and_the_session_lives() {
    // SB-53.
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({})).await;
    let mut socket = sandbox.attach(&id, "").await;
    let sizes = [
        (0, 0),
        (0, 24),
        (24, 0),
        (65_535, 65_535),
        (70_000, -1),
        (1001, 1),
    ];
    for (cols, rows) in sizes {
        let (status, answer) = sandbox.pty_post(&id, "resize", &resize(cols, rows)).await;
        assert_eq!((status.as_u16(), code(&answer)), (400, "invalid_request"));
        socket
            .control(&json!({"type": "resize", "cols": cols, "rows": rows}))
            .await;
    }
    for body in [
        json!({}),
        json!({"cols": 80}),
        json!({"cols": "80", "rows": 24}),
    ] {
        let (status, answer) = sandbox.pty_post(&id, "resize", &body).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (400, "invalid_request"),
            "{body}"
        );
    }
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"type":"resize"}"#,
        r#"{"type":"signal","signal":"SIGNOPE"}"#,
    ] {
        socket.text(text).await;
    }
    for event in socket.events(sizes.len() + 6).await {
        assert_eq!(
            (&event["type"], &event["code"]),
            (&json!("error"), &json!("invalid_request"))
        );
        assert!(
            event["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
    }
    socket.type_in(*b"echo ok-$((6*7)); stty size\n").await;
    socket.until("ok-42\r\n24 80\r\n").await;
    assert_eq!(socket.seen.close, None);
}

#[tokio::test]
async fn an_interrupt_is_typed_and_reaches_the_job_in_the_foreground() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({})).await;
    let mut socket = sandbox.attach(&id, "").await;
    let signal = async |name: &str| {
        let (status, _) = sandbox
            .pty_post(&id, "signal", &json!({"signal": name}))
            .await;
        status
    };
    for (number, (name, want)) in [("SIGINT", 130), ("SIGQUIT", 131)].into_iter().enumerate() {
        for by_frame in [false, true] {
            let round = number * 2 + usize::from(by_frame);
            // The word comes from the job itself, so that it is there to be interrupted.
            let ready = format!("ready-{}", round + 10);
            socket
                .type_in(format!(
                    "sh -c 'echo ready-'$(({round}+10))'; exec sleep 60'\n"
                ))
                .await;
            socket.until(&ready).await;
            match by_frame {
                true => {
                    let control = json!({"type": "signal", "signal": name});
                    socket.control(&control).await;
                }
                false => assert_eq!(signal(name).await, 204),
            }
            // An interrupted shell drops what it was told in the same line.
            let line = format!("echo status-$?-$(({round}+10))\n");
            socket.type_in(line).await;
            socket.until(&format!("status-{want}-{}", round + 10)).await;
        }
    }
    for name in ["SIGNOPE", "SIGSTOP", "9", ""] {
        assert_eq!(signal(name).await, 400, "{name}");
    }
    assert_eq!(signal("SIGKILL").await, 204);
    let seen = socket.end().await;
    let event = seen.events.last().unwrap();
    assert_eq!(event["type"], "exited");
    assert_eq!(
        (&event["exit_code"], &event["signal"]),
        (&json!(-1), &json!("SIGKILL"))
    );
    assert_eq!(seen.close, Some((1000, "pty detached".to_owned())));
    assert_eq!(signal("SIGTERM").await, 410);
}

#[tokio::test]
async fn other_signals_go_to_the_group_of_the_leader() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for name in ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"] {
        let trap = name.trim_start_matches("SIG");
        let script =
            format!("trap 'echo got-{trap}; exit 7' {trap}; echo up; while :; do sleep .05; done");
        let id = sandbox.pty_sh(&script).await;
        let mut socket = sandbox.attach(&id, "?replay_bytes=1000").await;
        socket.until("up").await;
        let (status, _) = sandbox
            .pty_post(&id, "signal", &json!({"signal": name}))
            .await;
        assert_eq!(status, 204);
        let seen = socket.end().await;
        assert!(String::from_utf8_lossy(&seen.output).contains(&format!("got-{trap}")));
        assert_eq!(seen.events.last().unwrap()["exit_code"], 7);
    }
}

#[tokio::test]
async fn a_replay_and_what_follows_it_are_the_output_byte_for_byte() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let script = "stty raw -echo; i=0; while [ $i -lt 4000 ]; do echo \"line $i\"; i=$((i+1)); \
                  [ $i = 1000 ] && read line; done; echo end; read line";
    let id = sandbox.pty_sh(script).await;
    let whole: String = (0..4000).map(|i| format!("line {i}\n")).collect();
    let whole = format!("{whole}end\n");
    let mut socket = sandbox.attach(&id, "?replay_bytes=262144").await;
    let seen = socket.until("line 999\n").await;
    assert!(whole.starts_with(&seen));
    // While it writes as fast as it can, clients come and go; each sees a part without a seam.
    socket.type_in(*b"\n").await;
    socket.close().await;
    let mut longest = 0;
    for _ in 0..5 {
        sandbox.pty_until(&id, "attached", &json!(false)).await;
        let mut socket = sandbox.attach(&id, "?replay_bytes=262144").await;
        let first = format!("line {longest}\n");
        let seen = socket.until(&first).await;
        assert!(whole.starts_with(&seen), "{longest}");
        longest += 700;
        socket.close().await;
    }
    sandbox.pty_until(&id, "attached", &json!(false)).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=262144").await;
    assert_eq!(socket.until("end\n").await, whole);
    socket.close().await;
    // The last bytes only, and none.
    sandbox.pty_until(&id, "attached", &json!(false)).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=6").await;
    assert_eq!(socket.until("end\n").await, "9\nend\n"[..].to_owned());
    socket.close().await;
    sandbox.pty_until(&id, "attached", &json!(false)).await;
    let mut socket = sandbox.attach(&id, "?replay_bytes=0").await;
    socket.type_in(*b"\n").await;
    let seen = socket.end().await;
    assert_eq!(seen.output, b"");
    assert_eq!(seen.events.last().unwrap()["exit_code"], 0);
}

#[tokio::test]
async fn the_last_output_the_end_and_the_close_come_in_this_order() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for size in [0, 3, 5000, 200_000] {
        let script = format!("read line; head -c {size} /dev/zero | tr '\\0' x; exit 5");
        let body = json!({"command": ["sh", "-c", script], "env": {"A": "1"}});
        let id = sandbox.pty(&body).await;
        let mut socket = sandbox.attach(&id, "").await;
        socket.type_in(*b"\n").await;
        let seen = socket.end().await;
        let bytes = seen.output.iter().filter(|byte| **byte == b'x').count();
        assert_eq!(bytes, size);
        assert!(seen.largest_frame <= 4096, "{}", seen.largest_frame);
        assert_eq!(seen.events.len(), 1);
        let event = &seen.events[0];
        assert_eq!(
            (&event["type"], &event["exit_code"]),
            (&json!("exited"), &json!(5))
        );
        assert_eq!(event.get("signal"), None);
        assert_eq!(seen.close, Some((1000, "pty detached".to_owned())));
        let session = sandbox.pty_get(&id).await;
        assert_eq!(
            (&session["state"], &session["exit_code"]),
            (&json!("exited"), &json!(5))
        );
        assert_eq!(session["finished_at"], event["finished_at"]);
        assert_eq!(session["duration_ms"], event["duration_ms"]);
        assert_eq!(session["attached"], false);
    }
}

#[tokio::test]
async fn a_handshake_that_cannot_be_is_an_answer_with_the_envelope() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let id = sandbox.pty(&json!({})).await;
    let refused = async |id: &str, query: &str| {
        let (status, answer) = sandbox.handshake(id, query).await;
        (status.as_u16(), code(&answer).to_owned(), answer)
    };
    for query in [
        "?replay_bytes=262145",
        "?replay_bytes=-1",
        "?replay_bytes=all",
    ] {
        let (status, word, _) = refused(&id, query).await;
        assert_eq!((status, word.as_str()), (400, "invalid_request"), "{query}");
    }
    let plain = sandbox.request(Method::GET, &format!("pty/{id}/ws"));
    let (status, answer) = reply(plain).await;
    assert_eq!((status.as_u16(), code(&answer)), (400, "invalid_request"));

    let mut socket = sandbox.attach(&id, "?replay_bytes=262144").await;
    let (status, word, _) = refused(&id, "").await;
    assert_eq!((status, word.as_str()), (409, "already_attached"));
    socket.type_in(*b"echo still-$((6*7)); exit 3\n").await;
    socket.until("still-42").await;
    socket.end().await;

    let (status, word, answer) = refused(&id, "").await;
    assert_eq!((status, word.as_str()), (410, "gone"));
    let session = sandbox.pty_get(&id).await;
    assert_eq!(
        answer["error"]["details"],
        json!({
            "pty_id": id, "state": "exited", "exit_code": 3, "signal": null,
            "duration_ms": session["duration_ms"], "finished_at": session["finished_at"]
        })
    );
    let (status, answer) = sandbox.pty_post(&id, "resize", &resize(10, 10)).await;
    assert_eq!((status.as_u16(), code(&answer)), (410, "gone"));
}

#[tokio::test]
async fn a_request_that_only_says_connection_upgrade_is_an_ordinary_one() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for (method, subpath, want) in [
        (Method::GET, "ping", StatusCode::OK),
        (Method::GET, "fs/stat?path=/tmp", StatusCode::OK),
        (Method::GET, "pty", StatusCode::OK),
        (Method::GET, "pty/none/ws", StatusCode::NOT_FOUND),
    ] {
        let request = sandbox
            .request(method, subpath)
            .header("Connection", "upgrade");
        let (status, answer) = reply(request).await;
        assert_eq!(status, want, "{subpath} {answer}");
    }
    let body = json!({"command": ["echo", "ok"]});
    let request = sandbox
        .request(Method::POST, "exec")
        .header("Connection", "upgrade");
    let (status, answer) = reply(request.json(&body)).await;
    assert_eq!((status.as_u16(), &answer["stdout"]), (200, &json!("ok\n")));
}
