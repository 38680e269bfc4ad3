//! Foreign text made fit for a prompt: printable, and of bounded length.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The bytes as text for the model. What is not UTF-8 becomes `\xNN`, control characters but line
/// feed and tab become their escapes: a prompt must be valid JSON for every server, and nothing
/// that moves a cursor belongs into it.
pub(crate) fn printable(bytes: &[u8]) -> Cow<'_, str> {
    if !has_controls(bytes)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Cow::Borrowed(text);
    }
    let plain = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match plain(c) {
                true => out.push(c),
                false => out.extend(c.escape_default()),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

/// Whether there are control characters but line feed and tab, if it is UTF-8: below a blank, DEL,
/// and U+0080 to U+009F, which are written as 0xC2 and their last byte. Nearly all text has none:
/// without a way out of the loops they take many bytes at a time.
fn has_controls(bytes: &[u8]) -> bool {
    let low = |byte: u8| (byte < b' ') & (byte != b'\n') & (byte != b'\t') | (byte == 0x7f);
    let high = |(first, second): (&u8, &u8)| (*first == 0xc2) & (*second < 0xa0);
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    bytes.iter().fold(false, |any, byte| any | low(*byte))
        || !bytes.is_ascii() && pairs.fold(false, |any, pair| any | high(pair))
}

/// The head and the tail of `text` in at most about `limit` bytes, with the cut said between them.
pub(crate) fn head_and_tail(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let half = limit / 2;
    let head = head(text, half);
    let tail = tail(text, half);
    let left_out = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}\n[… {left_out} bytes left out …]\n{tail}"))
}

/// The longest head of `text` that has at most `limit` bytes.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// The longest tail of `text` that has at most `limit` bytes.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    let start =
        (text.len().saturating_sub(limit)..=text.len()).find(|at| text.is_char_boundary(*at));
    text.get(start.unwrap_or(text.len())..).unwrap_or_default()
}

/// One line of at most `limit` bytes, for people and for lists.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(limit.min(text.len()));
    let mut is_apart = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_apart = !line.is_empty();
            continue;
        }
        if std::mem::take(&mut is_apart) {
            line.push(' ');
        }
        line.push(c);
        // The rest of a long text is not even looked at.
        if line.len() > limit {
            line.truncate(head(&line, limit.saturating_sub('…'.len_utf8())).len());
            line.push('…');
            break;
        }
    }
    line
}

/// An upper bound for the tokens of `text`, good enough to keep a window: one token for each three
/// bytes. Code and English take 3.5 to 4.5 bytes a token with the tokenizers of current models.
pub(crate) fn estimated_tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_moves_a_cursor_is_escaped_and_what_can_be_read_is_not() {
        assert_eq!(
            printable(b"\x00\x1b[2J\x07\xff ok\n"),
            "\\u{0}\\u{1b}[2J\\u{7}\\xff ok\n"
        );
        assert_eq!(
            printable("naïve\tcafé\u{2028}x\n".as_bytes()),
            "naïve\tcafé\u{2028}x\n"
        );
        assert_eq!(printable(b"a\r\n"), "a\\r\n");
    }

    #[test]
    fn the_cut_is_said() {
        assert_eq!(head_and_tail("0123456789", 10), "0123456789");
        assert_eq!(
            head_and_tail("0123456789ä", 4),
            "01\n[… 8 bytes left out …]\nä"
        );
    }

    #[test]
    fn a_line_is_short_and_one() {
        assert_eq!(one_line("  a\n  b\tc ", 80), "a b c");
        assert_eq!(one_line("abcdefgh", 6), "abc…");
    }

    proptest! {
        #[test]
        fn a_cut_text_is_bounded_and_made_of_the_ends(text in "\\PC{0,60}", limit in 0..80_usize) {
            let cut = head_and_tail(&text, limit);
            if text.len() <= limit {
                prop_assert_eq!(&*cut, &*text);
            } else {
                prop_assert!(cut.len() <= limit + 48);
                let (head, rest) = cut.split_once("\n[… ").unwrap();
                let (_, tail) = rest.split_once(" …]\n").unwrap();
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
            }
        }

        #[test]
        fn a_line_has_the_words_with_one_blank_between(text in "[a-c€ \\t\\n\u{2003}]{0,40}", limit in 3..50_usize) {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = one_line(&text, limit);
            match words.len() <= limit {
                true => prop_assert_eq!(line, words),
                false => {
                    prop_assert!(line.len() <= limit && line.len() + 3 > limit, "{}", line);
                    let head = line.strip_suffix('…').unwrap();
                    prop_assert!(words.starts_with(head), "{}", line);
                }
            }
        }

        #[test]
        fn what_has_no_control_character_is_left_as_it_is(text in "([a-z\n\t~]|[\u{0}-\u{bf}]|ä|…){0,9}") {
            let has_controls = text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            prop_assert_eq!(super::has_controls(text.as_bytes()), has_controls);
            prop_assert_eq!(printable(text.as_bytes()) == text, !has_controls);
        }

        #[test]
        fn nothing_unprintable_is_left(bytes: Vec<u8>) {
            let text = printable(&bytes);
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
