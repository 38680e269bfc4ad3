//! What would only fail later, on the cluster, is refused before anything is sent.

use polyaxon_client::InvalidInput;
use serde_json::{Map, Value};

use crate::wire::{PORT, RESERVED_ENV_PREFIX};

/// The kinds of references whose target cannot be looked at here.
pub(super) const REFERENCES: [&str; 4] = ["hubRef", "pathRef", "urlRef", "dagRef"];

/// Looks at the whole document.
pub(super) fn check(
    root: &Map<String, Value>,
    image_from_preset: bool,
) -> Result<(), InvalidInput> {
    let component = root.get("component");
    for reference in REFERENCES {
        if root.contains_key(reference) && component.is_none() {
            let problem =
                format!("refers to its component by `{reference}`; put the component itself there");
            return refuse("content", problem);
        }
    }
    if component.is_some_and(|component| !component.is_object()) {
        return refuse("content", "has a `component` that is not an object");
    }
    if root.contains_key("matrix") {
        return refuse("content", "has a `matrix`: a sandbox is one run");
    }
    let run = component.map_or_else(|| root.get("run"), |component| component.get("run"));
    let kind = run.and_then(|run| run.get("kind")).and_then(Value::as_str);
    if let Some(kind) = kind.filter(|kind| *kind != "service") {
        return refuse(
            "content",
            format!("runs a {kind}; only a service can be a sandbox"),
        );
    }
    let containers = [
        root.get("container"),
        run.and_then(|run| run.get("container")),
    ];
    let of_containers = |member: &'static str| {
        let containers = containers.into_iter().flatten();
        containers.filter_map(move |container| container.get(member))
    };
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    let from_preset = image_from_preset || root.contains_key("presets");
    if !from_preset && !of_containers("image").any(is_text) {
        return refuse("image", "is missing: the pod needs a container");
    }
    let has_command = of_containers("command").next().is_some() || root.contains_key("cmd");
    if of_containers("args").next().is_some() && !has_command {
        return refuse(
            "content",
            "has a container with `args` and without `command`",
        );
    }
    for ports in [root.get("ports"), run.and_then(|run| run.get("ports"))]
        .into_iter()
        .flatten()
    {
        check_ports(ports)?;
    }
    let environments = [root.get("env")]
        .into_iter()
        .flatten()
        .chain(of_containers("env"));
    environments.flat_map(names).try_for_each(check_name)
}

fn refuse(field: &'static str, problem: impl Into<String>) -> Result<(), InvalidInput> {
    Err(InvalidInput::new(field, problem))
}

fn check_ports(ports: &Value) -> Result<(), InvalidInput> {
    for port in ports.as_array().into_iter().flatten() {
        match port.as_u64() {
            Some(number) if number == u64::from(PORT) => {
                return refuse("ports", format!("{PORT} is the sandbox service's own"));
            }
            Some(1..=65_535) => {}
            // A template has a value only on the platform.
            None if port.as_str().is_some_and(|text| text.contains("{{")) => {}
            _ => return refuse("ports", format!("{port} is not a port")),
        }
    }
    Ok(())
}

/// The names in an environment, which is an object or a list of names with values.
fn names(environment: &Value) -> Vec<&str> {
    match environment {
        Value::Object(members) => members.keys().map(String::as_str).collect(),
        Value::Array(items) => items
            .iter()
            .filter_map(|item| item.get("name")?.as_str())
            .collect(),
        _ => Vec::new(),
    }
}

fn check_name(name: &str) -> Result<(), InvalidInput> {
    if name.starts_with(RESERVED_ENV_PREFIX) {
        return refuse("env", format!("{name} is kept for the platform"));
    }
    if name.is_empty() || name.contains(['=', '\0']) {
        return refuse("env", format!("{name:?} cannot be the name of a variable"));
    }
    Ok(())
}
