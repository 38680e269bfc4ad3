//! Files: what is taken, what is refused, what is answered.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use polyaxon_local::Limits;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Plane, Sandbox, code, reply};

#[tokio::test]
async fn what_is_written_is_what_is_read_and_what_a_command_sees() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let (status, answer) = sandbox.write("/tmp/./x/../a.txt", b"one", &[]).await;
    assert_eq!(status, 200);
    assert_eq!(
        answer,
        json!({"path": "/tmp/a.txt", "bytes_written": 3, "created": true})
    );
    assert_eq!(sandbox.content("/tmp/a.txt").await, b"one");
    let answer = sandbox
        .sh("cat a.txt; printf two > b.txt", &json!({"workdir": "/tmp"}))
        .await;
    assert_eq!(answer["stdout"], "one");
    assert_eq!(sandbox.content("/tmp/b.txt").await, b"two");

    let bytes: Vec<u8> = (0..=255).collect();
    let (_, answer) = sandbox.write("/tmp/a.txt", &bytes, &[]).await;
    assert_eq!(
        answer,
        json!({"path": "/tmp/a.txt", "bytes_written": 256, "created": false})
    );
    assert_eq!(sandbox.content("/tmp/a.txt").await, bytes);
}

#[tokio::test]
async fn a_file_is_replaced_appended_to_or_left_alone_as_asked() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let path = "/tmp/f";
    let (status, answer) = sandbox.write(path, b"x", &[("create", "false")]).await;
    assert_eq!((status.as_u16(), code(&answer)), (404, "not_found"));
    assert_eq!(sandbox.stat(path).await.0, 404);
    for (bytes, query, created, content) in [
        ("one,", [("append", "true")], true, "one,"),
        ("two", [("append", "true")], false, "one,two"),
        ("z", [("create", "false")], false, "z"),
        ("", [("append", "true")], false, "z"),
        ("", [("append", "false")], false, ""),
    ] {
        let (status, answer) = sandbox.write(path, bytes.as_bytes(), &query).await;
        assert_eq!(status, 200);
        assert_eq!(answer["created"], created, "{query:?}");
        assert_eq!(answer["bytes_written"], bytes.len());
        assert_eq!(sandbox.content(path).await, content.as_bytes());
    }
}

async fn page(sandbox: &Sandbox<'_>, query: &[(&str, &str)]) -> (Vec<u8>, String, String) {
    let response = sandbox.read("/tmp/f", query).await;
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.headers()["content-type"],
        "application/octet-stream"
    );
    let header = |name| response.headers()[name].to_str().unwrap().to_owned();
    let (next, eof) = (header("x-polyaxon-next-offset"), header("x-polyaxon-eof"));
    (response.bytes().await.unwrap().to_vec(), next, eof)
}

#[tokio::test]
async fn a_page_says_where_it_ends_and_whether_the_file_does() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox.write("/tmp/f", b"0123456789", &[]).await;
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a str);
    let table: [Row<'_>; 8] = [
        (&[], "0123456789", "10", "true"),
        (
            &[("offset", ""), ("length", "")],
            "0123456789",
            "10",
            "true",
        ),
        (&[("length", "4")], "0123", "4", "false"),
        (&[("offset", "4"), ("length", "6")], "456789", "10", "true"),
        (&[("offset", "4"), ("length", "7")], "456789", "10", "true"),
        (&[("offset", "4"), ("length", "5")], "45678", "9", "false"),
        (&[("offset", "10")], "", "10", "true"),
        (&[("offset", "99")], "", "99", "true"),
    ];
    for (query, bytes, next, eof) in table {
        let got = page(&sandbox, query).await;
        assert_eq!(got, (bytes.into(), next.into(), eof.into()), "{query:?}");
    }
    sandbox.write("/tmp/f", b"", &[]).await;
    assert_eq!(
        page(&sandbox, &[]).await,
        (vec![], "0".into(), "true".into())
    );
}

