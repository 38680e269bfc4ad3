//! Query strings: what is taken is within its bounds, and read the same once more.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyaxon_local::fuzzing::{clean, query};

fuzz_target!(|text: &str| {
    let Some(read) = query(text) else { return };
    assert!(read.offset.is_none_or(|offset| i64::try_from(offset).is_ok()));
    assert!(read.length.is_none_or(|length| length >= 1));
    assert_ne!(read.tag.as_deref(), Some(""), "an empty parameter is none");
    if let Some(path) = &read.path {
        assert_eq!(clean(path).as_ref(), Some(path), "a clean path stays as it is");
    }
    // Encoded completely, a value comes back as it was.
    if let Some(tag) = &read.tag {
        let encoded: String = tag.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let again = query(&format!("tag={encoded}")).unwrap();
        assert_eq!(again.tag.as_ref(), Some(tag));
    }
});
