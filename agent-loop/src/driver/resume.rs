//! Goes on where an earlier program was ended.

use std::io;

use super::{Driver, Parts, Places, Used, stop};
use crate::journal::{Answer, Durability, Ended, Event, Prepared, Record, Resumed, Stopped};
use crate::machine::{Effect, Machine};
use crate::outcome::Outcome;
use crate::play::{LeftOver, Played};
use crate::private::Private;
use crate::workspace::StopState;

/// Goes on with an attempt whose journal was played.
pub(crate) async fn resume(
    played: Played,
    resumed: Resumed,
    seq: u64,
    records: &[Record],
    parts: Parts,
) -> Outcome {
    for observer in &parts.observers {
        for record in records {
            observer.played(record);
        }
    }
    let mut machine = played.machine;
    let mut driver = Driver::new(parts, machine.now(), seq);
    if let Some(ended) = played.ended {
        return driver.write_again(&machine, ended).await;
    }
    // What the machine has made of the last answer, and was lost: nothing was done after it.
    let lost = played.expected;
    let is_interrupted = lost.is_empty();
    let kept = match is_interrupted {
        true => {
            machine.resumed(resumed);
            driver.book.keep_all(machine.take_records())
        }
        false => driver
            .book
            .keep(Event::Resumed(resumed), Durability::Buffered)
            .and_then(|()| driver.book.keep_all(lost.into())),
    };
    match kept {
        Err(error) => machine.journal_failed(Private::from_error(&error)),
        Ok(()) => {
            let doing = machine.doing().map(|(id, _)| id.clone());
            let interrupted = doing.filter(|_| is_interrupted);
            if let Some(id) = &played.last_place
                && interrupted.as_ref() != Some(id)
            {
                driver.places().remove_place(id).await;
            }
            let (interrupted, others): (Vec<_>, Vec<_>) = played
                .places
                .left_over()
                .into_iter()
                .partition(|place| interrupted.as_ref() == Some(&place.id));
            match driver.leave_all(others).await {
                Err(error) => machine.journal_failed(Private::from_error(&error)),
                Ok(()) if is_interrupted => {
                    let place = interrupted.into_iter().next();
                    driver
                        .interrupted(&mut machine, played.prepared.as_ref(), place)
                        .await;
                }
                Ok(()) => {}
            }
        }
    }
    let end = driver.run(&mut machine).await;
    driver.finish(&machine, end).await
}

impl Driver {
    pub(super) fn places(&self) -> Places<'_> {
        Places {
            workspace: &*self.workspace,
            fresh: self.fresh.as_deref(),
            clock: &*self.clock,
        }
    }

    /// Ends the fresh places that an earlier program has left.
    async fn leave_all(&mut self, places: Vec<LeftOver>) -> io::Result<()> {
        for LeftOver { id, said, .. } in places {
            self.place = Some(Used::Named { id, said });
            self.leave_place().await?;
        }
        Ok(())
    }

    /// Finds out what became of the effect that was being done, or says that it was interrupted. A
    /// read is simply done again.
    async fn interrupted(
        &mut self,
        machine: &mut Machine,
        prepared: Option<&Prepared>,
        place: Option<LeftOver>,
    ) {
        let Some((id, effect)) = machine.doing() else {
            return;
        };
        let (id, effect) = (id.clone(), effect.clone());
        let before = self.elapsed();
        let answer = match &effect {
            Effect::Get { .. } | Effect::ReadBack => return,
            Effect::Open { .. } | Effect::Put { .. } => Answer::Interrupted,
            Effect::Stage { check, stage, .. } => {
                let Some(stage) = check.plan.stages.get(*stage) else {
                    return;
                };
                let prepared = prepared.filter(|prepared| prepared.id == id);
                let mut left = None;
                let found = self
                    .places()
                    .found(&id, stage, prepared, place, &mut left)
                    .await;
                self.place = left;
                match found {
                    Ok(Some(run)) => Answer::Stage(run),
                    Ok(None) => Answer::Interrupted,
                    Err(error) => Answer::Failed(error),
                }
            }
        };
        machine.answer(&id, answer, self.elapsed().saturating_sub(before));
    }

    /// The attempt is over: nothing is left to do but what comes after the last record.
    async fn write_again(mut self, machine: &Machine, mut ended: Ended) -> Outcome {
        let patch = self.write_patch(machine);
        if self.stops_after(&ended.end) && ended.stop != StopState::Confirmed {
            let stop = stop(&*self.workspace, &*self.clock).await;
            let again = Stopped { stop: stop.clone() };
            if self
                .book
                .keep(Event::Stopped(again), Durability::Synced)
                .is_ok()
            {
                ended.stop = stop;
            }
        }
        let chain_head = self.book.journal.chain_head();
        let mut outcome = Outcome::new(&machine.summary(), ended, chain_head, patch);
        outcome.evidence_errors.append(&mut self.problems);
        self.write_outcome(outcome)
    }
}
