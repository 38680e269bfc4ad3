//! What callers call their execs.

use crate::daemon::Refusal;

const MAX: usize = 128;

/// A tag that matches `[A-Za-z0-9_.:-]{1,128}`.
pub(crate) fn check(tag: &str) -> Result<(), Refusal> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    match (1..=MAX).contains(&tag.len()) && tag.bytes().all(fits) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!(
            "tag: {tag:?} is not one to {MAX} of A-Z, a-z, 0-9, `_`, `.`, `:` and `-`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_made_of_a_few_characters() {
        for tag in ["a", "A.z:0_9-", &"x".repeat(128)] {
            check(tag).unwrap();
        }
        for tag in ["", " ", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            let refusal = format!("{:?}", check(tag).unwrap_err());
            assert!(refusal.contains("invalid_request"), "{refusal}");
        }
    }
}
