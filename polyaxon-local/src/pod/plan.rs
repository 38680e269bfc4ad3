//! What is mounted where in a pod.

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use crate::sys::{Plan, Step};

/// The folders of a system, those of them that a machine has. Links among them are made again.
pub(super) const SYSTEM: [&str; 9] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt",
];

/// Devices that need no hardware.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev`.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("fd/0", "stdin"),
    ("fd/1", "stdout"),
    ("fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// `/dev/shm` is in memory and holds what containers have there by default.
const SHARED_MEMORY: &str = "mode=1777,size=64m";

/// Parts of `/proc` by which the owner of this machine changes it. In a pod of root's the kernel
/// takes root for that owner.
const FROZEN: [&str; 8] = [
    "sys",
    "sysrq-trigger",
    "irq",
    "bus",
    "fs",
    "acpi",
    "scsi",
    "driver",
];

/// What the first process of a pod could tell about the server, whose copy it is.
const PRIVATE_FILES: [&str; 12] = [
    "environ",
    "mem",
    "cmdline",
    "maps",
    "smaps",
    "smaps_rollup",
    "numa_maps",
    "pagemap",
    "auxv",
    "stack",
    "syscall",
    "clear_refs",
];
const PRIVATE_FOLDERS: [&str; 6] = ["fd", "fdinfo", "map_files", "task", "ns", "net"];

/// Which user and group ids there are in a pod. They are the same inside and outside.
#[derive(Debug)]
pub(crate) struct Ids {
    users: String,
    groups: String,
    deny_setgroups: bool,
}

impl Ids {
    /// All that there are here. Only root may map them.
    pub(super) fn all() -> Option<Self> {
        let all = |file: &str| Some(identity(&fs::read_to_string(file).ok()?));
        if !geteuid().is_root() {
            return None;
        }
        Some(Self {
            users: all("/proc/self/uid_map")?,
            groups: all("/proc/self/gid_map")?,
            deny_setgroups: false,
        })
    }

    /// Those of the server's user alone. Files of others belong to nobody.
    pub(super) fn own() -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        Self {
            users: format!("{user} {user} 1"),
            groups: format!("{group} {group} 1"),
            deny_setgroups: true,
        }
    }
}

/// A map in which each id that is known here stays as it is.
fn identity(map: &str) -> String {
    let mut same = String::new();
    for line in map.lines() {
        let mut words = line.split_whitespace();
        if let (Some(inside), Some(_), Some(count)) = (words.next(), words.next(), words.next()) {
            same.push_str(&format!("{inside} {inside} {count}\n"));
        }
    }
    same
}

/// Makes the mount points in `root` and says what to mount there.
pub(super) fn plan(root: &Path, visible: &[PathBuf], ids: Ids) -> io::Result<Plan> {
    let mut maker = Maker {
        root,
        steps: Vec::new(),
    };
    for name in SYSTEM {
        maker.system(name)?;
    }
    for folder in visible {
        maker.read_only(folder)?;
    }
    // As in a container: a command can run as another user. The folder above is closed to the
    // other users of this machine.
    fs::set_permissions(root, Permissions::from_mode(0o755))?;
    maker.resolver()?;
    maker.devices()?;
    maker.processes()?;
    for (folder, mode) in [("run", 0o755), ("var", 0o755), ("var/tmp", 0o1777)] {
        maker.folder(folder)?;
        fs::set_permissions(root.join(folder), Permissions::from_mode(mode))?;
    }
    Ok(Plan {
        root: path(root)?,
        steps: maker.steps,
        uid_map: ids.users,
        gid_map: ids.groups,
        deny_setgroups: ids.deny_setgroups,
    })
}

struct Maker<'a> {
    root: &'a Path,
    steps: Vec<Step>,
}

