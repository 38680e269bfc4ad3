//! The example `evaluate` as a program: a suite of 44 cases and two candidates, killed and run again.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests; a failure is a failed test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent_loop::acceptance::StageRun;
use agent_loop::evaluation::{Case, Suite};
use agent_loop::{Evidence, ExecReceipt, Manifest, Verdict};
use serde_json::Value;
use tokio::time::sleep;

/// How long one run of the program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);
/// How long a check may run, in seconds: one of `hasty`'s never ends, and every other one has ended
/// long before, also where the machine stands still for a while.
const CHECK_LIMIT: &str = "60";
/// So many cases have to be finished before the program is killed.
const FINISHED: usize = 20;
/// What `hasty` gets wrong: the first five before the eyes of the visible tests, one of them by never
/// ending, the others only in the hidden ones.
const WRONG: [&str; 10] = [
    "amount-decimal",
    "leap-year",
    "lru-order",
    "short-time",
    "topo-cycle",
    "dict-while-iterating",
    "gcd-order",
    "median-even",
    "mutable-default",
    "range-sum",
];

/// The program, which `cargo test` builds beside this one.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("examples/evaluate");
    assert!(
        built.is_file(),
        "{built:?} is not built: cargo build -p examples --example evaluate"
    );
    built
}

/// Starts the program on the whole suite, eight cases at a time. What it puts into temporary folders
/// is gone with `scratch`, also where it is killed.
fn start(scratch: &Path) -> Child {
    let log = fs::File::create(scratch.join("log")).unwrap();
    Command::new(program())
        .args([
            "--local",
            "--allow-checks",
            "--parallel",
            "8",
            "--check-limit",
            CHECK_LIMIT,
        ])
        .arg("--out")
        .arg(scratch.join("out"))
        .env("TMPDIR", scratch)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Runs it to its end, and gives what it printed.
async fn run(scratch: &Path) -> String {
    let mut child = start(scratch);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("it did not end within {LIMIT:?}");
        }
        sleep(Duration::from_millis(20)).await;
    };
    let log = fs::read_to_string(scratch.join("log")).unwrap();
    assert!(status.success(), "{status}: {log}");
    log
}

fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap()
}

/// The tries that are there: candidate and case, and for each try the head of its journal where it
/// is over.
fn tries(out: &Path) -> BTreeMap<(String, String), Vec<Option<String>>> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<_> = folders
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let mut tries = BTreeMap::new();
    for candidate in ["gold", "hasty"] {
        let folder = out.join(candidate);
        for case in names(&folder) {
            let heads = names(&folder.join(&case)).into_iter().map(|number| {
                let outcome = folder.join(&case).join(number).join("outcome.json");
                let outcome = fs::read(outcome).ok()?;
                let outcome: Value = serde_json::from_slice(&outcome).unwrap();
                Some(outcome["chain_head"].as_str().unwrap().to_owned())
            });
            let heads = heads.collect();
            tries.insert((candidate.to_owned(), case), heads);
        }
    }
    tries
}

