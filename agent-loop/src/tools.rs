//! Named operations for a model, in place of a terminal.
//!
//! A call of a tool is a request, and no proof that the work is allowed. A [`Tool`] is a name with
//! typed arguments; the [`Controller`] decides whether a call is allowed, carries it out in the
//! sandbox of the [`Session`], once, and translates what came of it into a [`ToolAnswer`].
//!
//! ```
//! use agent_loop::tools::{
//!     ApprovedInputs, Bundle, Contract, Controller, Evaluation, InputId, Receipts, Refusal,
//!     ResolvedInputs, Session, Tenant, Tool, ToolCall, ToolCommand, ToolOutcome, schemars,
//! };
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// What the model can say: which data, and nothing else.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Arguments {
//!     /// The data to count.
//!     dataset: InputId,
//! }
//!
//! struct CountLines;
//!
//! impl Tool for CountLines {
//!     type Arguments = Arguments;
//!     type Result = u64;
//!
//!     fn contract(&self) -> Contract {
//!         Contract::new("count_lines", "Counts the lines of a data set.").repeatable()
//!     }
//!
//!     fn inputs<'a>(&self, arguments: &'a Arguments) -> Vec<&'a InputId> {
//!         vec![&arguments.dataset]
//!     }
//!
//!     fn command(&self, arguments: &Arguments, inputs: &ResolvedInputs) -> Result<ToolCommand, Refusal> {
//!         let path = format!("{}/data.csv", inputs.path(&arguments.dataset)?);
//!         let program = "import sys; print(len(open(sys.argv[1]).readlines()))";
//!         Ok(ToolCommand::new(["python3", "-I", "-c", program, &path]))
//!     }
//!
//!     fn evaluate(&self, _arguments: &Arguments, lines: u64) -> Evaluation {
//!         Evaluation::accept(format!("{lines} lines"))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use polyaxon_sandbox::{SandboxClient, SandboxSpec};
//! # let server = polyaxon_local::LocalServer::start().await?;
//! # let token = polyaxon_client::Token::new(server.token())?;
//! # let config = polyaxon_client::Config::explicit(server.url())?.token(token);
//! # let client = polyaxon_client::Client::new(&config)?;
//! # let spec = SandboxSpec::image("python:3.12-slim");
//! # let sandbox = SandboxClient::launch(&client, server.project(), &spec).await?;
//! # let folder = tempfile::tempdir()?;
//! let acme = Tenant::new("acme");
//! let orders = Bundle::new().file("data.csv", "amount\n3\n4\n")?;
//! let controller = Controller::new(Receipts::open(folder.path())?)
//!     .tool(CountLines)?
//!     .inputs(ApprovedInputs::new().approve(acme.clone(), "orders".parse()?, orders));
//!
//! // The application knows whose session it is, and which sandbox is theirs.
//! let session = Session::open(acme, sandbox).await?;
//! let call = ToolCall::new("task-1.1".parse()?, "count_lines", r#"{"dataset": "orders"}"#);
//! let answer = controller.call(&session, &call).await;
//! assert_eq!((answer.outcome, &*answer.summary), (ToolOutcome::Succeeded, "3 lines"));
//! // The same request is answered, and not carried out again.
//! assert_eq!(controller.call(&session, &call).await, answer);
//!
//! // What a model must not say has no place to be said in.
//! let arguments = r#"{"dataset": "orders", "run_uuid": "8aac02e3a62a4f0aaa257c59da5eab80"}"#;
//! let call = ToolCall::new("task-1.2".parse()?, "count_lines", arguments);
//! let answer = controller.call(&session, &call).await;
//! assert_eq!(answer.outcome, ToolOutcome::Refused);
//! assert!(answer.summary.contains("unknown field `run_uuid`"));
//! # Ok(())
//! # }
//! ```
//!
//! # What an argument list is not
//!
//! Typed arguments say what may be asked for. They are no boundary for the program that a tool
//! runs: what that can reach is for the sandbox and the cluster's policy to say. Where a tool runs
//! code that a model wrote, that code is untrusted input, and its result too.
//!
//! # Codes
//!
//! The summary of an answer that is no result is a fixed sentence with a code. The operator finds
//! more in the [`CallRecord`].
//!
//! | code | what |
//! |---|---|
//! | `TL-EXIT` | the command exited with another code than 0, or was killed |
//! | `TL-TIME` | it was ended at its time limit |
//! | `TL-RESULT` | its result is not there, not whole in its characters, or not what the type says |
//! | `TL-SIZE` | its result, or an artifact, is larger than allowed |
//! | `TL-FILE` | the file of its result, or of an artifact, is a link or a folder |
//! | `TL-FILES`, `TL-START` | its files could not be put, or it could not be started: nothing was done |
//! | `TL-FETCH` | it has ended, and its files cannot be fetched now |
//! | `TL-LOST`, `TL-RUN` | its end cannot be found out; it was started in another sandbox |
//! | `TL-RECEIPT` | the receipt cannot be read or written |

mod answer;
mod contract;
mod controller;
mod execution;
mod inputs;
mod receipts;
mod record;
mod registered;
mod session;

/// The library that makes schemas of types; its derive macro needs it by name.
pub use schemars;

pub use answer::{ArtifactLink, ToolAnswer, ToolCall, ToolOutcome};
pub use contract::{
    Contract, ContractError, Evaluation, Limits, Refusal, Tool, ToolCommand, ToolDefinition,
};
pub use controller::Controller;
pub use inputs::{ApprovedInputs, Bundle, InputId, InvalidInputId, ResolvedInputs};
pub use receipts::{OpenCall, Receipts};
pub use record::{CallObserver, CallRecord, CommandFacts};
pub use session::{Session, Tenant};

const _: () = {
    const fn check<T: Send + Sync>() {}
    check::<Controller>();
    check::<Session>();
};
