//! What a sandbox is to be: image, resources, limits. Becomes the `content` of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use polyaxon_client::InvalidInput;
use polyaxon_client::runs::CreateRun;
use serde::Serialize;
use serde_json::{Map, Value, json};

mod check;
mod quantity;

pub use quantity::Quantity;

/// The member of `meta_info` that makes a run recognisable. A plain word, so that lists can be
/// queried by it.
pub(crate) const LAUNCH_ID: &str = "launch_id";

/// A sandbox to create. A value; it is checked when it is sent.
///
/// | setting | becomes |
/// |---|---|
/// | `image` | `container.image` |
/// | `command_line` | `cmd`, run by `/bin/sh` with `set -e` |
/// | `env` | `env` |
/// | `cpu`, `memory`, `gpu` | `resources` |
/// | `port` | `ports` |
/// | `queue` | `queue` |
/// | `plugin` | `plugins`; `sandbox: true` is always there |
/// | `termination_timeout` | `termination.timeout`, seconds |
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use polyaxon_sandbox::SandboxSpec;
///
/// let spec = SandboxSpec::image("python:3.12-slim")
///     .queue("research/cpu")
///     .cpu("500m..1")
///     .memory("512Mi..1Gi")
///     .termination_timeout(Duration::from_secs(1800))
///     .name("amount-parser-repair");
/// let content = spec.content()?;
/// assert_eq!(content["container"]["image"], "python:3.12-slim");
/// assert_eq!(content["plugins"]["sandbox"], true);
/// # Ok::<(), polyaxon_client::InvalidInput>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a SandboxSpec does nothing until it is passed to `SandboxClient::create`"]
pub struct SandboxSpec {
    content: Option<Value>,
    image: Image,
    command_line: Option<CommandLine>,
    env: BTreeMap<String, String>,
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
    gpu: Option<Quantity>,
    ports: Vec<u16>,
    queue: Option<String>,
    plugins: BTreeMap<String, bool>,
    termination: Termination,
    run: CreateRun,
}

