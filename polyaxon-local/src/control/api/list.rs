//! Pages of lists.

use http::{HeaderMap, Uri, header};
use serde_json::{Map, Value, json};

use super::Result;
use crate::control::Problem;
use crate::control::query::{Fields, Filter, Order};
use crate::daemon::Query;

/// Items of a page where the caller asks for no other number.
const LIMIT: usize = 100;

/// What a caller wants of a list.
#[derive(Debug)]
pub(super) struct List {
    query: String,
    sort: String,
    limit: usize,
    offset: usize,
    whole: bool,
}

impl List {
    pub(super) fn parse(query: Option<&str>) -> Result<Self> {
        let query = Query::parse(query)
            .map_err(|_| Problem::refused("The query string has a broken escape."))?;
        let text = |name: &str| query.text(name).unwrap_or_default().to_owned();
        // What is no number above 0 means the default, as on the platform.
        let number = |name: &str| text(name).parse::<usize>().ok().filter(|n| *n > 0);
        Ok(Self {
            query: text("query"),
            sort: text("sort"),
            limit: number("limit").unwrap_or(LIMIT),
            offset: number("offset").unwrap_or(0),
            whole: text("no_page") == "true",
        })
    }

    pub(super) fn filter(&self, fields: &Fields) -> Result<Filter> {
        Filter::parse(&self.query, fields)
            .map_err(|why| Problem::refused(format!("Error applying or resolving queryset, {why}")))
    }

    pub(super) fn order(&self, fields: &Fields, default: &str) -> Result<Order> {
        let text = if self.sort.is_empty() {
            default
        } else {
            &self.sort
        };
        Order::parse(text, fields)
            .map_err(|why| Problem::refused(format!("Error applying or resolving queryset, {why}")))
    }

    /// For a list that has neither.
    pub(super) fn refuse_query_and_sort(&self) -> Result<()> {
        match self.query.is_empty() && self.sort.is_empty() {
            true => Ok(()),
            false => Err(Problem::refused(
                "Error applying or resolving queryset, polyaxon-local neither filters nor sorts this list",
            )),
        }
    }
}

/// The page of `items` that `list` asks for, in the platform's envelope.
pub(super) fn page(
    list: &List,
    items: Vec<Map<String, Value>>,
    headers: &HeaderMap,
    uri: &Uri,
) -> Value {
    let count = items.len();
    if list.whole {
        return json!({"count": count, "next": null, "previous": null, "results": items});
    }
    let link = |offset: usize| {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok())?;
        let query = uri.query().unwrap_or_default();
        let rest = query.split('&').filter(|pair| {
            !pair.is_empty() && !pair.starts_with("limit=") && !pair.starts_with("offset=")
        });
        let rest: String = rest.map(|pair| format!("&{pair}")).collect();
        let limit = list.limit;
        Some(format!(
            "http://{host}{}?limit={limit}&offset={offset}{rest}",
            uri.path()
        ))
    };
    let end = list.offset.saturating_add(list.limit);
    let next = (end < count).then(|| link(end)).flatten();
    let previous = (list.offset > 0)
        .then(|| link(list.offset.saturating_sub(list.limit)))
        .flatten();
    let results: Vec<_> = items
        .into_iter()
        .skip(list.offset)
        .take(list.limit)
        .collect();
    json!({"count": count, "next": next, "previous": previous, "results": results})
}
