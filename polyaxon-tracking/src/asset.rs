//! Files that are kept with the run, a version a step: pictures, sounds, tables, models.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::artifact::stem;
use crate::error::Error;
use crate::event::Event;
use crate::files::Source;
use crate::kind::ArtifactKind;
use crate::name::Name;
use made::Table;

mod made;

/// A file or folder to be copied into the run, or made there, under a name and the step at which it
/// is logged.
///
/// # Examples
/// ```
/// use polyaxon_tracking::Asset;
///
/// let model = Asset::model("model.onnx").name("policy").framework("onnx");
/// assert_ne!(model, Asset::image("model.onnx"));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an Asset does nothing until it is passed to `log_asset`"]
pub struct Asset {
    kind: ArtifactKind,
    source: Source,
    /// Its name and the end of that, where nothing else is said.
    path: PathBuf,
    name: Option<String>,
    form: Form,
}

/// What an asset's event says besides where the asset is.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    Kind,
    Path,
    Audio {
        content_type: Option<String>,
    },
    /// A sound that is made of samples.
    Samples {
        rate: u32,
        count: usize,
    },
    /// The extension is the type.
    Typed,
    Model {
        framework: Option<String>,
        spec: Map<String, Value>,
    },
}

impl Asset {
    fn of(kind: ArtifactKind, path: impl Into<PathBuf>, form: Form) -> Self {
        let path = path.into();
        Self {
            kind,
            source: Source::Path(path.clone()),
            path,
            name: None,
            form,
        }
    }

    fn made(kind: ArtifactKind, end: &str, name: String, bytes: Vec<u8>, form: Form) -> Self {
        Self {
            kind,
            source: Source::Bytes(bytes),
            path: PathBuf::from(format!("{}.{end}", kind.as_str())),
            name: Some(name),
            form,
        }
    }

    /// A file or folder of any kind.
    pub fn new(kind: ArtifactKind, path: impl Into<PathBuf>) -> Self {
        Self::of(kind, path, Form::Kind)
    }

    /// A picture.
    pub fn image(path: impl Into<PathBuf>) -> Self {
        Self::of(ArtifactKind::Image, path, Form::Path)
    }

    /// A sound.
    pub fn audio(path: impl Into<PathBuf>) -> Self {
        let form = Form::Audio { content_type: None };
        Self::of(ArtifactKind::Audio, path, form)
    }

    /// A sound of one channel, made of its samples from -1 to 1, so many a second. It becomes a WAV
    /// file with 16 bits a sample, and is kept in memory until that is written.
    pub fn samples(
        name: impl Into<String>,
        samples: impl IntoIterator<Item = f32>,
        rate: u32,
    ) -> Self {
        let samples: Vec<f32> = samples.into_iter().collect();
        let form = Form::Samples {
            rate,
            count: samples.len(),
        };
        let bytes = made::wave(&samples, rate);
        Self::made(ArtifactKind::Audio, "wav", name.into(), bytes, form)
    }

    /// A table, made of its columns and rows. It becomes a CSV file with the numbers of the rows in
    /// front, and is kept in memory until that is written.
    ///
    /// # Errors
    /// [`Error::InvalidEvent`] where a row has more or fewer cells than there are columns.
    pub fn table(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<impl Into<Value>>>,
    ) -> Result<Self, Error> {
        let bytes = table(columns, rows)?.to_csv().into_bytes();
        let kind = ArtifactKind::Dataframe;
        Ok(Self::made(kind, "csv", name.into(), bytes, Form::Typed))
    }

    /// As [`table`](Self::table), for people: a table of HTML.
    ///
    /// # Errors
    /// As [`table`](Self::table).
    pub fn table_page(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<impl Into<Value>>>,
    ) -> Result<Self, Error> {
        let bytes = table(columns, rows)?.to_html().into_bytes();
        let kind = ArtifactKind::Dataframe;
        Ok(Self::made(kind, "html", name.into(), bytes, Form::Typed))
    }

