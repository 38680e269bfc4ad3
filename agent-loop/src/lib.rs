//! A loop that turns a model's proposals into accepted changes, with evidence.
//!
//! *Accepted* means that exactly these bytes passed exactly this check. Anyone can find out later
//! whether that was so, from the folder of the run.
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod action;
pub mod budget;
pub mod clock;
mod digest;
mod ids;
mod manifest;
pub mod model;
mod path;
pub mod policy;
mod private;
mod serde_as;
mod text;
pub mod workspace;

pub use acceptance::{Acceptance, CheckPlan, Evidence, Level, Stage, UnittestAcceptance, Verdict};
pub use action::Action;
pub use budget::{Budget, CostLimit, Micros, OnUnknown};
pub use clock::{Clock, SystemClock};
pub use digest::{Digest, InvalidDigest, TreeHash};
pub use ids::{InvalidId, RequestId};
pub use manifest::{Entry, File, Manifest, Tree};
pub use model::{
    Finish, Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price, Role,
    ScriptedModel, Usage, model_fn,
};
pub use path::{InvalidPath, RelPath};
pub use policy::{Approver, Decision, Paths, Policy};
pub use private::Private;
pub use workspace::{
    ExecReceipt, ExecSpec, MemoryWorkspace, Workspace, WorkspaceError, Workspaces,
};
