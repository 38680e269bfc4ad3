//! Jobs that get their values from their caller: a component with params.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Runs;
use super::model::{CreateRun, Run, RunStatus};
use super::watch::last_words;
use crate::error::{Error, InvalidInput};
use crate::ids::ProjectRef;
use crate::transport::Operation;

/// An operation: a component, and the params that its inputs get.
///
/// # Examples
/// ```
/// use polyaxon_client::runs::{CreateRun, OperationSpec};
/// use serde_json::json;
///
/// let component = json!({
///     "kind": "component",
///     "inputs": [{"name": "patch_sha256", "type": "str"}],
///     "run": {"kind": "job", "container": {"image": "python:3.12-slim",
///         "command": ["python", "verify.py"], "args": ["{{ patch_sha256 }}"]}},
/// });
/// let operation = OperationSpec::of_component(&component).param("patch_sha256", "3f5a");
/// let run: CreateRun = operation.create().name("verify");
/// assert!(run.content.is_some_and(|content| content.contains(r#""params":{"patch_sha256":{"value":"3f5a"}}"#)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use = "an OperationSpec does nothing until a run is created from it"]
pub struct OperationSpec {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hub_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url_ref: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    params: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    presets: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<Value>,
}

impl OperationSpec {
    /// Runs this component, which is sent along.
    pub fn of_component(component: &Value) -> Self {
        Self {
            kind: "operation",
            hub_ref: None,
            path_ref: None,
            url_ref: None,
            params: Map::new(),
            presets: Vec::new(),
            queue: None,
            component: Some(component.clone()),
        }
    }

    /// Runs a version of a component that [`Runs::component_version`] has read. It is sent along,
    /// with the reference that says which version it is.
    pub fn of_version(version: &ComponentVersion) -> Self {
        Self {
            hub_ref: Some(version.reference()),
            ..Self::of_component(&version.content)
        }
    }

    /// Runs a component of the hub by its name alone: `acme/evaluations:v3`.
    ///
    /// A server that resolves no references refuses it with status 400: the open-source one does,
    /// where [`of_version`](Self::of_version) is the way.
    pub fn of_hub(reference: impl Into<String>) -> Self {
        Self {
            hub_ref: Some(reference.into()),
            component: None,
            ..Self::of_component(&Value::Null)
        }
    }

    /// Says which file the component came from. It is sent along all the same.
    pub fn path_ref(mut self, path: impl Into<String>) -> Self {
        self.path_ref = Some(path.into());
        self
    }

    /// Says which URL the component came from. It is sent along all the same.
    pub fn url_ref(mut self, url: impl Into<String>) -> Self {
        self.url_ref = Some(url.into());
        self
    }

    /// Gives an input its value. The run has it among its inputs, where it can be queried; so it has
    /// one that the component does not declare.
    pub fn param(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.params
            .insert(name.into(), json!({"value": value.into()}));
        self
    }

    /// Gives an input a param as the platform has them: `{"ref": "runs.…", "value": "outputs.x"}`.
    pub fn param_of(mut self, name: impl Into<String>, param: Map<String, Value>) -> Self {
        self.params.insert(name.into(), param.into());
        self
    }

    /// Applies a preset of the organisation.
    pub fn preset(mut self, name: impl Into<String>) -> Self {
        self.presets.push(name.into());
        self
    }

    /// Sends it to this queue: `agent/queue`.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }

    /// What creates a run of it; [`Runs::submit`] also looks whether it could be compiled.
    pub fn create(&self) -> CreateRun {
        CreateRun::operation(&json!(self))
    }
}

/// A version of a component, as a project keeps them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ComponentVersion {
    /// The project that has it.
    pub project: ProjectRef,
    /// Its name: `v3`.
    pub name: String,
    /// The component.
    pub content: Value,
    /// Its stage: `testing`, `staging`, `production`, `disabled`.
    pub stage: Option<String>,
    /// Equal where the content is the same.
    pub state: Option<String>,
}

impl ComponentVersion {
    /// The name by which an operation refers to it: `acme/evaluations:v3`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}:{}", self.project, self.name)
    }
}

impl Runs {
    /// A version of a component of the project.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name that cannot be part of a path; [`Error::Api`] with status
    /// 404 where there is none; [`Error::Decode`] where it holds no JSON, as one that was made from
    /// YAML.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn component_version(&self, name: &str) -> Result<ComponentVersion, Error> {
        #[derive(Deserialize)]
        struct Answer {
            content: String,
            #[serde(default)]
            stage: Option<String>,
            #[serde(default)]
            state: Option<String>,
        }
        let operation = Operation::get("versions.component", self.version_path(name)?);
        let answer: Answer = self.transport().send(operation).await?.json()?;
        let content = serde_json::from_str(&answer.content).map_err(|error| Error::Decode {
            operation: "versions.component",
            at: "content".to_owned(),
            source: Box::new(error),
        })?;
        Ok(ComponentVersion {
            project: self.project().clone(),
            name: name.to_owned(),
            content,
            stage: answer.stage,
            state: answer.state,
        })
    }

    /// Keeps a component as a version of the project.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name that cannot be part of a path; [`Error::Api`] with status
    /// 400 where there is one of this name. Not sent twice.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it is kept.
    pub async fn create_component_version(
        &self,
        name: &str,
        component: &Value,
    ) -> Result<(), Error> {
        self.version_path(name)?;
        let path = format!("/api/v1/{}/versions/component", self.project());
        let operation = Operation::post("versions.create_component", path);
        let body = json!({"name": name, "content": component.to_string()});
        self.transport()
            .send(operation.json(&body)?)
            .await
            .map(drop)
    }

    /// Creates a run and looks whether it could be compiled: the platform answers `create` with
    /// success also where an input has no value, and the run is a failed one.
    ///
    /// # Errors
    /// [`Error::CreatedRunEnded`] with the reason and the message where it has failed already;
    /// [`Error::CreatedRunUnread`] where there is a run, and it cannot be looked at; else as
    /// [`create`](Self::create).
    ///
    /// # Cancel safety
    /// As [`create`](Self::create).
    pub async fn submit(&self, run: &CreateRun) -> Result<Run, Error> {
        let run = self.create(run).await?.uuid;
        // The run is there: an error of its own would invite to create another.
        let unread = |error| Error::CreatedRunUnread {
            run,
            source: Box::new(error),
        };
        let created = self.get(run).await.map_err(unread)?;
        let has_failed = |status: &RunStatus| status.is_final() && *status != RunStatus::Succeeded;
        if !created.status.as_ref().is_some_and(has_failed) {
            return Ok(created);
        }
        let now = self.statuses(run).await.map_err(unread)?;
        let (reason, message) = last_words(now.status_conditions);
        Err(Error::CreatedRunEnded {
            run,
            status: now.status,
            reason,
            message,
        })
    }

    fn version_path(&self, name: &str) -> Result<String, InvalidInput> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match name.is_empty() || name.starts_with('.') || !name.chars().all(fits) {
            false => Ok(format!(
                "/api/v1/{}/versions/component/{name}",
                self.project()
            )),
            true => Err(InvalidInput::new(
                "version",
                format!("{name:?} is not made of letters, digits, `-`, `_` and `.`"),
            )),
        }
    }
}
