//! `exec`: what is taken, what is refused, what is answered.

use std::time::Duration;

use polyaxon_local::Limits;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{
    Plane, base64, code, eventually, growing, marker, no_process, processes, reply,
};

#[tokio::test]
async fn a_command_gets_its_input_and_gives_its_output_and_its_end() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let (status, answer) = sandbox
        .exec(&json!({
            "command": ["sh", "-c", "cat; printf err >&2; exit 7"],
            "stdin": base64("é\n".as_bytes()),
        }))
        .await;
    assert_eq!(status, 200);
    assert_eq!(answer["exit_code"], 7);
    assert_eq!(
        (&answer["stdout"], &answer["stderr"]),
        (&json!("é\n"), &json!("err"))
    );
    assert_eq!(answer["timed_out"], false);
    assert!(answer["duration_ms"].is_u64());
    assert_eq!(answer["exec_id"].as_str().unwrap().len(), 36);
    for absent in ["signal", "stdout_truncated", "stderr_truncated"] {
        assert_eq!(answer.get(absent), None);
    }
    let other = sandbox.sh("exit 255", &json!({})).await;
    assert_eq!(other["exit_code"], 255);
    assert_ne!(other["exec_id"], answer["exec_id"]);
}

#[tokio::test]
async fn the_words_of_a_command_are_not_a_shell_line() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let words = [
        "$HOME",
        "a  b",
        "*",
        "",
        "é日本",
        "q\"'\\",
        "x;y",
        "$(id)",
        "new\nline",
    ];
    let mut command = vec!["printf", "%s|"];
    command.extend(words);
    let (_, answer) = sandbox.exec(&json!({"command": command})).await;
    assert_eq!(answer["stdout"], format!("{}|", words.join("|")));
}

