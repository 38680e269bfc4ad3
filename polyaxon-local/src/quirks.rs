//! What other services do otherwise than the one that is described, to be switched on one by one:
//! a client has to get along with all of it.

mod answer;

use std::fmt;
use std::str::FromStr;

use polyaxon_client::InvalidInput;

pub(crate) use self::answer::change;

/// One way in which a service differs from the description and still is one.
///
/// The defaults of this crate are the description. Each quirk is something that a real service was
/// seen to do, or that nobody knows of the released one; a client that works with all of them needs
/// no luck.
///
/// # Examples
/// ```
/// use polyaxon_local::{LocalServer, Quirk};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = LocalServer::builder().quirks([Quirk::NoFollow, Quirk::TagsAreLabels]).start().await?;
/// assert_eq!("no-follow".parse::<Quirk>()?, Quirk::NoFollow);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quirk {
    /// `no-follow`: a log page is answered at once, whatever `follow` says.
    NoFollow,
    /// `background-logs-only`: log pages are there for background execs; for others they are 404.
    BackgroundLogsOnly,
    /// `tags-are-labels`: a tag can be used again and again.
    TagsAreLabels,
    /// `other-codes`: errors have other codes than those that are described, and no details.
    OtherCodes,
    /// `bare-errors`: errors are a `message` at the top, without a code.
    BareErrors,
    /// `exit-codes-of-shells`: the exit code of a command that a signal ended is 128 and its number.
    ExitCodesOfShells,
    /// `no-exit-codes`: the exit code of a command that a signal ended is null.
    NoExitCodes,
    /// `broken-characters`: output is cut at any byte, also inside of a character, and each byte of
    /// what was cut becomes one U+FFFD.
    BrokenCharacters,
    /// `other-times`: time stamps have nine digits behind the second, and `+00:00` for `Z`.
    OtherTimes,
    /// `numbers-as-text`: numbers in answers are text.
    NumbersAsText,
    /// `bare-reads`: a page of a file has no headers that say where it ends.
    BareReads,
}

const NAMES: [(Quirk, &str); 11] = [
    (Quirk::NoFollow, "no-follow"),
    (Quirk::BackgroundLogsOnly, "background-logs-only"),
    (Quirk::TagsAreLabels, "tags-are-labels"),
    (Quirk::OtherCodes, "other-codes"),
    (Quirk::BareErrors, "bare-errors"),
    (Quirk::ExitCodesOfShells, "exit-codes-of-shells"),
    (Quirk::NoExitCodes, "no-exit-codes"),
    (Quirk::BrokenCharacters, "broken-characters"),
    (Quirk::OtherTimes, "other-times"),
    (Quirk::NumbersAsText, "numbers-as-text"),
    (Quirk::BareReads, "bare-reads"),
];

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(quirk, _)| quirk == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

impl FromStr for Quirk {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(quirk, _)| *quirk).ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            InvalidInput::new("quirk", format!("{text:?} is none of {names}"))
        })
    }
}

/// The quirks of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks(u16);

impl Quirks {
    pub(crate) fn has(self, quirk: Quirk) -> bool {
        self.0 & bit(quirk) != 0
    }

    pub(crate) fn add(&mut self, quirk: Quirk) {
        self.0 |= bit(quirk);
    }
}

fn bit(quirk: Quirk) -> u16 {
    1 << quirk as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quirk_has_its_own_name_and_place() {
        let mut quirks = Quirks::default();
        for (quirk, name) in NAMES {
            assert_eq!(quirk.to_string(), name);
            assert_eq!(name.parse::<Quirk>().unwrap(), quirk);
            assert!(!quirks.has(quirk), "{name}");
            quirks.add(quirk);
            assert!(quirks.has(quirk), "{name}");
        }
        let error = "nope".parse::<Quirk>().unwrap_err().to_string();
        assert!(
            error.starts_with(r#"quirk: "nope" is none of no-follow, "#),
            "{error}"
        );
    }
}
