//! Makes the recorded calls of a Python process with this crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use polyaxon_client::{ProjectRef, RunUuid};
use polyaxon_tracking::{ArtifactKind, ArtifactRef, At, Ending, Error, TrackedRun, Tracking};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A recorded case, and what came of it here.
pub(crate) struct Replay {
    /// `$DATA` of the recording.
    pub(crate) data: TempDir,
    /// The recorded files.
    pub(crate) recorded: PathBuf,
    /// The files that were made here.
    pub(crate) made: PathBuf,
    /// Calls that have no counterpart here.
    pub(crate) skipped: Vec<String>,
    /// Calls that this crate refuses.
    pub(crate) refused: Vec<(String, Error)>,
    /// The recorded events.
    pub(crate) events: Vec<Event>,
}

/// A line of a recorded event file.
pub(crate) struct Event {
    pub(crate) series: String,
    pub(crate) line: String,
    /// Whether the call that made it was made here too.
    pub(crate) is_made: bool,
}

impl Event {
    fn field(&self, index: usize) -> &str {
        self.line.split('|').nth(index).unwrap()
    }
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Waits for what another thread does, at most a minute.
pub(crate) async fn until(happened: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < limit, "it did not happen");
        tokio::task::yield_now().await;
    }
}

/// Replays a case; a run that is not ended by a call is ended with `ending`.
pub(crate) async fn replay(case: &str, ending: Option<Ending>) -> Replay {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden/tracking")
        .join(case);
    let calls = read_json(&recorded.join("calls.json"));
    let mut replay = Replay {
        data: tempfile::tempdir().unwrap(),
        events: events_below(&recorded.join("events/metric")),
        recorded,
        made: PathBuf::new(),
        skipped: Vec::new(),
        refused: Vec::new(),
    };
    for file in calls["setup_files"].as_array().unwrap() {
        let path = replay.data.path().join(file["path"].as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file["content"].as_str().unwrap()).unwrap();
    }
    for calls in calls["processes"].as_array().unwrap() {
        replay
            .process(calls.as_array().unwrap(), ending.clone())
            .await;
    }
    replay
}

fn events_below(folder: &Path) -> Vec<Event> {
    let mut events = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let series = path.file_stem().unwrap().to_str().unwrap();
        for line in fs::read_to_string(&path).unwrap().lines().skip(1) {
            events.push(Event {
                series: series.to_owned(),
                line: line.to_owned(),
                is_made: false,
            });
        }
    }
    events
}

impl Replay {
    async fn process(&mut self, calls: &[Value], ending: Option<Ending>) {
        let (init, calls) = calls.split_first().unwrap();
        assert_eq!(init["fn"], "init");
        let run = self.start(&init["kwargs"]).await;
        run.path().clone_into(&mut self.made);
        self.copy_outputs(&run);
        let mut is_open = true;
        for call in calls {
            let result = match call["fn"].as_str().unwrap() {
                "end" => {
                    is_open = false;
                    let report = run.end().await.unwrap();
                    assert!(report.unwritten().is_empty(), "{report:?}");
                    Some(Ok(()))
                }
                _ => self.call(&run, call),
            };
            let label = || {
                let named = call["kwargs"].get("name").or(call["args"].get(0));
                let name = named.and_then(Value::as_str).unwrap_or_default();
                format!("{} {name}", call["fn"].as_str().unwrap())
            };
            match result {
                None => self.skipped.push(label()),
                Some(Ok(())) => {}
                Some(Err(error)) => self.refused.push((label(), error)),
            }
        }
        if is_open {
            let ending = ending.expect("how the process ends");
            assert!(run.end_with(ending).await.unwrap().unwritten().is_empty());
        }
    }

    async fn start(&self, init: &Value) -> TrackedRun {
        let text = |key: &str| init[key].as_str();
        let project = ProjectRef::new(text("owner").unwrap(), text("project").unwrap()).unwrap();
        let uuid: RunUuid = text("run_uuid").unwrap().parse().unwrap();
        let mut tracking = Tracking::offline(self.data.path().join("offline"))
            .project(project)
            .run(uuid);
        if let Some(name) = text("name") {
            tracking = tracking.name(name);
        }
        if let Some(description) = text("description") {
            tracking = tracking.description(description);
        }
        for tag in init["tags"].as_array().into_iter().flatten() {
            tracking = tracking.tag(tag.as_str().unwrap());
        }
        TrackedRun::start(tracking).await.unwrap()
    }

