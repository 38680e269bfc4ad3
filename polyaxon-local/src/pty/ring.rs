//! The last output of a terminal, for whoever attaches next.

use std::collections::VecDeque;

use bytes::Bytes;

/// The last bytes of what went through, at most `limit` of them.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    limit: usize,
}

impl Ring {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            limit,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.limit);
        let (_too_old, last) = bytes.split_at(bytes.len() - kept);
        let excess = (self.bytes.len() + kept).saturating_sub(self.limit);
        self.bytes.drain(..excess);
        self.bytes.extend(last);
    }

    /// The last `count` bytes, or as many as there are, in order, in no more than two parts.
    pub(super) fn last(&self, count: usize) -> Vec<Bytes> {
        let skipped = self.bytes.len().saturating_sub(count);
        let (first, second) = self.bytes.as_slices();
        let first_skipped = skipped.min(first.len());
        let parts = [
            first.get(first_skipped..),
            second.get(skipped - first_skipped..),
        ];
        let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
        parts.map(Bytes::copy_from_slice).collect()
    }

    /// Forgets all, and gives the memory back.
    pub(super) fn discard(&mut self) {
        self.bytes = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_given_in_order() {
        let mut ring = Ring::new(4);
        assert_eq!(ring.last(4), [] as [Bytes; 0]);
        ring.push(b"ab");
        ring.push(b"cde");
        assert_eq!(ring.last(9).concat(), b"bcde");
        assert_eq!(ring.last(2).concat(), b"de");
        assert_eq!(ring.last(0), [] as [Bytes; 0]);
        ring.push(b"0123456789");
        assert_eq!(ring.last(4).concat(), b"6789");
        ring.discard();
        assert_eq!(ring.last(4), [] as [Bytes; 0]);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_the_end_of_what_was_pushed(
            pushes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            limit in 0_usize..50,
            count in 0_usize..60,
        ) {
            let mut ring = Ring::new(limit);
            for bytes in &pushes {
                ring.push(bytes);
            }
            let all = pushes.concat();
            let want = &all[all.len() - count.min(limit).min(all.len())..];
            let parts = ring.last(count);
            prop_assert!(parts.len() <= 2);
            prop_assert_eq!(parts.concat(), want);
        }
    }
}
