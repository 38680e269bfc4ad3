//! Makes the recorded calls of one process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polyaxon_client::runs::{CreateRun, RunStatus};
use polyaxon_client::{Client, ProjectRef, RunRef, RunUuid};
use polyaxon_tracking::{
    ArtifactKind, ArtifactRef, Asset, At, Ending, Error, Event, Push, Span, SpanKind, TrackedRun,
    Tracking, pull, push,
};
use serde_json::{Map, Value, json};

use super::values::{self, Number};
use super::{Call, Case, Note};

/// What a call that is not made has against it.
enum Failure {
    /// It has no counterpart.
    NotOffered(&'static str),
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<polyaxon_client::Error> for Failure {
    fn from(error: polyaxon_client::Error) -> Self {
        Self::Refused(error.into())
    }
}

type Done = Result<(), Failure>;

/// Makes the calls of a process of a case, in the folder and with the environment of the process.
pub async fn replay(case: &Case, process: usize) -> Vec<Note> {
    let mut replay = Replay {
        case,
        data: PathBuf::from(std::env::var("REPLAY_DATA").unwrap()),
        run: None,
    };
    let mut notes = Vec::new();
    for call in &case.processes[process] {
        let why = match replay.make(call).await {
            Ok(()) => continue,
            Err(Failure::NotOffered(why)) => ("not offered", why.to_owned()),
            Err(Failure::Refused(error)) => ("refused", causes(&error)),
        };
        let why = match call.raises {
            None => format!("{}: {}", why.0, why.1),
            Some(_) => format!("an error there too: {}", why.1),
        };
        notes.push(Note {
            call: label(call),
            why,
        });
    }
    if let Some(run) = replay.run.take() {
        // The script ended without a word.
        match case.case.ends_with("-exception") {
            true => {
                let message = "An exception was raised during the run. Type: <class 'ValueError'>, \
                    Value: boom 'quoted'\nsecond line";
                let ending = Ending::failed(message).reason("ExitHandler");
                drop(
                    run.end_with(ending)
                        .await
                        .unwrap()
                        .ensure_complete()
                        .unwrap(),
                );
            }
            false => drop(run.end().await.unwrap().ensure_complete().unwrap()),
        }
    }
    notes
}

fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn label(call: &Call) -> String {
    let named = call.kwargs.get("name").or(call.args.first());
    let name = named.and_then(Value::as_str).unwrap_or_default();
    format!("{} {name}", call.function).trim_end().to_owned()
}

struct Replay<'a> {
    case: &'a Case,
    data: PathBuf,
    run: Option<TrackedRun>,
}

/// The files that the recorded scripts wrote themselves.
pub(super) const WRITTEN_BY_SCRIPTS: [&str; 5] = [
    "outputs/report.txt",
    "outputs/test.txt",
    "outputs/d/a.txt",
    "outputs/d/b/c.txt",
    "outputs/x.txt",
];

impl Replay<'_> {
    async fn make(&mut self, call: &Call) -> Done {
        match call.function.as_str() {
            "init" => self.init(&call.kwargs).await,
            "end" | "log_succeeded" => match self.run.take() {
                Some(run) => end(&run, Ending::succeeded()).await,
                None => Err(Error::Ended.into()),
            },
            "log_failed" => {
                let Some(run) = self.run.take() else {
                    return Err(Error::Ended.into());
                };
                let text = |name: &str| call.kwargs[name].as_str().unwrap_or_default();
                let ending = Ending::failed(text("message")).reason(text("reason"));
                end(&run, ending).await
            }
            "RunClient.create" => {
                let name = call.kwargs["name"].as_str().unwrap();
                let run = CreateRun::unmanaged().name(name);
                client()
                    .runs(&project("default/golden"))
                    .create(&run)
                    .await?;
                Ok(())
            }
            "RunClient.load_offline_run" => Ok(()),
            "push_offline_run" | "push_offline_run (second time)" => {
                let folder = Push::new(self.text(call.kwargs["path"].as_str().unwrap()));
                drop(push(&client(), &folder).await?);
                Ok(())
            }
            "pull_remote_run" => {
                let run = self.case.run_uuid().unwrap().parse().unwrap();
                let run = RunRef::new(project("default/golden"), run);
                let folder = self.text(call.kwargs["path"].as_str().unwrap());
                pull(&client(), &run, folder).await?;
                Ok(())
            }
            "refresh_data" | "refresh" | "get_inputs" | "get_statuses" => self.read(call).await,
            _ => match &self.run {
                Some(run) => self.log(run, call),
                None => Err(Failure::NotOffered("the run was not started")),
            },
        }
    }

