//! Characters that a service has cut in two at the border of two pieces. No I/O.
//!
//! Each byte that is not UTF-8 by itself comes as one U+FFFD, so both halves of a character that
//! was cut come as such. The bytes are not lost: the log still has them.

/// U+FFFD in UTF-8.
const REPLACEMENT: &str = "\u{fffd}";
/// The longest beginning of a character that is none.
const LONGEST: usize = 3;

/// How many of the `count` bytes that `text` stands for were replaced. A replacement has two bytes
/// more than what it stands for, while one that the command itself wrote has its own length.
pub(super) fn replaced(text: usize, count: u64) -> u64 {
    let text = u64::try_from(text).unwrap_or(u64::MAX);
    text.saturating_sub(count) / 2
}

/// How many bytes at the end of a piece can be the beginning of a character.
pub(crate) fn suspicious(text: &[u8], count: u64) -> usize {
    let replaced = usize::try_from(replaced(text.len(), count)).unwrap_or(usize::MAX);
    let run = text
        .rchunks_exact(REPLACEMENT.len())
        .take(LONGEST)
        .take_while(|bytes| *bytes == REPLACEMENT.as_bytes());
    run.count().min(replaced)
}

/// `count` replacements.
pub(super) fn replacements(count: usize) -> String {
    REPLACEMENT.repeat(count)
}

/// `text` without its last `count` replacements.
pub(crate) fn without_last(text: usize, count: usize) -> usize {
    text.saturating_sub(count.saturating_mul(REPLACEMENT.len()))
}

/// The text of the `held` bytes at the end of a piece with the beginning of the `next`, by what the
/// log says from the first of them on. `None` where that does not fit. The flag says whether a
/// character was put together.
pub(super) fn mend(held: usize, next: &[u8], log: &str) -> Option<(Vec<u8>, bool)> {
    let mut consumed = 0;
    let mut text = Vec::with_capacity(next.len() + 4);
    let mut chars = log.chars();
    while consumed < held {
        let char = chars.next()?;
        consumed += match char {
            char::REPLACEMENT_CHARACTER => 1,
            char => char.len_utf8(),
        };
        text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
    let extra = consumed - held;
    let rest = next.strip_prefix(replacements(extra).as_bytes())?;
    text.extend_from_slice(rest);
    Some((text, extra > 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a service makes of bytes that are not UTF-8.
    fn damaged(bytes: &[u8]) -> String {
        let mut text = String::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.push_str(&replacements(chunk.invalid().len()));
        }
        text
    }

    #[test]
    fn what_the_command_itself_wrote_is_not_suspicious() {
        assert_eq!(suspicious("a\u{fffd}".as_bytes(), 4), 0);
        assert_eq!(suspicious("a\u{fffd}".as_bytes(), 2), 1);
        assert_eq!(suspicious("\u{fffd}a".as_bytes(), 2), 0);
        assert_eq!(suspicious(replacements(5).as_bytes(), 5), 3);
        assert_eq!(suspicious(b"", 0), 0);
    }

    #[test]
    fn a_byte_that_is_truly_none_of_a_character_stays_replaced() {
        let (text, mended) = mend(1, b"a", "\u{fffd}a").unwrap();
        assert_eq!((text, mended), ("\u{fffd}a".as_bytes().to_vec(), false));
        assert_eq!(mend(2, b"", "\u{fffd}"), None);
        // The next piece does not begin with what is missing.
        assert_eq!(mend(1, b"abc", "\u{e9}"), None);
    }

    proptest! {
        #[test]
        fn text_that_was_cut_anywhere_is_put_together(
            text in "[aé漢😀]{1,12}", invalid in prop::collection::vec(any::<bool>(), 3), at in 0..48_usize,
        ) {
            // Bytes that are none of a character may stand right before the one that is cut.
            let mut bytes: Vec<u8> = Vec::new();
            for (index, char) in text.chars().enumerate() {
                if invalid.get(index) == Some(&true) {
                    bytes.push(0xff);
                }
                bytes.extend(char.to_string().bytes());
            }
            let at = at.min(bytes.len());
            let (first, second) = bytes.split_at(at);
            let (left, right) = (damaged(first), damaged(second));
            let held = suspicious(left.as_bytes(), first.len() as u64);
            let kept = &left[..without_last(left.len(), held)];
            let log = damaged(&bytes[at - held..bytes.len().min(at - held + 8)]);
            let (rest, _) = mend(held, right.as_bytes(), &log).unwrap();
            let whole = [kept.as_bytes(), &rest].concat();
            prop_assert_eq!(String::from_utf8(whole).unwrap(), damaged(&bytes));
        }
    }
}
