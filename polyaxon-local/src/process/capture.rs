//! What a command writes: its first bytes are kept, the rest is read and dropped.

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is asked of a pipe at once: as much as a pipe holds by default.
const CHUNK: usize = 64 * 1024;

/// One output stream of a command.
#[derive(Debug)]
pub(crate) struct Capture<R> {
    /// `None` once its end was seen.
    pipe: Option<R>,
    kept: Vec<u8>,
    limit: usize,
    truncated: bool,
    /// Where bytes go that nobody keeps.
    waste: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Capture<R> {
    pub(crate) fn new(pipe: Option<R>, limit: usize) -> Self {
        Self {
            pipe,
            kept: Vec::new(),
            limit,
            truncated: false,
            waste: Vec::new(),
        }
    }

    /// Waits for more output, or the end of it. Never ends once the end was seen.
    ///
    /// # Cancel safety
    /// Nothing is lost: bytes are either still in the pipe or already counted.
    pub(crate) async fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return std::future::pending().await;
        };
        let room = self.limit - self.kept.len();
        let read = if room > 0 {
            self.kept.reserve(room.min(CHUNK));
            pipe.read_buf(&mut (&mut self.kept).limit(room)).await
        } else {
            self.waste.clear();
            self.waste.reserve(CHUNK);
            let read = pipe.read_buf(&mut self.waste).await;
            self.truncated |= matches!(read, Ok(1..));
            read
        };
        if !matches!(read, Ok(1..)) {
            self.pipe = None;
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// The kept bytes as text, and whether there were more. From now on all is dropped.
    pub(crate) fn take(&mut self) -> (String, bool) {
        self.limit = 0;
        let kept = std::mem::take(&mut self.kept);
        (text(kept, self.truncated), self.truncated)
    }
}

/// Valid UTF-8 as it is; every byte that is no part of it becomes one U+FFFD, as the daemon does
/// it. A character that only the cut has broken is left out instead.
fn text(bytes: Vec<u8>, cut: bool) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let broken_by_the_cut = cut && chunks.peek().is_none() && is_begun(chunk.invalid());
        if !broken_by_the_cut {
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
    }
    text
}

/// Whether these bytes are the beginning of a character that more bytes could complete.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn capture(bytes: &[u8], limit: usize) -> (String, bool) {
        let mut capture = Capture::new(Some(bytes), limit);
        while capture.is_open() {
            capture.read().await;
        }
        capture.take()
    }

    #[tokio::test]
    async fn the_first_bytes_are_kept_and_a_flag_says_there_were_more() {
        let table: [(&str, usize, &str, bool); 6] = [
            ("", 4, "", false),
            ("abc", 4, "abc", false),
            ("abcd", 4, "abcd", false),
            ("abcde", 4, "abcd", true),
            ("abc漢", 4, "abc", true),
            ("a", 0, "", true),
        ];
        for (input, limit, kept, truncated) in table {
            let got = capture(input.as_bytes(), limit).await;
            assert_eq!(got, (kept.to_owned(), truncated), "{input:?}");
        }
    }

    #[test]
    fn only_bytes_that_are_no_utf8_are_replaced_one_by_one() {
        let table: [(&[u8], bool, &str); 7] = [
            (b"a\xff\xfeb", false, "a\u{fffd}\u{fffd}b"),
            ("aé漢😀".as_bytes(), false, "aé漢😀"),
            // Ended in the middle of a character: that is what the command wrote.
            (b"a\xf0\x9f\x98", false, "a\u{fffd}\u{fffd}\u{fffd}"),
            // Cut there by us: nobody wrote a broken character.
            (b"a\xf0\x9f\x98", true, "a"),
            (b"a\xff", true, "a\u{fffd}"),
            (b"\xe6x\xe6", true, "\u{fffd}x"),
            (b"\xed\xa0\x80", true, "\u{fffd}\u{fffd}\u{fffd}"),
        ];
        for (bytes, cut, want) in table {
            assert_eq!(text(bytes.to_vec(), cut), want, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn text_cut_anywhere_is_a_prefix_of_the_text(input in "[aé漢😀]{0,8}", at in 0..32_usize) {
            let at = at.min(input.len());
            let cut = text(input.as_bytes()[..at].to_vec(), true);
            prop_assert!(input.starts_with(&cut), "{cut:?}");
            prop_assert!(at - cut.len() < 4);
        }
    }
}
