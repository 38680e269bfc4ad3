//! Server-sent events, from bytes (the HTML standard, section 9.2.6). No I/O.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr2;

/// How large one event may be, unless [`SseDecoder::with_limit`].
const LIMIT: usize = 32 << 20;

/// One event. Names and data are the bytes that came; `id` and `retry` are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// What `event:` says; `message` where it says nothing.
    pub name: Bytes,
    /// The lines of `data:`, with a line feed between them.
    pub data: Bytes,
}

/// Why a stream of events cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// One event is larger than may be held in memory.
    #[error("an event is larger than {limit} bytes")]
    #[non_exhaustive]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Turns bytes into events, however the bytes are cut.
///
/// Lines end with LF, CR LF or CR; a byte order mark at the start is dropped; comments are skipped;
/// an event without data is none; one that is not ended by an empty line is never given out. Each
/// byte is looked at once, and what lies in one chunk is not copied.
///
/// # Examples
/// ```
/// use polyaxon_client::transport::SseDecoder;
///
/// let mut decoder = SseDecoder::new();
/// decoder.push("event: stdout\r\nda".into());
/// assert_eq!(decoder.next_event()?, None);
/// decoder.push("ta: {}\r\n\r\n".into());
/// let event = decoder.next_event()?.expect("it is whole");
/// assert_eq!((&event.name[..], &event.data[..]), (&b"stdout"[..], &b"{}"[..]));
/// # Ok::<(), polyaxon_client::transport::SseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SseDecoder {
    limit: usize,
    /// What was not looked at.
    chunk: Bytes,
    /// The start of a line whose end has not come.
    line: BytesMut,
    name: Option<Bytes>,
    data: Data,
    at_start: bool,
    /// The last byte was a CR: a LF behind it belongs to it.
    after_cr: bool,
}

