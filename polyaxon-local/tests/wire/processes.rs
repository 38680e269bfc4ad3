//! Processes: their ends, their input, and what they leave behind.

use std::time::{Duration, Instant};

use futures::future::join_all;
use polyaxon_local::Limits;
use reqwest::Method;
use serde_json::json;

use crate::harness::{
    Plane, base64, eventually, growing, marker, no_process, one_process, processes,
};

/// Well above what a loaded machine takes, well below the `sleep` that must not be waited for.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_command_ends_when_its_process_ends_and_what_it_started_lives_on() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    let begun = Instant::now();
    let answer = sandbox
        .sh(&format!("sleep {mark} & echo STARTED"), &json!({}))
        .await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(
        (&answer["stdout"], &answer["exit_code"]),
        (&json!("STARTED\n"), &json!(0))
    );
    one_process(&mark).await;
    assert_eq!(sandbox.ping().await["execs_running"], 0);
    plane
        .post(&format!("{}/stop", sandbox.run()), &json!({}))
        .await;
    no_process(&mark).await;
}

#[tokio::test]
async fn a_process_left_behind_can_go_on_writing() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    // A full pipe would stop it, a closed one would kill it.
    let script = "(sleep .3; head -c 300000 /dev/zero; echo alive > tmp/alive) & echo STARTED";
    let answer = sandbox.sh(script, &json!({})).await;
    assert_eq!(answer["stdout"], "STARTED\n");
    eventually("the file", async || {
        (sandbox.stat("/tmp/alive").await.0 == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_timeout_kills_the_whole_group_and_keeps_the_output() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    let script = format!("trap '' TERM; echo before; sleep {mark} & sleep {mark}; echo no");
    growing(async |limit| {
        let begun = Instant::now();
        let answer = sandbox.sh(&script, &json!({"timeout_ms": limit})).await;
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        assert_eq!(answer["timed_out"], true);
        assert_eq!(
            (&answer["exit_code"], &answer["signal"]),
            (&json!(-1), &json!("SIGKILL"))
        );
        no_process(&mark).await;
        answer["stdout"] == "before\n"
    })
    .await;
}

#[tokio::test]
async fn a_command_whose_caller_goes_away_is_ended_and_in_the_end_killed() {
    let (gentle, stubborn) = (marker(), marker());
    let cases = [
        // It is never killed: it has longer than anything is waited for here.
        (
            Duration::from_secs(600),
            format!("trap 'echo bye > tmp/bye; exit' TERM; sleep {gentle} & wait"),
            gentle,
        ),
        (
            Duration::from_millis(300),
            format!("trap '' TERM; sleep {stubborn} & sleep {stubborn}"),
            stubborn,
        ),
    ];
    for (kill_grace, script, mark) in cases {
        let mut limits = Limits::default();
        limits.kill_grace = kill_grace;
        let plane = Plane::with(limits).await;
        let sandbox = plane.sandbox().await;
        let says_bye = script.contains("bye");
        let body = json!({"command": ["sh", "-c", script]});
        let call = tokio::spawn(sandbox.request(Method::POST, "exec").json(&body).send());
        eventually("the command", async || {
            (processes(&mark).len() > 1).then_some(())
        })
        .await;
        call.abort();
        no_process(&mark).await;
        if says_bye {
            assert_eq!(sandbox.content("/tmp/bye").await, b"bye\n");
        }
        eventually("no running command", async || {
            (sandbox.ping().await["execs_running"] == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn no_zombie_is_left_behind_by_ended_or_abandoned_commands() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let body = json!({"command": ["sh", "-c", "sleep .01 & exit 0"]});
    for _ in 0..15 {
        let calls = (0..20).map(|index| {
            let call = tokio::spawn(sandbox.request(Method::POST, "exec").json(&body).send());
            async move {
                if index % 2 == 0 {
                    tokio::task::yield_now().await;
                    call.abort();
                } else {
                    assert_eq!(call.await.unwrap().unwrap().status(), 200);
                }
            }
        });
        join_all(calls).await;
    }
    // Those that are seen now have to go; others may come and go meanwhile, from other tests.
    let seen = zombies();
    eventually("the reaping of all zombies", async || {
        let still = zombies();
        seen.iter().all(|id| !still.contains(id)).then_some(())
    })
    .await;
    assert_eq!(sandbox.exec(&body).await.0, 200);
}

/// The ids of dead children of this process that nobody waited for.
fn zombies() -> Vec<u32> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let mut words = rest.split(' ');
        words.next() == Some("Z") && words.next() == Some(own.as_str())
    })
    .collect()
}

#[tokio::test]
async fn death_by_a_signal_has_the_name_of_the_signal() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for (number, name) in [
        (9, "SIGKILL"),
        (15, "SIGTERM"),
        (11, "SIGSEGV"),
        (34, "SIG(34)"),
    ] {
        let answer = sandbox
            .sh(&format!("kill -{number} $$; sleep 600"), &json!({}))
            .await;
        assert_eq!(
            (&answer["signal"], &answer["exit_code"]),
            (&json!(name), &json!(-1))
        );
        assert_eq!(answer["timed_out"], false);
    }
    let answer = sandbox.sh("exit 137", &json!({})).await;
    assert_eq!(
        (answer.get("signal"), &answer["exit_code"]),
        (None, &json!(137))
    );
}

#[tokio::test]
async fn large_input_and_large_output_do_not_wait_for_each_other() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let megabyte = 1 << 20;
    let input: Vec<u8> = (b'a'..b'x').cycle().take(8 * megabyte).collect();
    let (_, answer) = sandbox
        .exec(&json!({"command": ["cat"], "stdin": base64(&input)}))
        .await;
    assert_eq!(
        answer["stdout"].as_str().unwrap().as_bytes(),
        &input[..megabyte]
    );
    assert_eq!(answer["stdout_truncated"], true);
    assert_eq!(answer["exit_code"], 0);

    let input = base64(&input[..megabyte]);
    let members = json!({"stdin": input});
    let answer = sandbox
        .sh("head -c 1048576 /dev/zero >&2; cat >/dev/null", &members)
        .await;
    assert_eq!(
        (&answer["exit_code"], answer.get("stderr_truncated")),
        (&json!(0), None)
    );
    assert_eq!(answer["stderr"].as_str().unwrap().len(), megabyte);
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_error_and_does_not_outlast_the_timeout() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let input = base64(&vec![b'x'; 1 << 20]);
    let begun = Instant::now();
    let body = json!({"command": ["sleep", "600"], "stdin": input, "timeout_ms": 500});
    assert_eq!(sandbox.exec(&body).await.1["timed_out"], true);
    let body = json!({"command": ["true"], "stdin": input});
    assert_eq!(sandbox.exec(&body).await.1["exit_code"], 0);
    let (_, answer) = sandbox.exec(&json!({"command": ["cat"]})).await;
    assert_eq!(
        (&answer["exit_code"], &answer["stdout"]),
        (&json!(0), &json!(""))
    );
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn output_beyond_the_limit_is_cut_flagged_and_does_not_stop_the_command() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let answer = sandbox
        .sh(
            "head -c 5000000 /dev/zero | tr '\\0' x; echo $? >&2",
            &json!({}),
        )
        .await;
    assert_eq!(answer["stdout"].as_str().unwrap(), "x".repeat(1 << 20));
    assert_eq!(answer["stdout_truncated"], true);
    assert_eq!(
        (&answer["stderr"], &answer["exit_code"]),
        (&json!("0\n"), &json!(0))
    );
}

#[tokio::test]
async fn endless_output_does_not_outlast_the_timeout() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    growing(async |limit| {
        let answer = sandbox.sh("yes", &json!({"timeout_ms": limit})).await;
        assert_eq!(answer["timed_out"], true);
        let cut = answer["stdout_truncated"] == true;
        assert!(!cut || answer["stdout"].as_str().unwrap().starts_with("y\ny\n"));
        cut
    })
    .await;
}

#[tokio::test]
async fn a_file_that_was_just_written_can_be_run_while_others_start() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let rounds = (0..20).map(async |round| {
        let path = format!("/tmp/script-{round}");
        let script = format!("#!/bin/sh\necho {round}\n");
        sandbox
            .write(&path, script.as_bytes(), &[("mode", "0755")])
            .await;
        let command = json!({"command": [format!("./script-{round}")], "workdir": "/tmp"});
        let (status, answer) = sandbox.exec(&command).await;
        assert_eq!(
            (status.as_u16(), &answer["stdout"]),
            (200, &json!(format!("{round}\n")))
        );
    });
    join_all(rounds).await;
}