#[tokio::test]
async fn a_body_that_cannot_be_carried_out_is_refused_and_says_which_field() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let table: [(&str, &str, &str); 17] = [
        ("", "invalid_request", "body"),
        ("{", "invalid_request", "body"),
        ("[]", "invalid_request", "body"),
        ("{}", "invalid_request", "command"),
        (r#"{"command":["true"]} {}"#, "invalid_request", "body"),
        (
            r#"{"command":["true"],"shell":true}"#,
            "invalid_request",
            "shell",
        ),
        (r#"{"command":"true"}"#, "invalid_request", "command"),
        (r#"{"command":[]}"#, "invalid_request", "command"),
        (r#"{"command":[""]}"#, "invalid_request", "command"),
        (r#"{"command":["true",1]}"#, "invalid_request", "command"),
        (
            r#"{"command":["true"],"timeout_ms":-1}"#,
            "invalid_request",
            "timeout_ms",
        ),
        (
            r#"{"command":["true"],"timeout_ms":"1"}"#,
            "invalid_request",
            "timeout_ms",
        ),
        (
            r#"{"command":["true"],"stdin":"%%"}"#,
            "invalid_request",
            "stdin",
        ),
        (
            r#"{"command":["true"],"workdir":"tmp"}"#,
            "invalid_request",
            "workdir",
        ),
        (
            r#"{"command":["true"],"tag":"t"}"#,
            "invalid_request",
            "tag",
        ),
        (
            r#"{"command":["true"],"env":{"X=Y":"1"}}"#,
            "invalid_request",
            "env",
        ),
        (
            r#"{"command":["true"],"env":{"POLYAXON_A":null}}"#,
            "reserved_env_key",
            "env",
        ),
    ];
    for (body, want, field) in table {
        let request = sandbox.request(Method::POST, "exec").body(body);
        let (status, answer) = reply(request).await;
        assert_eq!((status.as_u16(), code(&answer)), (400, want), "{body}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(field), "{message}");
    }
}

#[tokio::test]
async fn a_null_or_an_empty_value_is_like_none_and_any_content_type_will_do() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let bodies = [
        r#"{"command":["cat"],"env":null,"workdir":null,"stdin":null,"timeout_ms":null,"tag":null}"#,
        r#"{"command":["cat"],"env":{},"workdir":"","stdin":"","timeout_ms":0,"tag":""}"#,
    ];
    for body in bodies {
        for kind in ["text/plain", "application/json", "x"] {
            let request = sandbox
                .request(Method::POST, "exec")
                .header("content-type", kind);
            let (status, answer) = reply(request.body(body)).await;
            assert_eq!(
                (status.as_u16(), &answer["stdout"]),
                (200, &json!("")),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_body_of_the_limit_is_taken_and_one_byte_more_is_413() {
    let mut limits = Limits::default();
    limits.exec_body = 200;
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let body = |size: usize| {
        let body = r#"{"command":["true"]}"#;
        format!("{body}{}", " ".repeat(size - body.len()))
    };
    let (status, answer) = reply(sandbox.request(Method::POST, "exec").body(body(200))).await;
    assert_eq!(status, 200, "{answer}");
    for size in [201, 20_000_000] {
        let (status, answer) = reply(sandbox.request(Method::POST, "exec").body(body(size))).await;
        assert_eq!((status.as_u16(), code(&answer)), (413, "payload_too_large"));
    }
}

#[tokio::test]
async fn one_command_more_than_may_run_is_429_with_a_time_to_come_back() {
    let mut limits = Limits::default();
    limits.execs_running = 1;
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    let long = sandbox
        .request(Method::POST, "exec")
        .json(&json!({"command": ["sleep", mark]}));
    let long = tokio::spawn(long.send());
    eventually("the command", async || {
        (!processes(&mark).is_empty()).then_some(())
    })
    .await;
    assert_eq!(sandbox.ping().await["execs_running"], 1);

    let request = sandbox
        .request(Method::POST, "exec")
        .json(&json!({"command": ["true"]}));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    let answer: Value = response.json().await.unwrap();
    assert_eq!(code(&answer), "rate_limited");
    assert_eq!(answer["error"]["details"], json!({"retry_after_ms": 1000}));

    long.abort();
    no_process(&mark).await;
    eventually("a free slot", async || {
        (sandbox.exec(&json!({"command": ["true"]})).await.0 == 200).then_some(())
    })
    .await;
    // Whoever has the answer is told by `ping` that the command has ended.
    assert_eq!(sandbox.ping().await["execs_running"], 0);
}

#[tokio::test]
async fn each_stream_is_cut_at_its_limit_says_so_and_never_in_a_character() {
    let mut limits = Limits::default();
    limits.exec_output = 4;
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    let table = [
        ("printf abcd", "abcd", false),
        ("printf abcde", "abcd", true),
        ("printf abc漢", "abc", true),
        ("printf 'a\\377\\376b'", "a\u{fffd}\u{fffd}b", false),
    ];
    for (script, kept, cut) in table {
        let answer = sandbox
            .sh(&format!("({script}); ({script}) >&2"), &json!({}))
            .await;
        for stream in ["stdout", "stderr"] {
            assert_eq!(answer[stream], kept, "{script}");
            let flag = answer.get(format!("{stream}_truncated"));
            assert_eq!(flag, cut.then_some(&json!(true)), "{script}");
        }
        assert_eq!(answer["exit_code"], 0);
    }
}

#[tokio::test]
async fn characters_that_arrive_byte_by_byte_are_whole() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let script = "for b in a '\\303' '\\251' '\\346' '\\274' '\\242' '\\360' '\\237' '\\230' '\\200'; \
                  do printf \"$b\"; done";
    assert_eq!(sandbox.sh(script, &json!({})).await["stdout"], "aé漢😀");
}

#[tokio::test]
async fn a_command_that_cannot_start_says_which_program_and_that_nothing_ran() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox
        .write("/tmp/plain", b"not a program", &[("mode", "0644")])
        .await;
    sandbox
        .write(
            "/tmp/orphan",
            b"#!/no/such/interpreter\n",
            &[("mode", "0755")],
        )
        .await;
    sandbox
        .write("/tmp/noise", b"\x00\x01\x02", &[("mode", "0755")])
        .await;
    let table = [
        ("no-such-program-here", "not_found"),
        ("/no/such/program", "not_found"),
        ("./nothing", "not_found"),
        ("./orphan", "not_found"),
        ("./plain", "not_executable"),
        ("./noise", "not_executable"),
        ("/tmp", "not_executable"),
    ];
    for (program, kind) in table {
        let body = json!({"command": [program], "workdir": "/tmp"});
        let (status, answer) = sandbox.exec(&body).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (500, "internal"),
            "{program}: {answer}"
        );
        let details = json!({"kind": kind, "program": program, "started": false});
        assert_eq!(answer["error"]["details"], details);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains(program)
        );
    }
    assert_eq!(sandbox.ping().await["execs_running"], 0);
}

#[tokio::test]
async fn a_workdir_that_is_not_there_is_refused_and_nothing_ran() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox.write("/tmp/file", b"", &[]).await;
    for workdir in ["/no/such/dir", "/tmp/file"] {
        let (status, answer) = sandbox
            .exec(&json!({"command": ["true"], "workdir": workdir}))
            .await;
        assert_eq!((status.as_u16(), code(&answer)), (400, "invalid_request"));
        let details = json!({"kind": "workdir_not_found", "started": false});
        assert_eq!(answer["error"]["details"], details);
    }
}

#[tokio::test]
async fn a_timeout_is_the_default_the_asked_one_or_too_long() {
    let with = async |milliseconds| {
        let mut limits = Limits::default();
        limits.timeout = Duration::from_millis(milliseconds);
        limits.timeout_max = Duration::from_secs(60);
        Plane::with(limits).await
    };
    growing(async |limit| {
        let plane = with(limit).await;
        let sandbox = plane.sandbox().await;
        let mut all_wrote = true;
        for body in [
            json!({}),
            json!({"timeout_ms": 0}),
            json!({"timeout_ms": limit / 2}),
        ] {
            let answer = sandbox.sh("echo before; exec sleep 600", &body).await;
            assert_eq!(answer["timed_out"], true);
            assert_eq!(
                (&answer["exit_code"], &answer["signal"]),
                (&json!(-1), &json!("SIGKILL"))
            );
            all_wrote &= answer["stdout"] == "before\n";
        }
        all_wrote
    })
    .await;
    let plane = with(200).await;
    let sandbox = plane.sandbox().await;
    let answer = sandbox
        .sh("sleep .4; echo after", &json!({"timeout_ms": 60_000}))
        .await;
    assert_eq!(
        (&answer["timed_out"], &answer["stdout"]),
        (&json!(false), &json!("after\n"))
    );
    let (status, _) = sandbox
        .exec(&json!({"command": ["true"], "timeout_ms": 60_001}))
        .await;
    assert_eq!(status, 400);
}
