//! The platform's kinds of artifacts and events, and where and how the events of each are kept.

use serde::{Deserialize, Serialize};

use crate::name::Name;

macro_rules! kinds {
    ($($kind:ident => $word:literal),* $(,)?) => {
        /// The platform's kinds of artifacts. The words are the wire's own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the variants are the platform's own words")]
        pub enum ArtifactKind {
            $(#[serde(rename = $word)] $kind,)*
        }

        impl ArtifactKind {
            /// The wire's word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }

            /// All of them.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    Analysis => "analysis",
    Artifact => "artifact",
    Audio => "audio",
    Chart => "chart",
    Coderef => "coderef",
    Confusion => "confusion",
    Csv => "csv",
    Curve => "curve",
    Data => "data",
    Dataframe => "dataframe",
    Dir => "dir",
    DockerImage => "docker_image",
    Dockerfile => "dockerfile",
    Env => "env",
    File => "file",
    Histogram => "histogram",
    Html => "html",
    Image => "image",
    Iteration => "iteration",
    Markdown => "markdown",
    Metric => "metric",
    Model => "model",
    Psv => "psv",
    Span => "span",
    Ssv => "ssv",
    System => "system",
    Table => "table",
    Tensor => "tensor",
    Tensorboard => "tensorboard",
    Text => "text",
    Tsv => "tsv",
    Video => "video",
}

impl ArtifactKind {
    /// Whether an event of this kind is a JSON object on a line of its own. The others are fields
    /// between bars.
    pub(crate) const fn is_json_lines(self) -> bool {
        matches!(self, Self::Html | Self::Text | Self::Chart | Self::Span)
    }

    /// What the platform's pages look for before they ask for events of this kind.
    pub(crate) const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Metric => &["has_metrics", "has_events"],
            Self::Model => &["has_model"],
            Self::Span => &["has_traces", "has_events"],
            _ => &["has_events"],
        }
    }
}

impl std::fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which series of lines: a file of the run that is only ever appended to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    pub(crate) place: Place,
    pub(crate) name: Name,
}

/// A series of a metric while the run is in this process: which one of all, in the order of their
/// first values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetricId(pub(crate) usize);

/// Where in the run's folder a series is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Events(ArtifactKind),
    /// Metrics of the machine.
    Resources,
    /// Lines of output.
    Logs,
}

/// What the files of one kind of events end with.
pub(crate) const EXTENSION: &str = "plx";

impl SeriesKey {
    pub(crate) fn event(kind: ArtifactKind, name: Name) -> Self {
        Self {
            place: Place::Events(kind),
            name,
        }
    }

    /// The path below the run's folder.
    pub(crate) fn path(&self) -> String {
        let name = self.name.as_str();
        match self.place {
            Place::Logs => format!("plxlogs/{name}.jsonl"),
            place => format!("{}/{name}.{EXTENSION}", place.folder()),
        }
    }

    /// What a new file begins with.
    pub(crate) fn header(&self) -> String {
        match self.place {
            Place::Logs => String::new(),
            Place::Resources => header(ArtifactKind::Metric),
            Place::Events(kind) => header(kind),
        }
    }
}

impl Place {
    /// The folder of its files, below the run's.
    pub(crate) fn folder(self) -> String {
        match self {
            Self::Events(kind) => format!("events/{kind}"),
            Self::Resources => "resources/metric".to_owned(),
            Self::Logs => "plxlogs".to_owned(),
        }
    }

    /// The kind that the lineage names.
    pub(crate) fn lineage_kind(self) -> ArtifactKind {
        match self {
            Self::Events(kind) => kind,
            Self::Resources | Self::Logs => ArtifactKind::System,
        }
    }

    /// The kind whose form the lines have.
    pub(crate) fn line_kind(self) -> ArtifactKind {
        match self {
            Self::Events(kind) => kind,
            Self::Resources | Self::Logs => ArtifactKind::Metric,
        }
    }

    /// Whether its lines count as values of the run.
    pub(crate) fn is_event(self) -> bool {
        matches!(self, Self::Events(_))
    }
}

/// The first line of the event files of a kind; nothing where every line speaks for itself.
pub(crate) fn header(kind: ArtifactKind) -> String {
    match kind.is_json_lines() {
        true => String::new(),
        false => format!("step|timestamp|{kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_written_in_the_platforms_words() {
        let words = "model audio video histogram image tensor dataframe chart csv tsv psv ssv metric \
            env html text file dir dockerfile docker_image data coderef table tensorboard curve \
            confusion analysis iteration markdown system artifact span";
        for word in words.split(' ') {
            let kind: ArtifactKind = serde_json::from_value(word.into()).unwrap();
            assert_eq!(serde_json::to_value(kind).unwrap(), word);
            assert_eq!(kind.as_str(), word);
        }
        assert_eq!(words.split(' ').count(), ArtifactKind::ALL.len());
        assert_eq!(ArtifactKind::ALL.len(), 32);
    }

    #[test]
    fn each_kind_of_series_has_its_place() {
        let name: Name = crate::name::Names::default()
            .claim_one(crate::NameUse::Metric, "a.b")
            .unwrap();
        let key = |place| SeriesKey {
            place,
            name: name.clone(),
        };
        let table = [
            (
                Place::Events(ArtifactKind::Metric),
                "events/metric/a-b.plx",
                "step|timestamp|metric",
            ),
            (Place::Events(ArtifactKind::Span), "events/span/a-b.plx", ""),
            (
                Place::Resources,
                "resources/metric/a-b.plx",
                "step|timestamp|metric",
            ),
            (Place::Logs, "plxlogs/a-b.jsonl", ""),
        ];
        for (place, path, header) in table {
            assert_eq!(key(place).path(), path);
            assert_eq!(key(place).header(), header);
        }
    }
}
