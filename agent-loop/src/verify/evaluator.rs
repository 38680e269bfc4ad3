//! Who judges in a verification: an evaluator and policies that are at hand, or the records.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{Part, Recomputed, Verification};
use crate::acceptance::{self, Acceptance, CheckPlan, Description, Evidence, Verdict};
use crate::action::Action;
use crate::digest::Digest;
use crate::evidence::ACCEPTANCE;
use crate::ids::RequestId;
use crate::journal::{Answer, Event, Record, Started};
use crate::policy::{Decision, Policy, PolicyContext};

pub(super) struct Chosen {
    pub(super) acceptance: Arc<dyn Acceptance>,
    pub(super) plans: BTreeMap<String, Arc<CheckPlan>>,
    pub(super) verdicts: Recomputed,
}

/// The evaluator that was given, or the one that is described, or the records themselves.
pub(super) fn choose(
    given: Option<Arc<dyn Acceptance>>,
    folder: &Path,
    started: &Started,
    records: &[Record],
    found: &mut Verification,
) -> Chosen {
    match at_hand(given, folder, started, found) {
        Ok(acceptance) => {
            let plans = plans(&*acceptance, started);
            let names = plans.keys().chain(started.checks.keys());
            let differs = |name: &&String| {
                plans.get(*name).map(|plan| plan.summary()).as_ref() != started.checks.get(*name)
            };
            let differing: std::collections::BTreeSet<_> = names.filter(differs).collect();
            for name in differing {
                let what = format!("check {name:?} has another plan than the evaluator makes");
                found.say(Part::Plan, Some(1), what);
            }
            if acceptance.names().first() != Some(&started.default_check) {
                let what = "default_check is not the evaluator's first check".to_owned();
                found.say(Part::Plan, Some(1), what);
            }
            Chosen {
                acceptance,
                plans,
                verdicts: Recomputed::Yes,
            }
        }
        Err(why) => {
            let plans: BTreeMap<_, _> = started
                .checks
                .iter()
                .map(|(name, summary)| (name.clone(), Arc::new(summary.sealed())))
                .collect();
            let acceptance = Arc::new(Recorded {
                revision: started.evaluator.revision,
                verdicts: verdicts(records),
            });
            Chosen {
                acceptance,
                plans,
                verdicts: Recomputed::no(why),
            }
        }
    }
}

fn at_hand(
    given: Option<Arc<dyn Acceptance>>,
    folder: &Path,
    started: &Started,
    found: &mut Verification,
) -> Result<Arc<dyn Acceptance>, String> {
    let revision = started.evaluator.revision.short();
    let acceptance = match (given, described(folder, started, found)) {
        (Some(given), _) => given,
        (None, Ok(description)) => description.acceptance(),
        (None, Err(why)) => return Err(format!("evaluator {revision} is not at hand: {why}")),
    };
    match acceptance.revision() == started.evaluator.revision {
        true => Ok(acceptance),
        false => Err(format!(
            "the evaluator at hand is {}, and {revision} has judged",
            acceptance.revision().short()
        )),
    }
}

/// What the folder says of the evaluator.
fn described(
    folder: &Path,
    started: &Started,
    found: &mut Verification,
) -> Result<Description, String> {
    let there = fs::read(folder.join(ACCEPTANCE));
    let Some(digest) = started.evaluator.description else {
        if there.is_ok() {
            let what = "was not there at the start".to_owned();
            found.say(Part::Acceptance, None, what);
        }
        return Err("it does not describe itself".to_owned());
    };
    let there = there.map_err(|_| format!("{ACCEPTANCE} is not there"))?;
    if Digest::of(&there) != digest {
        let what = "is not what it was at the start".to_owned();
        found.say(Part::Acceptance, None, what);
        return Err(format!("{ACCEPTANCE} is another"));
    }
    serde_json::from_slice(&there).map_err(|error| format!("{ACCEPTANCE} cannot be read: {error}"))
}

fn plans(acceptance: &dyn Acceptance, started: &Started) -> BTreeMap<String, Arc<CheckPlan>> {
    let plans = acceptance::plans(acceptance).into_iter();
    plans
        .filter_map(|(name, plan)| {
            let mut plan = plan?;
            plan.limit(started.budget.check_limit);
            // A journal from before hidden stages were marked says what was told then.
            let recorded = started.checks.get(&name);
            if recorded.is_some_and(|recorded| !recorded.stages.iter().any(|stage| stage.hidden)) {
                plan.reveal();
            }
            Some((name, Arc::new(plan)))
        })
        .collect()
}

/// Says what the records say.
struct Recorded {
    revision: Digest,
    /// By the last stage that has run.
    verdicts: HashMap<RequestId, Verdict>,
}

fn verdicts(records: &[Record]) -> HashMap<RequestId, Verdict> {
    let mut verdicts = HashMap::new();
    let mut last = None;
    for record in records {
        match &record.event {
            Event::Receipt(receipt) => match &receipt.answer {
                Answer::Stage(run) => last = Some(run.id.clone()),
                _ => last = None,
            },
            Event::Judged(judged) => {
                if let Some(id) = last.take() {
                    verdicts.insert(id, judged.verdict.clone());
                }
            }
            _ => {}
        }
    }
    verdicts
}

impl Acceptance for Recorded {
    fn revision(&self) -> Digest {
        self.revision
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn plan(&self, _name: &str) -> Option<CheckPlan> {
        None
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Verdict {
        let run = evidence.stages.last();
        match run.and_then(|run| self.verdicts.get(&run.id)) {
            Some(verdict) => verdict.clone(),
            // A further stage has run after it, so it has passed.
            None if evidence.stages.len() < evidence.plan.stages.len() => Verdict::pass(""),
            None => Verdict::invalid("no verdict is recorded"),
        }
    }
}

/// The policies that were given, or what the journal says of their decisions.
pub(super) fn policies(
    given: &[Arc<dyn Policy>],
    started: &Started,
    records: &[Record],
) -> (Vec<Arc<dyn Policy>>, Recomputed) {
    if given.len() as u64 == u64::from(started.policies) {
        return (given.to_vec(), Recomputed::Yes);
    }
    let decisions = records.iter().filter_map(|record| match &record.event {
        Event::Decided(decided) => Some((decided.turn, decided.decision.clone())),
        _ => None,
    });
    let why = format!("{} of {} are at hand", given.len(), started.policies);
    let recorded: Arc<dyn Policy> = Arc::new(Decisions(decisions.collect()));
    let policies = match started.policies {
        // There was nobody who could have decided anything.
        0 => Vec::new(),
        _ => vec![recorded],
    };
    (policies, Recomputed::no(why))
}

/// Decides as the records say. The rules come first, so that it can be stricter and never laxer.
struct Decisions(HashMap<u32, Decision>);

impl Policy for Decisions {
    fn decide(&self, context: &PolicyContext, _action: &Action) -> Decision {
        let decision = self.0.get(&context.turn).cloned();
        decision.unwrap_or(Decision::Allow)
    }
}
