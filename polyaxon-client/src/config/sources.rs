//! The places that settings come from: environment, files of the pod, of the home directory and
//! of the shared temporary folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Origin, Setting, parse_flag};
use crate::error::{Error, InvalidInput};

/// Everything that is looked at, read once.
pub(super) struct Sources {
    env: BTreeMap<&'static str, String>,
    /// `.configs/.auth` of the pod.
    pod_auth: Option<File>,
    /// `.client` files, the more specific first.
    client: Vec<File>,
    /// `.auth` files, the more specific first.
    auth: Vec<File>,
    /// What made reading fail, told once a setting is asked for.
    failure: Option<InvalidInput>,
}

struct File {
    path: PathBuf,
    values: Map<String, Value>,
}

/// The variables that are read.
const VARIABLES: [&str; 14] = [
    "HOME",
    "POLYAXON_AUTHENTICATION_TYPE",
    "POLYAXON_AUTH_TOKEN",
    "POLYAXON_CERT_FILE",
    "POLYAXON_CONTEXT_ROOT",
    "POLYAXON_HEADER",
    "POLYAXON_HEADER_SERVICE",
    "POLYAXON_HOME",
    "POLYAXON_HOST",
    "POLYAXON_KEY_FILE",
    "POLYAXON_NO_CONFIG",
    "POLYAXON_SSL_CA_CERT",
    "POLYAXON_TIMEOUT",
    "POLYAXON_VERIFY_SSL",
];

const SHARED: &str = "/tmp/.polyaxon";

/// A text that was found, and where.
pub(super) struct Found {
    pub(super) text: String,
    origin: Origin,
}

impl Found {
    /// Reads the text; an error says where it stands.
    pub(super) fn parse<T>(
        self,
        read: impl FnOnce(&str) -> Result<T, InvalidInput>,
    ) -> Result<Setting<T>, InvalidInput> {
        match read(&self.text) {
            Ok(value) => Ok(Setting {
                value,
                origin: self.origin,
            }),
            Err(error) => Err(InvalidInput::new(
                error.field(),
                format!("{} (from {})", error.problem(), self.origin),
            )),
        }
    }
}

impl Sources {
    /// Nothing at all.
    pub(super) fn none() -> Self {
        Self {
            env: BTreeMap::new(),
            pod_auth: None,
            client: Vec::new(),
            auth: Vec::new(),
            failure: None,
        }
    }

    /// Files of a home folder with these texts.
    #[cfg(any(fuzzing, test))]
    pub(super) fn of_texts(client: &str, auth: &str) -> Result<Self, InvalidInput> {
        let read = |name: &str, text| {
            let file = File::parse(PathBuf::from(name), text);
            file.map_err(|problem| InvalidInput::new("configuration file", problem))
        };
        let mut sources = Self::none();
        sources.client.extend(read(".client", client)?);
        sources.auth.extend(read(".auth", auth)?);
        Ok(sources)
    }

