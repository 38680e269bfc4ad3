//! Judges a check, and makes the only value that can lead to an acceptance.

use std::sync::Arc;

use crate::acceptance::{Acceptance, At, CheckPlan, Evidence, Level, Stage, StageRun, Verdict};
use crate::digest::{Digest, TreeHash};
use crate::ids::RequestId;
use crate::manifest::{Manifest, Tree};
use crate::path::RelPath;
use crate::policy::is_bytecode;

/// A check with its plan, and the digest of the plan, which is made once.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(super) name: String,
    pub(crate) plan: Arc<CheckPlan>,
    pub(super) digest: Digest,
}

/// A check that is being carried out.
#[derive(Clone, Debug)]
pub(super) struct Checking {
    pub(super) check: Arc<Planned>,
    pub(super) tree: Tree,
    /// The first stage's request: the name of the check in the journal.
    pub(super) first: RequestId,
    pub(super) runs: Vec<StageRun>,
}

/// A pass, bound to everything that it is about. It is made here and nowhere else, cannot be copied
/// and cannot be read from anywhere: whoever has one has seen the check pass.
#[derive(Debug)]
pub(super) struct Verified {
    check: RequestId,
    tree: TreeHash,
    plan: Digest,
    evaluator: Digest,
    evidence: Digest,
    level: Level,
}

impl Verified {
    pub(super) fn check(&self) -> &RequestId {
        &self.check
    }

    pub(super) fn tree(&self) -> TreeHash {
        self.tree
    }

    pub(super) fn plan(&self) -> Digest {
        self.plan
    }

    pub(super) fn evaluator(&self) -> Digest {
        self.evaluator
    }

    pub(super) fn evidence(&self) -> Digest {
        self.evidence
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }
}

/// What the stages so far have shown.
#[derive(Debug)]
pub(super) enum Judgement {
    /// All of it passed.
    Passed(Verified, Verdict),
    /// So far it passed, and there is a further stage.
    Continue,
    /// It is over without a pass.
    Over(Verdict),
}

impl Checking {
    /// The digest of what was seen.
    pub(super) fn evidence(&self) -> Digest {
        // Plain data, which can always be written down.
        self.seen()
            .digest()
            .unwrap_or_else(|_| Digest::of(b"no evidence"))
    }

    /// Where the stages so far have run; nothing where no place says anything of itself.
    pub(super) fn places(&self) -> Vec<serde_json::Value> {
        let places = self.runs.iter().map(|run| &run.identity);
        match places.clone().all(serde_json::Value::is_null) {
            true => Vec::new(),
            false => places.cloned().collect(),
        }
    }

    /// Whether the model must not learn what comes of the stage `at`, from 0.
    pub(super) fn is_hidden(&self, at: usize) -> bool {
        let stage = self.check.plan.stages.get(at);
        stage.is_some_and(|stage| stage.hidden)
    }

    fn seen(&self) -> Evidence<'_> {
        Evidence::new(&self.check.plan, &self.tree, &self.runs)
    }

    /// Judges the stages so far: first whether they ran on what they should have, then what they
    /// say.
    pub(super) fn judge(&self, acceptance: &dyn Acceptance) -> Judgement {
        let Some((stage, run)) = self.seen().last() else {
            return Judgement::Over(Verdict::invalid("no stage has run"));
        };
        if let Err(why) = provenance(stage, run, &self.tree) {
            return Judgement::Over(Verdict::invalid(why));
        }
        let verdict = acceptance.judge(&self.seen());
        match &verdict {
            Verdict::Pass { .. } if self.runs.len() < self.check.plan.stages.len() => {
                Judgement::Continue
            }
            Verdict::Pass { .. } => Judgement::Passed(self.verified(acceptance), verdict),
            _ => Judgement::Over(verdict),
        }
    }

    fn verified(&self, acceptance: &dyn Acceptance) -> Verified {
        Verified {
            check: self.first.clone(),
            tree: self.tree.hash(),
            plan: self.check.digest,
            evaluator: acceptance.revision(),
            evidence: self.evidence(),
            level: reached(&self.check.plan, &self.runs),
        }
    }
}

/// What is put into the copy for a stage, fixtures aside: the workspace's files without bytecode,
/// which Python would run instead of the source beside it.
pub(crate) fn sources(
    tree: &Tree,
) -> impl Iterator<Item = (&RelPath, &Arc<crate::manifest::File>)> {
    tree.iter().filter(|(path, _)| !is_bytecode(path))
}

/// What has to be in the copy when the command starts.
pub(super) fn expected(stage: &Stage, tree: &Tree) -> Manifest {
    let fixtures = stage.fixtures.iter();
    sources(tree)
        .chain(fixtures)
        .map(|(path, file)| (path.clone(), file.entry()))
        .collect()
}

/// Whether the command ran on the files of `tree` and the plan's fixtures, and left them so.
fn provenance(stage: &Stage, run: &StageRun, tree: &Tree) -> Result<(), String> {
    let expected = expected(stage, tree);
    if let Some(path) = expected.differences(&run.before).first() {
        return Err(format!("the copy was not what was put there: {path}"));
    }
    let Some(after) = &run.after else {
        return Ok(());
    };
    let changed = expected.differences(after);
    if let Some(path) = changed
        .iter()
        .find(|path| stage.fixtures.get(path).is_some())
    {
        return Err(format!(
            "{path} belongs to the check and was changed while it ran"
        ));
    }
    let may_change = |path: &RelPath| {
        stage
            .may_change
            .iter()
            .any(|entry| entry == path || path.parents().any(|parent| parent == entry.as_str()))
    };
    match changed.iter().find(|path| !may_change(path)) {
        Some(path) => Err(format!("{path} was changed or left behind by the check")),
        None => Ok(()),
    }
}

