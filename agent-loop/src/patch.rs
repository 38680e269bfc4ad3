//! The change of a tree as a patch that git applies.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest as _, Sha1};
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::manifest::{File, Tree};
use crate::path::RelPath;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// The patch from `old` to `new`, which `git apply` takes. Empty where they are the same.
///
/// Lines end at line feeds and nowhere else, so carriage returns, form feeds and other separators
/// are content. A file that is no UTF-8, or holds a NUL, is patched as binary, in both directions.
///
/// # Examples
/// ```
/// use agent_loop::{File, Tree, patch::diff};
///
/// let tree = |text: &str| -> Result<Tree, agent_loop::InvalidPath> {
///     Ok([("a.py".parse()?, File::new(text))].into_iter().collect())
/// };
/// let patch = String::from_utf8(diff(&tree("x = 1\n")?, &tree("x = 2\n")?)?)?;
/// assert!(patch.starts_with("diff --git a/a.py b/a.py\n"));
/// assert!(patch.ends_with("@@ -1 +1 @@\n-x = 1\n+x = 2\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// None in practice: it writes to memory.
pub fn diff(old: &Tree, new: &Tree) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let before = old.manifest();
    let after = new.manifest();
    for path in before.differences(&after) {
        let sides = Sides {
            path,
            old: old.get(path),
            new: new.get(path),
        };
        sides.header(&mut out)?;
        sides.content(&mut out)?;
    }
    Ok(out)
}

struct Sides<'a> {
    path: &'a RelPath,
    old: Option<&'a Arc<File>>,
    new: Option<&'a Arc<File>>,
}

impl Sides<'_> {
    fn header(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let (a, b) = (quoted("a/", self.path), quoted("b/", self.path));
        writeln!(out, "diff --git {a} {b}")?;
        let mode = match (self.old, self.new) {
            (None, Some(new)) => {
                writeln!(out, "new file mode {}", mode(new))?;
                None
            }
            (Some(old), None) => {
                writeln!(out, "deleted file mode {}", mode(old))?;
                None
            }
            (Some(old), Some(new)) if mode(old) != mode(new) => {
                writeln!(out, "old mode {}\nnew mode {}", mode(old), mode(new))?;
                None
            }
            (_, new) => new.map(|file| mode(file)),
        };
        // An empty file that comes or goes has no other line that says so.
        if self.old.map(|file| file.bytes()) != self.new.map(|file| file.bytes()) {
            let ids = format!("{}..{}", blob_id(self.old), blob_id(self.new));
            match mode {
                Some(mode) => writeln!(out, "index {ids} {mode}")?,
                None => writeln!(out, "index {ids}")?,
            }
        }
        Ok(())
    }

    fn content(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let (old, new) = (bytes(self.old), bytes(self.new));
        if old == new {
            return Ok(());
        }
        if is_binary(old) || is_binary(new) {
            out.extend_from_slice(b"GIT binary patch\n");
            literal(new, out)?;
            return literal(old, out);
        }
        let name = |prefix, side: Option<_>| match side {
            // A blank in a name would end it, were it not for the tab.
            Some(_) if self.path.as_str().contains(' ') => {
                format!("{}\t", quoted(prefix, self.path))
            }
            Some(_) => quoted(prefix, self.path),
            None => "/dev/null".to_owned(),
        };
        writeln!(
            out,
            "--- {}\n+++ {}",
            name("a/", self.old),
            name("b/", self.new)
        )?;
        hunks(&lines(old), &lines(new), out)
    }
}

fn bytes(file: Option<&Arc<File>>) -> &[u8] {
    file.map_or(&[], |file| file.bytes())
}

fn mode(file: &File) -> &'static str {
    if file.is_executable() {
        "100755"
    } else {
        "100644"
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0) || std::str::from_utf8(bytes).is_err()
}

/// The id that git gives to a content; it checks it before it applies a binary patch.
fn blob_id(file: Option<&Arc<File>>) -> String {
    let Some(file) = file else {
        return "0".repeat(40);
    };
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", file.bytes().len()));
    hash.update(file.bytes());
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn hunks(old: &[&[u8]], new: &[&[u8]], out: &mut Vec<u8>) -> std::io::Result<()> {
    let ops = capture_diff_slices(Algorithm::Myers, old, new);
    for group in group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let span = |start: usize, end: usize| match (start, end - start) {
            // An empty side is named by the line before it.
            (start, 0) => format!("{start},0"),
            (start, 1) => format!("{}", start + 1),
            (start, count) => format!("{},{count}", start + 1),
        };
        let old_span = span(first.old_range().start, last.old_range().end);
        let new_span = span(first.new_range().start, last.new_range().end);
        writeln!(out, "@@ -{old_span} +{new_span} @@")?;
        for op in &group {
            let removed = old.get(op.old_range()).unwrap_or_default();
            let added = new.get(op.new_range()).unwrap_or_default();
            match op {
                DiffOp::Equal { .. } => marked(b' ', removed, out),
                _ => {
                    marked(b'-', removed, out);
                    marked(b'+', added, out);
                }
            }
        }
    }
    Ok(())
}

fn marked(mark: u8, lines: &[&[u8]], out: &mut Vec<u8>) {
    for line in lines {
        out.push(mark);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// A name as git writes it: in quotes with escapes where it holds a quote or anything but ASCII.
fn quoted(prefix: &str, path: &RelPath) -> String {
    let path = path.as_str();
    if path.bytes().all(|byte| byte.is_ascii() && byte != b'"') {
        return format!("{prefix}{path}");
    }
    let mut out = format!("\"{prefix}");
    for byte in path.bytes() {
        match byte {
            b'"' => out.push_str("\\\""),
            byte if byte.is_ascii() => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}

/// A whole content, deflated and in git's base 85: lines of at most 52 bytes, each after a letter
/// that says how many.
fn literal(bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    writeln!(out, "literal {}", bytes.len())?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    for line in encoder.finish()?.chunks(52) {
        // At most 52, so it fits.
        let count = u8::try_from(line.len()).unwrap_or_default();
        out.push(if count <= 26 {
            b'A' + count - 1
        } else {
            b'a' + count - 27
        });
        line.chunks(4).for_each(|group| base85(group, out));
        out.push(b'\n');
    }
    out.push(b'\n');
    Ok(())
}

const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Four bytes, missing ones as zero, as five digits, the highest first.
fn base85(group: &[u8], out: &mut Vec<u8>) {
    let mut word = [0; 4];
    word.iter_mut()
        .zip(group)
        .for_each(|(to, from)| *to = *from);
    let mut value = u32::from_be_bytes(word);
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS
            .get((value % 85) as usize)
            .copied()
            .unwrap_or_default();
        value /= 85;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests;