    /// What the recorded script wrote itself.
    fn copy_outputs(&self, run: &TrackedRun) {
        for name in ["test.txt", "d/a.txt", "d/b/c.txt"] {
            if let Ok(bytes) = fs::read(self.recorded.join("outputs").join(name)) {
                fs::write(run.outputs_path(name).unwrap(), bytes).unwrap();
            }
        }
    }

    /// `None` for a call that has no counterpart here.
    fn call(&mut self, run: &TrackedRun, call: &Value) -> Option<Result<(), Error>> {
        let args = &call["args"];
        let kwargs = call["kwargs"].as_object().unwrap();
        Some(match call["fn"].as_str().unwrap() {
            "log_metric" => {
                let name = kwargs["name"].as_str()?;
                self.log_metrics(run, kwargs, &[(name, &kwargs["value"])])?
            }
            "log_metrics" => {
                let values: Vec<(&str, &Value)> = kwargs
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "step" | "timestamp"))
                    .map(|(key, value)| (key.as_str(), value))
                    .collect();
                self.log_metrics(run, kwargs, &values)?
            }
            function @ ("log_inputs" | "log_outputs" | "log_meta") => {
                let mut map = Map::new();
                for (key, value) in kwargs.iter().filter(|(key, _)| *key != "reset") {
                    map.insert(key.clone(), json_of(value)?);
                }
                match (function, kwargs.contains_key("reset")) {
                    ("log_inputs", false) => run.log_inputs(map),
                    ("log_inputs", true) => run.replace_inputs(map),
                    ("log_outputs", false) => run.log_outputs(map),
                    ("log_outputs", true) => run.replace_outputs(map),
                    (_, false) => run.log_meta(map),
                    (_, true) => run.replace_meta(map),
                }
            }
            "log_tags" => {
                let tags: Vec<&str> = match &args[0] {
                    Value::String(text) if text.starts_with('[') => return None,
                    Value::String(text) => text.split(',').collect(),
                    list => list.as_array()?.iter().filter_map(Value::as_str).collect(),
                };
                match kwargs.contains_key("reset") {
                    true => run.replace_tags(tags),
                    false => run.log_tags(tags),
                }
            }
            // Text is no number, for Python neither.
            "log_progress" if args[0].is_string() => return None,
            "log_progress" => match number_of(&args[0])? {
                Number::Float(value) => run.log_progress(value),
                Number::Signed(value) => run.log_progress(value as f64),
                _ => return None,
            },
            "set_name" => run.set_name(args[0].as_str()?),
            "set_description" => run.set_description(args[0].as_str()?),
            "set_readme" => run.set_readme(args[0].as_str()?),
            "get_outputs_path" if kwargs.keys().all(|key| key == "ensure_path") => {
                run.outputs_path(args[0].as_str()?).map(|path| {
                    let returned = self.text(call["returns"].as_str().unwrap_or_default());
                    assert!(returned.is_empty() || path == Path::new(&returned));
                })
            }
            function @ ("log_artifact_ref" | "log_file_ref" | "log_dir_ref" | "log_data_ref") => {
                run.log_artifact_ref(self.artifact(function, kwargs)?)
            }
            _ => return None,
        })
    }

    fn artifact(&self, function: &str, kwargs: &Map<String, Value>) -> Option<ArtifactRef> {
        let kind: ArtifactKind = match function {
            "log_file_ref" => ArtifactKind::File,
            "log_dir_ref" => ArtifactKind::Dir,
            "log_data_ref" => ArtifactKind::Data,
            _ => serde_json::from_value(kwargs["kind"].clone()).ok()?,
        };
        let path = kwargs.get("path")?.as_str()?;
        if kwargs.contains_key("content") || path == "data.v2.csv" {
            // A hash of other things than the bytes; a path that hangs on the process's folder.
            return None;
        }
        let mut artifact = ArtifactRef::new(kind, self.text(path));
        if kind == ArtifactKind::Data || kwargs.get("is_input") == Some(&json!(true)) {
            artifact = artifact.input();
        }
        for (key, value) in kwargs
            .get("summary")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            artifact = artifact.summary(key, value.clone());
        }
        if let Some(name) = kwargs.get("name").and_then(Value::as_str) {
            artifact = artifact.name(name);
        }
        if let Some(path) = kwargs.get("rel_path").and_then(Value::as_str) {
            artifact = artifact.stored_path(path);
        }
        if let Some(hash) = kwargs.get("hash").and_then(Value::as_str) {
            artifact = artifact.hash(hash);
        }
        if kwargs.contains_key("skip_hash_calculation") {
            artifact = artifact.without_hash();
        }
        Some(artifact)
    }

    /// The recording's times are passed in: so the files must be the same to the last byte.
    fn log_metrics(
        &mut self,
        run: &TrackedRun,
        kwargs: &Map<String, Value>,
        values: &[(&str, &Value)],
    ) -> Option<Result<(), Error>> {
        let step = match kwargs.get("step") {
            None => None,
            Some(step) => Some(step_of(step)?),
        };
        let given = match kwargs.get("timestamp") {
            None => None,
            Some(timestamp) => Some(timestamp_of(timestamp)?),
        };
        let mut numbers = Vec::new();
        let mut made = Vec::new();
        let mut timestamp = given;
        for (name, value) in values {
            let number = number_of(value)?;
            let event = self.recorded_event(name, step, number.to_f64());
            // The values of one call have slightly different times in Python and one time here.
            let recorded = event.map(|event| self.events[event].field(1).parse().unwrap());
            if given.is_none() && timestamp.is_some() && recorded != timestamp {
                let (first, rest) = values.split_first().unwrap();
                let one = self.log_metrics(run, kwargs, &[*first])?;
                return Some(one.and(self.log_metrics(run, kwargs, rest)?));
            }
            timestamp = timestamp.or(recorded);
            made.extend(event);
            numbers.push((*name, number));
        }
        let at = step.map_or(At::now(), At::step);
        let at = timestamp.map_or(at, |timestamp| at.timestamp(timestamp));
        let result = match numbers[..] {
            [(name, Number::Float(value))] => run.log_metric(at, name, value),
            [(name, Number::Single(value))] => run.log_metric(at, name, value),
            [(name, Number::Signed(value))] => run.log_metric(at, name, value),
            [(name, Number::Unsigned(value))] => run.log_metric(at, name, value),
            [(name, Number::Truth(value))] => run.log_metric(at, name, value),
            _ => run.log_metrics(
                at,
                numbers.iter().map(|(name, value)| (*name, value.to_f64())),
            ),
        };
        if result.is_ok() {
            for event in made {
                self.events[event].is_made = true;
            }
        }
        Some(result)
    }

    /// The line that this call made in Python.
    fn recorded_event(&self, name: &str, step: Option<i64>, value: f64) -> Option<usize> {
        let has_own_file = self.events.iter().any(|event| event.series == name);
        let step = step.map(|step| step.to_string()).unwrap_or_default();
        self.events.iter().position(|event| {
            let recorded: f64 = event.field(2).parse().unwrap();
            !event.is_made
                && (event.series == name || !has_own_file)
                && event.field(0) == step
                && (recorded == value || (recorded.is_nan() && value.is_nan()))
        })
    }

    /// A recorded text with its places filled in.
    pub(crate) fn text(&self, text: &str) -> String {
        text.replace("$DATA", self.data.path().to_str().unwrap())
    }

    /// The recorded lines that were made here too, by their series.
    pub(crate) fn expected_event_files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.is_made) {
            let file: &mut String = files.entry(event.series.clone()).or_default();
            if file.is_empty() {
                file.push_str("step|timestamp|metric");
            }
            file.push('\n');
            file.push_str(&event.line);
        }
        files
    }

    /// The event files that were made here.
    pub(crate) fn made_event_files(&self) -> BTreeMap<String, String> {
        fs::read_dir(self.made.join("events/metric"))
            .into_iter()
            .flatten()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect()
    }
}

