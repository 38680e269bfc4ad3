//! The page about one attempt.

use std::time::Duration;

use super::page::{Page, Tone, shown};
use super::run::Run;
use super::turns::Turn;
use crate::acceptance::{Level, StageRun, StageSummary, Verdict};
use crate::journal::{Answer, Intended, Judged, ReplyRecord, TurnResult, place_in_a_line};
use crate::model::Usage;
use crate::outcome::{AcceptanceState, Outcome};
use crate::redact::redact_output;
use crate::text::{one_line, printable};

/// The most of one text that is shown, in bytes.
const MOST_TEXT: usize = 64 * 1024;
/// The most of a patch that is shown, in bytes.
const MOST_PATCH: usize = 512 * 1024;

pub(super) fn page(run: &Run) -> String {
    let outcome = &run.outcome;
    let task = &outcome.task;
    let mut page = Page::new(&format!(
        "{} {}",
        task.id,
        outcome.acceptance.state.as_str()
    ));
    page.element("h1", "", &format!("{}, try {}", task.id, task.attempt));
    page.open("p", "");
    let state = outcome.acceptance.state;
    page.badge(tone(state), &state.as_str().replace('_', " "));
    page.text(" ");
    if let Some(level) = outcome.acceptance.level {
        page.badge(Tone::None, &format!("evidence: {level}"));
        page.text(" ");
    }
    page.text(&outcome.end.to_string());
    page.close("p");
    page.element("pre", "", &run.started.text);
    facts(&mut page, run);

    let turns = Turn::all(&run.records);
    timeline(&mut page, run, &turns);
    checks(&mut page, run, &turns);
    patch(&mut page, &outcome.patch);
    spent(&mut page, outcome);
    evidence(&mut page, outcome);
    page.finish()
}

fn tone(state: AcceptanceState) -> Tone {
    match state {
        AcceptanceState::Accepted => Tone::Good,
        AcceptanceState::NotAccepted => Tone::Bad,
        AcceptanceState::Invalid => Tone::Warn,
        AcceptanceState::NotEvaluated => Tone::None,
    }
}

fn facts(page: &mut Page, run: &Run) {
    let outcome = &run.outcome;
    let revisions = &outcome.revisions;
    page.open("dl", "");
    page.fact("model", &revisions.model.name);
    page.fact("turns", &outcome.turns.to_string());
    page.fact("checks", &outcome.checks.len().to_string());
    page.fact("took", &length(outcome.latency.total));
    page.fact("cost", &outcome.cost.to_string());
    let entries = |paths: &mut dyn Iterator<Item = String>| paths.collect::<Vec<_>>().join(", ");
    let mut editable = run
        .started
        .paths
        .editable_entries()
        .map(ToString::to_string);
    page.fact("may be written", &entries(&mut editable));
    if let Some(revision) = &revisions.repository {
        page.code_fact("repository", revision);
    }
    page.fact("stop of the workspace", &outcome.stop.to_string());
    for request in &outcome.uncertain {
        let word = if request.resolved {
            "found out later"
        } else {
            "never known"
        };
        page.fact(
            "uncertain",
            &format!("{} ({}): {word}", request.what, request.id),
        );
    }
    for problem in &outcome.evidence_errors {
        page.fact("evidence", problem);
    }
    page.close("dl");
}

