//! What the client makes of the frames of a terminal, whatever a service sends and however it
//! arrives. The service is a script.

use std::future::Future;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use polyaxon_client::{Effect, Token};
use polyaxon_sandbox::pty::{Attach, AttachedPty, Pty, PtyExit, PtyId, PtyOutput};
use polyaxon_sandbox::{Error, SandboxClient};
use proptest::prelude::*;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::recorded::{line, same};
use super::sandbox_of;

const LIMIT: Duration = Duration::from_secs(60);
const ATTACHED: &str =
    r#"{"type":"attached","pty_id":"p","pid":7,"state":"running","cols":80,"rows":24}"#;
const EXITED: &str =
    r#"{"type":"exited","exit_code":5,"finished_at":"2026-11-29T10:00:00Z","duration_ms":12}"#;

type Socket = WebSocketStream<TcpStream>;

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.unwrap()
}

/// A sandbox at its own address, whose one WebSocket is played by `script`; what was asked for
/// comes with its result.
async fn played<R: Send + 'static, F: Future<Output = R> + Send + 'static>(
    script: impl FnOnce(Socket) -> F + Send + 'static,
) -> (SandboxClient, JoinHandle<(String, R)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut asked = String::new();
        #[expect(
            clippy::result_large_err,
            reason = "the shape that the library asks for"
        )]
        let look = |request: &Request, response: Response| {
            let token = request.headers()["x-polyaxon-sandbox-token"]
                .to_str()
                .unwrap();
            asked = format!("{} {token}", request.uri());
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, look)
            .await
            .unwrap();
        let done = script(socket).await;
        (asked, done)
    });
    let token = Token::new("pod-token").unwrap();
    let sandbox = sandbox_of(&url)
        .direct(url.parse().unwrap(), &token)
        .unwrap();
    (sandbox, service)
}

async fn attach(sandbox: &SandboxClient) -> Result<AttachedPty, Error> {
    within(sandbox.pty().attach(&PtyId::from("p"), Attach::new())).await
}

/// Everything that comes, in order, in short.
async fn all(pty: &mut AttachedPty) -> (Vec<u8>, Vec<String>) {
    let (mut bytes, mut rest) = (Vec::new(), Vec::new());
    while let Some(output) = within(pty.next()).await {
        match output {
            Ok(PtyOutput::Bytes(part)) => {
                assert!(!part.is_empty());
                bytes.extend_from_slice(&part);
            }
            Ok(PtyOutput::Refused { code, message, .. }) => rest.push(format!("{code}: {message}")),
            Ok(PtyOutput::Other(object)) => rest.push(serde_json::to_string(&object).unwrap()),
            Ok(PtyOutput::Text(text)) => rest.push(text),
            Ok(PtyOutput::Exited(exit)) => rest.push(format!("exited {:?}", exit.termination)),
            Ok(other) => rest.push(format!("{other:?}")),
            Err(error) => rest.push(causes(&error)),
        }
    }
    (bytes, rest)
}

fn causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}

async fn say(socket: &mut Socket, messages: impl IntoIterator<Item = Message> + Send) {
    for message in messages {
        socket.send(message).await.unwrap();
    }
}

fn close(code: CloseCode, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }))
}

