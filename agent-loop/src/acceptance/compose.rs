//! Several acceptances as one.

use std::fmt;
use std::sync::Arc;

use super::{Acceptance, CheckPlan, Description, Evidence, Verdict};
use crate::digest::Digest;

/// Changes whenever a judgement of this module can change.
const REVISION: &str = "composed 1";

/// Several acceptances as one check, whose stages run one after the other. Made by [`all`] and
/// [`then`].
///
/// It has the name of the first part, and of each part the first check. It passes where every part
/// passes. **The level is that of the weakest part**: a pass says that each of the parts passed *at
/// least* at this level, so strong evidence for one part lends nothing to another.
#[derive(Clone)]
pub struct Composed {
    mode: Mode,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    All,
    Then,
}

#[derive(Clone)]
struct Part {
    acceptance: Arc<dyn Acceptance>,
    name: String,
    plan: CheckPlan,
}

/// All of `parts`, each of which runs whatever the others say, so that the model hears of every
/// failure at once. An invalid one ends the check. A [hidden](super::Stage::hidden) stage runs only
/// where all before it have passed, and ends the check where it does not pass: what the model is
/// told of it never depends on what else there is to tell.
///
/// A part without a check is left out.
///
/// # Examples
/// ```
/// use agent_loop::acceptance::{CommandAcceptance, all};
/// use agent_loop::{Acceptance, Level, UnittestAcceptance};
/// use std::sync::Arc;
///
/// let tests = UnittestAcceptance::new("test_amounts.py", "…", 2)?;
/// let lint = CommandAcceptance::new(["ruff", "check", "."]).named("lint");
/// let both = all([Arc::new(tests) as Arc<dyn Acceptance>, Arc::new(lint)]);
/// assert_eq!(both.names(), ["unit"]);
/// let plan = both.plan("unit").unwrap();
/// assert_eq!((plan.stages.len(), plan.level), (2, Level::ExitCode));
/// # Ok::<(), agent_loop::acceptance::InvalidTests>(())
/// ```
#[must_use]
pub fn all(parts: impl IntoIterator<Item = Arc<dyn Acceptance>>) -> Composed {
    Composed::new(Mode::All, parts)
}

/// The first of `parts`, and each further one only where all before it have passed: cheap checks
/// first, and an independent verification at the end.
///
/// A part without a check is left out.
#[must_use]
pub fn then(parts: impl IntoIterator<Item = Arc<dyn Acceptance>>) -> Composed {
    Composed::new(Mode::Then, parts)
}

impl Composed {
    fn new(mode: Mode, parts: impl IntoIterator<Item = Arc<dyn Acceptance>>) -> Self {
        let part = |acceptance: Arc<dyn Acceptance>| {
            let name = acceptance.names().first()?.clone();
            let plan = acceptance.plan(&name)?;
            Some(Part {
                acceptance,
                name,
                plan,
            })
        };
        Self {
            mode,
            parts: parts.into_iter().filter_map(part).collect(),
        }
    }

    /// What each part says of the stages of its own that have run; of those after them, nothing.
    fn verdicts(&self, evidence: &Evidence<'_>) -> Vec<Verdict> {
        let mut at = 0;
        let mut verdicts = Vec::new();
        for part in &self.parts {
            let end = at + part.plan.stages.len();
            let runs = evidence.stages.get(at..end.min(evidence.stages.len()));
            let stages = evidence.plan.stages.get(at..end);
            let (Some(runs @ [_, ..]), Some(stages)) = (runs, stages) else {
                break;
            };
            // As the limits of the attempt have made them.
            let plan = CheckPlan::of(stages.to_vec(), part.plan.level);
            let prefixes = (1..=runs.len()).filter_map(|count| runs.get(..count));
            let mut said = prefixes.map(|runs| {
                part.acceptance
                    .judge(&Evidence::new(&plan, evidence.tree, runs))
            });
            let first = said.next();
            let verdict = first.map(|first| {
                said.fold(first, |before, now| match before {
                    Verdict::Pass { .. } => now,
                    other => other,
                })
            });
            verdicts.extend(verdict);
            at = end;
        }
        verdicts
    }
}

impl Acceptance for Composed {
    fn revision(&self) -> Digest {
        let mode = format!("{REVISION} {:?}", self.mode);
        let parts = self.parts.iter();
        let digests: Vec<Digest> = parts.map(|part| part.acceptance.revision()).collect();
        let digests = digests.iter().map(|digest| digest.as_bytes().as_slice());
        Digest::of_parts([mode.as_bytes()].into_iter().chain(digests))
    }

    fn names(&self) -> Vec<String> {
        let first = self.parts.first();
        first.map(|part| part.name.clone()).into_iter().collect()
    }

    fn plan(&self, name: &str) -> Option<CheckPlan> {
        let first = self.parts.first().filter(|part| part.name == name)?;
        let parts = self.parts.iter();
        let level = parts.fold(first.plan.level, |level, part| level.min(part.plan.level));
        let stages = self.parts.iter().flat_map(|part| &part.plan.stages);
        Some(CheckPlan::of(stages.cloned().collect(), level))
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
        let verdicts = self.verdicts(evidence);
        let count = evidence.stages.len();
        let is_hidden = |at: usize| {
            evidence
                .plan
                .stages
                .get(at)
                .is_some_and(|stage| stage.hidden)
        };
        let is_over = count >= evidence.plan.stages.len()
            || is_hidden(count)
            || is_hidden(count.saturating_sub(1));
        let mut failures = Vec::new();
        let mut passes = Vec::new();
        for verdict in verdicts {
            match verdict {
                Verdict::Invalid { .. } => return verdict,
                Verdict::Fail { feedback } => failures.push(feedback),
                Verdict::Pass { summary, .. } => passes.push(summary),
            }
        }
        match (self.mode, failures.is_empty()) {
            (_, true) if passes.is_empty() => Verdict::invalid("no stage has run"),
            // More is to be heard before the model is told.
            (Mode::All, false) if !is_over => Verdict::pass("not over"),
            (_, false) => Verdict::fail(failures.join("\n")),
            (_, true) => Verdict::pass(passes.join(", ")),
        }
    }

