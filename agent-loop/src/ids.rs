//! Names of requests and attempts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that cannot be an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no id: 1 to {} letters, digits and `_ . : -` are",
    RequestId::MAX_LEN
)]
pub struct InvalidId {
    text: String,
}

/// The name of one thing that an attempt asks for: `<attempt>.<turn>.<seq>`.
///
/// It is the same whenever the same attempt comes to the same place, so it serves as an idempotency
/// key and as the tag of a command in a sandbox.
///
/// # Examples
/// ```
/// use agent_loop::RequestId;
///
/// let id: RequestId = "amounts-1.3.0".parse()?;
/// assert_eq!(id.as_str(), "amounts-1.3.0");
/// assert!("with space".parse::<RequestId>().is_err());
/// # Ok::<(), agent_loop::InvalidId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

impl RequestId {
    /// The length of the longest id, in bytes.
    pub const MAX_LEN: usize = 128;

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of request `seq` in turn `turn` of `attempt`.
    pub(crate) fn of(attempt: &AttemptId, turn: u32, seq: u32) -> Self {
        Self(format!("{attempt}.{turn}.{seq}"))
    }
}

impl FromStr for RequestId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        checked(text, Self::MAX_LEN).map(Self)
    }
}

impl TryFrom<String> for RequestId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an attempt: the task's id and which try it is. The head of every [`RequestId`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct AttemptId(String);

impl AttemptId {
    /// So much room is left in a request id for the turn and the sequence number.
    const MAX_LEN: usize = RequestId::MAX_LEN - 2 * (1 + 10);

    pub(crate) fn new(task: &str, attempt: u32) -> Result<Self, InvalidId> {
        checked(&format!("{task}-{attempt}"), Self::MAX_LEN)
            .map(Self)
            .map_err(|_| InvalidId {
                text: task.to_owned(),
            })
    }
}

impl TryFrom<String> for AttemptId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        checked(&text, Self::MAX_LEN).map(Self)
    }
}

impl From<AttemptId> for String {
    fn from(id: AttemptId) -> Self {
        id.0
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn checked(text: &str, max: usize) -> Result<String, InvalidId> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    match !text.is_empty() && text.len() <= max && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(InvalidId {
            text: text.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_fits_where_ids_go() {
        let longest = "x".repeat(RequestId::MAX_LEN);
        for text in ["a", "task-1.12.3", "a_b:c.d-e", &longest] {
            assert_eq!(text.parse::<RequestId>().unwrap().as_str(), text);
        }
        for text in ["", " ", "a/b", "a\n", "ä", &format!("{longest}x")] {
            assert_eq!(
                text.parse::<RequestId>().unwrap_err(),
                InvalidId {
                    text: text.to_owned()
                }
            );
        }
    }

    #[test]
    fn the_longest_attempt_leaves_room_for_the_largest_numbers() {
        let task = "t".repeat(AttemptId::MAX_LEN - "-4294967295".len());
        let attempt = AttemptId::new(&task, u32::MAX).unwrap();
        let id = RequestId::of(&attempt, u32::MAX, u32::MAX);
        assert_eq!(id.as_str().parse::<RequestId>().unwrap(), id);
        assert_eq!(
            AttemptId::new(&format!("{task}t"), u32::MAX)
                .unwrap_err()
                .text
                .len(),
            task.len() + 1
        );
    }
}
