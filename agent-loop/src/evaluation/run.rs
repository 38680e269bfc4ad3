//! Runs a suite: every case with every candidate, so many at a time, in a place each.

mod half;
mod left;
mod made;
mod plan;

use std::fmt;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::{FutureExt as _, pending, poll_fn};
use futures::stream::{self, StreamExt as _};
use serde_json::Value;

use self::made::{Made, Trouble, made, panicked};
use self::plan::{Job, Looked, Pair};
use super::candidate::Candidate;
use super::case_report::{CaseReport, Earlier};
use super::error::EvaluationError;
use super::folder::{CASE, Folder};
use super::metric::Requirement;
use super::signal::Signal;
use super::suite::{Case, Suite};
use super::suite_report::SuiteReport;
use crate::attempt::Attempt;
use crate::evidence::{self, RunDir};
use crate::ids::RequestId;
use crate::journal::{Observer, WorkspaceRecord};
use crate::report;
use crate::workspace::{Workspace, WorkspaceError, Workspaces};

type OnProgress = dyn Fn(&Progress<'_>) + Send + Sync;
type Observe = dyn Fn(&Case, &str) -> Option<Arc<dyn Observer>> + Send + Sync;

/// A suite that is run with candidates, and that goes on where it was broken off.
///
/// The folder it works in has a folder for each try, `<candidate>/<case>/<try>`, with the evidence
/// of an attempt, `case.json` and `report.html`; and `report.json` and `report.html` over all of it.
/// What is in it decides what is left to do: a case whose last try is over, with evidence of which
/// every part agrees with the others and with the suite as it is now, is not run again. Where a program
/// was ended after that was decided and before all of it was written, what is missing is written first,
/// from the journal. One whose last try was broken off before goes on where it was, if its candidate is
/// [resumable](Candidate::resumable) and its place is found again ([`Workspaces::reopen`]). Any other
/// case is run anew as its next try, once the place of its last one is ended; the report says why, and
/// what the tries before have cost.
///
/// # Examples
/// ```no_run
/// use std::sync::Arc;
///
/// use agent_loop::evaluation::{Candidate, Evaluation, Progress, Suite};
/// use agent_loop::{Model, Workspaces};
///
/// async fn evaluate(
///     places: impl Workspaces + 'static,
///     model: Arc<dyn Model>,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let report = Evaluation::new(Suite::load("suite")?, places, "evaluation-output")
///         .candidate(Candidate::new("qwen", move |_case| Arc::clone(&model))?)
///         .allow_checks(true)
///         .parallel(8)
///         .on_progress(|progress| {
///             if let Progress::Ended { report, .. } = progress {
///                 eprintln!("{} {}: {}", report.candidate, report.case, report.decision);
///             }
///         })
///         .run()
///         .await?;
///     println!("{report}");
///     Ok(())
/// }
/// ```
#[must_use = "an Evaluation does nothing until it is run"]
pub struct Evaluation {
    suite: Suite,
    places: Arc<dyn Workspaces>,
    folder: PathBuf,
    candidates: Vec<Candidate>,
    allow_checks: bool,
    again: Again,
    parallel: usize,
    coverage_bound: f64,
    requirements: Vec<Requirement>,
    search_path: Option<String>,
    on_progress: Box<OnProgress>,
    observe: Box<Observe>,
    cancelled: Signal,
}

/// Which cases are run again although their last try is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two cases are complete")]
pub enum Again {
    /// None.
    #[default]
    Never,
    /// Those that say nothing about the candidate, because something else went wrong. To try until
    /// a case passes would be no evaluation, so those that failed, and those whose checks gave no
    /// verdict, are never among them.
    NotEvaluated,
}

/// How far an evaluation has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// It is known what is there and what is left to do.
    #[non_exhaustive]
    Planned {
        /// The reports of the cases that are not run again.
        kept: &'a [CaseReport],
        /// How many cases will be run.
        left: usize,
    },
    /// A try begins.
    #[non_exhaustive]
    Began {
        /// The candidate.
        candidate: &'a str,
        /// The case.
        case: &'a str,
        /// Which try.
        attempt: u32,
        /// The one before it that does not count, where this is not the first one.
        instead_of: Option<&'a Earlier>,
        /// Whether it goes on where another program was ended.
        resumed: bool,
    },
    /// A try is over.
    #[non_exhaustive]
    Ended {
        /// What came of it.
        report: &'a CaseReport,
    },
}

