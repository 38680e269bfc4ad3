//! Typed client of the Polyaxon control plane.

#![forbid(unsafe_code)]

mod error;
mod ids;
pub mod runs;

pub use error::{ApiError, BoxError, Effect, Error, InvalidInput};
pub use ids::{ProjectRef, RunRef, RunUuid};
