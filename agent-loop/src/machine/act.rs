//! Carrying out actions, and what comes of them.

use std::sync::Arc;
use std::time::Duration;

use super::check::{Checking, Judgement, Planned};
use super::view::CheckView;
use super::{Effect, Machine, Phase};
use crate::acceptance::{HIDDEN, Level, StageRun, Verdict};
use crate::action::Action;
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::journal::{Answer, Durability, Event, Judged, TurnResult};
use crate::manifest::{File, Manifest, Tree};
use crate::outcome::{CheckOutcome, End, Limit};
use crate::path::RelPath;
use crate::private::Private;
use crate::prompt::BYTE_ORDER_MARK;
use crate::redact::redact_output;
use crate::text::{head_and_tail, one_line, printable};
use crate::workspace::{Precondition, WorkspaceError};

/// Failures of the workspace in a row after which it is given up.
const MOST_FAILURES: u32 = 3;

/// What is being done, and for what.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    Open,
    Read {
        path: RelPath,
    },
    Write(Writing),
    /// Looking whether an uncertain write was done.
    Probe(Writing),
    Check(Checking),
    Finish,
}

#[derive(Clone, Debug)]
pub(super) struct Writing {
    path: RelPath,
    file: Arc<File>,
    before: Precondition,
    /// Whether it was already sent a second time.
    again: bool,
}

/// What is told of a verdict.
struct Told {
    /// A line for people.
    summary: String,
    /// As much of it as a model is shown, where it may be told.
    shown: String,
}

impl Machine {
    /// Does what was decided.
    pub(super) fn carry_out(&mut self, action: Action) {
        match action {
            Action::Read { path } => {
                let max = self.setup.started.paths.limit();
                let effect = Effect::Get {
                    path: path.clone(),
                    max,
                };
                self.begin(effect, |_| Doing::Read { path });
            }
            Action::Write { path, content } => {
                let file = Arc::new(self.file(&path, content));
                let known = self.known.get(&path);
                let before =
                    known.map_or(Precondition::Absent, |file| Precondition::Is(file.digest()));
                self.write(Writing {
                    path,
                    file,
                    before,
                    again: false,
                });
            }
            Action::Check { name } => self.check(name),
            Action::Finish { .. } => match &self.verified {
                Some(_) => self.begin(Effect::ReadBack, |_| Doing::Finish),
                None => self.feedback(TurnResult::Refused, self.why_not_finished()),
            },
        }
    }

    /// The file that a write makes of `path`: its mode stays, and so does its byte-order mark, which
    /// the model is told about and does not see.
    fn file(&self, path: &RelPath, content: Vec<u8>) -> File {
        let Some(old) = self.known.get(path) else {
            return File::new(content);
        };
        let keeps_mark =
            old.bytes().starts_with(BYTE_ORDER_MARK) && !content.starts_with(BYTE_ORDER_MARK);
        let content = match keeps_mark {
            true => [BYTE_ORDER_MARK, &content].concat(),
            false => content,
        };
        File::new(content).executable(old.is_executable())
    }

    fn write(&mut self, writing: Writing) {
        let Writing {
            path, file, before, ..
        } = writing.clone();
        self.begin(Effect::Put { path, file, before }, |_| {
            Doing::Write(writing)
        });
    }

    fn check(&mut self, name: Option<String>) {
        let used = u32::try_from(self.checks.len()).unwrap_or(u32::MAX);
        if self.budget().checks.is_some_and(|most| used >= most) {
            self.feedback(TurnResult::Refused, "all checks are used".to_owned());
            self.end(End::Exhausted {
                limit: Limit::Checks,
            });
            return;
        }
        let name = name.unwrap_or_else(|| self.setup.started.default_check.clone());
        let Some(check) = self.plans.get(&name).map(Arc::clone) else {
            // The rules have refused a name that does not exist; the default one does.
            self.feedback(TurnResult::Refused, "there is no such check".to_owned());
            return;
        };
        self.start_check(check, self.known.clone());
    }

    fn start_check(&mut self, check: Arc<Planned>, tree: Tree) {
        let effect = Effect::Stage {
            check: Arc::clone(&check),
            stage: 0,
            tree: tree.clone(),
        };
        let start = |first| Checking {
            check,
            tree,
            first,
            runs: Vec::new(),
        };
        self.begin(effect, |first| Doing::Check(start(first)));
    }

    fn next_stage(&mut self, checking: Checking) {
        let effect = Effect::Stage {
            check: Arc::clone(&checking.check),
            stage: checking.runs.len(),
            tree: checking.tree.clone(),
        };
        self.begin(effect, |_| Doing::Check(checking));
    }

