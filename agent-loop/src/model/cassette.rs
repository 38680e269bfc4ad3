//! Calls of a model that are kept in a file, and played again from it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt as _, ready};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Price};

/// The first line of a cassette.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Label {
    cassette: u32,
    model: String,
    settings: Value,
    price: Option<Price>,
}

/// What changes when the format does.
const VERSION: u32 = 1;
const HIDDEN: &str = "<redacted>";

/// One call with how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Call {
    asked: Asked,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    messages: Vec<Message>,
    schema: Option<String>,
    seed: Option<u64>,
    max_output_tokens: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Reply(ModelReply),
    Error(ModelError),
}

impl Asked {
    fn of(request: &ModelRequest<'_>, secrets: &Secrets) -> Self {
        let clean = |message: &Message| Message {
            role: message.role,
            content: secrets.hide(&message.content),
        };
        Self {
            messages: request.messages.iter().map(clean).collect(),
            schema: request.schema.map(|schema| secrets.hide(schema)),
            seed: request.seed,
            max_output_tokens: request.max_output_tokens,
        }
    }

    /// What of `other` is not the same.
    fn difference(&self, other: &Self) -> Option<String> {
        let [recorded, asked] = [self, other].map(|asked| asked.messages.len());
        if recorded != asked {
            return Some(format!(
                "has {asked} messages, and {recorded} were recorded"
            ));
        }
        let mut pairs = self.messages.iter().zip(&other.messages);
        if let Some(at) = pairs.position(|(one, other)| one != other) {
            return Some(format!("has another message {}", at + 1));
        }
        [
            (self.schema != other.schema, "schema"),
            (self.seed != other.seed, "seed"),
            (
                self.max_output_tokens != other.max_output_tokens,
                "limit of tokens",
            ),
        ]
        .into_iter()
        .find_map(|(differs, what)| differs.then(|| format!("has another {what}")))
    }
}

/// Values that are in no cassette.
#[derive(Clone, Default)]
struct Secrets(Vec<String>);

impl Secrets {
    fn add(&mut self, secret: String) {
        if !secret.is_empty() {
            self.0.push(secret);
            // The longest first: one can be a part of another.
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    fn hide(&self, text: &str) -> String {
        let start = text.to_owned();
        let secrets = self.0.iter();
        secrets.fold(start, |text, secret| text.replace(secret.as_str(), HIDDEN))
    }
}

/// A model whose calls are written to a file, each when it has ended.
///
/// The file holds prompts and replies, the model's name, settings and price, and no address or key:
/// those are in no request. Values that are told by [`hiding`](Self::hiding) are taken out of
/// prompts, replies and errors.
///
/// # Examples
/// ```
/// use agent_loop::model::{Recording, Replay};
/// use agent_loop::{Message, Model as _, ModelRequest, ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let file = folder.path().join("calls.jsonl");
/// let messages = [Message::user("What first?")];
/// let request = || ModelRequest::new("t-1.1.0".parse().unwrap(), &messages);
///
/// let model = Recording::create(ScriptedModel::new([r#"{"action":"check"}"#]), &file)?;
/// let reply = model.propose(request()).await?;
///
/// let model = Replay::open(&file)?;
/// assert_eq!(model.name(), "scripted");
/// assert_eq!(model.propose(request()).await?, reply);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recording<M> {
    model: M,
    file: Mutex<File>,
    secrets: Secrets,
}

impl<M: Model> Recording<M> {
    /// Writes the calls of `model` to `path`, where there has to be nothing.
    ///
    /// # Errors
    /// Where the file is there or cannot be written.
    pub fn create(model: M, path: impl AsRef<Path>) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let label = Label {
            cassette: VERSION,
            model: model.name().to_owned(),
            settings: model.settings(),
            price: model.price(),
        };
        write_line(&mut file, &label)?;
        Ok(Self {
            model,
            file: Mutex::new(file),
            secrets: Secrets::default(),
        })
    }

    /// Takes a value out of everything that is written.
    #[must_use]
    pub fn hiding(mut self, secret: impl Into<String>) -> Self {
        self.secrets.add(secret.into());
        self
    }

