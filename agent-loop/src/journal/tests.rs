//! A journal is read back as it was written, and damage is seen.

use std::fs;

use proptest::prelude::*;

use super::file::MAX_INLINE;
use super::*;
use crate::evidence::RunDir;
use crate::manifest::File;
use crate::outcome::Outcome;
use crate::test_kit::*;

/// A whole attempt in a folder: its journal as bytes, and its records.
async fn recorded(content: &str) -> (tempfile::TempDir, Outcome, Vec<Record>) {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = Arc::clone(&seen);
    let script = model([
        write("amounts.py", content),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ]);
    let outcome = attempt(script, &pretending())
        .record_in(RunDir::create(folder.path()).unwrap())
        .clock(JumpingClock::default())
        .observer(observer_fn(move |record| {
            watching.lock().unwrap().push(record.clone());
        }))
        .drive()
        .await
        .unwrap();
    let records = seen.lock().unwrap().clone();
    (folder, outcome, records)
}

fn known(journal: &ReadJournal) -> Vec<Record> {
    let entries = journal.records.iter();
    entries
        .map(|entry| match entry {
            JournalEntry::Known(record) => Record::clone(record),
            JournalEntry::Skipped { kind, .. } => panic!("{kind} was skipped"),
        })
        .collect()
}

/// Too large for a line.
const LARGE: usize = MAX_INLINE + 1;

fn no_blobs(_: &Digest) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::NotFound.into())
}

