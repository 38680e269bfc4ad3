//! A proof holds exactly where the change was accepted, and no longer when a byte is changed.

mod hidden;
mod property;
mod recorded;

use std::fs;
use std::path::Path;

use super::*;
use crate::acceptance::{CheckPlan, Evidence, Level, Stage, Verdict};
use crate::budget::Budget;
use crate::journal::{Answer, Durability, Event, FileJournal, Journal as _, ReplyRecord};
use crate::policy::{Decision, policy_fn};
use crate::test_kit::*;
use crate::workspace::{ExecReceipt, ExecSpec, MemoryWorkspace};
use crate::{Attempt, RunDir};

/// An attempt in a folder, with everything that a folder can hold.
fn recorded(script: Vec<String>, change: impl FnOnce(Attempt) -> Attempt) -> tempfile::TempDir {
    let folder = fast_folder();
    let attempt = Attempt::new(task(), by_turn(script), pretending(), acceptance(), paths());
    let attempt = attempt
        .allow_checks(true)
        .clock(JumpingClock::default())
        .keep_files(true)
        .record_in(RunDir::create(folder.path()).unwrap());
    run_or_die(change(attempt).drive()).unwrap();
    folder
}

fn accepted() -> Vec<String> {
    let wrong = write("amounts.py", "def total(xs):\n    return 1\n");
    [
        &read("amounts.py"),
        &wrong,
        CHECK,
        "no action",
        &fix(),
        CHECK,
        FINISH,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn problems(verification: &Verification) -> Vec<String> {
    let problems = verification.problems.iter();
    problems.map(ToString::to_string).collect()
}

#[test]
fn a_run_is_proved_where_it_is_accepted_and_consistent_where_it_is_not() {
    let folder = recorded(accepted(), |attempt| attempt);
    let verification = verify(folder.path()).unwrap();
    assert_eq!(problems(&verification), [""; 0]);
    assert!(verification.proves_acceptance());
    assert_eq!(verification.uncovered, [""; 0]);
    let tree = verification.outcome.as_ref().unwrap().acceptance.tree;
    let said = format!(
        "proved: accepted at level counted, tree {} (48 records)",
        tree.unwrap()
    );
    assert_eq!(verification.to_string(), said);

    let folder = recorded(accepted(), |attempt| {
        attempt.budget(Budget::default().turns(6))
    });
    let verification = verify(folder.path()).unwrap();
    assert!(verification.is_consistent() && !verification.proves_acceptance());
    let said = "holds: not_accepted, exhausted: all turns are used (42 records)";
    assert_eq!(verification.to_string(), said);
}

#[test]
fn a_folder_without_a_journal_cannot_be_read_and_an_empty_one_proves_nothing() {
    let folder = fast_folder();
    let error = verify(folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("cannot be read"), "{error}");
    fs::write(folder.path().join("actions.jsonl"), "").unwrap();
    let verification = verify(folder.path()).unwrap();
    let said = "does not hold: 1 problem (0 records)\n  line 1, order: there is no first record";
    assert!(verification.to_string().starts_with(said), "{verification}");
}

/// Every file of a folder, with its path in it.
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            files.push((name, fs::read(path).unwrap()));
        }
    }
    files.sort();
    files
}

/// Changes a file of a run that is proved: each `step`th byte, cuts, more at its end, no file.
/// Answers how many changes were made.
fn tamper(folder: &Path, name: &str, bytes: &[u8], step: usize) -> usize {
    let path = folder.join(name);
    let mut count = 0;
    let mut tampered = |bytes: &[u8], how: &str| {
        fs::write(&path, bytes).unwrap();
        let verification = verify(folder).unwrap();
        assert!(!verification.proves_acceptance(), "{name}: {how}");
        assert!(!verification.is_consistent(), "{name}: {how}");
        count += 1;
    };
    for at in (0..bytes.len()).step_by(step) {
        for mask in [1, 0x20, 0x80] {
            let mut changed = bytes.to_vec();
            changed[at] ^= mask;
            tampered(&changed, &format!("byte {at} xor {mask}"));
        }
        tampered(&bytes[..at], &format!("cut at {at}"));
        let mut missing = bytes.to_vec();
        missing.remove(at);
        tampered(&missing, &format!("byte {at} is missing"));
    }
    for more in [b"\n".as_slice(), b" ", b"\0", b"{}\n"] {
        tampered(&[bytes, more].concat(), &format!("{more:?} at its end"));
    }
    fs::remove_file(&path).unwrap();
    if name == "actions.jsonl" {
        verify(folder).unwrap_err();
    } else {
        let verification = verify(folder).unwrap();
        // Without the description of the evaluator nothing is wrong, and nothing is proved. The
        // page can be made again.
        let is_page = name == "report.html";
        let is_consistent = name == "acceptance.json" || is_page;
        assert_eq!(verification.is_consistent(), is_consistent, "{name}");
        assert_eq!(verification.proves_acceptance(), is_page, "{name}");
    }
    fs::write(&path, bytes).unwrap();
    count
}

