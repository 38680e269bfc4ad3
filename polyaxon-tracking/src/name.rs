//! Names: how the platform cleans them, and that no two things share one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use crate::error::Error;
use crate::kind::ArtifactKind;

/// With `.plx` behind it, this is the longest name that a file can have.
const MAX_BYTES: usize = 251;

/// What a name is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NameUse {
    /// A series of values.
    Metric,
    /// A series of events of another kind.
    Event(ArtifactKind),
    /// A reference to a file or folder.
    Artifact,
    /// An input of the run.
    Input,
    /// An output of the run.
    Output,
    /// A member of the run's free metadata.
    Meta,
}

impl fmt::Display for NameUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metric => "metric",
            Self::Event(kind) => return write!(f, "{kind} event"),
            Self::Artifact => "artifact",
            Self::Input => "input",
            Self::Output => "output",
            Self::Meta => "meta",
        })
    }
}

/// Where the platform keeps things by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    Lineage,
    Inputs,
    Outputs,
    Meta,
}

impl NameUse {
    fn spaces(self) -> &'static [Space] {
        match self {
            // The last value of a metric becomes an output.
            Self::Metric => &[Space::Lineage, Space::Outputs],
            Self::Artifact | Self::Event(_) => &[Space::Lineage],
            Self::Input => &[Space::Inputs],
            Self::Output => &[Space::Outputs],
            Self::Meta => &[Space::Meta],
        }
    }
}

/// A name in the form in which it is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(Arc<str>);

impl Name {
    /// A name of ours, which is clean as it is.
    pub(crate) fn of_ours(name: &'static str) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The names of one run that are in use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Names as callers write them: all that a call needs whose name was seen before.
    known: BTreeMap<NameUse, HashMap<String, Name>>,
    taken: HashMap<(Space, Name), (NameUse, String)>,
}

impl Names {
    /// The stored forms of `names`. All of them are in use from now on, or none.
    pub(crate) fn claim<S: AsRef<str>>(
        &mut self,
        used: NameUse,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Vec<Name>, Error> {
        let mut added = Vec::new();
        let mut claimed = Vec::new();
        for raw in names {
            let raw = raw.as_ref();
            let name = match self.known(used, raw) {
                Some(name) => name,
                None => match self.add(used, raw) {
                    Ok(name) => {
                        added.push((raw.to_owned(), name.clone()));
                        name
                    }
                    Err(error) => {
                        self.give_back(used, added);
                        return Err(error);
                    }
                },
            };
            claimed.push(name);
        }
        Ok(claimed)
    }

    /// The stored form of one name, which is in use from now on.
    pub(crate) fn claim_one(&mut self, used: NameUse, raw: &str) -> Result<Name, Error> {
        match self.known(used, raw) {
            Some(name) => Ok(name),
            None => self.add(used, raw),
        }
    }

    fn known(&self, used: NameUse, raw: &str) -> Option<Name> {
        self.known.get(&used)?.get(raw).cloned()
    }

    fn add(&mut self, used: NameUse, raw: &str) -> Result<Name, Error> {
        let name = clean(raw).map_err(|problem| Error::InvalidName {
            name: raw.to_owned(),
            problem,
        })?;
        for &space in used.spaces() {
            let Some((taken_by, taken)) = self.taken.get(&(space, name.clone())) else {
                continue;
            };
            // One name may be a metric and an output: that is the same value, told twice. One
            // lineage record cannot be two things.
            if taken != raw || (space == Space::Lineage && *taken_by != used) {
                return Err(Error::NameCollision {
                    name: raw.to_owned(),
                    used,
                    taken: taken.clone(),
                    taken_by: *taken_by,
                    stored: name.as_str().to_owned(),
                });
            }
        }
        for &space in used.spaces() {
            self.taken
                .entry((space, name.clone()))
                .or_insert_with(|| (used, raw.to_owned()));
        }
        self.known
            .entry(used)
            .or_default()
            .insert(raw.to_owned(), name.clone());
        Ok(name)
    }

    fn give_back(&mut self, used: NameUse, added: Vec<(String, Name)>) {
        for (raw, name) in added {
            if let Some(known) = self.known.get_mut(&used) {
                known.remove(&raw);
            }
            for &space in used.spaces() {
                let key = (space, name.clone());
                if self.taken.get(&key).is_some_and(|(by, _)| *by == used) {
                    self.taken.remove(&key);
                }
            }
        }
    }
}

/// The stored form of a name, or what is wrong with it.
fn clean(raw: &str) -> Result<Name, &'static str> {
    if raw.is_empty() {
        return Err("it is empty");
    }
    let name = ascii_form(raw);
    if name.is_empty() {
        return Err(
            "nothing is left of it, for names are stored in ASCII letters, digits, _ and -",
        );
    }
    if name.len() > MAX_BYTES {
        return Err("it is longer than 251 bytes");
    }
    Ok(Name(name.into()))
}

fn ascii_form(raw: &str) -> String {
    let kept: String = raw
        .nfkd()
        .filter(|c| c.is_ascii_alphanumeric() || is_space(*c) || "_\\/.-".contains(*c))
        .collect();
    let mut name = String::with_capacity(kept.len());
    let mut previous = None;
    for c in kept.trim_matches(is_space).chars() {
        let run = match c {
            '\\' | '/' => Some("__"),
            '-' | '.' => Some("-"),
            c if is_space(c) => Some("-"),
            _ => None,
        };
        match run {
            None => name.push(c),
            Some(_) if run == previous => {}
            Some(text) => name.push_str(text),
        }
        previous = run;
    }
    name
}

/// White space as Python sees it, the four ASCII separators included.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r' | '\x1c'..='\x1f')
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn names_are_cleaned_as_the_platform_cleans_them() {
        let table = [
            ("plain", "plain"),
            ("UPPER", "UPPER"),
            ("train/loss", "train__loss"),
            ("a//b\\c", "a__b__c"),
            ("a._-b", "a-_-b"),
            ("a . - b", "a-b"),
            ("précision", "precision"),
            ("ﬁ", "fi"),
            ("x²", "x2"),
            ("½", "12"),
            ("Straße", "Strae"),
            ("a|b", "ab"),
            ("../up", "-__up"),
            ("/abs/path", "__abs__path"),
            ("..", "-"),
            (" lead ", "lead"),
            ("a\u{a0}b\u{1c}c", "a-b-c"),
            ("a\0b", "ab"),
        ];
        for (raw, stored) in table {
            assert_eq!(clean(raw).unwrap().as_str(), stored, "{raw:?}");
        }
    }

