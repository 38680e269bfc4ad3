//! Stands between a model's call and a command: authorises, carries out once, and translates.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::lock;
use jiff::Timestamp;
use polyaxon_sandbox::ExecResult;
use polyaxon_sandbox::process::Termination;
use tokio::time::Instant;

use super::answer::{ArtifactLink, ToolAnswer, ToolCall, ToolOutcome};
use super::contract::{ContractError, Evaluation, Limits, Tool, ToolDefinition};
use super::execution::{Execution, Trouble, Unfetched};
use super::inputs::ApprovedInputs;
use super::receipts::{CallReceipt, CallState, Key, Receipts};
use super::record::{CallObserver, CallRecord, CommandFacts};
use super::registered::{Prepared, Registered};
use super::session::Session;
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::private::Private;
use crate::text;

/// Carries out calls of tools: what is not allowed is refused, nothing is done twice, and what comes
/// back can be shown to a model.
///
/// | first | then |
/// |---|---|
/// | the tool is there for this session | else *refused*; one that others may call is as if it were not there |
/// | the arguments are within their size, and are what the type says | else *refused*, with the defect |
/// | the inputs are approved for the tenant | else *refused* |
/// | there is a receipt with an answer to this request id | that answer, and nothing else |
/// | there is one without an answer | the command is looked for in the sandbox; where it is not there, only a [repeatable](super::Contract::repeatable) one is started again |
/// | files and command | in a folder of its own, within the deadline |
/// | the command was ended at its limit, or failed | *timed out*, *failed*: a fixed sentence and a code |
/// | its result is whole, within its size, and what the type says | else *failed*; a part of a result is never read |
/// | the evaluator accepts it | *succeeded*, else *rejected* |
///
/// What is *refused*, or *failed* before its command was started, leaves no receipt: the request
/// can be made again. All else is final, but for *uncertain*.
pub struct Controller {
    tools: BTreeMap<String, Registered>,
    inputs: ApprovedInputs,
    receipts: Receipts,
    observers: Vec<Arc<dyn CallObserver>>,
    /// Who is at a call; the next one with the same key waits.
    turns: Mutex<HashMap<Key, Weak<lock::Mutex<()>>>>,
}

impl Controller {
    /// A controller without tools, which keeps these receipts.
    #[must_use]
    pub fn new(receipts: Receipts) -> Self {
        Self {
            tools: BTreeMap::new(),
            inputs: ApprovedInputs::new(),
            receipts,
            observers: Vec::new(),
            turns: Mutex::default(),
        }
    }

    /// Registers a tool.
    ///
    /// # Errors
    /// Where its contract cannot be kept, its arguments are open, or its name is taken.
    pub fn tool<T: Tool>(mut self, tool: T) -> Result<Self, ContractError> {
        let registered = Registered::new(tool)?;
        let name = registered.contract().name.clone();
        if self.tools.contains_key(&name) {
            return Err(ContractError::Taken { name });
        }
        self.tools.insert(name, registered);
        Ok(self)
    }

    /// Sets what tenants may work on. Default: nothing.
    #[must_use]
    pub fn inputs(mut self, inputs: ApprovedInputs) -> Self {
        self.inputs = inputs;
        self
    }

