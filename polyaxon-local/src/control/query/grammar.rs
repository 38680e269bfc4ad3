//! The shape of a query: terms, joined by `,`, `AND`, `OR`, ` | ` and parentheses. Quotes protect
//! nothing: the platform splits before it looks at values.

/// A query, before its fields and values are read.
#[derive(Debug)]
pub(super) enum Tree<'a> {
    All(Vec<Self>),
    Any(Vec<Self>),
    Term { field: &'a str, operation: &'a str },
}

/// How deeply parentheses can be nested.
const DEEPEST: usize = 64;

/// # Errors
/// A sentence about where it ends to be a query.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, String> {
    let mut reader = Reader { rest: text };
    let tree = reader.any(0)?;
    match reader.rest.trim() {
        "" => Ok(tree),
        rest => Err(format!("Failed to parse query at `{rest}`")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Alternatives.
    fn any(&mut self, depth: usize) -> Result<Tree<'a>, String> {
        let mut trees = vec![self.all(depth)?];
        while self.takes_keyword("OR") || self.takes_bar() {
            trees.push(self.all(depth)?);
        }
        Ok(joined(trees, Tree::Any))
    }

    /// Terms that have to fit together.
    fn all(&mut self, depth: usize) -> Result<Tree<'a>, String> {
        let mut trees = vec![self.one(depth)?];
        while self.takes(',') || self.takes_keyword("AND") {
            trees.push(self.one(depth)?);
        }
        Ok(joined(trees, Tree::All))
    }

    fn one(&mut self, depth: usize) -> Result<Tree<'a>, String> {
        if !self.takes('(') {
            return self.term();
        }
        if depth == DEEPEST {
            return Err("Failed to parse query: its parentheses are nested too deeply".to_owned());
        }
        let tree = self.any(depth + 1)?;
        match self.takes(')') {
            true => Ok(tree),
            false => Err(format!("Failed to parse query at `{}`", self.rest)),
        }
    }

    fn term(&mut self) -> Result<Tree<'a>, String> {
        let text = self.rest.trim_start();
        let wrong = || format!("`{text}` is not `field:operation`");
        let (field, rest) = text.split_once(':').ok_or_else(wrong)?;
        let field = field.trim_end();
        if !is_field(field) {
            return Err(wrong());
        }
        let rest = rest.trim_start();
        let mut ends = rest.char_indices().skip(1).map(|(at, _)| at);
        let end = ends.find(|at| rest.get(*at..).is_some_and(ends_operation));
        let (operation, rest) = rest.split_at(end.unwrap_or(rest.len()));
        if operation.is_empty() || operation.contains([',', '(', ')']) {
            return Err(wrong());
        }
        self.rest = rest;
        Ok(Tree::Term { field, operation })
    }

    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn takes_keyword(&mut self, word: &str) -> bool {
        let text = self.rest.trim_start();
        let is_there = begins_with_keyword(text, word);
        if is_there {
            self.rest = text.get(word.len()..).unwrap_or_default();
        }
        is_there
    }

    fn takes_bar(&mut self) -> bool {
        let text = self.rest.trim_start();
        let is_there = begins_alternative(text);
        if is_there {
            self.rest = text.get(1..).unwrap_or_default();
        }
        is_there
    }
}

fn joined<'a>(mut trees: Vec<Tree<'a>>, join: fn(Vec<Tree<'a>>) -> Tree<'a>) -> Tree<'a> {
    match (trees.len(), trees.pop()) {
        (1, Some(tree)) => tree,
        (_, last) => {
            trees.extend(last);
            join(trees)
        }
    }
}

fn is_field(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    !text.is_empty() && text.chars().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether an operation ends before this.
fn ends_operation(rest: &str) -> bool {
    let next = rest.trim_start();
    let apart = next.len() < rest.len();
    next.is_empty()
        || next.starts_with([',', ')'])
        || (apart
            && (begins_with_keyword(next, "AND")
                || begins_with_keyword(next, "OR")
                || begins_alternative(next)))
}

fn begins_with_keyword(text: &str, word: &str) -> bool {
    let head = text.get(..word.len());
    let rest = text.get(word.len()..).unwrap_or_default();
    head.is_some_and(|head| head.eq_ignore_ascii_case(word))
        && (rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || c == '('))
}

/// A bar between terms, and not between values.
fn begins_alternative(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('|') else {
        return false;
    };
    let next = rest.trim_start();
    if next.len() == rest.len() {
        return false;
    }
    next.starts_with('(')
        || next
            .split_once(':')
            .is_some_and(|(field, _)| is_field(field))
}