#[tokio::test]
async fn a_suite_that_is_killed_goes_on_and_two_candidates_are_compared_case_by_case() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let mut child = start(scratch.path());
    let begun = Instant::now();
    let finished = || tries(&out).values().flatten().flatten().count();
    while finished() < FINISHED {
        assert!(begun.elapsed() < LIMIT, "so many cases were never finished");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        sleep(Duration::from_millis(10)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let killed = tries(&out);
    let kept = killed.values().flatten().flatten().count();
    let half = killed
        .values()
        .filter(|heads| heads.contains(&None))
        .count();
    println!("killed with {kept} of 88 cases finished and {half} half done");
    assert!((FINISHED..80).contains(&kept), "{kept}");
    assert!((1..=8).contains(&half), "{half}");

    let said = run(scratch.path()).await;
    let resumed = tries(&out);
    assert_eq!(resumed.len(), 88);
    // What was decided is written to its end, and the rest of what was broken off is made anew.
    let is_completed = |name| killed.get(name).map(Vec::as_slice) == Some(&[None]);
    let completed = resumed
        .iter()
        .filter(|(name, heads)| is_completed(name) && heads.len() == 1)
        .count();
    let (kept, half) = (kept + completed, half - completed);
    println!("{completed} of those were decided");
    let plan = format!("kept {kept} cases, {} are left to run", 88 - kept);
    assert!(said.contains(&plan), "{said}");
    assert_eq!(said.matches(": anew, try 2: ").count(), half, "{said}");
    for (name, heads) in &resumed {
        match killed.get(name).map(Vec::as_slice) {
            // What was finished is as it was.
            Some(before @ [Some(_)]) => assert_eq!(heads, before, "{name:?}"),
            Some(before) => {
                assert_eq!(before, [None], "{name:?}");
                assert!(matches!(heads[..], [Some(_)] | [_, Some(_)]), "{name:?}");
            }
            None => assert!(matches!(heads[..], [Some(_)]), "{name:?}"),
        }
    }
    numbers(&out, half);

    // Nothing is left to do, and the same evidence gives the same report.
    let report = fs::read_to_string(out.join("report.json")).unwrap();
    let said = run(scratch.path()).await;
    assert!(said.contains("kept 88 cases, 0 are left to run"), "{said}");
    let same = fs::read_to_string(out.join("report.json")).unwrap();
    assert_eq!(same, report);
    assert_eq!(tries(&out), resumed);
}

/// What the report says, to the last case.
fn numbers(out: &Path, half: usize) {
    let report = json(&out.join("report.json"));
    assert_eq!(report["suite"]["cases"], 44);
    let [gold, hasty] = &report["candidates"].as_array().unwrap()[..] else {
        panic!("there are two candidates");
    };
    let counts = |candidate: &Value| {
        ["pass", "fail", "invalid", "not_evaluated"]
            .map(|name| candidate["counts"][name].as_u64().unwrap())
    };
    assert_eq!(counts(gold), [44, 0, 0, 0]);
    assert_eq!(counts(hasty), [34, 10, 0, 0]);
    let rate = |value: &Value| {
        (
            value["hits"].as_u64().unwrap(),
            value["of"].as_u64().unwrap(),
        )
    };
    assert_eq!(rate(&gold["coverage"]), (44, 44));
    assert_eq!(rate(&hasty["pass_rate"]), (34, 44));
    // Two commands for each pass and for each failure that only hidden tests show.
    assert_eq!(rate(&gold["timeout_rate"]), (0, 88));
    assert_eq!(rate(&hasty["timeout_rate"]), (1, 83));
    let cases = |candidate: &Value| candidate["cases"].as_array().unwrap().clone();
    let mut failed: Vec<_> = cases(hasty)
        .into_iter()
        .filter(|case| case["decision"] == "fail")
        .map(|case| case["case"].as_str().unwrap().to_owned())
        .collect();
    let mut wrong = WRONG.map(ToOwned::to_owned);
    wrong.sort();
    failed.sort();
    assert_eq!(failed, wrong);
    let anew = [gold, hasty].map(|candidate| {
        let mut earlier = 0;
        for case in cases(candidate) {
            for one in case["earlier"].as_array().unwrap() {
                let why = one["why"].as_str().unwrap();
                let known = ["it was broken off: ", "it never began"];
                assert!(known.iter().any(|text| why.starts_with(text)), "{why}");
                earlier += 1;
            }
        }
        earlier
    });
    assert_eq!(anew.iter().sum::<usize>(), half);
    // Nobody knows what the scripted calls cost, so nobody knows the cost of a pass.
    assert_eq!(gold["cost"]["per_accepted_micros"], Value::Null);

    let comparison = json(&out.join("comparison-hasty.json"));
    let shape = ["both", "neither"].map(|name| comparison[name].as_u64().unwrap());
    assert_eq!(shape, [34, 0]);
    assert_eq!(comparison["only_baseline"], serde_json::json!(wrong));
    assert_eq!(comparison["only_candidate"], serde_json::json!([]));
    // scipy: binomtest(0, 10, 0.5).pvalue
    let p = comparison["p_value"].as_f64().unwrap();
    assert!((p - 0.001_953_125).abs() < 1e-12, "{p}");
    let interval = &comparison["candidate"]["paired_rate"]["wilson"];
    let bounds = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
    assert!((bounds[0] - 0.630_1).abs() < 1e-4, "{bounds:?}");
    assert!((bounds[1] - 0.871_5).abs() < 1e-4, "{bounds:?}");
}

/// The verdict of the visible tests on the files that a case begins with.
fn verdict_of_the_seed(case: &Case) -> Verdict {
    let acceptance = case.acceptance();
    let plan = acceptance.plan("unit").unwrap();
    let stage = &plan.stages[0];
    let scratch = tempfile::tempdir().unwrap();
    let work = scratch.path().join("work");
    for (path, file) in case.files().iter().chain(stage.fixtures.iter()) {
        let path = work.join(path.as_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.bytes()).unwrap();
    }
    let output = Command::new("timeout")
        .arg("20")
        .args(&stage.spec.argv)
        .current_dir(&work)
        .output()
        .unwrap();
    let mut receipt = ExecReceipt::exited(0).stderr(output.stderr);
    receipt.exit_code = output.status.code();
    let id = "seed.0.0".parse().unwrap();
    let run = StageRun::new(id, Default::default(), Manifest::default(), receipt);
    acceptance.judge(&Evidence::new(&plan, case.files(), &[run]))
}

/// That the right proposals pass is shown by the evaluation itself.
#[test]
fn every_case_begins_with_files_that_fail_its_visible_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("evaluate");
    let suite = Suite::load(folder.join("suite")).unwrap();
    assert!(suite.cases().len() >= 40);
    // Reports on this suite name it by this digest, so it changes only with its files.
    assert_eq!(
        suite.digest().to_string(),
        "8edfdf6e0977af6ff564fccf0937500d70b0de11499d5f80aba0592a53ee6450"
    );
    for case in suite.cases() {
        let verdict = verdict_of_the_seed(case);
        assert!(
            matches!(verdict, Verdict::Fail { .. }),
            "{}: {verdict:?}",
            case.id()
        );
        assert!(case.has_hidden_tests(), "{}", case.id());
        // The right proposal is where no candidate sees it.
        let gold = folder.join("candidates/gold").join(case.id());
        assert!(
            gold.join(case.editable()[0].as_str()).is_file(),
            "{}",
            case.id()
        );
    }
}
