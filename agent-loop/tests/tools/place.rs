//! A sandbox, a tool that runs any line of a shell, and a controller that has it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agent_loop::tools::{
    ApprovedInputs, Bundle, CallRecord, Contract, Controller, Evaluation, InputId, Receipts,
    Refusal, ResolvedInputs, Session, Tenant, Tool, ToolAnswer, ToolCall, ToolCommand,
    schemars::{self, JsonSchema},
};
use polyaxon_client::{Client, Config, Token};
use polyaxon_local::{FaultRule, LocalServer};
use polyaxon_sandbox::{SandboxClient, SandboxSpec};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the test says that is to be run. No tool of a product would take this.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    line: String,
    dataset: Option<InputId>,
    result_file: Option<String>,
}

/// Runs a line of a shell. Its result is any JSON, and `"wrong"` is not accepted.
pub(crate) struct Line(pub(crate) Contract);

impl Line {
    pub(crate) fn harmless() -> Contract {
        Contract::new("line", "Runs a line.").repeatable()
    }

    /// What must not be done twice.
    pub(crate) fn harmful() -> Contract {
        Contract::new("line", "Runs a line.")
    }
}

impl Tool for Line {
    type Arguments = Arguments;
    type Result = Value;

    fn contract(&self) -> Contract {
        self.0.clone()
    }

    fn inputs<'a>(&self, arguments: &'a Arguments) -> Vec<&'a InputId> {
        arguments.dataset.iter().collect()
    }

    fn command(
        &self,
        arguments: &Arguments,
        inputs: &ResolvedInputs,
    ) -> Result<ToolCommand, Refusal> {
        if arguments.line.is_empty() {
            return Err(Refusal::new("there is nothing to run"));
        }
        let path = match &arguments.dataset {
            Some(id) => inputs.path(id)?,
            None => "none",
        };
        let command = ToolCommand::new(["sh", "-c", &arguments.line, "sh", path])
            .env("GREETING", "hello")
            .stdin("input\n")
            .file("own.txt", "own\n")?;
        match &arguments.result_file {
            Some(file) => Ok(command.result_file(file)?),
            None => Ok(command),
        }
    }

    fn evaluate(&self, _arguments: &Arguments, result: Value) -> Evaluation {
        let summary = match &result {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match summary.as_str() {
            "wrong" => Evaluation::reject(summary),
            _ => Evaluation::accept(summary),
        }
    }
}

pub(crate) struct Place {
    pub(crate) server: LocalServer,
    pub(crate) client: Client,
    pub(crate) sandbox: SandboxClient,
    pub(crate) session: Session,
    pub(crate) records: Arc<Mutex<Vec<CallRecord>>>,
    pub(crate) receipts: PathBuf,
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) async fn start() -> Self {
        let server = LocalServer::start().await.unwrap();
        let token = Token::new(server.token()).unwrap();
        let config = Config::explicit(server.url()).unwrap().token(token);
        let client = Client::new(&config).unwrap();
        let spec = SandboxSpec::image("python:3.12-slim");
        let sandbox = SandboxClient::launch(&client, server.project(), &spec)
            .await
            .unwrap();
        let session = Session::open(Tenant::new("acme"), sandbox.clone())
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self {
            server,
            client,
            sandbox,
            session,
            records: Arc::default(),
            receipts: folder.path().join("receipts"),
            folder,
        }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// A controller with the tool; it has the receipts until it is dropped.
    pub(crate) fn controller(&self, contract: Contract) -> Controller {
        let orders = Bundle::new().file("orders.csv", "1\n2\n").unwrap();
        let secret = Bundle::new().file("secret.csv", "3\n").unwrap();
        let inputs = ApprovedInputs::new()
            .approve(Tenant::new("acme"), "orders".parse().unwrap(), orders)
            .approve(Tenant::new("other"), "secret".parse().unwrap(), secret);
        let records = Arc::clone(&self.records);
        Controller::new(Receipts::open(&self.receipts).unwrap())
            .tool(Line(contract))
            .unwrap()
            .inputs(inputs)
            .observer(move |record: &CallRecord, answer: &ToolAnswer| {
                assert_eq!(record.outcome, answer.outcome);
                records.lock().unwrap().push(record.clone());
            })
    }

    pub(crate) fn last_record(&self) -> CallRecord {
        self.records.lock().unwrap().last().unwrap().clone()
    }

    /// What the operator is told of the last call.
    pub(crate) fn last_detail(&self) -> String {
        let detail = self.last_record().detail;
        detail.map_or_else(String::new, |detail| detail.reveal().to_owned())
    }

    pub(crate) fn spoil(&self, rules: &str) {
        for rule in FaultRule::parse_all(&format!(r#"{{"faults": [{rules}]}}"#)).unwrap() {
            self.server.faults().add(rule);
        }
    }

    /// How often a line of [`counted`] was executed.
    pub(crate) async fn runs(&self, name: &str) -> usize {
        match self.sandbox.fs().read_text(format!("/tmp/{name}")).await {
            Ok(text) => text.lines().count(),
            Err(_) => 0,
        }
    }

    /// What calls have left in the sandbox: folders, and records of commands.
    pub(crate) async fn left(&self) -> (usize, usize) {
        let listing = self.sandbox.fs().ls("/tmp").await.unwrap();
        let folders = listing.entries.iter();
        let folders = folders.filter(|entry| entry.name.starts_with("tool-"));
        let records = self.sandbox.process().list().await.unwrap();
        (folders.count(), records.len())
    }
}

pub(crate) fn call(id: &str, line: &str) -> ToolCall {
    let arguments = json!({"line": line}).to_string();
    ToolCall::new(id.parse().unwrap(), "line", arguments)
}

pub(crate) fn call_with(id: &str, arguments: &Value) -> ToolCall {
    ToolCall::new(id.parse().unwrap(), "line", arguments.to_string())
}

/// A line that leaves another line for each time that it is executed.
pub(crate) fn counted(name: &str) -> String {
    format!("echo run >> /tmp/{name}; echo 7")
}
