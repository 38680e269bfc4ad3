//! Takes the answers from records that were made before.

use std::time::Duration;

use super::{Machine, Phase};
use crate::journal::Event;
use crate::play::reply;

impl Machine {
    /// Takes what came from outside when `event` was made. False where nothing of the kind can come
    /// now.
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        match (&self.phase, event) {
            (Phase::New, Event::Started(_)) => drop(self.next(Duration::ZERO)),
            (Phase::Ready, Event::Asked(asked)) => drop(self.next(asked.elapsed)),
            (Phase::Asking { question, .. }, Event::Replied(replied))
                if question.id == replied.id =>
            {
                self.reply(reply(&replied.reply), replied.took);
            }
            (Phase::Pausing { .. }, Event::Paused(paused)) => {
                self.at(paused.elapsed.saturating_sub(paused.took));
                self.paused(paused.took);
            }
            (Phase::Waiting { .. }, Event::Approval(approval)) => {
                self.approved(approval.granted, approval.took);
            }
            (Phase::Doing { id, .. }, Event::Receipt(receipt)) if *id == receipt.id => {
                self.answer(&receipt.id, receipt.answer.clone(), receipt.took);
            }
            _ => return false,
        }
        true
    }
}
