//! Who is evaluated.

use std::fmt;
use std::sync::Arc;

use super::name::{InvalidName, Name};
use super::suite::Case;
use crate::attempt::Attempt;
use crate::model::Model;

type MakeModel = dyn Fn(&Case) -> Arc<dyn Model> + Send + Sync;
type Around = dyn Fn(Arc<dyn Model>, &Case, u32) -> Arc<dyn Model> + Send + Sync;
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
    around: Box<Around>,
    configure: Box<Configure>,
    resumable: bool,
}

impl Candidate {
    /// The candidate `name`, whose model for each case is what `model` makes. A model of all cases is
    /// cloned there: `move |_case| Arc::clone(&model)`.
    ///
    /// `model` is called once for each case whenever an evaluation is [run] or [collected], before
    /// anything else is done. What it makes is compared with the evidence that is there, by name,
    /// settings and price, and asked where a try is made or goes on; of a case that is kept it is not
    /// asked at all. What should only happen for a try, such as a file that is made, belongs into
    /// [`around_each_try`](Self::around_each_try).
    ///
    /// [run]: super::Evaluation::run
    /// [collected]: super::Evaluation::collect
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
            around: Box::new(|model, _, _| model),
            configure: Box::new(|attempt| attempt),
            resumable: false,
        })
    }

    /// Puts something around the model of each try, such as a [`Recording`](crate::model::Recording).
    /// `around` is called with the model, the case and the number of the try, from 1, when the try
    /// begins, and again with the same number where another program goes on with it; never for a case
    /// that is kept, and not where the evaluation is only collected. Name, settings and price have to
    /// stay those of the model: else the try is not counted as this candidate's. Default: nothing.
    ///
    /// # Examples
    /// A file of calls for each try, to be played again by [`Replay`](crate::model::Replay):
    /// ```
    /// use std::sync::Arc;
    ///
    /// use agent_loop::ScriptedModel;
    /// use agent_loop::evaluation::Candidate;
    /// use agent_loop::model::Recording;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let calls = folder.path().to_owned();
    /// let candidate = Candidate::new("silent", |_case| Arc::new(ScriptedModel::new([""; 3])))?
    ///     .around_each_try(move |model, case, number| {
    ///         let file = calls.join(format!("{}-{number}.jsonl", case.id()));
    ///         match Recording::create(Arc::clone(&model), file) {
    ///             Ok(recording) => Arc::new(recording),
    ///             // The first half of a try that goes on is there already.
    ///             Err(_) => model,
    ///         }
    ///     });
    /// assert_eq!(candidate.name(), "silent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn around_each_try(
        mut self,
        around: impl Fn(Arc<dyn Model>, &Case, u32) -> Arc<dyn Model> + Send + Sync + 'static,
    ) -> Self {
        self.around = Box::new(around);
        self
    }

    /// Changes the settings of every attempt: budget, prompt, order, policy. What shapes the
    /// questions is recorded, and evidence made with other settings is not counted as this
    /// candidate's. It is called for the comparison with that, too, so it should do nothing else.
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

    pub(super) fn around(&self, model: Arc<dyn Model>, case: &Case, number: u32) -> Arc<dyn Model> {
        (self.around)(model, case, number)
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
