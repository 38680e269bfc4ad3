use std::fs;

use tempfile::TempDir;

use super::{RunProblem, html};
use crate::evidence::RunDir;
use crate::outcome::Outcome;
use crate::test_kit::{
    CHECK, FINISH, RIGHT, attempt, fix, model, pretending, read, running, write,
};
use crate::workspace::{Fault, FaultAt, MemoryWorkspace, Operation, WorkspaceError};
use crate::{Private, Task};

/// Everything that a model could want to put into a page.
const HOSTILE: &str = "</pre><script>fetch('//evil.example/')</script><img src=//evil.example/x>";

async fn made(replies: &[String], workspace: &MemoryWorkspace) -> (TempDir, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let outcome = attempt(model(replies.iter().cloned()), workspace)
        .record_in(RunDir::create(folder.path()).unwrap())
        .drive()
        .await
        .unwrap();
    assert_eq!(outcome.evidence_errors, [""; 0]);
    (folder, outcome)
}

fn repair() -> Vec<String> {
    let wrong = write("amounts.py", &format!("x = \"{HOSTILE}\"\n"));
    let replies = [
        read("amounts.py"),
        wrong,
        CHECK.to_owned(),
        fix(),
        CHECK.to_owned(),
        FINISH.to_owned(),
    ];
    replies.to_vec()
}

#[tokio::test]
async fn a_page_is_written_with_the_evidence_and_says_what_it_says() {
    let (folder, outcome) = made(&repair(), &running()).await;
    assert!(outcome.is_accepted(), "{}", outcome.end);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(html(folder.path()).unwrap(), page);
    let tree = outcome.acceptance.tree.unwrap().to_string();
    let digests = [
        tree,
        outcome.patch_sha256.to_string(),
        outcome.chain_head.unwrap().to_string(),
        outcome.acceptance.evaluator.unwrap().to_string(),
    ];
    for digest in digests {
        assert!(page.contains(&digest), "{digest}");
    }
    let words = [
        "<span class=\"badge good\">accepted</span>",
        "evidence: counted",
        "<code>write amounts.py (",
        "<dd>known 0.000000, unknown for 6 calls</dd>",
        "<dd>600 tokens in, 120 out</dd>",
        "<span class=\"del\">-    return 0</span>",
        "<span class=\"add\">+    return sum(xs)</span>",
        "turn 5, unit: 2 tests passed",
        "Ran 2 tests in",
        "prefers-color-scheme:dark",
        "name=\"viewport\" content=\"width=device-width",
    ];
    for word in words {
        assert!(page.contains(word), "{word}\n{page}");
    }
    assert_eq!(page.matches("<summary>turn ").count(), 6);
}

#[tokio::test]
async fn what_a_model_says_stays_text_and_nothing_is_fetched() {
    let replies = [
        HOSTILE.to_owned(),
        read("amounts.py"),
        write("amounts.py", HOSTILE),
    ];
    let mut replies = replies.to_vec();
    replies.extend(vec![CHECK.to_owned(); 12]);
    let (folder, _) = made(&replies, &running()).await;
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("&lt;script&gt;fetch(&#39;//evil.example/&#39;)&lt;/script&gt;"));
    for never in [
        "<script", "<img", "href=", "src=\"", "url(", "@import", "<link",
    ] {
        assert!(!page.contains(never), "{never}");
    }
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
}

#[tokio::test]
async fn a_private_detail_is_not_shown() {
    let detail = Private::new("https://host.example/owner/runs");
    let gone = WorkspaceError::Gone(detail);
    let workspace = pretending().fault(Fault::new(Operation::Get, 1, FaultAt::Before, gone));
    let (folder, outcome) = made(&[read("amounts.py")], &workspace).await;
    assert!(
        outcome.end.to_string().contains("workspace failed"),
        "{}",
        outcome.end
    );
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("the workspace is gone"), "{page}");
    assert!(!page.contains("host.example"), "{page}");
}

#[tokio::test]
async fn parts_of_two_attempts_make_no_page() {
    let (one, _) = made(&repair(), &pretending()).await;
    let (other, _) = made(
        &[write("amounts.py", "x = 1\n"), CHECK.to_owned()],
        &pretending(),
    )
    .await;
    let problems = ["patch.diff", "outcome.json", "actions.jsonl"].map(|name| {
        let mixed = tempfile::tempdir().unwrap();
        for file in ["patch.diff", "outcome.json", "actions.jsonl"] {
            let from = if file == name { &other } else { &one };
            fs::copy(from.path().join(file), mixed.path().join(file)).unwrap();
        }
        html(mixed.path()).unwrap_err().to_string()
    });
    assert!(problems[0].starts_with("patch.diff does not belong to the journal: its digest"));
    assert!(
        problems[1].contains("does not belong to the journal"),
        "{}",
        problems[1]
    );
    assert!(
        problems[2].contains("does not belong to the journal"),
        "{}",
        problems[2]
    );
}

#[tokio::test]
async fn an_attempt_that_is_not_over_makes_no_page() {
    let (folder, _) = made(&repair(), &pretending()).await;
    for name in ["patch.diff", "outcome.json"] {
        fs::remove_file(folder.path().join(name)).unwrap();
        let problem = html(folder.path()).unwrap_err();
        assert!(matches!(problem, RunProblem::Missing { .. }), "{problem}");
        let said = format!("the attempt is over, and {name} is missing");
        assert_eq!(problem.to_string(), said);
    }
    let journal = folder.path().join("actions.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let half: String = text.split_inclusive('\n').take(9).collect();
    fs::write(&journal, half).unwrap();
    let problem = html(folder.path()).unwrap_err().to_string();
    assert!(
        problem.starts_with("the attempt has no end: 9 records"),
        "{problem}"
    );
    fs::remove_file(&journal).unwrap();
    assert!(matches!(html(folder.path()), Err(RunProblem::Nothing)));
}

#[tokio::test]
async fn a_journal_kept_elsewhere_makes_no_page_and_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let task = Task::new("amounts", "t").file("amounts.py", RIGHT).unwrap();
    let outcome = crate::Attempt::new(
        task,
        model([CHECK, FINISH]),
        pretending(),
        crate::test_kit::acceptance(),
        crate::test_kit::paths(),
    )
    .allow_checks(true)
    .record_in(RunDir::create(folder.path()).unwrap())
    .journal(crate::MemoryJournal::new())
    .drive()
    .await
    .unwrap();
    assert_eq!(outcome.evidence_errors, [""; 0]);
    assert!(!folder.path().join("report.html").exists());
}
