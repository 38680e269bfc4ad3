//! The operation that a run is made from, as far as this service reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use polyaxon_sandbox::wire::RESERVED_ENV_PREFIX;
use serde_json::{Map, Value, json};

use super::{inputs, template};

/// What matters here about an operation or a component.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    /// `service`, `job`, … or `matrix`.
    pub(crate) kind: String,
    /// The image, which is not pulled.
    pub(crate) image: Option<String>,
    /// The environment of the container, which every command starts with.
    pub(crate) env: BTreeMap<String, String>,
    /// How long the run may run.
    pub(crate) timeout: Option<Duration>,
    /// Whether the operation itself asks for an approval (`isApproved: false`).
    pub(crate) needs_approval: bool,
    /// Whether the sandbox plugin is on.
    pub(crate) sandbox: bool,
    /// The name of a reference that nothing resolves here.
    pub(crate) reference: Option<&'static str>,
    /// The values of its declared inputs, or why it cannot be compiled.
    pub(crate) inputs: Result<Map<String, Value>, String>,
    /// The command of a job, its templates filled in, or why there is none.
    pub(crate) command: Result<Vec<String>, String>,
    /// Whether it has containers besides its main one.
    more_containers: bool,
    /// The document as an operation, JSON as text.
    pub(crate) compiled: String,
}

impl Operation {
    /// Reads a JSON document: an operation, or a component that is wrapped into one.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub(crate) fn parse(content: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(content).map_err(|error| {
            format!("Received non valid content: it is not JSON, which is all that is read here: {error}")
        })?;
        let Value::Object(mut root) = value else {
            return Err("Received non valid content: it is not an object".to_owned());
        };
        if root.get("kind").and_then(Value::as_str) == Some("component") {
            root = Map::from_iter([
                ("kind".to_owned(), json!("operation")),
                ("component".to_owned(), Value::Object(root)),
            ]);
        }
        let mut root = Value::Object(root);
        let inputs = inputs::values(&root);
        let command = match &inputs {
            Ok(inputs) => {
                inputs::write(&mut root, inputs);
                command(&mut root, inputs)
            }
            Err(why) => Err(why.clone()),
        };
        let references = ["hubRef", "pathRef", "urlRef", "dagRef"];
        Ok(Self {
            kind: kind(&root)?,
            image: first(&root, "/container/image", as_text)
                .or_else(|| {
                    root.pointer("/component/run/container/image")
                        .and_then(as_text)
                })
                .or_else(|| root.pointer("/run/container/image").and_then(as_text)),
            env: env(&root),
            timeout: timeout(&root)?,
            needs_approval: first(&root, "/isApproved", Value::as_bool) == Some(false),
            sandbox: first(&root, "/plugins/sandbox", Value::as_bool) == Some(true)
                || first(&root, "/plugins/ssh", Value::as_bool) == Some(true),
            reference: references
                .into_iter()
                .find(|name| root.get(name).is_some() && root.get("component").is_none()),
            inputs,
            command,
            more_containers: ["init", "sidecars"].iter().any(|name| {
                let listed = run_of(&root).and_then(|run| run.get(name)?.as_array());
                listed.is_some_and(|containers| !containers.is_empty())
            }),
            compiled: root.to_string(),
        })
    }

    /// Why a run of this operation cannot run here, if it cannot.
    pub(crate) fn unsupported(&self) -> Option<String> {
        if let Some(reference) = self.reference {
            return Some(format!(
                "Failed to compile. This service resolves no `{reference}`: send the component itself."
            ));
        }
        if let Err(why) = &self.inputs {
            return Some(format!("Failed to compile. In this operation {why}."));
        }
        match self.kind.as_str() {
            "service" if self.sandbox => None,
            "service" => Some(
                "polyaxon-local runs services with the sandbox plugin only: set `plugins.sandbox` \
                 to true."
                    .to_owned(),
            ),
            "job" if self.more_containers => Some(
                "polyaxon-local runs the main container of a job only, no init containers and no \
                 sidecars."
                    .to_owned(),
            ),
            "job" => {
                let why = self.command.as_ref().err()?;
                Some(format!("Failed to compile. In this job {why}."))
            }
            kind => Some(format!(
                "polyaxon-local runs jobs and services with the sandbox plugin, not a `{kind}`."
            )),
        }
    }
}

/// The `run` section of an operation.
fn run_of(root: &Value) -> Option<&Value> {
    root.pointer("/component/run").or_else(|| root.get("run"))
}