#[tokio::test]
async fn a_large_file_is_read_whole_in_pages_of_the_largest_size() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let (status, _) = sandbox.write("/tmp/f", &bytes, &[]).await;
    assert_eq!(status, 200);
    let (first, next, eof) = page(&sandbox, &[]).await;
    assert_eq!(
        (first.len(), next.as_str(), eof.as_str()),
        (1 << 20, "1048576", "false")
    );
    let (whole, next, eof) = page(&sandbox, &[("length", "16777216")]).await;
    assert!(whole == bytes);
    assert_eq!((next.as_str(), eof.as_str()), ("12000000", "true"));
}

#[tokio::test]
async fn values_of_a_query_are_strict() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox.write("/tmp/f", b"x", &[]).await;
    let table = [
        (Method::GET, "fs/read?path=/tmp/f&offset=-1"),
        (Method::GET, "fs/read?path=/tmp/f&offset=1.0"),
        (Method::GET, "fs/read?path=/tmp/f&length=0"),
        (Method::GET, "fs/read?path=/tmp/f&length=16777217"),
        (Method::GET, "fs/read"),
        (Method::GET, "fs/read?path="),
        (Method::GET, "fs/read?path=tmp/f"),
        (Method::GET, "fs/read?path=/tmp/f%00"),
        (Method::GET, "fs/read?path=/tmp/%ff"),
        (Method::GET, "fs/read?path=/tmp;/f"),
        (Method::POST, "fs/write?path=/tmp/f&mode=0999"),
        (Method::POST, "fs/write?path=/tmp/f&mode=1777"),
        (Method::POST, "fs/write?path=/tmp/f&create=1"),
        (Method::POST, "fs/write?path=/tmp/f&append=True"),
        (Method::GET, "fs/ls?path=/tmp&recursive=yes"),
        (Method::GET, "fs/ls?path=/tmp&max_entries=0"),
        (Method::GET, "fs/ls?path=/tmp&max_entries=10001"),
        (Method::DELETE, "fs/rm?path=/tmp/f&recursive=0"),
        (Method::GET, "fs/stat?path=relative"),
    ];
    for (method, target) in table {
        let (status, answer) = reply(sandbox.request(method, target)).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (400, "invalid_request"),
            "{target}"
        );
    }
    assert_eq!(sandbox.content("/tmp/f").await, b"x");
    let long = format!("/{}", "p".repeat(4096));
    assert_eq!(sandbox.stat(&long).await.0, 400);
    // The longest path is taken, and there is no such file; its parts may be too long to be.
    let longest = "/a".repeat(2048);
    assert_eq!(sandbox.stat(&longest).await.0, 404);
}

#[tokio::test]
async fn a_body_of_the_limit_is_written_and_one_byte_more_is_413() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let limit = Limits::WRITE_BYTES;
    let (status, answer) = sandbox.write("/tmp/f", &vec![b'x'; limit], &[]).await;
    assert_eq!(
        (status.as_u16(), &answer["bytes_written"]),
        (200, &json!(limit))
    );
    let (status, answer) = sandbox.write("/tmp/g", &vec![b'x'; limit + 1], &[]).await;
    assert_eq!((status.as_u16(), code(&answer)), (413, "payload_too_large"));
    assert_eq!(sandbox.stat("/tmp/g").await.0, 404);

    let mut limits = Limits::default();
    limits.json_body = 40;
    let plane = Plane::with(limits).await;
    let sandbox = plane.sandbox().await;
    for (size, want) in [(40, 200), (41, 413)] {
        let body = format!("{:<size$}", r#"{"path":"/tmp/d","parents":true}"#);
        let (status, answer) = reply(sandbox.request(Method::POST, "fs/mkdir").body(body)).await;
        assert_eq!(status, want, "{answer}");
    }
}