    async fn record(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let asked = Asked::of(&request, &self.secrets);
        let result = self.model.propose(request).await;
        let answer = match &result {
            Ok(reply) => {
                let mut reply = reply.clone();
                reply.text = self.secrets.hide(&reply.text);
                reply.thoughts = reply.thoughts.map(|text| self.secrets.hide(&text));
                Answer::Reply(reply)
            }
            Err(error) => {
                let mut error = error.clone();
                error.detail = self.secrets.hide(error.detail.reveal()).into();
                Answer::Error(error)
            }
        };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A cassette with a hole in it would be played to its end and then be wrong.
        write_line(&mut file, &Call { asked, answer }).map_err(|error| {
            let detail = format!("the cassette cannot be written: {error}");
            ModelError::new(ModelErrorKind::BadRequest, detail)
        })?;
        result
    }
}

fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}

impl<M: Model> Model for Recording<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.record(request).boxed()
    }

    fn settings(&self) -> Value {
        self.model.settings()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }
}

impl<M> fmt::Debug for Recording<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

/// A model that answers from a file that [`Recording`] has written: the same calls, in the same
/// order, get the same answers.
///
/// It is strict. A call that differs from the recorded one in a message, the schema, the seed or
/// the limit of tokens, and one behind the end, fails as [`ModelErrorKind::BadRequest`]; the detail
/// says which call and what differs. Such a call uses nothing up: the same place can be asked
/// again.
pub struct Replay {
    label: Label,
    calls: Vec<Call>,
    next: Mutex<usize>,
    secrets: Secrets,
}

impl Replay {
    /// Reads the calls at `path`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] where it is no cassette, with the number of the line.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut lines = BufReader::new(File::open(path)?).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let label: Label = read_line(1, &first)?;
        if label.cassette != VERSION {
            let problem = format!("a cassette of version {}", label.cassette);
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let calls = lines
            .zip(2..)
            .map(|(line, number)| read_line(number, &line?));
        Ok(Self {
            label,
            calls: calls.collect::<io::Result<_>>()?,
            next: Mutex::new(0),
            secrets: Secrets::default(),
        })
    }

    /// Takes a value out of what is asked before it is compared, as [`Recording::hiding`] did.
    #[must_use]
    pub fn hiding(mut self, secret: impl Into<String>) -> Self {
        self.secrets.add(secret.into());
        self
    }

    /// How many calls have not been played.
    #[must_use]
    pub fn left(&self) -> usize {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.len().saturating_sub(*next)
    }

    fn play(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |detail: String| Err(ModelError::new(ModelErrorKind::BadRequest, detail));
        let number = *next + 1;
        let Some(call) = self.calls.get(*next) else {
            return refused(format!("call {number} is not on the cassette"));
        };
        let asked = Asked::of(request, &self.secrets);
        if let Some(difference) = call.asked.difference(&asked) {
            return refused(format!("call {number} {difference}"));
        }
        *next = number;
        match &call.answer {
            Answer::Reply(reply) => Ok(reply.clone()),
            Answer::Error(error) => Err(error.clone()),
        }
    }
}

fn read_line<T: serde::de::DeserializeOwned>(number: usize, line: &str) -> io::Result<T> {
    serde_json::from_str(line).map_err(|error| {
        let problem = format!("line {number} is none of a cassette: {error}");
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })
}

impl Model for Replay {
    fn name(&self) -> &str {
        &self.label.model
    }

