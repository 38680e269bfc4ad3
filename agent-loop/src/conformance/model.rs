//! What every model has to do.

use std::time::{Duration, Instant};

use super::{Case, Report, require};
use crate::model::{Message, Model, ModelError, ModelReply, ModelRequest};

/// How much longer than its deadline a call may take.
const GRACE: Duration = Duration::from_secs(20);

/// Runs the cases on `model`, which is asked seven times. A failure of a call, as a server gives it
/// that is not there, is as good as a reply: what counts is that it is told.
///
/// # Cancel safety
/// Dropping the future gives up the call that is under way.
pub async fn model(model: &dyn Model) -> Report {
    let mut report = Report::new("model");
    report.add("has_a_name_that_stays", named(model));
    report.add("answers_or_says_why_not", answers(model).await);
    report.add("ends_within_its_deadline", deadline(model).await);
    report.add("answers_after_a_call_was_given_up", given_up(model).await);
    report.add("takes_two_calls_at_once", two_at_once(model).await);
    report.add("prints_no_detail_of_a_failure", private(model).await);
    report
}

fn messages() -> [Message; 2] {
    [
        Message::system("Answer with one JSON object."),
        Message::user("ä \u{1F600} \" \\ \n\t<think> {"),
    ]
}

/// Asks, and fails where the call hangs.
async fn ask(
    model: &dyn Model,
    id: &str,
    deadline: Duration,
) -> Result<Result<ModelReply, ModelError>, String> {
    let messages = messages();
    let id = id.parse().map_err(|_| "the kit's own id".to_owned())?;
    let request = ModelRequest::new(id, &messages)
        .schema(r#"{"type":"object"}"#)
        .seed(7)
        .max_output_tokens(16)
        .deadline(deadline);
    let limit = deadline + GRACE;
    tokio::time::timeout(limit, model.propose(request))
        .await
        .map_err(|_| format!("no end within {limit:?}, with a deadline of {deadline:?}"))
}

fn named(model: &dyn Model) -> Case {
    let name = model.name().to_owned();
    require(!name.trim().is_empty(), || "the name is empty".to_owned())?;
    require(model.name() == name, || "the name changes".to_owned())?;
    require(model.settings() == model.settings(), || {
        "the settings change".to_owned()
    })?;
    require(model.price() == model.price(), || {
        "the price changes".to_owned()
    })?;
    Ok(true)
}

async fn answers(model: &dyn Model) -> Case {
    if let Ok(reply) = ask(model, "kit-1.1.0", Duration::from_secs(60)).await? {
        let (usage, limit) = (reply.usage, 16);
        require(
            usage.output.is_none_or(|output| output <= limit + 1),
            || {
                format!(
                    "{:?} tokens of output, and {limit} were allowed",
                    usage.output
                )
            },
        )?;
        let cached = usage.cache_read.unwrap_or(0);
        require(usage.input.is_none_or(|input| cached <= input), || {
            "more tokens came from a cache than the prompt has".to_owned()
        })?;
    }
    Ok(true)
}

async fn deadline(model: &dyn Model) -> Case {
    let started = Instant::now();
    // Whether it is answered in this time does not matter.
    let deadline = Duration::from_millis(50);
    let _answer = ask(model, "kit-1.2.0", deadline).await?;
    let took = started.elapsed();
    require(took < deadline + GRACE, || format!("it took {took:?}"))?;
    Ok(true)
}

async fn given_up(model: &dyn Model) -> Case {
    let messages = messages();
    let id = "kit-1.3.0"
        .parse()
        .map_err(|_| "the kit's own id".to_owned())?;
    let call = model.propose(ModelRequest::new(id, &messages));
    drop(tokio::time::timeout(Duration::from_millis(1), call).await);
    let _answer = ask(model, "kit-1.4.0", Duration::from_secs(60)).await?;
    Ok(true)
}

async fn two_at_once(model: &dyn Model) -> Case {
    let limit = Duration::from_secs(60);
    let (one, other) = futures::future::join(
        ask(model, "kit-1.5.0", limit),
        ask(model, "kit-1.6.0", limit),
    )
    .await;
    let _answers = (one?, other?);
    Ok(true)
}

async fn private(model: &dyn Model) -> Case {
    let Err(error) = ask(model, "kit-1.7.0", Duration::from_millis(1)).await? else {
        return Ok(false);
    };
    let detail = error.detail.reveal();
    let shown = format!("{error} {error:?}");
    require(detail.len() < 8 || !shown.contains(detail), || {
        "the error shows its detail".to_owned()
    })?;
    Ok(true)
}
