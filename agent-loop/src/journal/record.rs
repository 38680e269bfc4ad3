//! The records of a journal.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::acceptance::{Level, PlanSummary, StageRun, Verdict};
use crate::budget::{Budget, Micros};
use crate::digest::{Digest, TreeHash};
use crate::ids::RequestId;
use crate::manifest::{Entry, Manifest, Tree};
use crate::model::{Finish, ModelError, ModelReply, Price, Usage};
use crate::outcome::{AcceptanceOutcome, End, Revisions, TaskRef};
use crate::path::RelPath;
use crate::policy::{Decision, Paths};
use crate::prompt::Order;
use crate::serde_as;
use crate::text::one_line;
use crate::workspace::{Capabilities, Precondition, StopState, WorkspaceError};

/// One record of a journal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Its number, from 0.
    pub seq: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

impl Record {
    /// Record number `seq`.
    #[must_use]
    pub fn new(seq: u64, at: Timestamp, event: Event) -> Self {
        Self { seq, at, event }
    }

    /// What the attempt is made of, where this is the record of it.
    pub(crate) fn started(&self) -> Option<&Started> {
        match &self.event {
            Event::Started(started) => Some(started),
            _ => None,
        }
    }
}

/// What happened.
///
/// The order in an attempt: `started`, then the intent and the receipt of taking over the
/// workspace, then for each turn `asked`, `replied` (both again for each retry, after `paused`),
/// `decided`, `approval` where a person was asked, `intent` and `receipt` for each thing done,
/// `prepared` between the two where it is a command, `placing` and `placed` before that where its
/// place is a fresh one, `judged` for each check, `turn`; at last `ended`. After the receipt, and
/// after what follows from it at once, comes `left` for a fresh place. Where the program was ended
/// and the attempt went on, there is a `resumed`, and `left` for what the earlier program has left.
///
/// What is in a record is enough to make all the others again: a machine that gets the answers
/// that are in `replied`, `receipt`, `approval` and `paused` makes the same records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The attempt begins.
    Started(Box<Started>),
    /// The model is asked.
    Asked(Asked),
    /// The model has answered, or the call has failed.
    Replied(Replied),
    /// What the reply is taken for, and whether it is done.
    Decided(Decided),
    /// A pause before the model is asked again is over.
    Paused(Paused),
    /// A person has decided.
    Approval(ApprovalRecord),
    /// Something is about to be done to the workspace.
    Intent(Intent),
    /// A fresh place is about to be asked for.
    Placing(Placing),
    /// A fresh place is there, and nothing was done in it so far.
    Placed(Placed),
    /// The place of a command is ready, and the command is about to be started.
    Prepared(Prepared),
    /// What came of it.
    Receipt(Receipt),
    /// The end of a fresh place was asked for.
    Left(Left),
    /// A check has a verdict.
    Judged(Judged),
    /// A turn is over.
    Turn(TurnEnded),
    /// The attempt goes on after its program was ended.
    Resumed(Resumed),
    /// The attempt is over.
    Ended(Ended),
    /// The end of the workspace was asked for again after the attempt was over.
    Stopped(Stopped),
}

impl Event {
    /// The word in `kind`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "started",
            Self::Asked(_) => "asked",
            Self::Replied(_) => "replied",
            Self::Decided(_) => "decided",
            Self::Paused(_) => "paused",
            Self::Approval(_) => "approval",
            Self::Intent(_) => "intent",
            Self::Placing(_) => "placing",
            Self::Placed(_) => "placed",
            Self::Prepared(_) => "prepared",
            Self::Receipt(_) => "receipt",
            Self::Left(_) => "left",
            Self::Judged(_) => "judged",
            Self::Turn(_) => "turn",
            Self::Resumed(_) => "resumed",
            Self::Ended(_) => "ended",
            Self::Stopped(_) => "stopped",
        }
    }
}

