//! Files of the run: where they go, copies of others, references.

use std::path::{Path, PathBuf};

use super::{Intake, TrackedRun};
use crate::artifact::{self, ArtifactRef};
use crate::asset::Asset;
use crate::error::Error;
use crate::files::Source;
use crate::kind::SeriesKey;
use crate::line::push_payload;
use crate::metrics::At;
use crate::name::NameUse;
use crate::outputs;
use crate::queue::{Command, Copying, Then};
use crate::surroundings;

impl TrackedRun {
    /// The path for a file of the run's outputs. Its parent folder is made; the file is yours.
    ///
    /// # Errors
    /// [`Error::InvalidPath`] for an absolute path, one with a `..`, or none at all: it would not
    /// be below the outputs. [`Error::Io`] where the folder cannot be made.
    pub fn outputs_path(&self, relative: impl AsRef<Path>) -> Result<PathBuf, Error> {
        with_parent(outputs::below(&self.outputs, relative.as_ref())?)
    }

    /// The path for a file of the run that is no output. Its parent folder is made; the file is
    /// yours.
    ///
    /// # Errors
    /// As [`outputs_path`](Self::outputs_path).
    pub fn artifacts_path(&self, relative: impl AsRef<Path>) -> Result<PathBuf, Error> {
        with_parent(outputs::below(&self.folder.root, relative.as_ref())?)
    }

    /// The folder for a `TensorBoard`, below the outputs; default: `tensorboard`. It is made, and
    /// registered in the run's lineage under the last part of its path.
    ///
    /// # Errors
    /// As [`outputs_path`](Self::outputs_path) and [`log_artifact_ref`](Self::log_artifact_ref).
    pub fn tensorboard_path(&self, relative: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let relative = relative.as_ref();
        let path = match relative.as_os_str().is_empty() {
            true => self.outputs.join("tensorboard"),
            false => outputs::below(&self.outputs, relative)?,
        };
        let reference = ArtifactRef::tensorboard(&path);
        std::fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        self.log_artifact_ref(reference)?;
        Ok(path)
    }

    /// Registers a file or folder in the run's lineage. Nothing is copied, and a path where there
    /// is nothing is no error. A second reference of the same name replaces the first.
    ///
    /// The file is kept with the run only where it lies below the run's [`path`](Self::path); to
    /// keep another, [`log_artifact`](Self::log_artifact) copies it.
    ///
    /// The writer reads the file for its hash soon after the call, not within it:
    /// [`flush`](Self::flush) before you change the file again.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::NameCollision`] for its name;
    /// [`Error::InvalidPath`] where the path is empty or not UTF-8; [`Error::QueueFull`];
    /// [`Error::Ended`].
    pub fn log_artifact_ref(&self, artifact: ArtifactRef) -> Result<(), Error> {
        let name = artifact.chosen_name();
        let reference = artifact.resolve(&self.folder)?;
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        let name = intake.names.claim_one(NameUse::Artifact, &name)?;
        permit.send([Command::Artifact(name, Box::new(reference))])
    }

    /// Copies a file or folder into the run's outputs, below `folder` (empty for the outputs
    /// themselves), and registers the copy in the lineage. A file that is there already is
    /// replaced; a folder is not.
    ///
    /// The writer copies soon after the call, not within it: [`flush`](Self::flush) before you
    /// change or delete the original. A copy that fails is in the report.
    ///
    /// # Errors
    /// As [`log_artifact_ref`](Self::log_artifact_ref); [`Error::Io`] where there is nothing at
    /// the path; [`Error::InvalidPath`] where it has none, or for `folder`; [`Error::Exists`].
    pub fn log_artifact(
        &self,
        artifact: ArtifactRef,
        folder: impl AsRef<Path>,
    ) -> Result<(), Error> {
        let from = self.original(artifact.path().unwrap_or(Path::new("")))?;
        let to = outputs::folder_below(&self.outputs, folder.as_ref())?;
        let to = to.join(artifact::last_part(&from));
        let name = artifact.chosen_name();
        let reference = artifact.moved(to.clone()).resolve(&self.folder)?;
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        intake.free_for_folder(&from, &to)?;
        let name = intake.names.claim_one(NameUse::Artifact, &name)?;
        let then = Then::Artifact(name, reference);
        let from = Source::Path(from);
        permit.send([Command::Copy(Box::new(Copying { from, to, then }))])
    }

