//! What every workspace has to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Case, Report, require};
use crate::digest::Digest;
use crate::ids::RequestId;
use crate::manifest::{File, Tree};
use crate::path::RelPath;
use crate::workspace::{ExecReceipt, ExecSpec, Lookup, Precondition, Workspace, WorkspaceError};

/// The commands that are run, each by `sh -c`: a double in memory has to play these. In the order
/// in which they stand here they
///
/// 1. write `out` and a line end to standard output, `err` and a line end to standard error, and
///    end with 124;
/// 2. copy their standard input to standard output;
/// 3. wait for 200 ms, and write something that no other run of it writes;
/// 4. write `begun` and wait for five minutes;
/// 5. write the ten digits.
pub const COMMANDS: [&str; 5] = [
    "echo out; echo err >&2; exit 124",
    "cat",
    "sleep 0.2; cat /proc/sys/kernel/random/uuid",
    "echo begun; sleep 300",
    "printf 0123456789",
];

const OUTPUTS: usize = 0;
const COPY: usize = 1;
const UNIQUE: usize = 2;
const ENDLESS: usize = 3;
const DIGITS: usize = 4;

/// How much longer than its limit a command may take.
const GRACE: Duration = Duration::from_secs(20);

/// Runs the cases in empty places beside `workspace`, which is left as it was.
///
/// # Cancel safety
/// Dropping the future leaves the place of the case that was running behind.
pub async fn workspace(workspace: &dyn Workspace) -> Report {
    let kit = Kit { workspace };
    let mut report = Report::new("workspace");
    report.add("keeps_bytes_as_they_are", kit.bytes().await);
    report.add("writes_where_the_condition_holds", kit.conditions().await);
    report.add("says_what_cannot_be_read", kit.unreadable().await);
    report.add("lists_what_is_there", kit.lists().await);
    report.add("makes_places_that_share_nothing", kit.places().await);
    report.add("tells_how_a_command_ended", kit.endings().await);
    report.add("closes_the_input_of_a_command", kit.input().await);
    report.add("ends_a_command_at_its_limit", kit.limit().await);
    report.add("keeps_the_end_of_an_output", kit.kept().await);
    report.add("runs_one_id_once", kit.once().await);
    report.add("finds_a_command_by_its_id", kit.found().await);
    report
}

struct Kit<'a> {
    workspace: &'a dyn Workspace,
}

fn path(text: &str) -> Result<RelPath, String> {
    RelPath::parse(text).map_err(|error| error.to_string())
}

fn id(text: &str) -> Result<RequestId, String> {
    format!("kit-1.{text}")
        .parse()
        .map_err(|_| "the kit's own id".to_owned())
}

fn command(which: usize) -> ExecSpec {
    let line = COMMANDS.get(which).copied().unwrap_or("false");
    ExecSpec::new(["sh", "-c", line]).limit(Duration::from_secs(60))
}

fn told(error: &WorkspaceError) -> String {
    format!("an error: {error}")
}