    fn description(&self) -> Option<Description> {
        let parts = self.parts.iter();
        let parts = parts
            .map(|part| part.acceptance.description())
            .collect::<Option<Vec<_>>>()?;
        Some(match self.mode {
            Mode::All => Description::All(parts),
            Mode::Then => Description::Then(parts),
        })
    }
}

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.parts.iter().map(|part| &part.name);
        f.debug_struct("Composed")
            .field("mode", &self.mode)
            .field("parts", &names.collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptance::{CommandAcceptance, Level, StageRun, UnittestAcceptance};
    use crate::manifest::{Manifest, Tree};
    use crate::workspace::{Capabilities, ExecReceipt};

    fn command(name: &str) -> Arc<dyn Acceptance> {
        Arc::new(CommandAcceptance::new([name]).named(name))
    }

    fn unit() -> Arc<dyn Acceptance> {
        let tests = UnittestAcceptance::new("test_a.py", "…", 2).unwrap();
        Arc::new(tests.hidden("test_b.py", "…", 1).unwrap())
    }

    fn judge(composed: &Composed, receipts: &[ExecReceipt]) -> Verdict {
        let plan = composed.plan(&composed.names()[0]).unwrap();
        let runs: Vec<StageRun> = receipts
            .iter()
            .map(|receipt| {
                let id = "t-1.1.1".parse().unwrap();
                let place = Capabilities::default();
                StageRun::new(id, place, Manifest::default(), receipt.clone())
            })
            .collect();
        composed.judge(&Evidence::new(&plan, &Tree::new(), &runs))
    }

    fn ran(tests: u32) -> ExecReceipt {
        ExecReceipt::exited(0).stderr(format!("Ran {tests} tests in 0.1s\n\nOK\n"))
    }

    #[test]
    fn a_composition_has_the_stages_of_its_parts_and_the_lowest_level() {
        let composed = then([command("a"), unit(), command("b")]);
        let plan = composed.plan("a").unwrap();
        assert_eq!((plan.stages.len(), plan.level), (4, Level::ExitCode));
        assert_eq!(composed.plan("b"), None);
        assert_eq!(
            then([unit(), unit()]).plan("unit").unwrap().level,
            Level::Counted
        );
        assert_eq!(then([]).names(), [] as [String; 0]);
        assert_ne!(then([unit()]).revision(), all([unit()]).revision());
    }

    #[test]
    fn each_part_judges_its_own_stages() {
        let composed = then([command("a"), unit(), command("b")]);
        let ok = ExecReceipt::exited(0);
        assert_eq!(judge(&composed, std::slice::from_ref(&ok)).word(), "pass");
        assert_eq!(judge(&composed, &[ok.clone(), ran(2)]).word(), "pass");
        assert_eq!(judge(&composed, &[ok.clone(), ran(1)]).word(), "invalid");
        // The second stage of the tests is hidden and has one test.
        let whole = [ok.clone(), ran(2), ran(1), ok.clone()];
        assert_eq!(
            judge(&composed, &whole),
            Verdict::pass(
                "the command ended with exit code 0, 1 tests passed, the command ended with exit code 0"
            )
        );
        let wrong = [ok.clone(), ran(2), ran(1), ExecReceipt::exited(1)];
        assert_eq!(judge(&composed, &wrong).word(), "fail");
    }

    #[test]
    fn all_runs_to_its_end_and_tells_every_failure() {
        let composed = all([command("a"), command("b"), command("c")]);
        let (ok, wrong) = (ExecReceipt::exited(0), ExecReceipt::exited(3));
        assert_eq!(
            judge(&composed, std::slice::from_ref(&wrong)).word(),
            "pass"
        );
        let ended = judge(&composed, &[wrong.clone(), ok.clone(), wrong.clone()]);
        let line = "- the command ended with exit code 3 and wrote nothing";
        assert_eq!(ended, Verdict::fail(format!("{line}\n{line}")));
        assert_eq!(
            judge(&composed, &[ok.clone(), ok.clone(), ok.clone()]).word(),
            "pass"
        );
        // What is hidden runs last and decides alone.
        let unseen = Arc::new(CommandAcceptance::new(["b"]).named("b").hidden());
        let composed = all([command("a"), unseen, command("c")]);
        let first = judge(&composed, std::slice::from_ref(&wrong));
        assert_eq!(first, Verdict::fail(line));
        assert_eq!(judge(&composed, std::slice::from_ref(&ok)).word(), "pass");
        let second = judge(&composed, &[ok.clone(), wrong.clone()]);
        assert_eq!(second, Verdict::fail(crate::acceptance::HIDDEN));
        let invalid = ExecReceipt::exited(127);
        assert_eq!(judge(&composed, &[wrong, invalid]).word(), "invalid");
        let first = then([command("a"), command("b")]);
        assert_eq!(judge(&first, &[ExecReceipt::exited(3)]).word(), "fail");
    }
}