#[derive(Clone, Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Joined(BytesMut),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    fn add(&mut self, line: Bytes) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(line),
            Self::One(first) => {
                let mut joined = BytesMut::with_capacity(first.len() + 1 + line.len());
                joined.extend_from_slice(&first);
                joined.extend_from_slice(b"\n");
                joined.extend_from_slice(&line);
                Self::Joined(joined)
            }
            Self::Joined(mut joined) => {
                joined.extend_from_slice(b"\n");
                joined.extend_from_slice(&line);
                Self::Joined(joined)
            }
        };
    }

    fn take(&mut self) -> Option<Bytes> {
        match std::mem::take(self) {
            Self::None => None,
            Self::One(bytes) => Some(bytes),
            Self::Joined(bytes) => Some(bytes.freeze()),
        }
    }
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl SseDecoder {
    /// A decoder at the start of a stream. One event may have 32 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder at the start of a stream, for events of at most `limit` bytes.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            chunk: Bytes::new(),
            line: BytesMut::new(),
            name: None,
            data: Data::None,
            at_start: true,
            after_cr: false,
        }
    }

    /// Adds what has come. To be called when [`next_event`](Self::next_event) has no more.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut both = BytesMut::from(std::mem::take(&mut self.chunk));
            both.extend_from_slice(&chunk);
            self.chunk = both.freeze();
        }
    }

    /// The next whole event; `None` where more bytes are needed.
    ///
    /// # Errors
    /// [`SseError::TooLarge`]. The decoder is of no use after it.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        while !self.chunk.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if self.chunk.first() == Some(&b'\n') {
                    self.chunk.advance(1);
                    continue;
                }
            }
            let Some(at) = memchr2(b'\n', b'\r', &self.chunk) else {
                let part = std::mem::take(&mut self.chunk);
                self.check_size(part.len())?;
                self.line.extend_from_slice(&part);
                break;
            };
            let part = self.chunk.split_to(at);
            self.after_cr = self.chunk.first() == Some(&b'\r');
            self.chunk.advance(1);
            self.check_size(part.len())?;
            let line = if self.line.is_empty() {
                part
            } else {
                self.line.extend_from_slice(&part);
                self.line.split().freeze()
            };
            if let Some(event) = self.end_line(line) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Whether an event has begun that is not ended.
    #[must_use]
    pub fn is_within_event(&self) -> bool {
        !self.line.is_empty() || self.name.is_some() || !matches!(self.data, Data::None)
    }

    fn check_size(&self, more: usize) -> Result<(), SseError> {
        let size = self.line.len() + self.data.len() + more;
        // The names of the fields are not what the limit is about.
        if size > self.limit.saturating_add(16) {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn end_line(&mut self, mut line: Bytes) -> Option<SseEvent> {
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        if line.is_empty() {
            let name = self.name.take();
            let data = self.data.take()?;
            let name = name
                .filter(|name| !name.is_empty())
                .unwrap_or(Bytes::from_static(b"message"));
            return Some(SseEvent { name, data });
        }
        let (field, value) = match memchr::memchr(b':', &line) {
            None => (line, Bytes::new()),
            Some(at) => {
                let field = line.split_to(at);
                line.advance(1);
                if line.first() == Some(&b' ') {
                    line.advance(1);
                }
                (field, line)
            }
        };
        match &field[..] {
            b"event" => self.name = Some(value),
            b"data" => self.data.add(value),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next_event().unwrap() {
                let text = |bytes: Bytes| String::from_utf8(bytes.into()).unwrap();
                events.push((text(event.name), text(event.data)));
            }
        }
        events
    }

    fn pairs(events: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, data): &(&str, &str)| ((*name).to_owned(), (*data).to_owned());
        events.iter().map(owned).collect()
    }

    #[test]
    fn every_form_of_the_standard_is_read() {
        let table: [(&str, &[(&str, &str)]); 14] = [
            ("event: a\ndata: 1\n\n", &[("a", "1")]),
            ("event: a\r\ndata: 1\r\n\r\n", &[("a", "1")]),
            ("event: a\rdata: 1\r\r", &[("a", "1")]),
            ("event:a\ndata:1\n\n", &[("a", "1")]),
            ("\u{feff}event: a\ndata: 1\n\n", &[("a", "1")]),
            ("data: 1\ndata:  2\ndata\n\n", &[("message", "1\n 2\n")]),
            (": hello\n\ndata: 1\n: x\n\n", &[("message", "1")]),
            ("event: a\n\ndata: 1\n\n", &[("message", "1")]),
            ("event: a\nevent: b\ndata: 1\n\n", &[("b", "1")]),
            ("id: 7\nretry: 9\nother\ndata: 1\n\n", &[("message", "1")]),
            (
                "data: 1\n\n\n\ndata: 2\n\n",
                &[("message", "1"), ("message", "2")],
            ),
            (
                "data: 1\r\n\r\n\r\ndata: 2\n\r\n",
                &[("message", "1"), ("message", "2")],
            ),
            ("data: 1\n", &[]),
            ("data: a:b: c\n\n", &[("message", "a:b: c")]),
        ];
        for (text, want) in table {
            assert_eq!(decode([text.as_bytes()]), pairs(want), "{text:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(decode(bytes), pairs(want), "byte by byte: {text:?}");
        }
    }

    #[test]
    fn a_delimiter_that_is_cut_in_two_still_ends_its_event() {
        let parts = ["data: 1\n", "\ndata: 2\r", "\n\r", "\ndata: 3\r\r", "x"];
        let want = [("message", "1"), ("message", "2"), ("message", "3")];
        assert_eq!(decode(parts.map(str::as_bytes)), pairs(&want));
    }

    #[test]
    fn an_event_beyond_the_limit_is_an_error_and_one_below_is_not() {
        let mut decoder = SseDecoder::with_limit(1 << 20);
        decoder.push(format!("data: {}\n\n", "x".repeat(1 << 20)).into());
        assert_eq!(decoder.next_event().unwrap().unwrap().data.len(), 1 << 20);
        decoder.push("data: ".into());
        let error = loop {
            decoder.push("x".repeat(1 << 16).into());
            match decoder.next_event() {
                Ok(event) => assert_eq!(event, None),
                Err(error) => break error,
            }
        };
        assert_eq!(error, SseError::TooLarge { limit: 1 << 20 });
    }

    #[test]
    fn an_event_without_its_end_is_known_to_have_begun() {
        let mut decoder = SseDecoder::new();
        for (text, within) in [("data: 1", true), ("\n\n", false), ("event: a\n", true)] {
            decoder.push(text.into());
            while decoder.next_event().unwrap().is_some() {}
            assert_eq!(decoder.is_within_event(), within, "{text:?}");
        }
    }

    /// Whole frames more often than loose lines: of what is drawn freely, few cases hold an event.
    fn frames() -> impl Strategy<Value = String> {
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        let line = prop_oneof![
            4 => "data: ?[a-zé :]{0,12}",
            2 => "event: ?[a-z]{0,6}",
            1 => ":[a-z]{0,4}",
            1 => "[a-z]{0,5}:?",
        ];
        let frame =
            (proptest::collection::vec((line, end.clone()), 1..4), end).prop_map(|(lines, end)| {
                let lines: String = lines
                    .iter()
                    .map(|(line, end)| format!("{line}{end}"))
                    .collect();
                lines + end
            });
        proptest::collection::vec(frame, 0..6).prop_map(|frames| frames.concat())
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_the_bytes_arrive(text in frames(), size in 1..9_usize) {
            prop_assert_eq!(decode(text.as_bytes().chunks(size)), decode([text.as_bytes()]));
        }
    }
}
