//! Our side: a model and a workspace that cost next to nothing, and all of the loop between them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agent_loop::journal::{Durability, Event, Intended, Record, observer_fn};
use agent_loop::{
    Acceptance, Attempt, Budget, CheckPlan, Digest, Evidence, ExecReceipt, ExecSpec, Journal,
    Level, MemoryWorkspace, ModelReply, Paths, RunDir, Stage, Task, Usage, Verdict, model_fn,
};
use anyhow::{Result, ensure};

use crate::watch::{self, Measured, Seen, Watch};

/// What is kept of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    Nothing,
    /// In a file that is in memory: what the loop itself spends on it.
    InMemory,
    /// In a file on the disk, with what the kernel spends on syncing it.
    OnDisk,
}

/// A check that always fails, with as many bytes as the other side's observation.
struct Fails {
    feedback: String,
}

impl Acceptance for Fails {
    fn revision(&self) -> Digest {
        Digest::of(b"fails")
    }

    fn names(&self) -> Vec<String> {
        vec!["check".to_owned()]
    }

    fn plan(&self, _name: &str) -> Option<CheckPlan> {
        Some(CheckPlan::new(
            Stage::new(ExecSpec::new(["check"])),
            Level::ExitCode,
        ))
    }

    fn judge(&self, _evidence: &Evidence<'_>) -> Verdict {
        Verdict::fail(self.feedback.clone())
    }
}

/// A journal that counts.
#[derive(Clone, Default)]
struct Counting {
    syncs: Arc<AtomicU32>,
    effects: Arc<AtomicU32>,
}

impl Journal for Counting {
    fn append(&mut self, record: &Record, durability: Durability) -> io::Result<()> {
        if durability == Durability::Synced {
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        if let Event::Intent(intent) = &record.event
            && !matches!(intent.effect, Intended::Get { .. } | Intended::ReadBack)
        {
            self.effects.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// An attempt that writes and checks in turn, until its turns are used.
fn attempt(turns: u32, bytes: usize) -> Result<Attempt> {
    let workspace = MemoryWorkspace::new(|_, _| Ok(ExecReceipt::exited(1)));
    let text = "x".repeat(bytes);
    let model = model_fn("stub", move |request| {
        let turn = request.id.as_str().rsplit('.').nth(1);
        let turn: u32 = turn.and_then(|turn| turn.parse().ok()).unwrap_or_default();
        let reply = match turn % 2 {
            1 => format!(r#"{{"action":"write","path":"a.py","content":"{turn} {text}"}}"#),
            _ => r#"{"action":"check"}"#.to_owned(),
        };
        Ok(ModelReply::new(reply).usage(Usage::new(100, 20)))
    });
    let task = Task::new("bench", "Make it right.").file("a.py", "0")?;
    let acceptance = Fails {
        feedback: "y".repeat(bytes),
    };
    let paths = Paths::editable(["a.py"])?;
    Ok(Attempt::new(task, model, workspace, acceptance, paths)
        .allow_checks(true)
        .budget(Budget::default().turns(turns)))
}

/// The CPU time of an attempt in microseconds, divided by its turns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// All of it: also the start and the end.
    pub(crate) whole: f64,
    /// From before the first question to the end of the last turn, with the rendering of requests.
    pub(crate) turn: f64,
}

impl Cost {
    /// Taking over the workspace before, and the patch, the last record and the report after.
    pub(crate) fn start_and_end(self) -> f64 {
        self.whole - self.turn
    }
}

/// Drives an attempt of so many turns.
pub(crate) fn run(turns: u32, bytes: usize, keeps: Keeps) -> Result<Cost> {
    let folder = match keeps {
        Keeps::InMemory => tempfile::tempdir_in("/dev/shm")?,
        Keeps::Nothing | Keeps::OnDisk => tempfile::tempdir()?,
    };
    let attempt = attempt(turns, bytes)?;
    let attempt = match keeps {
        Keeps::Nothing => attempt.journal(Counting::default()),
        Keeps::InMemory | Keeps::OnDisk => attempt.record_in(RunDir::create(folder.path())?),
    };
    let before = watch::cpu_time();
    let seen = drive(attempt, turns, Measured::Turns(turns))?;
    let whole = watch::cpu_time() - before;
    let turns = f64::from(turns);
    Ok(Cost {
        whole: whole / turns,
        turn: seen.turns / turns,
    })
}

/// The CPU time in microseconds that it takes to make the request of a turn: prompt and schema.
pub(crate) fn rendering(turns: u32, bytes: usize) -> Result<f64> {
    let attempt = attempt(turns, bytes)?.journal(Counting::default());
    let seen = drive(attempt, turns, Measured::Rendering)?;
    // What lies between two readings of the clock has one of them in it.
    Ok(seen.rendering / f64::from(turns) - watch::reading())
}

fn drive(attempt: Attempt, turns: u32, measured: Measured) -> Result<Seen> {
    let watch = Watch::new(measured);
    let watching = watch.clone();
    let attempt = attempt
        .clock(watch.clone())
        .observer(observer_fn(move |record| watching.saw(&record.event)));
    let outcome = runtime()?.block_on(attempt.drive())?;
    ensure!(
        outcome.turns == turns,
        "{} turns: {}",
        outcome.turns,
        outcome.end
    );
    let seen = watch.seen();
    ensure!(seen.questions == turns, "{} questions", seen.questions);
    Ok(seen)
}

/// How often records had to be on the disk, the last one left out, and for how many effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) syncs: u32,
    pub(crate) effects: u32,
}

pub(crate) fn syncs() -> Result<Counted> {
    let counting = Counting::default();
    let attempt = attempt(60, 1 << 10)?.journal(counting.clone());
    runtime()?.block_on(attempt.drive())?;
    let counted = Counted {
        syncs: counting.syncs.load(Ordering::Relaxed) - 1,
        effects: counting.effects.load(Ordering::Relaxed),
    };
    ensure!(counted.syncs == 2 * counted.effects, "{counted:?}");
    Ok(counted)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
}