/// The words that a job starts: `cmd` as a script of the shell, else `command` and `args` of its
/// container. What is filled in is filled in in the document too.
fn command(root: &mut Value, inputs: &Map<String, Value>) -> Result<Vec<String>, String> {
    if let Some(cmd) = first(root, "/cmd", Some).filter(|cmd| !cmd.is_null()) {
        let lines = words(cmd).ok_or("`cmd` is no text and no list of texts")?;
        let script = template::resolve(&lines.join("\n"), inputs)?;
        let words = [
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            format!("set -e\n{script}"),
        ];
        return Ok(words.into());
    }
    let pointers = ["/component/run/container", "/run/container", "/container"];
    let container = pointers.into_iter().find(|pointer| {
        root.pointer(pointer)
            .is_some_and(|c| c.get("command").is_some())
    });
    let container = container
        .and_then(|pointer| root.pointer_mut(pointer)?.as_object_mut())
        .ok_or("there is no `command`, and no image that could have one")?;
    let mut whole = Vec::new();
    for name in ["command", "args"] {
        let Some(value) = container.get_mut(name).filter(|value| !value.is_null()) else {
            continue;
        };
        let listed = words(value).ok_or_else(|| format!("`{name}` is no list of texts"))?;
        let filled = listed
            .iter()
            .map(|word| template::resolve(word, inputs))
            .collect::<Result<Vec<_>, _>>()?;
        *value = json!(filled);
        whole.extend(filled);
    }
    match whole.is_empty() {
        true => Err("`command` is empty".to_owned()),
        false => Ok(whole),
    }
}

fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(word) => Some(vec![word.clone()]),
        Value::Array(words) => words.iter().map(as_text).collect(),
        _ => None,
    }
}

/// The value at `pointer` of the operation, else of its component.
fn first<'a, T>(root: &'a Value, pointer: &str, read: fn(&'a Value) -> Option<T>) -> Option<T> {
    root.pointer(pointer)
        .or_else(|| root.pointer(&format!("/component{pointer}")))
        .and_then(read)
}

fn as_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The container's own list of variables, and the operation's map over it. The service keeps the
/// platform's names for itself.
fn env(root: &Value) -> BTreeMap<String, String> {
    let run = root.pointer("/component/run").or_else(|| root.get("run"));
    let listed = run.and_then(|run| run.pointer("/container/env")?.as_array());
    let listed = listed
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((as_text(entry.get("name")?)?, as_text(entry.get("value")?)?)));
    let mapped = first(root, "/env", Value::as_object).into_iter().flatten();
    let mapped = mapped.filter_map(|(name, value)| Some((name.clone(), as_text(value)?)));
    listed
        .chain(mapped)
        .filter(|(name, _)| !name.starts_with(RESERVED_ENV_PREFIX))
        .collect()
}

fn kind(root: &Value) -> Result<String, String> {
    if root.get("matrix").is_some_and(|matrix| !matrix.is_null()) {
        return Ok("matrix".to_owned());
    }
    let run = root.pointer("/component/run").or_else(|| root.get("run"));
    match run {
        Some(run) => run
            .get("kind")
            .and_then(as_text)
            .ok_or_else(|| "1 validation error for V1Polyaxonfile: run.kind is missing".to_owned()),
        // Ports at the root are what makes a service of a document without a `run`.
        None if root.get("ports").is_some_and(Value::is_array) => Ok("service".to_owned()),
        None => Ok("job".to_owned()),
    }
}

