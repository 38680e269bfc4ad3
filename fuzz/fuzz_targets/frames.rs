//! Text frames of a terminal, both ways: what is read is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyaxon_sandbox::pty::{PtyControl, PtyEvent};

fuzz_target!(|text: &str| {
    if let Ok(event) = PtyEvent::parse(text) {
        let written = event.to_string();
        assert!(!written.contains('\n'), "a frame is one line");
        assert_eq!(PtyEvent::parse(&written).unwrap(), event, "{written}");
    }
    if let Ok(control) = PtyControl::parse(text) {
        let written = control.to_string();
        assert_eq!(PtyControl::parse(&written).unwrap(), control, "{written}");
    }
});
