//! Files beside recorded files, with what differs between any two runs replaced.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::replay::WRITTEN_BY_SCRIPTS;
use super::{Case, Outcome, known};

/// The day of the recording, and what stands for any time of it or of today.
const RECORDED: &str = "2026-11-29";

pub(super) fn files(case: &Case, data: &Path, outcome: &mut Outcome) {
    let places = Places::of(case, data);
    let mut wanted = BTreeSet::new();
    for (path, content) in &case.files {
        wanted.insert(path.clone());
        if WRITTEN_BY_SCRIPTS
            .iter()
            .any(|own| path.ends_with(&format!("/{own}")))
            && !case.case.starts_with("pull")
        {
            continue;
        }
        outcome.files.1 += 1;
        let recorded = places.plain_file(path, &content.bytes());
        let made = std::fs::read(data.join(path));
        let made = made.map(|bytes| places.plain_file(path, &bytes));
        let problem = match made {
            Ok(made) if made == recorded => {
                outcome.files.0 += 1;
                continue;
            }
            Ok(made) => difference(&recorded, &made),
            Err(_) => "is not made".to_owned(),
        };
        note(case, path, &problem, outcome);
    }
    // What Python does not write.
    for folder in ["offline", "artifacts", "plx-context", "pulled"] {
        for path in below(data, &data.join(folder)) {
            if !wanted.contains(&path) {
                note(case, &path, "is made here only", outcome);
            }
        }
    }
}

fn note(case: &Case, path: &str, problem: &str, outcome: &mut Outcome) {
    let short = match path.split_once(case.run_uuid().unwrap_or("-")) {
        Some((_, below)) => below.trim_start_matches('/'),
        None => path,
    };
    let text = format!("{short} {problem}");
    match known::file(&case.case, short) {
        Some(why) => outcome.known.push((text, why)),
        None => outcome.unknown.push(text),
    }
}

fn below(data: &Path, folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => paths.extend(below(data, &path)),
            false => paths.push(
                path.strip_prefix(data)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            ),
        }
    }
    paths
}

/// Where two texts part.
pub(super) fn difference(recorded: &str, made: &str) -> String {
    let common = recorded
        .char_indices()
        .zip(made.chars())
        .find(|((_, a), b)| a != b)
        .map_or(recorded.len().min(made.len()), |((at, _), _)| at);
    let around = |text: &str| -> String {
        let start = common.saturating_sub(40);
        let start = (0..=start)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text[start..].chars().take(100).collect()
    };
    format!(
        "differs: recorded {:?}, made {:?}",
        around(recorded),
        around(made)
    )
}

/// Texts that stand for places of the recording and of this machine.
pub(super) struct Places {
    data: String,
    host: String,
    today: [String; 2],
}

impl Places {
    pub(super) fn of(_case: &Case, data: &Path) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let day = |ago: i64| {
            let then = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(ago);
            then.to_string()[..10].to_owned()
        };
        Self {
            data: data.to_str().unwrap().to_owned(),
            host: host.trim().to_owned(),
            today: [day(0), day(24)],
        }
    }

    /// A file in the form in which it can be compared.
    pub(super) fn plain_file(&self, path: &str, bytes: &[u8]) -> String {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return format!("{bytes:?}");
        };
        if path.ends_with(".plx.json") {
            let json: Value = serde_json::from_str(text).unwrap_or_default();
            return serde_json::to_string_pretty(&self.plain_json(json)).unwrap();
        }
        let text = self.plain(text);
        if !path.contains("resources/metric/") {
            return text;
        }
        // The load of another machine.
        let lines = text.lines().map(|line| match line.rsplit_once('|') {
            Some((head, "metric")) => format!("{head}|metric"),
            Some((head, _)) => format!("{head}|<value>"),
            None => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A text with what differs between any two runs replaced.
    pub(super) fn plain(&self, text: &str) -> String {
        let mut text = text.replace(&self.data, "$DATA");
        if !self.host.is_empty() {
            text = text.replace(&format!("\"{}\"", self.host), "\"$HOSTNAME\"");
        }
        // The way up to the root is as long as the data's path is deep.
        while text.contains("../../") {
            text = text.replace("../../", "../");
        }
        for day in self.today.iter().map(String::as_str).chain([RECORDED]) {
            let mut rest = text.as_str();
            let mut plain = String::new();
            while let Some(at) = rest.find(day) {
                let (head, tail) = rest.split_at(at);
                let length = time_length(tail);
                plain.push_str(head);
                plain.push_str(match length {
                    0 => day,
                    _ => "<time>",
                });
                rest = &tail[length.max(day.len())..];
            }
            plain.push_str(rest);
            text = plain;
        }
        text
    }

    /// JSON with what differs between any two runs replaced.
    pub(super) fn plain_json(&self, json: Value) -> Value {
        match json {
            Value::String(text) => self.plain(&text).into(),
            Value::Array(list) => {
                let mut list: Vec<Value> = list.into_iter().map(|v| self.plain_json(v)).collect();
                // Records come in the order of the folder's listing, which is any.
                if list
                    .iter()
                    .all(|value| value.get("name").is_some() && value.get("kind").is_some())
                {
                    list.sort_by_key(|value| {
                        value["name"].to_string() + &value["kind"].to_string()
                    });
                }
                list.into()
            }
            Value::Object(mut members) => {
                for name in ["wait_time", "duration"] {
                    if let Some(value) = members.get_mut(name).filter(|value| value.is_f64()) {
                        *value = "<length>".into();
                    }
                }
                // A whole number is the same in JSON with a fraction of zero and without.
                if let Some(done) = members.get_mut("progress")
                    && let Some(whole) = done.as_f64().filter(|done| done.fract() == 0.0)
                {
                    *done = Value::from(whole);
                }
                let kind = members
                    .get("kind")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                match kind.as_deref() {
                    Some("env") => members["summary"]["hash"] = "<hash>".into(),
                    Some("system") => members["summary"] = "<load>".into(),
                    _ => {}
                }
                let members = members.into_iter();
                members
                    .map(|(name, value)| (name, self.plain_json(value)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            other => other,
        }
    }
}

/// How long the time is that a text begins with, where it has the exact form of the platform's
/// files: a fraction of six digits or none, and an offset.
fn time_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize, count: usize| {
        let part = bytes.get(from..from + count);
        part.is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let has_clock = matches!(bytes.get(10), Some(b' ' | b'T'))
        && digits(11, 2)
        && digits(14, 2)
        && digits(17, 2);
    if !has_clock {
        return 0;
    }
    let end = match bytes.get(19) {
        Some(b'.') if digits(20, 6) && !digits(26, 1) => 26,
        Some(b'.') => return 0,
        _ => 19,
    };
    match text.get(end..end + 6) {
        Some("+00:00") => end + 6,
        _ => 0,
    }
}