    fn propose<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        ready(self.play(&request)).boxed()
    }

    fn settings(&self) -> Value {
        self.label.settings.clone()
    }

    fn price(&self) -> Option<Price> {
        self.label.price.clone()
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ScriptedModel, Usage};

    const SECRET: &str = "k-TEST-123456";

    fn messages(text: &str) -> [Message; 2] {
        [Message::system("s"), Message::user(text)]
    }

    fn ask(model: &dyn Model, messages: &[Message]) -> Result<ModelReply, ModelError> {
        let request = ModelRequest::new("t-1.1.0".parse().unwrap(), messages)
            .schema("{}")
            .seed(7);
        model.propose(request).now_or_never().unwrap()
    }

    fn cassette(folder: &Path) -> std::path::PathBuf {
        let replies = [
            Ok(ModelReply::new(format!("a {SECRET}")).usage(Usage::new(3, 4))),
            Err(ModelError::new(
                ModelErrorKind::TimedOut,
                format!("at {SECRET}"),
            )),
            Ok(ModelReply::new("c")),
        ];
        let path = folder.join("c.jsonl");
        let model = Recording::create(ScriptedModel::of(replies), &path).unwrap();
        let model = model.hiding(SECRET);
        assert_eq!(
            ask(&model, &messages(SECRET)).unwrap().text,
            format!("a {SECRET}")
        );
        assert_eq!(
            ask(&model, &messages("2")).unwrap_err().kind,
            ModelErrorKind::TimedOut
        );
        assert_eq!(ask(&model, &messages("3")).unwrap().text, "c");
        let there = Recording::create(ScriptedModel::new(["x"]), &path).unwrap_err();
        assert_eq!(there.kind(), io::ErrorKind::AlreadyExists);
        path
    }

    #[test]
    fn the_same_calls_get_the_same_answers_and_no_secret_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = cassette(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(SECRET), "{text}");
        assert_eq!(text.lines().count(), 4);
        let model = Replay::open(&path).unwrap().hiding(SECRET);
        assert_eq!((model.name(), model.left()), ("scripted", 3));
        let reply = ask(&model, &messages(SECRET)).unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.usage),
            ("a <redacted>", Usage::new(3, 4))
        );
        let error = ask(&model, &messages("2")).unwrap_err();
        assert_eq!(error.detail.reveal(), "at <redacted>");
        assert_eq!(ask(&model, &messages("3")).unwrap().text, "c");
        let error = ask(&model, &messages("4")).unwrap_err();
        assert_eq!(error.detail.reveal(), "call 4 is not on the cassette");
    }

    #[test]
    fn a_call_that_differs_is_refused_and_uses_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let model = Replay::open(cassette(folder.path()))
            .unwrap()
            .hiding(SECRET);
        let first = messages(SECRET);
        let id = || "t-1.1.0".parse().unwrap();
        let other = messages("other");
        let table = [
            (
                ModelRequest::new(id(), &other).schema("{}").seed(7),
                "another message 2",
            ),
            (
                ModelRequest::new(id(), &first[..1]).schema("{}").seed(7),
                "1 messages, and 2 were recorded",
            ),
            (
                ModelRequest::new(id(), &first).schema("[]").seed(7),
                "another schema",
            ),
            (ModelRequest::new(id(), &first).seed(7), "another schema"),
            (
                ModelRequest::new(id(), &first).schema("{}").seed(8),
                "another seed",
            ),
            (
                ModelRequest::new(id(), &first)
                    .schema("{}")
                    .seed(7)
                    .max_output_tokens(1),
                "another limit of tokens",
            ),
        ];
        for (request, difference) in table {
            let error = model.propose(request).now_or_never().unwrap().unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::BadRequest);
            assert_eq!(error.detail.reveal(), format!("call 1 has {difference}"));
        }
        assert_eq!(model.left(), 3);
        // Another deadline and another id are the same question.
        let later = ModelRequest::new("t-2.1.0".parse().unwrap(), &first)
            .schema("{}")
            .seed(7)
            .deadline(std::time::Duration::from_secs(1));
        assert_eq!(
            model.propose(later).now_or_never().unwrap().unwrap().text,
            "a <redacted>"
        );
    }

    #[test]
    fn what_is_no_cassette_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = cassette(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let table = [
            (String::new(), "line 1 is none"),
            (
                text.replace("\"cassette\":1", "\"cassette\":2"),
                "a cassette of version 2",
            ),
            (text.replace("\"asked\"", "\"ask\""), "line 2 is none"),
            (
                text.get(..text.len() - 9).unwrap().to_owned(),
                "line 4 is none",
            ),
        ];
        for (text, problem) in table {
            std::fs::write(&path, text).unwrap();
            let error = Replay::open(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(problem), "{error}");
        }
    }
}
