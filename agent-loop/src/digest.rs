//! Names of bytes: a digest, and the digest of a whole tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 of bytes. Written as 64 lower-case hex digits.
///
/// # Examples
/// ```
/// use agent_loop::Digest;
///
/// let empty = Digest::of(b"");
/// assert!(empty.to_string().starts_with("e3b0c44298fc1c14"));
/// assert_eq!(empty.to_string().parse(), Ok(empty));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of several parts, each with its length before it, so that no two lists of parts
    /// can have the same digest by moving bytes from one part to the next.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 hex digits: enough to tell digests apart in a line for people.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A turn has a dozen of them: at once, and not by the formatter of numbers.
        let digit = |value: u8| match value {
            0..10 => b'0' + value,
            _ => b'a' + (value - 10),
        };
        let mut digits = [0; 64];
        for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = [digit(byte >> 4), digit(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// A text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hex digits")]
#[non_exhaustive]
pub struct InvalidDigest;

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        fn digit(byte: u8) -> Option<u8> {
            match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None,
            }
        }
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(InvalidDigest);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)
                .zip(digit(*low))
                .map(|(h, l)| h << 4 | l)
                .ok_or(InvalidDigest)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

/// The digest of a manifest: of every path of a tree with its kind, mode, length and content.
///
/// Acceptance is bound to this and not to a patch, because different trees can have the same patch
/// as text: line ends, a missing final newline and bytes that are no UTF-8 are lost in a diff of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeHash(Digest);

impl TreeHash {
    pub(crate) fn new(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest itself.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0
    }
}

impl fmt::Display for TreeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_back_and_nothing_else_is_a_digest() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        let text = digest.to_string();
        for wrong in [
            "",
            &text[1..],
            &text.to_uppercase(),
            &format!("{text}0"),
            &text.replace('b', "g"),
        ] {
            assert_eq!(wrong.parse::<Digest>(), Err(InvalidDigest), "{wrong}");
        }
    }

    #[test]
    fn moving_a_byte_between_parts_changes_the_digest() {
        let ab_c = Digest::of_parts([b"ab".as_slice(), b"c"]);
        let a_bc = Digest::of_parts([b"a".as_slice(), b"bc"]);
        assert_ne!(ab_c, a_bc);
        assert_ne!(ab_c, Digest::of_parts([b"abc".as_slice()]));
    }
}
