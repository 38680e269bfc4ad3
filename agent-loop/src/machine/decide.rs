//! Deciding about a reply.

use super::{Machine, Phase};
use crate::action::{Action, Defect};
use crate::journal::{Decided, Durability, Event, TurnEnded, TurnResult};
use crate::outcome::{End, Limit};
use crate::path::RelPath;
use crate::policy::{Approval, Decision, Policy as _, PolicyContext};
use crate::prompt::Next;
use crate::text::one_line;

/// What a turn is about, as it is named after its action is done or was not.
#[derive(Debug)]
pub(super) struct Asking {
    /// In the records.
    line: String,
    /// To the model.
    subject: String,
}

impl Asking {
    fn of(action: &Action) -> Self {
        let line = action.to_string();
        let subject = match action {
            Action::Write { path, .. } => format!("write {path}"),
            _ => line.clone(),
        };
        Self { line, subject }
    }
}

impl Machine {
    /// The reply is no action, or an action on a path that leads nowhere.
    pub(super) fn not_an_action(&mut self, defect: &Defect) {
        let decision = Decision::deny(defect.to_string());
        let code = Some(defect.code().to_owned());
        let decided = Decided {
            turn: self.turn,
            action: None,
            defect: code,
            decision,
        };
        self.record(Event::Decided(decided), Durability::Buffered);
        match defect.is_format_error() {
            false => {
                self.format_errors = 0;
                self.feedback(TurnResult::Refused, defect.to_string());
            }
            true => {
                self.format_errors += 1;
                self.feedback(TurnResult::NotAnAction, defect.to_string());
                if self.format_errors >= self.budget().format_errors_in_a_row {
                    self.end(End::Exhausted {
                        limit: Limit::FormatErrors,
                    });
                }
            }
        }
    }

    /// Decides about an action: first the loop's own rules, then the policies, the strictest wins.
    pub(super) fn decide(&mut self, action: Action) {
        self.format_errors = 0;
        self.action = Some(Asking::of(&action));
        let times = match self.is_due(&action) {
            true => 0,
            false => self.repeats.count(&action, self.known.hash()),
        };
        if times >= self.budget().stuck_after {
            self.decided(Decision::deny("repeated too often"));
            self.feedback(TurnResult::Refused, "repeated too often".to_owned());
            self.end(End::Stuck);
            return;
        }
        let decision = match times >= self.budget().repeats {
            true => Decision::deny(format!(
                "you have asked for this {times} times on the same files, and nothing has changed; do something else"
            )),
            false => self.rules(&action),
        };
        self.decided(decision.clone());
        match decision {
            Decision::Allow => self.carry_out(action),
            Decision::Deny { feedback } => self.feedback(TurnResult::Refused, feedback),
            Decision::Ask { question } if self.setup.started.approver => {
                self.phase = Phase::Waiting {
                    approval: Approval { question, action },
                };
            }
            Decision::Ask { .. } => {
                let said = "this needs a person's approval, and nobody is there to give it";
                self.feedback(TurnResult::Refused, said.to_owned());
            }
            Decision::Stop { reason } => {
                self.feedback(TurnResult::Refused, reason.clone());
                self.end(End::PolicyStop { reason });
            }
        }
    }

    /// Whether this is the one action that makes sense now. Asking for it is no repetition, also
    /// where it was done before and came to nothing through no fault of the model.
    fn is_due(&self, action: &Action) -> bool {
        match action {
            Action::Check { .. } => self.next_action() == Next::Check,
            Action::Finish { .. } => self.next_action() == Next::Finish,
            Action::Read { .. } | Action::Write { .. } => false,
        }
    }

    fn decided(&mut self, decision: Decision) {
        let decided = Decided {
            turn: self.turn,
            action: self.action.as_ref().map(|action| action.line.clone()),
            defect: None,
            decision,
        };
        self.record(Event::Decided(decided), Durability::Buffered);
    }

    fn rules(&self, action: &Action) -> Decision {
        let checks = u32::try_from(self.checks.len()).unwrap_or(u32::MAX);
        let context = PolicyContext::new(self.turn, self.known.hash(), checks);
        let own = self.own_rules(action).unwrap_or(Decision::Allow);
        let own = own.and(self.setup.started.paths.decide(&context, action));
        if matches!(own, Decision::Deny { .. }) {
            return own;
        }
        let policies = self.setup.policies.iter();
        policies.fold(own, |strictest, policy| {
            strictest.and(policy.decide(&context, action))
        })
    }

    /// What no policy can allow.
    fn own_rules(&self, action: &Action) -> Option<Decision> {
        match action {
            Action::Write { path, .. } if self.is_fixture(path) => Some(Decision::deny(format!(
                "{path} belongs to the check and may not be written"
            ))),
            Action::Check { name: Some(name) } if !self.setup.plans.contains_key(name) => {
                let names: Vec<&str> = self.setup.plans.keys().map(String::as_str).collect();
                let names = names.join(", ");
                let name = one_line(name, 80);
                Some(Decision::deny(format!(
                    "there is no check {name:?}; the checks are {names}"
                )))
            }
            _ => None,
        }
    }

    /// Whether the file belongs to a check.
    pub(super) fn is_fixture(&self, path: &RelPath) -> bool {
        let mut stages = self.setup.plans.values().flat_map(|plan| &plan.stages);
        stages.any(|stage| stage.fixtures.get(path).is_some())
    }

    /// Ends a turn in which the action was not done; the model is told in the next one.
    pub(super) fn feedback(&mut self, result: TurnResult, said: String) {
        self.refusal = Some(match &self.action {
            Some(Asking { subject, .. }) => {
                format!("Your last action, {subject}, was not done: {said}.")
            }
            None => format!("Your last answer was not used: {said}."),
        });
        self.end_turn(result, said);
    }

    /// Ends a turn.
    pub(super) fn end_turn(&mut self, result: TurnResult, said: String) {
        let action = self.action.as_ref().map(|action| action.line.clone());
        let took = self.turn_took;
        let turn = TurnEnded {
            turn: self.turn,
            action,
            result,
            said,
            took,
        };
        self.record(Event::Turn(turn), Durability::Buffered);
        self.phase = Phase::Ready;
    }
}
