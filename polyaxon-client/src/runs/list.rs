//! Lists of runs, page by page.

use http::header;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::Deserialize;

use super::{Run, RunQuery, Runs, Sort};
use crate::error::{Error, InvalidInput};
use crate::transport::{Answer, Operation};

/// How many runs a page has where the caller does not say. A platform was seen to serve 1000.
pub(super) const PAGE: u32 = 200;

/// What a list is to hold, and in which order.
///
/// [`matching`](Self::matching) and [`sorted`](Self::sorted) are typed; [`query`](Self::query) and
/// [`sort`](Self::sort) take the platform's own language as it is, for what those do not offer.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::{ListRuns, RunQuery, Sort, SortField};
///
/// let labs = RunQuery::new().kind().eq("service").name().eq("lab");
/// let list = ListRuns::new()
///     .matching(&labs)?
///     .sorted(&Sort::descending(SortField::CREATED_AT))
///     .limit(20);
/// assert_eq!(list.query_text(), r#"kind:"service",name:"lab",live_state:1"#);
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a ListRuns does nothing until it is passed to `runs().list`"]
pub struct ListRuns {
    terms: Vec<String>,
    pub(super) sort: Option<String>,
    pub(super) limit: Option<u32>,
    pub(super) offset: u64,
}

impl ListRuns {
    /// All runs that are not archived, in the platform's order, which is the last changed first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition in the platform's query language, as it is: `status:running|starting`. Runs
    /// have to fit all conditions. One with `OR` in it goes into parentheses, or it swallows the
    /// others.
    pub fn query(mut self, text: impl Into<String>) -> Self {
        self.terms.push(text.into());
        self
    }

    /// Adds the conditions of `query`.
    ///
    /// # Errors
    /// What [`RunQuery::text`] gives back: a key, a value or a list that the language cannot say.
    pub fn matching(self, query: &RunQuery) -> Result<Self, InvalidInput> {
        Ok(self.query(query.text()?))
    }

    /// The order.
    pub fn sorted(self, order: &Sort) -> Self {
        self.sort(order.to_string())
    }

    /// The order: fields joined by a comma, `-` before one for descending. The platform ignores a
    /// field that it does not know: [`sorted`](Self::sorted) refuses one. `created_at` and `-created_at` stay the same while runs change.
    pub fn sort(mut self, fields: impl Into<String>) -> Self {
        self.sort = Some(fields.into());
        self
    }

    /// How many runs at most. Default: the platform's, which is 100.
    pub fn limit(mut self, count: u32) -> Self {
        self.limit = Some(count);
        self
    }

    /// How many runs are passed over first. Default: 0.
    pub fn offset(mut self, count: u64) -> Self {
        self.offset = count;
        self
    }

    /// The conditions as they are sent.
    #[must_use]
    pub fn query_text(&self) -> String {
        self.terms.join(",")
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunPage {
    /// How many runs there are in all.
    pub count: u64,
    /// The runs of this page. Content, owner and project are missing in them.
    pub runs: Vec<Run>,
    /// When the platform answered, by its own clock, to compare its other times with.
    pub answered_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    results: Vec<Run>,
}

impl Runs {
    /// One page of the project's runs.
    ///
    /// # Errors
    /// [`Error::Api`] with status 400 where the query is none, and 404 where there is no such
    /// project.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list(&self, list: &ListRuns) -> Result<RunPage, Error> {
        let mut operation = Operation::get("runs.list", self.path());
        if !list.terms.is_empty() {
            operation = operation.query("query", list.query_text());
        }
        if let Some(sort) = &list.sort {
            operation = operation.query("sort", sort);
        }
        if let Some(limit) = list.limit {
            operation = operation.query("limit", limit.to_string());
        }
        if list.offset > 0 {
            operation = operation.query("offset", list.offset.to_string());
        }
        let answer = self.transport().send(operation).await?;
        let page: Page = answer.json()?;
        let passed = u64::try_from(page.results.len()).unwrap_or(u64::MAX);
        Ok(RunPage {
            count: page.count.unwrap_or(list.offset.saturating_add(passed)),
            answered_at: date_of(&answer),
            runs: page.results,
        })
    }

    /// All runs that fit, the newest first, from as many pages as there are. Runs that are created
    /// meanwhile can be missing, and others where some are deleted meanwhile; none comes twice. `limit` of `list` is the size of a page
    /// (default 200), its order and offset are not used.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn all(&self, list: &ListRuns) -> Result<RunPage, Error> {
        let size = list.limit.unwrap_or(PAGE);
        let mut next = list.clone().sort("-created_at").limit(size).offset(0);
        let mut all = self.list(&next).await?;
        let mut last = all.runs.len();
        while last > 0 && (all.runs.len() as u64) < all.count {
            next.offset = next
                .offset
                .saturating_add(u64::try_from(last).unwrap_or(u64::MAX));
            let page = self.list(&next).await?;
            last = page.runs.len();
            // A run that is created meanwhile moves the others one place down.
            for run in page.runs {
                if !all.runs.iter().any(|known| known.uuid == run.uuid) {
                    all.runs.push(run);
                }
            }
            if next.offset.saturating_add(last as u64) >= page.count {
                break;
            }
        }
        Ok(all)
    }
}

fn date_of(answer: &Answer) -> Option<Timestamp> {
    let text = answer.headers.get(header::DATE)?.to_str().ok()?;
    // The form of HTTP is one of those of mail, but for the name of the zone.
    let text = text.replace("GMT", "+0000");
    Some(rfc2822::parse(&text).ok()?.timestamp())
}
