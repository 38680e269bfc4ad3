//! What a tool is: a name, typed arguments, limits, and a command that nobody but its author wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::inputs::{InputId, ResolvedInputs};
use crate::manifest::{File, Tree};
use crate::path::{InvalidPath, RelPath};

/// A named operation that a model may ask for, in place of a terminal.
///
/// The model says [`Arguments`](Self::Arguments) and nothing else: which project, which run, which
/// path and which program it is never comes from there. The command says a
/// [`Result`](Self::Result), and [`evaluate`](Self::evaluate) makes of it what the model is told.
///
/// All methods are pure: they can be called again for a call that was broken off, and have to come
/// to the same then.
pub trait Tool: Send + Sync + 'static {
    /// What the model says. Derive `serde::Deserialize` with `deny_unknown_fields` and
    /// `schemars::JsonSchema`: arguments that take more than they name are refused when the tool
    /// is registered.
    type Arguments: DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// What the command says, as JSON.
    type Result: DeserializeOwned;

    /// Its name and limits, and who may call it.
    fn contract(&self) -> Contract;

    /// The identifiers in the arguments. The controller looks them up among what was approved for
    /// the session's tenant; a call that names another one is refused.
    fn inputs<'a>(&self, arguments: &'a Self::Arguments) -> Vec<&'a InputId>;

    /// The command for these arguments.
    ///
    /// # Errors
    /// Where the arguments fit the schema and make no sense. The model is told why.
    fn command(
        &self,
        arguments: &Self::Arguments,
        inputs: &ResolvedInputs,
    ) -> Result<ToolCommand, Refusal>;

    /// Whether the result is what was asked for, and what the model is told of it.
    fn evaluate(&self, arguments: &Self::Arguments, result: Self::Result) -> Evaluation;
}

/// The name of a tool, its limits, and who may call it.
#[derive(Clone, Debug)]
#[must_use = "a Contract does nothing until a tool has it"]
pub struct Contract {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) callers: Option<BTreeSet<String>>,
    pub(super) limits: Limits,
    pub(super) repeatable: bool,
    pub(super) artifacts: BTreeMap<String, Kept>,
}

/// A file that a command may leave, and how large it may be.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) path: RelPath,
    pub(super) max: u64,
}

impl Contract {
    /// A tool of this name (1 to 64 letters, digits, `_` and `-`), which the model is told to be
    /// for this.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            callers: None,
            limits: Limits::default(),
            repeatable: false,
            artifacts: BTreeMap::new(),
        }
    }

    /// Sessions with one of these roles may call it. Default: every session.
    pub fn callers<S: Into<String>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.callers = Some(roles.into_iter().map(Into::into).collect());
        self
    }

    /// Changes the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// To carry it out twice does no harm: it changes nothing outside of its own folder. Default:
    /// it does harm. Then a call whose start was lost, and which is not found, stays uncertain and
    /// is never started again.
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// The command may leave a file at `path` in its folder, of at most `max` bytes. It is kept
    /// with the answer, under `name` (as a tool's).
    ///
    /// # Errors
    /// Where `path` is no path inside a folder.
    pub fn artifact(
        mut self,
        name: impl Into<String>,
        path: impl AsRef<str>,
        max: u64,
    ) -> Result<Self, InvalidPath> {
        let path = RelPath::parse(path.as_ref())?;
        self.artifacts.insert(name.into(), Kept { path, max });
        Ok(self)
    }
}

/// What a call may use up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of arguments. Default: 16 KiB.
    pub request_bytes: usize,
    /// How long a call may take, from the request to the end of its command. Default: 30 s; at
    /// most 300 s, which is the longest that the service runs a command.
    pub deadline: Duration,
    /// The most bytes of a result. A larger one is no result. Default: 256 KiB.
    pub result_bytes: usize,
    /// The most bytes of a summary; a longer one is cut, and says so. Default: 2 KiB.
    pub summary_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 16 * 1024,
            deadline: Duration::from_secs(30),
            result_bytes: 256 * 1024,
            summary_bytes: 2 * 1024,
        }
    }
}

