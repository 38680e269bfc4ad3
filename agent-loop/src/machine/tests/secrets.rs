//! What looks like a secret in the output of a check stays with the journal.

use std::fs;
use std::sync::Arc;

use crate::acceptance::{CommandAcceptance, Verdict};
use crate::budget::Budget;
use crate::journal::{Event, ReadJournal};
use crate::test_kit::{CHECK, JumpingClock, fast_folder, fix, model, paths, task};
use crate::workspace::{ExecReceipt, MemoryWorkspace};
use crate::{Attempt, RunDir, report, verify};

/// Each value is in the output once, behind a name in one of its spellings.
const SAID: &str = "E   X-API-KEY: v-9a1\nE   x-api-key: v-9a2\nE   Authorization: token v-9a3\n\
    E   {\"apiKey\": \"v-9a4\"}\nE   unexpected token: ')'\n";
const SECRET: &str = "v-9a";

#[tokio::test]
async fn a_secret_in_the_output_of_a_check_is_told_to_nobody() {
    for (exit, word) in [(1, "fail"), (0, "pass"), (127, "invalid")] {
        let folder = fast_folder();
        let place = MemoryWorkspace::new(move |_, _| {
            Ok(ExecReceipt::exited(exit).stdout(SAID).stderr(SAID))
        });
        let acceptance = Arc::new(CommandAcceptance::new(["check"]));
        let script = [fix(), CHECK.to_owned(), CHECK.to_owned()];
        let outcome = Attempt::new(task(), model(script), place, acceptance, paths())
            .allow_checks(true)
            .budget(Budget::default().turns(3))
            .clock(JumpingClock::default())
            .record_in(RunDir::create(folder.path()).unwrap())
            .drive()
            .await
            .unwrap();
        assert_eq!(outcome.checks[0].verdict, word);
        let summary = &outcome.checks[0].summary;
        assert!(!summary.contains(SECRET), "{summary}");

        let journal = ReadJournal::read(folder.path()).unwrap();
        let mut prompts = String::new();
        for record in journal.known() {
            match &record.event {
                Event::Asked(asked) => prompts.push_str(&asked.prompt),
                Event::Judged(judged) => {
                    if let Verdict::Fail { feedback } = &judged.verdict {
                        assert_eq!(feedback.matches(SECRET).count(), 8, "{feedback}");
                    }
                }
                _ => {}
            }
        }
        assert!(!prompts.contains(SECRET), "{word}: {prompts}");
        // Of a pass nothing is told; else what is said beside it is.
        for beside in ["X-API-KEY: <redacted>", "unexpected token: ')'"] {
            assert_eq!(prompts.contains(beside), word != "pass", "{prompts}");
        }

        let page = report::html(folder.path()).unwrap();
        assert!(page.contains("X-API-KEY: &lt;redacted&gt;"), "{page}");
        for name in ["report.html", "outcome.json"] {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(!text.contains(SECRET), "{name}: {text}");
        }
        assert!(verify(folder.path()).unwrap().is_consistent());
    }
}
