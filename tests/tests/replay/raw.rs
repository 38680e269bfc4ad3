//! HTTP/1.1 by hand: the request line and the headers as they were recorded, to the byte.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// No answer takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Headers of a recording that belong to its connection.
pub(crate) const OF_THE_CONNECTION: [&str; 4] =
    ["host", "connection", "content-length", "transfer-encoding"];

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.body).map_err(|_| format!("no JSON: {:?}", self.text()))
    }
}

/// Sends one request on a connection of its own and reads the whole answer.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: Option<&[u8]>,
) -> Answer {
    let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n");
    for (name, value) in headers {
        if !OF_THE_CONNECTION.contains(&name.as_str()) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if let Some(body) = body {
        request.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    request.push_str("Connection: close\r\n\r\n");
    let mut bytes = request.into_bytes();
    bytes.extend_from_slice(body.unwrap_or_default());
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(LIMIT, exchange).await;
    parse(&answer.unwrap_or_else(|_| panic!("{method} {target}: no answer within {LIMIT:?}")))
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer {
        status: status.parse().unwrap(),
        headers,
        body: bytes[end + 4..].to_vec(),
    };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = joined(&answer.body);
    } else if let Some(length) = answer.header("content-length") {
        assert_eq!(length.parse(), Ok(answer.body.len()), "{head}");
    }
    answer
}

/// The bytes of a chunked body, which has to be whole.
fn joined(mut chunked: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = chunked.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&chunked[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let data = &chunked[line + 2..];
        if size == 0 {
            assert_eq!(data, b"\r\n", "the body ends with its last chunk");
            return body;
        }
        body.extend_from_slice(&data[..size]);
        assert_eq!(&data[size..size + 2], b"\r\n");
        chunked = &data[size + 2..];
    }
}

#[test]
fn a_chunked_body_is_joined() {
    let answer = parse(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n",
    );
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "abc0123456789")
    );
}