    /// Adds somebody who sees every call.
    #[must_use]
    pub fn observer(mut self, observer: impl CallObserver + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// The tools that a session may call, for its model.
    #[must_use]
    pub fn definitions(&self, session: &Session) -> Vec<ToolDefinition> {
        let tools = self.tools.values();
        tools
            .filter(|tool| session.is_among(tool.contract().callers.as_ref()))
            .map(Registered::definition)
            .collect()
    }

    /// The digest of the definitions of all tools, with their limits.
    #[must_use]
    pub fn definitions_digest(&self) -> Digest {
        let texts: Vec<String> = self.tools.values().map(Registered::revision).collect();
        Digest::of_parts(texts.iter().map(String::as_bytes))
    }

    /// The receipts: which calls are open, and to forget one.
    #[must_use]
    pub fn receipts(&self) -> &Receipts {
        &self.receipts
    }

    /// Carries out a call. Whatever happens is an answer.
    ///
    /// Of several calls with one request id, one is carried out, and all get its answer.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the receipt without an answer; a command that was started goes on
    /// until its time limit. The same request, made again, finds it.
    pub async fn call(&self, session: &Session, call: &ToolCall) -> ToolAnswer {
        let (at, started) = (Timestamp::now(), Instant::now());
        let answered = self.answered(session, call, started).await;
        let answer = ToolAnswer {
            request_id: call.request_id.clone(),
            outcome: answered.outcome,
            summary: answered.summary,
            artifacts: answered.artifacts,
        };
        let record = CallRecord {
            at,
            request_id: call.request_id.clone(),
            tool: text::one_line(&text::printable(call.tool.as_bytes()), 64),
            tenant: session.tenant().clone(),
            project: session.project().to_string(),
            execution_run_uuid: session.run_uuid(),
            arguments_sha256: Digest::of(call.arguments.as_bytes()),
            outcome: answer.outcome,
            evaluator_passed: answered.evaluator_passed,
            took: started.elapsed(),
            command: answered.command,
            repeated: answered.repeated,
            artifacts: answer.artifacts.iter().map(|link| link.sha256).collect(),
            detail: answered.detail,
        };
        for observer in &self.observers {
            observer.on_call(&record, &answer);
        }
        answer
    }

    /// The bytes of an artifact of an answer that this tenant got; `None` where there is none of
    /// that name.
    ///
    /// # Errors
    /// Where it cannot be read, or is not what it was any more.
    pub fn artifact(
        &self,
        session: &Session,
        request: &RequestId,
        name: &str,
    ) -> io::Result<Option<Vec<u8>>> {
        let key = Key::of(session.tenant(), request);
        let Some(receipt) = self.receipts.find(key)? else {
            return Ok(None);
        };
        let CallState::Answered(answer) = receipt.state else {
            return Ok(None);
        };
        let Some(link) = answer.artifacts.iter().find(|link| link.name == name) else {
            return Ok(None);
        };
        let bytes = self.receipts.kept(key, &link.name)?;
        match Digest::of(&bytes) == link.sha256 {
            true => Ok(Some(bytes)),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the artifact has changed since it was kept",
            )),
        }
    }

    async fn answered(&self, session: &Session, call: &ToolCall, started: Instant) -> Answered {
        let tool = self.tools.get(&call.tool);
        let Some(tool) = tool.filter(|tool| session.is_among(tool.contract().callers.as_ref()))
        else {
            return Answered::refused("there is no such tool");
        };
        let limits = &tool.contract().limits;
        let length = call.arguments.len();
        if length > limits.request_bytes {
            let limit = limits.request_bytes;
            return Answered::refused(&format!(
                "the arguments have {length} bytes, and at most {limit} are taken"
            ));
        }
        let prepared = match tool.prepare(&call.arguments, &self.inputs, session.tenant()) {
            Ok(prepared) => prepared,
            Err(refusal) => return Answered::refused(&refusal.feedback),
        };
        let key = Key::of(session.tenant(), &call.request_id);
        let turn = self.turn(key);
        let _alone = turn.lock().await;
        let found = match self.receipts.find(key) {
            Ok(found) => found,
            // It may have been answered.
            Err(error) => return Answered::uncertain("TL-RECEIPT", Private::from_error(&error)),
        };
        let has_started = match found {
            None => false,
            Some(found) if found.call != call.digest() => {
                return Answered::refused("the request id belongs to another call");
            }
            Some(CallReceipt {
                state: CallState::Answered(answer),
                ..
            }) => return Answered::again(answer),
            Some(found) if found.state == CallState::Starting => {
                if found.run != session.run_uuid() {
                    let detail = format!("it was started in run {}", found.run);
                    return Answered::uncertain("TL-RUN", Private::new(detail));
                }
                true
            }
            Some(_) => false,
        };
        let tag = key.tag();
        let carrying_out = CarryingOut {
            controller: self,
            session,
            call,
            tool,
            key,
            execution: Execution {
                sandbox: session.sandbox(),
                request_id: &call.request_id,
                tag: &tag,
                limits,
                deadline: started + limits.deadline,
                repeatable: tool.contract().repeatable,
            },
        };
        carrying_out.go(prepared, has_started).await
    }

    /// What the calls with this key wait for.
    fn turn(&self, key: Key) -> Arc<lock::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("tools", &self.tools.keys())
            .finish_non_exhaustive()
    }
}

/// A call that is allowed, and has no answer yet.
struct CarryingOut<'a> {
    controller: &'a Controller,
    session: &'a Session,
    call: &'a ToolCall,
    tool: &'a Registered,
    key: Key,
    execution: Execution<'a>,
}

