//! What surrounds a run: the machine, the process, the code.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::artifact::ArtifactRef;
use crate::kind::ArtifactKind;

/// The name of this machine.
pub(crate) fn hostname() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/hostname");
    let kernel = kernel.or_else(|_| fs::read_to_string("/etc/hostname"));
    let name = kernel.unwrap_or_default().trim().to_owned();
    let variable = || std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
    match name.is_empty() {
        true => variable(),
        false => name,
    }
}

/// The name of this user.
pub(crate) fn user() -> String {
    let of = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let names = ["LOGNAME", "USER", "LNAME", "USERNAME"];
    names
        .into_iter()
        .find_map(of)
        .or_else(|| user_of_process(&fs::read_to_string("/proc/self/status").ok()?))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The user that a process runs as, looked up as the C library would.
fn user_of_process(status: &str) -> Option<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let uid = line.split_ascii_whitespace().next()?;
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    Some(named.unwrap_or_else(|| uid.to_owned()))
}

/// What `outputs/env.json` holds, in the platform's words where it has one.
pub(crate) fn env() -> Value {
    let program = std::env::current_exe().ok();
    let text = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
    json!({
        "pid": std::process::id(),
        "hostname": hostname(),
        "os": os(),
        "system": system(),
        "user": user(),
        "filename": text(program.as_deref().and_then(Path::file_name).map(Path::new)),
        "module_path": text(program.as_deref().and_then(Path::parent)),
        "polyaxon_rust_version": env!("CARGO_PKG_VERSION"),
    })
}

/// As Python's `platform.platform()` begins: system, release, architecture.
fn os() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = system();
    let mut parts = vec![system.as_str(), release.trim(), std::env::consts::ARCH];
    parts.retain(|part| !part.is_empty());
    parts.join("-")
}

fn system() -> String {
    match std::env::consts::OS {
        "linux" => "Linux".to_owned(),
        "macos" => "Darwin".to_owned(),
        other => other.to_owned(),
    }
}

/// The commit that the code in `folder` is at, read from the files of git.
pub(crate) fn code_ref(folder: &Path) -> Option<ArtifactRef> {
    let git = git_folder(&std::path::absolute(folder).ok()?)?;
    // A work tree of its own shares refs and settings with the first one.
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(text) => git.join(text.trim()),
        Err(_) => git.clone(),
    };
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let (branch, commit) = match head.trim().strip_prefix("ref: ") {
        Some(name) => {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            (branch.to_owned(), commit_of(&git, &common, name)?)
        }
        // No branch is checked out; git calls that so.
        None => ("HEAD".to_owned(), head.trim().to_owned()),
    };
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit {
        return None;
    }
    let config = fs::read_to_string(common.join("config")).unwrap_or_default();
    let url = origin(&config).map(|url| without_login(&web_url(url)));
    let code = ArtifactRef::named(ArtifactKind::Coderef, &commit).input();
    Some(
        code.summary("commit", commit)
            .summary("branch", branch)
            .summary("url", url),
    )
}

fn git_folder(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find_map(|folder| {
        let git = folder.join(".git");
        if git.join("HEAD").is_file() {
            return Some(git);
        }
        // A work tree of its own, or a submodule.
        let text = fs::read_to_string(&git).ok()?;
        let elsewhere = text.trim().strip_prefix("gitdir: ")?;
        Some(folder.join(elsewhere))
    })
}

fn commit_of(git: &Path, common: &Path, name: &str) -> Option<String> {
    for folder in [git, common] {
        if let Ok(text) = fs::read_to_string(folder.join(name)) {
            return Some(text.trim().to_owned());
        }
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| {
        let (commit, packed_name) = line.split_once(' ')?;
        (packed_name == name).then(|| commit.to_owned())
    })
}

/// The URL of the remote `origin`.
fn origin(config: &str) -> Option<&str> {
    let mut inside = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[remote \"origin\"]";
        } else if inside
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "url"
        {
            return Some(value.trim());
        }
    }
    None
}

/// `git@host:a/b.git` as a page: `https://host/a/b`.
fn web_url(url: &str) -> String {
    let page = match url
        .strip_prefix("git@")
        .and_then(|rest| rest.split_once(':'))
    {
        Some((host, path)) => format!("https://{host}/{path}"),
        None => url.to_owned(),
    };
    match page.strip_suffix(".git") {
        Some(page) => page.to_owned(),
        None => page,
    }
}

/// A URL without the name and password that can be in it.
fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest.get(..end).and_then(|host| host.rfind('@')) {
        Some(at) => format!("{scheme}://{}", rest.get(at + 1..).unwrap_or_default()),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_remotes_become_pages_without_passwords() {
        let table = [
            ("git@host.example:a/b.git", "https://host.example/a/b"),
            (
                "https://user:secret@host.example/a/b.git",
                "https://host.example/a/b",
            ),
            ("https://host.example/a@b", "https://host.example/a@b"),
            (
                "ssh://git@host.example:22/a/b.git",
                "ssh://host.example:22/a/b",
            ),
            ("/srv/repository", "/srv/repository"),
        ];
        for (url, page) in table {
            assert_eq!(without_login(&web_url(url)), page);
        }
        let config =
            "[remote \"fork\"]\n\turl = x\n[remote \"origin\"]\n\tfetch = +refs\n\turl = y\n";
        assert_eq!(origin(config), Some("y"));
        assert_eq!(origin("[core]\n\turl = x\n"), None);
    }

    #[test]
    fn the_commit_is_found_where_git_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(code_ref(root), None);
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let expected = |branch: &str| {
            ArtifactRef::named(ArtifactKind::Coderef, commit)
                .input()
                .summary("commit", commit)
                .summary("branch", branch)
                .summary("url", Value::Null)
        };
        let git = root.join(".git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        // No commit yet.
        assert_eq!(code_ref(&root.join("src/deep")), None);
        fs::write(
            git.join("packed-refs"),
            format!("# pack\n{commit} refs/heads/main\n"),
        )
        .unwrap();
        assert_eq!(code_ref(&root.join("src/deep")), Some(expected("main")));
        fs::write(git.join("HEAD"), format!("{commit}\n")).unwrap();
        assert_eq!(code_ref(root), Some(expected("HEAD")));
        // A work tree beside the first.
        let tree = root.join("tree");
        let of_tree = git.join("worktrees/tree");
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(&of_tree).unwrap();
        fs::write(
            tree.join(".git"),
            format!("gitdir: {}\n", of_tree.display()),
        )
        .unwrap();
        fs::write(of_tree.join("HEAD"), "ref: refs/heads/side\n").unwrap();
        fs::write(of_tree.join("commondir"), "../..\n").unwrap();
        fs::write(git.join("refs/heads/side"), format!("{commit}\n")).unwrap();
        assert_eq!(code_ref(&tree), Some(expected("side")));
    }

    #[test]
    fn the_process_is_described_without_its_arguments() {
        let env = env();
        assert_eq!(env["pid"], std::process::id());
        for key in [
            "hostname",
            "os",
            "system",
            "user",
            "filename",
            "module_path",
        ] {
            assert_ne!(env[key].as_str(), Some(""), "{key}");
            assert!(env[key].is_string(), "{key}");
        }
        assert!(env.get("sys.argv").is_none());
        assert_eq!(
            user_of_process("Name:\tx\nUid:\t0\t0\t0\t0\n").as_deref(),
            Some("root")
        );
    }
}
