//! A loop that turns a model's proposals into accepted changes, with evidence.
//!
//! *Accepted* means that exactly these bytes passed exactly this check. Anyone can find out later
//! whether that was so, from the folder of the run.
#![forbid(unsafe_code)]

pub mod budget;
mod digest;
mod ids;
pub mod model;
mod path;
mod private;

pub use budget::Micros;
pub use digest::{Digest, InvalidDigest, TreeHash};
pub use ids::{InvalidId, RequestId};
pub use model::{
    Finish, Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price, Role,
    ScriptedModel, Usage, model_fn,
};
pub use path::{InvalidPath, RelPath};
pub use private::Private;
