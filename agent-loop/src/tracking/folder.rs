//! The receipts in the outputs of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polyaxon_tracking::{ArtifactRef, TrackedRun};
use serde_json::Value;

use super::problems::Cause;
use crate::evidence;
use crate::names::artifact;

/// Where receipts are, below the outputs.
const FOLDER: &str = "receipts";

/// The folder of a run's receipts. The artifact `command-receipt` is the folder: in the lineage of a
/// run a name is there once.
#[derive(Clone, Debug)]
pub(super) struct ReceiptFolder {
    run: Arc<TrackedRun>,
    is_used: Arc<AtomicBool>,
}

impl ReceiptFolder {
    pub(super) fn of(run: &Arc<TrackedRun>) -> Self {
        Self {
            run: Arc::clone(run),
            is_used: Arc::default(),
        }
    }

    /// Writes a receipt, in the place of the one with this name. The first one of all brings the
    /// folder into the lineage, so that a run that breaks off has it too.
    pub(super) fn store(&self, name: &str, receipt: &Value) -> Result<(), Cause> {
        let path = self.run.outputs_path(format!("{FOLDER}/{name}"))?;
        let mut text = serde_json::to_vec_pretty(receipt)?;
        text.push(b'\n');
        evidence::write_file(&path, &text)?;
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.log_reference()?;
        }
        Ok(())
    }

    /// Renews the reference, with the digest over all receipts; nothing where there are none.
    pub(super) fn log_reference(&self) -> Result<(), polyaxon_tracking::Error> {
        if !self.is_used.load(Ordering::Relaxed) {
            return Ok(());
        }
        let folder = self.run.outputs_path(FOLDER)?;
        let receipts = ArtifactRef::dir(folder).name(artifact::COMMAND_RECEIPT);
        self.run.log_artifact_ref(receipts)
    }
}