fn damaged(error: CorruptJournal) -> (usize, usize, String) {
    match error {
        CorruptJournal::Damaged {
            line,
            offset,
            problem,
        } => (line, offset, problem),
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn what_was_written_is_read_back() {
    // Line ends and separators of every kind, and more than fits into a line.
    let odd = format!("{RIGHT}# \r\n\u{2028}\u{85}\x0c{}\n", "x".repeat(LARGE));
    for content in [RIGHT, &odd] {
        let (folder, outcome, records) = recorded(content).await;
        assert!(outcome.is_accepted());
        let journal = ReadJournal::read(folder.path()).unwrap();
        assert_eq!(known(&journal), records);
        assert_eq!(
            (journal.chain_head, journal.torn_tail),
            (outcome.chain_head, None)
        );
        let text = fs::read(folder.path().join("actions.jsonl")).unwrap();
        assert_eq!(
            text.iter().filter(|byte| **byte == b'\n').count(),
            records.len()
        );
        assert_eq!(folder.path().join("blobs").exists(), content == odd);
    }
}

#[tokio::test]
async fn the_first_line_has_a_fixed_form() {
    let (folder, _, _) = recorded(RIGHT).await;
    let text = fs::read_to_string(folder.path().join("actions.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let first = r#"{"v":1,"seq":0,"at_ms":0,"prev":"00000000000000000000000000000000","kind":"started","body":{"task":{"id":"amounts","attempt":1},"text":"#;
    assert!(lines[0].starts_with(first), "{}", lines[0]);
    let prev = &Digest::of(lines[0].as_bytes()).to_string()[..32];
    let second = format!(
        r#"{{"v":1,"seq":1,"at_ms":0,"prev":"{prev}","kind":"intent","body":{{"id":"amounts-1.0.0""#
    );
    assert!(lines[1].starts_with(&second), "{}", lines[1]);
}

#[tokio::test]
async fn a_journal_that_was_cut_anywhere_is_a_prefix_of_whole_records() {
    let (folder, _, records) = recorded(RIGHT).await;
    let bytes = fs::read(folder.path().join("actions.jsonl")).unwrap();
    let ends: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at] == b'\n')
        .map(|at| at + 1)
        .collect();
    // A sample of all places, and every one around the end of a record.
    let sample = (0..=bytes.len()).step_by(13);
    let borders = ends
        .iter()
        .flat_map(|end| end - 1..=(end + 1).min(bytes.len()));
    for cut in sample.chain(borders) {
        let journal = ReadJournal::parse(&bytes[..cut], no_blobs).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(known(&journal), records[..whole], "cut at {cut}");
        let start = whole.checked_sub(1).map_or(0, |at| ends[at]);
        let tail = (start < cut).then_some(TornTail {
            offset: start,
            len: cut - start,
        });
        assert_eq!(journal.torn_tail, tail, "cut at {cut}");
    }
}

#[tokio::test]
async fn a_tail_of_rubbish_blanks_or_nothing_is_cut_off() {
    let (folder, _, records) = recorded(RIGHT).await;
    let bytes = fs::read(folder.path().join("actions.jsonl")).unwrap();
    let tails: [&[u8]; 5] = [
        b"{\"v\":1,",
        b"{\"v\":1,\n",
        b"{\"v\":1,\n\n \n",
        b"\0\0\0\0",
        b"\n",
    ];
    for tail in tails {
        let journal = ReadJournal::parse(&[&bytes, tail].concat(), no_blobs).unwrap();
        assert_eq!(journal.records.len(), records.len(), "{tail:?}");
        assert_eq!(
            journal.torn_tail,
            Some(TornTail {
                offset: bytes.len(),
                len: tail.len()
            })
        );
    }
    // Rubbish that a record follows is no tail.
    let first_end = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let middle = [&bytes[..first_end], b"{\"v\":1,\n", &bytes[first_end..]].concat();
    let (line, offset, _) = damaged(ReadJournal::parse(&middle, no_blobs).unwrap_err());
    assert_eq!((line, offset), (2, first_end));
}

#[tokio::test]
async fn a_byte_that_was_changed_is_found_in_its_line() {
    let (folder, _, _) = recorded(RIGHT).await;
    let bytes = fs::read(folder.path().join("actions.jsonl")).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    let fourth = ends[2] + 1..ends[3] + 1;
    for at in fourth.clone() {
        for mask in [1, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            let (line, offset, problem) =
                damaged(ReadJournal::parse(&bytes, no_blobs).unwrap_err());
            assert_eq!((line, offset), (4, fourth.start), "byte {at}: {problem}");
        }
    }
}

#[tokio::test]
async fn a_line_that_is_missing_or_moved_is_seen() {
    let (folder, _, _) = recorded(RIGHT).await;
    let bytes = fs::read(folder.path().join("actions.jsonl")).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let mut missing = lines.clone();
    missing.remove(3);
    damaged(ReadJournal::parse(&missing.concat(), no_blobs).unwrap_err());
    let mut moved = lines;
    moved.swap(3, 4);
    damaged(ReadJournal::parse(&moved.concat(), no_blobs).unwrap_err());
}

#[tokio::test]
async fn a_blob_has_to_be_there_and_to_be_itself() {
    let (folder, _, _) = recorded(&format!("{RIGHT}#{}\n", "x".repeat(LARGE))).await;
    let blob = fs::read_dir(folder.path().join("blobs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let bytes = fs::read(&blob).unwrap();
    fs::write(&blob, [&bytes, b" ".as_slice()].concat()).unwrap();
    let (_, _, problem) = damaged(ReadJournal::read(folder.path()).unwrap_err());
    assert_eq!(problem, "has a blob with another content");
    fs::remove_file(&blob).unwrap();
    let (_, _, problem) = damaged(ReadJournal::read(folder.path()).unwrap_err());
    assert!(problem.starts_with("lacks its blob"), "{problem}");
}

#[test]
fn a_kind_that_nobody_knows_is_passed_over_only_where_it_says_so() {
    let line = |more: &str| {
        let prev = "0".repeat(32);
        format!("{{\"v\":1,\"seq\":0,\"at_ms\":0,\"prev\":\"{prev}\",{more}}}\n")
    };
    let extension = line(r#""kind":"weather","body":{"sun":true},"ext":true"#);
    let journal = ReadJournal::parse(extension.as_bytes(), no_blobs).unwrap();
    let kind = "weather".to_owned();
    assert_eq!(journal.records, [JournalEntry::Skipped { seq: 0, kind }]);
    let table = [
        (
            line(r#""kind":"weather","body":{"sun":true}"#),
            "has no \"weather\" in it",
        ),
        (line(r#""kind":"turn","body":{}"#), "has no \"turn\" in it"),
        (
            line(r#""kind":"turn""#),
            "has not exactly one of body and blob",
        ),
        (
            line(r#""kind":"turn","body":{}"#).replace("\"v\":1", "\"v\":2"),
            "has version 2",
        ),
        (
            line(r#""kind":"turn","body":{}"#).replace("\"seq\":0", "\"seq\":1"),
            "has number 1, and 0 comes next",
        ),
    ];
    for (line, expected) in table {
        let (number, _, problem) =
            damaged(ReadJournal::parse(line.as_bytes(), no_blobs).unwrap_err());
        assert_eq!(number, 1);
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn a_folder_has_one_journal_and_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let _journal = FileJournal::create(folder.path()).unwrap();
    let error = FileJournal::create(folder.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let second = fs::File::open(folder.path().join("actions.jsonl")).unwrap();
    assert!(matches!(
        second.try_lock(),
        Err(fs::TryLockError::WouldBlock)
    ));
}

#[tokio::test]
async fn nothing_follows_a_record_that_failed() {
    let (_, _, records) = recorded(RIGHT).await;
    let folder = tempfile::tempdir().unwrap();
    let mut journal = FileJournal::create(folder.path()).unwrap();
    journal.append(&records[0], Durability::Synced).unwrap();
    // A record that needs the folder of blobs, where a file is in the way.
    fs::write(folder.path().join("blobs"), "").unwrap();
    let tree = [(path("a"), File::new("x".repeat(LARGE)))]
        .into_iter()
        .collect();
    let Event::Receipt(mut receipt) = records[2].event.clone() else {
        panic!("{records:?}")
    };
    receipt.answer = Answer::Opened(tree);
    let large = Record::new(1, records[1].at, Event::Receipt(receipt));
    journal.append(&large, Durability::Synced).unwrap_err();
    let error = journal.append(&records[1], Durability::Synced).unwrap_err();
    assert_eq!(error.to_string(), "an earlier record could not be written");
    assert_eq!(ReadJournal::read(folder.path()).unwrap().records.len(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), Just(b'"'), any::<u8>()], 0..200)) {
        if let Ok(journal) = ReadJournal::parse(&bytes, no_blobs) {
            prop_assert!(journal.records.is_empty());
        }
    }
}