    async fn init(&mut self, init: &Map<String, Value>) -> Done {
        let is = |key: &str| init.get(key) == Some(&json!(true));
        let off = |key: &str| init.get(key) == Some(&json!(false));
        let text = |key: &str| init.get(key).and_then(Value::as_str);
        let managed = self.case.case.starts_with("managed");
        let no_op = self.case.case == "no-op";
        let mut tracking = match (is("is_offline"), managed || no_op) {
            (true, _) => Tracking::offline(self.data.join("offline")),
            (false, true) => Tracking::from_env()?,
            (false, false) => Tracking::new(&client(), &project("default/golden")),
        };
        if let (Some(owner), Some(name)) = (text("owner"), text("project"))
            && !no_op
        {
            tracking = tracking.project(ProjectRef::new(owner, name).unwrap());
        }
        if let Some(uuid) = text("run_uuid") {
            tracking = tracking.run(uuid.parse::<RunUuid>().unwrap());
        }
        if managed && is("is_new") {
            tracking = tracking.new_run();
        }
        if let Some(name) = text("name") {
            tracking = tracking.name(name);
        }
        if let Some(description) = text("description") {
            tracking = tracking.description(description);
        }
        for tag in init
            .get("tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            tracking = tracking.tag(tag.as_str().unwrap());
        }
        if !off("track_env") {
            tracking = tracking.with_env();
        }
        let collects = is("is_offline") || is("is_new");
        if !off("collect_resources") && collects {
            tracking = tracking.with_resources(Duration::from_secs(10));
        }
        if self.case.case == "online-code-ref" {
            tracking = tracking.with_code(".");
        }
        let run = TrackedRun::start(tracking).await?;
        self.copy_outputs(&run);
        if is("is_new") && !off("track_logs") || self.case.case == "managed-process-sidecar" {
            self.log_output(&run)?;
        }
        self.run = Some(run);
        Ok(())
    }

    /// What the recorded script wrote itself.
    fn copy_outputs(&self, run: &TrackedRun) {
        for (path, content) in &self.case.files {
            for own in WRITTEN_BY_SCRIPTS {
                if path.ends_with(&format!("/{own}")) {
                    let place = run.artifacts_path(own).unwrap();
                    std::fs::write(place, content.bytes()).unwrap();
                }
            }
        }
    }

