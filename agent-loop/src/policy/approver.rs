//! Who answers what a policy asks: a function, or a person at a terminal.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::oneshot;

use super::{Approval, Approver};

/// An approver that is a function. Made by [`approver_fn`].
pub struct ApproverFn<F>(F);

/// An approver that answers as `function` does.
///
/// # Examples
/// ```
/// use agent_loop::policy::approver_fn;
///
/// let only_small = approver_fn(async |approval| !approval.question.contains("delete"));
/// # let _ = only_small;
/// ```
#[must_use]
pub fn approver_fn<F, Fut>(function: F) -> ApproverFn<F>
where
    F: Fn(Approval) -> Fut + Send + Sync,
    Fut: Future<Output = bool> + Send,
{
    ApproverFn(function)
}

impl<F> fmt::Debug for ApproverFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApproverFn")
    }
}

impl<F, Fut> Approver for ApproverFn<F>
where
    F: Fn(Approval) -> Fut + Send + Sync,
    Fut: Future<Output = bool> + Send,
{
    fn approve<'a>(&'a self, question: &'a Approval) -> BoxFuture<'a, bool> {
        async move { (self.0)(question.clone()).await }.boxed()
    }
}

/// Asks a person in lines of text: `y` or `yes` is a yes, everything else and the end of the input
/// a no.
///
/// Nothing is read before a policy asks, and nothing at all unless an attempt is given one of
/// these: a program that runs without anybody there never waits for a keyboard.
///
/// # Examples
/// ```
/// use agent_loop::policy::{Approval, Approver as _, TerminalApprover};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let person = TerminalApprover::new(&b"yes\nno\n"[..], Vec::new());
/// let question = Approval::new("May it be written?", agent_loop::action::parse(
///     r#"{"action":"check"}"#,
///     agent_loop::Finish::Stop,
/// )?);
/// assert!(person.approve(&question).await);
/// assert!(!person.approve(&question).await);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TerminalApprover {
    lines: Arc<Mutex<Lines>>,
}

struct Lines {
    input: Box<dyn BufRead + Send>,
    output: Box<dyn Write + Send>,
}

impl TerminalApprover {
    /// Reads answers from `input` and writes questions to `output`.
    #[must_use]
    pub fn new(input: impl BufRead + Send + 'static, output: impl Write + Send + 'static) -> Self {
        let lines = Lines {
            input: Box::new(input),
            output: Box::new(output),
        };
        Self {
            lines: Arc::new(Mutex::new(lines)),
        }
    }

    /// Reads answers from the standard input of this program and writes questions to its standard
    /// error.
    #[must_use]
    pub fn stdin() -> Self {
        Self::new(BufReader::new(std::io::stdin()), std::io::stderr())
    }
}

impl fmt::Debug for TerminalApprover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TerminalApprover")
    }
}

impl Approver for TerminalApprover {
    /// # Cancel safety
    /// Dropping the future withdraws the question; a thread that waits for a line goes on waiting
    /// for it, and that line answers nothing.
    fn approve<'a>(&'a self, question: &'a Approval) -> BoxFuture<'a, bool> {
        let lines = Arc::clone(&self.lines);
        let text = format!("{} [y/N] ", question.question);
        let (tell, told) = oneshot::channel();
        // A line can take for ever, which no thread of a runtime is for.
        let asked = std::thread::Builder::new()
            .name("approver".to_owned())
            .spawn(move || {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                let Lines { input, output } = &mut *lines;
                // Nobody may be waiting for the answer any more.
                let _heard = tell.send(ask(input, output, &text));
            });
        async move { asked.is_ok() && told.await.unwrap_or(false) }.boxed()
    }
}

fn ask(input: &mut dyn BufRead, output: &mut dyn Write, text: &str) -> bool {
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    let mut line = String::new();
    // A question that nobody saw has no answer.
    if written.is_err() || input.read_line(&mut line).is_err() {
        return false;
    }
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    fn approval() -> Approval {
        Approval::new("May it?", Action::Check { name: None })
    }

    #[tokio::test]
    async fn a_yes_is_a_yes_and_all_else_is_a_no() {
        let person = TerminalApprover::new(&b"y\nYES \nyep\n\nno\n\xff\n"[..], Vec::new());
        let mut answers = Vec::new();
        for _ in 0..7 {
            answers.push(person.approve(&approval()).await);
        }
        assert_eq!(answers, [true, true, false, false, false, false, false]);
    }

    /// Shares what is written.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_question_is_written_before_anything_is_read() {
        struct Watching(Shared);
        impl std::io::Read for Watching {
            fn read(&mut self, _bytes: &mut [u8]) -> std::io::Result<usize> {
                assert_eq!(*self.0.0.lock().unwrap(), b"May it? [y/N] ");
                Ok(0)
            }
        }
        let written = Shared::default();
        let input = BufReader::new(Watching(written.clone()));
        let person = TerminalApprover::new(input, written.clone());
        assert!(written.0.lock().unwrap().is_empty());
        assert!(!person.approve(&approval()).await);
    }

    #[tokio::test]
    async fn a_function_can_answer() {
        let never = approver_fn(async |approval| approval.question == "other");
        assert!(!never.approve(&approval()).await);
    }
}