/// A script, as one text or line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum CommandLine {
    Text(String),
    Lines(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Image {
    Named(String),
    InContent,
    FromPreset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Termination {
    /// 1800 s, unless the content has a limit of its own.
    Default,
    After(Duration),
    Platform,
}

impl SandboxSpec {
    /// How long a sandbox lives unless told otherwise: 30 minutes. The limit is the platform's,
    /// so it ends a sandbox that everybody has lost sight of.
    pub const TERMINATION_TIMEOUT: Duration = Duration::from_secs(1800);

    /// A sandbox of this image, which must have `/bin/sh`.
    pub fn image(image: impl Into<String>) -> Self {
        Self::new(None, Image::Named(image.into()))
    }

    /// A sandbox from a document of yours: an operation, a component, or the part of one that
    /// the platform takes. Settings of this value are laid over its root. It must be a service.
    pub fn from_content(content: Value) -> Self {
        Self::new(Some(content), Image::InContent)
    }

    /// A sandbox from the text of a JSON document: see [`from_content`](Self::from_content).
    ///
    /// # Errors
    /// Where the text is no JSON.
    pub fn from_json(text: &str) -> Result<Self, InvalidInput> {
        let content = serde_json::from_str(text)
            .map_err(|error| InvalidInput::new("content", format!("is no JSON: {error}")))?;
        Ok(Self::from_content(content))
    }

    /// A sandbox whose image comes from a preset of the project; without such a preset the run
    /// fails on the cluster.
    pub fn from_preset() -> Self {
        Self::new(None, Image::FromPreset)
    }

    /// Lets a preset of the project name the image that the content does not name.
    pub fn image_from_preset(mut self) -> Self {
        self.image = Image::FromPreset;
        self
    }

    fn new(content: Option<Value>, image: Image) -> Self {
        Self {
            content,
            image,
            command_line: None,
            env: BTreeMap::new(),
            cpu: None,
            memory: None,
            gpu: None,
            ports: Vec::new(),
            queue: None,
            plugins: BTreeMap::new(),
            termination: Termination::Default,
            run: CreateRun::default(),
        }
    }

    /// Starts this beside the sandbox service, as a script of `/bin/sh`.
    pub fn command_line(mut self, line: impl Into<String>) -> Self {
        self.command_line = Some(CommandLine::Text(line.into()));
        self
    }

    /// The same with a script of several lines; the first that fails ends it.
    pub fn command_lines<S: Into<String>>(mut self, lines: impl IntoIterator<Item = S>) -> Self {
        let lines = lines.into_iter().map(Into::into).collect();
        self.command_line = Some(CommandLine::Lines(lines));
        self
    }

    /// Sets a variable of the container.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// CPUs: `1`, `0.5`, `"500m"`, or `"500m..1"` for request and limit.
    pub fn cpu(mut self, cpu: impl Into<Quantity>) -> Self {
        self.cpu = Some(cpu.into());
        self
    }

    /// Memory: bytes as a number, `"512Mi"`, or `"512Mi..1Gi"` for request and limit.
    pub fn memory(mut self, memory: impl Into<Quantity>) -> Self {
        self.memory = Some(memory.into());
        self
    }

    /// Graphics cards, a whole number. Request and limit at once.
    pub fn gpu(mut self, gpu: impl Into<Quantity>) -> Self {
        self.gpu = Some(gpu.into());
        self
    }

    /// Exposes a port of the container; 9090 is the sandbox service's own.
    pub fn port(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// The queue to schedule it on: `agent/queue`.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Turns a plugin on or off at the root of the operation: `auth`, `mountArtifactsStore`, ….
    pub fn plugin(mut self, name: impl Into<String>, on: bool) -> Self {
        self.plugins.insert(name.into(), on);
        self
    }

    /// How long the platform lets it live; whole seconds, rounded up. Default:
    /// [`TERMINATION_TIMEOUT`](Self::TERMINATION_TIMEOUT).
    pub fn termination_timeout(mut self, limit: Duration) -> Self {
        self.termination = Termination::After(limit);
        self
    }

    /// Leaves the limit to the platform, which may have none: a sandbox that is lost sight of can
    /// then cost for ever.
    pub fn without_termination_timeout(mut self) -> Self {
        self.termination = Termination::Platform;
        self
    }

    /// A name for the run, at most 128 characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.run = self.run.name(name);
        self
    }

    /// A description of the run.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.run = self.run.description(description);
        self
    }

    /// Adds a tag to the run.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.run = self.run.tag(tag);
        self
    }

    /// Adds a member to the run's `meta_info`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.run = self.run.meta(key, value);
        self
    }

    /// Lets the run wait for an approval. [`Pending::ready`](crate::Pending::ready) gives it.
    pub fn pending_approval(mut self) -> Self {
        self.run = self.run.pending_approval();
        self
    }

    /// Lets the run wait before it starts, for `approval`, `upload`, `cache` or `build`.
    pub fn pending(mut self, what: impl Into<String>) -> Self {
        self.run = self.run.pending(what);
        self
    }

    /// Says who drives the run: `user`, `cli` or `agent`. Default: the platform's, its agent.
    pub fn managed_by(mut self, who: impl Into<String>) -> Self {
        self.run = self.run.managed_by(who);
        self
    }

    /// Makes the run recognisable: a text that no other run has, sent as the member `launch_id` of
    /// `meta_info`. Where the answer to `create` is lost, the run is looked for by it; so can be
    /// whoever starts anew after a crash: [`Sandboxes::created`](crate::Sandboxes::created).
    ///
    /// [`SandboxClient::launch`](crate::SandboxClient::launch) sets a random one where there is
    /// none, [`create`](crate::SandboxClient::create) does not.
    pub fn launch_id(mut self, id: impl Into<String>) -> Self {
        self.run = self.run.meta(LAUNCH_ID, id.into());
        self
    }

    /// The launch id, where it has one.
    pub(crate) fn launched_as(&self) -> Option<&str> {
        self.run.meta_info.as_ref()?.get(LAUNCH_ID)?.as_str()
    }

    /// The body of the call that creates the run.
    pub(crate) fn create_run(&self) -> Result<CreateRun, InvalidInput> {
        if let Some(id) = self
            .run
            .meta_info
            .as_ref()
            .and_then(|meta| meta.get(LAUNCH_ID))
        {
            let fits = |text: &str| {
                let letters = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
                !text.is_empty() && text.len() <= 128 && text.bytes().all(letters)
            };
            if !id.as_str().is_some_and(fits) {
                let problem = format!("{id} is not 1 to 128 letters, digits, `-`, `_` or `.`");
                return Err(InvalidInput::new("launch_id", problem));
            }
        }
        let mut run = self.run.clone();
        run.content = Some(self.content()?.to_string());
        Ok(run)
    }

    /// The document that is sent as the run's content.
    ///
    /// # Errors
    /// By field: no image, a port or an environment name of the platform's own, a quantity that
    /// is none, content that is no service.
    pub fn content(&self) -> Result<Value, InvalidInput> {
        let mut root = self.root()?;
        let placed = ["run", "component"].iter().chain(&check::REFERENCES);
        if !placed.clone().any(|key| root.contains_key(*key)) {
            root.entry("ports").or_insert_with(|| json!([]));
        }
        for (key, value) in self.overlay()? {
            lay_over(&mut root, key, value);
        }
        match self.termination {
            Termination::Platform => {}
            Termination::After(limit) => set_timeout(&mut root, limit),
            Termination::Default => {
                let nested = root
                    .get("component")
                    .and_then(|component| component.get("termination"));
                if nested.or_else(|| root.get("termination")).is_none() {
                    set_timeout(&mut root, Self::TERMINATION_TIMEOUT);
                }
            }
        }
        let plugins = root.entry("plugins").or_insert_with(|| json!({}));
        match plugins.as_object_mut() {
            Some(plugins) => plugins.insert("sandbox".to_owned(), Value::Bool(true)),
            None => {
                return Err(InvalidInput::new(
                    "content",
                    "has `plugins` that are not an object",
                ));
            }
        };
        check::check(&root, self.image == Image::FromPreset)?;
        Ok(Value::Object(root))
    }

    /// The document before anything is laid over it.
    fn root(&self) -> Result<Map<String, Value>, InvalidInput> {
        let Some(content) = &self.content else {
            return Ok(Map::new());
        };
        let Some(map) = content.as_object() else {
            return Err(InvalidInput::new("content", "is not a JSON object"));
        };
        if map.get("kind").and_then(Value::as_str) != Some("component") {
            return Ok(map.clone());
        }
        let mut operation = Map::new();
        if let Some(version) = map.get("version") {
            operation.insert("version".to_owned(), version.clone());
        }
        operation.insert("kind".to_owned(), json!("operation"));
        operation.insert("component".to_owned(), content.clone());
        Ok(operation)
    }

    /// The settings of this value as members of the root.
    fn overlay(&self) -> Result<Vec<(&'static str, Value)>, InvalidInput> {
        let mut over = Vec::new();
        if let Image::Named(image) = &self.image {
            over.push(("container", json!({"image": image})));
        }
        if let Some(line) = &self.command_line {
            let blank = match line {
                CommandLine::Text(text) => text.trim().is_empty(),
                CommandLine::Lines(lines) => {
                    lines.is_empty() || lines.iter().any(|line| line.trim().is_empty())
                }
            };
            if blank {
                return Err(InvalidInput::new("command_line", "is blank"));
            }
            over.push(("cmd", json!(line)));
        }
        if !self.env.is_empty() {
            over.push(("env", json!(self.env)));
        }
        let mut resources = Map::new();
        for (name, quantity) in [
            ("cpu", &self.cpu),
            ("memory", &self.memory),
            ("gpu", &self.gpu),
        ] {
            if let Some(quantity) = quantity {
                resources.insert(name.to_owned(), quantity.check(name)?);
            }
        }
        if !resources.is_empty() {
            over.push(("resources", Value::Object(resources)));
        }
        if !self.ports.is_empty() {
            over.push(("ports", json!(self.ports)));
        }
        if let Some(queue) = &self.queue {
            over.push(("queue", json!(queue)));
        }
        if !self.plugins.is_empty() {
            over.push(("plugins", json!(self.plugins)));
        }
        Ok(over)
    }
}