/// SB-10.
#[tokio::test]
async fn control_frames_of_any_kind_do_not_end_a_session() {
    let (sandbox, service) = played(async |mut socket: Socket| {
        say(
            &mut socket,
            [
                Message::text(ATTACHED),
                Message::binary(&b"\xff\xfeok\n"[..]),
                Message::text(r#"{"type":"brand_new","x":1}"#),
                Message::text("no object"),
                Message::text(r#"{"type":"error","code":"invalid_request","message":"no"}"#),
                Message::text(r#"{"type":"attached","pty_id":"p"}"#),
                Message::binary(&b""[..]),
                Message::binary(&b"z"[..]),
                Message::text(EXITED),
                close(CloseCode::Normal, "pty detached"),
            ],
        )
        .await;
        socket.next().await.unwrap().unwrap()
    })
    .await;
    let ptys = sandbox.pty();
    let how = Attach::new().replay_bytes(7);
    let mut pty = within(ptys.attach(&PtyId::from("a/b é"), how))
        .await
        .unwrap();
    assert_eq!((pty.pid(), pty.size_at_first()), (Some(7), (80, 24)));
    let (bytes, rest) = all(&mut pty).await;
    assert_eq!(bytes, b"\xff\xfeok\nz");
    let want = [
        r#"{"type":"brand_new","x":1}"#,
        "no object",
        "invalid_request: no",
        "exited Exited(5)",
    ];
    assert_eq!(rest, want);
    assert_eq!(pty.exit().unwrap().duration, Duration::from_millis(12));
    let (asked, answer) = service.await.unwrap();
    assert_eq!(asked, "/pty/a%2Fb%20%C3%A9/ws?replay_bytes=7 pod-token");
    assert!(matches!(answer, Message::Close(_)), "{answer:?}");
}

#[tokio::test]
async fn what_comes_first_has_to_be_attached() {
    let fatal = r#"{"type":"error","code":"internal","message":"no terminal"}"#;
    let table: [(Vec<Message>, &str); 6] = [
        (
            vec![Message::binary(&b"x"[..])],
            "the first frame is output",
        ),
        (vec![Message::text(fatal)], "no terminal (internal)"),
        (
            vec![Message::text(EXITED)],
            "the first frame is not `attached`",
        ),
        (vec![Message::text("{}")], "the first frame cannot be read"),
        (vec![close(CloseCode::Error, "x")], "closed at once"),
        (vec![Message::Ping("p".into())], "no frame came within 50ms"),
    ];
    for (messages, want) in table {
        let (sandbox, service) = played(async |mut socket: Socket| {
            say(&mut socket, messages).await;
            while let Some(Ok(_)) = socket.next().await {}
        })
        .await;
        // Only where nothing else ends it is the silence waited for.
        let silence = match want.ends_with("50ms") {
            true => Duration::from_millis(50),
            false => LIMIT,
        };
        let how = Attach::new().silence(silence);
        let error = within(sandbox.pty().attach(&PtyId::from("p"), how))
            .await
            .unwrap_err();
        let text = causes(&error);
        assert!(text.contains(want), "{want}: {text}");
        // The connection is closed, not left open.
        within(service).await.unwrap();
    }
}

/// The end of the connection is not the end of the program.
#[tokio::test]
async fn a_close_without_the_end_of_the_program_is_an_error_behind_all_output() {
    let closed = "the service closed the connection: pty detached (1000)";
    let table: [(Option<Message>, &str); 3] = [
        (Some(close(CloseCode::Normal, "pty detached")), closed),
        (
            Some(Message::Close(None)),
            "the service closed the connection",
        ),
        (None, "reset"),
    ];
    for (last, want) in table {
        let (sandbox, service) = played(async |mut socket: Socket| {
            say(
                &mut socket,
                [Message::text(ATTACHED), Message::binary(&b"out"[..])],
            )
            .await;
            say(&mut socket, last).await;
        })
        .await;
        let mut pty = attach(&sandbox).await.unwrap();
        within(service).await.unwrap();
        let (bytes, rest) = all(&mut pty).await;
        assert_eq!((bytes.as_slice(), rest.len()), (&b"out"[..], 1));
        assert!(
            rest[0].starts_with("the connection to terminal p is gone; its program may run on: ")
                && rest[0].to_lowercase().contains(want),
            "{want}: {rest:?}"
        );
        assert_eq!(pty.read().await.unwrap(), None);
        assert_eq!(pty.exit(), None);
        let error = pty.wait().await.unwrap_err();
        assert!(matches!(error, Error::Detached { .. }), "{error:?}");
        // Nothing of it can have been typed.
        let mut error = pty.write("x").await;
        while error.is_ok() {
            error = pty.write("x").await;
        }
        assert!(matches!(error, Err(Error::Detached { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn an_end_without_code_and_signal_is_no_exit_with_zero() {
    let (sandbox, _service) = played(async |mut socket: Socket| {
        let silent = Message::text(r#"{"type":"exited","exit_code":null}"#);
        say(
            &mut socket,
            [Message::text(ATTACHED), silent, Message::Close(None)],
        )
        .await;
    })
    .await;
    let error = within(attach(&sandbox).await.unwrap().wait())
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::Protocol { .. }), "{error:?}");
    assert!(
        causes(&error).contains("neither code nor signal"),
        "{error}"
    );
}

/// An idle handle lives: nobody reads it, and pings are answered all the same.
#[tokio::test]
async fn pings_are_answered_while_nobody_reads() {
    let (sandbox, service) = played(async |mut socket: Socket| {
        say(
            &mut socket,
            [Message::text(ATTACHED), Message::binary(&b"unread"[..])],
        )
        .await;
        for number in 0..20_u8 {
            say(&mut socket, [Message::Ping(vec![number].into())]).await;
            let pong = socket.next().await.unwrap().unwrap();
            assert_eq!(pong, Message::Pong(vec![number].into()));
        }
    })
    .await;
    let mut pty = attach(&sandbox).await.unwrap();
    within(service).await.unwrap();
    assert_eq!(pty.read().await.unwrap().unwrap(), "unread");
}

#[tokio::test]
async fn a_service_that_is_silent_for_too_long_is_given_up() {
    let (sandbox, service) = played(async |mut socket: Socket| {
        say(&mut socket, [Message::text(ATTACHED)]).await;
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let how = Attach::new().silence(Duration::from_secs(8));
    let mut pty = within(sandbox.pty().attach(&PtyId::from("p"), how))
        .await
        .unwrap();
    let error = within(pty.read()).await.unwrap_err();
    assert!(
        causes(&error).ends_with("nothing came for 8.0s"),
        "{}",
        causes(&error)
    );
    assert_eq!(error.effect(), Effect::NotApplied);
    drop(pty);
    within(service).await.unwrap();
}

/// Nobody's memory is filled by a consumer that does not read; and what it reads then is whole.
#[tokio::test]
async fn what_nobody_takes_is_bounded_and_not_lost() {
    const FRAME: usize = 4096;
    let (tell, told) = tokio::sync::oneshot::channel();
    let (sandbox, service) = played(async move |mut socket: Socket| {
        say(&mut socket, [Message::text(ATTACHED)]).await;
        let mut count = 0_usize;
        let frame = |count: usize| Message::binary(vec![u8::try_from(count % 251).unwrap(); FRAME]);
        // Until the client takes no more: its own megabyte and what the kernel keeps.
        while timeout(Duration::from_secs(1), socket.send(frame(count)))
            .await
            .is_ok()
        {
            count += 1;
            assert!(count * FRAME < 64 << 20, "nothing holds it back");
        }
        // The frame that did not go is in the buffer, and goes first.
        count += 1;
        tell.send(()).unwrap();
        say(
            &mut socket,
            [Message::text(EXITED), close(CloseCode::Normal, "")],
        )
        .await;
        while let Some(Ok(_)) = socket.next().await {}
        count
    })
    .await;
    let mut pty = attach(&sandbox).await.unwrap();
    told.await.unwrap();
    let mut seen = 0_usize;
    while let Some(bytes) = within(pty.read()).await.unwrap() {
        for byte in bytes {
            assert_eq!(usize::from(byte), seen / FRAME % 251, "at {seen}");
            seen += 1;
        }
    }
    assert_eq!(pty.exit().unwrap().code(), Some(5));
    drop(pty);
    let (_, count) = within(service).await.unwrap();
    assert_eq!(seen, count * FRAME);
}

#[tokio::test]
async fn input_goes_in_frames_that_every_service_takes() {
    let (sandbox, service) = played(async |mut socket: Socket| {
        say(&mut socket, [Message::text(ATTACHED)]).await;
        let (mut bytes, mut texts, mut largest) = (Vec::new(), Vec::new(), 0);
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Binary(part) => {
                    largest = largest.max(part.len());
                    bytes.extend_from_slice(&part);
                }
                Message::Text(text) => texts.push(text.to_string()),
                Message::Close(frame) => return (bytes, texts, largest, frame.map(|it| it.code)),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    let mut pty = attach(&sandbox).await.unwrap();
    let input: Vec<u8> = (0_u32..)
        .flat_map(u32::to_le_bytes)
        .take(3_000_001)
        .collect();
    pty.write(input.clone()).await.unwrap();
    pty.write("").await.unwrap();
    pty.resize(100, 30).await.unwrap();
    pty.signal(&"SIGINT".into()).await.unwrap();
    within(pty.detach()).await;
    let (_, (bytes, texts, largest, code)) = within(service).await.unwrap();
    assert!(bytes == input);
    assert!(largest <= 1 << 20, "a frame of {largest} bytes");
    let recorded = &line("pty.attach.session#1")["ws_frames_sent"];
    let resize: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!(resize, recorded[1]["data"]);
    assert_eq!(texts[1], r#"{"type":"signal","signal":"SIGINT"}"#);
    assert_eq!(json!(code.map(u16::from)), recorded[2]["data"]["code"]);
}

/// A refused handshake is an ordinary answer, with status, code and details.
#[tokio::test]
async fn a_refused_handshake_says_what_the_service_said() {
    let envelope = |status: u16, code: &str, details: serde_json::Value| {
        let body = json!({"error": {"code": code, "message": "m", "details": details}});
        ResponseTemplate::new(status).set_body_json(body)
    };
    let exit = json!({"pty_id": "p", "state": "exited", "exit_code": -1, "signal": "SIGTERM",
        "duration_ms": 5, "finished_at": "2026-11-29T10:00:00Z"});
    let page = ResponseTemplate::new(502)
        .set_body_raw("<html><title>502 Bad Gateway</title></html>", "text/html");
    let table = [
        (
            envelope(404, "not_found", json!({})),
            Some("not_found"),
            "404",
        ),
        (
            envelope(409, "already_attached", json!({})),
            Some("already_attached"),
            "409",
        ),
        (envelope(410, "gone", exit), Some("gone"), "410"),
        (
            envelope(400, "invalid_request", json!({})),
            Some("invalid_request"),
            "400",
        ),
        (page, None, "a page that says \"502 Bad Gateway\""),
        // Not an upgrade at all.
        (
            ResponseTemplate::new(200).set_body_string("fine"),
            None,
            "200 OK",
        ),
    ];
    for (answer, code, part) in table {
        let server = MockServer::start().await;
        Mock::given(path("/pty/p/ws"))
            .respond_with(answer)
            .mount(&server)
            .await;
        let token = Token::new("pod-token").unwrap();
        let sandbox = sandbox_of(&server.uri())
            .direct(server.uri().parse().unwrap(), &token)
            .unwrap();
        let error = attach(&sandbox).await.unwrap_err();
        assert_eq!(error.code(), code, "{}", causes(&error));
        assert!(causes(&error).contains(part), "{part}: {}", causes(&error));
        let exit = PtyExit::of(&error).map(|exit| exit.shell_code());
        assert_eq!(exit, (code == Some("gone")).then_some(143));
    }
}

/// A terminal that exists and could not be attached to is not lost.
#[tokio::test]
async fn an_open_that_fails_half_way_names_the_terminal() {
    let server = MockServer::start().await;
    let created = ResponseTemplate::new(201).set_body_json(json!({"pty_id": "p"}));
    Mock::given(path("/pty"))
        .respond_with(created)
        .expect(1)
        .mount(&server)
        .await;
    let gone = json!({"error": {"code": "gone", "message": "m", "details": {"exit_code": 7}}});
    let gone = ResponseTemplate::new(410).set_body_json(gone);
    let refused = json!({"error": {"code": "invalid_request", "message": "m"}});
    let refused = ResponseTemplate::new(400).set_body_json(refused);
    // A service that keeps less replay than others is asked for less.
    Mock::given(path("/pty/p/ws"))
        .respond_with(refused)
        .up_to_n_times(2)
        .mount(&server)
        .await;
    Mock::given(path("/pty/p/ws"))
        .respond_with(gone)
        .mount(&server)
        .await;
    let token = Token::new("pod-token").unwrap();
    let sandbox = sandbox_of(&server.uri())
        .direct(server.uri().parse().unwrap(), &token)
        .unwrap();
    let error = sandbox.pty().open(&Pty::shell()).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Applied);
    assert!(matches!(&error, Error::NotAttached { pty_id, .. } if pty_id.as_str() == "p"));
    assert_eq!(PtyExit::of(&error).unwrap().code(), Some(7));
    let asked: Vec<String> = server
        .received_requests()
        .await
        .unwrap()
        .iter()
        .filter_map(|request| request.url.query().map(str::to_owned))
        .collect();
    assert_eq!(
        asked,
        [
            "replay_bytes=262144",
            "replay_bytes=65536",
            "replay_bytes=4096"
        ]
    );
}

#[tokio::test]
async fn calls_on_terminals_send_what_the_python_client_sends() {
    let all = Pty::new(["bash", "-l"])
        .env("A", "1")
        .env_remove("B")
        .workdir("/tmp")
        .size(120, 40)
        .tag("t");
    let table = [
        ("pty.create.default", Pty::shell()),
        ("pty.create.all", all),
        ("pty.create.no_size", Pty::shell().size_of_service()),
    ];
    for (case, pty) in table {
        same(case, async move |s| {
            drop(s.pty().create(&pty).await.unwrap());
        })
        .await;
    }
    let id = || PtyId::from("pty-1");
    same("pty.list", async |s| drop(s.pty().list().await.unwrap())).await;
    same("pty.list_tag", async |s| {
        drop(s.pty().list_tagged("t").await.unwrap());
    })
    .await;
    same("pty.get", async |s| drop(s.pty().get(&id()).await.unwrap())).await;
    same("pty.resize", async |s| {
        s.pty().resize(&id(), 100, 30).await.unwrap();
    })
    .await;
    same("pty.signal", async |s| {
        s.pty().signal(&id(), &"SIGHUP".into()).await.unwrap();
    })
    .await;
    same("pty.delete", async |s| s.pty().delete(&id()).await.unwrap()).await;
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CONTINUED: u8 = 0;
const PING: u8 = 9;

/// The bytes of a frame as a server writes it, not masked (RFC 6455, section 5.2).
fn framed(opcode: u8, payload: &[u8], is_final: bool) -> Vec<u8> {
    let mut bytes = vec![opcode | u8::from(is_final) << 7];
    match u8::try_from(payload.len()) {
        Ok(length) if length < 126 => bytes.push(length),
        _ => {
            bytes.push(126);
            bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    bytes.extend(payload);
    bytes
}

#[derive(Clone, Debug)]
enum Said {
    Output(Vec<u8>),
    InParts(Vec<u8>, Vec<u8>),
    Control(u8),
    Ping,
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 1..300);
    let one = prop_oneof![
        4 => bytes().prop_map(Said::Output),
        2 => (bytes(), bytes()).prop_map(|(a, b)| Said::InParts(a, b)),
        1 => any::<u8>().prop_map(Said::Control),
        1 => Just(Said::Ping),
    ];
    proptest::collection::vec(one, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Frames cut at any byte, continued in the next, with pings in between: the output is the
    /// same, and so is the order of what else is said.
    #[test]
    fn a_session_does_not_depend_on_how_its_bytes_arrive(
        all_said in said(), sizes in proptest::collection::vec(1..40_usize, 1..30), ends in any::<bool>()
    ) {
        let (mut wire, mut want, mut events) = (Vec::new(), Vec::new(), Vec::new());
        wire.extend(framed(TEXT, ATTACHED.as_bytes(), true));
        let ping = framed(PING, b"p", true);
        for said in all_said {
            match said {
                Said::Output(bytes) => {
                    wire.extend(framed(BINARY, &bytes, true));
                    want.extend(bytes);
                }
                Said::InParts(first, second) => {
                    wire.extend(framed(BINARY, &first, false));
                    wire.extend(&ping);
                    wire.extend(framed(CONTINUED, &second, true));
                    want.extend(first);
                    want.extend(second);
                }
                Said::Control(number) => {
                    let text = format!(r#"{{"n":{number},"type":"new"}}"#);
                    wire.extend(framed(TEXT, text.as_bytes(), true));
                    events.push(text);
                }
                Said::Ping => wire.extend(&ping),
            }
        }
        if ends {
            wire.extend(framed(TEXT, EXITED.as_bytes(), true));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (bytes, rest) = runtime.block_on(async {
            let (sandbox, _service) = played(async move |socket: Socket| {
                let mut stream = socket.into_inner();
                stream.set_nodelay(true).unwrap();
                let mut left = wire.as_slice();
                for size in sizes.iter().cycle() {
                    let (part, rest) = left.split_at((*size).min(left.len()));
                    stream.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                    left = rest;
                    if left.is_empty() {
                        break;
                    }
                }
                stream.shutdown().await.unwrap();
                // What the client still says must not meet a closed door.
                let _pongs = stream.read_to_end(&mut Vec::new()).await;
            })
            .await;
            all(&mut attach(&sandbox).await.unwrap()).await
        });
        prop_assert_eq!(bytes, want);
        let (last, events_seen) = rest.split_last().unwrap();
        prop_assert_eq!(events_seen, events.as_slice());
        prop_assert_eq!(last == "exited Exited(5)", ends, "{}", last);
    }
}
