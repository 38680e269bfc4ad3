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