#[tokio::test]
async fn odd_names_are_ten_files_and_listed_verbatim() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let names = [
        "a b",
        "a%20b",
        "a+b",
        "a b ",
        "é",
        "e\u{301}",
        "q?x=1#f&y",
        "-rf",
        "new\nline",
        "\"'\\",
        "semi;colon",
        ":@,$!~*()",
    ];
    for name in names {
        let path = format!("/workspace/{name}");
        let (status, answer) = sandbox.write(&path, name.as_bytes(), &[]).await;
        assert_eq!(
            (status.as_u16(), answer["path"].as_str()),
            (200, Some(path.as_str()))
        );
    }
    for name in names {
        let path = format!("/workspace/{name}");
        assert_eq!(sandbox.content(&path).await, name.as_bytes());
        assert_eq!(sandbox.stat(&path).await.1["path"], path);
    }
    let (_, listing) = sandbox.ls("/workspace", &[]).await;
    let listed = listing["entries"].as_array().unwrap().iter();
    let listed: Vec<&str> = listed
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    let mut sorted = names;
    sorted.sort_unstable();
    assert_eq!(listed, sorted);
}

#[tokio::test]
async fn a_listing_is_sorted_typed_and_cut_where_asked() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox
        .mkdir(&json!({"path": "/tmp/t/b/c", "parents": true}))
        .await;
    sandbox
        .write("/tmp/t/a.txt", b"12345", &[("mode", "0600")])
        .await;
    sandbox.write("/tmp/t/b/c/d.txt", b"1", &[]).await;
    sandbox.write("/tmp/t/z", b"", &[]).await;
    sandbox
        .sh("ln -s /no/where b/dead", &json!({"workdir": "/tmp/t"}))
        .await;

    let (status, flat) = sandbox.ls("/tmp/t/", &[]).await;
    assert_eq!(
        (status.as_u16(), &flat["path"], &flat["truncated"]),
        (200, &json!("/tmp/t"), &json!(false))
    );
    let mut file = flat["entries"][0].clone();
    assert!(file["mtime"].as_str().unwrap().ends_with('Z'));
    file["mtime"] = Value::Null;
    let want = json!({"name": "a.txt", "type": "file", "size": 5, "mtime": null, "mode": "0600"});
    assert_eq!(file, want);

    let names = |listing: &Value| -> Vec<String> {
        let entries = listing["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = ["a.txt", "b", "z", "b/c", "b/dead", "b/c/d.txt"];
    let (_, deep) = sandbox.ls("/tmp/t", &[("recursive", "true")]).await;
    assert_eq!(names(&deep), all);
    let dead = &deep["entries"][4];
    assert_eq!(
        (&dead["type"], &dead["symlink_target"]),
        (&json!("symlink"), &json!("/no/where"))
    );
    for (max, truncated) in [("1", true), ("5", true), ("6", false), ("7", false)] {
        let query = [("recursive", "true"), ("max_entries", max)];
        let (_, some) = sandbox.ls("/tmp/t", &query).await;
        let count = max.parse::<usize>().unwrap().min(6);
        assert_eq!(
            (names(&some).as_slice(), &some["truncated"]),
            (&all.map(str::to_owned)[..count], &json!(truncated))
        );
    }
    sandbox.mkdir(&json!({"path": "/tmp/hollow"})).await;
    assert_eq!(sandbox.ls("/tmp/hollow", &[]).await.1["entries"], json!([]));
    assert_eq!(sandbox.ls("/tmp/nothing", &[]).await.0, 404);
    assert_eq!(sandbox.ls("/tmp/t/z", &[]).await.0, 409);
}

#[tokio::test]
async fn links_in_circles_are_listed_once_and_removed_without_their_targets() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let script = "mkdir d && cd d && : > f && ln -s .. up && ln -s self self && ln -s /nope dead";
    sandbox.sh(script, &json!({"workdir": "/workspace"})).await;
    let (_, listing) = sandbox.ls("/workspace", &[("recursive", "true")]).await;
    let entries = listing["entries"].as_array().unwrap();
    let kinds: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| {
            (
                entry["name"].as_str().unwrap(),
                entry["type"].as_str().unwrap(),
            )
        })
        .collect();
    let want = [
        ("d", "dir"),
        ("d/dead", "symlink"),
        ("d/f", "file"),
        ("d/self", "symlink"),
        ("d/up", "symlink"),
    ];
    assert_eq!(kinds, want);
    let (status, stat) = sandbox.stat("/workspace/d/self").await;
    assert_eq!(
        (status.as_u16(), &stat["symlink_target"]),
        (200, &json!("self"))
    );
    let response = sandbox.read("/workspace/d/self", &[]).await;
    assert_eq!(response.status(), 409);

    sandbox.write("/workspace/kept", b"x", &[]).await;
    assert_eq!(
        sandbox.rm("/workspace/d", &[("recursive", "true")]).await.0,
        200
    );
    assert_eq!(sandbox.content("/workspace/kept").await, b"x");
    assert_eq!(sandbox.stat("/workspace/d").await.0, 404);
}