impl CarryingOut<'_> {
    async fn go(&self, prepared: Prepared, has_started: bool) -> Answered {
        let found = match has_started {
            false => None,
            true => match self.execution.find().await {
                Ok(found) => found,
                Err(detail) => return Answered::uncertain("TL-LOST", detail),
            },
        };
        let ended = match found {
            Some(exec) => self.execution.end_of(&exec).await,
            None if has_started && !self.tool.contract().repeatable => {
                let detail = "its start was written down, and there is no such command";
                return Answered::uncertain("TL-LOST", Private::new(detail));
            }
            None => match self.start(&prepared).await {
                Ok(ended) => ended,
                Err(answered) => return answered,
            },
        };
        match ended {
            Ok(result) => self.conclude(prepared, &result).await,
            Err(Trouble::Unknown(detail)) => Answered::uncertain("TL-LOST", detail),
            Err(Trouble::NotStarted(detail)) => self.not_started("TL-START", detail),
        }
    }

    /// Puts the files, and then starts the command, each with its receipt before it.
    async fn start(&self, prepared: &Prepared) -> Result<Result<ExecResult, Trouble>, Answered> {
        self.write(CallState::Preparing)
            .map_err(|error| Answered::failed("TL-RECEIPT", NOTHING_DONE, Some(private(&error))))?;
        if let Err(detail) = self.execution.put(&prepared.files).await {
            return Err(self.not_started("TL-FILES", detail));
        }
        if let Err(error) = self.write(CallState::Starting) {
            return Err(self.not_started("TL-RECEIPT", private(&error)));
        }
        Ok(self.execution.run(&prepared.command).await)
    }

    /// Nothing was started, so that the request can be made again.
    fn not_started(&self, code: &str, detail: Private) -> Answered {
        match self.controller.receipts.withdraw(self.key) {
            Ok(_) => Answered::failed(code, NOTHING_DONE, Some(detail)),
            // The receipt says that it may have been.
            Err(error) => Answered::uncertain("TL-RECEIPT", private(&error)),
        }
    }

    /// Translates the end of the command, keeps the answer, and cleans up.
    async fn conclude(&self, prepared: Prepared, result: &ExecResult) -> Answered {
        let answered = self.translated(prepared, result).await;
        let mut answered = Answered {
            command: Some(CommandFacts::of(result)),
            ..answered
        };
        if answered.outcome == ToolOutcome::Uncertain {
            return answered;
        }
        let answer = ToolAnswer {
            request_id: self.call.request_id.clone(),
            outcome: answered.outcome,
            summary: answered.summary.clone(),
            artifacts: answered.artifacts.clone(),
        };
        if let Err(error) = self.write(CallState::Answered(answer)) {
            // The record of the command stays in the sandbox, and the next call finds it.
            answered.detail.get_or_insert_with(|| private(&error));
            return answered;
        }
        // A command that must not be done twice stays on record as long as the sandbox lives.
        let record = self.tool.contract().repeatable.then_some(result);
        if let Err(error) = self.execution.clean(record).await {
            let detail = || Private::from_error(&error);
            answered.detail.get_or_insert_with(detail);
        }
        answered
    }

    async fn translated(&self, prepared: Prepared, result: &ExecResult) -> Answered {
        let limits = &self.tool.contract().limits;
        match &result.termination {
            Termination::TimedOut => return Answered::timed_out(limits),
            Termination::Exited(0) => {}
            Termination::Exited(_) | Termination::Signaled(_) => {
                let said = text::tail(&result.stderr.text_lossy(), Private::MAX_LEN).to_owned();
                return Answered::failed("TL-EXIT", "the tool failed", Some(Private::new(said)));
            }
        }
        let bytes = match &prepared.command.result_file {
            None if result.stdout.is_truncated() => {
                return Answered::too_large("result", limits.result_bytes as u64, None);
            }
            None if result.stdout.is_lossy() => return Answered::unreadable("it is not UTF-8"),
            None => result.stdout.bytes().to_vec(),
            Some(path) => {
                let max = limits.result_bytes as u64;
                match self.execution.fetch(path, max).await {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => return Answered::unreadable("there is no file"),
                    Err(unfetched) => return Answered::unfetched(unfetched, "result", max),
                }
            }
        };
        let evaluation = match (prepared.evaluate)(&bytes) {
            Ok(evaluation) => evaluation,
            Err(error) => return Answered::unreadable(&error.to_string()),
        };
        match self.artifacts().await {
            Ok(artifacts) => Answered::evaluated(&evaluation, artifacts, limits),
            Err(answered) => answered,
        }
    }

    /// Fetches and keeps what the contract names, as far as the command has left it.
    async fn artifacts(&self) -> Result<Vec<ArtifactLink>, Answered> {
        let mut links = Vec::new();
        for (name, kept) in &self.tool.contract().artifacts {
            let bytes = match self.execution.fetch(&kept.path, kept.max).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(unfetched) => return Err(Answered::unfetched(unfetched, "artifact", kept.max)),
            };
            let stored = self.controller.receipts.keep(self.key, name, &bytes);
            if let Err(error) = stored {
                return Err(Answered::uncertain("TL-RECEIPT", private(&error)));
            }
            links.push(ArtifactLink {
                name: name.clone(),
                sha256: Digest::of(&bytes),
                bytes: bytes.len() as u64,
            });
        }
        Ok(links)
    }

    fn write(&self, state: CallState) -> io::Result<()> {
        let receipt = CallReceipt::new(self.session, self.call, self.key, Timestamp::now());
        self.controller
            .receipts
            .write(self.key, &receipt.in_state(state))
    }
}