    /// A film; its type is the end of its name: `gif`, `mp4`.
    pub fn video(path: impl Into<PathBuf>) -> Self {
        Self::of(ArtifactKind::Video, path, Form::Typed)
    }

    /// A table; its type is the end of its name: `csv`, `html`.
    pub fn dataframe(path: impl Into<PathBuf>) -> Self {
        Self::of(ArtifactKind::Dataframe, path, Form::Typed)
    }

    /// A model, a file or folder.
    pub fn model(path: impl Into<PathBuf>) -> Self {
        let form = Form::Model {
            framework: None,
            spec: Map::new(),
        };
        Self::of(ArtifactKind::Model, path, form)
    }

    /// Under which name. Default: the last part of the path up to its first dot.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The type of a sound, such as `audio/wav`. Nothing else has one.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        if let Form::Audio { content_type: slot } = &mut self.form {
            *slot = Some(content_type.into());
        }
        self
    }

    /// The library that a model was made with. Nothing else has one.
    pub fn framework(mut self, framework: impl Into<String>) -> Self {
        if let Form::Model {
            framework: slot, ..
        } = &mut self.form
        {
            *slot = Some(framework.into());
        }
        self
    }

    /// Adds a member to what is known of a model. Nothing else has any.
    pub fn spec(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        if let Form::Model { spec, .. } = &mut self.form {
            spec.insert(key.into(), value.into());
        }
        self
    }

    pub(crate) fn kind(&self) -> ArtifactKind {
        self.kind
    }

    /// Where it comes from; to be asked once.
    pub(crate) fn take_source(&mut self) -> Source {
        std::mem::replace(&mut self.source, Source::Bytes(Vec::new()))
    }

    pub(crate) fn chosen_name(&self) -> String {
        let of_path = || stem(&self.path).0;
        self.name.clone().unwrap_or_else(of_path)
    }

    /// The path of its copy below the run's folder, and the event that says so.
    pub(crate) fn place(self, name: &Name, step: Option<i128>, is_folder: bool) -> (String, Event) {
        let extension = match is_folder {
            true => None,
            false => stem(&self.path).1.or_else(|| self.usual_extension()),
        };
        let step = step.map(|step| format!("_{step}")).unwrap_or_default();
        let dotted = extension.as_ref().map(|text| format!(".{text}"));
        let path = format!(
            "assets/{}/{}{step}{}",
            self.kind,
            name.as_str(),
            dotted.unwrap_or_default()
        );
        let payload = self.payload(&path, extension.as_deref());
        (path, payload)
    }

    fn usual_extension(&self) -> Option<String> {
        let extension = match self.form {
            Form::Path => "png",
            Form::Audio { .. } | Form::Samples { .. } => "wav",
            Form::Typed if self.kind == ArtifactKind::Video => "gif",
            Form::Typed => "csv",
            Form::Kind | Form::Model { .. } => return None,
        };
        Some(extension.to_owned())
    }

    fn payload(&self, path: &str, extension: Option<&str>) -> Event {
        #[derive(Serialize)]
        struct Payload<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            kind: Option<ArtifactKind>,
            #[serde(skip_serializing_if = "Option::is_none")]
            framework: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            sample_rate: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            num_channels: Option<u8>,
            #[serde(skip_serializing_if = "Option::is_none")]
            length_frames: Option<usize>,
            path: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            content_type: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            spec: Option<&'a Map<String, Value>>,
        }
        let mut payload = Payload {
            kind: None,
            framework: None,
            sample_rate: None,
            num_channels: None,
            length_frames: None,
            path,
            content_type: None,
            spec: None,
        };
        match &self.form {
            Form::Kind => payload.kind = Some(self.kind),
            Form::Path => {}
            Form::Audio { content_type } => payload.content_type = content_type.as_deref(),
            Form::Samples { rate, count } => {
                payload.sample_rate = Some((*rate).into());
                payload.num_channels = Some(1);
                payload.length_frames = Some(*count);
                payload.content_type = Some("audio/wav");
            }
            Form::Typed => payload.content_type = extension,
            Form::Model { framework, spec } => {
                payload.framework = framework.as_deref();
                payload.spec = Some(spec).filter(|spec| !spec.is_empty());
            }
        }
        Event::certain(self.kind, &payload)
    }
}

