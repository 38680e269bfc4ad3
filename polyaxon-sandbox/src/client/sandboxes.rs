//! The sandboxes of a project: to list, to find again, to stop what is left over.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use polyaxon_client::runs::{ListRuns, Run, RunQuery, RunStatus, Runs};
use polyaxon_client::{Client, InvalidInput, ProjectRef};
use serde_json::Value;
use tokio::time::sleep;

use super::SandboxClient;
use crate::error::{Ambiguous, Error};
use crate::resolve::Lookup;
use crate::spec::LAUNCH_ID;

/// How many runs are looked at, or stopped, at once.
const AT_ONCE: usize = 8;

/// When a run is looked for whose answer was lost: at once, and after each of these.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1500),
    Duration::from_secs(3),
];

/// The sandboxes of a project. A handle, cheap to clone.
///
/// The platform does not list sandboxes as such: service runs are listed, and each that fits is
/// looked at, whether its operation has the sandbox plugin. So a list is one call for up to 200
/// service runs that have not ended, and one for each that fits.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = polyaxon_local::LocalServer::start().await?;
/// # let token = polyaxon_client::Token::new(server.token())?;
/// # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
/// # let client = polyaxon_client::Client::new(&config)?;
/// # let project = server.project().clone();
/// use polyaxon_sandbox::{Find, SandboxClient, SandboxSpec, Sandboxes};
///
/// let spec = SandboxSpec::image("python:3.12-slim").name("repair-7").tag("nightly");
/// let launched = SandboxClient::launch(&client, &project, &spec).await?;
///
/// let sandboxes = Sandboxes::of(&client, &project);
/// let again = sandboxes.connect(&Find::named("repair-7")).await?;
/// assert_eq!(again.run_uuid(), launched.run_uuid());
///
/// let report = sandboxes.stop(&Find::tagged("nightly")).await?;
/// assert_eq!((report.stopped.len(), report.failed.len()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sandboxes {
    runs: Runs,
}

/// Which sandboxes are meant. All conditions have to be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a Find does nothing until it is passed on"]
pub struct Find {
    name: Option<String>,
    tag: Option<String>,
    launch_id: Option<String>,
    older_than: Option<Duration>,
    ended: Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ended {
    #[default]
    LeftOut,
    Too,
}

impl Find {
    /// All that have not ended.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self::any().name(name)
    }

    /// Those with this tag.
    pub fn tagged(tag: impl Into<String>) -> Self {
        Self::any().tag(tag)
    }

    /// Of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// With this tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// With this launch id: see [`SandboxSpec::launch_id`](crate::SandboxSpec::launch_id).
    pub fn launch_id(mut self, id: impl Into<String>) -> Self {
        self.launch_id = Some(id.into());
        self
    }

    /// Created longer ago than this, by the platform's clock. A run without a time of creation
    /// does not count as old.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Also those that have ended.
    pub fn with_ended(mut self) -> Self {
        self.ended = Ended::Too;
        self
    }

    fn is_any(&self) -> bool {
        *self == Self::any() || *self == Self::any().with_ended()
    }

    /// What the platform can choose by; the rest is chosen here.
    fn list(&self) -> ListRuns {
        let mut query = RunQuery::new().kind().eq("service");
        if self.ended == Ended::LeftOut {
            query = query.status_not_in([
                RunStatus::Failed,
                RunStatus::UpstreamFailed,
                RunStatus::Stopped,
                RunStatus::Skipped,
                RunStatus::Succeeded,
            ]);
        }
        // Tags cannot be queried everywhere, and not each name everywhere.
        let said = |query: &RunQuery| query.text().is_ok();
        if let Some(name) = &self.name {
            query = Some(query.clone().name().eq(name))
                .filter(said)
                .unwrap_or(query);
        }
        if let Some(id) = &self.launch_id {
            let launched = query.clone().meta(LAUNCH_ID).eq(id);
            query = Some(launched).filter(said).unwrap_or(query);
        }
        let text = query.text().unwrap_or_default();
        ListRuns::new().query(text)
    }

    fn fits(&self, run: &Run, now: Timestamp) -> bool {
        let is_final = run.status.as_ref().is_some_and(RunStatus::is_final);
        let old_enough = self.older_than.is_none_or(|age| {
            let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
            run.created_at
                .is_some_and(|at| now.duration_since(at) > age)
        });
        let tagged = |tag: &String| run.tags.as_ref().is_some_and(|tags| tags.contains(tag));
        let launched = |id: &String| {
            let of_run = run.meta_info.as_ref().and_then(|meta| meta.get(LAUNCH_ID));
            of_run.and_then(Value::as_str) == Some(id)
        };
        (self.ended == Ended::Too || !is_final)
            && old_enough
            && self
                .name
                .as_ref()
                .is_none_or(|name| run.name.as_ref() == Some(name))
            && self.tag.as_ref().is_none_or(tagged)
            && self.launch_id.as_ref().is_none_or(launched)
    }

