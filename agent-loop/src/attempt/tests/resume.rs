//! An attempt whose program was ended goes on as if nothing had been.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::digest::TreeHash;
use crate::journal::{CorruptJournal, FileJournal, ReadJournal, observer_fn};
use crate::verify;
use crate::workspace::StopState;

/// All that happens in one attempt: reads, writes, a failed check, a reply that is no action, a
/// second file, a refused finish, a pass, a pass that a write destroys, and another one.
fn script() -> Vec<String> {
    let wrong = write("amounts.py", "def total(xs):\n    return 1\n");
    [
        &read("amounts.py"),
        &wrong,
        CHECK,
        FINISH,
        "not an action",
        &fix(),
        CHECK,
        &write("amounts.py", &format!("{RIGHT}# again\n")),
        CHECK,
        FINISH,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn place(lookup: bool) -> MemoryWorkspace {
    pretending().with_capabilities(|can| can.exec_lookup = lookup)
}

fn an_attempt(script: Vec<String>, workspace: &MemoryWorkspace, budget: Budget) -> Attempt {
    let script = by_turn(script);
    Attempt::new(task(), script, workspace.clone(), acceptance(), paths())
        .allow_checks(true)
        .budget(budget)
        .clock(JumpingClock::default())
}

/// What must be the same however often a program was ended: everything but times, the calls of the
/// model that were lost, and what had to be looked for.
#[derive(Debug, PartialEq)]
pub(super) struct Same {
    end: End,
    state: AcceptanceState,
    level: Option<Level>,
    tree: Option<TreeHash>,
    turns: u32,
    checks: Vec<(u32, String, String, TreeHash)>,
    patch: String,
}

impl Same {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let checks = outcome.checks.iter();
        Self {
            end: outcome.end.clone(),
            state: outcome.acceptance.state,
            level: outcome.acceptance.level,
            tree: outcome.acceptance.tree,
            turns: outcome.turns,
            checks: checks
                .map(|check| {
                    let (verdict, summary) = (check.verdict.clone(), check.summary.clone());
                    (check.turn, verdict, summary, check.tree)
                })
                .collect(),
            patch: String::from_utf8(outcome.patch.clone()).unwrap(),
        }
    }
}

/// Writes that were done, and commands that ran.
fn effects(workspace: &MemoryWorkspace) -> [u32; 2] {
    [workspace.written(), workspace.calls(Operation::Exec)]
}

/// Starts an attempt whose program is ended at a record, and gives the folder.
pub(super) fn killed(
    attempt: Attempt,
    at: u64,
    moment: Moment,
) -> (tempfile::TempDir, Option<Outcome>) {
    let folder = fast_folder();
    let run = RunDir::create(folder.path()).unwrap();
    let dying = Dying {
        journal: FileJournal::create(folder.path()).unwrap(),
        at,
        moment,
    };
    let outcome = run_or_die(attempt.record_in(run).journal(dying).drive());
    (folder, outcome)
}

pub(super) fn is_proved(folder: &Path) -> bool {
    let verification = verify(folder).unwrap();
    assert!(verification.is_consistent(), "{verification}");
    verification.proves_acceptance()
}

#[test]
fn a_program_that_is_ended_at_any_record_changes_nothing_but_time() {
    let table = [
        (Budget::default(), true),
        (Budget::default(), false),
        (Budget::default().turns(8), true),
        // Enough for the calls that are made, and not for one more.
        (Budget::default().tokens(10 * 120 + 1500), true),
    ];
    let mut kills = 0;
    for (budget, lookup) in table {
        let whole = place(lookup);
        let uninterrupted = run_or_die(an_attempt(script(), &whole, budget.clone()).drive());
        let uninterrupted = uninterrupted.unwrap();
        for at in 0.. {
            let mut reached = false;
            for moment in [Moment::Before, Moment::After] {
                let workspace = place(lookup);
                let attempt = || an_attempt(script(), &workspace, budget.clone());
                let (folder, outcome) = killed(attempt(), at, moment);
                if outcome.is_some() {
                    continue;
                }
                reached = true;
                kills += 1;
                let asked = last_is_a_question(folder.path());
                let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
                let lost = outcome.calls - uninterrupted.calls.min(outcome.calls);
                if budget.tokens.is_none() {
                    assert_eq!(lost, u32::from(asked), "{at} {moment:?}");
                    let unknown = outcome.usage.unknown_calls;
                    assert_eq!(unknown, u32::from(asked), "{at} {moment:?}");
                }
                if !(asked && budget.tokens.is_some()) {
                    assert_eq!(
                        Same::of(&outcome),
                        Same::of(&uninterrupted),
                        "{at} {moment:?}"
                    );
                    assert_eq!(workspace.files(), whole.files());
                    let mut most = effects(&whole);
                    // Where nobody knows what became of a command, it may run in a second place.
                    most[1] += u32::from(!lookup);
                    let done = effects(&workspace);
                    assert!(done[0] == most[0], "{at} {moment:?}: {done:?} {most:?}");
                    assert!(
                        done[1] <= most[1] && done[1] >= effects(&whole)[1],
                        "{at} {moment:?}: {done:?} {most:?}"
                    );
                }
                assert!(outcome.uncertain.iter().all(|request| request.resolved));
                assert_eq!(
                    is_proved(folder.path()),
                    outcome.is_accepted(),
                    "{at} {moment:?}"
                );
            }
            if !reached {
                break;
            }
        }
        assert_eq!(uninterrupted.is_accepted(), budget.turns == 12);
    }
    println!("ended {kills} times and resumed: the same outcome, each effect applied once");
    assert!(kills > 300, "{kills}");
}

fn last_is_a_question(folder: &Path) -> bool {
    let journal = ReadJournal::read(folder).unwrap();
    journal
        .known()
        .last()
        .is_some_and(|record| record.event.kind() == "asked")
}

/// What is on the disk after a crash of the machine: all up to the last sync, and any part of what
/// was written after it. By default every 193rd byte; `AGENT_LOOP_PREFIXES=1` takes each.
#[test]
fn any_part_of_the_journal_behind_its_last_sync_is_enough_to_go_on() {
    let step = how_many("AGENT_LOOP_PREFIXES", 193);
    let whole = place(true);
    let uninterrupted = run_or_die(an_attempt(script(), &whole, Budget::default()).drive());
    let uninterrupted = Same::of(&uninterrupted.unwrap());
    let mut prefixes = 0;
    for at in 0.. {
        let workspace = place(true);
        let synced = Arc::new(Mutex::new(0));
        let watched = Arc::clone(&synced);
        let folder = fast_folder();
        let path = folder.path().join("actions.jsonl");
        let run = RunDir::create(folder.path()).unwrap();
        let dying = Syncing {
            journal: Dying {
                journal: FileJournal::create(folder.path()).unwrap(),
                at,
                moment: Moment::After,
            },
            path: path.clone(),
            synced: watched,
        };
        let attempt = an_attempt(script(), &workspace, Budget::default());
        if run_or_die(attempt.record_in(run).journal(dying).drive()).is_some() {
            break;
        }
        let bytes = fs::read(&path).unwrap();
        let synced = *synced.lock().unwrap();
        let borders = (synced..=bytes.len()).filter(|at| {
            let around = at.saturating_sub(1)..(at + 1).min(bytes.len());
            bytes[around].contains(&b'\n')
        });
        let sample = (synced..=bytes.len()).step_by(step);
        let cuts: std::collections::BTreeSet<usize> = sample.chain(borders).collect();
        for cut in cuts {
            let workspace = workspace.snapshot();
            let copy = fast_folder();
            fs::write(copy.path().join("actions.jsonl"), &bytes[..cut]).unwrap();
            for name in ["workspace.json", "acceptance.json"] {
                fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
            }
            let attempt = an_attempt(script(), &workspace, Budget::default());
            let outcome = run_or_die(attempt.resume(copy.path())).unwrap();
            assert_eq!(
                Same::of(&outcome),
                uninterrupted,
                "record {at} cut at {cut}"
            );
            assert_eq!(
                effects(&workspace),
                effects(&whole),
                "record {at} cut at {cut}"
            );
            if prefixes % 8 == 0 {
                assert!(is_proved(copy.path()), "record {at} cut at {cut}");
            }
            prefixes += 1;
        }
    }
    println!("resumed from {prefixes} prefixes: the same outcome, each effect applied once");
    assert!(prefixes > 300, "{prefixes}");
}

/// Knows how long the file was when it was last synced.
struct Syncing {
    journal: Dying,
    path: std::path::PathBuf,
    synced: Arc<Mutex<usize>>,
}

impl Journal for Syncing {
    fn append(&mut self, record: &Record, durability: Durability) -> std::io::Result<()> {
        if durability == Durability::Synced {
            // It is synced before the program can be ended.
            let mut line = self.len();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.journal.append(record, durability)
            }));
            line = self.len().max(line);
            *self.synced.lock().unwrap() = line;
            return result.unwrap_or_else(|thrown| std::panic::resume_unwind(thrown));
        }
        self.journal.append(record, durability)
    }
}

