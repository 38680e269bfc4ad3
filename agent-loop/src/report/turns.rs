//! The records of an attempt, turn by turn.

use std::time::Duration;

use crate::journal::{
    ApprovalRecord, Asked, Decided, Event, Intended, Intent, Judged, Receipt, Record, Replied,
    TurnEnded,
};

/// What happened in one turn. Turn 0 is what came before the first question.
#[derive(Default)]
pub(super) struct Turn<'a> {
    pub(super) number: u32,
    pub(super) asked: Vec<&'a Asked>,
    pub(super) replied: Vec<&'a Replied>,
    pub(super) decided: Option<&'a Decided>,
    pub(super) approvals: Vec<&'a ApprovalRecord>,
    pub(super) done: Vec<(&'a Intent, Option<&'a Receipt>)>,
    pub(super) judged: Option<&'a Judged>,
    pub(super) ended: Option<&'a TurnEnded>,
}

impl<'a> Turn<'a> {
    /// The turns of these records, in order.
    pub(super) fn all(records: &'a [Record]) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for record in records {
            let number = match &record.event {
                Event::Asked(asked) => asked.turn,
                Event::Replied(replied) => replied.turn,
                Event::Decided(decided) => decided.turn,
                Event::Approval(approval) => approval.turn,
                Event::Intent(intent) => intent.turn,
                Event::Receipt(receipt) => receipt.turn,
                Event::Judged(judged) => judged.turn,
                Event::Turn(ended) => ended.turn,
                _ => continue,
            };
            let at = turns.iter().position(|turn| turn.number == number);
            let at = at.unwrap_or_else(|| {
                turns.push(Self {
                    number,
                    ..Self::default()
                });
                turns.len() - 1
            });
            if let Some(turn) = turns.get_mut(at) {
                turn.add(&record.event);
            }
        }
        turns
    }

    fn add(&mut self, event: &'a Event) {
        match event {
            Event::Asked(asked) => self.asked.push(asked),
            Event::Replied(replied) => self.replied.push(replied),
            Event::Decided(decided) => self.decided = Some(decided),
            Event::Approval(approval) => self.approvals.push(approval),
            Event::Intent(intent) => self.done.push((intent, None)),
            Event::Receipt(receipt) => {
                let mut open = self.done.iter_mut().rev();
                if let Some((_, found)) = open.find(|(intent, _)| intent.id == receipt.id) {
                    *found = Some(receipt);
                }
            }
            Event::Judged(judged) => self.judged = Some(judged),
            Event::Turn(ended) => self.ended = Some(ended),
            _ => {}
        }
    }

    /// The action in a line.
    pub(super) fn action(&self) -> &'a str {
        let ended = self.ended.and_then(|turn| turn.action.as_deref());
        let decided = self.decided.and_then(|decided| decided.action.as_deref());
        ended.or(decided).unwrap_or("no action")
    }

    /// How long the model took, with failures and retries.
    pub(super) fn model_time(&self) -> Duration {
        self.replied.iter().map(|replied| replied.took).sum()
    }

    /// How long the stages of a check took.
    pub(super) fn check_time(&self) -> Duration {
        self.time_of(|intent| matches!(intent.effect, Intended::Stage { .. }))
    }

    /// How long reading and writing took.
    pub(super) fn files_time(&self) -> Duration {
        self.time_of(|intent| !matches!(intent.effect, Intended::Stage { .. }))
    }

    /// How long people took.
    pub(super) fn approval_time(&self) -> Duration {
        self.approvals.iter().map(|approval| approval.took).sum()
    }

    fn time_of(&self, is_meant: impl Fn(&Intent) -> bool) -> Duration {
        let done = self.done.iter().filter(|(intent, _)| is_meant(intent));
        done.filter_map(|(_, receipt)| Some((*receipt)?.took)).sum()
    }
}