impl Maker<'_> {
    fn at(&self, relative: impl AsRef<Path>) -> io::Result<CString> {
        path(&self.root.join(relative))
    }

    fn folder(&self, relative: impl AsRef<Path>) -> io::Result<()> {
        let at = self.root.join(relative);
        DirBuilder::new().recursive(true).mode(0o755).create(at)
    }

    fn system(&mut self, name: &str) -> io::Result<()> {
        let here = Path::new("/").join(name);
        match fs::symlink_metadata(&here) {
            Ok(meta) if meta.is_symlink() => {
                again(symlink(fs::read_link(&here)?, self.root.join(name)))
            }
            Ok(meta) if meta.is_dir() => self.read_only(&here),
            _ => Ok(()),
        }
    }

    /// `here` by the same path, read-only.
    fn read_only(&mut self, here: &Path) -> io::Result<()> {
        let below = here.strip_prefix("/").unwrap_or(here);
        let at = self.root.join(below);
        if here.is_dir() {
            self.folder(below)?;
        } else {
            self.folder(below.parent().unwrap_or(Path::new("")))?;
            fs::File::options().append(true).create(true).open(&at)?;
        }
        let (from, at) = (path(here)?, path(&at)?);
        self.steps.push(Step::ReadOnly { from, at });
        Ok(())
    }

    /// Who answers for names: often a link from `/etc` to a file of a running service.
    fn resolver(&mut self) -> io::Result<()> {
        match Path::new("/etc/resolv.conf").canonicalize() {
            Ok(file) if file.starts_with("/run") => self.read_only(&file),
            _ => Ok(()),
        }
    }

    fn devices(&mut self) -> io::Result<()> {
        self.folder("dev")?;
        self.steps.push(Step::Memory {
            at: self.at("dev")?,
            options: text("mode=755,size=64k")?,
        });
        for name in DEVICES {
            let here = Path::new("/dev").join(name);
            if here.exists() {
                let (from, at) = (path(&here)?, self.at(Path::new("dev").join(name))?);
                self.steps.push(Step::Device { from, at });
            }
        }
        for (target, name) in DEVICE_LINKS {
            let (text, at) = (text(target)?, self.at(Path::new("dev").join(name))?);
            self.steps.push(Step::Link { text, at });
        }
        let (terminals, memory) = (self.at("dev/pts")?, self.at("dev/shm")?);
        self.steps.extend([
            Step::Folder {
                at: terminals.clone(),
            },
            Step::Terminals { at: terminals },
            Step::Folder { at: memory.clone() },
            Step::Memory {
                at: memory,
                options: text(SHARED_MEMORY)?,
            },
        ]);
        Ok(())
    }

    fn processes(&mut self) -> io::Result<()> {
        self.folder("proc")?;
        self.steps.push(Step::Processes {
            at: self.at("proc")?,
        });
        let proc = Path::new("proc");
        for name in FROZEN {
            let at = self.at(proc.join(name))?;
            self.steps.push(Step::Freeze { at });
        }
        for name in PRIVATE_FILES {
            let at = self.at(proc.join("1").join(name))?;
            self.steps.push(Step::Blank { at });
        }
        for name in PRIVATE_FOLDERS {
            let at = self.at(proc.join("1").join(name))?;
            self.steps.push(Step::Empty { at });
        }
        Ok(())
    }
}

/// What is there already, from a first try, is fine.
fn again(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn path(path: &Path) -> io::Result<CString> {
    text(path.as_os_str())
}

fn text(text: impl AsRef<OsStr>) -> io::Result<CString> {
    Ok(CString::new(text.as_ref().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_what_they_are_in_every_range() {
        let table = [
            ("         0          0 4294967295\n", "0 0 4294967295\n"),
            (
                "0 100000 65536\n70000 1000 1\n",
                "0 0 65536\n70000 70000 1\n",
            ),
            ("", ""),
            ("0 1\n", ""),
        ];
        for (map, want) in table {
            assert_eq!(identity(map), want, "{map:?}");
        }
    }

    #[test]
    fn mount_points_are_made_in_the_folder_and_a_second_time_is_fine() {
        let root = tempfile::tempdir().unwrap();
        let shown = tempfile::tempdir().unwrap();
        let visible = [shown.path().to_owned()];
        for _ in 0..2 {
            let plan = plan(root.path(), &visible, Ids::own()).unwrap();
            assert!(
                plan.root
                    .to_string_lossy()
                    .ends_with(&*root.path().to_string_lossy())
            );
            let below = shown.path().strip_prefix("/").unwrap();
            for folder in ["usr", "etc", "dev", "proc", "run", "var/tmp"] {
                assert!(root.path().join(folder).is_dir(), "{folder}");
            }
            assert!(root.path().join(below).is_dir());
        }
        for (folder, mode) in [("var/tmp", 0o1777), ("", 0o755)] {
            let there = fs::metadata(root.path().join(folder)).unwrap();
            assert_eq!(there.permissions().mode() & 0o7777, mode, "{folder:?}");
        }
    }
}
