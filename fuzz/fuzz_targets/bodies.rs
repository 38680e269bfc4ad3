//! JSON bodies: no command that breaks a limit, or that the kernel could not take, is let through.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyaxon_local::FaultRule;
use polyaxon_local::fuzzing::{exec, other_bodies};

fuzz_target!(|bytes: &[u8]| {
    assert!(other_bodies(bytes) <= 4);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _refused_or_not = FaultRule::parse_all(text);
    }
    let Some(taken) = exec(bytes) else { return };
    let words = &taken.words;
    assert!(!words[0].is_empty() && words.len() <= 256);
    assert!(words.iter().map(String::len).sum::<usize>() <= 4096);
    assert!(words.iter().all(|word| !word.contains('\0')));
    assert!(taken.names.len() <= 256);
    for name in &taken.names {
        assert!(!name.is_empty() && name.len() <= 256 && !name.contains(['=', '\0']));
        assert!(!name.starts_with("POLYAXON_"));
    }
    let workdir = taken.workdir.as_deref().unwrap_or("/");
    assert!(workdir.starts_with('/') && !workdir.split('/').any(|part| part == ".."));
    assert!(taken.stdin.is_none_or(|stdin| !stdin.is_empty() && stdin.len() <= 8 << 20));
    assert!((1..=300_000).contains(&taken.timeout_ms));
});