impl Evaluation {
    /// The evaluation of candidates on `suite` in `folder`, with a place of its own for every try
    /// and every independent verification.
    pub fn new(
        suite: Suite,
        places: impl Workspaces + 'static,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Self {
            suite,
            places: Arc::new(places),
            folder: folder.into(),
            candidates: Vec::new(),
            allow_checks: false,
            again: Again::default(),
            parallel: 4,
            coverage_bound: 0.9,
            requirements: Vec::new(),
            search_path: None,
            on_progress: Box::new(|_| {}),
            observe: Box::new(|_, _| None),
            cancelled: Signal::new(pending().boxed()),
        }
    }

    /// Adds a candidate.
    pub fn candidate(mut self, candidate: Candidate) -> Self {
        self.candidates.push(candidate);
        self
    }

    /// Allows checks, which run code that a model wrote. Without it nothing is run.
    pub fn allow_checks(mut self, allow: bool) -> Self {
        self.allow_checks = allow;
        self
    }

    /// Which cases are run again although their last try is over. Default: none.
    pub fn again(mut self, again: Again) -> Self {
        self.again = again;
        self
    }

    /// How many cases run at the same time, at least one. Default: 4.
    pub fn parallel(mut self, cases: usize) -> Self {
        self.parallel = cases.max(1);
        self
    }

    /// The least share of the cases that has to be evaluated before a rate or a comparison says
    /// something. Default: 0.9.
    pub fn coverage_bound(mut self, share: f64) -> Self {
        self.coverage_bound = share;
        self
    }

    /// Adds what is required of every candidate. The report is sorted by the first requirement that
    /// is not met.
    pub fn require(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// Where the programs of checks are looked for, as in `PATH`. Default: the folders of a Linux
    /// image. It is a part of the evaluator.
    pub fn search_path(mut self, path: impl Into<String>) -> Self {
        self.search_path = Some(path.into());
        self
    }

    /// Tells how far it has come, from within [`run`](Self::run). It must not block.
    pub fn on_progress(mut self, tell: impl Fn(&Progress<'_>) + Send + Sync + 'static) -> Self {
        self.on_progress = Box::new(tell);
        self
    }

    /// Sets who sees the records of a try, for a case and the name of a candidate.
    pub fn observe(
        mut self,
        observe: impl Fn(&Case, &str) -> Option<Arc<dyn Observer>> + Send + Sync + 'static,
    ) -> Self {
        self.observe = Box::new(observe);
        self
    }

    /// Ends in order as soon as `signal` is ready: the cases that run are cancelled, and no other
    /// one begins. They are run the next time.
    pub fn cancel_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.cancelled = Signal::new(signal.boxed());
        self
    }

    /// Runs what is left to do, and writes `report.json` and `report.html`.
    ///
    /// # Errors
    /// Where it is put together wrongly, the folder belongs to another suite or is in use, or
    /// something cannot be written. What goes wrong in a case is in its report.
    ///
    /// # Cancel safety
    /// Dropping the future breaks the cases off that run, and leaves their workspaces. Run the same
    /// evaluation again to go on.
    pub async fn run(self) -> Result<SuiteReport, EvaluationError> {
        if !self.allow_checks {
            return Err(EvaluationError::ChecksNotAllowed);
        }
        self.examine()?;
        let folder = Folder::create(&self.folder, &self.suite.as_ref())?;
        let (mut reports, planned) = self.plan(&folder)?;
        let mut jobs = Vec::new();
        for job in planned {
            let looked = match self.completes(&job).await? {
                true => self.look(&folder, job.pair)?,
                false => Looked::Left(job),
            };
            match looked {
                Looked::Kept(report) => reports.push(*report),
                Looked::Left(job) => jobs.push(job),
            }
        }
        for report in &reports {
            // Both may have been lost with the program, or edited: the evidence is what counts.
            self.write(report)?;
            let page = self.folder.join(&report.folder);
            report::write(&page).map_err(EvaluationError::page(&page))?;
        }
        (self.on_progress)(&Progress::Planned {
            kept: &reports,
            left: jobs.len(),
        });
        let mut running = stream::iter(jobs)
            .map(|job| self.perform(job))
            .buffer_unordered(self.parallel);
        while let Some(report) = running.next().await {
            reports.push(report?);
        }
        drop(running);
        let report = self.report(reports);
        report.write(&self.folder)?;
        Ok(report)
    }

    /// The report over what is in the folder, without running anything. What is missing or cannot
    /// be relied on is not evaluated, and the report says why.
    ///
    /// # Errors
    /// As [`run`](Self::run), but for what cannot be written.
    pub fn collect(&self) -> Result<SuiteReport, EvaluationError> {
        self.examine()?;
        let folder = Folder::open(&self.folder, &self.suite.as_ref())?;
        let (mut reports, jobs) = self.plan(&folder)?;
        reports.extend(jobs.into_iter().map(|job| self.not_run(job)));
        Ok(self.report(reports))
    }

    /// Finds what is put together wrongly before anything is done.
    fn examine(&self) -> Result<(), EvaluationError> {
        if self.candidates.is_empty() {
            return Err(EvaluationError::NoCandidate);
        }
        for (at, candidate) in self.candidates.iter().enumerate() {
            let mut before = self.candidates.iter().take(at);
            if before.any(|other| other.name() == candidate.name()) {
                return Err(EvaluationError::TwoCandidates {
                    name: candidate.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Makes one try, from the place it needs to its report.
    async fn perform(&self, mut job: Job<'_>) -> Result<CaseReport, EvaluationError> {
        if self.cancelled.clone().now_or_never().is_some() {
            return Ok(self.not_run(job));
        }
        let made = match self.go_on(&mut job).await? {
            Some(made) => made,
            None => {
                self.tell_began(&job, false);
                self.drive(&job.pair, job.attempt).await?
            }
        };
        let about = self.about(&job.pair, job.attempt, job.earlier);
        let report = match made {
            Ok(run) => CaseReport::of(about, &run),
            Err(trouble) => trouble.report(about),
        };
        self.write(&report)?;
        (self.on_progress)(&Progress::Ended { report: &report });
        Ok(report)
    }

    fn tell_began(&self, job: &Job<'_>, resumed: bool) {
        (self.on_progress)(&Progress::Began {
            candidate: job.pair.candidate.name(),
            case: job.pair.case.id(),
            attempt: job.attempt,
            instead_of: job.earlier.last(),
            resumed,
        });
    }

    /// The evidence of a new try.
    async fn drive(&self, pair: &Pair<'_>, number: u32) -> Result<Made, EvaluationError> {
        let folder = pair.folder(&self.folder, number);
        let run_dir = RunDir::create(&folder).map_err(EvaluationError::io(&folder))?;
        let id = pair.id(number)?;
        let begun = Instant::now();
        let place = match self.place(&id, &run_dir).await? {
            Ok(place) => place,
            Err(error) => return Ok(Err(Trouble::no_place(&error))),
        };
        let attempt = self
            .observed(&pair.in_try(number), number, Arc::clone(&place))?
            .record_in(run_dir)
            .provisioned_in(begun.elapsed());
        match caught(attempt.drive()).await {
            Some(Ok(_)) => Ok(made(&folder)),
            Some(Err(source)) => Err(pair.error(source)),
            None => Ok(panicked(&*place).await),
        }
    }

    /// A place for a try. Before it is asked for, `workspace.json` says what it will be found by.
    async fn place(
        &self,
        id: &RequestId,
        run_dir: &RunDir,
    ) -> Result<Result<Arc<dyn Workspace>, WorkspaceError>, EvaluationError> {
        let kept = |said: &Value| {
            let written = run_dir.write_workspace(said);
            written.map_err(EvaluationError::io(run_dir.path()))
        };
        let announced = self.places.announce(id);
        if !announced.is_null() {
            kept(&announced)?;
        }
        let place = self.places.fresh_as(id, &announced).await;
        match &place {
            Ok(place) => {
                let record = WorkspaceRecord {
                    identity: place.identity(),
                    capabilities: place.capabilities(),
                };
                kept(&record.flat())?;
            }
            // One may be there that nobody has got.
            Err(WorkspaceError::Uncertain(_)) => drop(self.places.end(id, &announced).await),
            Err(_) => {}
        }
        Ok(place)
    }

    /// The attempt with who sees its records.
    fn observed(
        &self,
        pair: &Pair<'_>,
        number: u32,
        place: Arc<dyn Workspace>,
    ) -> Result<Attempt, EvaluationError> {
        let attempt = self.attempt(pair, number, place)?;
        Ok(match (self.observe)(pair.case, pair.candidate.name()) {
            Some(observer) => attempt.observer(observer),
            None => attempt,
        })
    }

    fn not_run(&self, job: Job<'_>) -> CaseReport {
        let why = match job.earlier.last() {
            None => "not run".to_owned(),
            Some(earlier) => format!("not run again: {}", earlier.why),
        };
        let attempt = job.earlier.last().map_or(1, |earlier| earlier.attempt);
        let about = self.about(&job.pair, attempt, job.earlier);
        CaseReport::not_evaluated(about, why)
    }

    fn report(&self, reports: Vec<CaseReport>) -> SuiteReport {
        let names = self.candidates.iter().map(Candidate::name);
        let requirements = self.requirements.clone();
        SuiteReport::new(
            self.suite.as_ref(),
            names,
            reports,
            self.coverage_bound,
            requirements,
        )
    }

    fn write(&self, report: &CaseReport) -> Result<(), EvaluationError> {
        let folder = self.folder.join(&report.folder);
        let path = folder.join(CASE);
        fs::create_dir_all(&folder)
            .and_then(|()| evidence::write_private(&path, &evidence::pretty(report)?))
            .map_err(EvaluationError::io(&path))
    }
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluation")
            .field("suite", &self.suite.name())
            .field("candidates", &self.candidates)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// What comes of a future; `None` where it panics.
async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let step = |context: &mut Context<'_>| {
        // It is never polled again after a panic.
        let polled = AssertUnwindSafe(|| future.as_mut().poll(context));
        match std::panic::catch_unwind(polled) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    };
    poll_fn(step).await
}
