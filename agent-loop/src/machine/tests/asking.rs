//! What the model is asked and offered, and what is kept about it.

use super::drive;
use crate::acceptance::Verdict;
use crate::budget::Budget;
use crate::journal::{Durability, Event, Intended, MemoryJournal};
use crate::policy::Paths;
use crate::prompt::Order;
use crate::test_kit::{CHECK, FINISH, RIGHT, WRONG, attempt, fix, model, pretending, read, write};
use crate::workspace::MemoryWorkspace;
use crate::{Attempt, Task};

#[tokio::test]
async fn the_offer_follows_the_state() {
    let offered = |journal: &MemoryJournal| -> Vec<String> {
        let words = |schema: &str| {
            let words = ["read", "write", "check", "finish"];
            words
                .into_iter()
                .filter(|word| schema.contains(&format!("\"enum\":[\"{word}\"]")))
                .collect::<Vec<_>>()
                .join(" ")
        };
        journal
            .records()
            .iter()
            .filter_map(|(record, _)| match &record.event {
                Event::Asked(asked) => Some(words(&asked.schema)),
                _ => None,
            })
            .collect()
    };
    let script = || {
        model([
            read("amounts.py"),
            write("amounts.py", "x = 1\n"),
            CHECK.to_owned(),
            fix(),
            CHECK.to_owned(),
            FINISH.to_owned(),
        ])
    };
    let (_, journal) = drive(attempt(script(), &pretending())).await;
    assert_eq!(
        offered(&journal),
        ["read", "write", "check", "write", "check", "finish"]
    );
    let (_, journal) = drive(attempt(script(), &pretending()).order(Order::Open)).await;
    assert_eq!(
        offered(&journal),
        [
            "read write",
            "read write",
            "read write check",
            "read write",
            "read write check",
            "read write finish"
        ]
    );
}

#[tokio::test]
async fn twelve_turns_with_full_observations_fit_a_window_of_8192_tokens() {
    let long =
        |letter: &str, len: usize| format!("{}\n", format!("{letter} = 12345\n").repeat(len / 10));
    let mut task = Task::new(
        "long",
        "Make total(xs) return the sum, and keep everything else as it is. ".repeat(4),
    );
    let mut replies = Vec::new();
    for at in 0..6 {
        let name = format!("f{at}.py");
        task = task.file(&name, long("a", 9000)).unwrap();
        replies.push(read(&name));
        replies.push(write(&name, &long("b", 9000)));
    }
    let noisy = MemoryWorkspace::new(|_, _| Ok(crate::ExecReceipt::exited(1)));
    struct Noisy;
    impl crate::Acceptance for Noisy {
        fn revision(&self) -> crate::Digest {
            crate::Digest::of(b"noisy")
        }
        fn names(&self) -> Vec<String> {
            vec!["unit".to_owned()]
        }
        fn plan(&self, _: &str) -> Option<crate::CheckPlan> {
            Some(crate::CheckPlan::new(
                crate::Stage::new(crate::ExecSpec::new(["true"])),
                crate::Level::ExitCode,
            ))
        }
        fn judge(&self, _: &crate::Evidence<'_>) -> Verdict {
            Verdict::fail("- failed: 0123456789\n".repeat(1000))
        }
    }
    replies.insert(4, CHECK.to_owned());
    // Refusals at their longest stand in each later prompt as well.
    replies.insert(5, write(&"x".repeat(3000), ""));
    replies.truncate(12);
    let names: Vec<String> = (0..6).map(|at| format!("f{at}.py")).collect();
    let attempt = Attempt::new(
        task,
        model(replies),
        noisy,
        Noisy,
        Paths::editable(names).unwrap(),
    );
    let (outcome, journal) = drive(attempt.allow_checks(true).order(Order::Open)).await;
    assert_eq!(outcome.turns, 12);
    let estimates: Vec<u64> = journal
        .records()
        .iter()
        .filter_map(|(record, _)| match &record.event {
            Event::Asked(asked) => Some(asked.estimated_tokens),
            _ => None,
        })
        .collect();
    let largest = estimates.iter().max().unwrap() + 1024;
    println!(
        "largest prompt and reply, at a token for three bytes: {largest}; prompts: {estimates:?}"
    );
    assert!(largest < 8192, "{largest}");
    assert!(
        *estimates.iter().max().unwrap() > 3000,
        "the test must come near the limit: {estimates:?}"
    );
}

#[tokio::test]
async fn every_turn_has_a_seed_of_its_own() {
    let script = model([read("amounts.py"), fix()]);
    let (_, journal) = drive(
        attempt(script, &pretending())
            .seed(4)
            .budget(Budget::default().turns(2)),
    )
    .await;
    let seeds: Vec<Option<u64>> = journal
        .records()
        .iter()
        .filter_map(|(record, _)| match &record.event {
            Event::Asked(asked) => Some(asked.seed),
            _ => None,
        })
        .collect();
    assert_eq!(seeds, [Some(4000), Some(4001)]);
}

#[tokio::test]
async fn an_intent_is_kept_before_its_effect_and_a_receipt_after_it() {
    let script = model([
        read("amounts.py"),
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ]);
    let (_, journal) = drive(attempt(script, &pretending())).await;
    let kinds: Vec<(&str, bool)> = journal
        .records()
        .iter()
        .map(|(record, durability)| (record.event.kind(), *durability == Durability::Synced))
        .collect();
    let turn = |read_only: bool| {
        let synced = !read_only;
        vec![
            ("asked", false),
            ("replied", false),
            ("decided", false),
            ("intent", synced),
            ("receipt", synced),
        ]
    };
    let mut expected = vec![("started", false), ("intent", true), ("receipt", true)];
    expected.extend(turn(true));
    expected.push(("turn", false));
    expected.extend(turn(false));
    expected.push(("turn", false));
    expected.extend(turn(false));
    // A command is started when its place is ready.
    expected.insert(expected.len() - 1, ("prepared", false));
    expected.extend([("judged", false), ("turn", false)]);
    expected.extend(turn(true));
    expected.extend([("turn", false), ("ended", true)]);
    assert_eq!(kinds, expected);
    let ids: Vec<String> = journal
        .records()
        .iter()
        .filter_map(|(record, _)| match &record.event {
            Event::Intent(intent) => Some(intent.id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        ids,
        [
            "amounts-1.0.0",
            "amounts-1.1.1",
            "amounts-1.2.1",
            "amounts-1.3.1",
            "amounts-1.4.1"
        ]
    );
}

#[tokio::test]
async fn a_question_before_a_write_has_its_intent_with_both_digests() {
    let (_, journal) =
        drive(attempt(model([fix()]), &pretending()).budget(Budget::default().turns(1))).await;
    let put = journal
        .records()
        .into_iter()
        .find_map(|(record, _)| match record.event {
            Event::Intent(intent) => match intent.effect {
                Intended::Put {
                    before, after, len, ..
                } => Some((before, after, len)),
                _ => None,
            },
            _ => None,
        });
    let before = crate::workspace::Precondition::Is(crate::Digest::of(WRONG.as_bytes()));
    assert_eq!(
        put,
        Some((
            before,
            crate::Digest::of(RIGHT.as_bytes()),
            RIGHT.len() as u64
        ))
    );
}