/// What an attempt is made of. The first record: nothing was done before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Started {
    /// The task and which try.
    pub task: TaskRef,
    /// What the model is told to do.
    pub text: String,
    /// What it is made with.
    pub revisions: Revisions,
    /// The files that may be written and read.
    pub paths: Paths,
    /// What it may use up.
    pub budget: Budget,
    /// Which actions are offered.
    pub order: Order,
    /// The first message.
    pub system: String,
    /// The task's files, which are put into the workspace.
    pub files: Tree,
    /// The checks with their plans.
    pub checks: BTreeMap<String, PlanSummary>,
    /// The check that is meant where the model names none.
    pub default_check: String,
    /// The evaluator.
    pub evaluator: Evaluator,
    /// How many policies there are beside the paths.
    pub policies: u32,
    /// Whether somebody answers what a policy asks.
    pub approver: bool,
    /// What the model's tokens cost, where that is known.
    pub price: Option<Price>,
    /// How long it took until the workspace was there, where the caller said so.
    #[serde(with = "serde_as::maybe_millis", rename = "provision_ms")]
    pub provision: Option<Duration>,
    /// Where it works.
    pub workspace: WorkspaceRecord,
    /// The digest of `workspace.json`, where there is one.
    pub workspace_json: Option<Digest>,
}

impl Started {
    /// In what two attempts differ, as a word: the first such part.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<&'static str> {
        let parts = [
            ("task", self.task == other.task && self.text == other.text),
            ("files of the task", self.files == other.files),
            (
                "revision of the repository",
                self.revisions.repository == other.revisions.repository,
            ),
            ("model", self.revisions.model == other.revisions.model),
            ("price of the model", self.price == other.price),
            (
                "prompt",
                self.system == other.system
                    && self.order == other.order
                    && self.revisions.prompt == other.revisions.prompt,
            ),
            ("paths", self.paths == other.paths),
            ("budget", self.budget == other.budget),
            (
                "acceptance",
                self.checks == other.checks
                    && self.default_check == other.default_check
                    && self.evaluator == other.evaluator,
            ),
            (
                "number of policies",
                self.policies == other.policies && self.approver == other.approver,
            ),
            ("workspace", self.workspace == other.workspace),
            (
                "workspace.json",
                self.workspace_json == other.workspace_json,
            ),
            ("revisions", self.revisions == other.revisions),
            ("start", self == other),
        ];
        let differs = parts.into_iter().find(|(_, same)| !same);
        differs.map(|(what, _)| what)
    }
}

/// Who judges, and how to make it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluator {
    /// Its revision.
    pub revision: Digest,
    /// The digest of its description, `acceptance.json`, where it can be made again from one.
    pub description: Option<Digest>,
}

/// Where an attempt works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkspaceRecord {
    /// What the workspace says of itself.
    pub identity: serde_json::Value,
    /// What it can do.
    pub capabilities: Capabilities,
}

impl WorkspaceRecord {
    /// As `workspace.json` has it: what the workspace says of itself, and beside it what it can do.
    pub(crate) fn flat(&self) -> serde_json::Value {
        let mut members = match &self.identity {
            serde_json::Value::Object(members) => members.clone(),
            serde_json::Value::Null => serde_json::Map::new(),
            other => [("identity".to_owned(), other.clone())]
                .into_iter()
                .collect(),
        };
        members.insert(
            "capabilities".to_owned(),
            serde_json::json!(self.capabilities),
        );
        members.into()
    }
}

/// A question to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Asked {
    /// The call.
    pub id: RequestId,
    /// The turn, from 1.
    pub turn: u32,
    /// The second message; the first is in the first record.
    pub prompt: String,
    /// The schema that was asked for.
    pub schema: String,
    /// The seed.
    pub seed: Option<u64>,
    /// An estimate of the tokens of both messages, from above.
    pub estimated_tokens: u64,
    /// How much time has passed since the start, without what passed between two programs.
    #[serde(with = "serde_as::millis", rename = "elapsed_ms")]
    pub elapsed: Duration,
}

/// How a call of the model ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Replied {
    /// The call.
    pub id: RequestId,
    /// The turn.
    pub turn: u32,
    /// How long it took.
    #[serde(with = "serde_as::millis", rename = "took_ms")]
    pub took: Duration,
    /// The reply or the failure.
    pub reply: ReplyRecord,
}

/// A reply, or a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReplyRecord {
    /// The model answered.
    #[non_exhaustive]
    Reply {
        /// The text, unchanged.
        text: String,
        /// Why it ends there.
        finish: Finish,
        /// Tokens.
        usage: Usage,
        /// Money, where the provider said so.
        cost: Option<Micros>,
        /// Who answered.
        served_by: Option<String>,
        /// How long the call waited.
        #[serde(with = "serde_as::maybe_millis", rename = "queue_ms")]
        queue: Option<Duration>,
    },
    /// The call failed.
    Failed(ModelError),
}