    /// What the recorded script printed.
    fn log_output(&self, run: &TrackedRun) -> Result<(), Error> {
        let mut logs = self.case.files.iter();
        let Some((_, log)) = logs.find(|(path, _)| path.ends_with("plxlogs/logs.jsonl")) else {
            return Ok(());
        };
        let log = String::from_utf8(log.bytes()).unwrap();
        for line in log.lines().filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_str(line).unwrap();
            run.log_capture().log(line["value"].as_str().unwrap())?;
        }
        Ok(())
    }

    async fn read(&self, call: &Call) -> Done {
        let runs = client().runs(&project("default/golden"));
        let uuid = self.case.run_uuid().unwrap().parse().unwrap();
        match call.function.as_str() {
            "get_statuses" => drop(runs.statuses(uuid).await?),
            _ => drop(runs.get(uuid).await?),
        }
        Ok(())
    }

    fn log(&self, run: &TrackedRun, call: &Call) -> Done {
        let (args, kwargs) = (&call.args, &call.kwargs);
        let first = args.first().unwrap_or(&Value::Null);
        let name = kwargs.get("name").or(args.first()).and_then(Value::as_str);
        match call.function.as_str() {
            "log_metric" => {
                let of_number = kwargs.get("name").filter(|name| name.is_number());
                let of_number = of_number.map(ToString::to_string);
                let name = name.or(of_number.as_deref());
                let name = name.ok_or(Failure::NotOffered("nothing is named"))?;
                self.metrics(run, kwargs, &[(name, &kwargs["value"])])
            }
            "log_metrics" => {
                let values: Vec<(&str, &Value)> = kwargs
                    .iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "step" | "timestamp"))
                    .map(|(key, value)| (key.as_str(), value))
                    .collect();
                self.metrics(run, kwargs, &values)
            }
            "log_inputs" | "log_outputs" | "log_meta" => members(run, &call.function, kwargs),
            "log_tags" => {
                let tags: Vec<&str> = match first {
                    // A list of YAML in a text.
                    Value::String(text) => text.trim_matches(['[', ']']).split(',').collect(),
                    list => list
                        .as_array()
                        .unwrap()
                        .iter()
                        .filter_map(Value::as_str)
                        .collect(),
                };
                match kwargs.contains_key("reset") {
                    true => Ok(run.replace_tags(tags)?),
                    false => Ok(run.log_tags(tags)?),
                }
            }
            "log_progress" if first.is_string() => Err(Failure::NotOffered("a text is no number")),
            "log_progress" => Ok(run.log_progress(values::number(first).unwrap().to_f64())?),
            "set_name" => Ok(run.set_name(first.as_str().unwrap())?),
            "set_description" => Ok(run.set_description(first.as_str().unwrap())?),
            "set_readme" => Ok(run.set_readme(first.as_str().unwrap())?),
            "log_status" => {
                let text = |key: &str| kwargs.get(key).and_then(Value::as_str);
                let status: RunStatus = serde_json::from_value(kwargs["status"].clone()).unwrap();
                if matches!(status, RunStatus::Other(_)) {
                    return Err(Failure::NotOffered("a status is one of the platform's"));
                }
                let reason = text("reason").unwrap_or("PolyaxonClient");
                Ok(run.log_status(status, reason, text("message").map(str::to_owned))?)
            }
            "Run.start" => {
                let message = Some("Operation is running".to_owned());
                Ok(run.log_status(RunStatus::Running, "PolyaxonClient", message)?)
            }
            function if function.starts_with("get_") => self.path(run, call),
            function if function.ends_with("_ref") || function == "log_artifact_lineage" => {
                self.reference(run, call)
            }
            "log_env" => {
                let path = kwargs.get("rel_path").and_then(Value::as_str);
                Ok(run.log_env_as(path.unwrap_or("env.json"), &kwargs["content"])?)
            }
            _ => self.event(run, call),
        }
    }

    fn metrics(
        &self,
        run: &TrackedRun,
        kwargs: &Map<String, Value>,
        values: &[(&str, &Value)],
    ) -> Done {
        let at = at(kwargs)?;
        let mut numbers = Vec::new();
        for (name, value) in values {
            let number = values::number(value);
            numbers.push((*name, number.ok_or(Failure::NotOffered("it is no number"))?));
        }
        match numbers[..] {
            [(name, Number::Float(value))] => run.log_metric(at, name, value)?,
            [(name, Number::Single(value))] => run.log_metric(at, name, value)?,
            [(name, Number::Signed(value))] => run.log_metric(at, name, value)?,
            [(name, Number::Unsigned(value))] => run.log_metric(at, name, value)?,
            [(name, Number::Truth(value))] => run.log_metric(at, name, value)?,
            _ => run.log_metrics(
                at,
                numbers.iter().map(|(name, value)| (*name, value.to_f64())),
            )?,
        }
        Ok(())
    }

    fn event(&self, run: &TrackedRun, call: &Call) -> Done {
        let (args, kwargs) = (&call.args, &call.kwargs);
        let at = at(kwargs)?;
        let text = |key: &str| kwargs.get(key).and_then(Value::as_str);
        let name = text("name").or(args.first().and_then(Value::as_str));
        let floats = |index: usize| values::floats(&args[index]).unwrap();
        let number = |key: &str| kwargs.get(key).and_then(values::number).map(Number::to_f64);
        let event = match call.function.as_str() {
            "log_text" => {
                let value = text("text").ok_or(Failure::NotOffered("it is no text"))?;
                Event::text(value)
            }
            "log_html" => Event::html(text("html").unwrap()),
            "log_curve" => match text("annotation") {
                Some(text) => Event::annotated_curve(floats(1), floats(2), text),
                None => Event::curve(floats(1), floats(2)),
            },
            "log_roc_auc_curve" => Event::roc_curve(floats(1), floats(2), number("auc")),
            "log_pr_curve" => Event::pr_curve(floats(1), floats(2), number("average_precision")),
            "log_confusion_matrix" => {
                let labels = |key: &str| kwargs[key].as_array().unwrap().clone();
                let rows = labels("z").into_iter();
                let rows = rows.map(|row| -> Vec<Value> {
                    let row = row.as_array().unwrap().iter();
                    row.map(|cell| values::json(cell).unwrap()).collect()
                });
                Event::confusion_matrix(labels("x"), labels("y"), rows)?
            }
            "log_np_histogram" => {
                let list = |key: &str| values::floats(&kwargs[key]).unwrap();
                Event::histogram(list("values"), list("counts"))?
            }
            "log_histogram" => {
                let bars = kwargs.get("bins").and_then(Value::as_u64);
                let bars = bars.ok_or(Failure::NotOffered("how many bars there are is said"))?;
                let bars = usize::try_from(bars).unwrap();
                Event::histogram_of(values::floats(&kwargs["values"]).unwrap(), bars)?
            }
            "log_trace" => match kwargs["span"].is_null() {
                true => return Err(Failure::NotOffered("no span is no trace")),
                false => return self.trace(run, at),
            },
            "log_image" | "log_audio" | "log_video" | "log_dataframe" | "log_model"
            | "log_artifact" => return self.asset(run, call, at),
            _ => return Err(Failure::NotOffered("it is not known here")),
        };
        Ok(run.log_event(at, name.unwrap_or_default(), event)?)
    }

    /// The recording does not show the spans, but what was written of them.
    fn trace(&self, run: &TrackedRun, at: At) -> Done {
        let span = match at == At::now() {
            true => Span::new(SpanKind::Llm),
            false => {
                let child = Span::new(SpanKind::Tool).name("child").input("z", 1);
                Span::new(SpanKind::Agent)
                    .uuid("11111111111111111111111111111111".parse().unwrap())
                    .name("root/span")
                    .tag("x")
                    .times(
                        "2024-01-02T03:04:05Z".parse().unwrap(),
                        "2024-01-02T03:04:06.5Z".parse().unwrap(),
                    )
                    .status(RunStatus::Succeeded)
                    .metadata("model", "m")
                    .metadata("tokens", json!({"in": 1}))
                    .input("q", "hi|there\n")
                    .output("a", 0.5)
                    .child(child)
            }
        };
        Ok(run.log_trace(at, span)?)
    }

    fn asset(&self, run: &TrackedRun, call: &Call, at: At) -> Done {
        let kwargs = &call.kwargs;
        let text = |key: &str| kwargs.get(key).and_then(Value::as_str);
        let path = text("path").or(text("data"));
        let Some(path) = path.map(|path| PathBuf::from(self.text(path))) else {
            return Ok(run.log_asset(at, made(&call.function, kwargs)?)?);
        };
        let function = call.function.as_str();
        let is_model = function == "log_model";
        let kind = match text("kind") {
            None => ArtifactKind::File,
            Some(kind) => kind_of(kind)?,
        };
        if !kwargs.contains_key("step") && (is_model || function == "log_artifact") {
            let mut copy = match is_model {
                true => ArtifactRef::model(path),
                false => ArtifactRef::new(kind, path),
            };
            if let Some(name) = text("name") {
                copy = copy.name(name);
            }
            copy = described(copy, kwargs);
            return Ok(run.log_artifact(copy, text("rel_path").unwrap_or(""))?);
        }
        let mut asset = match function {
            "log_image" => Asset::image(path),
            "log_audio" => Asset::audio(path),
            "log_video" => Asset::video(path),
            "log_model" => Asset::model(path),
            _ => Asset::new(kind, path),
        };
        if let Some(name) = text("name") {
            asset = asset.name(name);
        }
        if let Some(content_type) = text("content_type") {
            asset = asset.content_type(content_type);
        }
        if let Some(framework) = text("framework") {
            asset = asset.framework(framework);
        }
        for (key, value) in kwargs
            .get("summary")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            asset = asset.spec(key, value.clone());
        }
        Ok(run.log_asset(at, asset)?)
    }

    fn path(&self, run: &TrackedRun, call: &Call) -> Done {
        let relative = call.args.first().and_then(Value::as_str);
        let is_folder = call.kwargs.get("is_dir") == Some(&json!(true));
        // With `use_store_path` too: no recording has a catalogue of stores, and then Python answers
        // the path here.
        let path = match (call.function.as_str(), relative) {
            ("get_tensorboard_path", relative) => {
                run.tensorboard_path(relative.unwrap_or("tensorboard"))?
            }
            ("get_outputs_path", Some(path)) => run.outputs_path(path)?,
            ("get_outputs_path", None) => run.path().join("outputs"),
            (_, Some(path)) => run.artifacts_path(path)?,
            (_, None) => run.path().to_owned(),
        };
        if is_folder {
            std::fs::create_dir_all(&path).unwrap();
        }
        // Python answers nothing for a run that goes nowhere.
        if let Some(returned) = call.returns.as_ref().and_then(Value::as_str) {
            let returned = self.text(returned);
            let returned = returned.replace("<run_uuid>", &run.uuid().to_string());
            assert_eq!(path, Path::new(&returned), "{}", label(call));
        }
        Ok(())
    }

    fn reference(&self, run: &TrackedRun, call: &Call) -> Done {
        let kwargs = &call.kwargs;
        let text = |key: &str| kwargs.get(key).and_then(Value::as_str);
        let path = text("path").map(|path| self.text(path));
        let function = call.function.as_str();
        let mut reference = match (function, path) {
            ("log_code_ref", _) => return code_ref(run, kwargs),
            ("log_artifact_lineage", _) => return lineage(run, &kwargs["body"]),
            ("log_data_ref", Some(path)) => ArtifactRef::data(path),
            ("log_data_ref", None) => ArtifactRef::named_data(text("name").unwrap()),
            ("log_model_ref", Some(path)) => ArtifactRef::model(path),
            ("log_dir_ref", Some(path)) => ArtifactRef::dir(path),
            ("log_file_ref", Some(path)) => ArtifactRef::file(path),
            ("log_tensorboard_ref", Some(path)) => ArtifactRef::tensorboard(path),
            (_, Some(path)) => ArtifactRef::new(kind_of(text("kind").unwrap())?, path),
            (_, None) => match text("name") {
                Some(name) => ArtifactRef::named(kind_of(text("kind").unwrap())?, name),
                None => return Err(Failure::NotOffered("nothing is named")),
            },
        };
        if let Some(name) = text("name") {
            reference = reference.name(name);
        }
        if let Some(path) = text("rel_path") {
            reference = reference.stored_path(path);
        }
        match kwargs.get("is_input") {
            Some(Value::Bool(true)) => reference = reference.input(),
            Some(Value::Bool(false)) => reference = reference.output(),
            _ => {}
        }
        if let Some(content) = kwargs.get("content") {
            match content.as_str() {
                Some(content) => reference = reference.hash_of(content),
                None => return Err(Failure::NotOffered("a hash is of bytes, not of an object")),
            }
        }
        Ok(run.log_artifact_ref(described(reference, kwargs))?)
    }

    /// A recorded text with its places filled in.
    fn text(&self, text: &str) -> String {
        text.replace("$DATA", self.data.to_str().unwrap())
    }
}

