//! The server as a value: what it leaves behind, and that its sandboxes do not meet.

use polyaxon_local::{Error, LayerState, LocalServer};
use reqwest::Method;
use serde_json::json;

use crate::harness::{Plane, eventually, http, marker, no_process, one_process, processes};

/// Fills a server with everything that has to be gone in the end, and gives the mark of it.
async fn busy(plane: &Plane) -> String {
    let mark = marker();
    let sandbox = plane.sandbox().await;
    let left = format!("trap '' TERM HUP; sleep {mark} >/dev/null 2>&1 </dev/null & echo left");
    sandbox.sh(&left, &json!({})).await;
    let body =
        json!({"command": ["sh", "-c", format!("trap '' TERM; sleep {mark} | sleep {mark}")]});
    let call = sandbox.request(Method::POST, "exec").json(&body).send();
    tokio::spawn(call);
    eventually("the commands", async || {
        (processes(&mark).len() > 3).then_some(())
    })
    .await;
    sandbox
        .sh(
            "mkdir closed; : > closed/f; chmod 0 closed",
            &json!({"workdir": "/tmp"}),
        )
        .await;
    mark
}

#[tokio::test]
async fn a_dropped_server_leaves_no_process_and_no_folder() {
    let plane = Plane::start().await;
    let mark = busy(&plane).await;
    let folder = plane.server.folder().to_owned();
    assert!(folder.is_dir());
    drop(plane);
    assert_eq!(processes(&mark), [] as [u32; 0]);
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_stopped_server_leaves_nothing_and_its_address_is_free() {
    // Where this machine has more than one address, it is one at which no other test takes a port
    // that has just become free.
    let own = match cfg!(target_os = "linux") {
        true => [127, 0, 0, 2],
        false => [127, 0, 0, 1],
    };
    let server = LocalServer::builder().listen((own, 0).into());
    let plane = Plane {
        server: server.start().await.unwrap(),
        http: http(),
    };
    let mark = busy(&plane).await;
    let folder = plane.server.folder().to_owned();
    let address = plane.server.address();
    let Plane { server, http } = plane;
    server.stop().await.unwrap();
    assert_eq!(processes(&mark), [] as [u32; 0]);
    assert!(!folder.exists());
    http.get(format!("http://{address}/"))
        .send()
        .await
        .unwrap_err();
    let again = LocalServer::builder()
        .listen(address)
        .start()
        .await
        .unwrap();
    assert_eq!(again.address(), address);
}

#[test]
fn a_server_answers_and_ends_without_the_callers_runtime() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let plane = runtime().block_on(Plane::start());
    let (mark, folder) =
        runtime().block_on(async { (busy(&plane).await, plane.server.folder().to_owned()) });
    drop(plane);
    assert_eq!(processes(&mark), [] as [u32; 0]);
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_stop_of_one_run_leaves_the_other_alone() {
    let plane = Plane::start().await;
    let (one, two) = (plane.sandbox().await, plane.sandbox().await);
    let (mark_one, mark_two) = (marker(), marker());
    one.sh(&format!("sleep {mark_one} & echo"), &json!({}))
        .await;
    two.sh(&format!("sleep {mark_two} & echo"), &json!({}))
        .await;
    one.write("/tmp/mine", b"1", &[]).await;
    two.write("/tmp/mine", b"2", &[]).await;
    assert_eq!(one.content("/tmp/mine").await, b"1");
    assert_eq!(two.content("/tmp/mine").await, b"2");
    // Neither is found from within the other.
    let across = format!("/{}/tmp/mine", two.uuid);
    for path in [
        across.clone(),
        format!("/..{across}"),
        format!("/tmp/../..{across}"),
    ] {
        assert_eq!(one.stat(&path).await.0, 404);
    }
    one.sh(&format!("ln -s ../../{} tmp/other", two.uuid), &json!({}))
        .await;
    // Where paths are mapped the link leads out; in a pod there is nothing to lead to.
    let status = one.read("/tmp/other/tmp/mine", &[]).await.status();
    assert!([403, 404].contains(&status.as_u16()), "{status}");

    plane.post(&format!("{}/stop", one.run()), &json!({})).await;
    plane.until(&one.run(), "stopped").await;
    no_process(&mark_one).await;
    one_process(&mark_two).await;
    assert_eq!(two.content("/tmp/mine").await, b"2");
    assert_eq!(two.sh("echo ok", &json!({})).await["stdout"], "ok\n");
}

#[tokio::test]
async fn a_given_root_keeps_what_was_in_it_and_is_used_privately() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let root = root.path().join("made");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("foreign"), "x").unwrap();
    let server = LocalServer::builder().root(&root).start().await.unwrap();
    let folder = server.folder().to_owned();
    assert!(folder.starts_with(root.canonicalize().unwrap()));
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    server.stop().await.unwrap();
    let names: Vec<_> = std::fs::read_dir(&root)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["foreign"]);
}

#[tokio::test]
async fn what_keeps_a_server_from_starting_is_one_sentence() {
    let taken = LocalServer::start().await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let listen = LocalServer::builder()
        .listen(taken.address())
        .start()
        .await
        .unwrap_err();
    assert_eq!(
        listen.to_string(),
        format!("cannot listen on {}", taken.address())
    );
    assert!(matches!(listen, Error::Listen { .. }));
    let root = LocalServer::builder()
        .root(file.path())
        .start()
        .await
        .unwrap_err();
    assert!(matches!(&root, Error::Root { .. }), "{root:?}");
    assert!(root.to_string().contains(file.path().to_str().unwrap()));
    for token in ["", " x", "x\n", "é"] {
        let error = LocalServer::builder()
            .token(token)
            .start()
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
    }
}

#[tokio::test]
async fn the_token_is_not_printed_and_the_report_says_what_is_missing() {
    let builder = LocalServer::builder().token("hide-me");
    assert!(!format!("{builder:?}").contains("hide-me"));
    let server = builder.start().await.unwrap();
    let printed = format!(
        "{server:?} {:#?} {:?} {}",
        server,
        server.report(),
        server.report()
    );
    assert!(!printed.contains("hide-me"), "{printed}");
    let states: Vec<LayerState> = server
        .report()
        .layers
        .iter()
        .map(|layer| layer.state)
        .collect();
    assert_eq!(states[0], LayerState::Applied);
    assert_eq!(states[2..], [LayerState::Unavailable; 4]);
    assert!(
        server
            .report()
            .to_string()
            .contains("no boundary against hostile code")
    );
}