impl Syncing {
    fn len(&self) -> usize {
        usize::try_from(fs::metadata(&self.path).unwrap().len()).unwrap()
    }
}

/// The number of the first record of a kind, or of an intent of a kind.
fn number(folder: &Path, find: impl Fn(&Event) -> bool) -> u64 {
    let journal = ReadJournal::read(folder).unwrap();
    let mut known = journal.known();
    known.find(|record| find(&record.event)).unwrap().seq
}

fn is_intent(event: &Event, find: impl Fn(&Intended) -> bool) -> bool {
    matches!(event, Event::Intent(intent) if find(&intent.effect))
}

/// Where the first write and the first check of the short script are.
fn places_of_intents() -> [u64; 2] {
    let workspace = place(true);
    let (folder, _) = killed(
        an_attempt(short(), &workspace, Budget::default()),
        u64::MAX,
        Moment::After,
    );
    let put = number(folder.path(), |event| {
        is_intent(event, |effect| matches!(effect, Intended::Put { .. }))
    });
    let stage = number(folder.path(), |event| {
        is_intent(event, |effect| matches!(effect, Intended::Stage { .. }))
    });
    [put, stage]
}

fn short() -> Vec<String> {
    vec![
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
        FINISH.to_owned(),
    ]
}

#[test]
fn an_interrupted_write_is_looked_at_and_a_third_content_is_uncertain() {
    let [put, _] = places_of_intents();
    type Meanwhile = fn(&MemoryWorkspace);
    let table: [(Meanwhile, u32, AcceptanceState); 3] = [
        // Not written: once more. (The task's own files are the first two.)
        (|_| {}, 3, AcceptanceState::Accepted),
        // Written, and the answer lost.
        (
            |workspace| {
                workspace.edit(|files| drop(files.insert(path("amounts.py"), File::new(RIGHT))));
            },
            2,
            AcceptanceState::Accepted,
        ),
        // Something else: nobody can know.
        (
            |workspace| {
                workspace.edit(|files| drop(files.insert(path("amounts.py"), File::new("x"))));
            },
            2,
            AcceptanceState::NotEvaluated,
        ),
    ];
    for (meanwhile, puts, state) in table {
        let workspace = place(true);
        let attempt = || an_attempt(short(), &workspace, Budget::default());
        let (folder, _) = killed(attempt(), put, Moment::After);
        meanwhile(&workspace);
        let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
        assert_eq!(outcome.acceptance.state, state);
        assert_eq!(workspace.written(), puts);
        assert_eq!(outcome.uncertain.len(), 1);
        let is_known = state == AcceptanceState::Accepted;
        assert_eq!(outcome.uncertain[0].resolved, is_known);
        assert_eq!(matches!(outcome.end, End::Uncertain { .. }), !is_known);
        assert_eq!(is_proved(folder.path()), is_known);
    }
}

