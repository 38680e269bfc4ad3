//! The control plane: projects, runs, statuses.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Plane, content, eventually, marker, no_process, processes, reply};

const RUNS: &str = "/api/v1/local/agent-lab/runs";

fn words(statuses: &Value) -> Vec<&str> {
    let conditions = statuses["status_conditions"].as_array().unwrap().iter();
    conditions
        .map(|condition| condition["type"].as_str().unwrap())
        .collect()
}

const UP: [&str; 6] = [
    "created",
    "compiled",
    "queued",
    "scheduled",
    "starting",
    "running",
];

#[tokio::test]
async fn a_run_goes_all_the_way_to_running_and_says_that_no_image_is_pulled() {
    let plane = Plane::start().await;
    let body = json!({
        "content": content(&json!({})), "name": "n", "description": "d", "tags": ["a", "b"],
        "meta_info": {"k": 1}, "managed_by": "agent", "unknown": true
    });
    let (status, run) = plane.post(RUNS, &body).await;
    assert_eq!(status, 201);
    let uuid = run["uuid"].as_str().unwrap();
    assert!(uuid.len() == 32 && uuid.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(run.get("status"), None);
    assert_eq!(
        (&run["kind"], &run["name"]),
        (&json!("service"), &json!("n"))
    );
    assert_eq!(run["settings"], json!({"namespace": "polyaxon"}));
    let path = format!("{RUNS}/{uuid}");
    let statuses = plane.until(&path, "running").await;
    assert_eq!(words(&statuses), UP);
    assert_eq!(statuses["uuid"], uuid);
    for condition in statuses["status_conditions"].as_array().unwrap() {
        assert_eq!(condition["status"], "True");
        assert!(condition["reason"].is_string());
        for time in ["last_update_time", "last_transition_time"] {
            assert!(condition[time].as_str().unwrap().ends_with('Z'));
        }
    }
    let message = statuses["status_conditions"][5]["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("\"python:3.12-slim\" is not pulled"),
        "{message}"
    );

    let (status, run) = plane.get(&path).await;
    assert_eq!(status, 200);
    let members = json!({
        "uuid": uuid, "name": "n", "description": "d", "tags": ["a", "b"], "meta_info": {"k": 1},
        "owner": "local", "project": "agent-lab", "status": "running", "kind": "service",
        "managed_by": "agent", "is_managed": true, "pending": null, "finished_at": null,
        "live_state": 1,
    });
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&run[name], value, "{name}");
    }
    assert!(run["started_at"].is_string() && run["created_at"].is_string());
    assert_eq!(run["raw_content"], body["content"]);
    let (_, namespace) = plane.get(&format!("{path}/namespace/")).await;
    assert_eq!(namespace, json!({"namespace": "polyaxon"}));
}

#[tokio::test]
async fn a_run_waits_for_as_many_approvals_as_it_asks_for() {
    let plane = Plane::start().await;
    let approved = json!({"isApproved": false});
    let table = [
        (
            json!({"content": content(&json!({})), "pending": "approval"}),
            1,
        ),
        (
            json!({"content": content(&json!({})), "pending": "upload"}),
            1,
        ),
        (json!({"content": content(&approved)}), 2),
        (
            json!({"content": content(&approved), "pending": "approval"}),
            2,
        ),
    ];
    for (body, approvals) in table {
        let path = plane.create(&body).await;
        for _ in 0..approvals {
            let (_, run) = plane.get(&path).await;
            assert!(run["pending"].is_string(), "{body}");
            assert!(["created", "compiled"].contains(&run["status"].as_str().unwrap()));
            let (status, answer) = plane.post(&format!("{path}/approve"), &json!({})).await;
            assert_eq!((status.as_u16(), answer), (200, json!({})));
        }
        let statuses = plane.until(&path, "running").await;
        assert_eq!(words(&statuses), UP);
        assert_eq!(plane.get(&path).await.1["pending"], Value::Null);
        // One more than needed changes nothing.
        assert_eq!(
            plane.post(&format!("{path}/approve"), &json!({})).await.0,
            200
        );
        assert_eq!(words(&plane.until(&path, "running").await), UP);
    }
}

