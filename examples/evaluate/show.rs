//! Bars where somebody watches, and lines where not.

use std::io::IsTerminal as _;

use agent_loop::evaluation::{CaseReport, Decision, Progress};
use indicatif::{ProgressBar, ProgressStyle};

/// Tells how far the evaluation has come.
pub(crate) struct Show {
    /// `None` where nobody watches.
    bar: Option<ProgressBar>,
}

impl Show {
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} cases, {elapsed} {msg}");
        let is_watched = std::io::stderr().is_terminal();
        let bar = style.ok().filter(|_| is_watched).map(|style| {
            let bar = ProgressBar::new(0);
            bar.set_style(style);
            bar
        });
        Self { bar }
    }

    pub(crate) fn tell(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Planned { kept, left, .. } => {
                self.line(&format!(
                    "kept {} cases, {left} are left to run",
                    kept.len()
                ));
                if let Some(bar) = &self.bar {
                    let all = kept.len() + left;
                    bar.set_length(u64::try_from(all).unwrap_or(u64::MAX));
                    bar.set_position(u64::try_from(kept.len()).unwrap_or(u64::MAX));
                }
            }
            Progress::Began {
                candidate,
                case,
                attempt,
                instead_of,
                resumed,
                ..
            } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("{candidate} {case}"));
                }
                if *resumed {
                    self.line(&format!("{candidate} {case}: goes on, try {attempt}"));
                } else if let Some(earlier) = instead_of {
                    let why = &earlier.why;
                    self.line(&format!("{candidate} {case}: anew, try {attempt}: {why}"));
                }
            }
            Progress::Ended { report, .. } => match &self.bar {
                Some(bar) if report.decision == Decision::Pass => bar.inc(1),
                Some(bar) => {
                    bar.inc(1);
                    self.line(&ended(report));
                }
                None => self.line(&ended(report)),
            },
            _ => {}
        }
    }

    pub(crate) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => println!("{text}"),
        }
    }
}

fn ended(report: &CaseReport) -> String {
    let CaseReport {
        candidate,
        case,
        decision,
        observed,
        ..
    } = report;
    format!("{candidate} {case}: {decision}: {observed}")
}
