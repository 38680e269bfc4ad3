//! Files of runs: up, down, and away.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use axum::Json;
use axum::body::Body;
use axum::extract::{Multipart, Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderName, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Api, At, Result, find, invalid, parse, path_of, refused};
use crate::blocking::blocking;
use crate::control::store::{Existing, Refused, Store, StorePath};

/// How much of a file is read at once.
const CHUNK: usize = 64 * 1024;
/// The largest text part of an upload.
const OPTIONS_BYTES: usize = 64 * 1024;

/// `GET artifacts/tree`: one level of a folder. A problem is part of a 200, as on the platform.
pub(super) async fn tree(
    State(control): Api,
    Path(at): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>> {
    let run = find(&control, &at)?;
    let query = parse(query.as_deref())?;
    let path = path_of(&query)?;
    match control.store().tree(run.uuid, path).await {
        Ok(tree) => Ok(Json(tree)),
        Err(Refused::Missing) => {
            let folder = query.text("path").unwrap_or_default();
            let error = format!(
                "Could not list path {0}. Error [Errno 2] No such file or directory: '{0}/{1}'",
                run.uuid, folder
            );
            Ok(Json(json!({"files": {}, "dirs": [], "error": error})))
        }
        Err(why) => Err(refused(why)),
    }
}

/// `GET artifact`: one file.
pub(super) async fn read(
    State(control): Api,
    Path(at): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let run = find(&control, &at)?;
    let query = parse(query.as_deref())?;
    if query.text("path").is_none() {
        return Err(invalid("path: is required"));
    }
    let path = path_of(&query)?;
    let name = path.name().unwrap_or_default();
    let file = control
        .store()
        .open(run.uuid, path)
        .await
        .map_err(refused)?;
    sent(file, content_type(&name), "inline".to_owned())
}

/// `GET artifacts`: a folder as `tar.gz`.
pub(super) async fn pack(
    State(control): Api,
    Path(at): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let run = find(&control, &at)?;
    let path = path_of(&parse(query.as_deref())?)?;
    let name = path.name().unwrap_or_else(|| run.uuid.to_string());
    let name: String = name
        .chars()
        .filter(|c| c.is_ascii_graphic() && *c != '"')
        .collect();
    let file = control
        .store()
        .pack(run.uuid, path)
        .await
        .map_err(refused)?;
    let disposition = format!("attachment; filename=\"{name}.tar.gz\"");
    sent(file, "application/gzip", disposition)
}

/// `POST artifact`: one file into the folder `path`, or with `untar` an archive of files.
pub(super) async fn upload(
    State(control): Api,
    Path(at): Path<At>,
    parts: Multipart,
) -> Result<StatusCode> {
    let run = find(&control, &at)?;
    let upload = Upload::receive(control.store(), parts).await?;
    let folder = StorePath::parse(&upload.options.path).map_err(refused)?;
    let done = if upload.options.untar {
        let existing = Existing::Keep;
        control
            .store()
            .unpack(run.uuid, folder, upload.file, existing)
            .await
    } else {
        let path = folder.join(&upload.name).map_err(refused)?;
        let existing = upload.options.existing();
        control
            .store()
            .put(run.uuid, path, upload.file, existing)
            .await
    };
    done.map(|()| StatusCode::OK).map_err(refused)
}

/// `POST artifacts`: an archive into the folder `path`. With `overwrite` **the folder is emptied
/// before**.
pub(super) async fn upload_all(
    State(control): Api,
    Path(at): Path<At>,
    parts: Multipart,
) -> Result<StatusCode> {
    let run = find(&control, &at)?;
    let upload = Upload::receive(control.store(), parts).await?;
    let folder = StorePath::parse(&upload.options.path).map_err(refused)?;
    let existing = upload.options.existing();
    let done = control
        .store()
        .unpack(run.uuid, folder, upload.file, existing);
    done.await.map(|()| StatusCode::OK).map_err(refused)
}

/// `DELETE artifact` and `DELETE artifacts`
pub(super) async fn delete(
    State(control): Api,
    Path(at): Path<At>,
    RawQuery(query): RawQuery,
) -> Result<StatusCode> {
    let run = find(&control, &at)?;
    let query = parse(query.as_deref())?;
    let missing = |why| match why {
        Refused::Missing => invalid("The path does not exist."),
        why => refused(why),
    };
    let removed = control.store().remove(run.uuid, path_of(&query)?).await;
    removed.map(|()| StatusCode::NO_CONTENT).map_err(missing)
}

/// The text part of an upload.
#[derive(Deserialize)]
#[serde(default)]
struct Options {
    path: String,
    untar: bool,
    overwrite: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: String::new(),
            untar: true,
            overwrite: true,
        }
    }
}

