//! What passes a check, and what only looks like it.

use std::time::{Duration, Instant};

use agent_loop::{AcceptanceState, Budget};
use polyaxon_local::{Limits, LocalServer};
use polyaxon_sandbox::Exec;
use polyaxon_tests::agent::{Case, FIX, check, check_limit, finish, read, write, write_to};
use polyaxon_tests::local::LocalSandbox;

/// Replies that write a file, check it twice and finish.
fn checked(source: &str) -> [String; 5] {
    [read(), write(source), check(), check(), finish()]
}

/// Code that is wrong, or that cheats; and the verdicts of its checks.
async fn never_passes(source: &str, verdict: &str) {
    let local = LocalSandbox::start().await;
    let case = Case {
        budget: Budget::default().turns(5),
        ..Case::default()
    };
    let made = case.drive(&local.sandbox, checked(source)).await;
    assert!(!made.outcome.is_accepted(), "accepted: {source}");
    assert!(
        !made.verdicts().is_empty(),
        "no check ran: {}",
        made.outcome.end
    );
    for got in made.verdicts() {
        assert_eq!(got, verdict, "{source}: {:?}", made.outcome.checks);
    }
    if verdict == "invalid" {
        assert_eq!(made.outcome.acceptance.state, AcceptanceState::Invalid);
        assert_eq!(made.outcome.exit_code(), 3);
    }
}

#[tokio::test]
async fn ending_the_process_on_import_gives_no_verdict() {
    never_passes("import os\nos._exit(0)\n", "invalid").await;
}

#[tokio::test]
async fn leaving_with_status_0_on_import_fails() {
    never_passes("raise SystemExit(0)\n", "fail").await;
}

#[tokio::test]
async fn a_failing_suite_that_exits_with_0_gives_no_verdict() {
    let source =
        "import atexit, os\natexit.register(os._exit, 0)\n\n\ndef total(xs):\n    return 1\n";
    never_passes(source, "invalid").await;
}

#[tokio::test]
async fn a_fixture_that_is_changed_and_left_changed_gives_no_verdict() {
    let source = "open('test_amounts.py', 'a').write('# changed\\n')\n\n\ndef total(xs):\n    return sum(xs)\n";
    never_passes(source, "invalid").await;
}

#[tokio::test]
async fn a_check_that_ran_no_test_gives_no_verdict() {
    let local = LocalSandbox::start().await;
    let tests = "import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n".to_owned();
    let case = Case {
        tests,
        budget: Budget::default().turns(5),
        ..Case::default()
    };
    let made = case.drive(&local.sandbox, checked(FIX)).await;
    assert_eq!(made.outcome.acceptance.state, AcceptanceState::Invalid);
    assert!(
        made.verdicts().iter().all(|verdict| *verdict == "invalid"),
        "{:?}",
        made.verdicts()
    );
    assert_eq!(made.outcome.exit_code(), 3);
}

#[tokio::test]
async fn fewer_tests_than_planned_give_no_verdict() {
    let local = LocalSandbox::start().await;
    let case = Case {
        count: 3,
        budget: Budget::default().turns(5),
        ..Case::default()
    };
    let made = case.drive(&local.sandbox, checked(FIX)).await;
    assert_eq!(made.outcome.acceptance.state, AcceptanceState::Invalid);
}

#[tokio::test]
async fn modules_that_stand_in_for_the_library_do_not_decide() {
    let local = LocalSandbox::start().await;
    for name in ["unittest.py", "json.py", "random.py", "os.py"] {
        let case = Case {
            editable: vec!["amounts.py", "unittest.py", "json.py", "random.py", "os.py"],
            budget: Budget::default().turns(3),
            ..Case::default()
        };
        let replies = [read(), write_to(name, "import sys\nsys.exit(0)\n"), check()];
        let made = case.drive(&local.sandbox, replies).await;
        assert_eq!(
            made.verdicts(),
            ["fail"],
            "{name}: {:?}",
            made.outcome.checks
        );
    }
}

#[tokio::test]
async fn a_fix_of_equal_length_within_the_same_second_is_seen_and_so_is_a_break() {
    let local = LocalSandbox::start().await;
    let good = "def total(xs):\n    return sum(xs)\n";
    let bad = "def total(xs):\n    return max(xs)\n";
    assert_eq!(good.len(), bad.len());
    let replies = [
        read(),
        write(bad),
        check(),
        write(good),
        check(),
        write(bad),
        check(),
        write(good),
        check(),
        finish(),
    ];
    let made = Case::default().drive(&local.sandbox, replies).await;
    assert_eq!(made.verdicts(), ["fail", "pass", "fail", "pass"]);
    assert!(made.outcome.is_accepted());
}

#[tokio::test]
async fn endless_output_is_cut_and_ended() {
    // So little is kept that the end of the output is not there, as with 512 MiB and a fast disk.
    let mut limits = Limits::default();
    limits.exec_log = 8 << 20;
    let server = LocalServer::builder().limits(limits).start().await.unwrap();
    let local = LocalSandbox::on(server).await;
    let source = "def total(xs):\n    while True:\n        print('x' * 10000)\n";
    let case = Case {
        budget: check_limit(Duration::from_secs(2)).turns(3),
        ..Case::default()
    };
    let made = case
        .drive(&local.sandbox, [read(), write(source), check()])
        .await;
    assert_eq!(made.verdicts(), ["fail"]);
    let took = made.outcome.checks[0].duration;
    assert!(took < Duration::from_secs(60), "{took:?}");
    let journal = made.folder.path().join("run/actions.jsonl");
    assert!(std::fs::metadata(journal).unwrap().len() < 1 << 20);
    assert!(made.said(3).contains("did not end"), "{}", made.said(3));
}

#[tokio::test]
async fn a_check_beyond_its_limit_fails_and_leaves_no_process() {
    let local = LocalSandbox::start().await;
    let source = "import subprocess, time\n\n\ndef total(xs):\n    subprocess.Popen(['sleep', '4321'])\n    time.sleep(4321)\n";
    let case = Case {
        budget: check_limit(Duration::from_secs(1)).turns(3),
        ..Case::default()
    };
    let made = case
        .drive(&local.sandbox, [read(), write(source), check()])
        .await;
    assert_eq!(made.verdicts(), ["fail"]);
    // The group is killed at the limit; the kernel may take a moment to clear it away.
    let look = Exec::shell("! grep -l -a '^sleep.4321' /proc/[0-9]*/cmdline 2>/dev/null");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !local.sandbox.process().exec(&look).await.unwrap().success() {
        assert!(Instant::now() < deadline, "a process of the check is left");
    }
}

#[tokio::test]
async fn the_places_of_checks_are_gone_afterwards() {
    let local = LocalSandbox::start().await;
    let replies = [read(), write(FIX), check(), finish()];
    let made = Case::default().drive(&local.sandbox, replies).await;
    assert!(made.outcome.is_accepted());
    let look = Exec::shell("find . -name amounts.py").workdir("/tmp");
    let found = local.sandbox.process().exec(&look).await.unwrap();
    assert_eq!(
        found.stdout.text().unwrap().lines().count(),
        1,
        "{}",
        found.stdout.text_lossy()
    );
}

#[tokio::test]
async fn a_place_without_python3_gives_no_verdict_and_says_what_is_missing() {
    let local = LocalSandbox::start().await;
    let case = Case {
        search_path: Some("/nowhere"),
        ..Case::default()
    };
    let made = case.drive(&local.sandbox, checked(FIX)).await;
    assert_eq!(made.outcome.exit_code(), 3);
    let why = made.outcome.end.to_string();
    assert!(why.contains("python3"), "{why}");
}
