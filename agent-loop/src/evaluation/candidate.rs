//! Who is evaluated.

use std::fmt;
use std::sync::Arc;

use super::name::{InvalidName, Name};
use super::suite::Case;
use crate::attempt::Attempt;
use crate::model::Model;

type MakeModel = dyn Fn(&Case) -> Arc<dyn Model> + Send + Sync;
type Configure = dyn Fn(Attempt) -> Attempt + Send + Sync;

/// A model with its settings, under a name: what a suite is run with.
///
/// # Examples
/// ```
/// use std::sync::Arc;
///
/// use agent_loop::evaluation::Candidate;
/// use agent_loop::{Budget, ScriptedModel};
///
/// let candidate = Candidate::new("silent", |_case| Arc::new(ScriptedModel::new([""; 3])))?
///     .configure(|attempt| attempt.budget(Budget::default().turns(3)));
/// assert_eq!(candidate.name(), "silent");
/// # Ok::<(), agent_loop::evaluation::InvalidName>(())
/// ```
pub struct Candidate {
    name: Name,
    model: Box<MakeModel>,
    configure: Box<Configure>,
}

impl Candidate {
    /// The candidate `name`, whose model for each attempt is what `model` makes. A model of all
    /// cases is cloned there: `move |_case| Arc::clone(&model)`.
    ///
    /// # Errors
    /// Where `name` cannot name a folder.
    pub fn new(
        name: &str,
        model: impl Fn(&Case) -> Arc<dyn Model> + Send + Sync + 'static,
    ) -> Result<Self, InvalidName> {
        Ok(Self {
            name: name.parse()?,
            model: Box::new(model),
            configure: Box::new(|attempt| attempt),
        })
    }

    /// Changes the settings of every attempt: budget, prompt, order, policy. What shapes the
    /// questions is recorded, and evidence made with other settings is not counted as this
    /// candidate's.
    #[must_use]
    pub fn configure(
        mut self,
        configure: impl Fn(Attempt) -> Attempt + Send + Sync + 'static,
    ) -> Self {
        self.configure = Box::new(configure);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(super) fn id(&self) -> &Name {
        &self.name
    }

    pub(super) fn model(&self, case: &Case) -> Arc<dyn Model> {
        (self.model)(case)
    }

    pub(super) fn configured(&self, attempt: Attempt) -> Attempt {
        (self.configure)(attempt)
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
