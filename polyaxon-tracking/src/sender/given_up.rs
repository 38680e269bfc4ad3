//! What is not sent any more as it is, and who was told.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Cause;
use crate::error::Error;
use crate::report::Unsent;

/// For the report of the end, and before that for flushes: each part is told once.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// With their numbers, in the order of these.
    parts: Vec<(u64, Unsent)>,
    /// How many there ever were, and how many of them a flush has told.
    count: u64,
    told: u64,
}

/// A flush that waits for its answer.
#[derive(Debug)]
pub(super) struct Flush {
    /// It is done once nothing waits that was taken up to this number.
    pub(super) due: u64,
    /// How much was told before it.
    told: u64,
    answer: oneshot::Sender<Result<(), Error>>,
}

impl Flush {
    pub(super) fn not_yet(self, waiting: usize, cause: &Cause) {
        let source = Arc::clone(cause);
        self.reply(Err(Error::NotYetSent { waiting, source }));
    }

    pub(super) fn ended(self) {
        self.reply(Err(Error::Ended));
    }

    fn reply(self, result: Result<(), Error>) {
        // Whoever does not wait any more does not want to know.
        let _ = self.answer.send(result);
    }
}

impl GivenUp {
    pub(super) fn add(&mut self, part: Unsent) {
        self.count += 1;
        self.parts.push((self.count, part));
    }

    /// The file is there now, or is given up anew.
    pub(super) fn forget_file(&mut self, path: &str) {
        self.parts.retain(|(_, part)| !part.is_file(path));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn flush(&self, due: u64, answer: oneshot::Sender<Result<(), Error>>) -> Flush {
        Flush {
            due,
            told: self.told,
            answer,
        }
    }

    /// All that the flush waits for is sent or given up.
    pub(super) fn done(&mut self, flush: Flush) {
        let parts = self.parts.iter().filter(|(number, _)| *number > flush.told);
        let unsent: Vec<Unsent> = parts.map(|(_, part)| part.clone()).collect();
        let source = unsent.iter().find_map(|part| part.cause.clone());
        let result = match source {
            None if unsent.is_empty() => Ok(()),
            // Without a cause, it is the time that was up: that is so once the run has ended.
            None => Err(Error::Ended),
            Some(source) => Err(Error::NotSent { unsent, source }),
        };
        if flush.answer.send(result).is_ok() {
            self.told = self.count;
        }
    }

    pub(super) fn take(&mut self) -> Vec<Unsent> {
        let parts = std::mem::take(&mut self.parts).into_iter();
        parts.map(|(_, part)| part).collect()
    }
}

#[cfg(test)]
mod tests {
    use polyaxon_client::InvalidInput;

    use super::*;
    use crate::report::Sending;

    fn part(path: &str) -> Unsent {
        let cause = InvalidInput::new("file", "cannot be read");
        Unsent {
            what: Sending::File(path.to_owned()),
            cause: Some(Arc::new(cause.into())),
        }
    }

    /// The paths that a flush is told.
    fn told(
        given_up: &mut GivenUp,
        flush: Flush,
        answer: &mut oneshot::Receiver<Result<(), Error>>,
    ) -> Vec<String> {
        given_up.done(flush);
        let Err(error) = answer.try_recv().unwrap() else {
            return Vec::new();
        };
        let Error::NotSent { unsent, .. } = error else {
            panic!("{error:?}")
        };
        let path = |part: Unsent| match part.what {
            Sending::File(path) => path,
            other => panic!("{other:?}"),
        };
        unsent.into_iter().map(path).collect()
    }

    #[test]
    fn every_flush_is_told_what_was_given_up_before_it_was_done() {
        let mut given_up = GivenUp::default();
        given_up.add(part("a"));
        let mut asked: Vec<_> = (0..4).map(|_| oneshot::channel()).collect();
        let mut ask = |given_up: &GivenUp| {
            let (answer, answered) = asked.pop().unwrap();
            (given_up.flush(0, answer), answered)
        };
        // Nobody hears the first. The others were asked at the same time.
        let (unheard, _) = ask(&given_up);
        let (first, mut first_answer) = ask(&given_up);
        let (second, mut second_answer) = ask(&given_up);
        given_up.done(unheard);
        assert_eq!(told(&mut given_up, first, &mut first_answer), ["a"]);
        given_up.add(part("b"));
        assert_eq!(told(&mut given_up, second, &mut second_answer), ["a", "b"]);
        given_up.forget_file("a");
        given_up.add(part("a"));
        given_up.add(part("c"));
        given_up.forget_file("c");
        let (third, mut third_answer) = ask(&given_up);
        assert_eq!(told(&mut given_up, third, &mut third_answer), ["a"]);
        let all = given_up.take();
        let all: Vec<_> = all.iter().map(Unsent::what).collect();
        let file = |path: &str| Sending::File(path.to_owned());
        assert_eq!(all, [&file("b"), &file("a")]);
    }

    #[test]
    fn what_the_time_was_up_for_is_no_success() {
        let unknown = || Unsent {
            cause: None,
            ..part("status")
        };
        let mut given_up = GivenUp::default();
        given_up.add(unknown());
        let (answer, mut answered) = oneshot::channel();
        given_up.done(given_up.flush(0, answer));
        let result = answered.try_recv().unwrap();
        assert!(matches!(result, Err(Error::Ended)), "{result:?}");
        // A cause that is known goes before.
        given_up.add(unknown());
        given_up.add(part("a"));
        let (answer, mut answered) = oneshot::channel();
        given_up.done(given_up.flush(0, answer));
        let result = answered.try_recv().unwrap();
        assert!(
            matches!(&result, Err(Error::NotSent { unsent, .. }) if unsent.len() == 2),
            "{result:?}"
        );
    }
}
