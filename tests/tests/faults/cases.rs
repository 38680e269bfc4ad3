//! Which faults there are, and at which bytes.

use std::time::Duration;

use crate::operations::Op;
use crate::proxy::Seen;

/// How many borders a sample has, besides those that are always in it.
const SAMPLE: usize = 12;
/// A stall that the caller has to end.
const FOR_EVER: Duration = Duration::from_secs(60);
/// A stall of a call whose caller waits for longer than a test may take; then it is cut.
pub(crate) const A_WHILE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nobody listens.
    Refuse,
    /// Both connections are closed.
    Cut,
    /// Both connections are reset.
    Reset,
    /// Nothing goes on, for so long at most.
    Stall(Duration),
    /// The rest comes a little later.
    Split,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Often {
    /// What is sent again gets through.
    Once,
    /// What is sent again meets the same.
    Always,
}

/// What goes wrong behind the byte `at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) side: Side,
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    pub(crate) often: Often,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) op: Op,
    pub(crate) side: Side,
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    pub(crate) often: Option<Often>,
}

impl Case {
    /// Nothing goes wrong.
    pub(crate) fn plain(op: Op) -> Self {
        Self {
            op,
            side: Side::Request,
            at: 0,
            kind: Kind::Split,
            often: None,
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.often.is_none()
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        Some(Fault {
            side: self.side,
            at: self.at,
            kind: self.kind,
            often: self.often?,
        })
    }

    /// The faults of an operation whose messages were seen to be so long.
    pub(crate) fn of(op: Op, seen: &Seen, all: bool) -> Vec<Self> {
        let stall = match op.ends_by_itself() {
            true => FOR_EVER,
            false => A_WHILE,
        };
        let kinds = [Kind::Cut, Kind::Reset, Kind::Stall(stall), Kind::Split];
        let mut cases = vec![Self {
            op,
            side: Side::Request,
            at: 0,
            kind: Kind::Refuse,
            often: Some(Often::Always),
        }];
        for (side, length) in [(Side::Request, seen.request), (Side::Answer, seen.answer)] {
            for (index, at) in borders(length, all).into_iter().enumerate() {
                for (turn, kind) in kinds.into_iter().enumerate() {
                    let both = [Often::Once, Often::Always];
                    let often = match all {
                        true => both.to_vec(),
                        // In turns, so that a sample has each kind in both ways.
                        false => vec![both[(index + turn / 2) % 2]],
                    };
                    cases.extend(often.into_iter().map(|often| Self {
                        op,
                        side,
                        at,
                        kind,
                        often: Some(often),
                    }));
                }
            }
        }
        cases
    }
}

/// Before the first byte, behind the last, and between: all, or some.
pub(crate) fn borders(length: usize, all: bool) -> Vec<usize> {
    if all {
        return (0..=length).collect();
    }
    let mut some = vec![0, 1, 2, length - 2, length - 1, length];
    some.extend((1..=SAMPLE).map(|part| part * length / (SAMPLE + 1)));
    some.sort_unstable();
    some.dedup();
    some
}
