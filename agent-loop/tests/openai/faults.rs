//! Answers that no recorded server gave, and answers that never come.

use std::time::{Duration, Instant};

use agent_loop::{ModelErrorKind, Usage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use wiremock::ResponseTemplate;

use crate::stub::{ask, ask_within, model, told};

fn json(status: u16, body: &str) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(body, "application/json")
}

#[tokio::test]
async fn stub_of_ours_a_429_with_retry_after_in_every_form_says_how_long_to_wait() {
    const BODY: &str =
        r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;
    let date = [
        ("date", "Wed, 21 Oct 2026 07:27:50 GMT"),
        ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),
    ];
    type Row<'a> = (&'a [(&'a str, &'a str)], Option<u64>);
    let table: [Row<'_>; 6] = [
        (&[("retry-after", "7")], Some(7_000)),
        (&[("retry-after", "0.5")], Some(500)),
        (
            &[("retry-after-ms", "250"), ("retry-after", "7")],
            Some(250),
        ),
        (&date, Some(10_000)),
        (&[("retry-after", "soon")], None),
        (&[], None),
    ];
    for (fields, millis) in table {
        let answer = fields
            .iter()
            .fold(json(429, BODY), |answer, (name, value)| {
                answer.insert_header(*name, *value)
            });
        let error = told(answer).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!(
            error.retry_after,
            millis.map(Duration::from_millis),
            "{fields:?}"
        );
        assert_eq!(
            error.detail.reveal(),
            "answered with 429 Too Many Requests: slow down (requests, rate_limit_exceeded)"
        );
    }
}

#[tokio::test]
async fn stub_of_ours_a_503_with_retry_after_says_how_long_to_wait() {
    let error = told(json(503, "").insert_header("retry-after", "3"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Overloaded);
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn stub_of_ours_a_429_for_want_of_credit_is_not_worth_a_wait() {
    let body = r#"{"error":{"message":"pay","type":"insufficient_quota","code":null}}"#;
    let error = told(json(429, body).insert_header("retry-after", "7"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.retry_after),
        (ModelErrorKind::Refused, None)
    );
}

#[tokio::test]
async fn stub_of_ours_empty_choices_are_an_empty_answer_that_was_paid_for() {
    let usage = r#""usage":{"prompt_tokens":12,"completion_tokens":3}"#;
    for choices in [
        "[]",
        "null",
        r#"[{"message":{"content":null}}]"#,
        r#"[{"message":{}}]"#,
    ] {
        let error = told(json(200, &format!(r#"{{"choices":{choices},{usage}}}"#)))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Empty, "{choices}");
        assert_eq!(error.usage, Some(Usage::new(12, 3)));
    }
}

#[tokio::test]
async fn stub_of_ours_an_error_within_a_200_keeps_its_usage() {
    let body = r#"{"error":{"code":502,"message":"upstream broke"},"usage":{"prompt_tokens":12,"completion_tokens":3}}"#;
    let error = told(json(200, body)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Overloaded);
    assert_eq!(error.usage, Some(Usage::new(12, 3)));
    assert_eq!(
        error.detail.reveal(),
        "answered with 200 OK: upstream broke (502)"
    );
}

#[tokio::test]
async fn stub_of_ours_a_redirect_is_not_followed() {
    let answer = ResponseTemplate::new(307).insert_header("location", "/elsewhere");
    let error = told(answer).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert!(error.detail.reveal().contains("a redirect is not followed"));
}

#[tokio::test]
async fn stub_of_ours_a_page_instead_of_an_answer_is_a_wrong_address() {
    let page = ResponseTemplate::new(200).set_body_raw("<html>", "text/html; charset=utf-8");
    let error = told(page).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert!(error.detail.reveal().contains("base URL"));
}

#[tokio::test]
async fn stub_of_ours_an_answer_without_end_is_read_up_to_a_limit() {
    let body = format!(r#"{{"choices":[],"x":"{}"}}"#, "x".repeat(5 << 20));
    let error = told(json(200, &body)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Transport);
    assert_eq!(
        error.detail.reveal(),
        "answered with 200 OK: the answer broke off: the answer is larger than 4194304 bytes"
    );
    let error = told(json(401, &body)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Auth);
}

#[tokio::test]
async fn a_server_that_never_answers_hits_the_deadline() {
    // The system accepts the connection and takes the request; nobody reads it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = model(&format!("http://{}", listener.local_addr().unwrap()))
        .build()
        .unwrap();
    let started = Instant::now();
    let error = ask_within(&model, Duration::from_millis(100))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert_eq!(error.detail.reveal(), "no answer: the deadline passed");
    let took = started.elapsed();
    assert!(
        (Duration::from_millis(100)..Duration::from_secs(30)).contains(&took),
        "{took:?}"
    );
}

/// A server that reads one request, writes `answer` and then closes or holds the connection.
async fn raw(answer: &'static str, hold: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0);
        }
        connection.write_all(answer.as_bytes()).await.unwrap();
        if hold {
            std::future::pending::<()>().await;
        }
    });
    base
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"choices\"";

#[tokio::test]
async fn an_answer_that_stops_half_way_hits_the_deadline() {
    let model = model(&raw(HEAD, true).await).build().unwrap();
    let error = ask_within(&model, Duration::from_millis(200))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_failure_of_the_transport() {
    let table = [
        (HEAD, "broke off"),
        ("HTTP/1.1 200", "no answer"),
        ("", "no answer"),
    ];
    for (answer, words) in table {
        let error = ask(&model(&raw(answer, false).await).build().unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Transport, "{answer:?}");
        let detail = error.detail.reveal();
        assert!(
            detail.contains(words) && !detail.contains("http://"),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn an_error_status_counts_though_its_text_breaks_off() {
    const CUT: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 100\r\n\r\n{\"error\":";
    let error = ask(&model(&raw(CUT, false).await).build().unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Auth);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_of_the_transport() {
    // Bound and not listening: nobody else can have this port meanwhile.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let error = ask(&model(&format!("http://{address}/v1")).build().unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Transport);
    assert!(
        error.detail.reveal().contains("refused"),
        "{}",
        error.detail.reveal()
    );
}