/// A number of the recording, as the type that a Rust program would have.
#[derive(Clone, Copy)]
enum Number {
    Float(f64),
    Single(f32),
    Signed(i64),
    Unsigned(u64),
    Truth(bool),
}

impl Number {
    fn to_f64(self) -> f64 {
        use polyaxon_tracking::MetricValue;
        match self {
            Self::Float(value) => value,
            Self::Single(value) => value.to_f64(),
            Self::Signed(value) => value.to_f64(),
            Self::Unsigned(value) => value.to_f64(),
            Self::Truth(value) => value.to_f64(),
        }
    }
}

fn number_of(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(value) => Some(Number::Truth(*value)),
        Value::Number(value) => Some(Number::Signed(value.as_i64().unwrap())),
        // Numeric text is a number in Python, not in Rust: the test converts it.
        Value::String(text) => text.parse().ok().map(Number::Float),
        Value::Object(value) => {
            if let Some(text) = value.get("float").and_then(Value::as_str) {
                return text.parse().ok().map(Number::Float);
            }
            if let Some(text) = value.get("int").and_then(Value::as_str) {
                return (text.parse().map(Number::Signed))
                    .or_else(|_| text.parse().map(Number::Unsigned))
                    .ok()
                    .or_else(|| {
                        text.parse()
                            .ok()
                            .filter(|f: &f64| f.is_finite())
                            .map(Number::Float)
                    });
            }
            let inner = match value.get("value")? {
                Value::Array(list) => &list[0],
                inner => inner,
            };
            match (value["numpy"].as_str()?, inner) {
                ("float32", Value::String(text)) => text.parse().ok().map(Number::Single),
                ("int64", Value::String(text)) => text.parse().ok().map(Number::Signed),
                (_, Value::String(text)) => text.parse().ok().map(Number::Float),
                (_, Value::Number(number)) => number.as_f64().map(Number::Float),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whole floats, numeric text and `true` are steps in Python; the test converts them.
fn step_of(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(value) => Some((*value).into()),
        Value::Number(value) => value.as_i64(),
        Value::String(text) => text.parse().ok(),
        value => match number_of(value)? {
            Number::Signed(step) => Some(step),
            #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
            Number::Float(step) if step.fract() == 0.0 && step.abs() < 1e15 => Some(step as i64),
            _ => None,
        },
    }
}

/// Times without an offset, and with another than UTC's, have no counterpart here.
fn timestamp_of(value: &Value) -> Option<Timestamp> {
    if let Value::Number(seconds) = value {
        return Timestamp::from_second(seconds.as_i64()?).ok();
    }
    if let Some(Number::Float(seconds)) = number_of(value) {
        return Timestamp::from_second(0)
            .ok()?
            .checked_add(jiff::SignedDuration::from_secs_f64(seconds))
            .ok();
    }
    let text = value.as_str().or_else(|| value.get("datetime")?.as_str())?;
    let is_utc = text.ends_with('Z') || text.ends_with("+00:00");
    is_utc.then(|| text.parse().unwrap())
}

/// A recorded value as JSON; `None` for what has no such form.
fn json_of(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Array(list) => list.iter().map(json_of).collect::<Option<Vec<_>>>()?.into(),
        Value::Object(map) if map.contains_key("float") || map.contains_key("numpy") => {
            match number_of(value)? {
                Number::Float(value) => value.into(),
                number => number.to_f64().into(),
            }
        }
        Value::Object(map) if map.contains_key("int") => {
            let text = map["int"].as_str()?;
            match text.parse::<u64>() {
                Ok(value) => value.into(),
                Err(_) => return None,
            }
        }
        Value::Object(map) if map.contains_key("datetime") => map["datetime"].clone(),
        Value::Object(map) if map.contains_key("object") => return None,
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(key, value)| Some((key.clone(), json_of(value)?)));
            members.collect::<Option<Map<_, _>>>()?.into()
        }
        value => value.clone(),
    })
}