fn timeline(page: &mut Page, run: &Run, turns: &[Turn<'_>]) {
    page.heading("Timeline");
    page.open("p", "key dim");
    for (class, name) in [
        ("model", "model"),
        ("check", "check"),
        ("files", "files"),
        ("other", "approval"),
    ] {
        page.element("i", class, "");
        page.text(name);
    }
    page.close("p");
    let of_turn = |turn: &Turn<'_>| {
        turn.model_time() + turn.check_time() + turn.files_time() + turn.approval_time()
    };
    let longest = turns.iter().map(of_turn).max().unwrap_or_default();
    for turn in turns {
        page.open("details", "");
        page.open("summary", "");
        match turn.number {
            0 => page.text("start "),
            number => page.text(&format!("turn {number} ")),
        }
        if turn.number > 0 {
            page.element("code", "", turn.action());
            page.text(" ");
        }
        if let Some(ended) = turn.ended {
            page.badge(result_tone(ended.result), ended.result.as_str());
        }
        page.element("span", "dim", &format!(" {}", length(of_turn(turn))));
        page.bar(
            longest.as_secs_f64(),
            &[
                ("model", turn.model_time().as_secs_f64()),
                ("check", turn.check_time().as_secs_f64()),
                ("files", turn.files_time().as_secs_f64()),
                ("other", turn.approval_time().as_secs_f64()),
            ],
        );
        page.close("summary");
        details(page, run, turn);
        page.close("details");
    }
}

fn result_tone(result: TurnResult) -> Tone {
    match result {
        TurnResult::Pass | TurnResult::Accepted => Tone::Good,
        TurnResult::Fail => Tone::Bad,
        TurnResult::Invalid | TurnResult::NotAnAction | TurnResult::Refused => Tone::Warn,
        _ => Tone::None,
    }
}

fn details(page: &mut Page, run: &Run, turn: &Turn<'_>) {
    if let Some(ended) = turn.ended.filter(|ended| !ended.said.is_empty()) {
        page.element("p", "dim", "what came of it");
        page.element("pre", "", &shown(ended.said.as_bytes(), MOST_TEXT));
    }
    for approval in &turn.approvals {
        let answer = if approval.granted {
            "granted"
        } else {
            "denied"
        };
        let text = format!(
            "asked: {} – {answer} after {}",
            approval.question,
            length(approval.took)
        );
        page.element("p", "", &text);
    }
    for replied in &turn.replied {
        match &replied.reply {
            ReplyRecord::Reply { text, usage, .. } => {
                let tokens = tokens(usage);
                let title = format!("reply after {}, {tokens}", length(replied.took));
                page.folded(&title, |page| {
                    page.element("pre", "", &shown(text.as_bytes(), MOST_TEXT));
                });
            }
            ReplyRecord::Failed(error) => {
                page.element("p", "", &format!("{error}, after {}", length(replied.took)));
            }
        }
    }
    if let Some(asked) = turn.asked.last() {
        page.folded("question", |page| {
            page.element("pre", "", &shown(asked.prompt.as_bytes(), MOST_TEXT));
        });
    }
    for (intent, receipt) in &turn.done {
        let what = match &intent.effect {
            Intended::Open { seed } => format!("put {} files", seed.len()),
            Intended::Get { path } => format!("read {path}"),
            Intended::Put { path, len, .. } => format!("write {path}, {len} bytes"),
            Intended::Stage { check, stage, .. } => format!("check {check}, stage {}", stage + 1),
            Intended::ReadBack => "read everything back".to_owned(),
        };
        let came = match receipt.map(|receipt| (&receipt.answer, receipt.took)) {
            None => "no answer is recorded".to_owned(),
            Some((Answer::Failed(error), took)) => format!("{error}, after {}", length(took)),
            Some((_, took)) => format!("done in {}", length(took)),
        };
        page.open("p", "dim");
        page.element("code", "", intent.id.as_str());
        page.text(&format!(" {what}: {came}"));
        page.close("p");
    }
    if turn.number == 0 {
        page.folded("first message", |page| {
            page.element("pre", "", &run.started.system);
        });
    }
}