impl Limits {
    /// The longest deadline.
    pub const LONGEST: Duration = Duration::from_secs(300);

    /// Changes how many bytes of arguments are taken.
    #[must_use]
    pub fn request_bytes(mut self, bytes: usize) -> Self {
        self.request_bytes = bytes;
        self
    }

    /// Changes how long a call may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Changes how large a result may be.
    #[must_use]
    pub fn result_bytes(mut self, bytes: usize) -> Self {
        self.result_bytes = bytes;
        self
    }

    /// Changes how long a summary may be.
    #[must_use]
    pub fn summary_bytes(mut self, bytes: usize) -> Self {
        self.summary_bytes = bytes;
        self
    }
}

/// A command of a tool. It runs in a folder of its own that is new for each call, in which its
/// files are put before.
///
/// # Examples
/// ```
/// use agent_loop::tools::ToolCommand;
///
/// let command = ToolCommand::new(["python3", "-I", "summary.py", "inputs/orders"])
///     .file("summary.py", "…")?
///     .result_file("summary.json")?;
/// # Ok::<(), agent_loop::InvalidPath>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a ToolCommand does nothing until a tool returns it"]
pub struct ToolCommand {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) stdin: Vec<u8>,
    pub(super) files: Tree,
    pub(super) result_file: Option<RelPath>,
}

impl ToolCommand {
    /// A program with its arguments, without a shell. Its result is what it writes to its standard
    /// output.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            stdin: Vec::new(),
            files: Tree::new(),
            result_file: None,
        }
    }

    /// Adds a variable to the environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Gives it something to read.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Puts a file into its folder: the program, for one.
    ///
    /// # Errors
    /// Where `path` is no path inside a folder.
    pub fn file(
        mut self,
        path: impl AsRef<str>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<Self, InvalidPath> {
        let path = RelPath::parse(path.as_ref())?;
        self.files.insert(path, File::new(bytes));
        Ok(self)
    }

    /// Takes the result from a file that it writes into its folder, and not from its output: for
    /// results that are larger than a line or two. It is fetched by the file API, whole or not at
    /// all.
    ///
    /// # Errors
    /// Where `path` is no path inside a folder.
    pub fn result_file(mut self, path: impl AsRef<str>) -> Result<Self, InvalidPath> {
        self.result_file = Some(RelPath::parse(path.as_ref())?);
        Ok(self)
    }
}

/// Why a call is not carried out. The model is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{feedback}")]
pub struct Refusal {
    pub(super) feedback: String,
}

impl Refusal {
    /// With this sentence for the model.
    pub fn new(feedback: impl Into<String>) -> Self {
        let feedback = feedback.into();
        Self { feedback }
    }
}

impl From<InvalidPath> for Refusal {
    fn from(error: InvalidPath) -> Self {
        Self::new(error.to_string())
    }
}

/// What an evaluator makes of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub(super) passed: bool,
    pub(super) summary: String,
}

impl Evaluation {
    /// It is what was asked for. The model is told `summary`.
    pub fn accept(summary: impl Into<String>) -> Self {
        Self {
            passed: true,
            summary: summary.into(),
        }
    }

