//! Output line by line, and as text.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::Stream;

use super::super::background::LogStream;
use super::ExecEvents;
use super::event::{Chunk, StreamEvent};
use crate::error::Error;

/// A line that is longer is given out in parts.
const LONGEST_LINE: usize = 1 << 20;

/// A line of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Which output.
    pub stream: LogStream,
    /// The line without its end, which is LF or CR LF. Bytes that were not UTF-8 are U+FFFD.
    pub text: String,
    /// Whether its end was there. It is not behind the last line of an output that does not end
    /// with one, and not inside of a line longer than 1 MiB, which comes in parts.
    pub ended: bool,
}

/// The lines of a command, as a stream. Lines of both outputs come as they are ended; in one output
/// they keep their order.
///
/// # Errors
/// As [`ExecEvents`], after which nothing comes. What was written of a line that was not ended
/// then is not given out.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Lines {
    events: ExecEvents,
    stdout: Splitter,
    stderr: Splitter,
    ready: VecDeque<Line>,
}

/// The text of one output, as a stream of pieces in which no character is cut.
///
/// # Errors
/// As [`ExecEvents`], after which nothing comes.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Text {
    events: ExecEvents,
    stream: LogStream,
}

impl ExecEvents {
    /// The output line by line.
    ///
    /// # Examples
    /// ```
    /// # use polyaxon_sandbox::{Exec, SandboxClient, SandboxSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let token = polyaxon_client::Token::new(server.token())?;
    /// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
    /// # let client = polyaxon_client::Client::new(&config)?;
    /// # let spec = SandboxSpec::image("i");
    /// # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
    /// let exec = Exec::shell("printf 'one\\ntwo\\r\\nthree'; exit 4");
    /// let mut lines = sandbox.process().exec_stream(&exec).await?.lines();
    /// let mut texts = Vec::new();
    /// while let Some(line) = lines.next().await {
    ///     texts.push(line?.text);
    /// }
    /// assert_eq!(texts, ["one", "two", "three"]);
    /// assert!(lines.events().completion().is_some_and(|end| !end.success()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lines(self) -> Lines {
        Lines {
            events: self,
            stdout: Splitter::default(),
            stderr: Splitter::default(),
            ready: VecDeque::new(),
        }
    }

    /// One output as text.
    pub fn text(self, stream: LogStream) -> Text {
        Text {
            events: self,
            stream,
        }
    }
}

impl Lines {
    /// The next line; `None` where the command has ended.
    ///
    /// # Errors
    /// As said of the type.
    ///
    /// # Cancel safety
    /// Cancel safe: no line is lost.
    pub async fn next(&mut self) -> Option<Result<Line, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// What the lines are made of: the exec's id, how far it was read, how it ended.
    pub fn events(&self) -> &ExecEvents {
        &self.events
    }
}

impl Text {
    /// The next piece; `None` where the command has ended.
    ///
    /// # Errors
    /// As said of the type.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost.
    pub async fn next(&mut self) -> Option<Result<String, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// What the text is made of: the exec's id, how far it was read, how it ended.
    pub fn events(&self) -> &ExecEvents {
        &self.events
    }
}

impl Stream for Lines {
    type Item = Result<Line, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(line) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(line)));
            }
            let event = match ready!(Pin::new(&mut this.events).poll_next(context)) {
                Some(Ok(event)) => event,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match event {
                StreamEvent::Output(chunk) => match chunk.stream {
                    LogStream::Stdout => this.stdout.add(&chunk, &mut this.ready),
                    LogStream::Stderr => this.stderr.add(&chunk, &mut this.ready),
                },
                StreamEvent::Complete(_) => {
                    this.stdout.finish(LogStream::Stdout, &mut this.ready);
                    this.stderr.finish(LogStream::Stderr, &mut this.ready);
                }
                StreamEvent::Started(_) | StreamEvent::Other { .. } => {}
            }
        }
    }
}

impl Stream for Text {
    type Item = Result<String, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.events).poll_next(context)) {
                Some(Ok(StreamEvent::Output(chunk))) if chunk.stream == self.stream => {
                    return Poll::Ready(Some(Ok(chunk.text().into_owned())));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// One output, cut into lines. Each byte is looked at once.
#[derive(Debug, Default)]
struct Splitter {
    /// A line that is not ended so far.
    open: Vec<u8>,
}

impl Splitter {
    fn add(&mut self, chunk: &Chunk, ready: &mut VecDeque<Line>) {
        for part in chunk.bytes.split_inclusive(|&byte| byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(part) => {
                    self.open.extend_from_slice(part);
                    if self.open.last() == Some(&b'\r') {
                        self.open.pop();
                    }
                    self.give(chunk.stream, true, ready);
                }
                None => self.open.extend_from_slice(part),
            }
        }
        if self.open.len() > LONGEST_LINE {
            self.give(chunk.stream, false, ready);
        }
    }

    fn finish(&mut self, stream: LogStream, ready: &mut VecDeque<Line>) {
        if !self.open.is_empty() {
            self.give(stream, false, ready);
        }
    }

    fn give(&mut self, stream: LogStream, ended: bool, ready: &mut VecDeque<Line>) {
        let text = match String::from_utf8(std::mem::take(&mut self.open)) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        ready.push_back(Line {
            stream,
            text,
            ended,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Vec<(String, bool)> {
        let (mut splitter, mut ready) = (Splitter::default(), VecDeque::new());
        for bytes in chunks {
            let chunk = Chunk {
                stream: LogStream::Stdout,
                bytes: bytes::Bytes::copy_from_slice(bytes.as_bytes()),
                start: 0,
                end: 0,
                lossy: false,
            };
            splitter.add(&chunk, &mut ready);
        }
        splitter.finish(LogStream::Stdout, &mut ready);
        ready
            .into_iter()
            .map(|line| (line.text, line.ended))
            .collect()
    }

    #[test]
    fn lines_end_with_lf_or_cr_lf_and_the_last_one_may_have_no_end() {
        let line = |text: &str, ended| (text.to_owned(), ended);
        assert_eq!(split([]), []);
        assert_eq!(split(["a\n"]), [line("a", true)]);
        assert_eq!(
            split(["a\r", "\n\n", "b\rc"]),
            [line("a", true), line("", true), line("b\rc", false)]
        );
        let long = "x".repeat(LONGEST_LINE + 1);
        let parts = split([long.as_str(), "y\n"]);
        assert_eq!(parts, [line(&long, false), line("y", true)]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_output_is_cut(
            text in "[ab\u{e9}\r\n]{0,24}", cuts in prop::collection::vec(0..24_usize, 0..4),
        ) {
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(chars.len())).collect();
            cuts.extend([0, chars.len()]);
            cuts.sort_unstable();
            let parts: Vec<String> = cuts
                .windows(2)
                .map(|pair| chars[pair[0]..pair[1]].iter().collect())
                .collect();
            let parts = split(parts.iter().map(String::as_str));
            prop_assert_eq!(&parts, &split([text.as_str()]));
            let joined: usize = parts.iter().map(|(text, _)| text.len()).sum();
            prop_assert!(joined <= text.len());
        }
    }
}