fn checks(page: &mut Page, run: &Run, turns: &[Turn<'_>]) {
    page.heading("Checks");
    if !turns.iter().any(|turn| turn.judged.is_some()) {
        page.element("p", "dim", "No check has a verdict.");
    }
    for turn in turns {
        let Some(judged) = turn.judged else { continue };
        page.open("details", "");
        page.open("summary", "");
        page.badge(verdict_tone(&judged.verdict), judged.verdict.word());
        page.text(&format!(
            " turn {}, {}: {}",
            turn.number,
            judged.check,
            first_line(&said(judged))
        ));
        page.close("summary");
        page.element("pre", "", &shown(said(judged).as_bytes(), MOST_TEXT));
        page.open("dl", "");
        page.code_fact("files", &judged.tree.to_string());
        page.code_fact("plan", &judged.plan.to_string());
        page.code_fact("evaluator", &judged.evaluator.to_string());
        page.code_fact("evidence", &judged.evidence.to_string());
        page.close("dl");
        let plan = run.started.checks.get(&judged.check);
        for (intent, receipt) in &turn.done {
            let Intended::Stage { stage, .. } = intent.effect else {
                continue;
            };
            let Some(Answer::Stage(ran)) = receipt.map(|receipt| &receipt.answer) else {
                continue;
            };
            stage_that_ran(page, plan.and_then(|plan| plan.stages.get(stage)), ran);
        }
        page.close("details");
    }
}

fn verdict_tone(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Pass { .. } => Tone::Good,
        Verdict::Fail { .. } => Tone::Bad,
        Verdict::Invalid { .. } => Tone::Warn,
    }
}

fn said(judged: &Judged) -> String {
    without_secrets(match &judged.verdict {
        Verdict::Pass { summary, .. } => summary.as_bytes(),
        Verdict::Fail { feedback } => feedback.as_bytes(),
        Verdict::Invalid { why } => why.as_bytes(),
    })
}

/// What a program said, for a page that is handed on.
fn without_secrets(said: &[u8]) -> String {
    redact_output(&printable(said))
}

fn first_line(text: &str) -> String {
    one_line(text.lines().next().unwrap_or_default(), 160)
}

fn stage_that_ran(page: &mut Page, plan: Option<&StageSummary>, ran: &StageRun) {
    let receipt = &ran.receipt;
    page.open("p", "");
    if let Some(plan) = plan {
        page.text(match plan.at {
            crate::acceptance::At::Here => "beside the workspace: ",
            crate::acceptance::At::Fresh => "in a fresh place: ",
        });
    }
    page.text(&format!(
        "{}, after {}",
        receipt.ending(),
        length(receipt.duration)
    ));
    if receipt.timed_out {
        page.text(" ");
        page.badge(Tone::Warn, "timed out");
    }
    page.close("p");
    if !ran.identity.is_null() {
        page.element("p", "dim", &place_in_a_line(&ran.identity));
    }
    if let Some(plan) = plan {
        page.element("pre", "", &plan.argv.join(" "));
    }
    let outputs = [
        ("standard output", &receipt.stdout, receipt.stdout_truncated),
        ("standard error", &receipt.stderr, receipt.stderr_truncated),
    ];
    for (name, bytes, is_cut) in outputs {
        if bytes.is_empty() && !is_cut {
            continue;
        }
        let cut = if is_cut { ", not whole" } else { "" };
        page.element("p", "dim", &format!("{name}{cut}"));
        page.element(
            "pre",
            "",
            &shown(without_secrets(bytes).as_bytes(), MOST_TEXT),
        );
    }
}

/// The patch, each line with the colour of what it is.
fn patch(page: &mut Page, patch: &[u8]) {
    page.heading("Patch");
    if patch.is_empty() {
        page.element("p", "dim", "Nothing was changed.");
        return;
    }
    page.open("pre", "diff");
    // In the head of a file `---` and `+++` are names, and in a hunk they are lines.
    let mut in_hunk = false;
    for line in shown(patch, MOST_PATCH).lines() {
        if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if line.starts_with("@@ ") {
            in_hunk = true;
        }
        let class = match line.as_bytes().first() {
            Some(b'@') if in_hunk => "hunk",
            Some(b'+') if in_hunk => "add",
            Some(b'-') if in_hunk => "del",
            _ if !in_hunk => "file",
            _ => "",
        };
        page.element("span", class, line);
    }
    page.close("pre");
}