    /// What is meant, in words.
    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(name) = &self.name {
            words.push(format!("of the name {name:?}"));
        }
        if let Some(tag) = &self.tag {
            words.push(format!("with the tag {tag:?}"));
        }
        if let Some(id) = &self.launch_id {
            words.push(format!("with the launch id {id:?}"));
        }
        if let Some(age) = self.older_than {
            words.push(format!("older than {age:?}"));
        }
        words.join(", ")
    }
}

/// What became of stopping several sandboxes.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "it says what could not be stopped"]
pub struct StopReport {
    /// Those that the platform was asked to stop. A request: a run is stopped when its status says
    /// so.
    pub stopped: Vec<Run>,
    /// Those that it could not be asked to, with the reason.
    pub failed: Vec<(Run, Error)>,
}

impl Sandboxes {
    /// The sandboxes of `project`.
    #[must_use]
    pub fn of(client: &Client, project: &ProjectRef) -> Self {
        Self::over(client.runs(project))
    }

    pub(crate) fn over(runs: Runs) -> Self {
        Self { runs }
    }

    /// The runs that are sandboxes and fit, the newest first.
    ///
    /// # Errors
    /// As [`Runs::list`] and [`Runs::get`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list(&self, find: &Find) -> Result<Vec<Run>, Error> {
        let page = self.runs.all(&find.list()).await?;
        let now = page.answered_at.unwrap_or_else(Timestamp::now);
        let fitting = page.runs.into_iter().filter(|run| find.fits(run, now));
        // A list has no operations in it.
        let looks = stream::iter(fitting.collect::<Vec<_>>()).map(async |run| {
            let whole = self.runs.get(run.uuid).await?;
            Ok::<_, Error>(is_sandbox(&whole).then_some(whole))
        });
        let looked: Vec<Option<Run>> = looks.buffered(AT_ONCE).try_collect().await?;
        Ok(looked.into_iter().flatten().collect())
    }

    /// The one sandbox that fits.
    ///
    /// # Errors
    /// [`Error::NoSandbox`] where none does, [`Error::Ambiguous`] with all of them where several
    /// do; otherwise as [`list`](Self::list).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(&self, find: &Find) -> Result<SandboxClient, Error> {
        let mut found = self.list(find).await?;
        match (found.pop(), found.is_empty()) {
            (Some(run), true) => Ok(SandboxClient::over(self.runs.clone(), run.uuid)),
            (Some(run), false) => {
                found.push(run);
                Err(Error::Ambiguous(Box::new(Ambiguous {
                    wanted: find.words(),
                    candidates: found,
                })))
            }
            (None, _) => Err(Error::NoSandbox {
                wanted: find.words(),
            }),
        }
    }

    /// Asks the platform to stop all sandboxes that fit. One that cannot be stopped does not keep
    /// the others from it. Runs that are no sandboxes are never stopped.
    ///
    /// # Errors
    /// `InvalidInput` where `find` has no condition: that would stop what others work with.
    /// Otherwise as [`list`](Self::list); then none was stopped.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open which were asked for. Harmless to repeat.
    pub async fn stop(&self, find: &Find) -> Result<StopReport, Error> {
        if find.is_any() {
            let problem = "has no condition: say which sandboxes are to be stopped";
            return Err(InvalidInput::new("find", problem).into());
        }
        let found = self.list(find).await?;
        let stops = stream::iter(found).map(async |run| (self.runs.stop(run.uuid).await, run));
        let mut report = StopReport {
            stopped: Vec::new(),
            failed: Vec::new(),
        };
        let mut stops = stops.buffered(AT_ONCE);
        while let Some((stopped, run)) = stops.next().await {
            match stopped {
                Ok(()) => report.stopped.push(run),
                Err(error) => report.failed.push((run, error.into())),
            }
        }
        Ok(report)
    }

    /// The run that was created with this launch id, ended or not; `None` where there is none so
    /// far.
    ///
    /// # Errors
    /// [`Error::Ambiguous`] where several have it; otherwise as [`Runs::list`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn created(&self, launch_id: &str) -> Result<Option<Run>, Error> {
        let find = Find::any().launch_id(launch_id).with_ended();
        let page = self.runs.all(&find.list()).await?;
        let now = page.answered_at.unwrap_or_else(Timestamp::now);
        let fitting = page.runs.into_iter().filter(|run| find.fits(run, now));
        let mut fitting: Vec<Run> = fitting.collect();
        match fitting.len() {
            0 | 1 => Ok(fitting.pop()),
            _ => Err(Error::Ambiguous(Box::new(Ambiguous {
                wanted: find.words(),
                candidates: fitting,
            }))),
        }
    }

    /// As [`created`](Self::created), but where there is none it looks again for five seconds: for
    /// whoever cannot know whether the `create` was sent, or is still on its way, as after a crash.
    /// `None` is no proof that there will be none: a request can be on its way for longer.
    ///
    /// # Errors
    /// As [`created`](Self::created), of the first look that fails.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn look_for(&self, launch_id: &str) -> Result<Option<Run>, Error> {
        let mut found = self.created(launch_id).await?;
        for pause in LOOKS {
            if found.is_some() {
                break;
            }
            sleep(pause).await;
            found = self.created(launch_id).await?;
        }
        Ok(found)
    }

    /// The run of a create whose answer was lost, or what is known of it.
    pub(super) async fn instead_of_answer(
        &self,
        error: Error,
        launch_id: &str,
    ) -> Result<Run, Error> {
        // Where even looking fails, the first error says more.
        let mut found = self.created(launch_id).await.unwrap_or_default();
        for pause in LOOKS {
            if let Some(run) = found {
                return Ok(run);
            }
            sleep(pause).await;
            found = self.created(launch_id).await.unwrap_or_default();
        }
        found.ok_or_else(|| {
            error.uncertain(Lookup::CreatedSandbox {
                launch_id: launch_id.to_owned(),
            })
        })
    }
}

