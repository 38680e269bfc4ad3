//! What the run's record holds: inputs, outputs, free members, tags, names.

use serde::Serialize;
use serde_json::{Map, Value};

use super::TrackedRun;
use crate::error::Error;
use crate::name::NameUse;
use crate::queue::Command;
use crate::record::{Change, Merge};

impl TrackedRun {
    /// Adds inputs: what the run works on. One that is there already gets the new value.
    ///
    /// Values are anything that serde can make JSON of. What is not a number, or infinite, becomes
    /// `null`, for JSON has no such numbers.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for a name; [`Error::NotJson`] for a
    /// value; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_inputs<N: AsRef<str>, V: Serialize>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Input, inputs, |map| {
            Change::Inputs(map, Merge::Keep)
        })
    }

    /// As [`log_inputs`](Self::log_inputs), and drops those that were there.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn replace_inputs<N: AsRef<str>, V: Serialize>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Input, inputs, |map| {
            Change::Inputs(map, Merge::Replace)
        })
    }

    /// Adds outputs: what came of the run. A metric of the same name goes before: its last value
    /// is what counts at the end.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn log_outputs<N: AsRef<str>, V: Serialize>(
        &self,
        outputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Output, outputs, |map| {
            Change::Outputs(map, Merge::Keep)
        })
    }

    /// As [`log_outputs`](Self::log_outputs), and drops those that were there.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn replace_outputs<N: AsRef<str>, V: Serialize>(
        &self,
        outputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Output, outputs, |map| {
            Change::Outputs(map, Merge::Replace)
        })
    }

    /// Adds members of the run's free metadata, `meta_info`.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn log_meta<N: AsRef<str>, V: Serialize>(
        &self,
        members: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Meta, members, |map| Change::Meta(map, Merge::Keep))
    }

    /// As [`log_meta`](Self::log_meta), and drops those that were there.
    ///
    /// # Errors
    /// As [`log_inputs`](Self::log_inputs).
    pub fn replace_meta<N: AsRef<str>, V: Serialize>(
        &self,
        members: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), Error> {
        self.change_map(NameUse::Meta, members, |map| {
            Change::Meta(map, Merge::Replace)
        })
    }

    /// Says how far the run is, from 0 to 1. Of many small steps within a second, a server is told
    /// three and then the next that is due; the last one is never lost.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for anything else; [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_progress(&self, done: f64) -> Result<(), Error> {
        match (0.0..=1.0).contains(&done) {
            true => {
                let _intake = self.intake()?;
                self.sink().reserve(1)?.send([Command::Progress(done)])
            }
            false => Err(Error::OutOfRange {
                what: "the progress",
                given: done.to_string(),
                range: "0 to 1",
            }),
        }
    }

    /// Adds tags. Those that are there already, and empty ones, are left out.
    ///
    /// # Errors
    /// [`Error::QueueFull`]; [`Error::Ended`].
    pub fn log_tags<T: Into<String>>(
        &self,
        tags: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        let tags = tags.into_iter().map(Into::into).collect();
        self.change(Change::Tags(tags, Merge::Keep))
    }

    /// Gives the run these tags and no others.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn replace_tags<T: Into<String>>(
        &self,
        tags: impl IntoIterator<Item = T>,
    ) -> Result<(), Error> {
        let tags = tags.into_iter().map(Into::into).collect();
        self.change(Change::Tags(tags, Merge::Replace))
    }

    /// Gives the run another name.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn set_name(&self, name: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Name(name.into()))
    }

    /// Gives the run another description.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn set_description(&self, description: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Description(description.into()))
    }

    /// Gives the run a page of text, in Markdown.
    ///
    /// # Errors
    /// As [`log_tags`](Self::log_tags).
    pub fn set_readme(&self, readme: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Readme(readme.into()))
    }

    fn change_map<N: AsRef<str>, V: Serialize>(
        &self,
        used: NameUse,
        members: impl IntoIterator<Item = (N, V)>,
        change: impl FnOnce(Map<String, Value>) -> Change,
    ) -> Result<(), Error> {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for (name, value) in members {
            let value = serde_json::to_value(value).map_err(|source| Error::NotJson {
                name: name.as_ref().to_owned(),
                source,
            })?;
            names.push(name);
            values.push(value);
        }
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        let names = intake.names.claim(used, names)?;
        let map = names
            .into_iter()
            .map(|name| name.as_str().to_owned())
            .zip(values)
            .collect();
        permit.send([Command::Change(change(map))])
    }

    fn change(&self, change: Change) -> Result<(), Error> {
        let _intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        permit.send([Command::Change(change)])
    }
}
