//! Plain jobs: their command runs, and its end is that of the run.

use serde_json::{Value, json};

use crate::harness::{Plane, eventually, marker, no_process, processes};

fn job(script: &str) -> Value {
    let container = json!({"image": "python:3.12-slim", "command": ["sh", "-c", script]});
    json!({"run": {"kind": "job", "container": container}})
}

async fn run(plane: &Plane, operation: &Value) -> String {
    plane
        .create(&json!({"content": operation.to_string()}))
        .await
}

async fn ended(plane: &Plane, path: &str) -> Value {
    eventually("the end of the job", async || {
        let (_, statuses) = plane.get(&format!("{path}/statuses")).await;
        let status = statuses["status"].as_str().unwrap();
        ["succeeded", "failed", "stopped"]
            .contains(&status)
            .then_some(statuses)
    })
    .await
}

fn last(statuses: &Value) -> (String, String) {
    let last = statuses["status_conditions"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    let text = |member: &str| last[member].as_str().unwrap_or_default().to_owned();
    (text("type"), text("message"))
}

async fn log(plane: &Plane, path: &str) -> Vec<String> {
    let url = format!(
        "{}/logs?force=true",
        path.replace("/api/v1/", "/streams/v1/polyaxon/")
    );
    let (status, log) = plane.get(&url).await;
    assert_eq!(status, 200, "{log}");
    let lines = log["logs"].as_array().unwrap().iter();
    lines
        .map(|line| line["value"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_job_ends_as_its_command_does_and_its_output_is_kept() {
    let plane = Plane::start().await;
    let table = [
        (
            "echo out; printf 'é no end'; exit 0",
            "succeeded",
            "exit code 0",
            &["out", "é no end"][..],
        ),
        ("echo oops >&2; exit 3", "failed", "exit code 3", &["oops"]),
        ("kill -KILL $$", "failed", "SIGKILL", &[]),
    ];
    for (script, status, word, output) in table {
        let path = run(&plane, &job(script)).await;
        let (kind, message) = last(&ended(&plane, &path).await);
        assert_eq!(kind, status, "{message}");
        assert!(message.contains(word), "{message}");
        let lines = log(&plane, &path).await;
        assert_eq!(
            lines[0],
            "The image \"python:3.12-slim\" is not pulled: programs of this machine run."
        );
        assert_eq!(&lines[1..], output);
        assert!(
            !plane
                .server
                .folder()
                .join(path.rsplit('/').next().unwrap())
                .exists()
        );
    }
}

#[tokio::test]
async fn the_values_of_a_job_are_in_its_command_and_its_inputs() {
    let plane = Plane::start().await;
    let operation = json!({
        "kind": "operation", "params": {"sandbox_run_uuid": {"value": "abc"}},
        "component": {"kind": "component",
            "inputs": [{"name": "sandbox_run_uuid", "type": "str"}, {"name": "n", "value": 2}],
            "run": {"kind": "job", "container": {
                "command": ["sh", "-c", "echo \"$0 $1 $V\"; pwd; ls -a"],
                "args": ["{{ sandbox_run_uuid }}", "{{ n }}"], "env": [{"name": "V", "value": "v"}]}}}
    });
    let path = run(&plane, &operation).await;
    assert_eq!(ended(&plane, &path).await["status"], "succeeded");
    let lines = log(&plane, &path).await;
    assert_eq!(lines[0], "There is no image: programs of this machine run.");
    assert_eq!(lines[1], "abc 2 v");
    let (_, run) = plane.get(&path).await;
    assert_eq!(run["inputs"], json!({"sandbox_run_uuid": "abc", "n": 2}));
    assert_eq!(run["kind"], "job");
    let compiled: Value = serde_json::from_str(run["content"].as_str().unwrap()).unwrap();
    assert_eq!(
        compiled["component"]["run"]["container"]["args"],
        json!(["abc", "2"])
    );
    let list = plane.get("/api/v1/local/agent-lab/runs?query=inputs.sandbox_run_uuid:%22abc%22");
    assert_eq!(list.await.1["count"], 1);
}

#[tokio::test]
async fn a_job_that_cannot_be_compiled_or_started_says_why() {
    let plane = Plane::start().await;
    let needs = json!({"component": {"inputs": [{"name": "a"}],
        "run": {"kind": "job", "container": {"command": ["true"]}}}});
    let table = [
        (
            needs,
            "Failed to compile. In this operation the input `a` has no value.",
        ),
        (
            json!({"run": {"kind": "job", "container": {"image": "i"}}}),
            "no `command`",
        ),
        (
            json!({"run": {"kind": "job", "container": {"command": ["no-such-program"]}}}),
            "no-such-program",
        ),
    ];
    for (operation, word) in table {
        let path = run(&plane, &operation).await;
        let (kind, message) = last(&ended(&plane, &path).await);
        assert_eq!(kind, "failed");
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test]
async fn a_stopped_job_may_say_its_last_words_and_leaves_no_process() {
    let plane = Plane::start().await;
    let mark = marker();
    let script = format!("trap 'echo bye; exit 0' TERM; sleep {mark} & echo up; wait");
    let path = run(&plane, &job(&script)).await;
    eventually("the command", async || {
        log(&plane, &path)
            .await
            .contains(&"up".to_owned())
            .then_some(())
    })
    .await;
    // A job without the sandbox plugin has no daemon to call.
    let ping = format!(
        "/sandbox/v1/polyaxon{}/ping",
        path.strip_prefix("/api/v1").unwrap()
    );
    assert_eq!(plane.get(&ping).await.0, 502);
    plane.post(&format!("{path}/stop"), &json!({})).await;
    assert_eq!(last(&ended(&plane, &path).await).0, "stopped");
    assert!(log(&plane, &path).await.contains(&"bye".to_owned()));
    assert_eq!(processes(&mark), [] as [u32; 0]);
}

#[tokio::test]
async fn a_job_ends_at_its_time_limit_and_with_the_server() {
    let plane = Plane::start().await;
    let mark = marker();
    let mut operation = job(&format!("sleep {mark}"));
    operation["termination"] = json!({"timeout": 1});
    let path = run(&plane, &operation).await;
    let (kind, message) = last(&ended(&plane, &path).await);
    assert_eq!(kind, "stopped");
    assert!(message.contains("termination.timeout of 1 s"), "{message}");
    no_process(&mark).await;
    run(&plane, &job(&format!("trap '' TERM; sleep {mark}"))).await;
    eventually("the command", async || {
        (!processes(&mark).is_empty()).then_some(())
    })
    .await;
    plane.server.stop().await.unwrap();
    assert_eq!(processes(&mark), [] as [u32; 0]);
}
