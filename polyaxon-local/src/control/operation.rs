//! The operation that a run is made from, as far as this service reads it.

use std::collections::BTreeMap;
use std::time::Duration;

use polyaxon_sandbox::wire::RESERVED_ENV_PREFIX;
use serde_json::{Map, Value, json};

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
        let root = Value::Object(root);
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
        if self.kind != "service" {
            return Some(format!(
                "This version of polyaxon-local runs services with the sandbox plugin only, not a `{}`.",
                self.kind
            ));
        }
        (!self.sandbox).then(|| {
            "This version of polyaxon-local runs services with the sandbox plugin only: \
             set `plugins.sandbox` to true."
                .to_owned()
        })
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
            (json!({"run": {"kind": "job"}}), "`job`"),
            (json!({"plugins": {"sandbox": true}}), "`job`"),
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