fn spent(page: &mut Page, outcome: &Outcome) {
    page.heading("Time and cost");
    let latency = &outcome.latency;
    let total = latency.total.as_secs_f64();
    let rows = [
        ("total", "other", Some(latency.total)),
        ("model", "model", Some(latency.model)),
        ("model's queue", "model", latency.queue),
        ("between retries", "other", Some(latency.backoff)),
        ("until the workspace was there", "other", latency.provision),
        ("checks", "check", Some(latency.check)),
        ("commands, within checks", "check", Some(latency.exec)),
        ("approval", "other", Some(latency.approval)),
        ("files", "files", Some(latency.files)),
        ("the loop itself", "other", Some(latency.own)),
    ];
    page.open("div", "wide");
    page.open("table", "");
    for (name, class, took) in rows {
        page.open("tr", "");
        page.element("td", "", name);
        page.element(
            "td",
            "n",
            &took.map_or_else(|| "unknown".to_owned(), length),
        );
        page.open("td", "bars");
        page.bar(total, &[(class, took.unwrap_or_default().as_secs_f64())]);
        page.close("td");
        page.close("tr");
    }
    page.close("table");
    page.close("div");
    page.open("dl", "");
    page.fact("calls of the model", &outcome.calls.to_string());
    let unknown = match outcome.usage.unknown_calls {
        0 => String::new(),
        calls => format!(", unknown for {calls} calls"),
    };
    page.fact(
        "tokens",
        &format!("{}{unknown}", tokens(&outcome.usage.known)),
    );
    page.fact("cost", &outcome.cost.to_string());
    let basis = outcome.cost.price_basis.as_deref();
    page.fact("price basis", basis.unwrap_or("none"));
    page.close("dl");
}

fn evidence(page: &mut Page, outcome: &Outcome) {
    page.heading("Evidence");
    let acceptance = &outcome.acceptance;
    if let Some(level) = acceptance.level {
        page.element("p", "", worth(level));
    }
    page.open("dl", "");
    if let Some(tree) = &acceptance.tree {
        page.code_fact("files that passed", &tree.to_string());
    }
    let parts = [
        ("plan", acceptance.plan),
        ("evaluator", acceptance.evaluator),
        ("what the check has shown", acceptance.evidence),
        ("patch.diff", Some(outcome.patch_sha256)),
        ("last line of actions.jsonl", outcome.chain_head),
        ("prompt", Some(outcome.revisions.prompt)),
        ("tool definitions", Some(outcome.revisions.tool_definitions)),
        (
            "evaluation manifest",
            Some(outcome.revisions.evaluation_manifest),
        ),
    ];
    for (name, digest) in parts {
        if let Some(digest) = digest {
            page.code_fact(name, &digest.to_string());
        }
    }
    let settings = outcome.revisions.model.settings.to_string();
    page.code_fact("model settings", &settings);
    page.close("dl");
}

fn worth(level: Level) -> &'static str {
    match level {
        Level::ExitCode => {
            "Exit code: a command ended with zero. A program can do that without being right."
        }
        Level::Counted => {
            "Counted: exit status, report and number of tests agree. The code under test runs in the \
             process that reports, so a program that sets out to forge a report can."
        }
        Level::Isolated => {
            "Isolated: counted, in a place of its own, as a user who cannot change the tests, with \
             the whole tree of processes ended."
        }
        Level::OutsideValues => {
            "Outside values: the expected values were never in the place where the code ran."
        }
    }
}

fn tokens(usage: &Usage) -> String {
    let count =
        |tokens: Option<u64>| tokens.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    format!(
        "{} tokens in, {} out",
        count(usage.input),
        count(usage.output)
    )
}

/// A length of time in a form that can be compared by eye.
fn length(length: Duration) -> String {
    let ms = length.as_millis();
    match ms {
        0..10_000 => format!("{ms} ms"),
        _ => format!("{:.1} s", length.as_secs_f64()),
    }
}
