//! The order of a list.

use std::cmp::Ordering;

use super::test::Plain;
use super::{ARTIFACTS, Fields, Item, Path, not_here};

/// The order of a list.
#[derive(Debug)]
pub(crate) struct Order(Vec<(Path, Direction)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Order {
    /// Reads `field,-field`.
    ///
    /// # Errors
    /// A sentence about a field that there is not.
    pub(crate) fn parse(text: &str, fields: &Fields) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        words
            .map(|word| {
                let (direction, name) = match word.strip_prefix('-') {
                    Some(name) => (Direction::Down, name),
                    None => (Direction::Up, word),
                };
                let path = Path::parse(name, fields)
                    .filter(|path| path.member != ARTIFACTS)
                    .ok_or_else(|| not_here(&format!("the order by `{name}`")))?;
                Ok((path, direction))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Sorts; what is missing comes first, and last where the order goes down.
    pub(crate) fn sort(&self, items: &mut [Item]) {
        items.sort_by(|one, other| {
            let orders = self.0.iter().map(|(path, direction)| {
                let order = compared(path, one, other);
                match direction {
                    Direction::Up => order,
                    Direction::Down => order.reverse(),
                }
            });
            orders.fold(Ordering::Equal, Ordering::then)
        });
    }
}

fn compared(path: &Path, one: &Item, other: &Item) -> Ordering {
    match (path.of(one, None), path.of(other, None)) {
        (Some(one), Some(other)) => Plain::of(one).compared(&Plain::of(other)),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}
