//! What a server says, made fit for the journal: short, printable and without the key.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// The longest text that is kept, in bytes. vLLM quotes whole requests, 9 KB and more.
pub(super) const KEPT: usize = 1024;
/// How much of a text is looked at: far more than is kept, so that no needle is cut in two.
const LOOKED_AT: usize = 64 * 1024;
const HIDDEN: &str = "<redacted>";
/// Removes one key, however it is written. The values of telling names are taken out by
/// [`Private`](crate::Private) itself, into which all of this goes.
#[derive(Clone, Default)]
pub(super) struct Redactor {
    needles: Vec<String>,
}

impl Redactor {
    /// One that knows `key`.
    pub(super) fn knowing(key: &str) -> Self {
        let mut needles = vec![
            key.to_owned(),
            json_escaped(key),
            percent_encoded(key),
            STANDARD.encode(key),
            STANDARD_NO_PAD.encode(key),
            URL_SAFE.encode(key),
            URL_SAFE_NO_PAD.encode(key),
        ];
        needles.retain(|needle| !needle.is_empty());
        // The longest first: a padded form would else leave its padding behind.
        needles.sort_by_key(|needle| std::cmp::Reverse(needle.len()));
        needles.dedup();
        Self { needles }
    }

    /// `text` without secrets and control characters, at most [`KEPT`] bytes and a remark long.
    pub(super) fn clean(&self, text: &str) -> String {
        let (looked_at, rest) = split(text, LOOKED_AT);
        let mut clean = looked_at.to_owned();
        for needle in &self.needles {
            clean = clean.replace(needle, HIDDEN);
        }
        let (kept, cut) = split(&clean, KEPT);
        let mut shown = printable(kept);
        if !cut.is_empty() || !rest.is_empty() {
            shown.push_str(&format!(" [cut, {} bytes in all]", text.len()));
        }
        shown
    }
}

/// `text` in two, the first at most `length` bytes long and whole in its characters.
fn split(text: &str, length: usize) -> (&str, &str) {
    let at = (0..=length.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.split_at(at.unwrap_or_default())
}

fn json_escaped(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .trim_matches('"')
        .to_owned()
}

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\n' => shown.push(c),
            _ if c.is_control() => shown.extend(c.escape_default()),
            _ => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let text = "ä".repeat(40_000);
        let shown = Redactor::default().clean(&text);
        assert_eq!(
            shown,
            format!("{} [cut, 80000 bytes in all]", "ä".repeat(KEPT / 2))
        );
    }

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(
            Redactor::default().clean("\0\u{1b}[2J\u{7}ok\nyes\n"),
            "\\u{0}\\u{1b}[2J\\u{7}ok\nyes"
        );
    }

    #[test]
    fn a_key_across_the_cut_leaves_nothing_behind() {
        let redactor = Redactor::knowing("k-TEST-123456");
        for before in KEPT - 20..KEPT + 2 {
            let shown = redactor.clean(&format!("{}k-TEST-123456 and more", "x".repeat(before)));
            assert!(!shown.contains("k-T"), "{before}: {shown}");
        }
    }

    proptest! {
        #[test]
        fn no_form_of_the_key_survives(
            key in "[!-~]{8,40}",
            before in "[ -~\\n\"':=]{0,30}",
            after in "[ -~\\n\"':=]{0,30}",
            form in 0..5_usize,
        ) {
            let said = match form {
                0 => key.clone(),
                1 => json_escaped(&key),
                2 => percent_encoded(&key),
                3 => STANDARD.encode(&key),
                _ => URL_SAFE_NO_PAD.encode(&key),
            };
            let shown = Redactor::knowing(&key).clean(&format!("{before}{said}{after}"));
            prop_assert!(!shown.contains(&said), "{shown:?}");
        }

        #[test]
        fn any_text_is_cleaned_to_a_bounded_printable_one(text in "\\PC{0,2000}|(?s).{0,2000}") {
            let shown = Redactor::knowing("k-TEST-123456").clean(&text);
            prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
            // An escaped control character takes at most ten characters.
            prop_assert!(shown.len() <= 10 * KEPT + 64);
        }
    }
}
