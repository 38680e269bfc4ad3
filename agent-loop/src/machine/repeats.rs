//! How often the same was asked for.

use std::collections::HashMap;

use crate::action::Action;
use crate::digest::TreeHash;

/// The actions so far, with the files that they were asked for on. A model that goes back and forth
/// between two contents asks for the same on the same files, so none is forgotten; a content takes
/// as much memory as its reply took.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<TreeHash, Vec<(Action, u32)>>);

impl Repeats {
    /// How often this, or its like, was asked for on these files, this time included.
    pub(super) fn count(&mut self, action: &Action, files: TreeHash) -> u32 {
        let asked = self.0.entry(files).or_default();
        // Hardly ever is there a second write on the same files, so nearly always nothing is
        // compared. A digest of what counts would have to be made of each.
        match asked.iter_mut().find(|(before, _)| before.is_like(action)) {
            Some((_, times)) => {
                *times += 1;
                *times
            }
            None => {
                asked.push((action.clone(), 1));
                1
            }
        }
    }
}