fn table(
    columns: impl IntoIterator<Item = impl Into<String>>,
    rows: impl IntoIterator<Item = Vec<impl Into<Value>>>,
) -> Result<Table, Error> {
    let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
    let rows = rows.into_iter();
    let rows: Vec<Vec<Value>> = rows
        .map(|row| row.into_iter().map(Into::into).collect())
        .collect();
    match rows.iter().all(|row| row.len() == columns.len()) {
        true => Ok(Table { columns, rows }),
        false => Err(Error::InvalidEvent {
            kind: ArtifactKind::Dataframe,
            problem: "a row has as many cells as there are columns",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{NameUse, Names};

    #[test]
    fn an_asset_is_named_after_its_name_its_step_and_the_end_of_its_path() {
        let table = [
            (
                Asset::image("My Pic.PNG"),
                Some(10),
                "assets/image/My-Pic_10.png",
                r#"{"path":"assets/image/My-Pic_10.png"}"#,
            ),
            (
                Asset::image("x.png").name("named/img"),
                None,
                "assets/image/named__img.png",
                r#"{"path":"assets/image/named__img.png"}"#,
            ),
            (
                Asset::audio("sound.tar.gz").content_type("audio/wav"),
                Some(1),
                "assets/audio/sound_1.tar.gz",
                r#"{"path":"assets/audio/sound_1.tar.gz","content_type":"audio/wav"}"#,
            ),
            (
                Asset::video("clip"),
                Some(1),
                "assets/video/clip_1.gif",
                r#"{"path":"assets/video/clip_1.gif","content_type":"gif"}"#,
            ),
            (
                Asset::dataframe("df.csv"),
                Some(1),
                "assets/dataframe/df_1.csv",
                r#"{"path":"assets/dataframe/df_1.csv","content_type":"csv"}"#,
            ),
            (
                Asset::model("a/model.v1.bin")
                    .name("m")
                    .framework("onnx")
                    .spec("k", "v"),
                Some(1),
                "assets/model/m_1.v1.bin",
                r#"{"framework":"onnx","path":"assets/model/m_1.v1.bin","spec":{"k":"v"}}"#,
            ),
            (
                Asset::new(ArtifactKind::File, "model.v1.bin").name("gen"),
                Some(3),
                "assets/file/gen_3.v1.bin",
                r#"{"kind":"file","path":"assets/file/gen_3.v1.bin"}"#,
            ),
            (
                Asset::samples("beep", [0.0, 1.0], 8000),
                Some(2),
                "assets/audio/beep_2.wav",
                r#"{"sample_rate":8000.0,"num_channels":1,"length_frames":2,"path":"assets/audio/beep_2.wav","content_type":"audio/wav"}"#,
            ),
            (
                Asset::table("scores", ["a"], [vec![1]]).unwrap(),
                Some(2),
                "assets/dataframe/scores_2.csv",
                r#"{"path":"assets/dataframe/scores_2.csv","content_type":"csv"}"#,
            ),
        ];
        let mut names = Names::default();
        for (asset, step, path, payload) in table {
            let used = NameUse::Event(asset.kind());
            let name = names.claim_one(used, &asset.chosen_name()).unwrap();
            let (found, event) = asset.place(&name, step, false);
            assert_eq!((found.as_str(), event.payload()), (path, payload));
        }
        let name = names
            .claim_one(NameUse::Event(ArtifactKind::Dir), "d")
            .unwrap();
        let (path, _) = Asset::new(ArtifactKind::Dir, "x/b.c").place(&name, Some(1), true);
        assert_eq!(path, "assets/dir/d_1");
    }
}
