//! Files that are kept with the run, a version a step: pictures, sounds, tables, models.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::artifact::stem;
use crate::event::Event;
use crate::kind::ArtifactKind;
use crate::name::Name;

/// A file or folder to be copied into the run, under a name and the step at which it is logged.
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
    /// The extension is the type.
    Typed,
    Model {
        framework: Option<String>,
        spec: Map<String, Value>,
    },
}

impl Asset {
    fn of(kind: ArtifactKind, path: impl Into<PathBuf>, form: Form) -> Self {
        Self {
            kind,
            path: path.into(),
            name: None,
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn chosen_name(&self) -> String {
        let of_path = || stem(&self.path).0;
        self.name.clone().unwrap_or_else(of_path)
    }

    /// The path of its copy below the run's folder, and the event that says so.
    pub(crate) fn place(self, name: &Name, step: Option<i64>, is_folder: bool) -> (String, Event) {
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
            Form::Audio { .. } => "wav",
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
            path: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            content_type: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            spec: Option<&'a Map<String, Value>>,
        }
        let mut payload = Payload {
            kind: None,
            framework: None,
            path,
            content_type: None,
            spec: None,
        };
        match &self.form {
            Form::Kind => payload.kind = Some(self.kind),
            Form::Path => {}
            Form::Audio { content_type } => payload.content_type = content_type.as_deref(),
            Form::Typed => payload.content_type = extension,
            Form::Model { framework, spec } => {
                payload.framework = framework.as_deref();
                payload.spec = Some(spec).filter(|spec| !spec.is_empty());
            }
        }
        Event::certain(self.kind, &payload)
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