    /// Copies a file or folder into the run under its name and step, or makes one, and logs an event
    /// that says where it is: a picture, a sound, a table, a version of a model. Without a step, a file
    /// replaces the one before.
    ///
    /// The writer copies soon after the call, as for [`log_artifact`](Self::log_artifact).
    ///
    /// # Errors
    /// As [`log_artifact`](Self::log_artifact) and [`log_event`](Self::log_event).
    pub fn log_asset(&self, at: impl Into<At>, mut asset: Asset) -> Result<(), Error> {
        let at = at.into();
        let stamp = at.stamp()?;
        let from = match asset.take_source() {
            Source::Path(path) => Source::Path(self.original(&path)?),
            made @ Source::Bytes(_) => made,
        };
        let is_folder = matches!(&from, Source::Path(path) if path.is_dir());
        let kind = asset.kind();
        let mut intake = self.intake()?;
        let permit = self.sink().reserve(1)?;
        let name = intake
            .names
            .claim_one(NameUse::Event(kind), &asset.chosen_name())?;
        let (path, event) = asset.place(&name, at.step_number(), is_folder);
        let to = self.folder.join(&path);
        if let Source::Path(from) = &from {
            intake.free_for_folder(from, &to)?;
        }
        let mut line = String::new();
        push_payload(&mut line, kind, stamp, event.payload());
        let then = Then::Line(SeriesKey::event(kind, name), line);
        permit.send([Command::Copy(Box::new(Copying { from, to, then }))])
    }

    /// Registers the commit that the code in `folder` is at; nothing where it is in no git work
    /// tree. Answers whether it was. See [`ArtifactRef::code`].
    ///
    /// # Errors
    /// As [`log_artifact_ref`](Self::log_artifact_ref).
    pub fn log_code_ref(&self, folder: impl AsRef<Path>) -> Result<bool, Error> {
        match ArtifactRef::code(folder) {
            None => Ok(false),
            Some(code) => self.log_artifact_ref(code).map(|()| true),
        }
    }

    /// Writes what this process is, and where, into `outputs/env.json` and registers that: process
    /// id, host, operating system, user, program. No arguments and no variables, for there can be
    /// secrets among them.
    ///
    /// # Errors
    /// As [`outputs_path`](Self::outputs_path) and [`log_artifact_ref`](Self::log_artifact_ref).
    pub fn log_env(&self) -> Result<(), Error> {
        self.log_env_as("env.json", &surroundings::env())
    }

    /// As [`log_env`](Self::log_env), with this content in this file of the outputs.
    ///
    /// # Errors
    /// As [`log_env`](Self::log_env); [`Error::NotJson`].
    pub fn log_env_as(
        &self,
        path: impl AsRef<Path>,
        content: &impl serde::Serialize,
    ) -> Result<(), Error> {
        let json = serde_json::to_vec(content).map_err(|source| Error::NotJson {
            name: "env".to_owned(),
            source,
        })?;
        let path = self.outputs_path(path)?;
        crate::files::replace(&path, &json).map_err(Error::io("write", &path))?;
        let env = ArtifactRef::new(crate::ArtifactKind::Env, path);
        self.log_artifact_ref(env.name("env").hash_of(json))
    }

    /// The absolute path of what is to be copied, which must be there.
    fn original(&self, path: &Path) -> Result<PathBuf, Error> {
        if path.as_os_str().is_empty() {
            return Err(Error::InvalidPath {
                path: path.to_owned(),
                problem: "it is empty",
            });
        }
        let path = artifact::absolute(path)?;
        std::fs::metadata(&path).map_err(Error::io("read", &path))?;
        Ok(path)
    }
}

fn with_parent(path: PathBuf) -> Result<PathBuf, Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    Ok(path)
}

impl Intake {
    /// A folder is never copied over another, be it there or about to be.
    fn free_for_folder(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        if !from.is_dir() {
            return Ok(());
        }
        match to.exists() || !self.folders.insert(to.to_owned()) {
            true => Err(Error::Exists {
                path: to.to_owned(),
            }),
            false => Ok(()),
        }
    }
}
