//! Journals that earlier revisions have written.

use std::path::PathBuf;

use super::*;

/// Runs from before hidden stages were marked: the model was told then what a hidden stage without a
/// verdict had written, and functions were asked shown and other cases together.
#[test]
fn what_was_proved_before_hidden_stages_were_marked_still_is() {
    let leaked = "total([40, 2]) is 42";
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    for (name, leaks) in [("unittest", true), ("all", true), ("cases", false)] {
        let folder = root.join(name);
        let verification = verify(&folder).unwrap();
        assert!(verification.proves_acceptance(), "{name}: {verification}");
        assert_eq!(verification.verdicts, Recomputed::Yes, "{name}");
        let journal = ReadJournal::read(&folder).unwrap();
        let told = journal.known().any(|record| match &record.event {
            Event::Asked(asked) => asked.prompt.contains(leaked),
            _ => false,
        });
        assert_eq!(told, leaks, "{name}");
    }
}
