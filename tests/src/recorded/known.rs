//! Differences that are meant, and why they are. A difference without a reason fails the test.

use std::fmt;

/// Why something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Why {
    /// The crate does it otherwise: the row of its page of deviations that begins so.
    Deviation(&'static str),
    /// Nothing that a run could make again.
    Recording(&'static str),
}

use Why::{Deviation, Recording};

const LANGUAGE: Why = Deviation("`env.json` has arguments, an interpreter and its packages");
const COLLISION: Why = Deviation("two names that are stored as one share a file");
const EMPTY: Why = Deviation("a name of which nothing is left");
const EXACT: Why = Deviation("last values and summaries can be off by one");
const BAR: Why = Deviation("a bar in a payload breaks its line for every reader");
const CSV: Why = Deviation("a default table has the extension `V1ArtifactKind.CSV`");
const RAW: Why = Deviation("raw lineage records can lack a direction and have unknown kinds");
const OBJECTS: Why = Deviation("the hash of an object is that of its text in Python");
const TENSORBOARDS: Why = Deviation("only the first `TensorBoard` of a run is registered");
const ARCHIVE_UP: Why = Deviation("an archive replaces the run's whole folder on the server");
const ARCHIVE_DOWN: Why = Deviation("a pull fetches one archive");
const RESUMED: Why = Deviation("a push that broke off cannot be resumed");
const SENT: Why = Deviation("a folder does not say what of it a server has");
const ONCE: Why = Deviation("a value that is told by `log_metric` is posted as an output");
const COLLECTED: Why = Deviation("events can be switched off");
const SOMEBODYS: Why = Deviation("a run of somebody else logs no events unless told to");
const CHECKED: Why = Deviation("an existing run that cannot be found fails later");
const NOTHING: Why = Deviation("a change of nothing is sent");
const NOT_JSON: Why = Deviation("a value without a form in JSON drops the whole call");
const OWN_RECORD: Why = Recording("the second push of Python sends what its first one got back");
const MISSING: Why =
    Recording("it has the summaries of these two series of events, but not their files");

/// The page of the crate that says what it does otherwise.
const PAGE: &str = include_str!("../../../polyaxon-tracking/src/deviations.rs");

impl Why {
    /// What the crate does instead, as its page says; `None` where that says nothing of it.
    #[must_use]
    pub fn decision(self) -> Option<&'static str> {
        match self {
            Recording(fact) => Some(fact),
            Deviation(there) => decision_on(there),
        }
    }
}

/// What the page of deviations says that is done here, where Python does what begins so.
#[must_use]
pub fn decision_on(there: &str) -> Option<&'static str> {
    PAGE.lines().find_map(|line| {
        let row = line.strip_prefix("//! | ")?.strip_suffix(" |")?;
        let (left, right) = row.split_once(" | ")?;
        left.starts_with(there).then_some(right)
    })
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deviation(there) => {
                let here = self.decision().unwrap_or("NOT ON THE PAGE");
                write!(f, "there: {there}; here: {here}")
            }
            Recording(fact) => write!(f, "the recording: {fact}"),
        }
    }
}

/// Why a file of a case differs.
pub(super) fn file(case: &str, path: &str) -> Option<Why> {
    let is_metadata = path.ends_with(".plx.json");
    Some(match (case, path) {
        (_, "outputs/env.json") if case != "offline-refs" => LANGUAGE,
        ("offline-metric-values", _) if is_metadata => EXACT,
        ("offline-metric-names", "events/metric/__x__.plx" | "events/metric/__abs__path.plx") => {
            MISSING
        }
        ("offline-metric-names", _) => COLLISION,
        ("offline-metric-name-empty", _) => EMPTY,
        ("offline-structured", "events/confusion/conf_q.plx" | "lineages.plx.json") => BAR,
        ("offline-structured", "events/metric/curve.plx" | "run.plx.json") => COLLISION,
        ("offline-media", "events/dataframe/df.plx") => CSV,
        ("offline-media", _) if path.starts_with("assets/dataframe/df_1.") => CSV,
        ("offline-artifacts", "assets/bogus/badkind_1.v1.bin") => RAW,
        ("offline-artifacts", _) => COLLISION,
        ("offline-refs", "lineages.plx.json") => RAW,
        ("push-offline", "sent.plx.json") => SENT,
        ("online-metric-values", "events/text/dup.plx") => COLLISION,
        ("online-status", _) => COLLECTED,
        ("online-existing-run", _) => SOMEBODYS,
        _ => return None,
    })
}

/// Why a request of a case differs.
pub(super) fn request(case: &str, request: &str, problem: &str) -> Option<Why> {
    let has = |part: &str| request.contains(part);
    let extra = problem == "is made here only";
    Some(match case {
        "push-offline" if has("/artifact") && !has("/lineage/") => ARCHIVE_UP,
        "push-offline" if has("/sync?") => OWN_RECORD,
        "push-offline" if extra => RESUMED,
        "pull-remote" if has("/artifact") => ARCHIVE_DOWN,
        "online-default" if has(r#""outputs":{"loss":0.25}"#) => ONCE,
        "online-metric-values" if has(r#""outputs":{"dup":1.0,"s":1.5"#) => ONCE,
        "online-metric-values" => COLLISION,
        "online-existing-run" if extra && has("GET /api") => CHECKED,
        "online-status" if extra => COLLECTED,
        "online-existing-run" if extra => SOMEBODYS,
        "online-refs" if has("dataset3") => OBJECTS,
        "online-refs" if has("tensorboard") => TENSORBOARDS,
        "online-refs" if has("bogus-kind") || has(r#""name":"m1""#) || has(r#""name":"m2""#) => RAW,
        "online-io" if has("? {}") => NOTHING,
        "online-io" if has(r#""e":3"#) => COLLISION,
        "online-io" if extra && (has("np32") || has("obj")) => NOT_JSON,
        _ => return None,
    })
}