    /// It is not. The model is told `summary`.
    pub fn reject(summary: impl Into<String>) -> Self {
        Self {
            passed: false,
            summary: summary.into(),
        }
    }
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// Why a tool cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The name of the tool, or of one of its artifacts, cannot be used.
    #[error("{name:?} cannot name a tool or an artifact: 1 to 64 letters, digits, `_` and `-` can")]
    #[non_exhaustive]
    Name {
        /// The name.
        name: String,
    },
    /// There is a tool of that name already.
    #[error("there is a tool {name} already")]
    #[non_exhaustive]
    Taken {
        /// The name.
        name: String,
    },
    /// The arguments are no object, or take members that they do not name.
    #[error("the arguments of {name} are open at {at:?}: use `deny_unknown_fields`")]
    #[non_exhaustive]
    OpenArguments {
        /// The tool.
        name: String,
        /// Where, as a JSON pointer into the schema.
        at: String,
    },
    /// A limit cannot be kept.
    #[error("{name} has a limit that cannot be kept: {limit}")]
    #[non_exhaustive]
    Limit {
        /// The tool.
        name: String,
        /// Which.
        limit: &'static str,
    },
}

impl Contract {
    pub(super) fn check(&self, schema: &Value) -> Result<(), ContractError> {
        let names = std::iter::once(&self.name).chain(self.artifacts.keys());
        if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
            let name = name.clone();
            return Err(ContractError::Name { name });
        }
        let name = self.name.clone();
        let limits = &self.limits;
        let broken = if limits.deadline.is_zero() || limits.deadline > Limits::LONGEST {
            Some("the deadline is not within 300 s")
        } else if limits.request_bytes == 0 || limits.result_bytes == 0 || limits.summary_bytes == 0
        {
            Some("nothing may be said")
        } else {
            None
        };
        if let Some(limit) = broken {
            return Err(ContractError::Limit { name, limit });
        }
        let is_object = schema.get("type").is_some_and(|kind| kind == "object");
        let open = match is_object {
            true => open_at(schema, String::new()),
            false => Some(String::new()),
        };
        match open {
            None => Ok(()),
            Some(at) => Err(ContractError::OpenArguments { name, at }),
        }
    }
}

/// The first object of a schema that takes members it does not name.
fn open_at(schema: &Value, at: String) -> Option<String> {
    match schema {
        Value::Object(members) => {
            let is_object = members.get("type").is_some_and(|kind| kind == "object");
            let others = members.get("additionalProperties");
            if is_object && others.is_none_or(|others| *others == Value::Bool(true)) {
                return Some(at);
            }
            let mut members = members.iter();
            members.find_map(|(name, member)| open_at(member, format!("{at}/{name}")))
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| open_at(item, format!("{at}/{index}")))
        }
        _ => None,
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Closed {
        dataset: InputId,
        options: Vec<Inner>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        column: Option<String>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct OpenInside {
        options: Vec<Open>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Open {
        column: String,
    }

    fn contract() -> Contract {
        Contract::new("summary", "…")
    }

    fn schema<T: JsonSchema>() -> Value {
        schema_for!(T).to_value()
    }

    #[test]
    fn arguments_that_take_anything_are_refused() {
        assert_eq!(contract().check(&schema::<Closed>()), Ok(()));
        let open = |schema| match contract().check(&schema).unwrap_err() {
            ContractError::OpenArguments { at, .. } => at,
            other => panic!("{other}"),
        };
        assert_eq!(open(schema::<Open>()), "");
        assert_eq!(open(schema::<OpenInside>()), "/$defs/Open");
        assert_eq!(open(schema::<String>()), "");
    }

    #[test]
    fn a_contract_that_cannot_be_kept_is_refused() {
        let schema = schema::<Closed>();
        for name in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
            let error = Contract::new(name, "…").check(&schema).unwrap_err();
            assert!(matches!(error, ContractError::Name { .. }), "{name}");
        }
        let artifact = contract().artifact("../x", "x", 1).unwrap();
        artifact.check(&schema).unwrap_err();
        contract().artifact("x", "../x", 1).unwrap_err();
        for limits in [
            Limits::default().deadline(Duration::ZERO),
            Limits::default().deadline(Duration::from_secs(301)),
            Limits::default().result_bytes(0),
        ] {
            let error = contract().limits(limits).check(&schema).unwrap_err();
            assert!(matches!(error, ContractError::Limit { .. }), "{error}");
        }
    }
}
