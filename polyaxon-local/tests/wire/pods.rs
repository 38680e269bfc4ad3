//! Pods: what a sandbox sees, and what it does not. They need a machine that allows namespaces.

use std::path::Path;
use std::time::Duration;

use polyaxon_local::{Isolation, IsolationLevel, Limits, LocalServer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Plane, code, eventually, http, marker, no_process, one_process, processes};

async fn pods() -> Plane {
    with(Limits::default()).await
}

async fn with(limits: Limits) -> Plane {
    let required = Isolation::Require(IsolationLevel::Pod);
    let server = LocalServer::builder().isolation(required).limits(limits);
    Plane {
        server: server.start().await.unwrap(),
        http: http(),
    }
}

#[tokio::test]
async fn commands_and_the_file_api_see_the_same_files_by_the_same_paths() {
    let plane = pods().await;
    let sandbox = plane.sandbox().await;
    let script = b"print(open('/tmp/x').read() + 'y')";
    sandbox.write("/workspace/analysis.py", script, &[]).await;
    sandbox.write("/tmp/x", b"x", &[]).await;
    let body = json!({"command": ["python3", "/workspace/analysis.py"]});
    let (_, answer) = sandbox.exec(&body).await;
    assert_eq!(answer["stdout"], "xy\n", "{answer}");
    let script = "echo made > /tmp/made; ln -s /tmp/made /workspace/link; \
                  mkdir /new; echo shm > /dev/shm/s; echo home > $HOME/h";
    sandbox.sh(script, &json!({})).await;
    // An absolute link leads where it leads a command.
    for (path, content) in [
        ("/tmp/made", "made\n"),
        ("/workspace/link", "made\n"),
        ("/dev/shm/s", "shm\n"),
        ("/home/h", "home\n"),
    ] {
        assert_eq!(sandbox.content(path).await, content.as_bytes(), "{path}");
    }
    assert_eq!(sandbox.stat("/new").await.1["type"], "dir");
    let (_, stat) = sandbox.stat("/tmp/made").await;
    let command = sandbox.sh("stat -c '%u %g %a' /tmp/made", &json!({})).await;
    let api = format!("{} {} 644\n", stat["uid"], stat["gid"]);
    assert_eq!(command["stdout"], api);
}

#[tokio::test]
async fn nothing_of_the_machine_is_seen_but_what_programs_need_and_that_is_read_only() {
    let plane = pods().await;
    let sandbox = plane.sandbox().await;
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("secret"), "secret").unwrap();
    let outside = secret.path().join("secret");
    let outside = outside.to_str().unwrap();
    assert_eq!(sandbox.read(outside, &[]).await.status(), 404);
    sandbox
        .sh(&format!("ln -s {outside} /tmp/link"), &json!({}))
        .await;
    assert_eq!(sandbox.read("/tmp/link", &[]).await.status(), 404);
    let folder = sandbox.folder();
    for path in [outside, folder.to_str().unwrap(), "/work", "/sys", "/mnt"] {
        let script = format!("[ -e {path} ] && echo seen");
        assert_eq!(
            sandbox.sh(&script, &json!({})).await["stdout"],
            "",
            "{path}"
        );
    }
    // Magic links of the pod's processes lead nowhere through the file API.
    let mark = marker();
    sandbox
        .sh(&format!("sleep {mark} & echo"), &json!({}))
        .await;
    for path in ["/proc/1/root/etc/hostname", "/proc/2/root/etc/hostname"] {
        assert_ne!(sandbox.read(path, &[]).await.status(), 200, "{path}");
    }
    for path in ["/proc/1/environ", "/proc/1/cmdline", "/proc/1/mem"] {
        let response = sandbox.read(path, &[]).await;
        if response.status() == 200 {
            assert_eq!(response.bytes().await.unwrap().len(), 0, "{path}");
        }
    }
    for path in ["/usr/x", "/etc/x", "/proc/sys/kernel/x"] {
        let (status, answer) = sandbox.write(path, b"x", &[]).await;
        assert!([403, 404].contains(&status.as_u16()), "{path} {answer}");
        let answer = sandbox.sh(&format!("echo x > {path}"), &json!({})).await;
        assert_ne!(answer["exit_code"], 0, "{path}");
    }
    let (status, answer) = sandbox.rm("/etc/passwd", &[]).await;
    assert_eq!((status.as_u16(), code(&answer)), (403, "forbidden"));
    let script = "mount -o remount,rw,bind /usr; umount /etc; echo x > /usr/x || echo kept";
    let answer = sandbox.sh(script, &json!({})).await;
    assert_eq!(answer["stdout"], "kept\n");
    assert!(!Path::new("/usr/x").exists());
}

#[tokio::test]
async fn a_run_sees_neither_files_nor_processes_of_another() {
    let plane = pods().await;
    let (one, other) = (plane.sandbox().await, plane.sandbox().await);
    let mark = marker();
    let program = format!("sleep\0{mark}");
    for (here, there) in [(&one, &other), (&other, &one)] {
        here.write("/tmp/mine", b"mine", &[]).await;
        here.sh(&format!("sleep {mark} & echo"), &json!({})).await;
        one_process(&program).await;
        let script = format!("ls /tmp; pgrep -f {mark}; cat /proc/[0-9]*/cmdline | grep -c {mark}");
        let answer = there.sh(&script, &json!({"workdir": "/workspace"})).await;
        // Its own `sh` and `grep` hold the word too, and nothing else there does.
        let names = answer["stdout"].as_str().unwrap();
        assert!(!names.contains("mine"), "{names}");
        assert_eq!(there.stat("/tmp/mine").await.0, 404);
        let sleeping = there.sh("ps -eo comm | grep -c '^sleep'", &json!({})).await;
        assert_eq!(sleeping["stdout"], "0\n");
        here.rm("/tmp/mine", &[]).await;
        let killed = here.sh("pkill sleep", &json!({})).await;
        assert_eq!(killed["exit_code"], 0);
        no_process(&program).await;
    }
}

