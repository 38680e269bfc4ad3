//! Who is evaluated: folders of proposals, and language models.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_loop::evaluation::{Candidate, Case};
use agent_loop::model::openai::OpenAi;
use agent_loop::{Budget, Model, ScriptedModel};
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use crate::flags::Flags;

/// Turns of a script: read, write, check, and finish where the check has passed, else another write.
const TURNS: u32 = 4;

/// The candidates that the flags name, and what to tell about them before anything happens.
pub(crate) fn choose(flags: &Flags) -> Result<(Vec<Candidate>, String)> {
    let mut candidates = Vec::new();
    let mut about = Vec::new();
    for (name, folders) in folders(flags)? {
        candidates.push(scripted(&name, folders, flags.check_limit)?);
        about.push(format!("{name} (scripted proposals, no language model)"));
    }
    if let (Some(model), Some(url)) = (&flags.model, &flags.model_url) {
        candidates.push(language_model(flags, model, url)?);
        about.push(format!("{model} (language model)"));
    }
    Ok((candidates, about.join(", ")))
}

fn folders(flags: &Flags) -> Result<Vec<(String, Vec<PathBuf>)>> {
    if flags.candidate.is_empty() {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("evaluate/candidates");
        let (gold, hasty) = (ours.join("gold"), ours.join("hasty"));
        return Ok(vec![
            ("gold".to_owned(), vec![gold.clone()]),
            ("hasty".to_owned(), vec![hasty, gold]),
        ]);
    }
    let named = flags.candidate.iter().map(|text| {
        let (name, folders) = text
            .split_once('=')
            .with_context(|| format!("--candidate {text} has to be NAME=DIR[,DIR]"))?;
        let folders: Vec<_> = folders.split(',').map(PathBuf::from).collect();
        if let Some(missing) = folders.iter().find(|folder| !folder.is_dir()) {
            bail!("--candidate {name}: {} is no folder", missing.display());
        }
        Ok((name.to_owned(), folders))
    });
    named.collect()
}

fn scripted(name: &str, folders: Vec<PathBuf>, check_limit: Duration) -> Result<Candidate> {
    let candidate = Candidate::new(name, move |case| Arc::new(script(case, &folders)))?;
    Ok(candidate.configure(move |attempt| {
        attempt.budget(Budget::default().turns(TURNS).check_limit(check_limit))
    }))
}

/// Reads the file, replaces it by the proposal, checks, and finishes. A case without a proposal gets
/// a script without replies, which ends as a failure of the model and not of the candidate's code.
fn script(case: &Case, folders: &[PathBuf]) -> ScriptedModel {
    let Some(path) = case.editable().first() else {
        return ScriptedModel::new([""; 0]);
    };
    let proposal = folders.iter().find_map(|folder| {
        let file = folder.join(case.id()).join(path.as_str());
        std::fs::read_to_string(file).ok()
    });
    let Some(proposal) = proposal else {
        return ScriptedModel::new([""; 0]);
    };
    let read = json!({"action": "read", "path": path});
    let write = json!({"action": "write", "path": path, "content": proposal});
    let check = json!({"action": "check"});
    let finish = json!({"action": "finish"});
    ScriptedModel::new([read, write, check, finish].map(|action| action.to_string()))
}

fn language_model(flags: &Flags, name: &str, url: &str) -> Result<Candidate> {
    let mut builder = OpenAi::builder(url, name).thinking(false);
    let token = std::env::var(&flags.model_token_env).ok();
    if let Some(token) = token.filter(|token| !token.trim().is_empty()) {
        builder = builder.token(token);
    }
    let model: Arc<dyn Model> = Arc::new(builder.build().context("the model cannot be used")?);
    let limit = flags.check_limit;
    // A name of a model may hold what a name of a folder may not.
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let folder: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    let candidate = Candidate::new(&folder, move |_case| Arc::clone(&model))?;
    // It answers from the request alone, so another program can go on in the middle of a case.
    let candidate = candidate.resumable(true);
    Ok(candidate.configure(move |attempt| attempt.budget(Budget::default().check_limit(limit))))
}
