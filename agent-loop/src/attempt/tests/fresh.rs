//! Fresh places: whatever goes wrong while one is made, none is left, and there are never two.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::{BoxFuture, pending, ready};
use serde_json::{Value, json};

use super::resume::{Same, is_proved, killed};
use super::*;
use crate::ids::RequestId;
use crate::journal::{MemoryJournal, ReadJournal};
use crate::workspace::{Workspace, Workspaces};

/// What becomes of a call that makes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    WithAnAnswer,
    /// The answer says that there is none.
    Not,
    /// No answer comes, and there is one.
    Unanswered,
    /// The answer is lost, and there is one.
    Unknown,
    /// The answer is lost, and there is none.
    UnknownAndNot,
    /// The program is ended when there is one.
    ForNobody,
}

/// Fresh places in memory. Clones are the same: what programs leave stays.
#[derive(Clone)]
struct Rooms {
    rooms: MemoryWorkspace,
    made: Arc<Mutex<Made>>,
    announced: Arc<AtomicU32>,
    /// Where the announcement has to be by then.
    journal: Option<MemoryJournal>,
}

impl Rooms {
    fn new(made: Made, lookup: bool) -> Self {
        let rooms = MemoryWorkspace::new(|_, _| {
            Ok(crate::ExecReceipt::exited(0).stderr("Ran 3 tests in 0.001s\n\nOK\n"))
        });
        Self {
            rooms: rooms.with_capabilities(|can| {
                can.exec_lookup = lookup;
                can.other_uid = true;
            }),
            made: Arc::new(Mutex::new(made)),
            announced: Arc::default(),
            journal: None,
        }
    }
}

impl Workspaces for Rooms {
    fn fresh<'a>(
        &'a self,
        _: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        unreachable!("a loop announces what it asks for")
    }

    fn announce(&self, _: &RequestId) -> Value {
        json!({"room": self.announced.fetch_add(1, Ordering::Relaxed)})
    }

    fn fresh_as<'a>(
        &'a self,
        id: &'a RequestId,
        announced: &'a Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        assert_eq!(self.rooms.places(), 0, "a second one");
        if let Some(journal) = &self.journal {
            let last = journal
                .records()
                .pop()
                .map(|(record, how)| (record.event, how));
            let Some((Event::Placing(placing), Durability::Synced)) = last else {
                panic!("{last:?}");
            };
            assert_eq!((&placing.id, &placing.announced), (id, announced));
        }
        let unknown = Err(WorkspaceError::Uncertain(Private::new("reset")));
        // Once: the next call goes well.
        let made = std::mem::replace(&mut *self.made.lock().unwrap(), Made::WithAnAnswer);
        match made {
            Made::Not => return ready(Err(WorkspaceError::Failed(Private::new("quota")))).boxed(),
            Made::UnknownAndNot => return ready(unknown).boxed(),
            _ => {}
        }
        let place = self.rooms.fresh_dir(id);
        match made {
            Made::Unanswered => async move {
                drop(place.await);
                pending().await
            }
            .boxed(),
            Made::Unknown => async move { place.await.and(unknown) }.boxed(),
            Made::ForNobody => async move {
                drop(place.await);
                die();
                unknown
            }
            .boxed(),
            _ => place,
        }
    }

    fn reopen<'a>(
        &'a self,
        id: &'a RequestId,
        _: &'a Value,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        Workspace::reopen(&self.rooms, id)
    }
}

fn script() -> Vec<String> {
    [&fix(), CHECK, FINISH].map(str::to_owned).to_vec()
}

fn an_attempt(workspace: &MemoryWorkspace, places: impl Workspaces + 'static) -> Attempt {
    let hidden = acceptance().hidden("test_hidden.py", "secret", 3).unwrap();
    Attempt::new(
        task(),
        by_turn(script()),
        workspace.clone(),
        hidden,
        paths(),
    )
    .allow_checks(true)
    .budget(Budget::default().turns(3))
    .fresh(places)
    .clock(JumpingClock::default())
}