/// By default every 211th byte; `AGENT_LOOP_TAMPER=1` takes each.
#[test]
fn no_byte_of_any_file_can_be_changed_cut_or_added() {
    let step = how_many("AGENT_LOOP_TAMPER", 211);
    let folder = recorded(accepted(), |attempt| attempt);
    let folder = folder.path();
    assert!(verify(folder).unwrap().proves_acceptance());
    let files = files(folder);
    let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
    let wanted = [
        "acceptance.json",
        "actions.jsonl",
        "files/amounts.py",
        "files/test_amounts.py",
        "outcome.json",
        "patch.diff",
        "report.html",
        "workspace.json",
    ];
    assert_eq!(names, wanted);
    let changes = files
        .iter()
        .map(|(name, bytes)| tamper(folder, name, bytes, step));
    let count: usize = changes.sum();
    assert!(verify(folder).unwrap().proves_acceptance());
    println!("{count} changes in {} files, each found", names.len());
}

/// A body that is too large for a line is in a file of its own, and as safe there.
#[test]
fn no_blob_can_be_changed_cut_or_added_to() {
    let mut script = accepted();
    script[4] = write(
        "amounts.py",
        &format!("{RIGHT}# {}\n", "x".repeat(32 * 1024)),
    );
    let folder = recorded(script, |attempt| attempt);
    let folder = folder.path();
    assert!(verify(folder).unwrap().proves_acceptance());
    let files = files(folder);
    let blobs = files.iter().filter(|(name, _)| name.starts_with("blobs/"));
    let changes: Vec<usize> = blobs
        .map(|(name, bytes)| tamper(folder, name, bytes, bytes.len() / 5))
        .collect();
    assert!(!changes.is_empty());
    assert!(verify(folder).unwrap().proves_acceptance());
    println!("{changes:?} changes in blobs, each found");
}

