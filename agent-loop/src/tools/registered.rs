//! A tool of any type, behind one face.

use std::sync::Arc;

use serde_json::{Value, json};

use super::contract::{
    Contract, ContractError, Evaluation, Refusal, Tool, ToolCommand, ToolDefinition,
};
use super::inputs::ApprovedInputs;
use super::session::Tenant;
use crate::manifest::Tree;

/// A tool, its contract and its schema.
pub(super) struct Registered {
    contract: Contract,
    schema: Value,
    tool: Box<dyn AnyTool>,
}

/// A call that makes sense and is allowed: what is to be done, and how its result is read.
pub(super) struct Prepared {
    pub(super) command: ToolCommand,
    /// The command's own files and the inputs.
    pub(super) files: Tree,
    pub(super) evaluate: Box<Evaluate>,
}

type Evaluate = dyn Fn(&[u8]) -> serde_json::Result<Evaluation> + Send + Sync;

impl Registered {
    pub(super) fn new<T: Tool>(tool: T) -> Result<Self, ContractError> {
        let contract = tool.contract();
        let schema = schemars::schema_for!(T::Arguments).to_value();
        contract.check(&schema)?;
        let tool = Box::new(Typed(Arc::new(tool)));
        Ok(Self {
            contract,
            schema,
            tool,
        })
    }

    pub(super) fn contract(&self) -> &Contract {
        &self.contract
    }

    pub(super) fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.contract.name.clone(),
            description: self.contract.description.clone(),
            parameters: self.schema.clone(),
        }
    }

    /// What changes whenever the contract does.
    pub(super) fn revision(&self) -> String {
        let Contract {
            name,
            description,
            callers,
            limits,
            repeatable,
            artifacts,
        } = &self.contract;
        let artifacts: Vec<_> = artifacts
            .iter()
            .map(|(name, kept)| (name, &kept.path, kept.max))
            .collect();
        json!([
            name,
            description,
            self.schema,
            callers,
            limits,
            repeatable,
            artifacts
        ])
        .to_string()
    }

    pub(super) fn prepare(
        &self,
        arguments: &str,
        approved: &ApprovedInputs,
        tenant: &Tenant,
    ) -> Result<Prepared, Refusal> {
        self.tool.prepare(arguments, approved, tenant)
    }
}

trait AnyTool: Send + Sync {
    fn prepare(
        &self,
        arguments: &str,
        approved: &ApprovedInputs,
        tenant: &Tenant,
    ) -> Result<Prepared, Refusal>;
}

struct Typed<T>(Arc<T>);

impl<T: Tool> AnyTool for Typed<T> {
    fn prepare(
        &self,
        arguments: &str,
        approved: &ApprovedInputs,
        tenant: &Tenant,
    ) -> Result<Prepared, Refusal> {
        let tool = Arc::clone(&self.0);
        // A member that is there twice, or text behind the object, is a defect and not mended.
        let arguments: T::Arguments = serde_json::from_str(arguments)
            .map_err(|error| Refusal::new(format!("the arguments do not fit: {error}")))?;
        let inputs = approved.resolve(tenant, tool.inputs(&arguments))?;
        let command = tool.command(&arguments, &inputs)?;
        let mut files = inputs.files()?;
        for (path, file) in command.files.iter() {
            files.insert(path.clone(), Arc::clone(file));
        }
        let evaluate = move |bytes: &[u8]| {
            let result: T::Result = serde_json::from_slice(bytes)?;
            Ok(tool.evaluate(&arguments, result))
        };
        Ok(Prepared {
            command,
            files,
            evaluate: Box::new(evaluate),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::tools::{Bundle, InputId, ResolvedInputs};

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        dataset: InputId,
        #[serde(default)]
        most: Option<u8>,
    }

    struct Echo;

    impl Tool for Echo {
        type Arguments = Arguments;
        type Result = String;

        fn contract(&self) -> Contract {
            Contract::new("echo", "…")
        }

        fn inputs<'a>(&self, arguments: &'a Arguments) -> Vec<&'a InputId> {
            vec![&arguments.dataset]
        }

        fn command(
            &self,
            arguments: &Arguments,
            inputs: &ResolvedInputs,
        ) -> Result<ToolCommand, Refusal> {
            let path = inputs.path(&arguments.dataset)?;
            let most = arguments.most.unwrap_or_default().to_string();
            Ok(ToolCommand::new(["echo", path, &most]))
        }

        fn evaluate(&self, _arguments: &Arguments, result: String) -> Evaluation {
            Evaluation::accept(result)
        }
    }

    /// For a tenant that has one input, `a.1`.
    fn prepare(arguments: &str) -> Result<Prepared, Refusal> {
        let tenant = Tenant::new("acme");
        let inputs = ApprovedInputs::new();
        let inputs = inputs.approve(tenant.clone(), "a.1".parse().unwrap(), Bundle::new());
        let echo = Registered::new(Echo).unwrap();
        echo.prepare(arguments, &inputs, &tenant)
    }

    proptest! {
        #[test]
        fn what_a_model_says_is_a_known_command_or_nothing(text in prop_oneof![
            "\\PC{0,40}",
            r#"\{"dataset": ?"(a.1|b|\.\./a|a.1\u0000)"(, ?"(most|path|dataset)": ?("?[0-9]{1,3}"?|null|-1))?\}( \{\})?"#,
        ]) {
            if let Ok(prepared) = prepare(&text) {
                let argv = prepared.command.argv;
                let most: u8 = argv[2].parse().unwrap();
                prop_assert_eq!(&argv[..2], ["echo", "inputs/a.1"]);
                let json: Value = serde_json::from_str(&text).unwrap();
                let said = json.get("most").and_then(Value::as_u64).unwrap_or_default();
                prop_assert_eq!(u64::from(most), said);
                let mut members = json.as_object().unwrap().keys();
                prop_assert!(members.all(|name| name == "dataset" || name == "most"), "{}", text);
            }
        }
    }

    #[test]
    fn a_result_is_read_as_its_type_and_as_nothing_else() {
        let prepared = prepare(r#"{"dataset": "a.1"}"#).unwrap();
        let read = |bytes: &[u8]| (prepared.evaluate)(bytes);
        assert_eq!(read(b" \"x\"\n").unwrap(), Evaluation::accept("x"));
        for wrong in [&b""[..], b"1", b"\"x", b"\"x\" \"y\"", b"\"\xff\""] {
            read(wrong).unwrap_err();
        }
    }
}
