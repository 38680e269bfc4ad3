//! Output as text: what of it can be sent, and what its bytes become.

/// How many of `bytes` are whole: all, or all but the last one to three that begin a character
/// which more bytes could complete.
pub(crate) fn whole(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let tail = bytes.get(from..).unwrap_or_default();
    // A first byte is never inside of a character, so only what follows the last one counts.
    let first = tail.iter().rposition(|&byte| byte >= 0xc0);
    match first.and_then(|at| Some((at, tail.get(at..)?))) {
        Some((at, begun)) if is_begun(begun) => from + at,
        _ => bytes.len(),
    }
}

/// Whether these bytes are the beginning of a character that more bytes could complete.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Valid UTF-8 as it is; every byte that is no part of it becomes one U+FFFD, as the daemon does
/// it.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// The text of the first bytes of something longer. A character that only the cut has broken is
/// left out.
pub(crate) fn beginning(mut bytes: Vec<u8>) -> String {
    bytes.truncate(whole(&bytes));
    text(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_bytes_that_are_no_utf8_are_replaced_one_by_one() {
        let table: [(&[u8], &str, &str); 8] = [
            (b"", "", ""),
            (b"a\xff\xfeb", "a\u{fffd}\u{fffd}b", "a\u{fffd}\u{fffd}b"),
            ("aé漢😀".as_bytes(), "aé漢😀", "aé漢😀"),
            // Ended in the middle of a character: that is what the command wrote. Cut there by us:
            // nobody wrote a broken character.
            (b"a\xf0\x9f\x98", "a\u{fffd}\u{fffd}\u{fffd}", "a"),
            (b"\xc3", "\u{fffd}", ""),
            (b"a\xff", "a\u{fffd}", "a\u{fffd}"),
            (b"\xe6x\xe6", "\u{fffd}x\u{fffd}", "\u{fffd}x"),
            (
                b"\xed\xa0\x80",
                "\u{fffd}\u{fffd}\u{fffd}",
                "\u{fffd}\u{fffd}\u{fffd}",
            ),
        ];
        for (bytes, ended, cut) in table {
            assert_eq!(text(bytes.to_vec()), ended, "{bytes:?}");
            assert_eq!(beginning(bytes.to_vec()), cut, "{bytes:?}");
        }
    }

    /// Characters of every length, pieces of them, and bytes that are in none.
    fn output() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => "[aé漢😀]".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 1..3),
            1 => proptest::sample::select(vec![
                vec![0xc3], vec![0xe6, 0xbc], vec![0xf0, 0x9f, 0x98], vec![0x80], vec![0xed, 0xa0],
            ]),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_is_held_back_is_less_than_a_character_and_begins_one(bytes in output()) {
            let at = whole(&bytes);
            prop_assert!(bytes.len() - at <= 3);
            prop_assert!(at == bytes.len() || is_begun(&bytes[at..]));
        }

        #[test]
        fn chunks_with_their_tails_held_back_give_the_text_of_the_whole(
            bytes in output(), sizes in proptest::collection::vec(1..9_usize, 1..8)
        ) {
            let (mut got, mut held) = (String::new(), Vec::new());
            let (mut rest, mut sizes) = (bytes.as_slice(), sizes.iter().cycle());
            while !rest.is_empty() {
                let (chunk, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                held.extend_from_slice(chunk);
                rest = behind;
                let tail = held.split_off(whole(&held));
                got.push_str(&text(std::mem::replace(&mut held, tail)));
            }
            got.push_str(&text(held));
            prop_assert_eq!(got, text(bytes));
        }

        #[test]
        fn text_cut_anywhere_is_a_prefix_of_the_text(input in "[aé漢😀]{0,8}", at in 0..32_usize) {
            let at = at.min(input.len());
            let cut = beginning(input.as_bytes()[..at].to_vec());
            prop_assert!(input.starts_with(&cut), "{cut:?}");
            prop_assert!(at - cut.len() < 4);
        }
    }
}
