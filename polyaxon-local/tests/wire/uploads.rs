//! Writes that are whole, and writes that break off.

use reqwest::Method;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Plane, eventually};

#[tokio::test]
async fn a_write_that_breaks_off_leaves_the_file_as_it_was() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for append in ["false", "true"] {
        sandbox.write("/tmp/t", b"old", &[]).await;
        let target = sandbox.path(&format!("fs/write?path=/tmp/t&append={append}"));
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Token {}\r\nContent-Length: 3145728\r\n\r\n",
            plane.server.token()
        );
        let mut stream = TcpStream::connect(plane.server.address()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
        drop(stream);
        // A later call is answered by the same service, and there is nothing beside the file.
        assert_eq!(sandbox.content("/tmp/t").await, b"old");
        let (_, listing) = sandbox.ls("/tmp", &[]).await;
        assert_eq!(listing["entries"].as_array().unwrap().len(), 1, "{listing}");
        eventually("the end of the call", async || {
            let (_, stat) = sandbox.stat("/tmp/t").await;
            assert_eq!(stat["size"], 3, "{stat}");
            (sandbox.ping().await["status"] == "ok").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_write_of_any_size_is_whole_and_says_its_size() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    for size in [
        0,
        1,
        1024,
        18 * 1024,
        18 * 1024 + 1,
        20_480,
        65_536,
        65_537,
        3 << 20,
    ] {
        let bytes: Vec<u8> = (0..size)
            .map(|at: usize| (at % 251).to_le_bytes()[0])
            .collect();
        let (status, written) = sandbox.write("/tmp/x", &bytes, &[]).await;
        assert_eq!(
            (status.as_u16(), &written["bytes_written"]),
            (200, &size.into()),
            "{written}"
        );
        let (_, stat) = sandbox.stat("/tmp/x").await;
        assert_eq!(
            (&stat["type"], &stat["size"]),
            (&"file".into(), &size.into())
        );
        let response = sandbox.read("/tmp/x", &[("length", "16777216")]).await;
        assert_eq!(response.headers()["x-polyaxon-eof"], "true");
        assert!(
            response.bytes().await.unwrap() == bytes,
            "{size} bytes are not the same"
        );
        let removed = sandbox
            .request(Method::DELETE, "fs/rm?path=/tmp/x")
            .send()
            .await;
        assert_eq!(removed.unwrap().status(), 200);
    }
}
