//! What every acceptance has to do.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Case, Report, require};
use crate::acceptance::{Acceptance, CheckPlan, Evidence, StageRun, Verdict};
use crate::ids::RequestId;
use crate::manifest::{Manifest, Tree};
use crate::workspace::{Capabilities, ExecReceipt};

/// Runs the cases on `acceptance`. `passing` are the receipts of a run of its first check that has
/// to pass, one for each stage.
pub fn acceptance(acceptance: &dyn Acceptance, passing: &[ExecReceipt]) -> Report {
    let kit = Kit {
        acceptance,
        passing,
    };
    let mut report = Report::new("acceptance");
    report.add("names_its_checks_and_plans_them", kit.plans());
    report.add("plans_and_judges_the_same_each_time", kit.is_pure());
    report.add("passes_what_has_to_pass", kit.passes());
    report.add("passes_nothing_that_shows_nothing", kit.passes_nothing());
    report.add("fails_at_each_stage_that_fails", kit.each_stage_counts());
    report.add("takes_any_bytes", kit.takes_any_bytes());
    report.add("is_made_again_from_its_description", kit.described());
    report
}

struct Kit<'a> {
    acceptance: &'a dyn Acceptance,
    passing: &'a [ExecReceipt],
}

impl Kit<'_> {
    fn plan(&self) -> Result<CheckPlan, String> {
        let names = self.acceptance.names();
        let first = names.first().ok_or("it has no check")?;
        let plan = self.acceptance.plan(first);
        plan.ok_or_else(|| format!("its first check, {first}, has no plan"))
    }

    /// The verdict about these receipts, one for each stage from the first on.
    fn judge(&self, receipts: &[ExecReceipt]) -> Result<Verdict, String> {
        let plan = self.plan()?;
        let id: RequestId = "kit-1.1.1".parse().map_err(|_| "the kit's own id")?;
        let run = |receipt: &ExecReceipt| {
            let place = Capabilities::default();
            StageRun::new(id.clone(), place, Manifest::default(), receipt.clone())
        };
        let runs: Vec<StageRun> = receipts.iter().map(run).collect();
        let tree = Tree::new();
        let evidence = Evidence::new(&plan, &tree, &runs);
        let verdict = self.acceptance.judge(&evidence);
        require(self.acceptance.judge(&evidence) == verdict, || {
            "the same evidence got another verdict".to_owned()
        })?;
        Ok(verdict)
    }

    fn plans(&self) -> Case {
        let names = self.acceptance.names();
        self.plan()?;
        let distinct: BTreeSet<&String> = names.iter().collect();
        require(distinct.len() == names.len(), || {
            "a name stands there twice".to_owned()
        })?;
        for name in &names {
            let plan = self.acceptance.plan(name);
            let plan = plan.ok_or_else(|| format!("{name} has no plan"))?;
            require(!plan.stages.is_empty(), || format!("{name} has no stage"))?;
            for stage in &plan.stages {
                let can_run = !stage.spec.argv.is_empty() && stage.spec.limit > Duration::ZERO;
                require(can_run, || format!("{name} has a command that cannot run"))?;
            }
        }
        let unknown = self.acceptance.plan("no check of this kit; rm -rf /");
        require(unknown.is_none(), || {
            "a check that is not there has a plan".to_owned()
        })?;
        Ok(true)
    }

    fn is_pure(&self) -> Case {
        require(self.acceptance.names() == self.acceptance.names(), || {
            "the names change".to_owned()
        })?;
        require(self.plan()?.digest() == self.plan()?.digest(), || {
            "the plan changes".to_owned()
        })?;
        require(
            self.acceptance.revision() == self.acceptance.revision(),
            || "the revision changes".to_owned(),
        )?;
        self.judge(self.passing)?;
        Ok(true)
    }

    fn passes(&self) -> Case {
        let stages = self.plan()?.stages.len();
        require(self.passing.len() == stages, || {
            format!(
                "{} receipts were given for {stages} stages",
                self.passing.len()
            )
        })?;
        for count in 1..=stages {
            let verdict = self.judge(self.passing.get(..count).unwrap_or_default())?;
            let passes = matches!(verdict, Verdict::Pass { .. });
            require(passes, || format!("after stage {count}: {verdict:?}"))?;
        }
        Ok(true)
    }

    /// What a command can come to without having shown anything.
    fn nothing() -> Vec<ExecReceipt> {
        let mut cut = ExecReceipt::exited(0);
        (cut.stdout_truncated, cut.stderr_truncated) = (true, true);
        let mut killed = ExecReceipt::exited(0);
        (killed.exit_code, killed.signal) = (None, Some("SIGKILL".to_owned()));
        vec![
            ExecReceipt::timed_out(Duration::from_secs(30)),
            ExecReceipt::exited(127),
            ExecReceipt::exited(1),
            ExecReceipt::default(),
            killed,
            // Whoever looks at the exit status alone passes this one, and says so by its level.
            cut,
        ]
    }

    fn passes_nothing(&self) -> Case {
        let by_exit_code = self.plan()?.level == crate::acceptance::Level::ExitCode;
        let last = self.plan()?.stages.len().saturating_sub(1);
        let before = self.passing.get(..last).unwrap_or_default();
        let none = self.judge(&[])?;
        require(!matches!(none, Verdict::Pass { .. }), || {
            "no stage has run, and it passes".to_owned()
        })?;
        for receipt in Self::nothing() {
            if by_exit_code && receipt.exit_code == Some(0) {
                continue;
            }
            let mut receipts = before.to_vec();
            receipts.push(receipt.clone());
            let verdict = self.judge(&receipts)?;
            require(!matches!(verdict, Verdict::Pass { .. }), || {
                format!("{} passes: {verdict:?}", receipt.ending())
            })?;
        }
        Ok(true)
    }

    fn each_stage_counts(&self) -> Case {
        let stages = self.passing.len();
        for at in 0..stages {
            let mut receipts = self.passing.to_vec();
            let Some(receipt) = receipts.get_mut(at) else {
                continue;
            };
            *receipt = ExecReceipt::exited(1);
            // A part of a composition may run on; in the end it does not pass.
            let verdict = self.judge(&receipts)?;
            let ended_before = self.judge(receipts.get(..=at).unwrap_or_default())?;
            let passes = |verdict: &Verdict| matches!(verdict, Verdict::Pass { .. });
            require(!passes(&verdict) || !passes(&ended_before), || {
                format!("stage {} failed, and it passes", at + 1)
            })?;
        }
        Ok(true)
    }

    fn takes_any_bytes(&self) -> Case {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for length in 0..64_usize {
            let mut bytes = Vec::new();
            for _ in 0..length * 7 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes.extend(state.to_le_bytes().first());
            }
            let receipt = ExecReceipt::exited(1).stdout(bytes.clone()).stderr(bytes);
            let verdict = self.judge(&[receipt])?;
            let is_pass = matches!(verdict, Verdict::Pass { .. });
            let is_first_of_many = self.passing.len() > 1;
            require(!is_pass || is_first_of_many, || "noise passes".to_owned())?;
        }
        Ok(true)
    }

    fn described(&self) -> Case {
        let Some(description) = self.acceptance.description() else {
            return Ok(false);
        };
        let again = description.acceptance();
        let names = self.acceptance.names();
        require(again.names() == names, || "the names are others".to_owned())?;
        require(again.revision() == self.acceptance.revision(), || {
            "the revision is another".to_owned()
        })?;
        for name in &names {
            let plans = [again.plan(name), self.acceptance.plan(name)];
            let [one, other] = plans.map(|plan| plan.map(|plan| plan.digest()));
            require(one == other, || format!("the plan of {name} is another"))?;
        }
        Ok(true)
    }
}