/// What a pass is worth: what the plan claims, as far as the places bear it out.
fn reached(plan: &CheckPlan, runs: &[StageRun]) -> Level {
    let isolates = |(stage, run): (&Stage, &StageRun)| {
        stage.at == At::Fresh && run.place.kills_tree && run.place.other_uid
    };
    let isolated = plan.stages.iter().zip(runs).all(isolates);
    match plan.level {
        Level::Counted | Level::Isolated if isolated => Level::Isolated,
        Level::Isolated => Level::Counted,
        level => level,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Entry, File};
    use crate::workspace::{Capabilities, ExecReceipt, ExecSpec};

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    fn tree() -> Tree {
        [
            (path("a.py"), File::new(*b"x = 1\n")),
            (path("t.py"), File::new(*b"old tests")),
            (path("__pycache__/a.pyc"), File::new(*b"stale")),
        ]
        .into_iter()
        .collect()
    }

    fn stage() -> Stage {
        Stage::new(ExecSpec::new(["true"]))
            .fixture(path("t.py"), File::new(*b"tests"))
            .may_change(path("out"))
    }

    fn run(change: impl FnOnce(&mut Tree)) -> StageRun {
        let before = expected(&stage(), &tree());
        let mut files: Tree = sources(&tree())
            .map(|(path, file)| (path.clone(), Arc::clone(file)))
            .collect();
        files.insert(path("t.py"), File::new(*b"tests"));
        change(&mut files);
        let id = "t-1.1.1".parse().unwrap();
        StageRun::new(id, Capabilities::default(), before, ExecReceipt::exited(0))
            .after(files.manifest())
    }

    #[test]
    fn a_copy_has_the_fixtures_last_and_no_bytecode() {
        let expected = expected(&stage(), &tree());
        let entry = |bytes: &[u8]| Some(File::new(bytes).entry());
        assert_eq!(expected.get(&path("t.py")).cloned(), entry(b"tests"));
        assert_eq!(expected.iter().len(), 2);
    }

    #[test]
    fn what_a_command_must_not_change_makes_its_evidence_worthless() {
        type Change = fn(&mut Tree);
        let table: [(Change, Option<&str>); 7] = [
            (|_| {}, None),
            (
                |files| drop(files.insert(path("out/log"), File::new(*b"x"))),
                None,
            ),
            (
                |files| drop(files.insert(path("t.py"), File::new(*b"other"))),
                Some("t.py belongs to the check and was changed while it ran"),
            ),
            (
                |files| drop(files.remove(&path("t.py"))),
                Some("t.py belongs to the check and was changed while it ran"),
            ),
            (
                |files| drop(files.insert(path("a.py"), File::new(*b"other"))),
                Some("a.py was changed or left behind by the check"),
            ),
            (
                |files| drop(files.insert(path("new"), File::new(*b"x"))),
                Some("new was changed or left behind by the check"),
            ),
            (
                |files| drop(files.insert(path("a.py"), File::new(*b"x = 1\n").executable(true))),
                Some("a.py was changed or left behind by the check"),
            ),
        ];
        for (change, problem) in table {
            let found = provenance(&stage(), &run(change), &tree()).err();
            assert_eq!(found.as_deref(), problem);
        }
    }

    #[test]
    fn a_command_that_ran_on_something_else_proves_nothing() {
        let mut run = run(|_| {});
        let other = run
            .before
            .iter()
            .map(|(path, entry)| (path.clone(), entry.clone()));
        run.before = other
            .chain([(path("unittest.py"), Entry::link("x"))])
            .collect();
        let problem = provenance(&stage(), &run, &tree()).unwrap_err();
        assert_eq!(problem, "the copy was not what was put there: unittest.py");
    }

    #[test]
    fn a_level_is_what_the_plan_claims_and_the_places_bear_out() {
        let at = |at: At| Stage::new(ExecSpec::new(["true"])).at(at);
        let run = |change: fn(&mut Capabilities)| {
            let mut place = Capabilities::default();
            change(&mut place);
            StageRun::new(
                "t.1.1".parse().unwrap(),
                place,
                Manifest::default(),
                ExecReceipt::exited(0),
            )
        };
        let isolating: fn(&mut Capabilities) = |place| {
            place.kills_tree = true;
            place.other_uid = true;
        };
        let plain: fn(&mut Capabilities) = |place| place.kills_tree = true;
        let table = [
            (Level::Counted, At::Here, isolating, Level::Counted),
            (Level::Counted, At::Fresh, isolating, Level::Isolated),
            (Level::Counted, At::Fresh, plain, Level::Counted),
            (Level::Isolated, At::Fresh, isolating, Level::Isolated),
            (Level::Isolated, At::Fresh, plain, Level::Counted),
            (Level::ExitCode, At::Fresh, isolating, Level::ExitCode),
            (Level::OutsideValues, At::Here, plain, Level::OutsideValues),
        ];
        for (claimed, place, capabilities, level) in table {
            let plan = CheckPlan::new(at(place), claimed);
            assert_eq!(
                reached(&plan, &[run(capabilities)]),
                level,
                "{claimed} {place:?}"
            );
        }
        let mixed = CheckPlan::new(at(At::Here), Level::Counted).then(at(At::Fresh));
        assert_eq!(
            reached(&mixed, &[run(isolating), run(isolating)]),
            Level::Counted
        );
    }
}