#[test]
fn a_write_can_be_interrupted_again_and_again() {
    let [put, _] = places_of_intents();
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, _) = killed(attempt(), put, Moment::After);
    let mut ended = 1;
    loop {
        // The next program gets a few records further: to the next intent of a write.
        let last = ReadJournal::read(folder.path()).unwrap().records.len() as u64;
        let at = last + 4;
        let end = observer_fn(move |record| {
            if record.seq == at {
                die();
            }
        });
        if ended > 4 || run_or_die(attempt().observer(end).resume(folder.path())).is_some() {
            break;
        }
        ended += 1;
    }
    let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
    assert_eq!(outcome.end, End::Accepted);
    assert_eq!(workspace.written(), 3);
    assert!(ended > 4, "{ended}");
    assert!(is_proved(folder.path()));
}

#[test]
fn an_interrupted_check_is_found_by_its_id_or_runs_in_a_second_place() {
    let [_, stage] = places_of_intents();
    // Intent, prepared, receipt.
    let table = [
        ("never started, no place", true, stage, Moment::After, 1, 1),
        ("never started", true, stage + 1, Moment::After, 1, 1),
        ("it has run", true, stage + 2, Moment::Before, 1, 0),
        ("nobody knows", false, stage + 2, Moment::Before, 2, 1),
        ("its receipt is there", true, stage + 2, Moment::After, 1, 0),
    ];
    for (name, lookup, at, moment, execs, uncertain) in table {
        let workspace = place(lookup);
        let attempt = || an_attempt(short(), &workspace, Budget::default());
        let (folder, _) = killed(attempt(), at, moment);
        let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
        assert_eq!(outcome.end, End::Accepted, "{name}");
        assert_eq!(workspace.calls(Operation::Exec), execs, "{name}");
        assert_eq!(outcome.uncertain.len(), uncertain, "{name}");
        assert!(is_proved(folder.path()), "{name}");
        let ids: Vec<String> = ReadJournal::read(folder.path())
            .unwrap()
            .known()
            .filter_map(|record| match &record.event {
                Event::Intent(intent) if matches!(intent.effect, Intended::Stage { .. }) => {
                    Some(intent.id.to_string())
                }
                _ => None,
            })
            .collect();
        // The second id is the name of the check from then on.
        assert_eq!(ids.len(), 1 + uncertain, "{name}");
        assert_eq!(outcome.checks[0].id.as_str(), ids.last().unwrap(), "{name}");
        // Nothing is left over.
        assert_eq!(workspace.places(), 0, "{name}");
    }
}