    /// What came of the effect that was pending.
    pub(super) fn answered(&mut self, id: &RequestId, answer: Answer, took: Duration) {
        let doing = match std::mem::replace(&mut self.phase, Phase::Ready) {
            Phase::Doing {
                doing: Doing::Open, ..
            } => return self.opened(id, answer),
            Phase::Doing { doing, .. } => doing,
            other => {
                self.phase = other;
                return;
            }
        };
        if let Answer::Failed(WorkspaceError::Gone(detail)) = answer {
            self.close_turn(TurnResult::Failed, "the workspace is gone");
            self.workspace_failed("the workspace is gone", detail);
            return;
        }
        if !matches!(answer, Answer::Failed(_) | Answer::Interrupted) {
            self.workspace_failures = 0;
        }
        match (doing, answer) {
            (Doing::Write(writing), Answer::Interrupted) => {
                // What the last program did is no reason not to try twice from here on.
                let writing = Writing {
                    again: false,
                    ..writing
                };
                self.probe(id, writing);
            }
            (Doing::Check(checking), Answer::Interrupted) => self.check_again(id, checking),
            (Doing::Read { path }, answer) => self.was_read(&path, answer),
            (Doing::Write(writing), Answer::Put) => self.was_written(&writing),
            (Doing::Write(writing), Answer::Failed(error)) => self.not_written(id, writing, error),
            (Doing::Probe(writing), answer) => self.probed(id, writing, &answer),
            (Doing::Check(checking), Answer::Stage(run)) => self.ran(checking, run, took),
            (Doing::Check(checking), Answer::Failed(error)) => {
                self.did_not_run(id, &checking, error, took);
            }
            (Doing::Finish, Answer::Listed(manifest)) => self.read_back(&manifest),
            (Doing::Finish, Answer::Failed(error)) => self.failed("finish", "WS-LIST", error),
            (doing, _) => {
                let during = format!("an answer that does not fit to {doing:?}");
                self.workspace_failed(&one_line(&during, 80), Private::default());
            }
        }
    }

    fn opened(&mut self, id: &RequestId, answer: Answer) {
        match answer {
            Answer::Opened(tree) => {
                self.base = tree.clone();
                self.known = tree;
            }
            // Files that are there already as they should be are no conflict.
            Answer::Interrupted => self.open(),
            Answer::Failed(WorkspaceError::Uncertain(detail)) => {
                self.note_uncertain(id.clone(), "taking over the workspace");
                self.end(End::Uncertain {
                    request: id.clone(),
                    detail,
                });
            }
            Answer::Failed(error) => {
                let during = format!("taking over the files: {error}");
                self.workspace_failed(&during, detail(error));
            }
            _ => self.workspace_failed("taking over the files", Private::default()),
        }
    }

    fn was_read(&mut self, path: &RelPath, answer: Answer) {
        let bytes = match answer {
            Answer::Got(bytes) => bytes,
            Answer::Failed(WorkspaceError::NotFound) => {
                if self.setup.started.paths.may_write(path) && self.known.remove(path).is_some() {
                    self.changed();
                }
                let said = format!("there is no file {path}");
                return self.feedback(TurnResult::Failed, said);
            }
            Answer::Failed(WorkspaceError::TooLarge(len)) => {
                let max = self.setup.started.paths.limit();
                let said = format!("{path} has {len} bytes; at most {max} can be read");
                return self.feedback(TurnResult::Failed, said);
            }
            Answer::Failed(error) => return self.failed("read", "WS-GET", error),
            _ => return self.failed("read", "WS-GET", WorkspaceError::Failed(Private::default())),
        };
        let known = self.known.get(path);
        if known.is_none_or(|known| known.digest() != Digest::of(&bytes)) {
            if !self.setup.started.paths.may_write(path) || self.is_fixture(path) {
                let said =
                    format!("{path} was changed by something else, and is not yours to change");
                return self.feedback(TurnResult::Failed, said);
            }
            let executable = known.is_some_and(|known| known.is_executable());
            self.known
                .insert(path.clone(), File::new(bytes).executable(executable));
            self.changed();
        }
        self.seen.insert(path.clone(), self.turn);
        let len = self.known.get(path).map_or(0, |file| file.bytes().len());
        self.done(TurnResult::Done, format!("{len} bytes"));
    }

    fn was_written(&mut self, writing: &Writing) {
        self.known
            .insert(writing.path.clone(), Arc::clone(&writing.file));
        self.seen.insert(writing.path.clone(), self.turn);
        self.changed();
        self.done(
            TurnResult::Done,
            format!("{} bytes", writing.file.bytes().len()),
        );
    }