impl ReplyRecord {
    pub(crate) fn of(result: Result<ModelReply, ModelError>) -> Self {
        match result {
            Ok(reply) => Self::Reply {
                text: reply.text,
                finish: reply.finish,
                usage: reply.usage,
                cost: reply.cost,
                served_by: reply.served_by,
                queue: reply.queue,
            },
            Err(error) => Self::Failed(error),
        }
    }
}

/// A pause before the model is asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Paused {
    /// The turn.
    pub turn: u32,
    /// How long it was.
    #[serde(with = "serde_as::millis", rename = "took_ms")]
    pub took: Duration,
    /// How much time has passed since the start.
    #[serde(with = "serde_as::millis", rename = "elapsed_ms")]
    pub elapsed: Duration,
}

/// What a reply is taken for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decided {
    /// The turn.
    pub turn: u32,
    /// The action in a line, or nothing where the reply is no action.
    pub action: Option<String>,
    /// The defect of the reply, as a word.
    pub defect: Option<String>,
    /// What was decided.
    pub decision: Decision,
}

/// What a person has decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRecord {
    /// The turn.
    pub turn: u32,
    /// What was asked.
    pub question: String,
    /// The answer.
    pub granted: bool,
    /// How long it took.
    #[serde(with = "serde_as::millis", rename = "took_ms")]
    pub took: Duration,
}

/// Something that is about to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Intent {
    /// The request; also the tag of a command.
    pub id: RequestId,
    /// The turn; 0 before the first one.
    pub turn: u32,
    /// What.
    pub effect: Intended,
}

/// What is about to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Intended {
    /// Putting the task's files, and taking over everything that is there.
    #[non_exhaustive]
    Open {
        /// The task's files.
        seed: Vec<SeedFile>,
    },
    /// Reading a file.
    #[non_exhaustive]
    Get {
        /// Which.
        path: RelPath,
    },
    /// Writing a file.
    #[non_exhaustive]
    Put {
        /// Which.
        path: RelPath,
        /// What has to be there.
        before: Precondition,
        /// The digest of the new content.
        after: Digest,
        /// Its length.
        len: u64,
    },
    /// Running one stage of a check.
    #[non_exhaustive]
    Stage {
        /// The check.
        check: String,
        /// The number of the stage, from 0.
        stage: usize,
        /// The digest of the plan.
        plan: Digest,
        /// The digest of the files that are checked.
        tree: TreeHash,
    },
    /// Listing the workspace to compare it with what passed.
    ReadBack,
}

/// A file of the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SeedFile {
    /// Where.
    pub path: RelPath,
    /// What.
    pub entry: Entry,
}

/// A fresh place that is about to be asked for. Synced before anything is sent: where the answer
/// reaches nobody, what was made is found by this. Journals of before have none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Placing {
    /// The request that it is made for.
    pub id: RequestId,
    /// What it will be found by; null where nobody can find it.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub announced: serde_json::Value,
}

/// A fresh place that was made for a command. Synced before anything is done in it, so that whoever
/// cleans up after a program that was ended finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Placed {
    /// The request that it was made for.
    pub id: RequestId,
    /// What the place says of itself.
    pub identity: serde_json::Value,
}

impl Placed {
    /// The place in a line, for people.
    #[must_use]
    pub fn place(&self) -> String {
        place_in_a_line(&self.identity)
    }
}

/// What a place says of itself, in a line for people: the run of its sandbox where it has one.
pub(crate) fn place_in_a_line(identity: &serde_json::Value) -> String {
    let text = |name: &str| identity.get(name).and_then(serde_json::Value::as_str);
    let place = match (text("sandbox_run_uuid"), text("project")) {
        (Some(run), Some(project)) => format!("sandbox run {run} of {project}"),
        (Some(run), None) => format!("sandbox run {run}"),
        _ if identity.is_null() => "a place that says nothing of itself".to_owned(),
        _ => identity.to_string(),
    };
    one_line(&place, 160)
}

/// The end of a fresh place was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Left {
    /// The request that the place was made for.
    pub id: RequestId,
    /// How far the end has come. [`StopState::NotRequested`] where none was found that could be
    /// ended: perhaps it was never made, perhaps nobody can look it up.
    pub stop: StopState,
}