#[tokio::test]
async fn a_command_has_no_more_than_its_own() {
    let plane = pods().await;
    let sandbox = plane.sandbox().await;
    // The one behind the standard streams is the listing's own.
    let answer = sandbox
        .sh("ls /proc/self/fd | tr '\\n' ' '", &json!({}))
        .await;
    assert_eq!(answer["stdout"], "0 1 2 3 ");
    let script = "grep -E '^(NoNewPrivs|SigIgn|SigBlk)' /proc/self/status; ulimit -c; umask; \
                  ps -o pid=,sid=,pgid= -p $$ | xargs; hostname >/dev/null; cat /proc/1/comm";
    let answer = sandbox.sh(script, &json!({})).await;
    let text = answer["stdout"].as_str().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let zero = "0000000000000000";
    assert!(lines.contains(&"NoNewPrivs:\t1"), "{text}");
    assert!(lines.contains(&&*format!("SigIgn:\t{zero}")), "{text}");
    assert!(lines.contains(&&*format!("SigBlk:\t{zero}")), "{text}");
    assert_eq!(lines[3..5], ["0", "0022"], "{text}");
    let ids: Vec<&str> = lines[5].split(' ').collect();
    assert!(ids[0] == ids[1] && ids[1] == ids[2], "{text}");
    assert_eq!(lines[6], "pod");
}

#[tokio::test]
async fn a_limit_of_files_holds_for_every_process() {
    let mut limits = Limits::default();
    limits.open_files = 50;
    limits.file_bytes = Some(1000);
    let plane = with(limits).await;
    let sandbox = plane.sandbox().await;
    let answer = sandbox
        .sh("ulimit -n; head -c 2000 /dev/zero > /tmp/f", &json!({}))
        .await;
    assert_eq!(answer["stdout"], "50\n");
    assert_ne!(answer["exit_code"], 0);
    assert_eq!(sandbox.stat("/tmp/f").await.1["size"], 1000);
}

/// Ways to leave the group, the session and the parent.
fn daemons(mark: &str) -> [String; 4] {
    [
        format!("setsid sleep {mark}"),
        format!("(setsid sh -c 'setsid sleep {mark} & exit' &)"),
        format!("env -i /usr/bin/setsid /bin/sleep {mark} &"),
        format!(
            "python3 -c \"import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n\
             os.execv('/bin/sleep', ['sleep', '{mark}'])\""
        ),
    ]
}

#[tokio::test]
async fn a_timeout_and_a_caller_that_goes_away_leave_no_daemon_behind() {
    let mut limits = Limits::default();
    limits.kill_grace = Duration::from_millis(200);
    let pods = with(limits.clone()).await;
    let mapped = LocalServer::builder()
        .isolation(Isolation::None)
        .limits(limits);
    let mapped = Plane {
        server: mapped.start().await.unwrap(),
        http: http(),
    };
    for plane in [&pods, &mapped] {
        let sandbox = plane.sandbox().await;
        let bystander = marker();
        sandbox
            .sh(&format!("setsid sleep {bystander} & echo"), &json!({}))
            .await;
        let mark = marker();
        for script in daemons(&mark) {
            let script = format!("{script}\nsleep {mark}");
            let answer = sandbox.sh(&script, &json!({"timeout_ms": 700})).await;
            assert_eq!(answer["timed_out"], true, "{script}");
            // Those that were killed before the answer are gone when it comes.
            assert_eq!(processes(&mark), [] as [u32; 0], "{script}");

            let body = json!({"command": ["sh", "-c", script]});
            let call = tokio::spawn(sandbox.request(Method::POST, "exec").json(&body).send());
            eventually("the daemon", async || {
                (processes(&mark).len() > 1).then_some(())
            })
            .await;
            call.abort();
            no_process(&mark).await;
        }
        // What another command left behind on purpose lives on.
        assert_eq!(processes(&bystander).len(), 1);
        plane
            .post(&format!("{}/stop", sandbox.run()), &json!({}))
            .await;
        no_process(&bystander).await;
    }
}

#[tokio::test]
async fn a_terminal_is_in_the_pod_too() {
    let plane = pods().await;
    let sandbox = plane.sandbox().await;
    let body = json!({"command": ["sh", "-c", "ls / > /tmp/seen; ps -o pid= -p $$ > /tmp/id"]});
    let request = sandbox.request(Method::POST, "pty").json(&body);
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    eventually("the id", async || {
        (sandbox.stat("/tmp/id").await.1["size"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let id = String::from_utf8(sandbox.content("/tmp/id").await).unwrap();
    assert_eq!(id.trim(), answer["pid"].to_string());
    let seen = String::from_utf8(sandbox.content("/tmp/seen").await).unwrap();
    assert!(
        seen.contains("workspace") && !seen.contains("sys\n"),
        "{seen}"
    );
}
