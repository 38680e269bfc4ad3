//! Lists of any length, as a stream of runs.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt as _};
use jiff::Timestamp;

use super::list::PAGE;
use super::{ListRuns, Run, Runs, Sort, SortField};
use crate::error::Error;
use crate::ids::RunUuid;

/// The runs of a list, one after the other. A page is asked for when its first run is wanted.
/// Dropping it is safe at any time: nothing but reading is done. It ends after the first error.
#[must_use = "streams do nothing unless polled"]
pub struct RunStream(BoxStream<'static, Result<Run, Error>>);

impl Stream for RunStream {
    type Item = Result<Run, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for RunStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").finish_non_exhaustive()
    }
}

impl Runs {
    /// All runs that fit `list`, from as many pages as there are; `limit` of the list is the size of
    /// a page: 200 by default, and at least 2.
    ///
    /// Where the list has no order of its own, the oldest run comes first, and each page begins at
    /// the time of creation at which the last one ended. So, while runs change, are added and are
    /// deleted: no run comes twice, and a run that fits from the beginning to the end comes once.
    /// One that fits only for a part of the time may come or not; one that is created meanwhile
    /// comes, if it fits when its turn is. (Of runs that were created in the same microsecond a page
    /// has to hold one more than there are.)
    ///
    /// Where the list has an order, pages are counted, and a run that changes its place in between
    /// can be missing. None comes twice.
    ///
    /// # Examples
    /// ```
    /// use futures::TryStreamExt as _;
    /// use polyaxon_client::runs::{CreateRun, ListRuns, RunQuery};
    /// # use polyaxon_client::{Client, Config, Token};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = polyaxon_local::LocalServer::start().await?;
    /// # let config = Config::explicit(server.url())?.token(Token::new(server.token())?);
    /// # let runs = Client::new(&config)?.runs(server.project());
    /// for number in 0..5 {
    ///     runs.create(&CreateRun::unmanaged().name(format!("candidate-{number}"))).await?;
    /// }
    /// let list = ListRuns::new()
    ///     .matching(&RunQuery::new().name().ne("candidate-3"))?
    ///     .limit(2);
    /// let names: Vec<_> = runs.stream(&list).map_ok(|run| run.name).try_collect().await?;
    /// let names: Vec<_> = names.iter().flatten().collect();
    /// assert_eq!(names, ["candidate-0", "candidate-1", "candidate-2", "candidate-4"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, list: &ListRuns) -> RunStream {
        let mut list = list.clone();
        // A page begins with the last run of the one before: with one place it would be a page of
        // that run.
        list.limit = Some(list.limit.unwrap_or(PAGE).max(2));
        let order = match list.sort {
            Some(_) => Order::Counted,
            None => Order::Created(None),
        };
        if matches!(order, Order::Created(_)) {
            list = list.sorted(&Sort::ascending(SortField::CREATED_AT));
        }
        let walk = Walk {
            runs: self.clone(),
            list,
            order,
            ready: VecDeque::new(),
            seen: HashMap::new(),
            ended: false,
        };
        let runs = futures::stream::try_unfold(walk, |mut walk| async move {
            Ok(walk.next().await?.map(|run| (run, walk)))
        });
        RunStream(runs.boxed())
    }
}

/// How the next page is found.
#[derive(Clone, Copy)]
enum Order {
    /// By the time of creation of the last run, once there was one.
    Created(Option<Timestamp>),
    /// By the number of runs before it.
    Counted,
}

struct Walk {
    runs: Runs,
    list: ListRuns,
    order: Order,
    ready: VecDeque<Run>,
    /// What came, of all that can come once more.
    seen: HashMap<RunUuid, Option<Timestamp>>,
    ended: bool,
}

impl Walk {
    async fn next(&mut self) -> Result<Option<Run>, Error> {
        loop {
            if let Some(run) = self.ready.pop_front() {
                return Ok(Some(run));
            }
            if self.ended {
                return Ok(None);
            }
            self.turn().await?;
        }
    }

    /// Asks for a page.
    async fn turn(&mut self) -> Result<(), Error> {
        let mut list = self.list.clone();
        if let Order::Created(Some(last)) = self.order {
            // That time included: others can have been created in the same microsecond.
            list = list.query(format!("created_at:>={last}"));
        }
        let page = self.runs.list(&list).await?;
        let (all, page) = (page.count, page.runs);
        let count = u64::try_from(page.len()).unwrap_or(u64::MAX);
        // A server can have shorter pages than it was asked for: a short one alone is not the last.
        let is_short = count < u64::from(self.list.limit.unwrap_or(PAGE));
        self.ended = count == 0 || (is_short && list.offset.saturating_add(count) >= all);
        let last = page.last().and_then(|run| run.created_at);
        for run in page {
            if self.seen.insert(run.uuid, run.created_at).is_none() {
                self.ready.push_back(run);
            }
        }
        match (self.order, last) {
            (Order::Created(before), Some(last)) if before.is_none_or(|before| before < last) => {
                self.order = Order::Created(Some(last));
                self.list.offset = 0;
                // What was created before cannot come any more.
                self.seen.retain(|_, at| at.is_none_or(|at| at >= last));
            }
            // A page of runs of one time, or an order of the caller's own.
            _ => self.list.offset = self.list.offset.saturating_add(count),
        }
        Ok(())
    }
}