#[tokio::test]
async fn a_new_file_or_directory_gets_exactly_the_mode_that_was_asked_for() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let mode = async |path: &str| {
        sandbox.stat(path).await.1["mode"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // 0777 and 0666 are what a umask would show in.
    for wanted in ["0755", "0777", "0666", "0600", "0000"] {
        let path = format!("/tmp/f{wanted}");
        sandbox.write(&path, b"x", &[("mode", wanted)]).await;
        assert_eq!(mode(&path).await, wanted);
        let path = format!("/tmp/d{wanted}");
        let (status, answer) = sandbox.mkdir(&json!({"path": path, "mode": wanted})).await;
        assert_eq!((status.as_u16(), answer), (200, json!({"path": path})));
        assert_eq!(mode(&path).await, wanted);
    }
    sandbox.write("/tmp/f0755", b"y", &[("mode", "0600")]).await;
    assert_eq!(mode("/tmp/f0755").await, "0755");
    sandbox.write("/tmp/plain", b"", &[]).await;
    sandbox
        .mkdir(&json!({"path": "/tmp/p/q", "parents": true}))
        .await;
    let got = [
        mode("/tmp/plain").await,
        mode("/tmp/p").await,
        mode("/tmp/p/q").await,
    ];
    assert_eq!(got, ["0644", "0755", "0755"]);
}

#[tokio::test]
async fn a_directory_is_made_once_and_with_parents_as_often_as_asked() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox.write("/tmp/file", b"", &[]).await;
    let table = [
        (json!({"path": "/tmp/d"}), 200, ""),
        (json!({"path": "/tmp/d"}), 409, "conflict"),
        (json!({"path": "/tmp/d", "parents": true}), 200, ""),
        (json!({"path": "/tmp/d/x/y/z"}), 404, "not_found"),
        (json!({"path": "/tmp/d/x/y/z", "parents": true}), 200, ""),
        (json!({"path": "/tmp/file"}), 409, "conflict"),
        (
            json!({"path": "/tmp/file", "parents": true}),
            409,
            "conflict",
        ),
        (
            json!({"path": "/tmp/file/x", "parents": true}),
            409,
            "conflict",
        ),
        (json!({"path": "/"}), 409, "conflict"),
        (json!({"path": "/", "parents": true}), 200, ""),
        (json!({"path": "d"}), 400, "invalid_request"),
        (json!({"path": "/d", "mode": "rwx"}), 400, "invalid_request"),
        (json!({"path": "/d", "mode": 755}), 400, "invalid_request"),
        (json!({"path": "/d", "deep": true}), 400, "invalid_request"),
        (json!({}), 400, "invalid_request"),
    ];
    for (body, want, word) in table {
        let (status, answer) = sandbox.mkdir(&body).await;
        assert_eq!(status, want, "{body} {answer}");
        if want != 200 {
            assert_eq!(code(&answer), word, "{body}");
        }
    }
    assert_eq!(sandbox.stat("/tmp/d/x/y/z").await.1["type"], "dir");
}