fn timeout(root: &Value) -> Result<Option<Duration>, String> {
    match first(root, "/termination/timeout", Some) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(seconds) if seconds > 0 => Ok(Some(Duration::from_secs(seconds))),
            _ => Err(format!(
                "1 validation error for V1Polyaxonfile: termination.timeout: {value} is not a whole \
                 number of seconds above 0"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &Value) -> Operation {
        Operation::parse(&value.to_string()).unwrap()
    }

    #[test]
    fn the_environment_is_that_of_the_container_with_the_operation_s_over_it() {
        let operation = parse(&json!({
            "plugins": {"sandbox": true}, "env": {"A": "2", "POLYAXON_X": "1", "N": 3},
            "component": {"run": {"kind": "service", "container": {"image": "i",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}, {"name": "C"}]}}},
        }));
        let env: Vec<(&str, &str)> = operation
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(env, [("A", "2"), ("B", "1")]);
    }

    #[test]
    fn the_forms_that_clients_send_are_sandboxes() {
        let table = [
            json!({"plugins": {"sandbox": true}, "ports": [], "container": {"image": "i"}}),
            json!({"kind": "operation", "plugins": {"sandbox": true}, "component": {
                "kind": "component", "run": {"kind": "service", "container": {"image": "i"}}}}),
            json!({"kind": "component", "plugins": {"sandbox": true},
                "run": {"kind": "service", "container": {"image": "i"}}}),
            json!({"plugins": {"sandbox": true}, "run": {"kind": "service", "container": {"image": "i"}}}),
            json!({"plugins": {"sandbox": true}, "component": {
                "plugins": {"auth": false, "sandbox": false}, "run": {"kind": "service", "container": {"image": "i"}}}}),
        ];
        for content in table {
            let operation = parse(&content);
            assert_eq!(operation.unsupported(), None, "{content}");
            assert_eq!(operation.image.as_deref(), Some("i"), "{content}");
        }
    }

    #[test]
    fn what_does_not_run_here_says_why() {
        let service = json!({"kind": "service"});
        let table = [
            (json!({"run": {"kind": "job"}}), "no `command`"),
            (json!({"plugins": {"sandbox": true}}), "no `command`"),
            (json!({"run": {"kind": "tfjob"}}), "`tfjob`"),
            (
                json!({"run": {"kind": "job", "container": {"command": ["a"]}, "init": [{"git": {}}]}}),
                "init containers",
            ),
            (
                json!({"component": {"inputs": [{"name": "a"}], "run": {"kind": "job", "container": {"command": ["a"]}}}}),
                "`a` has no value",
            ),
            (
                json!({"run": {"kind": "job", "container": {"command": ["{{ globals.x }}"]}}}),
                "no declared input",
            ),
            (json!({"run": service}), "plugins.sandbox"),
            (
                json!({"run": service, "plugins": {"sandbox": false}}),
                "plugins.sandbox",
            ),
            (
                json!({"run": service, "matrix": {"kind": "grid"}}),
                "`matrix`",
            ),
            (json!({"hubRef": "a:b"}), "`hubRef`"),
        ];
        for (content, word) in table {
            let why = parse(&content).unsupported().unwrap();
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn a_job_has_one_command_with_its_params_filled_in() {
        let container = json!({"command": ["python", "-c"], "args": ["{{ a }}", "x={{ n }}"]});
        let component = json!({"inputs": [{"name": "a"}, {"name": "n", "value": 2}],
            "run": {"kind": "job", "container": container}});
        let operation = parse(&json!({"params": {"a": {"value": "v"}}, "component": component}));
        assert_eq!(operation.unsupported(), None);
        assert_eq!(operation.command.unwrap(), ["python", "-c", "v", "x=2"]);
        assert_eq!(operation.inputs.unwrap()["n"], 2);
        let compiled: Value = serde_json::from_str(&operation.compiled).unwrap();
        assert_eq!(
            compiled["component"]["run"]["container"]["args"],
            json!(["v", "x=2"])
        );
        let table = [
            (json!({"container": {"command": ["a"]}}), vec!["a"]),
            (
                json!({"run": {"kind": "job", "container": {"command": "a", "args": ["b"]}}}),
                vec!["a", "b"],
            ),
            (json!({"cmd": "a b"}), vec!["/bin/sh", "-c", "set -e\na b"]),
            (
                json!({"cmd": ["a", "b"], "container": {"image": "i"}}),
                vec!["/bin/sh", "-c", "set -e\na\nb"],
            ),
        ];
        for (content, want) in table {
            assert_eq!(parse(&content).command.unwrap(), want, "{content}");
        }
    }

    #[test]
    fn the_operation_overrides_its_component() {
        let content = json!({
            "termination": {"timeout": 2},
            "component": {
                "termination": {"timeout": 3}, "isApproved": false,
                "run": {"kind": "service"}
            }
        });
        let operation = parse(&content);
        assert_eq!(operation.timeout, Some(Duration::from_secs(2)));
        assert!(operation.needs_approval);
        let component =
            json!({"component": {"termination": {"timeout": 3}, "run": {"kind": "job"}}});
        assert_eq!(parse(&component).timeout, Some(Duration::from_secs(3)));
    }

    #[test]
    fn content_that_is_no_operation_is_refused() {
        for content in [
            "",
            "kind: operation",
            "[]",
            "\"x\"",
            r#"{"run":{}}"#,
            r#"{"termination":{"timeout":0}}"#,
            r#"{"termination":{"timeout":"1h"}}"#,
            r#"{"termination":{"timeout":1.5}}"#,
        ] {
            Operation::parse(content).unwrap_err();
        }
    }

    proptest::proptest! {
        #[test]
        fn no_content_makes_the_reader_panic(
            name in "kind|run|component|ports|plugins|termination|matrix|isApproved",
            value in r#"null|1|"a"|\[\]|\{\}|\{"kind":"(service|job)"\}|\{"timeout":-?[0-9]{1,20}\}"#,
        ) {
            for text in [format!("{{\"{name}\":{value}}}"), value.clone(), format!("{{\"component\":{{\"{name}\":{value}}}}}")] {
                if let Ok(operation) = Operation::parse(&text) {
                    serde_json::from_str::<Map<String, Value>>(&operation.compiled).unwrap();
                }
            }
        }
    }
}
