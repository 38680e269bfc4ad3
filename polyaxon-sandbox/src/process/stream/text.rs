//! The quick way through an event of output. No I/O.
//!
//! Almost every event of a stream is `{"text":"…","offset":…}`. The general reader of JSON copies a
//! text with escapes twice, and a line of output has one at its end; here what lies between two
//! escapes is found and copied as a whole. What is spelled otherwise is left to the general reader.

use bytes::Bytes;
use memchr::memchr2;

/// The text and the offset of an event, where both are spelled as usual.
pub(super) fn read(data: &Bytes) -> Option<(Bytes, Option<u64>)> {
    let (mut text, mut offset) = (None, None);
    let mut rest = data.strip_prefix(b"{")?;
    loop {
        if let Some(value) = rest.strip_prefix(br#""text":""#).filter(|_| text.is_none()) {
            let (read, after) = string(data, value)?;
            (text, rest) = (Some(read), after);
        } else if let Some(value) = rest
            .strip_prefix(br#""offset":"#)
            .filter(|_| offset.is_none())
        {
            let (read, after) = number(value)?;
            (offset, rest) = (Some(read), after);
        } else {
            return None;
        }
        match rest.split_first()? {
            (b',', after) => rest = after,
            (b'}', []) => return Some((text?, offset)),
            _ => return None,
        }
    }
}

/// The text from behind its quote on, and what comes behind it.
fn string<'a>(data: &Bytes, mut rest: &'a [u8]) -> Option<(Bytes, &'a [u8])> {
    let (plain, after) = run(rest)?;
    if let Some(after) = after.strip_prefix(b"\"") {
        let text = std::str::from_utf8(plain).ok()?;
        return Some((data.slice_ref(text.as_bytes()), after));
    }
    let mut text = Vec::with_capacity(rest.len());
    loop {
        let (plain, after) = run(rest)?;
        text.extend_from_slice(plain);
        let escape = match after.split_first()? {
            (b'"', after) => {
                std::str::from_utf8(&text).ok()?;
                return Some((text.into(), after));
            }
            (_, escape) => escape,
        };
        let (code, after) = escape.split_first()?;
        rest = after;
        match code {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'b' => text.push(0x08),
            b'f' => text.push(0x0c),
            b'"' | b'\\' | b'/' => text.push(*code),
            b'u' => {
                let (digits, after) = rest.split_at_checked(4)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                let number = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
                // Half of a pair is none by itself; pairs are rare.
                let char = char::from_u32(number)?;
                text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            _ => return None,
        }
    }
}

/// What comes before the next quote or escape, and the rest from there on.
fn run(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (plain, after) = rest.split_at_checked(memchr2(b'"', b'\\', rest)?)?;
    Some((plain, after))
}

fn number(rest: &[u8]) -> Option<(u64, &[u8])> {
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, after) = rest.split_at_checked(length)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_spelled_otherwise_is_left_to_the_general_reader() {
        for data in [
            "",
            "{}",
            r#"{"text":1,"offset":1}"#,
            r#"{"text":"a"#,
            r#"{"text":"a","offset":1"#,
            r#"{"text":"a","offset":1}x"#,
            r#"{"text":"a","offset":"1"}"#,
            r#"{"text":"a","offset":1.0}"#,
            r#"{"text":"a","offset":-1}"#,
            r#"{"text":"a","text":"b"}"#,
            r#"{"text":"a", "offset":1}"#,
            r#"{"text":"\q"}"#,
            r#"{"text":"\u12"}"#,
            r#"{"text":"\u+123"}"#,
            r#"{"text":"\ud83d\ude00"}"#,
            r#"{"text":"a","new":1}"#,
            r#"{"offset":1}"#,
        ] {
            assert_eq!(
                read(&Bytes::copy_from_slice(data.as_bytes())),
                None,
                "{data}"
            );
        }
        assert_eq!(read(&Bytes::from_static(b"{\"text\":\"\xff\"}")), None);
        assert_eq!(read(&Bytes::from_static(b"{\"text\":\"\\n\xff\"}")), None);
    }

    #[test]
    fn text_without_escapes_is_not_copied() {
        let data = Bytes::from_static(br#"{"offset":7,"text":"plain"}"#);
        let (text, offset) = read(&data).unwrap();
        assert_eq!((&text[..], offset), (&b"plain"[..], Some(7)));
        assert!(data.as_ptr_range().contains(&text.as_ptr()));
    }

    proptest! {
        #[test]
        fn it_reads_what_the_general_reader_reads(text in "[aé漢\u{7f}\"\\\\/\n\r\t\u{8}\u{c}\u{1}<]{0,40}", offset in any::<u64>()) {
            let plain = json!({"text": text, "offset": offset}).to_string();
            let escaped = plain.replace('<', "\\u003c").replace('é', "\\u00e9").replace('/', "\\/");
            for data in [plain, escaped] {
                let read = read(&Bytes::from(data.clone().into_bytes()));
                let general: Value = serde_json::from_str(&data).unwrap();
                prop_assert_eq!(general["text"].as_str().unwrap(), text.as_str());
                prop_assert_eq!(read, Some((Bytes::from(text.clone()), Some(offset))));
            }
        }

        #[test]
        fn no_bytes_are_read_otherwise_than_the_general_reader_does(data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let data: Bytes = [&b"{\"text\":\""[..], &data, b"\",\"offset\":1}"].concat().into();
            if let (Some((text, _)), Ok(general)) = (read(&data), serde_json::from_slice::<Value>(&data)) {
                prop_assert_eq!(general["text"].as_str().map(str::as_bytes), Some(&text[..]));
            }
        }
    }
}