#[tokio::test]
async fn a_tree_goes_only_when_asked_for_and_nothing_twice() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox
        .mkdir(&json!({"path": "/tmp/t/sub", "parents": true}))
        .await;
    sandbox.write("/tmp/t/sub/f", b"x", &[]).await;
    let recursive = [("recursive", "true")];
    let (status, answer) = sandbox.rm("/tmp/t", &[]).await;
    assert_eq!((status.as_u16(), code(&answer)), (409, "conflict"));
    assert_eq!(sandbox.content("/tmp/t/sub/f").await, b"x");
    assert_eq!(
        sandbox.rm("/tmp/t/sub/f", &[]).await.1,
        json!({"path": "/tmp/t/sub/f"})
    );
    assert_eq!(sandbox.rm("/tmp/t/sub", &[]).await.0, 200);
    sandbox.write("/tmp/t/again", b"x", &[]).await;
    assert_eq!(sandbox.rm("/tmp/t", &recursive).await.0, 200);
    let (status, answer) = sandbox.rm("/tmp/t", &[]).await;
    assert_eq!((status.as_u16(), code(&answer)), (404, "not_found"));
    assert_eq!(sandbox.rm("/tmp/t", &recursive).await.0, 200);
    let (status, answer) = sandbox.rm("/", &recursive).await;
    assert_eq!((status.as_u16(), code(&answer)), (403, "forbidden"));
    assert_eq!(sandbox.stat("/tmp").await.0, 200);
}

#[tokio::test]
async fn a_stat_follows_no_link_and_names_owner_and_time() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox.write("/tmp/f", b"12345", &[("mode", "0640")]).await;
    sandbox.sh("ln -s f tmp/link", &json!({})).await;
    let (_, mut stat) = sandbox.stat("/tmp/./f").await;
    let host = std::fs::metadata(sandbox.folder().join("tmp/f")).unwrap();
    assert_eq!(host.permissions().mode() & 0o777, 0o640);
    let modified: jiff::Timestamp = stat["mtime"].as_str().unwrap().parse().unwrap();
    let age = jiff::Timestamp::now().duration_since(modified);
    assert!(age.unsigned_abs() < Duration::from_secs(60), "{age:?}");
    stat["mtime"] = Value::Null;
    let uid = std::os::unix::fs::MetadataExt::uid(&host);
    let gid = std::os::unix::fs::MetadataExt::gid(&host);
    let want = json!({
        "path": "/tmp/f", "type": "file", "size": 5, "mtime": null, "mode": "0640",
        "uid": uid, "gid": gid, "symlink_target": null
    });
    assert_eq!(stat, want);
    let (_, link) = sandbox.stat("/tmp/link").await;
    assert_eq!(
        (&link["type"], &link["symlink_target"]),
        (&json!("symlink"), &json!("f"))
    );
    assert_eq!(sandbox.content("/tmp/link").await, b"12345");
    assert_eq!(sandbox.stat("/tmp/nothing").await.0, 404);
    assert_eq!(sandbox.stat("/tmp/f/below").await.0, 409);
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_at_once() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox
        .sh("mkfifo pipe; ln -s pipe link", &json!({"workdir": "/tmp"}))
        .await;
    for path in ["/tmp/pipe", "/tmp/link", "/tmp", "/"] {
        let response = sandbox.read(path, &[]).await;
        assert_eq!(response.status(), 409, "{path}");
        assert_eq!(code(&response.json().await.unwrap()), "conflict");
        let (status, answer) = sandbox.write(path, b"x", &[]).await;
        assert_eq!(
            (status.as_u16(), code(&answer)),
            (409, "conflict"),
            "{path}"
        );
    }
    assert_eq!(sandbox.stat("/tmp/pipe").await.1["type"], "other");
    assert_eq!(sandbox.read("/tmp/nothing", &[]).await.status(), 404);
    assert_eq!(sandbox.write("/tmp/no/parent", b"x", &[]).await.0, 404);
    assert_eq!(sandbox.write("/tmp/pipe/below", b"x", &[]).await.0, 409);
}

#[tokio::test]
async fn a_write_through_a_link_that_leads_to_nothing_makes_the_file_it_names() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    sandbox
        .sh("ln -s ../workspace/new tmp/link", &json!({}))
        .await;
    let (status, answer) = sandbox.write("/tmp/link", b"x", &[("mode", "0600")]).await;
    assert_eq!((status.as_u16(), &answer["created"]), (200, &json!(true)));
    assert_eq!(sandbox.content("/workspace/new").await, b"x");
    assert_eq!(sandbox.stat("/workspace/new").await.1["mode"], "0600");
    assert_eq!(sandbox.stat("/tmp/link").await.1["type"], "symlink");
}
