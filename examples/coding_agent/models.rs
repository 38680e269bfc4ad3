//! Who proposes: a language model behind a URL, or proposals that we wrote.

use std::sync::Arc;

use agent_loop::model::openai::OpenAi;
use agent_loop::{Model, ScriptedModel};
use anyhow::{Context as _, Result};

use crate::flags::{Flags, ModelAuth};

/// Six replies: read, a fix that lets the wrong error out, its check, a right fix, its check, the
/// end.
const PROPOSALS: [&str; 6] = [
    include_str!("proposals/1-read.json"),
    include_str!("proposals/2-write.json"),
    include_str!("proposals/3-check.json"),
    include_str!("proposals/4-write.json"),
    include_str!("proposals/5-check.json"),
    include_str!("proposals/6-finish.json"),
];

/// The model, and what to tell about it before anything happens.
pub(crate) fn choose(flags: &Flags) -> Result<(Arc<dyn Model>, String)> {
    let Some(url) = &flags.model_url else {
        let model = ScriptedModel::new(PROPOSALS);
        return Ok((
            Arc::new(model),
            "scripted proposals, no language model".to_owned(),
        ));
    };
    let mut builder = OpenAi::builder(url, &flags.model).thinking(false);
    let key = std::env::var(&flags.model_token_env)
        .ok()
        .filter(|key| !key.trim().is_empty());
    let auth = match (&key, flags.model_auth) {
        (None, _) => "without a token",
        (Some(_), ModelAuth::Token) => "with a token",
        (Some(_), ModelAuth::Bearer) => "with a bearer token",
    };
    if let Some(key) = key {
        builder = match flags.model_auth {
            ModelAuth::Token => builder.token(key),
            ModelAuth::Bearer => builder.bearer(key),
        };
    }
    let model = builder.build().context("the model cannot be used")?;
    let about = format!("{} at {url}, {auth}", flags.model);
    Ok((Arc::new(model), about))
}
