//! Where an HTTP message ends: enough of HTTP/1.1 for what our client and service send.

/// The length of the message that `bytes` begins with, once its end is known.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let head = find(bytes, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).unwrap().to_lowercase();
    let header = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.map(|line| line[name.len()..].trim().to_owned())
    };
    if let Some(size) = header("content-length:") {
        return Some(head + size.parse::<usize>().unwrap()).filter(|end| *end <= bytes.len());
    }
    if header("transfer-encoding:").is_some() {
        return chunks(&bytes[head..]).map(|body| head + body);
    }
    // No body: a request without one, or 204.
    Some(head)
}

/// The length of a body in chunks, once the last is there.
fn chunks(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let digits = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        let size = usize::from_str_radix(digits, 16).unwrap();
        at += line + 2 + size + 2;
        if at > bytes.len() {
            return None;
        }
        if size == 0 {
            return Some(at);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[test]
fn a_message_ends_where_its_head_says() {
    let table: [(&str, Option<usize>); 7] = [
        ("GET / HTTP/1.1\r\nhost: a\r\n", None),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", Some(27)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", None),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", Some(40)),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
            None,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n",
            None,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            Some(59),
        ),
    ];
    for (text, want) in table {
        assert_eq!(length(text.as_bytes()), want, "{text:?}");
    }
}