impl Options {
    fn existing(&self) -> Existing {
        match self.overwrite {
            true => Existing::Replace,
            false => Existing::Keep,
        }
    }
}

/// What a caller uploads, on the disk but not in its place yet.
struct Upload {
    file: File,
    name: String,
    options: Options,
}

impl Upload {
    async fn receive(store: &Store, mut parts: Multipart) -> Result<Self> {
        let broken = |error: axum::extract::multipart::MultipartError| {
            invalid(format!("The upload broke off: {error}"))
        };
        let failed = |error: io::Error| refused(Refused::Failed(error));
        let mut spooled = None;
        let mut options = Options::default();
        while let Some(mut part) = parts.next_field().await.map_err(broken)? {
            match part.name() {
                Some("upload_file") => {
                    let name = part.file_name().unwrap_or_default().to_owned();
                    let mut file = store.spool().await.map_err(failed)?;
                    while let Some(bytes) = part.chunk().await.map_err(broken)? {
                        let written = blocking(move || {
                            file.write_all(&bytes)?;
                            Ok(file)
                        });
                        file = written.await.map_err(failed)?;
                    }
                    spooled = Some((file, name));
                }
                Some("json") => {
                    let mut text = Vec::new();
                    while let Some(bytes) = part.chunk().await.map_err(broken)? {
                        text.extend_from_slice(&bytes);
                        if text.len() > OPTIONS_BYTES {
                            return Err(invalid("json: is too large"));
                        }
                    }
                    options = serde_json::from_slice(&text)
                        .map_err(|error| invalid(format!("json: {error}")))?;
                }
                _ => {}
            }
        }
        let (file, name) = spooled.ok_or_else(|| invalid("A file is required to upload a file"))?;
        Ok(Self {
            file,
            name,
            options,
        })
    }
}

/// An answer with the content of `file`, read as it is sent.
fn sent(file: File, content_type: &'static str, disposition: String) -> Result<Response> {
    let size = file
        .metadata()
        .map_err(|error| refused(Refused::Failed(error)))?
        .len();
    let chunks = stream::try_unfold((file, size), |(file, left)| async move {
        if left == 0 {
            return Ok::<_, io::Error>(None);
        }
        let (bytes, file) = blocking(move || next_chunk(file, left)).await?;
        let left = left - bytes.len() as u64;
        Ok(Some((bytes, (file, left))))
    });
    let headers: [(HeaderName, String); 3] = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::CONTENT_LENGTH, size.to_string()),
    ];
    Ok((headers, Body::from_stream(chunks)).into_response())
}

fn next_chunk(mut file: File, left: u64) -> io::Result<(Bytes, File)> {
    let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
    let mut bytes = vec![0; most];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    match read {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok((bytes.into(), file)),
    }
}

/// The type of a file by the end of its name.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("txt" | "log" | "plx") => "text/plain; charset=utf-8",
        Some("json") => "application/json",
        Some("html") => "text/html; charset=utf-8",
        Some("csv") => "text/csv; charset=utf-8",
        Some("md") => "text/markdown; charset=utf-8",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("svg") => "image/svg+xml",
        Some("gz") => "application/gzip",
        _ => "application/octet-stream",
    }
}