/// What a journal says of fresh places.
fn told<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<String> {
    let told = events.into_iter().filter_map(|event| match event {
        Event::Placing(placing) => Some(format!("placing {}", placing.announced)),
        Event::Placed(_) => Some("placed".to_owned()),
        Event::Left(left) => Some(format!("left: {}", left.stop)),
        _ => None,
    });
    told.collect()
}

fn told_in(folder: &Path) -> Vec<String> {
    let journal = ReadJournal::read(folder).unwrap();
    told(journal.known().map(|record| &record.event))
}

const PLACING: &str = r#"placing {"room":0}"#;

#[tokio::test]
async fn a_place_that_was_asked_for_and_not_got_is_ended() {
    type Ends = fn(&End) -> bool;
    let accepted: Ends = |end| *end == End::Accepted;
    let exhausted: Ends = |end| matches!(end, End::Exhausted { .. });
    let uncertain: Ends = |end| matches!(end, End::Uncertain { .. });
    let ended = "left: confirmed";
    let table: [(Made, Ends, &[&str]); 5] = [
        (Made::WithAnAnswer, accepted, &[PLACING, "placed", ended]),
        (Made::Not, exhausted, &[PLACING]),
        (Made::Unanswered, exhausted, &[PLACING, ended]),
        (Made::Unknown, uncertain, &[PLACING, ended]),
        (Made::UnknownAndNot, uncertain, &[PLACING, ended]),
    ];
    for (made, end, expected) in table {
        let journal = MemoryJournal::new();
        let mut rooms = Rooms::new(made, true);
        rooms.journal = Some(journal.clone());
        let attempt = an_attempt(&pretending(), rooms.clone()).journal(journal.clone());
        let outcome = attempt.drive().await.unwrap();
        assert!(end(&outcome.end), "{made:?}: {:?}", outcome.end);
        let records = journal.records();
        let told = told(records.iter().map(|(record, _)| &record.event));
        assert_eq!(told, expected, "{made:?}");
        assert_eq!(rooms.rooms.places(), 0, "{made:?}");
    }
}

#[tokio::test]
async fn a_place_that_is_being_made_for_a_cancelled_attempt_is_ended() {
    let (rooms, folder) = (Rooms::new(Made::Unanswered, true), fast_folder());
    let watched = rooms.rooms.clone();
    let is_there = async move {
        while watched.places() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let attempt = an_attempt(&pretending(), rooms.clone())
        .clock(SystemClock::new())
        .record_in(RunDir::create(folder.path()).unwrap())
        .cancel_on(is_there);
    let outcome = attempt.drive().await.unwrap();
    assert_eq!((outcome.end, rooms.rooms.places()), (End::Cancelled, 0));
    assert_eq!(told_in(folder.path()), [PLACING, "left: confirmed"]);
    assert!(!is_proved(folder.path()));
}

/// Places that nobody can look up.
struct Blind(Rooms);

impl Workspaces for Blind {
    fn fresh<'a>(
        &'a self,
        id: &'a RequestId,
    ) -> BoxFuture<'a, Result<Arc<dyn Workspace>, WorkspaceError>> {
        self.0.fresh_as(id, &Value::Null)
    }
}

#[test]
fn of_places_that_nobody_can_look_up_it_is_said_that_one_may_be_left() {
    let rooms = Rooms::new(Made::Unknown, true);
    let folder = fast_folder();
    let attempt = an_attempt(&pretending(), Blind(rooms.clone()))
        .record_in(RunDir::create(folder.path()).unwrap());
    let outcome = run_or_die(attempt.drive()).unwrap();
    assert!(matches!(outcome.end, End::Uncertain { .. }));
    assert_eq!(
        told_in(folder.path()),
        ["placing null", "left: not requested"]
    );
    assert_eq!(rooms.rooms.places(), 1);
    assert!(!is_proved(folder.path()));
}