    #[test]
    fn names_of_which_nothing_is_left_and_long_names_are_refused() {
        assert_eq!(clean(""), Err("it is empty"));
        for raw in ["损失", "|", "  "] {
            let problem = clean(raw).unwrap_err();
            assert!(problem.starts_with("nothing is left of it"), "{problem}");
        }
        assert_eq!(clean(&"x".repeat(251)).unwrap().as_str().len(), 251);
        assert_eq!(clean(&"x".repeat(252)), Err("it is longer than 251 bytes"));
        // The stored form counts.
        assert_eq!(clean(&"é".repeat(251)).unwrap().as_str().len(), 251);
    }

    #[test]
    fn two_names_that_become_one_are_refused_and_both_are_shown() {
        let mut names = Names::default();
        names.claim(NameUse::Metric, ["a.b"]).unwrap();
        let error = names.claim(NameUse::Metric, ["c", "a-b"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"metric "a-b" would be stored as "a-b", as metric "a.b" is already"#
        );
        // Nothing of the refused call is in use: `c` is free for another spelling.
        names.claim(NameUse::Metric, ["c|"]).unwrap();
        names.claim(NameUse::Metric, ["a.b", "a.b"]).unwrap();
        // Inputs are kept elsewhere.
        names.claim(NameUse::Input, ["a-b"]).unwrap();
    }

    #[test]
    fn an_output_may_repeat_a_metric_but_an_artifact_may_not() {
        let mut names = Names::default();
        names.claim(NameUse::Metric, ["loss"]).unwrap();
        names.claim(NameUse::Output, ["loss"]).unwrap();
        let error = names.claim(NameUse::Output, ["loss|"]).unwrap_err();
        assert!(matches!(
            error,
            Error::NameCollision {
                taken_by: NameUse::Metric,
                ..
            }
        ));
        let error = names.claim(NameUse::Artifact, ["loss"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"artifact "loss" would be stored as "loss", as metric "loss" is already"#
        );
        // An output that was there first is not given back with the metric that was refused.
        names.claim(NameUse::Artifact, ["plot"]).unwrap();
        names.claim(NameUse::Output, ["best"]).unwrap();
        names.claim(NameUse::Metric, ["best", "plot"]).unwrap_err();
        names.claim(NameUse::Output, ["best|"]).unwrap_err();
    }

    #[test]
    fn any_name_is_cleaned_as_python_cleans_it() {
        // Characters whose decomposition has been the same in all versions of Unicode in use.
        let blocks = [
            0..0x250_u32, // ASCII, Latin
            0x370..0x400,
            0x1e00..0x1f00,
            0x2000..0x2070,
            0x2100..0x2150,
            0x2460..0x24ff, // enclosed
            0x3300..0x3358,
            0xfb00..0xfb07,
            0xff01..0xff5f,
            0x1_d400..0x1_d455, // mathematical letters
            0x1_f600..0x1_f640,
        ];
        let pool: Vec<char> = blocks
            .into_iter()
            .flatten()
            .filter_map(char::from_u32)
            .collect();
        let ascii = "ab_1 -./\\\t|\n";
        let mut state = 1_u64;
        let mut next = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        let names: Vec<String> = (0..5_000)
            .map(|_| {
                (0..next(12))
                    .map(|_| match next(2) {
                        0 => pool[next(pool.len())],
                        _ => ascii.chars().nth(next(ascii.len())).unwrap(),
                    })
                    .collect()
            })
            .collect();

        let script = r"
import json, re, sys, unicodedata
out = []
for name in json.load(sys.stdin):
    text = unicodedata.normalize('NFKD', name).encode('ascii', 'ignore').decode('ascii')
    text = re.sub(r'[^A-Za-z0-9_\\/.\s-]', '', text).strip()
    text = re.sub(r'[\\/]+', '__', text)
    out.append(re.sub(r'[-.\s]+', '-', text))
json.dump(out, sys.stdout)";
        let mut python = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is needed for this test");
        let input = serde_json::to_vec(&names).unwrap();
        python.stdin.take().unwrap().write_all(&input).unwrap();
        let output = python.wait_with_output().unwrap();
        let expected: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();

        assert_eq!(expected.len(), names.len());
        for (raw, expected) in names.iter().zip(expected) {
            assert_eq!(ascii_form(raw), expected, "{raw:?}");
        }
    }
}
