//! What every sandbox service has to do, as functions over a client: the local service now, a
//! deployed one where there is one.

pub mod files;
pub mod processes;

use polyaxon_sandbox::Error;

/// The cause of an error, as text.
fn cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}
