//! Writes HTML in which foreign text is text.

use std::borrow::Cow;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// A page that is being written. Tags and classes are ours; everything else goes through
/// [`text`](Self::text).
pub(crate) struct Page {
    out: String,
}

impl Page {
    /// A page with its head. Nothing may be fetched and no script may run, whatever is in it.
    pub(crate) fn new(title: &str) -> Self {
        let mut page = Self {
            out: String::with_capacity(16 * 1024),
        };
        page.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        page.raw("<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
        page.text(title);
        page.raw("</title>\n<style>\n");
        page.raw(STYLE);
        page.raw("</style>\n</head>\n<body>\n<main>\n");
        page
    }

    /// The whole page.
    pub(crate) fn finish(mut self) -> String {
        self.raw("</main>\n</body>\n</html>\n");
        self.out
    }

    fn raw(&mut self, html: &'static str) {
        self.out.push_str(html);
    }

    /// Opens an element, with a class where it is not empty.
    pub(crate) fn open(&mut self, tag: &'static str, class: &'static str) {
        self.raw("<");
        self.raw(tag);
        if !class.is_empty() {
            self.raw(" class=\"");
            self.raw(class);
            self.raw("\"");
        }
        self.raw(">");
    }

    /// Closes an element.
    pub(crate) fn close(&mut self, tag: &'static str) {
        self.raw("</");
        self.raw(tag);
        // Not in a <pre>, where a line feed would show.
        self.raw(if matches!(tag, "span" | "code" | "summary" | "a") {
            ">"
        } else {
            ">\n"
        });
    }

    /// Text, whatever is in it.
    pub(crate) fn text(&mut self, text: &str) {
        // Without a way out of the loop it takes many bytes at a time.
        let is_plain = |line: &str| {
            line.bytes().fold(true, |all, byte| {
                let is_special = matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'');
                all & !is_special & ((b' '..=b'~').contains(&byte) | (byte == b'\n'))
            })
        };
        for line in text.split_inclusive('\n') {
            match is_plain(line) {
                true => self.out.push_str(line),
                false => self.escaped(line),
            }
        }
    }

    fn escaped(&mut self, text: &str) {
        let mut plain = 0;
        for (at, c) in text.char_indices() {
            let entity = match c {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&quot;",
                '\'' => "&#39;",
                '\n' | '\t' => continue,
                c if c.is_control() || turns_text_around(c) => "",
                _ => continue,
            };
            self.out.push_str(text.get(plain..at).unwrap_or_default());
            match entity {
                "" => self.out.extend(c.escape_default()),
                entity => self.raw(entity),
            }
            plain = at + c.len_utf8();
        }
        self.out.push_str(text.get(plain..).unwrap_or_default());
    }

    /// An element that holds nothing but text.
    pub(crate) fn element(&mut self, tag: &'static str, class: &'static str, text: &str) {
        self.open(tag, class);
        self.text(text);
        self.close(tag);
    }

    /// A heading of a part of the page.
    pub(crate) fn heading(&mut self, text: &str) {
        self.element("h2", "", text);
    }

    /// A word in colour.
    pub(crate) fn badge(&mut self, tone: Tone, text: &str) {
        self.open("span", tone.class());
        self.text(text);
        self.close("span");
    }

    /// A link to a file beside the page.
    pub(crate) fn link(&mut self, path: &str, text: &str) {
        self.raw("<a href=\"./");
        self.text(path);
        self.raw("\">");
        self.text(text);
        self.close("a");
    }

    /// A line of a list of facts, which is a `dl`.
    pub(crate) fn fact(&mut self, name: &str, value: &str) {
        self.element("dt", "", name);
        self.element("dd", "", value);
    }

    /// A fact that is a digest or a name of a machine.
    pub(crate) fn code_fact(&mut self, name: &str, value: &str) {
        self.element("dt", "", name);
        self.open("dd", "");
        self.element("code", "", value);
        self.close("dd");
    }

    /// What is shown when somebody asks for it.
    pub(crate) fn folded(&mut self, title: &str, body: impl FnOnce(&mut Self)) {
        self.open("details", "");
        self.element("summary", "", title);
        body(self);
        self.close("details");
    }

    /// A bar of parts, each with the class of its colour. The parts are shares of `whole`.
    pub(crate) fn bar(&mut self, whole: f64, parts: &[(&'static str, f64)]) {
        self.open("div", "bar");
        for (class, part) in parts.iter().filter(|(_, part)| *part > 0.0) {
            let share = (part / whole.max(f64::MIN_POSITIVE) * 100.0).clamp(0.0, 100.0);
            // Writing to a String cannot fail.
            let _ = write!(
                self.out,
                "<span class=\"{class}\" style=\"width:{share:.2}%\"></span>"
            );
        }
        self.close("div");
    }

    /// A row of a table whose cells are text; those with `true` are numbers.
    pub(crate) fn row(&mut self, tag: &'static str, cells: &[(&str, bool)]) {
        self.open("tr", "");
        for (text, is_number) in cells {
            self.element(tag, if *is_number { "n" } else { "" }, text);
        }
        self.close("tr");
    }
}

/// The colour of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    None,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "badge good",
            Self::Bad => "badge bad",
            Self::Warn => "badge warn",
            Self::None => "badge none",
        }
    }
}

/// Characters that show the text after them in another order than it has.
fn turns_text_around(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Output of a program as text: what is no UTF-8 is shown as such, and the middle of much is left
/// out, which is said.
pub(crate) fn shown(bytes: &[u8], most: usize) -> String {
    let text = crate::text::printable(bytes);
    match crate::text::head_and_tail(&text, most) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let mut page = Page::new("</title><script>alert(1)</script>");
        page.element("p", "", "<img src=x onerror=alert(1)> & \"it's\"\u{202e}\0");
        page.link("a\"onclick=\"x", "y");
        let html = page.finish();
        assert!(
            !html.contains("<script") && !html.contains("<img"),
            "{html}"
        );
        assert!(html.contains(
            "<p>&lt;img src=x onerror=alert(1)&gt; &amp; &quot;it&#39;s&quot;\\u{202e}\\u{0}</p>"
        ));
        assert!(html.contains("href=\"./a&quot;onclick=&quot;x\""), "{html}");
    }

    #[test]
    fn a_bar_is_never_wider_than_its_place() {
        let mut page = Page::new("t");
        page.bar(0.0, &[("model", 1.0), ("check", 0.0)]);
        let html = page.finish();
        assert!(html.contains("<span class=\"model\" style=\"width:100.00%\"></span></div>"));
        assert_eq!(html.matches("<span").count(), 1);
    }
}
