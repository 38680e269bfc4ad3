//! What the machine asks for.

use std::sync::Arc;
use std::time::Duration;

use super::check::Planned;
use crate::ids::RequestId;
use crate::journal::{Durability, Intended, SeedFile};
use crate::manifest::{File, Tree};
use crate::model::{Message, ModelRequest};
use crate::outcome::End;
use crate::path::RelPath;
use crate::policy::Approval;
use crate::workspace::Precondition;

/// What to do next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Ask the model, then call [`Machine::reply`].
    Ask(Arc<Question>),
    /// Wait, then call [`Machine::paused`]: `at_least`, or a chance part of `up_to` if longer.
    Pause { at_least: Duration, up_to: Duration },
    /// Ask a person, then call [`Machine::approved`].
    Wait(Approval),
    /// Do something to the workspace, then call [`Machine::answer`].
    Do { id: RequestId, effect: Effect },
    /// It is over.
    Done(End),
}

/// A question to the model.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(super) id: RequestId,
    pub(super) messages: [Message; 2],
    pub(super) schema: String,
    pub(super) seed: Option<u64>,
    pub(super) max_output_tokens: u32,
    pub(super) deadline: Duration,
}

impl Question {
    pub(crate) fn request(&self) -> ModelRequest<'_> {
        let mut request = ModelRequest::new(self.id.clone(), &self.messages)
            .schema(&self.schema)
            .max_output_tokens(self.max_output_tokens)
            .deadline(self.deadline);
        request.seed = self.seed;
        request
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }
}

/// Something to do to the workspace. There are no others.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Put the task's files where there are none, and read everything that is there.
    Open { seed: Tree },
    /// Read a file.
    Get { path: RelPath, max: u64 },
    /// Write a file.
    Put {
        path: RelPath,
        file: Arc<File>,
        before: Precondition,
    },
    /// Run one stage of a check in an empty place.
    Stage {
        check: Arc<Planned>,
        stage: usize,
        tree: Tree,
    },
    /// List the workspace.
    ReadBack,
}

impl Effect {
    /// Whether it changes the workspace, or runs what could.
    pub(super) fn changes_something(&self) -> bool {
        matches!(
            self,
            Self::Open { .. } | Self::Put { .. } | Self::Stage { .. }
        )
    }

    /// What is being done, for people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "taking over the workspace",
            Self::Get { .. } => "reading a file",
            Self::Put { .. } => "writing a file",
            Self::Stage { .. } => "running a check",
            Self::ReadBack => "listing the workspace",
        }
    }

    /// How it is written down, and how well before it is done: what only reads can be lost.
    pub(super) fn intended(&self) -> (Intended, Durability) {
        match self {
            Self::Open { seed } => {
                let files = seed.iter().map(|(path, file)| SeedFile {
                    path: path.clone(),
                    entry: file.entry(),
                });
                (
                    Intended::Open {
                        seed: files.collect(),
                    },
                    Durability::Synced,
                )
            }
            Self::Get { path, .. } => (Intended::Get { path: path.clone() }, Durability::Buffered),
            Self::Put { path, file, before } => {
                let intended = Intended::Put {
                    path: path.clone(),
                    before: *before,
                    after: file.digest(),
                    len: file.bytes().len() as u64,
                };
                (intended, Durability::Synced)
            }
            Self::Stage { check, stage, tree } => {
                let intended = Intended::Stage {
                    check: check.name.clone(),
                    stage: *stage,
                    plan: check.digest,
                    tree: tree.hash(),
                };
                (intended, Durability::Synced)
            }
            Self::ReadBack => (Intended::ReadBack, Durability::Buffered),
        }
    }
}