/// Lays `value` over the member `key`: objects member by member, everything else as a whole.
fn lay_over(root: &mut Map<String, Value>, key: &str, value: Value) {
    match (root.get_mut(key), value) {
        (Some(Value::Object(below)), Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below, &key, value);
            }
        }
        (_, value) => drop(root.insert(key.to_owned(), value)),
    }
}

fn set_timeout(root: &mut Map<String, Value>, limit: Duration) {
    let seconds = limit.as_millis().div_ceil(1000);
    let timeout = json!({"timeout": u64::try_from(seconds).unwrap_or(u64::MAX)});
    lay_over(root, "termination", timeout);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(spec: SandboxSpec) -> Value {
        spec.without_termination_timeout().content().unwrap()
    }

    /// The documents are those that the Python client was recorded to send for the same request.
    #[test]
    fn the_document_is_the_one_that_the_python_client_sends() {
        let content = SandboxSpec::from_content;
        let busybox = json!({"kind": "service", "container": {"image": "busybox"}});
        let table = [
            (
                SandboxSpec::from_preset(),
                json!({"plugins": {"sandbox": true}, "ports": []}),
            ),
            (
                SandboxSpec::image("python:3.11").command_line("sleep infinity"),
                json!({"plugins": {"sandbox": true}, "ports": [],
                    "container": {"image": "python:3.11"}, "cmd": "sleep infinity"}),
            ),
            (
                SandboxSpec::from_preset()
                    .cpu("500m..1")
                    .memory("512Mi..1Gi")
                    .gpu(1),
                json!({"plugins": {"sandbox": true}, "ports": [],
                    "resources": {"cpu": "500m..1", "memory": "512Mi..1Gi", "gpu": 1}}),
            ),
            (
                SandboxSpec::from_preset().cpu(0.5).memory(1024).gpu("1..2"),
                json!({"plugins": {"sandbox": true}, "ports": [],
                    "resources": {"cpu": 0.5, "memory": 1024, "gpu": "1..2"}}),
            ),
            (
                SandboxSpec::from_preset().port(8888).port(80).env("A", "1"),
                json!({"plugins": {"sandbox": true}, "ports": [8888, 80], "env": {"A": "1"}}),
            ),
            (
                content(json!({"kind": "component", "run": busybox})),
                json!({"kind": "operation", "plugins": {"sandbox": true},
                    "component": {"kind": "component", "run": busybox}}),
            ),
            (
                content(json!({"version": 1.1, "kind": "component", "run": busybox})),
                json!({"version": 1.1, "kind": "operation", "plugins": {"sandbox": true},
                    "component": {"version": 1.1, "kind": "component", "run": busybox}}),
            ),
            (
                content(
                    json!({"kind": "operation", "component": {"run": busybox, "plugins": {"tmux": true}}}),
                ),
                json!({"kind": "operation", "plugins": {"sandbox": true},
                    "component": {"plugins": {"tmux": true}, "run": busybox}}),
            ),
            (
                content(
                    json!({"kind": "operation", "presets": ["dev"], "component": {"run": busybox}}),
                )
                .queue("agent/q"),
                json!({"kind": "operation", "presets": ["dev"], "queue": "agent/q",
                    "plugins": {"sandbox": true}, "component": {"run": busybox}}),
            ),
            (
                content(json!({"run": busybox})).env("A", "2"),
                json!({"plugins": {"sandbox": true}, "env": {"A": "2"}, "run": busybox}),
            ),
        ];
        for (spec, want) in table {
            assert_eq!(bare(spec), want);
        }
    }

    #[test]
    fn the_workspace_of_the_coding_agent_keeps_its_nested_component() {
        let component = json!({
            "plugins": {"auth": false, "mountArtifactsStore": false},
            "run": {"kind": "service", "container": {"image": "python:3.12-slim"}},
        });
        let spec = SandboxSpec::from_content(json!({
            "queue": "research/cpu", "termination": {"timeout": 600}, "component": component,
        }));
        let want = json!({
            "queue": "research/cpu", "termination": {"timeout": 600},
            "plugins": {"sandbox": true}, "component": component,
        });
        assert_eq!(spec.content().unwrap(), want);
        let run = spec.name("amount-parser-repair").create_run().unwrap();
        assert_eq!(run.name.as_deref(), Some("amount-parser-repair"));
        let text = run.content.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), want);
    }

    #[test]
    fn a_sandbox_ends_after_thirty_minutes_unless_told_otherwise() {
        let timeout = |spec: SandboxSpec| spec.content().unwrap()["termination"]["timeout"].clone();
        assert_eq!(timeout(SandboxSpec::image("i")), 1800);
        let short = Duration::from_millis(1_500);
        assert_eq!(
            timeout(SandboxSpec::image("i").termination_timeout(short)),
            2
        );
        let own = json!({"component": {"termination": {"timeout": 5},
            "run": {"kind": "service", "container": {"image": "i"}}}});
        assert_eq!(timeout(SandboxSpec::from_content(own)), Value::Null);
        assert_eq!(
            timeout(SandboxSpec::image("i").without_termination_timeout()),
            Value::Null
        );
    }

    #[test]
    fn plugins_are_kept_and_sandbox_is_always_on() {
        let spec = SandboxSpec::image("i")
            .plugin("auth", false)
            .plugin("sandbox", false);
        assert_eq!(
            bare(spec)["plugins"],
            json!({"auth": false, "sandbox": true})
        );
    }

    #[test]
    fn what_the_platform_can_run_is_not_refused() {
        let of_run = |run: Value| SandboxSpec::from_content(json!({"run": run}));
        let table = [
            of_run(
                json!({"kind": "service", "container": {"image": "i", "command": ["c"], "args": ["a"]}}),
            ),
            of_run(json!({"kind": "service", "container": {"image": "i", "args": ["a"]}}))
                .command_line("true"),
            of_run(
                json!({"kind": "service", "ports": [80], "container": {"image": "i", "env": [{"name": "A", "value": "1"}]}}),
            ),
            SandboxSpec::from_content(json!({"plugins": {"ssh": true}})).image_from_preset(),
            SandboxSpec::from_json(r#"{"run": {"kind": "service", "container": {"image": "i"}}}"#)
                .unwrap(),
        ];
        for spec in table {
            spec.content().unwrap();
        }
        assert_eq!(
            SandboxSpec::from_json("run: {}").unwrap_err().field(),
            "content"
        );
    }

    #[test]
    fn a_launch_id_is_plain_text_in_the_meta_info() {
        let spec = SandboxSpec::image("i").launch_id("a-1");
        assert_eq!(spec.launched_as(), Some("a-1"));
        let sent = serde_json::to_value(spec.create_run().unwrap()).unwrap();
        assert_eq!(sent["meta_info"], json!({"launch_id": "a-1"}));
        for bad in ["", "a b", "a,b", "\"", &"x".repeat(129)] {
            let error = SandboxSpec::image("i")
                .launch_id(bad)
                .create_run()
                .unwrap_err();
            assert_eq!(error.field(), "launch_id", "{bad:?}");
        }
        let who = SandboxSpec::image("i").managed_by("user").pending("upload");
        let sent = serde_json::to_value(who.create_run().unwrap()).unwrap();
        assert_eq!(
            (&sent["managed_by"], &sent["pending"]),
            (&json!("user"), &json!("upload"))
        );
    }

    #[test]
    fn what_would_fail_on_the_cluster_is_refused_by_its_field() {
        let content = SandboxSpec::from_content;
        let service = json!({"kind": "service", "container": {"image": "i"}});
        let table = [
            (SandboxSpec::image(" "), "image"),
            (content(json!({"run": {"kind": "service"}})), "image"),
            (
                content(json!({"run": {"kind": "job", "container": {"image": "i"}}})),
                "content",
            ),
            (
                content(json!({"run": service, "matrix": {"kind": "grid"}})),
                "content",
            ),
            (content(json!({"hubRef": "notebook"})), "content"),
            (
                content(json!({"run": service, "plugins": "{{ p }}"})),
                "content",
            ),
            (content(json!(3)), "content"),
            (
                content(
                    json!({"run": {"kind": "service", "ports": [9090], "container": {"image": "i"}}}),
                ),
                "ports",
            ),
            (content(json!({"run": service, "ports": [70000]})), "ports"),
            (content(json!({"run": service, "ports": ["web"]})), "ports"),
            (SandboxSpec::image("i").port(0), "ports"),
            (
                content(
                    json!({"run": {"kind": "service", "container": {"image": "i", "args": ["a"]}}}),
                ),
                "content",
            ),
            (
                content(json!({"run": {"kind": "service", "container": {
                    "image": "i", "env": [{"name": "POLYAXON_X", "value": "1"}]}}})),
                "env",
            ),
            (
                content(json!({"run": service, "env": {"POLYAXON_X": "1"}})),
                "env",
            ),
            (
                content(json!({"kind": "operation", "component": 3})),
                "content",
            ),
            (
                SandboxSpec::image("i").command_lines(["a", " "]),
                "command_line",
            ),
            (
                SandboxSpec::image("i").command_lines(Vec::<String>::new()),
                "command_line",
            ),
            (SandboxSpec::image("i").port(9090), "ports"),
            (SandboxSpec::image("i").env("POLYAXON_X", "1"), "env"),
            (SandboxSpec::image("i").env("A=B", "1"), "env"),
            (SandboxSpec::image("i").command_line(" "), "command_line"),
            (SandboxSpec::image("i").cpu("3..2"), "cpu"),
            (SandboxSpec::image("i").memory("1GB"), "memory"),
        ];
        for (spec, field) in table {
            assert_eq!(spec.content().unwrap_err().field(), field, "{spec:?}");
        }
    }
}