/// The place of a command, as it was when the command was about to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prepared {
    /// The request.
    pub id: RequestId,
    /// What the place can do.
    pub place: Capabilities,
    /// What the place says of itself; null where it says nothing.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub identity: serde_json::Value,
    /// What was in the copy.
    pub before: Manifest,
}

/// What came of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The request.
    pub id: RequestId,
    /// The turn.
    pub turn: u32,
    /// How long it took.
    #[serde(with = "serde_as::millis", rename = "took_ms")]
    pub took: Duration,
    /// What came of it.
    pub answer: Answer,
}

/// What a workspace answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one answer at a time, and what runs is what an attempt is about"
)]
#[non_exhaustive]
pub enum Answer {
    /// The workspace's files.
    Opened(Tree),
    /// The content of a file.
    Got(#[serde(with = "serde_as::bytes")] Vec<u8>),
    /// The file is written.
    Put,
    /// The stage has run.
    Stage(StageRun),
    /// What is there.
    Listed(Manifest),
    /// It did not work.
    Failed(WorkspaceError),
    /// The program was ended before there was an answer. Written when the attempt goes on.
    Interrupted,
}

impl Answer {
    /// The answer as it is read back after it was written down.
    pub(crate) fn written_down(mut self) -> Self {
        if let Self::Stage(run) = &mut self {
            let receipt = &mut run.receipt;
            receipt.duration = serde_as::millis::cut(receipt.duration);
            receipt.queue = receipt.queue.map(serde_as::millis::cut);
        }
        self
    }
}

/// The verdict of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judged {
    /// The first stage of the check.
    pub id: RequestId,
    /// The turn.
    pub turn: u32,
    /// The check.
    pub check: String,
    /// What it says.
    pub verdict: Verdict,
    /// The digest of the files that it is about.
    pub tree: TreeHash,
    /// The digest of the plan.
    pub plan: Digest,
    /// The revision of the evaluator.
    pub evaluator: Digest,
    /// The digest of the stages that have run.
    pub evidence: Digest,
    /// What a pass is worth.
    pub level: Option<Level>,
}

/// A turn that is over: one reply of the model, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnEnded {
    /// The turn, from 1.
    pub turn: u32,
    /// The action in a line, or nothing where the reply is no action.
    pub action: Option<String>,
    /// What came of it.
    pub result: TurnResult,
    /// More, for people. Where the action was not done, this is what the model is told.
    pub said: String,
    /// How long it took, from the question on.
    #[serde(with = "serde_as::millis", rename = "took_ms")]
    pub took: Duration,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TurnResult {
    /// The file was read, or written.
    Done,
    /// The check passed.
    Pass,
    /// The check failed.
    Fail,
    /// The check gave no verdict.
    Invalid,
    /// The work is finished and accepted.
    Accepted,
    /// The reply is no action.
    NotAnAction,
    /// The action is not allowed, or not now.
    Refused,
    /// The workspace did not do it.
    Failed,
}

impl TurnResult {
    /// A word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
            Self::Accepted => "accepted",
            Self::NotAnAction => "not an action",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// The attempt goes on in another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resumed {
    /// How many bytes at the end of the journal were no whole record, and were cut off.
    pub torn_bytes: u64,
}

/// The end of the workspace was asked for again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stopped {
    /// How far it has come.
    pub stop: StopState,
}

/// How the attempt ended. The last record, but for [`Stopped`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// Why.
    pub end: End,
    /// Whether the change is accepted.
    pub acceptance: AcceptanceOutcome,
    /// Replies of the model.
    pub turns: u32,
    /// The digest of the files before.
    pub base: TreeHash,
    /// The digest of the files as they are now, as far as the loop knows them.
    pub tree: TreeHash,
    /// The digest of the patch between the two.
    pub patch_sha256: Digest,
    /// How far the end of the workspace has come.
    pub stop: StopState,
    /// How much time had passed since the start when it was decided.
    #[serde(with = "serde_as::millis", rename = "elapsed_ms")]
    pub elapsed: Duration,
    /// How much had passed when everything else was written down.
    #[serde(with = "serde_as::millis", rename = "total_ms")]
    pub total: Duration,
    /// Whether the files are kept in the folder of the run.
    pub files_kept: bool,
    /// What could not be written down until then.
    pub evidence_errors: Vec<String>,
}