#[tokio::test]
async fn a_stopped_run_leaves_no_process_and_no_folder() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let mark = marker();
    let body =
        json!({"command": ["sh", "-c", format!("trap '' TERM HUP; sleep {mark} & sleep {mark}")]});
    let call = tokio::spawn(sandbox.request(Method::POST, "exec").json(&body).send());
    eventually("the command", async || {
        (processes(&mark).len() > 2).then_some(())
    })
    .await;
    let folder = sandbox.folder();
    assert!(folder.is_dir());
    let (status, answer) = plane
        .post(&format!("{}/stop", sandbox.run()), &json!({}))
        .await;
    assert_eq!((status.as_u16(), answer), (200, json!({})));
    let statuses = plane.until(&sandbox.run(), "stopped").await;
    assert_eq!(
        words(&statuses),
        [&UP[..], &["stopping", "stopped"]].concat()
    );
    assert_eq!(processes(&mark), [] as [u32; 0]);
    assert!(!folder.exists());
    // The command did not end by itself, and nobody says that it did.
    let response = call.await.unwrap().unwrap();
    assert_eq!(response.status(), 500);
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["error"]["details"], json!({"kind": "stopping"}));
    let (_, run) = plane.get(&sandbox.run()).await;
    assert!(run["finished_at"].is_string());
    assert_eq!(
        plane
            .post(&format!("{}/stop", sandbox.run()), &json!({}))
            .await
            .0,
        200
    );
}

#[tokio::test]
async fn a_run_that_was_not_queued_is_stopped_at_once_and_never_starts() {
    let plane = Plane::start().await;
    let path = plane
        .create(&json!({"content": content(&json!({})), "pending": "approval"}))
        .await;
    plane.post(&format!("{path}/stop"), &json!({})).await;
    let (_, statuses) = plane.get(&format!("{path}/statuses")).await;
    assert_eq!(words(&statuses), ["created", "stopped"]);
    plane.post(&format!("{path}/approve"), &json!({})).await;
    let (_, statuses) = plane.get(&format!("{path}/statuses")).await;
    assert_eq!(words(&statuses), ["created", "stopped"]);
}

#[tokio::test]
async fn only_a_run_that_was_not_queued_is_skipped() {
    let plane = Plane::start().await;
    let path = plane
        .create(&json!({"content": content(&json!({})), "pending": "approval"}))
        .await;
    plane.post(&format!("{path}/skip"), &json!({})).await;
    let (_, statuses) = plane.get(&format!("{path}/statuses")).await;
    assert_eq!(words(&statuses), ["created", "skipped"]);
    let sandbox = plane.sandbox().await;
    let (status, answer) = plane
        .post(&format!("{}/skip", sandbox.run()), &json!({}))
        .await;
    assert_eq!((status.as_u16(), answer), (200, json!({})));
    assert_eq!(words(&plane.until(&sandbox.run(), "running").await), UP);
}

#[tokio::test]
async fn a_run_ends_at_its_termination_timeout_with_its_processes() {
    let plane = Plane::start().await;
    let by_operation = |seconds: u32| content(&json!({"termination": {"timeout": seconds}}));
    let by_component = |seconds: u32| {
        let component = json!({
            "termination": {"timeout": seconds},
            "plugins": {"auth": false, "mountArtifactsStore": false},
            "run": {"kind": "service", "container": {"image": "python:3.12-slim"}}
        });
        let plugins = json!({"sandbox": true});
        json!({"kind": "operation", "plugins": plugins, "component": component}).to_string()
    };
    let contents: [&dyn Fn(u32) -> String; 2] = [&by_operation, &by_component];
    for content in contents {
        let mut had_a_process = false;
        // A short one may be over before there is a process that it can end.
        for seconds in [1, 4, 16] {
            let path = plane.create(&json!({"content": content(seconds)})).await;
            let mark = marker();
            let exec = format!(
                "/sandbox/v1/polyaxon{}/exec",
                path.strip_prefix("/api/v1").unwrap()
            );
            let command = json!({"command": ["sh", "-c", format!("sleep {mark} & echo $!")]});
            had_a_process = eventually("a process or the end", async || {
                let sent = plane.request(Method::POST, &exec).json(&command).send();
                let started = sent.await.is_ok_and(|answer| answer.status() == 200);
                (started || ended(&plane, &path).await).then_some(started)
            })
            .await;
            let statuses = plane.until(&path, "stopped").await;
            assert_eq!(
                words(&statuses),
                [&UP[..], &["stopping", "stopped"]].concat()
            );
            let stopping = &statuses["status_conditions"][6];
            assert_eq!(stopping["reason"], "TerminationTimeout");
            let message = stopping["message"].as_str().unwrap();
            assert!(message.contains(&format!("of {seconds} s")), "{message}");
            no_process(&mark).await;
            if had_a_process {
                break;
            }
        }
        assert!(had_a_process);
    }
}

