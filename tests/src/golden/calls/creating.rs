//! New sandboxes.

use polyaxon_client::runs::CreateRun;
use polyaxon_sandbox::{Error, SandboxClient, SandboxSpec};
use serde_json::{Value, json};

use super::{Caller, Made, NOT_WRITTEN};

pub(super) async fn make(call: &str, caller: &Caller<'_>) -> Result<Made, Error> {
    if let Some((is_managed, by)) = managed(call) {
        // Whom a run is managed by is a matter of runs, which a sandbox is one of.
        let spec = SandboxSpec::from_preset().without_termination_timeout();
        let mut run = CreateRun::operation(&spec.content()?);
        run.is_managed = is_managed;
        run.managed_by = Some(by.to_owned());
        caller
            .client()
            .runs(&Caller::project())
            .create(&run)
            .await?;
        return Ok(Made::Sent);
    }
    let Some(spec) = spec(call) else {
        return Ok(Made::NotOffered(NOT_WRITTEN));
    };
    // The Python client sets no limit of its own.
    let spec = spec.without_termination_timeout();
    let made = SandboxClient::create(&caller.client(), &Caller::project(), &spec).await?;
    if call == "create.then_ping" {
        made.sandbox().ping().await?;
    }
    Ok(Made::Sent)
}

fn managed(call: &str) -> Option<(Option<bool>, &'static str)> {
    Some(match call {
        "create.is_managed_true" => (Some(true), "agent"),
        "create.is_managed_false" => (Some(false), "user"),
        "create.managed_by" => (None, "user"),
        _ => return None,
    })
}

fn service(image: &str) -> Value {
    json!({"kind": "service", "container": {"image": image}})
}

fn spec(call: &str) -> Option<SandboxSpec> {
    let plain = SandboxSpec::from_preset;
    let image = || SandboxSpec::image("python:3.11");
    let content = SandboxSpec::from_content;
    Some(match call {
        "create.default" | "create.then_ping" => plain(),
        "create.default.async" => plain().name("dbg"),
        "create.meta" => plain()
            .name("dbg")
            .description("d")
            .tag("a")
            .tag("b")
            .meta("k", 1),
        "create.tags_str" | "create.tags_yaml" => plain().tag("a").tag("b"),
        "create.pending" => plain().pending_approval(),
        "create.image" => image(),
        "create.cmd_str" => image().command_line("sleep infinity"),
        "create.cmd_list" => image().command_lines(["pip install x", "sleep infinity"]),
        "create.env" => plain().env("A", "1"),
        "create.resources" => plain().cpu("500m..1").memory("512Mi..1Gi").gpu(1),
        "create.resources_numbers" => plain().cpu(0.5).memory(1024).gpu("1..2"),
        "create.ports" => plain().port(8888).port(80),
        "create.all_shortcuts" => image()
            .command_line("sleep 1")
            .env("A", "1")
            .cpu(1)
            .memory("1Gi")
            .gpu(1)
            .port(80),
        "create.content_plugins_dict" => plain().plugin("ssh", true),
        "create.content_component_dict" => {
            content(json!({"kind": "component", "run": service("busybox")}))
        }
        "create.content_operation_dict" => content(json!({
            "kind": "operation",
            "component": {"run": service("busybox"), "plugins": {"tmux": true}},
        })),
        "create.content_kindless" => content(json!({
            "run": service("busybox"), "container": {"image": "python:3.11"},
        })),
        // YAML is for its reader to read; a document is JSON here.
        "create.content_yaml_str" => content(json!({
            "version": 1.1, "kind": "component", "name": "sandbox-dev",
            "plugins": {"tmux": true, "ssh": true},
            "run": {
                "kind": "service",
                "container": {"command": ["sleep", "infinity"], "image": "python:3.11"},
            },
        })),
        "create.content_model" => content(json!({
            "kind": "operation",
            "component": {"run": {"kind": "service"}, "plugins": {"tmux": true}},
        }))
        .image_from_preset(),
        "create.content_component_env_overlay" => content(json!({
            "kind": "component",
            "run": {
                "kind": "service",
                "container": {"image": "busybox", "env": [{"name": "A", "value": "1"}]},
            },
        }))
        .env("A", "2")
        .env("B", "3"),
        "create.content_presets" => content(json!({
            "kind": "operation", "presets": ["dev"], "queue": "agent/q",
            "component": {"run": service("busybox")},
        })),
        _ => return None,
    })
}