    /// What surrounds this process.
    pub(super) fn of_process() -> Result<Self, Error> {
        let mut env = BTreeMap::new();
        for name in VARIABLES {
            match std::env::var(name) {
                Ok(value) => drop(env.insert(name, value)),
                Err(std::env::VarError::NotPresent) => {}
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(Error::Config(Box::new(InvalidInput::new(
                        name,
                        "is not UTF-8",
                    ))));
                }
            }
        }
        Ok(Self::read(env, Some(Path::new(SHARED))))
    }

    fn read(env: BTreeMap<&'static str, String>, shared: Option<&Path>) -> Self {
        let on = |name| {
            env.get(name)
                .is_some_and(|text| matches!(parse_flag(name, text), Ok(true)))
        };
        if on("POLYAXON_NO_CONFIG") {
            return Self::none();
        }
        let context = env
            .get("POLYAXON_CONTEXT_ROOT")
            .map_or("/plx-context", String::as_str);
        let pod = Path::new(context).join(".configs/.auth");
        let home = home_folder(&env);
        let shared = shared.filter(|folder| is_ours_alone(folder));
        let mut sources = Self {
            env,
            ..Self::none()
        };
        sources.pod_auth = sources.load(pod);
        for folder in home.iter().map(PathBuf::as_path).chain(shared) {
            let client = sources.load(folder.join(".client"));
            sources.client.extend(client);
            let auth = sources.load(folder.join(".auth"));
            sources.auth.extend(auth);
        }
        sources
    }

    /// Reads a file. One that is missing or empty is like none; the first that is broken is kept
    /// as the failure.
    fn load(&mut self, path: PathBuf) -> Option<File> {
        let in_shared = path.starts_with(SHARED);
        if in_shared && path.exists() && !is_ours_alone(&path) {
            return None;
        }
        let problem = match std::fs::read_to_string(&path) {
            Ok(text) => match File::parse(path, &text) {
                Ok(file) => return file,
                Err(problem) => problem,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return None,
            Err(error) => format!("{} cannot be read: {error}", path.display()),
        };
        self.failure
            .get_or_insert_with(|| InvalidInput::new("configuration file", problem));
        None
    }

    /// The value of a client setting: environment, then `.client` files.
    pub(super) fn find(
        &self,
        name: &'static str,
        key: &str,
    ) -> Result<Option<Found>, InvalidInput> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let from_env = self.env.get(name).filter(|text| !text.trim().is_empty());
        if let Some(text) = from_env {
            return Ok(Some(Found {
                text: text.clone(),
                origin: Origin::Environment(name),
            }));
        }
        first(&self.client, &[name, key])
    }

    /// The token: pod, environment, `token` in `.client`, `.auth`.
    pub(super) fn token(&self) -> Result<Option<Found>, InvalidInput> {
        let keys = ["POLYAXON_AUTH_TOKEN", "token"];
        if let Some(file) = &self.pod_auth
            && let Some(text) = file.text(&keys)?
        {
            return Ok(Some(Found {
                text,
                origin: Origin::Pod(file.path.clone()),
            }));
        }
        match self.find("POLYAXON_AUTH_TOKEN", "token")? {
            Some(found) => Ok(Some(found)),
            None => first(&self.auth, &keys),
        }
    }

    #[cfg(test)]
    pub(super) fn for_tests(vars: &[(&'static str, &str)], home: &Path, context: &Path) -> Self {
        let mut env: BTreeMap<_, _> = vars
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        env.insert("POLYAXON_HOME", home.to_str().unwrap().to_owned());
        env.insert(
            "POLYAXON_CONTEXT_ROOT",
            context.to_str().unwrap().to_owned(),
        );
        Self::read(env, None)
    }
}

fn first(files: &[File], keys: &[&str]) -> Result<Option<Found>, InvalidInput> {
    for file in files {
        if let Some(text) = file.text(keys)? {
            return Ok(Some(Found {
                text,
                origin: Origin::File(file.path.clone()),
            }));
        }
    }
    Ok(None)
}

impl File {
    /// A file with this text; none where it is blank.
    fn parse(path: PathBuf, text: &str) -> Result<Option<Self>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        match serde_json::from_str(text) {
            Ok(values) => Ok(Some(Self { path, values })),
            // The parser's message gives line and column, never the text.
            Err(error) => Err(format!("{} is not a JSON object: {error}", path.display())),
        }
    }

    /// The value of the first of `keys` that is there, as text.
    fn text(&self, keys: &[&str]) -> Result<Option<String>, InvalidInput> {
        for key in keys {
            return match self.values.get(*key) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) if text.trim().is_empty() => continue,
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(Value::Bool(flag)) => Ok(Some(flag.to_string())),
                Some(Value::Number(number)) => Ok(Some(number.to_string())),
                Some(Value::Array(_) | Value::Object(_)) => Err(InvalidInput::new(
                    "configuration file",
                    format!(
                        "{key} in {} is neither text nor a number",
                        self.path.display()
                    ),
                )),
            };
        }
        Ok(None)
    }
}

/// `{POLYAXON_HOME, else "path" of ~/.polyaxon/.home, else ~}/.polyaxon`.
fn home_folder(env: &BTreeMap<&'static str, String>) -> Option<PathBuf> {
    let of = |name| {
        env.get(name)
            .filter(|text| !text.is_empty())
            .map(PathBuf::from)
    };
    if let Some(chosen) = of("POLYAXON_HOME") {
        return Some(chosen.join(".polyaxon"));
    }
    let user = of("HOME")?;
    // YAML by name, but only ever this one line.
    let moved = std::fs::read_to_string(user.join(".polyaxon/.home"))
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("path:"))?;
            Some(PathBuf::from(line.trim().trim_matches(['"', '\''])))
        });
    Some(moved.unwrap_or(user).join(".polyaxon"))
}

/// Whether a file or folder belongs to this user and nobody else can write it: what others can
/// write into a shared folder must not choose the host that gets our token.
#[cfg(unix)]
fn is_ours_alone(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // Who we are, without a call of the C library: what we start ourselves belongs to us.
    let Ok(me) = std::fs::metadata("/proc/self") else {
        return false;
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) => !found.is_symlink() && found.uid() == me.uid() && found.mode() & 0o022 == 0,
        Err(_) => false,
    }
}

#[cfg(not(unix))]
fn is_ours_alone(_path: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_others_can_write_is_not_ours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, "{}").unwrap();
        for (mode, ours) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_ours_alone(&file), ours, "{mode:o}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(!is_ours_alone(&link));
        assert!(!is_ours_alone(&dir.path().join("missing")));
    }

    #[test]
    fn the_home_folder_can_be_moved_by_a_variable_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let user = BTreeMap::from([("HOME", text(dir.path()))]);
        assert_eq!(home_folder(&user).unwrap(), dir.path().join(".polyaxon"));
        std::fs::create_dir(dir.path().join(".polyaxon")).unwrap();
        std::fs::write(dir.path().join(".polyaxon/.home"), "path: /elsewhere\n").unwrap();
        assert_eq!(
            home_folder(&user).unwrap(),
            Path::new("/elsewhere/.polyaxon")
        );
        let chosen = BTreeMap::from([("HOME", text(dir.path())), ("POLYAXON_HOME", "/c".into())]);
        assert_eq!(home_folder(&chosen).unwrap(), Path::new("/c/.polyaxon"));
        assert_eq!(home_folder(&BTreeMap::new()), None);
    }
}
