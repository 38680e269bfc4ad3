//! The contract of a sandbox over every way to a service: through the gateway, at the daemon itself,
//! with TLS in front, and to services that differ where the wire leaves it open.
//!
//! What a service of some kind cannot fulfil is named with its way and its reason, and has to fail
//! there: an exception that is none any more is an error.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is a failed test"
)]

mod tls;
mod ways;

use std::future::Future;

use polyaxon_local::Quirk;
use polyaxon_tests::contract::{background, files, lifecycle, processes, pty, streams, transfers};
use polyaxon_tests::for_each_contract;

/// Runs one function of the contract. One that is named in `cannot` has to fail.
async fn check(
    name: &str,
    cannot: &[(&str, &str)],
    function: impl Future<Output = ()> + Send + 'static,
) {
    let Some((_, why)) = cannot.iter().find(|(other, _)| *other == name) else {
        return function.await;
    };
    let ended = tokio::spawn(function).await;
    assert!(
        ended.is_err_and(|error| error.is_panic()),
        "{name} works, although {why}"
    );
}

/// One test for each function of the contract, each with a sandbox of its own.
macro_rules! contract {
    (({$start:expr, $cannot:expr}) $($area:ident::$name:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            let way = $start.await;
            let sandbox = way.sandbox.clone();
            check(stringify!($name), $cannot, async move { $area::$name(&sandbox).await }).await;
        }
    )+};
}

/// Through the control plane's address, as anybody calls a deployment.
mod gateway {
    use super::*;
    for_each_contract!(contract, { ways::gateway(&[]), &[] });
}

/// At the daemon, as is possible inside of a cluster.
mod daemon {
    use super::*;
    for_each_contract!(contract, { ways::daemon(), &[] });
}

/// The gateway behind TLS, with a certificate of an authority of our own.
mod over_tls {
    use super::*;
    for_each_contract!(contract, { ways::tls(), &[] });
}

/// A service with less: no `follow`, no log pages but of background execs, tags that are labels.
mod poorer {
    use super::*;
    const QUIRKS: &[Quirk] = &[
        Quirk::NoFollow,
        Quirk::BackgroundLogsOnly,
        Quirk::TagsAreLabels,
        Quirk::BareReads,
    ];
    const CANNOT: &[(&str, &str)] = &[
        (
            "a_stream_goes_on_by_its_log_from_anywhere",
            "streamed execs have no log pages",
        ),
        (
            "output_that_was_cut_is_completed_by_the_log",
            "one-shot execs have no log pages",
        ),
        ("a_tag_that_is_taken_is_refused", "tags are labels"),
    ];
    for_each_contract!(contract, { ways::gateway(QUIRKS), CANNOT });
}

/// A service that writes otherwise: codes, exit codes, times, numbers.
mod other_spelling {
    use super::*;
    const QUIRKS: &[Quirk] = &[
        Quirk::OtherCodes,
        Quirk::ExitCodesOfShells,
        Quirk::OtherTimes,
        Quirk::NumbersAsText,
    ];
    const CANNOT: &[(&str, &str)] = &[
        ("failures_have_their_codes", "the codes are others"),
        (
            "a_command_that_cannot_start_is_not_applied",
            "a 500 with an unknown code says nothing of the effect",
        ),
    ];
    for_each_contract!(contract, { ways::gateway(QUIRKS), CANNOT });
}

/// A service that says less, and breaks characters.
mod terse {
    use super::*;
    const QUIRKS: &[Quirk] = &[
        Quirk::BareErrors,
        Quirk::NoExitCodes,
        Quirk::BrokenCharacters,
    ];
    const CANNOT: &[(&str, &str)] = &[
        ("failures_have_their_codes", "errors have no codes"),
        (
            "a_command_that_cannot_start_is_not_applied",
            "a 500 without a code says nothing of the effect",
        ),
    ];
    for_each_contract!(contract, { ways::gateway(QUIRKS), CANNOT });
}
