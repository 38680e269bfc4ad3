//! A file of the sandbox, page by page in order, with as many pages under way at once as the round
//! trip makes worth it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, Stream};
use http::StatusCode;
use polyaxon_client::transport::Operation;

use super::buffers::Buffers;
use super::files::{Fs, Page, is_refused, no_advance, page_ends};
use super::tally::{Attempts, Tally};
use crate::error::Error;
use crate::path::AbsPath;
use crate::wire::route;

/// The size of a page unless told otherwise. The service gives 16 MiB at most.
pub(super) const PAGE: u64 = 4 << 20;
/// How many pages are under way at most unless told otherwise. With pages of [`PAGE`] that is what
/// bounds the memory.
pub(super) const MOST_PAGES: usize = 3;
/// What every service gives at once: its default.
const SAFE_PAGE: u64 = 1 << 20;

/// What is read, and how.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) path: AbsPath,
    /// The first byte.
    pub(super) start: u64,
    /// The byte behind the last one wanted; `None` is the end of the file.
    pub(super) end: Option<u64>,
    /// Up to where the file is known to go. Behind it a page is asked for only when the one before
    /// it said that there is more.
    pub(super) known: u64,
    pub(super) page: u64,
    /// How many pages may be under way at once.
    pub(super) most: usize,
}

/// A page that came, and what it took.
struct Fetched {
    offset: u64,
    asked: u64,
    result: Result<(Page, Pace), Error>,
}

/// How long the answer let wait for itself, and how long it took then.
#[derive(Clone, Copy)]
struct Pace {
    head: Duration,
    body: Duration,
}

/// The pages. Ends at the end of the file or of what was wanted, or after the first error.
pub(super) struct Pages {
    fs: Fs,
    plan: Plan,
    tally: Tally,
    buffers: Buffers,
    flying: FuturesOrdered<BoxFuture<'static, Fetched>>,
    /// How many may fly now.
    window: usize,
    /// Where the next request begins.
    next: u64,
    /// Up to where pages were given out.
    at: u64,
    done: bool,
}

impl Pages {
    pub(super) fn new(fs: Fs, plan: Plan, tally: Tally) -> Self {
        Self {
            fs,
            tally,
            buffers: Buffers::default(),
            flying: FuturesOrdered::new(),
            window: 1,
            next: plan.start,
            at: plan.start,
            done: false,
            plan,
        }
    }

    /// Where the space of pages that are used up is wanted back.
    pub(super) fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    /// Up to where pages were given out.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Asks for pages until the window is full.
    fn fill(&mut self) {
        while self.flying.is_empty()
            || (self.flying.len() < self.window && self.next < self.plan.known)
        {
            let left = self.plan.end.unwrap_or(u64::MAX).saturating_sub(self.next);
            let length = self.plan.page.min(left);
            if length == 0 {
                return;
            }
            let (offset, asked) = (self.next, length);
            let (fs, path, tally) = (self.fs.clone(), self.plan.path.clone(), self.tally.clone());
            let buffers = self.buffers.clone();
            self.flying.push_back(Box::pin(async move {
                let result = fetch(&fs, &path, offset, asked, &tally, &buffers).await;
                Fetched {
                    offset,
                    asked,
                    result,
                }
            }));
            self.next += length;
        }
    }

    /// Forgets what is under way and asks again from where pages were given out to.
    fn restart(&mut self) {
        self.flying = FuturesOrdered::new();
        self.next = self.at;
    }

    /// Takes a page that came; `None` where it is to be asked for again.
    fn take(&mut self, fetched: Fetched) -> Option<Result<Bytes, Error>> {
        let (page, pace) = match fetched.result {
            Ok(found) => found,
            Err(error) => {
                let too_long = is_refused(&error, StatusCode::BAD_REQUEST);
                if too_long && self.plan.page > SAFE_PAGE {
                    self.plan.page = SAFE_PAGE;
                    self.restart();
                    return None;
                }
                self.done = true;
                return Some(Err(error));
            }
        };
        self.window = self.window.max(worth(pace)).min(self.plan.most);
        self.at = page.next_offset;
        let wanted = self.plan.end.is_none_or(|end| self.at < end);
        self.done = page.eof || !wanted;
        if page.bytes.is_empty() && !self.done {
            self.done = true;
            return Some(Err(no_advance(fetched.offset)));
        }
        if page.next_offset != fetched.offset + fetched.asked {
            // A service that gives less at once than it was asked for.
            self.restart();
        }
        if self.done {
            self.flying = FuturesOrdered::new();
        }
        (!page.bytes.is_empty()).then_some(Ok(page.bytes))
    }
}

