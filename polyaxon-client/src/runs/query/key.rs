//! Names of inputs, outputs and members of `meta_info` that a query and an order can say.

use crate::error::InvalidInput;

/// Words that the server takes for what is to be done with the map, and not for a key in it. Most
/// then find nothing, `gt` finds wrong runs, and `contains` and `isnull` end the call with a 500.
const LOOKUPS: [&str; 21] = [
    "contained_by",
    "contains",
    "endswith",
    "exact",
    "gt",
    "gte",
    "has_any_keys",
    "has_key",
    "has_keys",
    "icontains",
    "iendswith",
    "iexact",
    "in",
    "iregex",
    "isnull",
    "istartswith",
    "lt",
    "lte",
    "range",
    "regex",
    "startswith",
];

/// Whether a query can name this key.
///
/// # Errors
/// A problem that names the key where it cannot.
pub(super) fn check(key: &str) -> Result<(), InvalidInput> {
    let refuse = |why: &str| Err(InvalidInput::new("key", format!("{key:?} {why}")));
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let begins = key.bytes().next().is_some_and(letter);
    if !begins
        || !key
            .bytes()
            .all(|byte| letter(byte) || byte.is_ascii_digit())
    {
        return refuse(
            "cannot be queried or sorted by: only ASCII letters, digits and `_` can, a digit not first",
        );
    }
    if key.contains("__") {
        return refuse("cannot be queried or sorted by: two `_` lead into a map within the map");
    }
    if key.ends_with('_') {
        return refuse("cannot be queried or sorted by: it ends with `_`");
    }
    if LOOKUPS.contains(&key) {
        return refuse("is a word of the server's own, and cannot be queried or sorted by");
    }
    Ok(())
}
