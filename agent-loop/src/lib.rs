//! A loop that turns a model's proposals into accepted changes, with evidence.
//!
//! *Accepted* means that exactly these bytes passed exactly this check. Anyone can find out later
//! whether that was so, from the folder of the run.
//!
//! ```
//! use agent_loop::{
//!     Attempt, ExecReceipt, MemoryWorkspace, Paths, ScriptedModel, Task, UnittestAcceptance,
//! };
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let task = Task::new("amounts", "total(xs) must return the sum of xs.")
//!     .file("amounts.py", "def total(xs):\n    return 0\n")?;
//! let model = ScriptedModel::new([
//!     r#"{"action":"check"}"#,
//!     r#"{"action":"finish"}"#,
//! ]);
//! // In memory a function stands for the tests; here they fail.
//! let workspace = MemoryWorkspace::new(|_spec, _files| {
//!     Ok(ExecReceipt::exited(1).stderr("Ran 2 tests in 0.001s\n\nFAILED (failures=1)\n"))
//! });
//! let acceptance = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
//!
//! let mut budget = agent_loop::Budget::default();
//! budget.turns = 2;
//! let outcome = Attempt::new(task, model, workspace, acceptance, Paths::editable(["amounts.py"])?)
//!     .allow_checks(true)
//!     .budget(budget)
//!     .drive()
//!     .await?;
//! // The model said that it was finished. That is not what decides.
//! assert!(!outcome.is_accepted());
//! assert_eq!(outcome.end.to_string(), "exhausted: all turns are used");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The five to know on the first day: [`Model`] proposes, a [`Workspace`] holds the files, an
//! [`Acceptance`] decides, a [`Budget`] limits, and an [`Attempt`] is driven to its [`Outcome`].
//! Later: [`Policy`] narrows what may be done, an [`Observer`] watches, a [`Journal`] keeps.
//!
//! # What holds, whatever the model says
//!
//! * Only the newest reply is read, strictly, and nothing is executed on a guess.
//! * Nothing but the paths of the attempt is read or written; tests are never written.
//! * A write, also a failed or an uncertain one, destroys the last pass.
//! * A check runs on the bytes that the loop holds, in an empty place, with the tests put last. What
//!   it left changed there makes its evidence worthless.
//! * `finish` is accepted only where the workspace, read back, is what passed.
//! * Every effect is in the journal before it is done. What has an unknown outcome is looked at or
//!   said, and never done twice.
//!
//! An attempt leaves a page about itself, [`report`]. Suites of cases, candidates on them, and their
//! comparison are in [`evaluation`].
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `cli` | no | the program `agent-loop`: `verify`, `show`, `reap` |
//! | `conformance` | no | `conformance`: what every model, workspace and acceptance has to do, as a kit that runs on yours |
//! | `openai` | no | `model::openai`: a model behind an OpenAI-compatible chat-completions server |
//! | `polyaxon` | no | `workspace::SandboxWorkspace`: a folder in a Polyaxon sandbox; `workspace::SandboxWorkspaces`: a sandbox for each check |
//! | `tools` | no | `tools`: named operations in a sandbox, with typed arguments and durable receipts |
//! | `tracking` | no | `tracking::TrackingObserver`: an attempt in a tracked Polyaxon run; the calls of tools, too |
#![forbid(unsafe_code)]

// Futures and streams, without the channels, macros and I/O of the whole.
extern crate futures_util as futures;

pub mod acceptance;
pub mod action;
mod attempt;
pub mod budget;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod digest;
mod driver;
mod error;
pub mod evaluation;
mod evidence;
mod ids;
pub mod journal;
mod lock;
mod machine;
mod manifest;
pub mod model;
pub mod names;
pub mod outcome;
pub mod patch;
mod path;
mod play;
pub mod policy;
mod private;
mod prompt;
mod redact;
pub mod report;
mod serde_as;
#[cfg(test)]
mod test_kit;
mod text;
#[cfg(feature = "tools")]
pub mod tools;
#[cfg(feature = "tracking")]
pub mod tracking;
pub mod verify;
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
pub use verify::{Verification, Verifier, verify};
pub use workspace::{
    ExecReceipt, ExecSpec, MemoryWorkspace, Workspace, WorkspaceError, Workspaces,
};
