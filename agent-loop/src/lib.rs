//! A loop that turns a model's proposals into accepted changes, with evidence.
//!
//! *Accepted* means that exactly these bytes passed exactly this check. Anyone can find out later
//! whether that was so, from the folder of the run.
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod action;
mod attempt;
pub mod budget;
pub mod clock;
mod digest;
mod driver;
mod error;
mod evidence;
mod ids;
pub mod journal;
mod machine;
mod manifest;
pub mod model;
pub mod outcome;
pub mod patch;
mod path;
pub mod policy;
mod private;
mod prompt;
mod serde_as;
#[cfg(test)]
mod test_kit;
mod text;
pub mod workspace;

pub use acceptance::{Acceptance, CheckPlan, Evidence, Level, Stage, UnittestAcceptance, Verdict};
pub use action::Action;
pub use attempt::{Attempt, StopAtEnd, Task};
pub use budget::{Budget, CostLimit, Micros, OnUnknown};
pub use clock::{Clock, SystemClock};
pub use digest::{Digest, InvalidDigest, TreeHash};
pub use error::Error;
pub use evidence::RunDir;
pub use ids::{InvalidId, RequestId};
pub use journal::{Event, FileJournal, Journal, MemoryJournal, Observer, Record};
pub use manifest::{Entry, File, Manifest, Tree};
pub use model::{
    Finish, Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price, Role,
    ScriptedModel, Usage, model_fn,
};
pub use outcome::{AcceptanceState, End, Limit, Outcome};
pub use path::{InvalidPath, RelPath};
pub use policy::{Approver, Decision, Paths, Policy};
pub use private::Private;
pub use prompt::Order;
pub use workspace::{
    ExecReceipt, ExecSpec, MemoryWorkspace, Workspace, WorkspaceError, Workspaces,
};