    fn not_written(&mut self, id: &RequestId, writing: Writing, error: WorkspaceError) {
        match error {
            WorkspaceError::Conflict(_) => {
                // The model has to see what it would overwrite.
                self.seen.remove(&writing.path);
                let said = format!(
                    "{} was changed by something else since you saw it; read it again",
                    writing.path
                );
                self.feedback(TurnResult::Refused, said);
            }
            WorkspaceError::Uncertain(_) => self.probe(id, writing),
            error => self.failed("write", "WS-PUT", error),
        }
    }

    /// Looks at the file to find out whether a write was done.
    fn probe(&mut self, id: &RequestId, writing: Writing) {
        self.note_uncertain(id.clone(), "writing a file");
        let max = self.setup.started.paths.limit();
        let effect = Effect::Get {
            path: writing.path.clone(),
            max,
        };
        self.begin(effect, |_| Doing::Probe(writing));
    }

    /// Carries out a stage again whose end nobody can know any more. It ran, if it ran, in a place
    /// of its own, so a second run in another one changes nothing.
    fn check_again(&mut self, id: &RequestId, checking: Checking) {
        self.note_uncertain(id.clone(), "running a check");
        self.resolved();
        match checking.runs.is_empty() {
            true => self.start_check(checking.check, checking.tree),
            false => self.next_stage(checking),
        }
    }

    /// A write whose answer was lost: what is there says whether it was done.
    fn probed(&mut self, id: &RequestId, writing: Writing, answer: &Answer) {
        let found = match answer {
            Answer::Got(bytes) => Some(Precondition::Is(Digest::of(bytes))),
            Answer::Failed(WorkspaceError::NotFound) => Some(Precondition::Absent),
            _ => None,
        };
        if found == Some(Precondition::Is(writing.file.digest())) {
            self.resolved();
            self.was_written(&writing);
        } else if found == Some(writing.before) && !writing.again {
            self.resolved();
            self.write(Writing {
                again: true,
                ..writing
            });
        } else {
            let request = self
                .uncertain
                .last()
                .map_or(id, |uncertain| &uncertain.id)
                .clone();
            self.close_turn(TurnResult::Failed, "nobody knows whether it was written");
            self.end(End::Uncertain {
                request,
                detail: Private::new("the write was not found"),
            });
        }
    }

    fn resolved(&mut self) {
        if let Some(uncertain) = self.uncertain.last_mut() {
            uncertain.resolved = true;
        }
    }

    fn ran(&mut self, mut checking: Checking, run: StageRun, took: Duration) {
        checking.runs.push(run);
        match checking.judge(&*Arc::clone(&self.setup.acceptance)) {
            Judgement::Continue => self.next_stage(checking),
            Judgement::Passed(verified, verdict) => {
                let level = Some(verified.level());
                let Told { summary, .. } = self.judged(&checking, verdict, level, took);
                self.verified = Some(verified);
                self.last_check = CheckView::Passed;
                self.dirty = false;
                self.invalid_checks = 0;
                self.done(TurnResult::Pass, summary);
            }
            Judgement::Over(verdict) => {
                let at = checking.runs.len().saturating_sub(1);
                self.not_passed(&checking, at, verdict, took);
            }
        }
    }

    fn did_not_run(
        &mut self,
        id: &RequestId,
        checking: &Checking,
        error: WorkspaceError,
        took: Duration,
    ) {
        match error {
            WorkspaceError::Uncertain(detail) => {
                self.note_uncertain(id.clone(), "running a check");
                self.close_turn(TurnResult::Failed, "nobody knows what became of the check");
                self.end(End::Uncertain {
                    request: id.clone(),
                    detail,
                });
            }
            error => {
                let why = format!("the check could not be carried out: {error} (code WS-CHECK)");
                self.not_passed(checking, checking.runs.len(), Verdict::invalid(why), took);
            }
        }
    }