const NOTHING_DONE: &str = "nothing was done; the request can be made again";

fn private(error: &io::Error) -> Private {
    Private::from_error(error)
}

/// An answer, and what the operator is told.
struct Answered {
    outcome: ToolOutcome,
    summary: String,
    artifacts: Vec<ArtifactLink>,
    evaluator_passed: Option<bool>,
    command: Option<CommandFacts>,
    repeated: bool,
    detail: Option<Private>,
}

impl Answered {
    fn new(outcome: ToolOutcome, summary: String, detail: Option<Private>) -> Self {
        Self {
            outcome,
            summary,
            artifacts: Vec::new(),
            evaluator_passed: None,
            command: None,
            repeated: false,
            detail,
        }
    }

    fn refused(feedback: &str) -> Self {
        let summary = bounded(feedback, Limits::default().summary_bytes);
        Self::new(ToolOutcome::Refused, summary, None)
    }

    fn failed(code: &str, sentence: &str, detail: Option<Private>) -> Self {
        let summary = format!("{sentence} (code {code})");
        Self::new(ToolOutcome::Failed, summary, detail)
    }

    fn too_large(what: &str, limit: u64, size: Option<u64>) -> Self {
        let sentence = format!("the {what} has more than {limit} bytes, and was not read");
        let detail = size.map(|size| Private::new(format!("{size} bytes")));
        Self::failed("TL-SIZE", &sentence, detail)
    }

    fn unreadable(why: &str) -> Self {
        let sentence = "the result is not what the tool promises";
        Self::failed("TL-RESULT", sentence, Some(Private::new(why)))
    }

    fn unfetched(unfetched: Unfetched, what: &str, max: u64) -> Self {
        match unfetched {
            Unfetched::TooLarge(size) => Self::too_large(what, max, Some(size)),
            Unfetched::NoFile(detail) => {
                let sentence = format!("the {what} is no regular file");
                Self::failed("TL-FILE", &sentence, Some(detail))
            }
            // The command has ended; what it left can be asked for again.
            Unfetched::Unavailable(detail) => Self::uncertain("TL-FETCH", detail),
        }
    }

    fn timed_out(limits: &Limits) -> Self {
        let limit = limits.deadline;
        let summary = format!("the tool was ended at its time limit of {limit:?} (code TL-TIME)");
        Self::new(ToolOutcome::TimedOut, summary, None)
    }

    fn uncertain(code: &str, detail: Private) -> Self {
        let summary = format!(
            "it is not known what was done; the same request looks for it again (code {code})"
        );
        Self::new(ToolOutcome::Uncertain, summary, Some(detail))
    }

    fn evaluated(evaluation: &Evaluation, artifacts: Vec<ArtifactLink>, limits: &Limits) -> Self {
        let outcome = match evaluation.passed {
            true => ToolOutcome::Succeeded,
            false => ToolOutcome::Rejected,
        };
        let summary = bounded(&evaluation.summary, limits.summary_bytes);
        Self {
            artifacts,
            evaluator_passed: Some(evaluation.passed),
            ..Self::new(outcome, summary, None)
        }
    }

    fn again(answer: ToolAnswer) -> Self {
        Self {
            artifacts: answer.artifacts,
            repeated: true,
            ..Self::new(answer.outcome, answer.summary, None)
        }
    }
}

/// Text for a model: printable, and cut where it is too long, which is said.
fn bounded(said: &str, limit: usize) -> String {
    let shown = text::printable(said.as_bytes());
    let head = text::head(&shown, limit);
    match head.len() == shown.len() {
        true => shown.into_owned(),
        false => format!("{head} [cut, {} bytes in all]", shown.len()),
    }
}
