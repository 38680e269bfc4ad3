//! Signals by name and by number.

use rustix::process::Signal;

use crate::daemon::Refusal;

/// What a caller may send.
const ALLOWED: [(&str, Signal); 7] = [
    ("SIGINT", Signal::INT),
    ("SIGTERM", Signal::TERM),
    ("SIGKILL", Signal::KILL),
    ("SIGHUP", Signal::HUP),
    ("SIGQUIT", Signal::QUIT),
    ("SIGUSR1", Signal::USR1),
    ("SIGUSR2", Signal::USR2),
];

/// The signal that a caller may send by this name.
pub(crate) fn allowed(name: &str) -> Result<Signal, Refusal> {
    let found = ALLOWED.iter().find(|(known, _)| *known == name);
    found.map(|(_, signal)| *signal).ok_or_else(|| {
        let names = ALLOWED.map(|(name, _)| name).join(", ");
        Refusal::invalid(format!("signal: {name:?} is none of {names}"))
    })
}

/// `SIGKILL` for 9; `SIG(34)` for one without a name.
pub(crate) fn name(number: i32) -> String {
    let name = match Signal::from_named_raw(number) {
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::QUIT) => "SIGQUIT",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::TRAP) => "SIGTRAP",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::FPE) => "SIGFPE",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::USR1) => "SIGUSR1",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::USR2) => "SIGUSR2",
        Some(Signal::PIPE) => "SIGPIPE",
        Some(Signal::ALARM) => "SIGALRM",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::XCPU) => "SIGXCPU",
        Some(Signal::XFSZ) => "SIGXFSZ",
        Some(Signal::VTALARM) => "SIGVTALRM",
        Some(Signal::PROF) => "SIGPROF",
        Some(Signal::SYS) => "SIGSYS",
        _ => return format!("SIG({number})"),
    };
    name.to_owned()
}

/// 9 for `SIGKILL`.
pub(crate) fn number(text: &str) -> Option<i32> {
    (1..=64).find(|&number| name(number) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_sent_has_the_name_that_it_is_reported_by() {
        for (word, signal) in ALLOWED {
            assert_eq!(allowed(word).unwrap(), signal);
            assert_eq!(name(signal.as_raw()), word);
        }
        for word in ["", "TERM", "sigterm", "15", "SIGSTOP", "SIGNOPE"] {
            let refusal = format!("{:?}", allowed(word).unwrap_err());
            assert!(refusal.contains("invalid_request"), "{refusal}");
        }
        assert_eq!(name(34), "SIG(34)");
        assert_eq!(
            (number("SIG(34)"), number("SIGTERM"), number("")),
            (Some(34), Some(15), None)
        );
    }
}