#[test]
fn a_pass_counts_only_where_the_files_are_still_those_that_passed() {
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, _) = killed(attempt(), u64::MAX, Moment::After);
    let judged = number(folder.path(), |event| matches!(event, Event::Judged(_)));
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default().turns(4));
    let (folder, _) = killed(attempt(), judged, Moment::After);
    workspace.edit(|files| drop(files.insert(path("other.py"), File::new("x"))));
    let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
    assert_eq!(outcome.acceptance.state, AcceptanceState::NotAccepted);
    assert_eq!(outcome.turns, 4);
    assert!(!is_proved(folder.path()));
}

#[test]
fn a_workspace_that_is_gone_ends_the_attempt() {
    let [_, stage] = places_of_intents();
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, _) = killed(attempt(), stage + 2, Moment::Before);
    let gone = WorkspaceError::Gone(Private::default());
    let workspace = workspace.fault(Fault::new(Operation::Lookup, 1, FaultAt::Before, gone));
    let attempt = an_attempt(short(), &workspace, Budget::default());
    let outcome = run_or_die(attempt.resume(folder.path())).unwrap();
    assert!(
        matches!(outcome.end, End::WorkspaceFailed { .. }),
        "{:?}",
        outcome.end
    );
    assert!(!is_proved(folder.path()));
}

#[test]
fn an_attempt_that_is_over_is_only_written_down_again() {
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, outcome) = killed(attempt(), u64::MAX, Moment::After);
    let outcome = outcome.unwrap();
    let before = effects(&workspace);
    fs::remove_file(folder.path().join("outcome.json")).unwrap();
    fs::write(folder.path().join("patch.diff"), "half").unwrap();
    assert!(!verify(folder.path()).unwrap().proves_acceptance());
    let again = run_or_die(attempt().resume(folder.path())).unwrap();
    assert_eq!(again, outcome);
    assert!(is_proved(folder.path()));
    assert_eq!(effects(&workspace), before);

    // And the end of the workspace is asked for, where that is wanted now.
    let stopped = attempt().stop_at_end(StopAtEnd::Always);
    let stopped = run_or_die(stopped.resume(folder.path())).unwrap();
    assert_eq!(stopped.stop, StopState::Confirmed);
    assert!(is_proved(folder.path()));
    assert_eq!(Same::of(&stopped), Same::of(&outcome));
}

