//! Waiting for a run to come as far as it should.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Runs;
use super::model::{RunStatus, StatusCondition, Statuses};
use crate::error::Error;
use crate::ids::RunUuid;

/// How quickly the status is asked for again at first.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// And at last.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long before the limit it looks once more, however long the pauses are by then, and asks what
/// the run waits for; a quarter of the limit at most.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// How long to wait, and whom to tell meanwhile.
#[must_use = "a Wait does nothing until it is passed on"]
pub struct Wait {
    limit: Duration,
    approvals: u8,
    on_progress: Option<Listener>,
}

type Listener = Box<dyn FnMut(&Statuses) + Send>;

impl Wait {
    /// Waits this long at most, the answer to a call that is under way included. A limit too short for
    /// one answer is over before anything is seen.
    pub fn up_to(limit: Duration) -> Self {
        Self {
            limit,
            approvals: 0,
            on_progress: None,
        }
    }

    /// Calls `tell` with each change of the run's conditions, and once at the start.
    pub fn on_progress(mut self, tell: impl FnMut(&Statuses) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(tell));
        self
    }

    /// Approves the run where it waits for that, up to three times: some runs take two. Default:
    /// it does not.
    pub fn approve(mut self) -> Self {
        self.approvals = 3;
        self
    }

    /// How long it waits.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    fn tell(&mut self, statuses: &Statuses) {
        if let Some(tell) = &mut self.on_progress {
            tell(statuses);
        }
    }
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        Self::up_to(limit)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Runs {
    /// Waits until the run's status is `target`, asking every 10 ms at first and every 5 s at
    /// last. Failures that can pass (a busy server, a broken connection) are waited out.
    ///
    /// # Errors
    /// [`Error::RunEnded`] at once where the run ends otherwise, with reason and message of its
    /// last condition; [`Error::WaitTimedOut`] at the limit, with the status that was seen last, or
    /// `unknown`; [`Error::Api`] where the call is refused.
    ///
    /// # Cancel safety
    /// Cancel safe: the run is only looked at, or approved where [`Wait::approve`] says so.
    pub async fn wait_for(
        &self,
        run: RunUuid,
        target: &RunStatus,
        wait: impl Into<Wait> + Send,
    ) -> Result<Statuses, Error> {
        self.wait_while(run, wait.into(), |now| {
            &now.status != target && !now.status.is_final()
        })
        .await
        .and_then(|now| {
            if &now.status == target {
                Ok(now)
            } else {
                Err(ended(now))
            }
        })
    }

    /// Waits until the run has ended, however it did.
    ///
    /// # Errors
    /// [`Error::WaitTimedOut`] at the limit, with the status that was seen last, or `unknown`;
    /// [`Error::Api`] where the call is refused.
    ///
    /// # Cancel safety
    /// Cancel safe: the run is only looked at.
    pub async fn wait_until_final(
        &self,
        run: RunUuid,
        wait: impl Into<Wait> + Send,
    ) -> Result<Statuses, Error> {
        self.wait_while(run, wait.into(), |now| !now.status.is_final())
            .await
    }

    async fn wait_while(
        &self,
        run: RunUuid,
        mut wait: Wait,
        go_on: impl Fn(&Statuses) -> bool + Send,
    ) -> Result<Statuses, Error> {
        let started = Instant::now();
        let limit = wait.limit;
        let (mut last, mut failure, mut hint) = (None, None, String::new());
        let watched = {
            let watch = self.watch(run, &mut wait, started, (&mut last, &mut failure), go_on);
            // Asked beside it, and shortly before the limit: it can last as long as any call.
            let ask = async {
                tokio::time::sleep(last_look(limit)).await;
                hint = self.hint(run).await;
                std::future::pending().await
            };
            let both = async {
                tokio::select! {
                    ended = watch => ended,
                    never = ask => never,
                }
            };
            timeout(limit, Box::pin(both)).await
        };
        watched.unwrap_or_else(|_| {
            if last.is_none() && failure.is_none() {
                ", as there was no answer".clone_into(&mut hint);
            }
            Err(Error::WaitTimedOut {
                run,
                last: last.map_or(RunStatus::Unknown, |statuses| statuses.status),
                waited: started.elapsed(),
                hint,
                source: failure.map(Box::new),
            })
        })
    }

    /// Looks until it has what it waits for; notes what it saw last, and how the last look failed.
    async fn watch(
        &self,
        run: RunUuid,
        wait: &mut Wait,
        started: Instant,
        (last, failure): (&mut Option<Statuses>, &mut Option<Error>),
        go_on: impl Fn(&Statuses) -> bool + Send,
    ) -> Result<Statuses, Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            *failure = match self.look(run, wait, last).await {
                Ok(now) if !go_on(&now) => return Ok(now),
                Ok(_) => None,
                Err(error) if error.is_retryable() => Some(error),
                Err(error) => return Err(error),
            };
            tokio::time::sleep(pause_within(wait.limit, started.elapsed(), pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Asks once, tells what changed, approves what waits for it.
    async fn look(
        &self,
        run: RunUuid,
        wait: &mut Wait,
        last: &mut Option<Statuses>,
    ) -> Result<Statuses, Error> {
        let now = self.statuses(run).await?;
        if last.as_ref() != Some(&now) {
            wait.tell(&now);
            *last = Some(now.clone());
        }
        // The status alone does not show what a run waits for.
        let unscheduled = matches!(now.status, RunStatus::Created | RunStatus::Compiled);
        if unscheduled && wait.approvals > 0 && self.get(run).await?.awaits_approval() {
            self.approve(run).await?;
            wait.approvals -= 1;
        }
        Ok(now)
    }

    /// What a status alone does not show.
    async fn hint(&self, run: RunUuid) -> String {
        match self.get(run).await {
            Ok(run) if run.pending.is_some() => {
                format!(", it waits for: {}", run.pending.unwrap_or_default())
            }
            _ => String::new(),
        }
    }
}

/// When a wait looks for the last time, from its beginning.
fn last_look(limit: Duration) -> Duration {
    limit - LAST_LOOK.min(limit / 4)
}

/// A pause that does not go beyond the last look. What has come by then is seen, however long the
/// pauses are.
pub(super) fn pause_within(limit: Duration, waited: Duration, pause: Duration) -> Duration {
    match last_look(limit).saturating_sub(waited) {
        Duration::ZERO => pause,
        left => pause.min(left),
    }
}

/// The reason and the message of the last condition.
pub(super) fn last_words(conditions: Vec<StatusCondition>) -> (Option<String>, Option<String>) {
    match conditions.into_iter().next_back() {
        Some(condition) => (condition.reason, condition.message),
        None => (None, None),
    }
}

/// The error of a run that has come to another end.
pub(super) fn ended(statuses: Statuses) -> Error {
    let (reason, message) = last_words(statuses.status_conditions);
    Error::RunEnded {
        run: statuses.uuid,
        status: statuses.status,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_looks_once_more_shortly_before_its_limit() {
        let of = Duration::from_millis;
        for (limit, looks) in [
            (100, vec![10, 30, 70, 75]),
            (4_000, vec![10, 30, 70, 150, 310, 630, 1_270, 2_550, 3_000]),
            (
                9_000,
                vec![10, 30, 70, 150, 310, 630, 1_270, 2_550, 5_110, 8_000],
            ),
        ] {
            let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
            let mut seen = Vec::new();
            loop {
                waited += pause_within(of(limit), waited, pause);
                if waited >= of(limit) {
                    break;
                }
                seen.push(waited);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            let looks: Vec<Duration> = looks.into_iter().map(of).collect();
            assert_eq!(seen, looks, "{limit} ms");
        }
        assert_eq!(
            pause_within(Duration::MAX, of(1), LONGEST_PAUSE),
            LONGEST_PAUSE
        );
        assert_eq!(
            pause_within(Duration::ZERO, of(1), FIRST_PAUSE),
            FIRST_PAUSE
        );
    }
}