async fn ended(plane: &Plane, path: &str) -> bool {
    plane.get(&format!("{path}/statuses")).await.1["status"] == "stopped"
}

#[tokio::test]
async fn an_operation_that_cannot_run_here_fails_and_says_why() {
    let plane = Plane::start().await;
    let table = [
        (
            json!({"run": {"kind": "dag", "operations": []}}),
            "not a `dag`",
        ),
        (
            json!({"run": {"kind": "service", "container": {"image": "i"}}}),
            "plugins.sandbox",
        ),
        (json!({"hubRef": "x:1"}), "hubRef"),
    ];
    for (operation, word) in table {
        let (_, run) = plane
            .post(RUNS, &json!({"content": operation.to_string()}))
            .await;
        let path = format!("{RUNS}/{}", run["uuid"].as_str().unwrap());
        let statuses = plane.until(&path, "failed").await;
        let last = statuses["status_conditions"]
            .as_array()
            .unwrap()
            .last()
            .unwrap();
        assert!(last["message"].as_str().unwrap().contains(word), "{last}");
    }
}

#[tokio::test]
async fn a_create_body_that_is_wrong_is_refused_in_the_shapes_of_the_platform() {
    let plane = Plane::start().await;
    let sandbox = content(&json!({}));
    let field = |name: &str, text: &str| json!({name: [text]});
    let table = [
        (
            json!({}),
            field("non_field_errors", "Run expects a `content`."),
        ),
        (
            json!({"content": null}),
            field("non_field_errors", "Run expects a `content`."),
        ),
        (
            json!({"content": {"kind": "operation"}}),
            field("content", "Not a valid string."),
        ),
        (
            json!({"content": sandbox, "name": "n".repeat(129)}),
            field("name", "Ensure this field has no more than 128 characters."),
        ),
        (
            json!({"content": sandbox, "managed_by": "nope"}),
            field("managed_by", "\"nope\" is not a valid choice."),
        ),
        (
            json!({"content": sandbox, "pending": "nope"}),
            field("pending", "\"nope\" is not a valid choice."),
        ),
        (
            json!({"content": sandbox, "tags": "a"}),
            field("tags", "Expected a list of items."),
        ),
        (
            json!([]),
            field("non_field_errors", "Invalid data. Expected a dictionary."),
        ),
    ];
    for (body, want) in table {
        let (status, answer) = plane.post(RUNS, &body).await;
        assert_eq!((status.as_u16(), answer), (400, want), "{body}");
    }
    for text in [
        "kind: operation",
        "[]",
        r#"{"run":{}}"#,
        r#"{"ports":[],"termination":{"timeout":"1h"}}"#,
    ] {
        let (status, answer) = plane.post(RUNS, &json!({"content": text})).await;
        assert_eq!(status, 400);
        assert_eq!(answer.as_array().unwrap().len(), 1, "{answer}");
        assert!(answer[0].is_string());
    }
    let (status, answer) = reply(plane.request(Method::POST, RUNS).body("{")).await;
    assert_eq!(status, 400);
    assert!(
        answer["detail"]
            .as_str()
            .unwrap()
            .starts_with("JSON parse error - "),
        "{answer}"
    );
    let longest = json!({"content": sandbox, "name": "n".repeat(128)});
    assert_eq!(plane.post(RUNS, &longest).await.0, 201);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_says_what() {
    let plane = Plane::start().await;
    let path = plane.create(&json!({"content": content(&json!({}))})).await;
    let uuid = path.rsplit('/').next().unwrap();
    let dashed = uuid::Uuid::parse_str(uuid).unwrap();
    let unknown = uuid::Uuid::new_v4().simple();
    let no_run = "No Run matches the given query.";
    let no_project = "No Project matches the given query.";
    let table = [
        (format!("{RUNS}/{unknown}"), no_run),
        (format!("{RUNS}/{unknown}/statuses"), no_run),
        (format!("/api/v1/acme/agent-lab/runs/{uuid}"), no_run),
        (format!("/api/v1/local/nothing/runs/{uuid}"), no_project),
        (format!("{RUNS}/{dashed}"), "Not found."),
        (format!("{RUNS}/word"), "Not found."),
        (format!("{RUNS}/{uuid}/nothing"), "Not found."),
        ("/api/v1/x".to_owned(), "Not found."),
        ("/".to_owned(), "Not found."),
    ];
    for (path, want) in table {
        let (status, answer) = plane.get(&path).await;
        assert_eq!(
            (status.as_u16(), answer),
            (404, json!({"detail": want})),
            "{path}"
        );
    }
    for project in ["local/nothing", "nobody/agent-lab", "lo cal/agent-lab"] {
        let (status, answer) = plane
            .post(&format!("/api/v1/{project}/runs"), &json!({}))
            .await;
        assert_eq!(
            (status.as_u16(), answer),
            (404, json!({"detail": no_project}))
        );
    }
    let (status, answer) = reply(plane.request(Method::PUT, &path)).await;
    assert_eq!(status, 405);
    assert_eq!(answer, json!({"detail": "Method \"PUT\" not allowed."}));
}

#[tokio::test]
async fn a_project_is_known_once_it_was_created() {
    let plane = Plane::start().await;
    let create = "/api/v1/acme/projects/create";
    let (status, answer) = plane.post(create, &json!({"name": "parsers"})).await;
    assert_eq!(
        (status.as_u16(), &answer["owner"], &answer["name"]),
        (201, &json!("acme"), &json!("parsers"))
    );
    let (status, answer) = plane.post(create, &json!({"name": "parsers"})).await;
    assert_eq!(status, 400);
    assert_eq!(
        answer,
        json!({"name": ["project with this name already exists."]})
    );
    for bad in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "a b"}),
        json!({"name": 1}),
    ] {
        let (status, answer) = plane.post(create, &bad).await;
        assert_eq!(status, 400);
        assert!(answer["name"].is_array(), "{answer}");
    }
    let body = json!({"content": content(&json!({}))});
    assert_eq!(plane.post("/api/v1/acme/parsers/runs", &body).await.0, 201);
    assert_eq!(plane.post("/api/v1/local/parsers/runs", &body).await.0, 404);
}