/// What a reference is told besides its path and name.
fn described(mut reference: ArtifactRef, kwargs: &Map<String, Value>) -> ArtifactRef {
    let text = |key: &str| kwargs.get(key).and_then(Value::as_str);
    for (key, value) in kwargs
        .get("summary")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        reference = reference.summary(key, value.clone());
    }
    if let Some(framework) = text("framework") {
        reference = reference.framework(framework);
    }
    if let Some(hash) = text("hash") {
        reference = reference.hash(hash);
    }
    match kwargs.get("skip_hash_calculation") {
        Some(Value::Bool(true)) => reference.without_hash(),
        _ => reference,
    }
}

/// An asset of values in memory.
fn made(function: &str, kwargs: &Map<String, Value>) -> Result<Asset, Failure> {
    /// What `log_audio` has where nobody says it.
    const RATE: u32 = 44_100;
    let name = kwargs.get("name").and_then(Value::as_str).unwrap();
    // The recording does not show the table, but what was written of it.
    let columns = ["a", "b"];
    let rows = [vec![json!(1), json!("x")], vec![json!(2), json!("y|z")]];
    match (function, kwargs.get("content_type").and_then(Value::as_str)) {
        ("log_audio", _) => {
            let samples = values::samples(&kwargs["data"]).unwrap();
            Ok(Asset::samples(name, samples, RATE))
        }
        ("log_dataframe", None) => Ok(Asset::table(name, columns, rows)?),
        ("log_dataframe", Some("html")) => Ok(Asset::table_page(name, columns, rows)?),
        ("log_dataframe", _) => Err(Failure::NotOffered("a table is CSV or HTML, there too")),
        _ => Err(Failure::NotOffered("a picture comes as a file")),
    }
}

