//! Every way out of a sandbox through the file API, where paths are mapped. In pods: see `pods`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Plane, Reply, Sandbox, code, reply};

/// A folder outside with a secret in it, and links to it in the sandbox.
struct Outside(tempfile::TempDir);

impl Outside {
    fn new(sandbox: &Sandbox<'_>) -> Self {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let tmp = sandbox.folder().join("tmp");
        let link = |target: &Path, name: &str| symlink(target, tmp.join(name)).unwrap();
        link(outside.path(), "dir");
        link(&outside.path().join("secret"), "file");
        link(&outside.path().join("new"), "dangling");
        link(Path::new("../../../../../../../../.."), "up");
        link(Path::new("dir"), "chain");
        // Not out at once, but in the end.
        fs::create_dir(tmp.join("a")).unwrap();
        link(&Path::new("../../..").join(sandbox.uuid.as_str()), "a/back");
        Self(outside)
    }

    /// The same place by `..` from the root of the file system.
    fn through_up(&self) -> String {
        format!("/tmp/up{}/secret", self.0.path().display())
    }

    fn is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(
            fs::read_to_string(self.0.path().join("secret")).unwrap(),
            "secret"
        );
    }
}

fn is_forbidden(what: &str, (status, answer): &Reply) {
    assert_eq!(
        (status.as_u16(), code(answer)),
        (403, "forbidden"),
        "{what}: {answer}"
    );
    assert!(!answer.to_string().contains("\"secret\""), "{answer}");
}

#[tokio::test]
async fn no_link_leads_a_file_operation_out_of_the_sandbox() {
    let plane = Plane::mapped().await;
    let sandbox = plane.sandbox().await;
    let outside = Outside::new(&sandbox);
    let up = outside.through_up();
    let files = [
        "/tmp/file",
        "/tmp/dir/secret",
        "/tmp/chain/secret",
        "/tmp/a/back/tmp/f",
        up.as_str(),
    ];
    for path in files {
        let response = sandbox.read(path, &[]).await;
        let answer = (response.status(), response.json::<Value>().await.unwrap());
        is_forbidden(&format!("read {path}"), &answer);
        for query in [
            [("append", "true")],
            [("append", "false")],
            [("create", "false")],
        ] {
            let answer = sandbox.write(path, b"gotcha", &query).await;
            is_forbidden(&format!("write {path} {query:?}"), &answer);
        }
    }
    for path in ["/tmp/dangling", "/tmp/dir/new", "/tmp/chain/new"] {
        is_forbidden(path, &sandbox.write(path, b"gotcha", &[]).await);
    }
    for path in ["/tmp/dir", "/tmp/chain", "/tmp/up", "/tmp/a/back"] {
        is_forbidden(path, &sandbox.ls(path, &[("recursive", "true")]).await);
        for parents in [true, false] {
            let body = json!({"path": format!("{path}/made"), "parents": parents});
            is_forbidden(path, &sandbox.mkdir(&body).await);
        }
        let body = json!({"command": ["true"], "workdir": path});
        is_forbidden(path, &sandbox.exec(&body).await);
    }
    for path in ["/tmp/dir/secret", "/tmp/chain/secret", up.as_str()] {
        is_forbidden(path, &sandbox.stat(path).await);
        for recursive in ["true", "false"] {
            is_forbidden(path, &sandbox.rm(path, &[("recursive", recursive)]).await);
        }
    }
    outside.is_untouched();
}

#[tokio::test]
async fn a_link_that_leads_out_can_be_seen_and_removed_but_not_followed() {
    let plane = Plane::mapped().await;
    let sandbox = plane.sandbox().await;
    let outside = Outside::new(&sandbox);
    let (status, stat) = sandbox.stat("/tmp/dir").await;
    assert_eq!((status.as_u16(), &stat["type"]), (200, &json!("symlink")));
    assert_eq!(stat["symlink_target"], outside.0.path().to_str().unwrap());
    let (status, listing) = sandbox.ls("/", &[("recursive", "true")]).await;
    assert_eq!(status, 200);
    assert!(!listing.to_string().contains("tmp/dir/secret"));
    for path in ["/tmp/dir", "/tmp/up", "/tmp/file"] {
        assert_eq!(sandbox.rm(path, &[("recursive", "true")]).await.0, 200);
    }
    assert_eq!(sandbox.rm("/tmp", &[("recursive", "true")]).await.0, 200);
    outside.is_untouched();
}

#[tokio::test]
async fn dots_are_taken_away_before_the_path_is_used() {
    let plane = Plane::mapped().await;
    let sandbox = plane.sandbox().await;
    let paths = [
        "/../../../../etc/hostname",
        "/tmp/../../etc/hostname",
        "/./../etc//hostname",
    ];
    for path in paths {
        assert_eq!(sandbox.read(path, &[]).await.status(), 404);
        let (status, answer) = sandbox.stat(path).await;
        assert_eq!((status.as_u16(), code(&answer)), (404, "not_found"));
    }
    let (status, answer) = sandbox.mkdir(&json!({"path": "/../../etc"})).await;
    assert_eq!((status.as_u16(), &answer["path"]), (200, &json!("/etc")));
    let (_, answer) = sandbox.write("/../etc/hostname", b"mine", &[]).await;
    assert_eq!(answer["path"], "/etc/hostname");
    assert_eq!(
        fs::read(sandbox.folder().join("etc/hostname")).unwrap(),
        b"mine"
    );
    // Encoded, the dots are the same dots.
    let target = "fs/stat?path=%2F..%2F..%2Fetc%2Fhostname";
    let (status, answer) = reply(sandbox.request(Method::GET, target)).await;
    assert_eq!(
        (status.as_u16(), &answer["path"]),
        (200, &json!("/etc/hostname"))
    );
}

#[tokio::test]
async fn a_link_swapped_in_while_files_are_written_never_leads_out() {
    let plane = Plane::mapped().await;
    let sandbox = plane.sandbox().await;
    let outside = Outside::new(&sandbox);
    let target = outside.0.path().display();
    let script = format!(
        "while [ ! -e stop ]; do rm -rf x; mkdir x; rmdir x; ln -s {target} x; done; rm -f x"
    );
    let body = json!({"command": ["sh", "-c", script], "workdir": "/tmp"});
    let swapping = tokio::spawn(sandbox.request(Method::POST, "exec").json(&body).send());
    for _ in 0..300 {
        let (status, _) = sandbox.write("/tmp/x/new", b"gotcha", &[]).await;
        assert!([200, 403, 404, 409].contains(&status.as_u16()), "{status}");
        sandbox.rm("/tmp/x", &[("recursive", "true")]).await;
    }
    sandbox.write("/tmp/stop", b"", &[]).await;
    assert_eq!(swapping.await.unwrap().unwrap().status(), 200);
    outside.is_untouched();
}