impl Kit<'_> {
    async fn place(&self, number: &str) -> Result<Arc<dyn Workspace>, String> {
        let place = self.workspace.fresh_dir(&id(number)?).await;
        let place = place.map_err(|error| told(&error))?;
        let there = place.list().await.map_err(|error| told(&error))?;
        require(there.iter().len() == 0, || {
            "a fresh place is not empty".to_owned()
        })?;
        Ok(place)
    }

    async fn put(
        place: &dyn Workspace,
        name: &str,
        file: &File,
        before: Precondition,
    ) -> Result<Result<(), WorkspaceError>, String> {
        Ok(place.put(&id("0.1")?, &path(name)?, file, before).await)
    }

    async fn get(place: &dyn Workspace, name: &str) -> Result<Vec<u8>, String> {
        let got = place.get(&path(name)?, 1 << 20).await;
        got.map_err(|error| told(&error))
    }

    async fn run(
        place: &dyn Workspace,
        number: &str,
        spec: &ExecSpec,
    ) -> Result<ExecReceipt, String> {
        let ended = place.exec(&id(number)?, spec).await;
        ended.map_err(|error| told(&error))
    }

    async fn bytes(&self) -> Case {
        let place = self.place("1.1").await?;
        for (name, bytes) in [
            ("a", &b""[..]),
            (
                "b/c/d.py",
                &b"x\r\n\x00\xff\xef\xbb\xbf\x0c\xe2\x80\xa8"[..],
            ),
            ("ä b", &b"no line end"[..]),
        ] {
            let put = Self::put(&*place, name, &File::new(bytes), Precondition::Absent).await?;
            put.map_err(|error| told(&error))?;
            let got = Self::get(&*place, name).await?;
            require(got == bytes, || {
                format!("{name} has other bytes than were put")
            })?;
        }
        place.stop().await;
        Ok(true)
    }

    async fn conditions(&self) -> Case {
        let place = self.place("2.1").await?;
        let (one, two) = (File::new(*b"one"), File::new(*b"two"));
        let other = Digest::of(b"other");
        let absent = Self::put(&*place, "a", &one, Precondition::Is(other)).await?;
        require(
            matches!(absent, Err(WorkspaceError::Conflict(None))),
            || format!("a write over something that is not there: {absent:?}"),
        )?;
        let steps = [
            (&one, Precondition::Absent, true),
            (&two, Precondition::Absent, false),
            (&two, Precondition::Is(other), false),
            (&two, Precondition::Is(one.digest()), true),
        ];
        let mut there = one.digest();
        for (number, (file, before, fits)) in steps.into_iter().enumerate() {
            let put = Self::put(&*place, "a", file, before).await?;
            match (fits, put) {
                (true, Ok(())) => there = file.digest(),
                (false, Err(WorkspaceError::Conflict(Some(found)))) if found == there => {}
                (_, put) => return Err(format!("write {}: {put:?}", number + 1)),
            }
            let got = Digest::of(&Self::get(&*place, "a").await?);
            require(got == there, || {
                format!("write {} left other bytes", number + 1)
            })?;
        }
        place.stop().await;
        Ok(true)
    }

    async fn unreadable(&self) -> Case {
        let place = self.place("3.1").await?;
        let missing = place.get(&path("a")?, 9).await;
        require(missing == Err(WorkspaceError::NotFound), || {
            format!("a file that is not there: {missing:?}")
        })?;
        let put = Self::put(&*place, "a", &File::new(*b"1234"), Precondition::Absent).await?;
        put.map_err(|error| told(&error))?;
        let large = place.get(&path("a")?, 3).await;
        require(large == Err(WorkspaceError::TooLarge(4)), || {
            format!("a file of four bytes where three are allowed: {large:?}")
        })?;
        place.stop().await;
        Ok(true)
    }

    async fn lists(&self) -> Case {
        let place = self.place("4.1").await?;
        let mut tree = Tree::new();
        tree.insert(path("a.py")?, File::new(*b"a"));
        tree.insert(path("b/c.sh")?, File::new(*b"c").executable(true));
        tree.insert(path("b/d/e")?, File::new(*b""));
        for (path, file) in tree.iter() {
            let put = place
                .put(&id("4.2")?, path, file, Precondition::Absent)
                .await;
            put.map_err(|error| told(&error))?;
        }
        let list = place.list().await.map_err(|error| told(&error))?;
        let expected = tree.manifest();
        let differences = expected.differences(&list);
        require(differences.is_empty(), || {
            format!("other than was put: {differences:?}")
        })?;
        for folder in ["b", "b/d", "a.py", "c"] {
            let below = place.list_below(&path(folder)?).await;
            let below = below.map_err(|error| told(&error))?;
            require(below == expected.below(folder), || {
                format!("other than was put below {folder}: {below:?}")
            })?;
        }
        place.stop().await;
        Ok(true)
    }

    async fn places(&self) -> Case {
        let before = self.workspace.list().await.map_err(|error| told(&error))?;
        let (one, other) = (self.place("5.1").await?, self.place("5.2").await?);
        let put = Self::put(&*one, "a", &File::new(*b"a"), Precondition::Absent).await?;
        put.map_err(|error| told(&error))?;
        let list = other.list().await.map_err(|error| told(&error))?;
        require(list.iter().len() == 0, || {
            "two places share their files".to_owned()
        })?;
        one.stop().await;
        other.stop().await;
        let after = self.workspace.list().await.map_err(|error| told(&error))?;
        require(before == after, || {
            "a place changed the workspace beside it".to_owned()
        })?;
        Ok(true)
    }

    async fn endings(&self) -> Case {
        let place = self.place("6.1").await?;
        let receipt = Self::run(&*place, "6.2", &command(OUTPUTS)).await?;
        let ended = (
            receipt.exit_code,
            receipt.timed_out,
            receipt.signal.as_deref(),
        );
        require(ended == (Some(124), false, None), || {
            format!("an exit code of 124 became {ended:?}")
        })?;
        let written = (&receipt.stdout[..], &receipt.stderr[..]);
        require(written == (&b"out\n"[..], &b"err\n"[..]), || {
            format!("it wrote {written:?}")
        })?;
        place.stop().await;
        Ok(true)
    }

    async fn input(&self) -> Case {
        let place = self.place("7.1").await?;
        // One that waits for input waits until its limit.
        let receipt = Self::run(&*place, "7.2", &command(COPY)).await?;
        require(receipt.exit_code == Some(0), || {
            format!("without input: {}", receipt.ending())
        })?;
        let spec = command(COPY).stdin(*b"a\x01b");
        let receipt = Self::run(&*place, "7.3", &spec).await?;
        require(receipt.stdout == b"a\x01b", || {
            format!("its input came back as {:?}", receipt.stdout)
        })?;
        place.stop().await;
        Ok(true)
    }

    async fn limit(&self) -> Case {
        let place = self.place("8.1").await?;
        // Time enough to begin, whatever the machine does.
        let limit = Duration::from_secs(10);
        let started = Instant::now();
        let receipt = Self::run(&*place, "8.2", &command(ENDLESS).limit(limit)).await?;
        let took = started.elapsed();
        require(receipt.timed_out && receipt.exit_code.is_none(), || {
            format!("at its limit: {}", receipt.ending())
        })?;
        require(took < limit + GRACE, || format!("it took {took:?}"))?;
        require(receipt.stdout == b"begun\n", || {
            format!("what it wrote before its limit is {:?}", receipt.stdout)
        })?;
        place.stop().await;
        Ok(true)
    }

    async fn kept(&self) -> Case {
        let place = self.place("9.1").await?;
        let receipt = Self::run(&*place, "9.2", &command(DIGITS).keep_bytes(4)).await?;
        require(
            receipt.stdout == b"6789" && receipt.stdout_truncated,
            || {
                let (kept, cut) = (&receipt.stdout, receipt.stdout_truncated);
                format!("of ten digits four were to be kept: {kept:?}, said to be cut: {cut}")
            },
        )?;
        place.stop().await;
        Ok(true)
    }

    async fn once(&self) -> Case {
        if !self.workspace.capabilities().exec_lookup {
            return Ok(false);
        }
        let place = self.place("10.1").await?;
        let (key, between) = (id("10.2")?, id("10.3")?);
        let spec = command(UNIQUE);
        // Two at once, then once more behind another one: one that remembers only its last command
        // runs the first one again.
        let (one, other) =
            futures::future::join(place.exec(&key, &spec), place.exec(&key, &spec)).await;
        place
            .exec(&between, &command(COPY))
            .await
            .map_err(|error| told(&error))?;
        let later = place.exec(&key, &spec).await;
        // Not to be answered twice is a way not to run it twice.
        let answers = [one, other, later].into_iter().flatten();
        let written: Vec<Vec<u8>> = answers.map(|receipt| receipt.stdout).collect();
        let first = written.first().ok_or("no call was answered")?;
        require(!first.is_empty(), || "it wrote nothing".to_owned())?;
        let differing = written.iter().filter(|other| *other != first).count();
        require(differing == 0, || {
            format!(
                "it ran again: {differing} answers of {} are of another run",
                written.len()
            )
        })?;
        place.stop().await;
        Ok(true)
    }

    async fn found(&self) -> Case {
        if !self.workspace.capabilities().exec_lookup {
            return Ok(false);
        }
        let place = self.place("11.1").await?;
        let unknown = place
            .lookup(&id("11.2")?)
            .await
            .map_err(|error| told(&error))?;
        require(
            matches!(unknown, Lookup::NeverStarted | Lookup::Unknown),
            || format!("a command that nobody started: {unknown:?}"),
        )?;
        let key = id("11.3")?;
        let ran = place
            .exec(&key, &command(OUTPUTS))
            .await
            .map_err(|error| told(&error))?;
        let found = place.lookup(&key).await.map_err(|error| told(&error))?;
        let Lookup::Finished(found) = found else {
            return Err(format!("a command that has ended: {found:?}"));
        };
        let parts = |receipt: &ExecReceipt| {
            (
                receipt.exit_code,
                receipt.stdout.clone(),
                receipt.stderr.clone(),
            )
        };
        require(parts(&found) == parts(&ran), || {
            format!(
                "it ended with {}, and is told as {}",
                ran.ending(),
                found.ending()
            )
        })?;
        place.stop().await;
        Ok(true)
    }
}