#[test]
fn observers_see_all_records_also_those_of_an_earlier_program() {
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, _) = killed(attempt(), 9, Moment::After);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = Arc::clone(&seen);
    let observer = observer_fn(move |record| watching.lock().unwrap().push(record.seq));
    run_or_die(attempt().observer(observer).resume(folder.path())).unwrap();
    let all = ReadJournal::read(folder.path()).unwrap().records.len() as u64;
    assert_eq!(*seen.lock().unwrap(), (0..all).collect::<Vec<_>>());
}

#[test]
fn a_torn_tail_is_cut_off_and_told() {
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, _) = killed(attempt(), 9, Moment::After);
    let file = folder.path().join("actions.jsonl");
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend_from_slice(b"{\"v\":1,\"seq\":10\n\0\0");
    fs::write(&file, bytes).unwrap();
    let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
    assert!(outcome.is_accepted() && is_proved(folder.path()));
    let journal = ReadJournal::read(folder.path()).unwrap();
    let torn = journal.known().find_map(|record| match &record.event {
        Event::Resumed(resumed) => Some(resumed.torn_bytes),
        _ => None,
    });
    assert_eq!(torn, Some(18));
}

#[test]
fn what_cannot_be_gone_on_with_is_refused_and_nothing_is_done() {
    let workspace = place(true);
    let attempt = || an_attempt(short(), &workspace, Budget::default());
    let (folder, _) = killed(attempt(), 9, Moment::After);
    let before = (
        effects(&workspace),
        fs::read(folder.path().join("actions.jsonl")).unwrap(),
    );
    // What a crash has left is in the way of nothing, and is not cut off for another attempt.
    let file = folder.path().join("actions.jsonl");
    let torn = [&before.1, &b"{\"v\":1"[..]].concat();
    fs::write(&file, &torn).unwrap();
    let sentence = |attempt: Attempt| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let error = runtime.block_on(attempt.resume(folder.path())).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!(
            "{error}{}",
            cause.map_or(String::new(), |cause| format!(": {cause}"))
        )
    };
    let other =
        |what: &str| format!("the journal is of another attempt: its {what} is not the same");
    assert_eq!(sentence(attempt().seed(7)), other("model"));
    assert_eq!(sentence(attempt().system_prompt("x")), other("prompt"));
    assert_eq!(
        sentence(attempt().budget(Budget::default().turns(13))),
        other("budget")
    );
    let policy = crate::policy::policy_fn(|_, _| crate::policy::Decision::Allow);
    assert_eq!(
        sentence(attempt().policy(policy)),
        other("number of policies")
    );
    let identity = folder.path().join("workspace.json");
    let kept = fs::read(&identity).unwrap();
    fs::write(&identity, "{}").unwrap();
    assert_eq!(sentence(attempt()), other("workspace.json"));
    fs::write(&identity, kept).unwrap();
    assert_eq!(fs::read(&file).unwrap(), torn);
    fs::write(&file, &before.1).unwrap();
    let (held, _) = FileJournal::resume(folder.path()).unwrap();
    assert!(matches!(
        FileJournal::resume(folder.path()),
        Err(CorruptJournal::Busy)
    ));
    let busy = "the journal cannot be gone on with: another program writes the journal";
    assert_eq!(sentence(attempt()), busy);
    drop(held);
    let mut damaged = before.1.clone();
    damaged[200] ^= 1;
    fs::write(&file, damaged).unwrap();
    let damaged = sentence(attempt());
    assert!(
        damaged.starts_with("the journal cannot be gone on with: line 1 "),
        "{damaged}"
    );
    fs::write(&file, &before.1).unwrap();
    let missing = fast_folder();
    let error = run_refused(attempt(), missing.path());
    assert_eq!(error.to_string(), "the journal cannot be gone on with");
    assert_eq!((effects(&workspace), fs::read(file).unwrap()), before);
}

fn run_refused(attempt: Attempt, folder: &Path) -> Error {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(attempt.resume(folder)).unwrap_err()
}
