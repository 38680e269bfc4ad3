//! Runs as a tracking client sees them: patched, listed, deleted, restarted, synced; projects.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Plane, content, reply};

const RUNS: &str = "/api/v1/local/agent-lab/runs";

async fn unmanaged(plane: &Plane, name: &str) -> String {
    let body = json!({"is_managed": false, "managed_by": "user", "name": name});
    plane.create(&body).await
}

async fn patch(plane: &Plane, path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = reply(plane.request(Method::PATCH, path).json(body)).await;
    (status.as_u16(), answer)
}

async fn names(plane: &Plane, query: &[(&str, &str)]) -> Vec<String> {
    let request = plane.request(Method::GET, RUNS).query(query);
    let (status, list) = reply(request).await;
    assert_eq!(status, 200, "{query:?} {list}");
    let runs = list["results"].as_array().unwrap().iter();
    runs.map(|run| run["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_patch_merges_where_it_says_so_and_refuses_what_is_wrong() {
    let plane = Plane::start().await;
    let path = unmanaged(&plane, "n").await;
    let first = json!({"inputs": {"a": 1, "o": {"x": 1}}, "tags": ["a"], "readme": "r"});
    assert_eq!(patch(&plane, &path, &first).await.0, 200);
    let second = json!({"inputs": {"b": -0.0, "o": {"y": 2}}, "outputs": {"loss": 0.5}, "tags": ["a", "b"], "merge": true});
    let (status, run) = patch(&plane, &path, &second).await;
    assert_eq!(status, 200);
    assert_eq!(run["inputs"], json!({"a": 1, "b": -0.0, "o": {"y": 2}}));
    assert_eq!(run["outputs"], json!({"loss": 0.5}));
    assert_eq!(
        (&run["tags"], &run["readme"]),
        (&json!(["a", "b"]), &json!("r"))
    );
    assert_eq!(plane.get(&path).await.1, run);
    let table = [
        (json!({"tags": "str"}), "tags"),
        (json!({"name": "n".repeat(129)}), "name"),
        (json!({"status": "running"}), "status"),
        (json!({"managed_by": "agent"}), "managed_by"),
    ];
    for (body, field) in table {
        let (status, answer) = patch(&plane, &path, &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer[field][0].is_string(), "{answer}");
    }
    for text in [
        "{\"outputs\": {\"x\": NaN}}",
        "{\"outputs\": {\"x\": 1e999}}",
        "{",
    ] {
        let (status, answer) = reply(plane.request(Method::PATCH, &path).body(text)).await;
        assert_eq!(status, 400, "{text}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.starts_with("JSON parse error - "), "{detail}");
    }
    assert_eq!(plane.get(&path).await.1["outputs"], json!({"loss": 0.5}));
}

#[tokio::test]
async fn a_list_is_filtered_sorted_and_paged_as_asked_or_refused() {
    let plane = Plane::start().await;
    for (name, score, rev) in [("a", 0.5, "r1"), ("b", 0.9, "r1"), ("c", 0.7, "r2")] {
        let path = unmanaged(&plane, name).await;
        let values = json!({"outputs": {"score": score}, "inputs": {"rev": rev}, "tags": [rev]});
        assert_eq!(patch(&plane, &path, &values).await.0, 200);
    }
    let done = json!({"condition": {"type": "succeeded", "status": true}});
    let (_, list) = reply(
        plane
            .request(Method::GET, RUNS)
            .query(&[("query", "name:b")]),
    )
    .await;
    let uuid = list["results"][0]["uuid"].as_str().unwrap();
    plane.post(&format!("{RUNS}/{uuid}/statuses"), &done).await;

    let by_name = ("sort", "name");
    type Query<'a> = &'a [(&'a str, &'a str)];
    let table: [(Query<'_>, &[&str]); 11] = [
        (&[by_name], &["a", "b", "c"]),
        // The last changed first.
        (&[], &["b", "c", "a"]),
        (&[("sort", "-created_at")], &["c", "b", "a"]),
        (
            &[("query", "inputs.rev:\"r1\""), ("sort", "-metrics.score")],
            &["b", "a"],
        ),
        (&[("query", "inputs.rev:r1,status:succeeded")], &["b"]),
        (&[("query", "status:~succeeded"), by_name], &["a", "c"]),
        (&[("query", "metrics.score:>=0.7"), by_name], &["b", "c"]),
        (&[("query", "tags:r2")], &["c"]),
        (&[by_name, ("limit", "2")], &["a", "b"]),
        (&[by_name, ("limit", "2"), ("offset", "2")], &["c"]),
        (&[by_name, ("offset", "9")], &[]),
    ];
    for (query, want) in table {
        assert_eq!(names(&plane, query).await, want, "{query:?}");
    }
    let request =
        plane
            .request(Method::GET, RUNS)
            .query(&[by_name, ("limit", "1"), ("offset", "1")]);
    let (_, page) = reply(request).await;
    assert_eq!(page["count"], 3);
    let link = |member: &str| page[member].as_str().unwrap().to_owned();
    assert_eq!(
        link("next"),
        format!("{}{RUNS}?limit=1&offset=2&sort=name", plane.server.url())
    );
    assert_eq!(
        link("previous"),
        format!("{}{RUNS}?limit=1&offset=0&sort=name", plane.server.url())
    );
    let run = &page["results"][0];
    for absent in [
        "content",
        "raw_content",
        "readme",
        "owner",
        "project",
        "live_state",
    ] {
        assert_eq!(run.get(absent), None, "{absent}");
    }
    assert_eq!(run["settings"], json!({"namespace": "polyaxon"}));
    for query in [
        ("query", "mine:true"),
        ("query", "(name:a"),
        ("query", "name:%3%"),
        ("sort", "nope"),
    ] {
        let (status, answer) = reply(plane.request(Method::GET, RUNS).query(&[query])).await;
        assert_eq!(status, 400, "{query:?}");
        let text = answer[0].as_str().unwrap();
        assert!(
            text.starts_with("Error applying or resolving queryset"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_deleted_run_leaves_the_lists_and_its_processes_and_can_still_be_read() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let path = sandbox.run();
    for _ in 0..2 {
        let (status, answer) = reply(plane.request(Method::DELETE, &path)).await;
        assert_eq!((status.as_u16(), answer), (204, json!("")));
    }
    assert_eq!(plane.get(RUNS).await.1["count"], 0);
    let (status, run) = plane.get(&path).await;
    assert_eq!((status.as_u16(), &run["live_state"]), (200, &json!(-1)));
    plane.until(&path, "stopped").await;
    let query = [("query", "live_state:\"-1\"")];
    let (_, list) = reply(plane.request(Method::GET, RUNS).query(&query)).await;
    assert_eq!(list["count"], 1);

    let path = unmanaged(&plane, "kept").await;
    assert_eq!(
        plane.post(&format!("{path}/archive"), &json!({})).await.0,
        200
    );
    assert_eq!(plane.get(RUNS).await.1["count"], 0);
    assert_eq!(plane.get(&path).await.1["live_state"], 0);
    assert_eq!(
        plane.post(&format!("{path}/restore"), &json!({})).await.0,
        200
    );
    assert_eq!(names(&plane, &[]).await, ["kept"]);
}

#[tokio::test]
async fn a_restart_is_a_new_run_that_names_its_original() {
    let plane = Plane::start().await;
    let body = json!({"content": content(&json!({})), "name": "n", "tags": ["a"]});
    let path = plane.create(&body).await;
    let (status, run) = plane
        .post(&format!("{path}/restart"), &json!({"name": "m"}))
        .await;
    assert_eq!(status, 201);
    let again = format!("{RUNS}/{}", run["uuid"].as_str().unwrap());
    assert_ne!(again, path);
    plane.until(&again, "running").await;
    let (_, run) = plane.get(&again).await;
    let original = path.rsplit('/').next().unwrap();
    assert_eq!(
        run["original"],
        json!({"uuid": original, "name": "n", "kind": "restart"})
    );
    assert_eq!((&run["name"], &run["tags"]), (&json!("m"), &json!(["a"])));
    let path = unmanaged(&plane, "u").await;
    let (status, answer) = plane.post(&format!("{path}/restart"), &json!({})).await;
    assert_eq!(status, 400);
    assert!(
        answer[0]
            .as_str()
            .unwrap()
            .starts_with("Cloning was not successful, error: ")
    );
}

#[tokio::test]
async fn a_run_from_elsewhere_is_taken_once_and_as_it_was() {
    let plane = Plane::start().await;
    let uuid = uuid::Uuid::new_v4().simple().to_string();
    let condition = json!({"type": "succeeded", "status": true, "reason": "R", "message": "m",
        "last_update_time": "2026-01-01T00:00:10.000000+00:00", "last_transition_time": "2026-01-01T00:00:10.000000+00:00"});
    let body = json!({
        "uuid": uuid, "name": "off", "owner": "local", "project": "agent-lab", "kind": "job",
        "created_at": "2026-01-01T00:00:00.000000+00:00", "started_at": "2026-01-01T00:00:01+00:00",
        "finished_at": "2026-01-01T00:00:10.5+00:00", "managed_by": "user", "is_managed": false,
        "status": "succeeded", "inputs": {"lr": 0.1}, "outputs": {"loss": 0.5}, "tags": ["t"],
        "status_conditions": [condition],
    });
    let sync = format!("{RUNS}/sync");
    let (status, run) = plane.post(&sync, &body).await;
    assert_eq!(status, 201, "{run}");
    let (_, run) = plane.get(&format!("{RUNS}/{uuid}")).await;
    for (name, want) in [
        ("status", json!("succeeded")),
        ("created_at", json!("2026-01-01T00:00:00Z")),
        ("duration", json!(9.5)),
        ("wait_time", json!(1.0)),
        ("inputs", json!({"lr": 0.1})),
        ("outputs", json!({"loss": 0.5})),
        ("is_managed", json!(false)),
    ] {
        assert_eq!(run[name], want, "{name}");
    }
    let (status, answer) = plane.post(&sync, &body).await;
    let want = json!([format!("A run with uuid {uuid} already exists.")]);
    assert_eq!((status.as_u16(), answer), (400, want));
    for (body, field) in [
        (
            json!({"uuid": uuid::Uuid::new_v4().simple().to_string()}),
            "created_at",
        ),
        (json!({"created_at": "yesterday"}), "created_at"),
        (
            json!({"created_at": "2026-01-01T00:00:00Z", "uuid": "x"}),
            "uuid",
        ),
    ] {
        let (status, answer) = plane.post(&sync, &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer[field][0].is_string(), "{answer}");
    }
}

#[tokio::test]
async fn projects_are_listed_by_owner_and_read_whole() {
    let plane = Plane::start().await;
    let body = json!({"name": "parsers", "description": "d", "tags": ["t"], "is_public": true});
    let (_, project) = plane.post("/api/v1/acme/projects/create", &body).await;
    for (name, want) in body.as_object().unwrap() {
        assert_eq!(&project[name], want, "{name}");
    }
    assert_eq!(plane.get("/api/v1/acme/parsers").await.1, project);
    let (_, list) = plane.get("/api/v1/acme/projects/list").await;
    assert_eq!((&list["count"], &list["results"][1]), (&json!(2), &project));
    let (_, list) = plane.get("/api/v1/acme/projects/names?limit=1").await;
    assert_eq!(list["results"], json!([{"name": "agent-lab"}]));
    assert_eq!(
        plane.get("/api/v1/nobody/projects/list").await.1["count"],
        0
    );
    assert_eq!(plane.get("/api/v1/local/parsers").await.0, 404);
    let (status, installation) = plane.get("/api/v1/installation").await;
    assert_eq!(
        (status.as_u16(), &installation["mode"]),
        (200, &json!("sandbox"))
    );
    assert_eq!(installation["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(installation["dist"], "ce");
}
