//! Calls that make no request.

use polyaxon_client::Effect;
use polyaxon_sandbox::{Error, Exec, FileMode, SandboxClient, SandboxSpec};
use serde_json::{Value, json};

use super::Caller;
use crate::golden::report::sentence;

/// Why no request is made here.
pub(in crate::golden) enum Refusal {
    /// The call was made, and gave this error.
    Error(String),
    /// The call was made, and came back without asking anybody.
    Nothing,
    /// Such a call is no program.
    Type(&'static str),
    /// Here it is taken.
    Taken(&'static str),
    /// The call came back as if it were fine, or nobody has written it down.
    Unknown,
}

/// Makes a call that the Python client refuses.
pub(in crate::golden) async fn refused(call: &str, caller: &Caller<'_>) -> Refusal {
    let sandbox = caller.sandbox();
    let stat = async |path: &str| sandbox.fs().stat(path).await.map(drop);
    let create = async |spec: SandboxSpec| {
        SandboxClient::create(&caller.client(), &Caller::project(), &spec)
            .await
            .map(drop)
    };
    let content = async |value: Value| create(SandboxSpec::from_content(value)).await;
    let result =
        match call {
            "fs.read_bytes.length_zero" => {
                let page = sandbox.fs().read_range("/tmp/a", 0, 0).await.unwrap();
                assert!(page.bytes.is_empty());
                return Refusal::Nothing;
            }
            "reject.relative_path" => stat("tmp/a").await,
            "reject.empty_path" => stat("").await,
            "reject.nul_path" => stat("/a\0b").await,
            "reject.long_path" => stat(&format!("/{}", "a".repeat(4096))).await,
            "reject.command_str" => return Refusal::Type("a command is a list of texts"),
            "reject.command_empty" => {
                let exec = Exec::new(Vec::<String>::new());
                sandbox.process().exec(&exec).await.map(drop)
            }
            "reject.env_value_type" | "reject.create_env_int" => {
                return Refusal::Type("the value of a variable is text");
            }
            "reject.mode_range" => FileMode::new(0o1000).map(drop).map_err(Error::from),
            "reject.write_str" => return Refusal::Taken("text is the bytes of its UTF-8"),
            "reject.create_hub_ref" => content(json!({"hubRef": "notebook"})).await,
            "reject.create_job" => content(json!({"run": {"kind": "job"}})).await,
            "reject.create_matrix" => content(json!({
                "run": {"kind": "service", "container": {"image": "busybox"}},
                "matrix": {"kind": "grid", "params": {"a": {"kind": "choice", "value": [1, 2]}}},
            }))
            .await,
            "reject.create_plugins_ref" => {
                content(json!({"run": {"kind": "service"}, "plugins": "{{ p }}"})).await
            }
            "reject.create_cmd_blank" => create(SandboxSpec::image("i").command_line(" ")).await,
            "reject.create_cpu_range" => create(SandboxSpec::image("i").cpu("3..2")).await,
            "reject.create_memory_unit" => create(SandboxSpec::image("i").memory("1GB")).await,
            "reject.create_content_int" => content(json!(3)).await,
            _ => return Refusal::Unknown,
        };
    match result {
        Ok(()) => Refusal::Unknown,
        Err(error) => {
            assert_eq!(error.effect(), Effect::NotApplied, "{error}");
            Refusal::Error(sentence(&error))
        }
    }
}