fn code_ref(run: &TrackedRun, kwargs: &Map<String, Value>) -> Done {
    let Some(code) = kwargs.get("code_ref").and_then(Value::as_object) else {
        let code = ArtifactRef::code(Path::new("."));
        let code = code.ok_or(Failure::NotOffered("the folder is no work tree"))?;
        return Ok(run.log_artifact_ref(match kwargs.get("is_input") {
            Some(Value::Bool(false)) => code.output(),
            _ => code,
        })?);
    };
    let commit = code["commit"].as_str().unwrap();
    let mut reference = ArtifactRef::named(ArtifactKind::Coderef, commit).input();
    for (key, value) in code {
        reference = reference.summary(key, value.clone());
    }
    Ok(run.log_artifact_ref(reference)?)
}

fn lineage(run: &TrackedRun, body: &Value) -> Done {
    let records = match body {
        Value::Array(records) => records.clone(),
        record => vec![record.clone()],
    };
    for record in records {
        let name = record["name"].as_str().unwrap();
        let kind = kind_of(record["kind"].as_str().unwrap())?;
        let mut reference = ArtifactRef::named(kind, name);
        for (key, value) in record["summary"].as_object().into_iter().flatten() {
            reference = reference.summary(key, value.clone());
        }
        if let Some(path) = record["path"].as_str() {
            reference = reference.stored_path(path);
        }
        if record["is_input"] == json!(true) {
            reference = reference.input();
        }
        run.log_artifact_ref(reference)?;
    }
    Ok(())
}

