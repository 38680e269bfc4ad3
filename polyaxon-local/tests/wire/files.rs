//! Files.

use serde_json::json;

use crate::harness::Plane;

#[tokio::test]
async fn what_is_written_is_what_is_read_and_what_a_command_sees() {
    let plane = Plane::start().await;
    let sandbox = plane.sandbox().await;
    let (status, answer) = sandbox.write("/tmp/./a.txt", b"one", &[]).await;
    assert_eq!(status, 200);
    assert_eq!(answer, json!({"path": "/tmp/a.txt", "bytes_written": 3, "created": true}));
    assert_eq!(sandbox.content("/tmp/a.txt").await, b"one");
    let answer = sandbox.sh("cat a.txt", &json!({"workdir": "/tmp"})).await;
    assert_eq!(answer["stdout"], "one");
}
