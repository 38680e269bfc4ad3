//! What one file must not hold.

use std::path::Path;

/// Files of Rust longer than this have to be taken apart.
const LONGEST: usize = 800;

/// The only places that call the HTTP library, in crates that are published.
const HTTP: [&str; 3] = [
    "polyaxon-client/src/transport",
    "agent-loop/src/model/openai",
    "agent-loop/tests/openai",
];

/// What is wrong with a file, a line each.
pub(super) fn check(path: &Path, text: &str) -> Vec<String> {
    let name = path.to_string_lossy();
    let mut problems = Vec::new();
    if name.starts_with("tests/golden/") {
        problems.extend(secrets(text));
        return problems;
    }
    // This file names what it looks for.
    if name == "xtask/src/tidy/rules.rs" {
        return problems;
    }
    for (number, line) in text.lines().enumerate() {
        let mut say = |what: &str| problems.push(format!("line {}: {what}", number + 1));
        for host in [
            "crates.io:",
            "index.crates.io",
            "pypi.org",
            "npmjs.org",
            "deb.debian.org",
        ] {
            if line.contains(host) {
                say("names the host of a registry");
            }
        }
        for folder in ["/work/main", "/work/shared", "/root/"] {
            // Not in the middle of a path, as in `/proc/1/root/`.
            let begins = |at: usize| !line[..at].ends_with(char::is_alphanumeric);
            if line.match_indices(folder).any(|(at, _)| begins(at)) {
                say("names a folder of one machine");
            }
        }
    }
    if path.extension().is_some_and(|extension| extension == "rs") {
        problems.extend(rust(&name, text));
    }
    problems
}

fn rust(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.lines().count() > LONGEST {
        problems.push(format!("has more than {LONGEST} lines"));
    }
    let stem = name.rsplit('/').next().unwrap_or_default();
    if matches!(
        stem,
        "utils.rs" | "util.rs" | "common.rs" | "misc.rs" | "types.rs" | "mod.rs"
    ) {
        problems.push("has a name that says nothing".to_owned());
    }
    let calls_http = HTTP.iter().any(|place| name.starts_with(place));
    let in_library = name.contains("/src/") && !name.starts_with("xtask/");
    for (number, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let mut say = |what: &str| problems.push(format!("line {}: {what}", number + 1));
        if code.contains("TODO") || code.contains("FIXME") {
            say("holds a note of something unfinished; file it as an issue");
        }
        if code.starts_with("#[allow(") || code.starts_with("#![allow(") {
            say("silences a lint with `allow`; use `expect` with a reason");
        }
        if code.starts_with("pub use ") && code.ends_with("::*;") {
            say("exports with `*`; name what is exported");
        }
        if code.starts_with("#[ignore") && !code.contains("needs a real server") {
            say("is ignored without the reason that `cargo xtask real` looks for");
        }
        if in_library && !calls_http && code.contains("reqwest::") && !code.starts_with("//") {
            say("calls the HTTP library outside its place");
        }
    }
    problems
}

/// Recorded traffic holds the tokens of test servers, and no others.
fn secrets(text: &str) -> Vec<String> {
    const KNOWN: [&str; 3] = ["test-token", "internal-secret", "<redacted>"];
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line
            .to_ascii_lowercase()
            .match_indices("\"authorization\":")
        {
            let rest = line
                .get(at + "\"authorization\":".len()..)
                .unwrap_or_default();
            let value = rest.split('"').nth(1).unwrap_or_default();
            let secret = value.split_whitespace().next_back().unwrap_or_default();
            if !secret.is_empty() && !KNOWN.iter().any(|known| known.ends_with(secret)) {
                problems.push(format!("line {}: holds an unknown token", number + 1));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, text: &str) -> usize {
        check(Path::new(name), text).len()
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let found = [
            ("a/src/x.rs", "#[allow(dead_code)]"),
            ("a/src/x.rs", "pub use inner::*;"),
            ("a/src/x.rs", "// TODO: later"),
            ("a/tests/x.rs", "#[ignore = \"slow\"]"),
            ("a/src/x.rs", "let client = reqwest::Client::new();"),
            ("a/src/utils.rs", ""),
            ("README.md", "see https://pypi.org/x"),
            ("README.md", "see /work/shared/style.md"),
            (
                "tests/golden/a.json",
                "{\"authorization\": \"Token s3cret\"}",
            ),
        ];
        for (name, text) in found {
            assert_eq!(problems(name, text), 1, "{name}: {text}");
        }
        assert_eq!(problems("a/src/x.rs", &"\n".repeat(LONGEST + 1)), 1);
    }

    #[test]
    fn what_is_in_order_is_left_alone() {
        let fine = [
            (
                "a/src/x.rs",
                "#[expect(dead_code, reason = \"r\")]\npub use inner::Name;",
            ),
            ("a/tests/x.rs", "#[ignore = \"needs a real server\"]"),
            ("a/tests/x.rs", "\"/proc/1/root/etc\""),
            (
                "polyaxon-client/src/transport.rs",
                "let client = reqwest::Client::new();",
            ),
            (
                "tests/golden/a.json",
                "{\"authorization\": \"Token test-token\"}",
            ),
        ];
        for (name, text) in fine {
            assert_eq!(check(Path::new(name), text), Vec::<String>::new(), "{name}");
        }
    }
}
