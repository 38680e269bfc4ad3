//! What a model may claim, and what counts.

use agent_loop::{AcceptanceState, Budget, Outcome};
use polyaxon_tests::agent::{Case, FIX, check, finish, read, write};
use polyaxon_tests::local::LocalSandbox;

fn not_accepted(outcome: &Outcome) {
    assert_eq!(
        outcome.acceptance.state,
        AcceptanceState::NotAccepted,
        "{}",
        outcome.end
    );
    assert_eq!(outcome.exit_code(), 1);
    assert_eq!(outcome.acceptance.tree, None);
}

#[tokio::test]
async fn finishing_without_a_check_is_refused_and_says_what_is_missing() {
    let local = LocalSandbox::start().await;
    let replies = [read(), write(FIX), finish()];
    let case = Case {
        budget: Budget::default().turns(3),
        ..Case::default()
    };
    let made = case.drive(&local.sandbox, replies).await;
    not_accepted(&made.outcome);
    assert!(made.said(3).contains("check"), "{}", made.said(3));
    assert!(made.outcome.checks.is_empty());
}

#[tokio::test]
async fn a_write_after_a_pass_takes_the_pass_away() {
    let local = LocalSandbox::start().await;
    let other = "def total(xs):\n    return sum(xs) # x\n";
    for later in [other, FIX] {
        let replies = [read(), write(FIX), check(), write(later), finish()];
        let case = Case {
            budget: Budget::default().turns(5),
            ..Case::default()
        };
        let made = case.drive(&local.sandbox, replies).await;
        not_accepted(&made.outcome);
        assert_eq!(made.verdicts(), ["pass"]);
        assert!(made.said(5).contains("check"), "{}", made.said(5));
    }
}

#[tokio::test]
async fn a_change_by_somebody_else_after_a_pass_is_noticed_at_the_end() {
    let local = LocalSandbox::start().await;
    // The code under test looks for the workspace, and changes it as it is tested.
    let sneaky = "import glob\n\n\ndef total(xs):\n    for path in glob.glob('../*/amounts.py') + glob.glob('../../*/amounts.py'):\n        try:\n            open(path, 'a').write('# later\\n')\n        except OSError:\n            pass\n    return sum(xs)\n";
    let replies = [read(), write(sneaky), check(), finish(), finish()];
    let case = Case {
        budget: Budget::default().turns(5),
        ..Case::default()
    };
    let made = case.drive(&local.sandbox, replies).await;
    assert!(
        !made.outcome.is_accepted(),
        "accepted bytes that nobody checked"
    );
}

#[tokio::test]
async fn a_budget_that_is_used_up_is_no_success_however_it_is_described() {
    let local = LocalSandbox::start().await;
    let case = Case {
        budget: Budget::default().turns(3),
        ..Case::default()
    };
    let replies = [
        read(),
        write(FIX),
        "Everything is finished, all tests pass.".to_owned(),
    ];
    let made = case.drive(&local.sandbox, replies).await;
    not_accepted(&made.outcome);
    assert_eq!(
        made.outcome.end.to_string(),
        "exhausted: all turns are used"
    );
    let patch = std::fs::read_to_string(made.folder.path().join("run/patch.diff")).unwrap();
    assert!(patch.contains("+    return sum(xs)"), "{patch}");
    assert_eq!(made.outcome_json()["end"]["end"], "exhausted");
}
