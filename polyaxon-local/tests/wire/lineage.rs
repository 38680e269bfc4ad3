//! Lineage, files, series and logs of runs.

use std::io::Read as _;

use reqwest::{Method, multipart};
use serde_json::{Value, json};

use crate::harness::{Plane, Reply, reply};

const LOSS: &str = "step|timestamp|metric\n0|2024-01-02 03:04:05.000001+00:00|0.5\n1|2024-01-02 03:04:06+00:00|0.25";

async fn unmanaged(plane: &Plane) -> String {
    plane
        .create(&json!({"is_managed": false, "managed_by": "user", "name": "n"}))
        .await
}

/// Where the files of the run at `path` are.
fn streams(path: &str) -> String {
    path.replace("/api/v1/", "/streams/v1/polyaxon/")
}

async fn upload(plane: &Plane, route: &str, name: &str, bytes: &[u8], options: &Value) -> Reply {
    let file = multipart::Part::bytes(bytes.to_vec()).file_name(name.to_owned());
    let form = multipart::Form::new()
        .part("upload_file", file)
        .text("json", options.to_string());
    reply(plane.request(Method::POST, route).multipart(form)).await
}

fn tar(members: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in members {
        let mut header = [0_u8; 512];
        let mut put =
            |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, "0000644\0");
        put(124, &format!("{:011o}\0", content.len()));
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(content.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

#[tokio::test]
async fn lineage_is_kept_by_name_and_state() {
    let plane = Plane::start().await;
    let (one, two) = (unmanaged(&plane).await, unmanaged(&plane).await);
    let log = |path: &str, body: Value| {
        let request = plane.request(Method::POST, &format!("{path}/lineage/artifacts"));
        reply(request.json(&body))
    };
    let output = json!({"name": "out", "kind": "file", "path": "outputs/a", "summary": {"hash": "h1"}, "is_input": false});
    let input =
        json!({"name": "set", "kind": "data", "summary": {"hash": "abc"}, "is_input": true});
    for path in [&one, &two] {
        let body = json!({"artifacts": [output, input]});
        let (status, answer) = log(path, body).await;
        assert_eq!((status.as_u16(), answer), (201, json!("")));
    }
    let uuid = one.rsplit('/').next().unwrap();
    let (_, list) = plane.get(&format!("{one}/lineage/artifacts")).await;
    assert_eq!(list["count"], 2);
    let want = json!({"name": "out", "kind": "file", "path": "outputs/a", "summary": {"hash": "h1"},
        "is_input": false, "state": uuid, "run": uuid, "meta_info": {"run": {"name": "n", "uuid": uuid}}});
    assert_eq!(list["results"][0], want);
    // The same data has the same state, whichever run read it.
    let state = &list["results"][1]["state"];
    let (_, other) = plane
        .get(&format!("{two}/lineage/artifacts?query=name:set"))
        .await;
    assert_eq!(
        (&other["results"][0]["state"], other["count"].as_u64()),
        (state, Some(1))
    );
    // Logged again it takes the place of the first; a bare list is taken too.
    let changed = json!([{"name": "out", "kind": "model", "summary": {}}]);
    assert_eq!(log(&one, changed).await.0, 201);
    let (_, out) = plane.get(&format!("{one}/lineage/artifacts/out")).await;
    assert_eq!(
        (&out["kind"], &out["path"]),
        (&json!("model"), &Value::Null)
    );
    let (_, list) = plane.get(&format!("{one}/lineage/artifacts/names")).await;
    assert_eq!(list["results"], json!([{"name": "out"}, {"name": "set"}]));
    let (_, list) = plane
        .get("/api/v1/local/agent-lab/runs/lineage/artifacts?mode=distinct&query=is_input:true")
        .await;
    assert_eq!(
        list["results"],
        json!([{"name": "set", "kind": "data", "is_input": true}])
    );
    for want in [204, 404] {
        let request = plane.request(Method::DELETE, &format!("{one}/lineage/artifacts/out"));
        assert_eq!(reply(request).await.0, want);
    }
    let (status, answer) = plane.get(&format!("{one}/lineage/artifacts/out")).await;
    let missing = json!({"detail": "No ArtifactLineage matches the given query."});
    assert_eq!((status.as_u16(), answer), (404, missing));
}

#[tokio::test]
async fn lineage_that_is_wrong_is_refused_whole() {
    let plane = Plane::start().await;
    let path = unmanaged(&plane).await;
    let good = json!({"name": "a", "kind": "file", "summary": {}});
    let table = [
        (json!({}), "Received no artifacts."),
        (json!({"artifacts": null}), "Received no artifacts."),
        (
            json!([good, {"name": "b", "kind": "nope", "summary": {}}]),
            "`nope`",
        ),
        (json!([good, {"name": "b", "kind": "file"}]), "summary"),
        (json!([good, {"name": "b", "summary": {}}]), "kind"),
        (json!([good, {"kind": "file", "summary": {}}]), "name"),
        (
            json!([good, {"name": "b", "kind": "file", "summary": {}, "odd": 1}]),
            "odd",
        ),
        (
            json!([good, {"name": "b", "kind": "file", "summary": {}, "state": "x"}]),
            "state",
        ),
    ];
    for (body, word) in table {
        let (status, answer) = plane
            .post(&format!("{path}/lineage/artifacts"), &body)
            .await;
        assert_eq!(status, 400, "{body}");
        assert!(answer[0].as_str().unwrap().contains(word), "{answer}");
    }
    assert_eq!(
        plane
            .post(&format!("{path}/lineage/artifacts"), &json!([]))
            .await
            .0,
        201
    );
    assert_eq!(
        plane.get(&format!("{path}/lineage/artifacts")).await.1["count"],
        0
    );
}

#[tokio::test]
async fn files_go_up_and_come_down_as_they_were() {
    let plane = Plane::start().await;
    let at = streams(&unmanaged(&plane).await);
    let file = format!("{at}/artifact");
    let plain = json!({"path": "outputs", "untar": false, "overwrite": true});
    let bytes: Vec<u8> = (0..200_000_u32)
        .map(|i| u8::try_from(i % 251).unwrap())
        .collect();
    assert_eq!(
        upload(&plane, &file, "/some/where/a.bin", &bytes, &plain)
            .await
            .0,
        200
    );
    let keep = json!({"path": "/outputs/", "untar": false, "overwrite": false});
    assert_eq!(upload(&plane, &file, "a.bin", b"other", &keep).await.0, 200);
    let response = plane
        .request(
            Method::GET,
            &format!("{file}?path=outputs/a.bin&stream=true&force=true"),
        )
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-length"], "200000");
    assert_eq!(response.headers()["content-disposition"], "inline");
    assert_eq!(response.bytes().await.unwrap(), bytes);
    assert_eq!(upload(&plane, &file, "b.txt", b"b", &plain).await.0, 200);

    let all = format!("{at}/artifacts");
    let archive = tar(&[("d/c.txt", "c"), ("e", "")]);
    let into = json!({"path": "outputs/x", "untar": true, "overwrite": false});
    assert_eq!(upload(&plane, &all, "x.tar", &archive, &into).await.0, 200);
    let tree = |path: &'static str| {
        let url = format!("{at}/artifacts/tree?path={path}");
        let plane = &plane;
        async move { plane.get(&url).await.1 }
    };
    assert_eq!(
        tree("outputs").await,
        json!({"files": {"a.bin": 200_000, "b.txt": 1}, "dirs": ["x"]})
    );
    assert_eq!(
        tree("outputs/x/d").await,
        json!({"files": {"c.txt": 1}, "dirs": []})
    );
    assert!(tree("nothing").await["error"].is_string());

    let response = plane
        .request(Method::GET, &format!("{all}?path=outputs/x"))
        .send()
        .await
        .unwrap();
    assert_eq!(
        response.headers()["content-disposition"],
        "attachment; filename=\"x.tar.gz\""
    );
    let packed = response.bytes().await.unwrap();
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut unpacked)
        .unwrap();
    let text = String::from_utf8_lossy(&unpacked);
    assert!(text.contains("x/d/c.txt") && text.contains("x/e"), "{text}");

    let delete = |route: &str, path: &str| {
        let request = plane.request(Method::DELETE, &format!("{route}?path={path}"));
        reply(request)
    };
    assert_eq!(delete(&file, "outputs/b.txt").await.0, 204);
    assert_eq!(delete(&file, "outputs/b.txt").await.0, 400);
    assert_eq!(delete(&all, "outputs/x").await.0, 204);
    // An archive at the root takes the place of everything.
    let whole = json!({"path": "/", "untar": true, "overwrite": true});
    assert_eq!(
        upload(&plane, &all, "x.tar.gz", &packed, &whole).await.0,
        200
    );
    assert_eq!(tree("").await, json!({"files": {}, "dirs": ["x"]}));
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_said_in_plain_text() {
    let plane = Plane::start().await;
    let at = streams(&unmanaged(&plane).await);
    let (file, all) = (format!("{at}/artifact"), format!("{at}/artifacts"));
    let text = |answer: (reqwest::StatusCode, Value)| {
        (answer.0.as_u16(), answer.1.as_str().unwrap().to_owned())
    };
    let table = [
        (
            plane.get(&format!("{file}?path=x")).await,
            404,
            "Artifact not found",
        ),
        (plane.get(&file).await, 400, "path"),
        (
            plane.get(&format!("{file}?path=../x")).await,
            400,
            "traversal",
        ),
        (
            plane.get(&format!("{all}?path=a/../../x")).await,
            400,
            "traversal",
        ),
        (
            plane.get(&format!("{all}?path=nothing")).await,
            404,
            "Artifact not found",
        ),
        (
            upload(
                &plane,
                &file,
                "a",
                b"x",
                &json!({"path": "../up", "untar": false}),
            )
            .await,
            400,
            "traversal",
        ),
        (
            upload(
                &plane,
                &file,
                "..",
                b"x",
                &json!({"path": "", "untar": false}),
            )
            .await,
            400,
            "no name",
        ),
        (
            upload(&plane, &file, "a", b"no tar", &json!({"path": ""})).await,
            400,
            "no tar",
        ),
        (
            upload(
                &plane,
                &all,
                "a",
                &tar(&[("../escape", "x")]),
                &json!({"path": "a"}),
            )
            .await,
            400,
            "traversal",
        ),
        (
            upload(&plane, &file, "a", b"x", &json!("x")).await,
            400,
            "json",
        ),
    ];
    for (answer, status, word) in table {
        let (got, message) = text(answer);
        assert_eq!(got, status, "{message}");
        assert!(message.contains(word), "{message}");
    }
    let form = multipart::Form::new().text("json", "{}");
    let answer = reply(plane.request(Method::POST, &file).multipart(form)).await;
    assert_eq!(
        text(answer),
        (400, "A file is required to upload a file".to_owned())
    );
    let response = plane
        .request(Method::GET, &format!("{file}?path=x"))
        .send()
        .await
        .unwrap();
    assert!(
        response.headers()["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
}

#[tokio::test]
async fn series_are_read_from_the_files_that_were_uploaded() {
    let plane = Plane::start().await;
    let path = unmanaged(&plane).await;
    let at = streams(&path);
    let uuid = path.rsplit('/').next().unwrap();
    let events = json!({"path": "events/metric", "untar": false});
    upload(
        &plane,
        &format!("{at}/artifact"),
        "loss.plx",
        LOSS.as_bytes(),
        &events,
    )
    .await;
    upload(
        &plane,
        &format!("{at}/artifact"),
        "empty.plx",
        b"step|timestamp|metric",
        &events,
    )
    .await;
    let system = json!({"path": "resources/metric", "untar": false});
    upload(
        &plane,
        &format!("{at}/artifact"),
        "cpu.plx",
        b"step|timestamp|metric\n|t|1.0",
        &system,
    )
    .await;
    let loss = json!({"name": "loss", "kind": "metric", "data": {"step": [0, 1],
        "timestamp": ["2024-01-02 03:04:05.000001+00:00", "2024-01-02 03:04:06+00:00"], "metric": [0.5, 0.25]}});
    let table = [
        (
            format!("{at}/events/metric?names=loss,nothing,empty&orient=dict&force=true"),
            json!([loss]),
        ),
        (
            format!("{at}/events/metric?names=loss&orient=csv"),
            json!([{"name": "loss", "kind": "metric", "data": LOSS}]),
        ),
        (format!("{at}/events/metric?names="), json!([])),
        (format!("{at}/events/image?names=loss"), json!([])),
        (
            format!("{at}/resources"),
            json!([{"name": "cpu", "kind": "metric",
            "data": {"step": [null], "timestamp": ["t"], "metric": [1.0]}}]),
        ),
        (
            format!(
                "/streams/v1/polyaxon/local/agent-lab/runs/multi/events/metric?names=loss&runs={uuid},nothing"
            ),
            json!({uuid: [loss], "nothing": []}),
        ),
    ];
    for (url, want) in table {
        let (status, answer) = plane.get(&url).await;
        assert_eq!(
            (status.as_u16(), answer),
            (200, json!({"data": want})),
            "{url}"
        );
    }
    for url in [
        "events/nope?names=a",
        "events/metric?names=loss&orient=table",
        "events/metric?names=loss&sample=x",
    ] {
        assert_eq!(plane.get(&format!("{at}/{url}")).await.0, 400, "{url}");
    }
    let broken = json!({"path": "events/metric", "untar": false});
    upload(
        &plane,
        &format!("{at}/artifact"),
        "bad.plx",
        b"step|timestamp|metric\nx|t|1",
        &broken,
    )
    .await;
    let (status, answer) = plane.get(&format!("{at}/events/metric?names=bad")).await;
    assert!(
        status == 400 && answer.as_str().unwrap().contains("bad.plx"),
        "{answer}"
    );
}

#[tokio::test]
async fn logs_come_one_file_after_the_other() {
    let plane = Plane::start().await;
    let at = streams(&unmanaged(&plane).await);
    let none = json!({"last_time": null, "last_file": null, "logs": [], "files": []});
    assert_eq!(plane.get(&format!("{at}/logs?force=true")).await.1, none);
    let line = |value: &str| json!({"timestamp": "2026-01-01T00:00:00+00:00", "node": "n", "pod": "p", "container": "c", "value": value});
    let options = json!({"path": "plxlogs", "untar": false});
    for (name, value) in [("1.jsonl", "a"), ("2.jsonl", "b")] {
        upload(
            &plane,
            &format!("{at}/artifact"),
            name,
            format!("\n{}", line(value)).as_bytes(),
            &options,
        )
        .await;
    }
    let files = json!(["1.jsonl", "2.jsonl"]);
    let (_, first) = plane.get(&format!("{at}/logs")).await;
    assert_eq!(
        first,
        json!({"last_time": null, "last_file": "1.jsonl", "logs": [line("a")], "files": files})
    );
    let (_, second) = plane.get(&format!("{at}/logs?last_file=1.jsonl")).await;
    assert_eq!(
        (&second["logs"], &second["last_file"]),
        (&json!([line("b")]), &json!("2.jsonl"))
    );
    let (_, end) = plane.get(&format!("{at}/logs?last_file=2.jsonl")).await;
    assert_eq!(
        (&end["logs"], &end["last_file"]),
        (&json!([]), &Value::Null)
    );
}

#[tokio::test]
async fn a_run_is_found_in_its_own_place_only() {
    let plane = Plane::start().await;
    let path = unmanaged(&plane).await;
    let uuid = path.rsplit('/').next().unwrap().to_owned();
    let options = json!({"path": "", "untar": false});
    upload(
        &plane,
        &format!("{}/artifact", streams(&path)),
        "a",
        b"secret",
        &options,
    )
    .await;
    plane
        .post(
            &format!("{path}/lineage/artifacts"),
            &json!([{"name": "a", "kind": "file", "summary": {}}]),
        )
        .await;
    for place in ["acme/agent-lab", "default/agent-lab", "local/nothing"] {
        let run = format!("/api/v1/{place}/runs/{uuid}");
        for (method, url) in [
            (Method::GET, run.clone()),
            (Method::PATCH, run.clone()),
            (Method::DELETE, run.clone()),
            (Method::GET, format!("{run}/statuses")),
            (Method::POST, format!("{run}/statuses")),
            (Method::POST, format!("{run}/stop")),
            (Method::POST, format!("{run}/approve")),
            (Method::POST, format!("{run}/archive")),
            (Method::POST, format!("{run}/restore")),
            (Method::POST, format!("{run}/restart")),
            (Method::GET, format!("{run}/lineage/artifacts")),
            (Method::POST, format!("{run}/lineage/artifacts")),
            (Method::GET, format!("{run}/lineage/artifacts/a")),
            (Method::DELETE, format!("{run}/lineage/artifacts/a")),
            (Method::GET, format!("{}/artifact?path=a", streams(&run))),
            (Method::DELETE, format!("{}/artifact?path=a", streams(&run))),
            (Method::GET, format!("{}/artifacts?path=", streams(&run))),
            (Method::GET, format!("{}/artifacts/tree", streams(&run))),
            (Method::GET, format!("{}/logs", streams(&run))),
            (
                Method::GET,
                format!("{}/events/metric?names=a", streams(&run)),
            ),
        ] {
            assert_eq!(
                reply(plane.request(method.clone(), &url)).await.0,
                404,
                "{method} {url}"
            );
        }
        let options = json!({"path": "", "untar": false});
        let there = format!("{}/artifact", streams(&run));
        assert_eq!(upload(&plane, &there, "a", b"x", &options).await.0, 404);
    }
    let elsewhere = streams(&path).replace("/polyaxon/", "/another/");
    assert_eq!(
        plane.get(&format!("{elsewhere}/artifact?path=a")).await.0,
        404
    );
    for list in [
        "acme/agent-lab/runs",
        "acme/agent-lab/runs/lineage/artifacts",
    ] {
        assert_eq!(plane.get(&format!("/api/v1/{list}")).await.1["count"], 0);
    }
    let url = format!("{}{}/artifact?path=a", plane.server.url(), streams(&path));
    assert_eq!(reply(plane.http.get(url)).await.0, 401);
    let (status, answer) = plane
        .get(&format!("{}/artifact?path=a", streams(&path)))
        .await;
    assert_eq!((status.as_u16(), answer), (200, json!("secret")));
}

#[tokio::test]
async fn a_copy_begins_with_the_files_that_it_names() {
    let plane = Plane::start().await;
    let content = json!({"run": {"kind": "job", "container": {"command": ["true"]}}}).to_string();
    let path = plane
        .create(&json!({"content": content, "name": "n"}))
        .await;
    let uuid = path.rsplit('/').next().unwrap();
    let at = streams(&path);
    for (folder, name) in [("outputs", "a"), ("outputs/d", "b"), ("", "c")] {
        let options = json!({"path": folder, "untar": false});
        upload(&plane, &format!("{at}/artifact"), name, b"x", &options).await;
    }
    let named = json!({"files": [format!("{uuid}/c")], "dirs": [format!("{uuid}/outputs/d")]});
    let table = [
        (json!({}), json!({"files": {"a": 1}, "dirs": ["d"]})),
        (
            json!({"meta_info": {"copy_artifacts": named}}),
            json!({"files": {}, "dirs": ["d"]}),
        ),
    ];
    for (body, want) in table {
        let (status, run) = plane.post(&format!("{path}/copy"), &body).await;
        assert_eq!(status, 201, "{run}");
        assert_eq!(
            run["original"],
            json!({"uuid": uuid, "name": "n", "kind": "copy"})
        );
        let copy = at.replace(uuid, run["uuid"].as_str().unwrap());
        let (_, tree) = plane
            .get(&format!("{copy}/artifacts/tree?path=outputs"))
            .await;
        assert_eq!(tree, want);
        assert_eq!(
            plane.get(&format!("{copy}/artifact?path=c")).await.1,
            json!("x")
        );
    }
    for (paths, word) in [
        (json!({"files": ["other/c"]}), "copy_artifacts"),
        (json!({"files": [format!("{uuid}/../c")]}), "copy_artifacts"),
        (json!({"files": "c"}), "copy_artifacts"),
        (json!({"files": [format!("{uuid}/nothing")]}), "not there"),
    ] {
        let body = json!({"meta_info": {"copy_artifacts": paths}});
        let (status, answer) = plane.post(&format!("{path}/copy"), &body).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer.to_string().contains(word), "{answer}");
    }
    let (status, answer) = plane.post(&format!("{path}/resume"), &json!({})).await;
    assert_eq!(status, 400);
    assert!(
        answer[0]
            .as_str()
            .unwrap()
            .starts_with("Cannot resume this run"),
        "{answer}"
    );
}
