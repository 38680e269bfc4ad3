//! Replies that are no action, or not only one.

use agent_loop::{Budget, Finish, ModelReply};
use polyaxon_tests::agent::{Case, FIX, check, finish, read, write};
use polyaxon_tests::local::LocalSandbox;

fn turns(count: u32) -> Case {
    Case {
        budget: Budget::default().turns(count),
        ..Case::default()
    }
}

#[tokio::test]
async fn a_reply_that_is_no_action_changes_nothing_and_is_told_its_fault() {
    let local = LocalSandbox::start().await;
    let two = format!("{}{}", write("x = 1\n"), finish());
    let table = [
        ("All tests pass, done.", "JSON"),
        (two.as_str(), "follows"),
        (r#"{"action":"wite","path":"amounts.py"}"#, "wite"),
        (r#"{"action":"write","path":"amounts.py"}"#, "content"),
        (r#"{"action":"check","argv":["sh"]}"#, "argv"),
        (
            r#"{"action":"write","path":"amounts.py","content":"'\d+'"}"#,
            "escape",
        ),
        ("", "empty"),
    ];
    for (reply, named) in table {
        let made = turns(2)
            .drive(&local.sandbox, [read(), reply.to_owned()])
            .await;
        assert!(!made.outcome.is_accepted());
        assert!(made.said(2).contains(named), "{reply:?}: {}", made.said(2));
        let patch = std::fs::read(made.folder.path().join("run/patch.diff")).unwrap();
        assert!(patch.is_empty(), "{reply:?} changed a file");
    }
}

#[tokio::test]
async fn a_reply_in_a_fence_is_taken_with_its_bytes_untouched() {
    let local = LocalSandbox::start().await;
    let fix = format!("# use ```py fences```\n{FIX}");
    let fenced = format!("```json\n{}\n```", write(&fix));
    let replies = [read(), fenced, check(), finish()];
    let made = Case::default().drive(&local.sandbox, replies).await;
    assert!(made.outcome.is_accepted(), "{}", made.outcome.end);
    let patch = std::fs::read_to_string(made.folder.path().join("run/patch.diff")).unwrap();
    assert!(patch.contains("+# use ```py fences```\n"), "{patch}");
}

#[tokio::test]
async fn a_reply_that_was_cut_off_has_no_effect_even_where_it_parses() {
    let local = LocalSandbox::start().await;
    let cut = r#"{"action":"write","path":"amounts.py","content":"def total(xs):\n    s=0"#;
    for text in [cut.to_owned(), write(FIX)] {
        let replies = [
            ModelReply::new(read()),
            ModelReply::new(text).finish(Finish::Length),
        ];
        let made = turns(2).drive_replies(&local.sandbox, replies).await;
        let patch = std::fs::read(made.folder.path().join("run/patch.diff")).unwrap();
        assert!(patch.is_empty());
        assert!(made.said(2).contains("cut"), "{}", made.said(2));
    }
}

#[tokio::test]
async fn three_replies_in_a_row_that_are_no_action_end_the_attempt() {
    let local = LocalSandbox::start().await;
    let made = turns(12)
        .drive(&local.sandbox, ["a", "b", "c"].map(str::to_owned))
        .await;
    assert_eq!(made.outcome.turns, 3);
    assert_eq!(made.outcome.exit_code(), 1);
    assert_eq!(
        made.outcome.end.to_string(),
        "exhausted: too many replies in a row were no action"
    );
}