fn members(run: &TrackedRun, function: &str, kwargs: &Map<String, Value>) -> Done {
    let mut map = Map::new();
    for (key, value) in kwargs.iter().filter(|(key, _)| *key != "reset") {
        let value = values::json(value);
        map.insert(
            key.clone(),
            value.ok_or(Failure::NotOffered("it has no form in JSON"))?,
        );
    }
    match (function, kwargs.contains_key("reset")) {
        ("log_inputs", false) => run.log_inputs(map)?,
        ("log_inputs", true) => run.replace_inputs(map)?,
        ("log_outputs", false) => run.log_outputs(map)?,
        ("log_outputs", true) => run.replace_outputs(map)?,
        (_, false) => run.log_meta(map)?,
        (_, true) => run.replace_meta(map)?,
    }
    Ok(())
}

fn at(kwargs: &Map<String, Value>) -> Result<At, Failure> {
    let at = match kwargs.get("step").filter(|step| !step.is_null()) {
        None => At::now(),
        Some(step) => {
            let step = values::step(step);
            At::step(step.ok_or(Failure::NotOffered("a step is an integer"))?)
        }
    };
    match kwargs.get("timestamp").filter(|time| !time.is_null()) {
        None => Ok(at),
        Some(time) => {
            let at = values::at_time(at, time);
            at.ok_or(Failure::NotOffered("a time is a time"))
        }
    }
}

fn kind_of(word: &str) -> Result<ArtifactKind, Failure> {
    serde_json::from_value(word.into())
        .map_err(|_| Failure::NotOffered("a kind is one of the platform's"))
}

async fn end(run: &TrackedRun, ending: Ending) -> Done {
    let report = run.end_with(ending).await?;
    // What was refused or lost is the call's failure.
    drop(report.ensure_complete()?);
    Ok(())
}

fn client() -> Client {
    Client::from_env().unwrap()
}

fn project(text: &str) -> ProjectRef {
    text.parse().unwrap()
}
