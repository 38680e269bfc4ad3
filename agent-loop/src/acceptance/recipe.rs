//! What every command of a check starts with: an empty environment, where programs are, a limit, and
//! the files of the check.

use std::collections::BTreeSet;
use std::time::Duration;

use super::variable::VariableName;
use crate::acceptance::{At, Stage};
use crate::manifest::File;
use crate::path::{InvalidPath, RelPath};
use crate::workspace::ExecSpec;

/// How long a command may run, where nothing is said.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// The folders of a Linux image, `/usr/local` first.
pub(super) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `argv` in an environment of `PATH`, a locale, a home of its own, `inherited` and `variables`, and
/// nothing else: whatever more the place's own environment holds, the command does not see it.
///
/// What is inherited is known in the place only, where a shell puts it in. All that the shell reads
/// are these names; what they stand for, `variables` and `argv` are words to it, whatever they hold.
pub(super) fn clean<'a>(
    search_path: &str,
    inherited: &BTreeSet<VariableName>,
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    argv: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let path = format!("PATH={search_path}");
    let own = ["LANG=C.UTF-8".to_owned(), "HOME=../home".to_owned()];
    let mut command = vec!["env".to_owned(), "-i".to_owned()];
    if inherited.is_empty() {
        command.push(path);
        command.extend(own);
    } else {
        let mut script = format!("exec {} {}", command.join(" "), own.join(" "));
        for name in inherited {
            // Where it is not set, no word comes of it.
            script.push_str(&format!(" ${{{name}+{name}=\"${name}\"}}"));
        }
        script.push_str(" \"$@\"");
        command = ["sh", "-c", &script, "sh"].map(ToOwned::to_owned).to_vec();
        if !inherited.iter().any(|name| name.as_str() == "PATH") {
            command.push(path);
        }
    }
    let variables = variables.into_iter();
    command.extend(variables.map(|(name, value)| format!("{name}={value}")));
    command.extend(argv);
    command
}

/// A file of a check.
pub(super) fn fixture(
    path: impl AsRef<str>,
    bytes: impl Into<Vec<u8>>,
) -> Result<(RelPath, File), InvalidPath> {
    Ok((RelPath::parse(path.as_ref())?, File::new(bytes)))
}

/// A stage that runs `spec` with these files.
pub(super) fn stage(spec: ExecSpec, at: At, fixtures: &[(RelPath, File)]) -> Stage {
    let stage = Stage::new(spec).at(at);
    fixtures.iter().fold(stage, |stage, (path, file)| {
        stage.fixture(path.clone(), file.clone())
    })
}

/// Python in its isolated mode with fresh caches, and a program for it. `-I` keeps the working
/// folder, the user's packages and `PYTHON*` variables out; the program puts back what it needs.
pub(super) fn python(program: String) -> [String; 7] {
    [
        "python3".to_owned(),
        "-I".to_owned(),
        "-B".to_owned(),
        "-X".to_owned(),
        "pycache_prefix=../cache".to_owned(),
        "-c".to_owned(),
        program,
    ]
}

/// A list of texts as Python writes it: a JSON string is a Python string.
pub(super) fn python_list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items = items
        .into_iter()
        .map(|item| serde_json::Value::from(item).to_string());
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
