//! Event streams: however the bytes are cut, the same events come, and the same end.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use polyaxon_client::transport::{SseDecoder, SseEvent};

/// Small, so that it is reached.
const LIMIT: usize = 64;

/// The events, and whether one was too large.
fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<SseEvent>, bool) {
    let mut decoder = SseDecoder::with_limit(LIMIT);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, true),
            }
        }
    }
    (events, false)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = decode(std::iter::once(bytes));
    let cut = decode(bytes.chunks(usize::from(size % 9) + 1));
    assert_eq!(cut, whole);
    assert!(whole.0.iter().all(|event| event.data.len() <= LIMIT));
});