    /// A check is over at its stage `at` without a pass. This is the one place where the model is
    /// told of it: of a hidden stage nothing that code under test could have chosen, so neither a
    /// text nor which of the verdicts it is. The records have it all the same.
    fn not_passed(&mut self, checking: &Checking, at: usize, verdict: Verdict, took: Duration) {
        let is_fail = matches!(verdict, Verdict::Fail { .. });
        let Told { summary, shown } = self.judged(checking, verdict, None, took);
        self.dirty = false;
        self.last_check = CheckView::Failed(match (checking.is_hidden(at), is_fail) {
            (true, _) => HIDDEN.to_owned(),
            (false, true) => shown,
            (false, false) => self.shown(&format!("- the check gave no verdict: {summary}")),
        });
        if is_fail {
            self.invalid_checks = 0;
            self.done(TurnResult::Fail, summary);
            return;
        }
        self.invalid_checks += 1;
        self.done(TurnResult::Invalid, summary.clone());
        if self.invalid_checks >= self.budget().invalid_checks {
            self.end(End::CheckInvalid { why: summary });
        }
    }

    /// As much of what a check said as the model is shown.
    fn shown(&self, said: &str) -> String {
        head_and_tail(said, self.budget().observation_bytes).into_owned()
    }

    /// Writes a verdict down and gives what is told of it.
    fn judged(
        &mut self,
        checking: &Checking,
        verdict: Verdict,
        level: Option<Level>,
        took: Duration,
    ) -> Told {
        let word = verdict.word();
        let said = match &verdict {
            Verdict::Pass { summary, .. } => summary,
            Verdict::Fail { feedback } => feedback,
            Verdict::Invalid { why } => why,
        };
        // The journal has it as it was; nobody else is told what looks like a secret.
        let said = redact_output(&printable(said.as_bytes()));
        let told = Told {
            summary: one_line(&said, 200),
            shown: self.shown(&said),
        };
        let judged = Judged {
            id: checking.first.clone(),
            turn: self.turn,
            check: checking.check.name.clone(),
            verdict,
            tree: checking.tree.hash(),
            plan: checking.check.digest,
            evaluator: self.setup.acceptance.revision(),
            evidence: checking.evidence(),
            level,
        };
        self.record(Event::Judged(judged), Durability::Buffered);
        self.checks.push(CheckOutcome {
            id: checking.first.clone(),
            turn: self.turn,
            name: checking.check.name.clone(),
            verdict: word.to_owned(),
            summary: told.summary.clone(),
            tree: checking.tree.hash(),
            places: checking.places(),
            duration: took,
        });
        told
    }

    fn read_back(&mut self, manifest: &Manifest) {
        let Some(verified) = &self.verified else {
            return self.feedback(TurnResult::Refused, self.why_not_finished());
        };
        if manifest.hash() == verified.tree() {
            self.close_turn(TurnResult::Accepted, "these are the bytes that passed");
            self.end(End::Accepted);
            return;
        }
        let known = self.known.manifest();
        let changed: Vec<RelPath> = known.differences(manifest).into_iter().cloned().collect();
        let names: Vec<&str> = changed.iter().take(4).map(RelPath::as_str).collect();
        let said = format!(
            "the workspace has changed since the check passed: {}; read it and check again",
            names.join(", ")
        );
        for path in &changed {
            self.seen.remove(path);
        }
        self.changed();
        self.feedback(TurnResult::Refused, said);
    }

    pub(super) fn why_not_finished(&self) -> String {
        match self.last_check {
            CheckView::None => "nothing has been checked; check first",
            CheckView::Failed(_) => "the last check did not pass; change the file and check again",
            CheckView::Outdated | CheckView::Passed => {
                "the files have changed since the last check; check again"
            }
        }
        .to_owned()
    }

    /// The workspace did not do it, and says for sure that it has not.
    fn failed(&mut self, what: &str, code: &str, error: WorkspaceError) {
        self.workspace_failures += 1;
        let said = format!("{what} failed: {error} (code {code})");
        self.feedback(TurnResult::Failed, said.clone());
        if self.workspace_failures >= MOST_FAILURES {
            self.workspace_failed(&said, detail(error));
        }
    }

    fn workspace_failed(&mut self, during: &str, detail: Private) {
        self.end(End::WorkspaceFailed {
            during: during.to_owned(),
            detail,
        });
    }

    fn done(&mut self, result: TurnResult, said: String) {
        self.refusal = None;
        self.end_turn(result, said);
    }

    /// Ends the turn of an attempt that is about to end.
    fn close_turn(&mut self, result: TurnResult, said: &str) {
        self.end_turn(result, said.to_owned());
    }
}

fn detail(error: WorkspaceError) -> Private {
    match error {
        WorkspaceError::Refused(detail)
        | WorkspaceError::Failed(detail)
        | WorkspaceError::Uncertain(detail)
        | WorkspaceError::Gone(detail) => detail,
        WorkspaceError::NotFound | WorkspaceError::Conflict(_) | WorkspaceError::TooLarge(_) => {
            Private::new(error.to_string())
        }
    }
}