#[test]
fn a_program_that_is_ended_leaves_no_place_to_the_one_that_goes_on() {
    let mut kills = 0;
    for lookup in [true, false] {
        let whole = (pretending(), Rooms::new(Made::WithAnAnswer, lookup));
        let uninterrupted = run_or_die(an_attempt(&whole.0, whole.1.clone()).drive()).unwrap();
        assert!(uninterrupted.is_accepted());
        for at in 0.. {
            let mut reached = false;
            for moment in [Moment::Before, Moment::After] {
                let (workspace, rooms) = (pretending(), Rooms::new(Made::WithAnAnswer, lookup));
                let attempt = || an_attempt(&workspace, rooms.clone());
                let (folder, outcome) = killed(attempt(), at, moment);
                if outcome.is_some() {
                    continue;
                }
                reached = true;
                kills += 1;
                let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
                let about = format!("{at} {moment:?}: {:?}", told_in(folder.path()));
                assert_eq!(Same::of(&outcome), Same::of(&uninterrupted), "{about}");
                assert_eq!(rooms.rooms.places(), 0, "{about}");
                let ran = rooms.rooms.calls(Operation::Exec);
                assert!((1..=1 + u32::from(!lookup)).contains(&ran), "{about}");
                assert!(is_proved(folder.path()), "{about}");
            }
            if !reached {
                break;
            }
        }
    }
    println!("ended {kills} times: no place is left, and there were never two");
    assert!(kills > 60, "{kills}");
}

#[test]
fn what_is_found_in_a_place_that_can_do_less_than_it_could_is_not_used() {
    let journal = MemoryJournal::new();
    let whole = an_attempt(&pretending(), Rooms::new(Made::WithAnAnswer, true));
    run_or_die(whole.journal(journal.clone()).drive()).unwrap();
    let records = journal.records();
    let prepared = records
        .iter()
        .rev()
        .find(|(record, _)| record.event.kind() == "prepared");
    let receipt = prepared.unwrap().0.seq + 1;
    for (can, commands) in [(true, 1), (false, 2)] {
        let (workspace, mut rooms) = (pretending(), Rooms::new(Made::WithAnAnswer, true));
        // The command has run, and its program did not write that down.
        let attempt = an_attempt(&workspace, rooms.clone());
        let (folder, outcome) = killed(attempt, receipt, Moment::Before);
        assert!(outcome.is_none());
        let now = rooms.rooms.snapshot();
        rooms.rooms = now.with_capabilities(|place| place.other_uid = can);
        let attempt = an_attempt(&workspace, rooms.clone());
        let outcome = run_or_die(attempt.resume(folder.path())).unwrap();
        assert_eq!(outcome.uncertain.len(), usize::from(!can));
        assert_eq!(rooms.rooms.calls(Operation::Exec), commands);
        assert_eq!(rooms.rooms.places(), 0);
        assert!(is_proved(folder.path()));
    }
}

#[test]
fn a_place_that_was_made_for_a_program_that_was_ended_is_ended_and_replaced() {
    let (workspace, rooms) = (pretending(), Rooms::new(Made::ForNobody, true));
    let attempt = || an_attempt(&workspace, rooms.clone());
    let folder = fast_folder();
    let run = RunDir::create(folder.path()).unwrap();
    assert!(run_or_die(attempt().record_in(run).drive()).is_none());
    assert_eq!((told_in(folder.path()).len(), rooms.rooms.places()), (1, 1));
    let outcome = run_or_die(attempt().resume(folder.path())).unwrap();
    assert!(outcome.is_accepted());
    assert_eq!(rooms.rooms.places(), 0);
    let ended = "left: confirmed";
    let again = r#"placing {"room":1}"#;
    let expected = [PLACING, ended, again, "placed", ended];
    assert_eq!(told_in(folder.path()), expected);
    assert!(is_proved(folder.path()));
}
