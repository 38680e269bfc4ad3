//! A run with everything settled: where its files are, and who posts what of it.

use std::time::Duration;

use polyaxon_client::ProjectRef;
use polyaxon_client::runs::Runs;

use crate::artifact::RunFolder;
use crate::ground::Created;

/// What the writer and the sender of a run have to know.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) folder: RunFolder,
    pub(crate) introduction: Introduction,
    /// How many values may wait.
    pub(crate) capacity: usize,
    /// How often the machine's load is measured.
    pub(crate) resources: Option<Duration>,
    /// Where the run is sent; `None` keeps it here.
    pub(crate) post: Option<Post>,
    /// The run, where this process has just created it on a server.
    pub(crate) created: Option<Created>,
}

impl Plan {
    pub(crate) fn resumes(&self) -> bool {
        self.post.as_ref().is_some_and(|post| post.resumes)
    }
}

/// What a run says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Introduction {
    pub(crate) project: Option<ProjectRef>,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// Where a run is sent, and what of it.
#[derive(Debug)]
pub(crate) struct Post {
    /// With connections of their own: they are used on a thread of their own.
    pub(crate) runs: Runs,
    pub(crate) namespace: String,
    /// The platform's name of the store that files end up in.
    pub(crate) store: Option<String>,
    pub(crate) duties: Duties,
    /// Whether what an earlier process left in the folder is sent too.
    pub(crate) resumes: bool,
    /// How long sending may go on once the run has ended.
    pub(crate) limit: Duration,
}

/// What this process does for its run. The rest is done by the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duties {
    /// In a pod of the run: the platform has its statuses, a container beside it the files and
    /// their lineage.
    Pod,
    /// In a pod of another run: a container beside it has the files.
    PodOfAnother,
    /// In a pod of the run, with nothing beside it: all but the statuses before the last.
    PodAlone,
    /// All of it, for a run that this process made.
    All,
    /// All but the statuses, for a run that somebody else made.
    Guest,
}

impl Duties {
    pub(crate) fn has_statuses(self) -> bool {
        matches!(self, Self::PodOfAnother | Self::All)
    }

    pub(crate) fn has_final_status(self) -> bool {
        self.has_statuses() || self == Self::PodAlone
    }

    pub(crate) fn has_uploads(self) -> bool {
        matches!(self, Self::All | Self::Guest | Self::PodAlone)
    }

    /// Whether the run's folder has its record while the run goes on: so one that was killed can
    /// be pushed, or gone on with. What a container beside the process collects has none.
    pub(crate) fn has_record(self) -> bool {
        self.has_uploads()
    }

    pub(crate) fn has_event_lineage(self) -> bool {
        self != Self::Pod
    }
}
