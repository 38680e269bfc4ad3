//! Runs to look at where there are none: invented, and tracked as any other.

use anyhow::Result;
use polyaxon_client::{Client, ProjectRef};
use polyaxon_tracking::{Ending, TrackedRun, Tracking};
use serde_json::{Value, json};

use super::requirement::Requirement;

/// The revision that the samples are of.
pub(crate) const REVISION: &str = "r7";

/// What they have to reach.
pub(crate) fn requirements() -> Result<Vec<Requirement>> {
    ["score>=0.9", "timeout_rate<=0.05"]
        .into_iter()
        .map(str::parse)
        .collect()
}

/// A candidate: name, model, revision of the prompt and of the cases, passed checks, outputs.
type Sample = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [f64],
    Value,
);

fn samples() -> Vec<Sample> {
    vec![
        (
            "baseline",
            "small-1",
            "p1",
            REVISION,
            &[0.0, 1.0],
            json!({"score": 0.91, "timeout_rate": 0.2}),
        ),
        (
            "short-prompt",
            "small-1",
            "p2",
            REVISION,
            &[1.0],
            json!({"score": 0.94, "timeout_rate": 0.04}),
        ),
        (
            "larger-model",
            "large-1",
            "p1",
            REVISION,
            &[0.0, 0.0, 1.0],
            json!({"score": 0.97, "timeout_rate": 0.11}),
        ),
        // It measured nothing, which is not the same as none.
        ("crashed", "large-1", "p2", REVISION, &[], json!({})),
        (
            "no-timeouts",
            "small-2",
            "p2",
            REVISION,
            &[1.0, 0.0],
            json!({"score": 0.62, "timeout_rate": 0}),
        ),
        (
            "older-cases",
            "small-1",
            "p1",
            "r6",
            &[1.0],
            json!({"score": 0.99, "timeout_rate": 0}),
        ),
    ]
}

pub(crate) async fn fill(client: &Client, project: &ProjectRef) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, model, prompt, revision, passed, outputs) in samples() {
        let tracking = Tracking::new(client, project)
            .name(name)
            .folder(folder.path().join(name));
        let run = TrackedRun::start(tracking).await?;
        run.log_inputs([
            ("model", model),
            ("prompt_revision", prompt),
            ("case_set_revision", revision),
        ])?;
        for (step, value) in passed.iter().enumerate() {
            run.log_metric(i64::try_from(step)?, "check_passed", *value)?;
        }
        for (name, value) in outputs.as_object().into_iter().flatten() {
            run.log_outputs([(name, value)])?;
        }
        let ended = match passed.is_empty() {
            true => {
                run.end_with(Ending::failed("the evaluator crashed"))
                    .await?
            }
            false => run.end().await?,
        };
        ended.ensure_complete().map(drop)?;
    }
    Ok(())
}