/// How many pages at once keep the connection busy: while the answer to one lets wait for itself,
/// others can come.
fn worth(pace: Pace) -> usize {
    let body = pace.body.as_secs_f64().max(1e-6);
    let mut pages = 1;
    let mut covered = 0.0;
    // A tenth of waiting is not worth a second connection.
    while pages < 64 && covered + 0.1 * body < pace.head.as_secs_f64() {
        pages += 1;
        covered += body;
    }
    pages
}

impl Stream for Pages {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.done {
                return Poll::Ready(None);
            }
            this.fill();
            match ready!(Pin::new(&mut this.flying).poll_next(cx)) {
                // Nothing under way and nothing to ask for: what was wanted is there.
                None => this.done = true,
                Some(fetched) => {
                    if let Some(item) = this.take(fetched) {
                        return Poll::Ready(Some(item));
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages")
            .field("plan", &self.plan)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// One page. Where its body breaks off, the rest is asked for: no byte comes twice.
async fn fetch(
    fs: &Fs,
    path: &AbsPath,
    offset: u64,
    length: u64,
    tally: &Tally,
    buffers: &Buffers,
) -> Result<(Page, Pace), Error> {
    let mut attempts = Attempts::new(tally);
    let mut bytes = buffers.take();
    let mut pace = Pace {
        head: Duration::ZERO,
        body: Duration::ZERO,
    };
    loop {
        let got = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match part(
            fs,
            path,
            offset + got,
            length - got,
            &mut bytes,
            tally,
            &mut pace,
        )
        .await
        {
            Ok(eof) => {
                let bytes = Bytes::from(bytes);
                let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let page = Page {
                    bytes,
                    next_offset: offset + count,
                    eof,
                };
                return Ok((page, pace));
            }
            Err(error) => {
                if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > got {
                    attempts.renew();
                }
                attempts.again_after(error).await?;
            }
        }
    }
}

/// One request of a page, whose bytes are added to `bytes` as they come.
async fn part(
    fs: &Fs,
    path: &AbsPath,
    offset: u64,
    length: u64,
    bytes: &mut Vec<u8>,
    tally: &Tally,
    pace: &mut Pace,
) -> Result<bool, Error> {
    let operation = Operation::get("fs.read", route::FS_READ)
        .query("path", path.as_str())
        .query("offset", offset.to_string())
        .query("length", length.to_string())
        .accept_bytes()
        .once();
    tally.request();
    let begun = Instant::now();
    let mut answer = fs.sandbox().open(operation).await?;
    pace.head = begun.elapsed();
    let announced = answer
        .headers()
        .get(http::header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    // What the service announces is believed up to what was asked for.
    let announced = announced.unwrap_or(0).min(length);
    bytes.reserve(usize::try_from(announced).unwrap_or(0));
    let mut count = 0;
    while let Some(chunk) = answer.chunk().await? {
        count += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if count > length {
            return Err(Error::Protocol {
                operation: "fs.read",
                problem: format!("more than the {length} bytes came that were asked for"),
            });
        }
        bytes.extend_from_slice(&chunk);
    }
    pace.body = begun.elapsed().saturating_sub(pace.head);
    page_ends(answer.headers(), offset, length, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pages_are_under_way_the_longer_an_answer_lets_wait() {
        let at = |head, body| {
            worth(Pace {
                head: Duration::from_micros(head),
                body: Duration::from_micros(body),
            })
        };
        assert_eq!(at(50, 1_000), 1);
        assert_eq!(at(500, 1_000), 2);
        assert_eq!(at(3_000, 1_000), 4);
        assert_eq!(at(100_000, 0), 64);
    }
}