/// The run with other records, written anew: every line is whole and follows the one before it, and
/// the outcome names the last one.
fn forged(folder: &Path, change: impl Fn(&mut Vec<Event>)) -> tempfile::TempDir {
    let forged = fast_folder();
    for (name, bytes) in files(folder) {
        if name != "actions.jsonl" && !name.starts_with("blobs/") {
            let path = forged.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    let journal = ReadJournal::read(folder).unwrap();
    let mut events: Vec<Event> = journal.known().map(|record| record.event.clone()).collect();
    change(&mut events);
    let mut journal = FileJournal::create(forged.path()).unwrap();
    for (seq, event) in events.into_iter().enumerate() {
        let record = Record::new(seq as u64, jiff::Timestamp::UNIX_EPOCH, event);
        journal.append(&record, Durability::Buffered).unwrap();
    }
    let path = forged.path().join("outcome.json");
    let mut outcome: Outcome = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    outcome.chain_head = journal.chain_head();
    fs::write(path, crate::evidence::pretty(&outcome).unwrap()).unwrap();
    forged
}

#[test]
fn whoever_writes_a_whole_journal_anew_is_found_out_by_what_it_says() {
    type Change = fn(&mut Vec<Event>);
    fn first<T>(events: &mut [Event], find: impl Fn(&mut Event) -> Option<&mut T>) -> &mut T {
        events.iter_mut().find_map(find).unwrap()
    }
    macro_rules! find {
        ($events:expr, $kind:ident) => {
            first($events, |event| match event {
                Event::$kind(body) => Some(body),
                _ => None,
            })
        };
    }
    let table: [(Change, &[&str]); 14] = [
        (
            |events| find!(events, Asked).prompt.push('!'),
            &["line 4, question: prompt is"],
        ),
        (
            |events| {
                let replied = events.iter_mut().rev().find_map(|event| match event {
                    Event::Replied(replied) => Some(replied),
                    _ => None,
                });
                if let ReplyRecord::Reply { text, .. } = &mut replied.unwrap().reply {
                    *text = CHECK.to_owned();
                }
            },
            &["line 44, decision: action is \"finish\" and should be \"check\""],
        ),
        (
            |events| {
                let decided = events.iter_mut().find_map(|event| match event {
                    Event::Decided(decided) if decided.defect.is_some() => Some(decided),
                    _ => None,
                });
                decided.unwrap().decision = Decision::Allow;
            },
            &["line 26, decision: decision.decision is \"allow\" and should be \"deny\""],
        ),
        (
            |events| find!(events, Judged).verdict = Verdict::pass("2 tests passed"),
            &["line 22, verdict: verdict.feedback is null"],
        ),
        (
            |events| find!(events, Judged).tree = crate::Tree::new().hash(),
            &["line 22, verdict: tree is"],
        ),
        (
            // The first check has failed: let it pass, and the rest follows differently.
            |events| {
                let receipt = events.iter_mut().find_map(|event| match event {
                    Event::Receipt(receipt) => match &mut receipt.answer {
                        Answer::Stage(run) => Some(run),
                        _ => None,
                    },
                    _ => None,
                });
                receipt.unwrap().receipt =
                    ExecReceipt::exited(0).stderr("Ran 2 tests in 0.001s\n\nOK\n");
            },
            &["line 22, verdict: evidence is"],
        ),
        (
            |events| find!(events, Prepared).before = crate::Manifest::default(),
            &["line 21, order: \"receipt\" cannot come here"],
        ),
        (
            |events| find!(events, Turn).said = "all is well".to_owned(),
            &["line 9, turn: said is \"all is well\" and should be"],
        ),
        (
            |events| {
                let at = events.iter().position(|event| event.kind() == "judged");
                events.remove(at.unwrap());
            },
            &["line 22, order: \"turn\" is there, and \"judged\" comes next"],
        ),
        (
            |events| {
                let last = events.len() - 1;
                events.swap(last - 1, last);
            },
            &["line 47, order: \"ended\" is there, and \"turn\" comes next"],
        ),
        (
            |events| find!(events, Ended).turns = 3,
            &["line 48, end: turns is 3 and should be 7"],
        ),
        (
            |events| find!(events, Started).budget.turns = 3,
            &["line 24, order: \"asked\" cannot come here"],
        ),
        (
            |events| find!(events, Started).system.push('!'),
            &["line 1, start: revisions.prompt is not the digest of what it names"],
        ),
        (
            |events| {
                let checks = &mut find!(events, Started).checks;
                let stage = &mut checks.get_mut("unit").unwrap().stages[0];
                stage.argv = vec!["true".to_owned()];
            },
            &["line 1, plan: check \"unit\" has another plan than the evaluator makes"],
        ),
    ];
    let folder = recorded(accepted(), |attempt| attempt);
    let same = forged(folder.path(), |_| {});
    assert!(verify(same.path()).unwrap().proves_acceptance());
    for (at, (change, expected)) in table.into_iter().enumerate() {
        let folder = forged(folder.path(), change);
        let verification = verify(folder.path()).unwrap();
        let problems = problems(&verification);
        assert!(!verification.proves_acceptance(), "{at}");
        for expected in expected {
            let is_told = problems.iter().any(|told| told.starts_with(expected));
            assert!(is_told, "{at}: {expected}: {problems:#?}");
        }
    }
}

#[test]
fn a_digest_that_was_kept_elsewhere_finds_a_run_that_was_made_up_as_a_whole() {
    let real = recorded(accepted(), |attempt| attempt);
    let head = ReadJournal::read(real.path()).unwrap().chain_head.unwrap();
    let other = recorded(
        vec![fix(), CHECK.to_owned(), FINISH.to_owned()],
        |attempt| attempt,
    );
    assert!(verify(other.path()).unwrap().proves_acceptance());
    let verifier = |folder: &Path| Verifier::new(folder).chain_head(head);
    assert!(verifier(real.path()).verify().unwrap().proves_acceptance());
    let told = problems(&verifier(other.path()).verify().unwrap());
    assert_eq!(told, ["journal: has another last line than it should"]);
}

/// An acceptance of somebody's own, which says nothing of itself.
#[derive(Clone)]
struct Own {
    passes: bool,
}

impl Acceptance for Own {
    fn revision(&self) -> Digest {
        Digest::of(b"own")
    }

    fn names(&self) -> Vec<String> {
        vec!["own".to_owned()]
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        let stage = Stage::new(ExecSpec::new(["make"]).env("KEY", "k-TEST-1"));
        (name == "own").then(|| CheckPlan::new(stage, Level::ExitCode))
    }

    fn judge(&self, _: &Evidence<'_>) -> Verdict {
        match self.passes {
            true => Verdict::scored("fine", 2.0 / 3.0),
            false => Verdict::fail("no"),
        }
    }
}

#[test]
fn verdicts_of_an_evaluator_that_is_not_at_hand_are_told_and_prove_nothing() {
    let folder = fast_folder();
    let workspace = MemoryWorkspace::new(|_, _| Ok(ExecReceipt::exited(0)));
    let own = Own { passes: true };
    let script = by_turn(vec![fix(), CHECK.to_owned(), FINISH.to_owned()]);
    let attempt = Attempt::new(task(), script, workspace, own.clone(), paths())
        .allow_checks(true)
        .record_in(RunDir::create(folder.path()).unwrap());
    assert!(run_or_die(attempt.drive()).unwrap().is_accepted());

    let verification = verify(folder.path()).unwrap();
    assert!(verification.is_consistent() && !verification.proves_acceptance());
    let revision = own.revision().short();
    let why = format!("evaluator {revision} is not at hand: it does not describe itself");
    assert_eq!(verification.verdicts, Recomputed::no(&why));
    let said = verification.to_string();
    assert!(said.starts_with("not proved ("), "{said}");
    assert!(
        said.ends_with(&format!("verdicts not recomputed: {why}")),
        "{said}"
    );

    let with = |own| {
        Verifier::new(folder.path())
            .acceptance(own)
            .verify()
            .unwrap()
    };
    assert!(with(own).proves_acceptance());
    let told = with(Own { passes: false });
    assert!(!told.proves_acceptance());
    assert!(
        problems(&told)
            .iter()
            .any(|told| told.contains("verdict: "))
    );
    let other = Verifier::new(folder.path()).acceptance(acceptance());
    let other = other.verify().unwrap();
    assert!(!other.proves_acceptance());
    assert!(
        matches!(&other.verdicts, Recomputed::No { why } if why.starts_with("the evaluator at hand is"))
    );
    // What a command is given may be secret.
    for (name, bytes) in files(folder.path()) {
        assert!(
            !String::from_utf8_lossy(&bytes).contains("k-TEST"),
            "{name}"
        );
    }
}

/// A run whose hidden tests ran in a fresh place.
fn with_a_fresh_place() -> tempfile::TempDir {
    let folder = fast_folder();
    let hidden = acceptance()
        .hidden("test_hidden.py", "hidden-1234", 3)
        .unwrap();
    let fresh = MemoryWorkspace::new(|_, _| {
        Ok(ExecReceipt::exited(0).stderr("Ran 3 tests in 0.001s\n\nOK\n"))
    });
    let script = by_turn(vec![fix(), CHECK.to_owned(), FINISH.to_owned()]);
    let attempt = Attempt::new(task(), script, pretending(), hidden, paths())
        .allow_checks(true)
        .fresh(fresh)
        .clock(JumpingClock::default())
        .record_in(RunDir::create(folder.path()).unwrap());
    assert!(run_or_die(attempt.drive()).unwrap().is_accepted());
    folder
}

#[test]
fn a_fresh_place_is_the_one_that_the_journal_names_and_is_fresh() {
    type Change = fn(&mut Vec<Event>);
    const PLACING: &str = "\"placing\" cannot come here";
    const PLACED: &str = "\"placed\" cannot come here";
    const PREPARED: &str = "\"prepared\" cannot come here";
    const LEFT: &str = "\"left\" cannot come here";

    fn run(name: &str) -> serde_json::Value {
        serde_json::json!({"sandbox_run_uuid": name, "folder": "/tmp/check"})
    }
    /// Another identity in each of the records of these kinds.
    fn moved(events: &mut [Event], kinds: &[&str]) {
        let mut fresh = None;
        for event in events {
            let is_meant = kinds.contains(&event.kind());
            match event {
                Event::Placed(placed) => {
                    fresh = Some(placed.id.clone());
                    if is_meant {
                        placed.identity = run("other");
                    }
                }
                Event::Prepared(prepared) if is_meant && fresh.as_ref() == Some(&prepared.id) => {
                    prepared.identity = run("other");
                }
                Event::Receipt(receipt) if is_meant && fresh.as_ref() == Some(&receipt.id) => {
                    if let Answer::Stage(ran) = &mut receipt.answer {
                        ran.identity = run("other");
                    }
                }
                _ => {}
            }
        }
    }
    let table: [(Change, &str); 10] = [
        // Not named before it is used.
        (
            |events| events.retain(|event| event.kind() != "placed"),
            PREPARED,
        ),
        // Another one than was named, than was used, than was judged.
        (|events| moved(events, &["placed"]), PREPARED),
        (
            |events| moved(events, &["placed", "prepared"]),
            "\"receipt\" cannot come here",
        ),
        (
            |events| moved(events, &["placed", "prepared", "receipt"]),
            "verdict: evidence is",
        ),
        // The sandbox of the workspace is none.
        (
            |events| {
                moved(events, &["placed", "prepared", "receipt"]);
                if let Some(Event::Started(started)) = events.first_mut() {
                    started.workspace.identity = run("other");
                }
            },
            PLACED,
        ),
        // Nor is one that was there before.
        (
            |events| {
                let at = events.iter().position(|event| event.kind() == "placed");
                let again = events[at.unwrap()].clone();
                events.insert(at.unwrap(), again);
            },
            PLACED,
        ),
        // It is asked for once, and before it is there.
        (
            |events| {
                let at = events.iter().position(|event| event.kind() == "placing");
                let again = events[at.unwrap()].clone();
                events.insert(at.unwrap(), again);
            },
            PLACING,
        ),
        (
            |events| {
                let at = events.iter().position(|event| event.kind() == "placing");
                let placing = events.remove(at.unwrap());
                events.insert(at.unwrap() + 1, placing);
            },
            PLACING,
        ),
        // What was not made cannot be left, and it is left once.
        (
            |events| {
                let at = events.iter().position(|event| event.kind() == "left");
                let left = events[at.unwrap()].clone();
                events.insert(at.unwrap(), left);
            },
            LEFT,
        ),
        (
            |events| {
                let left = events.iter().position(|event| event.kind() == "left");
                let left = events.remove(left.unwrap());
                events.insert(3, left);
            },
            LEFT,
        ),
    ];
    let folder = with_a_fresh_place();
    let same = forged(folder.path(), |_| {});
    assert!(verify(same.path()).unwrap().proves_acceptance());
    // Journals of before do not say that it is about to be asked for.
    let of_before = forged(folder.path(), |events| {
        let all = events.len();
        events.retain(|event| event.kind() != "placing");
        assert_eq!(events.len() + 1, all);
    });
    // Their page is about their journal.
    fs::remove_file(of_before.path().join("report.html")).unwrap();
    assert!(verify(of_before.path()).unwrap().proves_acceptance());
    for (at, (change, expected)) in table.into_iter().enumerate() {
        let folder = forged(folder.path(), change);
        let verification = verify(folder.path()).unwrap();
        let problems = problems(&verification);
        assert!(!verification.proves_acceptance(), "{at}");
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{at}: {problems:?}"
        );
    }
}

#[test]
fn a_policy_is_believed_as_far_as_it_is_stricter_than_the_rules() {
    let no_finish = || {
        policy_fn(|context, action| match action {
            crate::Action::Finish { .. } if context.turn < 4 => Decision::deny("not so soon"),
            _ => Decision::Allow,
        })
    };
    let script = [&fix(), CHECK, FINISH, FINISH, &read("/etc/passwd")];
    let script = script.map(str::to_owned).to_vec();
    let folder = recorded(script, |attempt| attempt.policy(no_finish()));
    let believed = verify(folder.path()).unwrap();
    assert!(believed.proves_acceptance(), "{believed}");
    let why = "0 of 1 are at hand";
    assert_eq!(believed.policies, Recomputed::no(why));
    let verifier = || Verifier::new(folder.path());
    let recomputed = verifier().policy(no_finish()).verify().unwrap();
    assert!(recomputed.proves_acceptance());
    assert_eq!(recomputed.policies, Recomputed::Yes);
    let other = verifier().policy(policy_fn(|_, _| Decision::Allow));
    assert!(!other.verify().unwrap().is_consistent());

    // What the rules deny no policy can have allowed.
    let script = vec![write("test_amounts.py", ""), CHECK.to_owned()];
    let folder = recorded(script, |attempt| {
        attempt.policy(policy_fn(|_, _| Decision::Allow))
    });
    assert!(verify(folder.path()).unwrap().is_consistent());
    let forged = forged(folder.path(), |events| {
        for event in events {
            if let Event::Decided(decided) = event {
                decided.decision = Decision::Allow;
            }
        }
    });
    let told = problems(&verify(forged.path()).unwrap());
    assert!(
        told[0].starts_with("line 6, decision: decision.decision is \"allow\""),
        "{told:?}"
    );
}