#[tokio::test]
async fn nothing_is_told_or_done_without_the_token() {
    let plane = Plane::start().await;
    let path = plane.create(&json!({"content": content(&json!({}))})).await;
    let missing = json!({"detail": "Authentication credentials were not provided."});
    let wrong = json!({"detail": "Invalid token."});
    for path in [RUNS, &path, &format!("{path}/stop"), "/api/v1/nothing"] {
        let url = format!("{}{path}", plane.server.url());
        let (status, answer) = reply(plane.http.post(&url)).await;
        assert_eq!((status.as_u16(), &answer), (401, &missing), "{path}");
        let refused = plane.http.post(&url).header("Authorization", "Token nope");
        let (status, answer) = reply(refused).await;
        assert_eq!((status.as_u16(), &answer), (401, &wrong), "{path}");
    }
    plane.until(&path, "running").await;
}

#[tokio::test]
async fn a_run_without_an_operation_has_the_statuses_that_its_caller_gives_it() {
    let plane = Plane::start().await;
    let path = plane
        .create(&json!({"is_managed": false, "managed_by": "user"}))
        .await;
    let statuses = format!("{path}/statuses");
    let posts = [
        json!({"condition": {"type": "Running", "status": true, "reason": "R", "message": "m"}}),
        json!({"condition": {"type": "succeeded", "status": true}}),
        json!({"condition": {"type": "failed", "status": true}}),
        json!({}),
    ];
    for body in posts {
        let (status, answer) = plane.post(&statuses, &body).await;
        assert_eq!(status, 201);
        assert_eq!(
            answer,
            json!({"status": null, "status_conditions": null, "meta_info": null})
        );
    }
    let (_, answer) = plane.get(&statuses).await;
    assert_eq!(words(&answer), ["created", "running", "succeeded"]);
    let running = &answer["status_conditions"][1];
    assert_eq!(
        (&running["reason"], &running["message"]),
        (&json!("R"), &json!("m"))
    );
    assert!(running["last_update_time"].is_string());
    for bad in [
        json!({"condition": "x"}),
        json!({"condition": {}}),
        json!({"condition": {"type": "odd"}}),
    ] {
        assert_eq!(plane.post(&statuses, &bad).await.0, 400, "{bad}");
    }
}
