//! Buffers of pages, used again and again.
//!
//! To take a new one for each page and free it would make the memory of the process grow to several
//! times of what is held: the allocator keeps what threads have freed, for each of them.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// How many unused buffers are kept.
const MOST: usize = 8;

/// Buffers that are not used now. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// An empty buffer, with the space of an earlier page if there is one.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unused.pop().unwrap_or_default()
    }

    /// Gives the space of a page back, unless somebody else holds it still.
    pub(super) fn give(&self, page: Bytes) {
        if !page.is_unique() {
            return;
        }
        let mut buffer = Vec::from(page);
        buffer.clear();
        let mut unused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MOST {
            unused.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_nobody_holds_gives_its_space_back() {
        let buffers = Buffers::default();
        let mut page = Vec::with_capacity(1000);
        page.extend_from_slice(&[7; 600]);
        let place = page.as_ptr();
        let page = Bytes::from(page);
        let held = page.clone();
        buffers.give(page);
        assert_eq!(buffers.take().capacity(), 0);
        // Its beginning may be used up.
        buffers.give(held.slice(600..));
        assert_eq!(buffers.take().capacity(), 0);
        let mut rest = held;
        drop(rest.split_to(500));
        buffers.give(rest);
        let again = buffers.take();
        assert_eq!(
            (again.as_ptr(), again.len(), again.capacity()),
            (place, 0, 1000)
        );
    }
}
