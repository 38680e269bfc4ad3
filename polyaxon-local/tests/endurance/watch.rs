//! What `/proc` of this machine says. The processes of a pod are in it, under other ids.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// A process, and when it was started: its id may be another's later.
pub(crate) type Id = (u32, u64);

/// A line of `/proc/ID/stat`.
#[derive(Clone, Copy, Debug)]
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

fn stat(id: u32) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses can hold anything.
    let fields: Vec<&str> = line.get(line.rfind(')')? + 2..)?.split(' ').collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes with `mark` in their words or their environment; a zombie has neither.
pub(crate) fn marked(mark: &str) -> Vec<Id> {
    let has = |id: u32, file: &str| {
        let bytes = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
        bytes
            .windows(mark.len())
            .any(|part| part == mark.as_bytes())
    };
    ids()
        .filter(|id| has(*id, "cmdline") || has(*id, "environ"))
        .filter_map(|id| Some((id, stat(id)?.started)))
        .collect()
}

/// How many processes are exactly `sleep MARK`.
pub(crate) fn sleeps(mark: &str) -> usize {
    let words = format!("sleep\0{mark}\0").into_bytes();
    ids()
        .filter(|id| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line == words))
        .count()
}

/// Which of `before` are zombies now.
pub(crate) fn zombies(before: &[Id]) -> Vec<Id> {
    let is_zombie = |(id, started): &&Id| {
        stat(*id).is_some_and(|stat| stat.state == 'Z' && stat.started == *started)
    };
    before.iter().filter(is_zombie).copied().collect()
}

/// The descendants of `root`, itself aside: how many, and how many of them are zombies.
pub(crate) fn descendants(root: u32) -> (usize, usize) {
    let all: BTreeMap<u32, Stat> = ids().filter_map(|id| Some((id, stat(id)?))).collect();
    let below = |mut id: u32| {
        while let Some(stat) = all.get(&id) {
            if stat.parent == root {
                return true;
            }
            id = stat.parent;
        }
        false
    };
    let found: Vec<_> = all.iter().filter(|(id, _)| below(**id)).collect();
    let zombies = found.iter().filter(|(_, stat)| stat.state == 'Z').count();
    (found.len(), zombies)
}

/// How many descriptors a process has open.
pub(crate) fn descriptors(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

/// How many threads it has, and how much memory in KiB.
pub(crate) fn size(id: u32) -> (u64, u64) {
    (field(id, "Threads:"), field(id, "VmRSS:"))
}

/// The most memory that it has had, in KiB.
pub(crate) fn peak(id: u32) -> u64 {
    field(id, "VmHWM:")
}

fn field(id: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse().unwrap()
}

/// Asks until `probe` holds, or the limit has passed; says which.
pub(crate) async fn within(limit: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if probe() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
