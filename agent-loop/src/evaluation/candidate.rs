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
    resumable: bool,
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
            resumable: false,
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

    /// Says that another program goes on where one was ended: a case that was broken off is resumed
    /// in its place, as [`Attempt::resume`] does, where the evaluation's [`Workspaces`] find that
    /// again. For models that answer from the request alone, as servers do; one that counts its
    /// replies, as [`ScriptedModel`] does, would begin with its first in the middle of a case.
    /// Default: no, and such a case is made anew.
    ///
    /// [`ScriptedModel`]: crate::ScriptedModel
    /// [`Workspaces`]: crate::Workspaces
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    ///
    /// use agent_loop::evaluation::Candidate;
    /// use agent_loop::{ModelReply, model_fn};
    ///
    /// let candidate = Candidate::new("checks", |_case| {
    ///     Arc::new(model_fn("always check", |_request| {
    ///         Ok(ModelReply::new(r#"{"action":"check"}"#))
    ///     }))
    /// })?;
    /// assert!(candidate.resumable(true).is_resumable());
    /// # Ok::<(), agent_loop::evaluation::InvalidName>(())
    /// ```
    #[must_use]
    pub fn resumable(mut self, resumable: bool) -> Self {
        self.resumable = resumable;
        self
    }

    /// Whether a case that was broken off is resumed.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.resumable
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
