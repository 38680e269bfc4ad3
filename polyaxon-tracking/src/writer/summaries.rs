//! What is derived from the files of events when the run ends.

use std::io;

use serde_json::{Map, Value};

use super::{Writer, event_files, lineage_of};
use crate::ArtifactKind;
use crate::kind::Place;
use crate::report::Missing;
use crate::{series, summary};

/// The lineage records of event files, and the last values of metrics.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    pub(crate) events: Vec<Value>,
    pub(crate) outputs: Map<String, Value>,
    pub(crate) resources: Vec<Value>,
}

impl Writer {
    /// A lineage record for every event file of the run's folder, whoever wrote it. The files are
    /// read for that, as other processes may have written to them too.
    pub(super) fn summarise(&mut self) -> Summaries {
        let mut summaries = Summaries::default();
        let kinds = ArtifactKind::ALL.iter().copied().map(Place::Events);
        for place in kinds.chain([Place::Resources]) {
            self.summarise_folder(place, &mut summaries);
        }
        self.record.set_last_values(summaries.outputs.clone());
        summaries
    }

    fn summarise_folder(&mut self, place: Place, summaries: &mut Summaries) {
        let folder = self.folder.join(&place.folder());
        let paths = match event_files(&folder) {
            Ok(paths) => paths,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.lose(Missing::Summary, folder, error),
        };
        for (name, path) in paths {
            let read =
                series::open(&path).and_then(|file| summary::of_events(file, place.line_kind()));
            match read {
                Ok(None) => {}
                Ok(Some(summary)) => {
                    let record = lineage_of(place, &name, summary.json);
                    self.lineages_changed |= self.lineages.put(record.clone());
                    match place {
                        Place::Events(_) => summaries.events.push(record.into()),
                        _ => summaries.resources.push(record.into()),
                    }
                    if let (Place::Events(_), Some(last)) = (place, summary.last) {
                        summaries.outputs.insert(name, summary::finite(last));
                    }
                }
                Err(error) => self.lose(Missing::Summary, path, error),
            }
        }
    }
}