/// Whether the operation of a run has the sandbox plugin.
fn is_sandbox(run: &Run) -> bool {
    let content: Option<Value> = run
        .content
        .as_ref()
        .and_then(|text| serde_json::from_str(text).ok());
    content.is_some_and(|content| {
        ["/plugins/sandbox", "/component/plugins/sandbox"]
            .into_iter()
            .find_map(|place| content.pointer(place)?.as_bool())
            .unwrap_or(false)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(value: &Value) -> Run {
        let mut run = json!({"uuid": "8aac02e3a62a4f0aaa257c59da5eab80"});
        for (key, value) in value.as_object().unwrap() {
            run[key] = value.clone();
        }
        serde_json::from_value(run).unwrap()
    }

    #[test]
    fn what_is_asked_for_is_what_fits() {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let lab = run(&json!({
            "name": "lab", "tags": ["a", "b"], "status": "running",
            "created_at": "2026-11-30T09:00:00Z", "meta_info": {"launch_id": "x1"},
        }));
        let hour = Duration::from_secs(3600);
        let table = [
            (Find::any(), true),
            (Find::named("lab"), true),
            (Find::named("la"), false),
            (Find::tagged("b"), true),
            (Find::tagged("c"), false),
            (Find::any().launch_id("x1"), true),
            (Find::any().launch_id("x"), false),
            (Find::any().older_than(hour / 2), true),
            (Find::any().older_than(hour), false),
            (Find::any().older_than(Duration::MAX), false),
            (Find::named("lab").tag("c"), false),
        ];
        for (find, fits) in table {
            assert_eq!(find.fits(&lab, now), fits, "{find:?}");
        }
        let ended = run(&json!({"status": "stopped"}));
        assert!(!Find::any().fits(&ended, now));
        assert!(Find::any().with_ended().fits(&ended, now));
        assert!(
            !Find::any()
                .with_ended()
                .older_than(Duration::ZERO)
                .fits(&ended, now)
        );
        let strange = run(&json!({"status": "hibernating", "tags": null}));
        assert!(Find::any().fits(&strange, now));
        assert!(!Find::tagged("a").fits(&strange, now));
    }

    #[test]
    fn what_the_platform_cannot_choose_by_is_chosen_here() {
        let asked = |find: Find| find.list().query_text();
        let open = "kind:\"service\",status:~\"failed\"|\"upstream_failed\"|\"stopped\"|\"skipped\"\
                    |\"succeeded\",status:~nil";
        let live = ",live_state:1";
        assert_eq!(asked(Find::tagged("t")), format!("{open}{live}"));
        assert_eq!(
            asked(Find::named("lab")),
            format!("{open},name:\"lab\"{live}")
        );
        assert_eq!(asked(Find::named("a|b")), format!("{open}{live}"));
        let of_launch = Find::any().launch_id("x1").with_ended();
        assert_eq!(
            asked(of_launch),
            "kind:\"service\",meta_info.launch_id:\"x1\",live_state:1"
        );
    }

    #[test]
    fn only_an_operation_with_the_plugin_is_a_sandbox() {
        let table = [
            (json!({"plugins": {"sandbox": true}}), true),
            (json!({"component": {"plugins": {"sandbox": true}}}), true),
            (
                json!({"plugins": {"sandbox": false}, "component": {"plugins": {"sandbox": true}}}),
                false,
            ),
            (json!({"plugins": {"auth": true}}), false),
            (json!({}), false),
        ];
        for (content, is) in table {
            let run = run(&json!({"content": content.to_string()}));
            assert_eq!(is_sandbox(&run), is, "{content}");
        }
        assert!(!is_sandbox(&run(&json!({"content": "no JSON"}))));
        assert!(!is_sandbox(&run(&json!({}))));
    }
}
