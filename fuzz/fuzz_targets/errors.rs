//! Answers that say no: nothing is called done that nobody said is done, and messages are bounded.

#![no_main]

use http::StatusCode;
use libfuzzer_sys::fuzz_target;
use polyaxon_client::fuzzing::error;
use polyaxon_client::{Effect, Error};

fuzz_target!(|input: (u16, &[u8], &[u8])| {
    let (number, kind, body) = input;
    let Ok(status) = StatusCode::from_u16(300 + number % 300) else {
        return;
    };
    let error = error(status, kind, body);
    assert_eq!(error.status(), Some(status));
    let known = error.effect() != Effect::Unknown;
    assert_ne!(error.effect(), Effect::Applied);
    let text = std::str::from_utf8(body).unwrap_or_default();
    assert!(!status.is_server_error() || !known || text.contains("started"), "{error}");
    assert!(error.to_string().len() < 4096);
    let Error::Api(error) = error else {
        panic!("an answer is no answer");
    };
    assert!(error.message().is_none_or(|message| message.len() <= 1100));
});
