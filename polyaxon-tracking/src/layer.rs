//! What a program says through `tracing`, in the log of its run.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::capture::LogCapture;

/// A layer of `tracing` that keeps events in the log of a run, a line each:
/// `INFO my_program: the message field=value`. Add a filter of `tracing-subscriber` to it for
/// fewer of them.
///
/// What this crate and its client say themselves is left out: it would come again and again. So
/// are lines that the run does not take any more; nobody could be told.
///
/// # Examples
/// ```
/// use polyaxon_tracking::{LogLayer, TrackedRun, Tracking};
/// use tracing_subscriber::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let run = TrackedRun::start(Tracking::offline(folder.path())).await?;
/// let layer = LogLayer::new(run.log_capture());
/// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
///     tracing::info!(target: "program", attempt = 2, "it worked");
/// });
/// run.end().await?.ensure_complete()?;
/// let log = std::fs::read_to_string(run.path().join("plxlogs/logs.jsonl"))?;
/// assert!(log.ends_with(r#""value":"INFO program: it worked attempt=2"}"#), "{log}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogLayer {
    capture: LogCapture,
}

impl LogLayer {
    /// A layer that keeps events in the log of the run that `capture` is of.
    #[must_use]
    pub fn new(capture: LogCapture) -> Self {
        Self { capture }
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let of_ours = ["polyaxon_tracking", "polyaxon_client"]
            .iter()
            .any(|name| metadata.target().starts_with(name));
        if of_ours {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let Text { message, fields } = text;
        let line = format!(
            "{} {}: {message}{fields}",
            metadata.level(),
            metadata.target()
        );
        // One line, whatever is in it.
        drop(self.capture.log(&line.replace(['\n', '\r'], " ")));
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
