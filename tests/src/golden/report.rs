//! All cases, and how each went.

use std::fmt;

use super::calls::{Caller, Made, NOT_WRITTEN, Refusal, make, refused};
use super::recorder::Recorder;
use super::sent::{Row, Sent, rows};

/// How a recorded request went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Ours is the same.
    Same,
    /// Ours differs in what means nothing, as the description of the wire says.
    SameMeaning(&'static str),
    /// There is no such call, for a reason.
    NotOffered(&'static str),
    /// Ours is another one.
    Other(String),
    /// No request was made, as it has to be, and this is why.
    Refused(String),
    /// The command line is a program of its own, not a call.
    Program,
}

/// All recorded cases.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// The case, its client, and how it went.
    pub cases: Vec<(String, String, Verdict)>,
}

impl Report {
    fn count(&self, client: &str, fits: impl Fn(&Verdict) -> bool) -> usize {
        let cases = self.cases.iter();
        cases
            .filter(|(_, by, verdict)| by == client && fits(verdict))
            .count()
    }

    /// How many requests of a client ours makes too, and of how many.
    #[must_use]
    pub fn matched(&self, client: &str) -> (usize, usize) {
        let matched =
            |verdict: &Verdict| matches!(verdict, Verdict::Same | Verdict::SameMeaning(_));
        let counted =
            |verdict: &Verdict| !matches!(verdict, Verdict::Refused(_) | Verdict::Program);
        (self.count(client, matched), self.count(client, counted))
    }

    /// The cases that went as they must not.
    #[must_use]
    pub fn wrong(&self) -> Vec<&str> {
        let wrong = self.cases.iter();
        wrong
            .filter(|(_, _, verdict)| {
                matches!(verdict, Verdict::Other(_)) || *verdict == Verdict::NotOffered(NOT_WRITTEN)
            })
            .map(|(case, _, _)| case.as_str())
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for client in ["sync", "async"] {
            let (matched, of) = self.matched(client);
            let meaning = self.count(client, |verdict| matches!(verdict, Verdict::SameMeaning(_)));
            writeln!(
                f,
                "{client}: matched {matched} of {of}, {meaning} of them in other words that mean the same"
            )?;
        }
        let program = self.count("cli", |verdict| *verdict == Verdict::Program);
        writeln!(
            f,
            "cli: {program} requests of a program that is not a library"
        )?;
        let refused = self.count("sync", |verdict| matches!(verdict, Verdict::Refused(_)));
        writeln!(f, "no request: {refused} calls, and none was made here")?;
        for (case, client, verdict) in &self.cases {
            match verdict {
                Verdict::Same | Verdict::Program => {}
                Verdict::SameMeaning(how) => writeln!(f, "  {case}: {how}")?,
                Verdict::NotOffered(why) => writeln!(f, "  {case}: not offered: {why}")?,
                Verdict::Other(how) => writeln!(f, "  {case} ({client}): NOT THE SAME: {how}")?,
                Verdict::Refused(why) => writeln!(f, "  {case}: {why}")?,
            }
        }
        Ok(())
    }
}

/// Makes every call, and compares what was sent.
pub async fn report() -> Report {
    let rows = rows();
    let mut cases = Vec::new();
    for group in rows.chunk_by(|one, next| one.call() == next.call() && one.client == next.client) {
        let verdicts = match group.first() {
            Some(row) if row.client == "cli" => vec![Verdict::Program; group.len()],
            Some(row) if row.sent.is_none() => vec![not_sent(row.call()).await],
            Some(row) => sent(row.call(), group).await,
            None => Vec::new(),
        };
        let named = group.iter().zip(verdicts);
        cases.extend(named.map(|(row, verdict)| (row.case.clone(), row.client.clone(), verdict)));
    }
    Report { cases }
}

async fn not_sent(call: &str) -> Verdict {
    let recorder = Recorder::start().await;
    let why = match refused(call, &Caller::of(&recorder)).await {
        Refusal::Error(error) => format!("refused: {error}"),
        Refusal::Nothing => "nothing to ask for".to_owned(),
        Refusal::Type(why) => format!("refused by the compiler: {why}"),
        Refusal::Taken(why) => format!("taken here: {why}"),
        Refusal::Unknown => return Verdict::Other("it was not refused".to_owned()),
    };
    match recorder.all_sent().as_slice() {
        [] => Verdict::Refused(why),
        [first, ..] => Verdict::Other(format!("{} {} was sent", first.method, first.path)),
    }
}

/// How each recorded request of one call went. What ours asks on top is allowed where it only reads.
async fn sent(call: &str, group: &[Row]) -> Vec<Verdict> {
    let recorder = Recorder::start().await;
    let made = make(call, &Caller::of(&recorder)).await;
    let all = |verdict: Verdict| vec![verdict; group.len()];
    match made {
        Ok(Made::Sent) => {}
        Ok(Made::NotOffered(why)) => return all(Verdict::NotOffered(why)),
        Err(error) => return all(Verdict::Other(sentence(&error))),
    }
    let ours = match call.starts_with("namespace.") {
        true => recorder.all_sent(),
        false => recorder.sent().await,
    };
    let mut left = ours.iter().peekable();
    let mut verdicts = Vec::new();
    let rows = group.iter();
    for (row, wanted) in rows.filter_map(|row| Some((row, row.sent.as_ref()?))) {
        let encodes = row.note.contains("a correct client encodes it");
        let unlike = |ours: &&Sent| only_reads(ours) && !encodes && !same(ours, wanted);
        while left.next_if(unlike).is_some() {}
        verdicts.push(match left.next() {
            None => Verdict::Other("nothing was sent for it".to_owned()),
            Some(ours) if ours == wanted => Verdict::Same,
            Some(ours) if same(ours, wanted) => {
                Verdict::SameMeaning("what means the same as nothing is left out")
            }
            // What was recorded is no request, and broke off there.
            Some(ours) if encodes && ours.path == wanted.path => {
                Verdict::SameMeaning("encoded, as the note of the recording asks for")
            }
            Some(ours) => Verdict::Other(format!("{ours:?} for {wanted:?}")),
        });
    }
    if let (Some(more), Some(last)) = (left.find(|ours| !only_reads(ours)), verdicts.last_mut()) {
        *last = Verdict::Other(format!("{} {} was sent too", more.method, more.path));
    }
    verdicts
}

fn same(ours: &Sent, wanted: &Sent) -> bool {
    ours.meaning() == wanted.meaning()
}

fn only_reads(sent: &Sent) -> bool {
    sent.method == "GET" && sent.frames.is_empty()
}

/// An error with its causes.
pub(super) fn sentence(error: &polyaxon_sandbox::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
