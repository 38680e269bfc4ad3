//! Queries in three forms: typed, in the bare language, and as what they mean.

use polyaxon_client::runs::{RunQuery, RunStatus};
use serde_json::{Value, json};

use super::model::{Known, Plain};

/// One query.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the three forms of a query")]
pub struct Case {
    pub query: RunQuery,
    pub bare: &'static str,
    pub fits: fn(&Known) -> bool,
}

fn rev(run: &Known) -> Option<&Value> {
    run.inputs.get("rev")
}

fn is_rev(run: &Known, text: &str) -> bool {
    rev(run) == Some(&json!(text))
}

fn number(run: &Known) -> Option<f64> {
    match run.score() {
        Some(Plain::Number(number)) => Some(number),
        _ => None,
    }
}

fn named(run: &Known, fits: impl Fn(&str) -> bool) -> bool {
    run.name.as_deref().is_some_and(fits)
}

fn has(run: &Known, artifact: (&str, &str)) -> bool {
    run.artifacts.contains(&artifact)
}

/// All of them.
#[must_use]
pub fn cases() -> Vec<Case> {
    let all = RunQuery::new;
    let case = |query, bare, fits| Case { query, bare, fits };
    vec![
        // Text that looks like something else.
        case(all().input("rev").eq("1234"), r#"inputs.rev:"1234""#, |r| {
            is_rev(r, "1234")
        }),
        case(all().input("rev").eq(1234), "inputs.rev:1234", |r| {
            rev(r) == Some(&json!(1234))
        }),
        case(all().input("rev").eq("nil"), r#"inputs.rev:"nil""#, |r| {
            is_rev(r, "nil")
        }),
        case(all().input("rev").eq(">5"), r#"inputs.rev:">5""#, |r| {
            is_rev(r, ">5")
        }),
        case(all().input("rev").eq("~x"), r#"inputs.rev:"~x""#, |r| {
            is_rev(r, "~x")
        }),
        case(
            all().input("rev").eq("é ü"),
            r#"inputs.rev:"é ü""#,
            |r| is_rev(r, "é ü"),
        ),
        // The server does not tell these from the booleans, and from null.
        case(all().input("rev").eq(true), "inputs.rev:true", |r| {
            is_rev(r, "true") || rev(r) == Some(&json!(true))
        }),
        case(all().input("rev").eq("true"), r#"inputs.rev:"true""#, |r| {
            is_rev(r, "true") || rev(r) == Some(&json!(true))
        }),
        case(all().input("rev").eq("null"), r#"inputs.rev:"null""#, |r| {
            is_rev(r, "null") || rev(r) == Some(&Value::Null)
        }),
        // Text that the language cuts at.
        case(
            all().input("rev").eq("say \"hi\""),
            r#"inputs.rev:"say \"hi\"""#,
            |r| is_rev(r, "say \"hi\""),
        ),
        case(
            all().input("rev").eq("back\\slash"),
            r#"inputs.rev:"back\\slash""#,
            |r| is_rev(r, "back\\slash"),
        ),
        case(
            all().input("rev").eq("a,b"),
            r#"inputs.rev:"a\u002cb""#,
            |r| is_rev(r, "a,b"),
        ),
        case(
            all().input("rev").eq("(p)|q"),
            r#"inputs.rev:"\u0028p\u0029\u007cq""#,
            |r| is_rev(r, "(p)|q"),
        ),
        case(
            all().input("rev").eq("x AND y"),
            r#"inputs.rev:"x\u0020AND\u0020y""#,
            |r| is_rev(r, "x AND y"),
        ),
        case(
            all().input("rev").eq("a..b"),
            r#"inputs.rev:"a\u002e\u002eb""#,
            |r| is_rev(r, "a..b"),
        ),
        case(all().input("rev").eq("50%"), r#"inputs.rev:"50%""#, |r| {
            is_rev(r, "50%")
        }),
        case(
            all().input("rev").eq("two\nlines"),
            r#"inputs.rev:"two\nlines""#,
            |r| is_rev(r, "two\nlines"),
        ),
        case(
            all().input("rev").eq("live_state"),
            r#"inputs.rev:"live_state",live_state:1"#,
            |r| is_rev(r, "live_state"),
        ),
        // Negation, and what is missing.
        case(
            all().input("rev").ne("1234"),
            r#"inputs.rev:~"1234",inputs.rev:~nil"#,
            |r| rev(r).is_some_and(|rev| *rev != json!("1234")),
        ),
        case(
            all().input("rev").ne_or_missing("1234"),
            r#"inputs.rev:~"1234""#,
            |r| rev(r) != Some(&json!("1234")),
        ),
        case(all().input("rev").is_missing(), "inputs.rev:nil", |r| {
            rev(r).is_none()
        }),
        case(
            all().output("score").is_present(),
            "outputs.score:~nil",
            |r| r.score().is_some(),
        ),
        case(all().name().is_missing(), "name:nil", |r| r.name.is_none()),
        case(all().name().ne("true"), r#"name:~"true",name:~nil"#, |r| {
            named(r, |n| n != "true")
        }),
        // Several values.
        case(
            all().input("rev").one_of(["1234", "a,b"]),
            r#"inputs.rev:"1234"|"a\u002cb""#,
            |r| is_rev(r, "1234") || is_rev(r, "a,b"),
        ),
        case(
            all().input("rev").none_of(["1234", "nil"]),
            r#"inputs.rev:~"1234"|"nil",inputs.rev:~nil"#,
            |r| rev(r).is_some() && !is_rev(r, "1234") && !is_rev(r, "nil"),
        ),
        case(
            all().name().one_of(["true", "null"]),
            r#"name:"true"|"null""#,
            |r| named(r, |n| n == "true" || n == "null"),
        ),
        case(
            all().status_in([RunStatus::Succeeded, RunStatus::Failed]),
            "status:succeeded|failed",
            |r| r.status != RunStatus::Created,
        ),
        case(
            all().status_not_in([RunStatus::Failed]),
            "status:~failed",
            |r| r.status != RunStatus::Failed,
        ),
        // Numbers, and what is none.
        case(all().output("score").eq(-5), "outputs.score:-5", |r| {
            number(r) == Some(-5.0)
        }),
        case(
            all().metric("score").eq(0.125),
            "metrics.score:0.125",
            |r| number(r) == Some(0.125),
        ),
        case(
            all().metric("score").gt(0),
            "metrics.score:>0,metrics.score:<1e99",
            |r| number(r).is_some_and(|n| n > 0.0),
        ),
        case(
            all().output("score").ge(2.5),
            "outputs.score:>=2.5,outputs.score:<1e99",
            |r| number(r).is_some_and(|n| n >= 2.5),
        ),
        case(all().metric("score").lt(-2.5), "metrics.score:<-2.5", |r| {
            number(r).is_some_and(|n| n < -2.5)
        }),
        case(all().output("score").le(0), "outputs.score:<=0", |r| {
            number(r).is_some_and(|n| n <= 0.0)
        }),
        case(
            all().metric("score").between(-1.5, 3),
            "metrics.score:>=-1.5,metrics.score:<=3",
            |r| number(r).is_some_and(|n| (-1.5..=3.0).contains(&n)),
        ),
        case(all().input("number").gt(150), "inputs.number:>150", |r| {
            r.number > 150 && rev(r).is_some()
        }),
        // Parts of text.
        case(
            all().name().starts_with("candidate-01"),
            "name:candidate-01%",
            |r| named(r, |n| n.starts_with("Candidate-01")),
        ),
        case(all().name().contains("12"), r#"name:%"12"%"#, |r| {
            named(r, |n| n.contains("12"))
        }),
        case(all().name().ends_with("5"), r#"name:%"5""#, |r| {
            named(r, |n| n.ends_with('5'))
        }),
        case(
            all().description().contains("(MOSTLY) by hand | 100%"),
            r#"description:%"\u0028mostly\u0029 by hand \u007c 100\u0025"%"#,
            |r| r.number % 4 == 0,
        ),
        case(
            all().description().eq("case 13"),
            r#"description:"case 13""#,
            |r| r.number == 13,
        ),
        // Artifacts.
        case(
            all().has_artifact("case set"),
            r#"artifacts.name:"case set""#,
            |r| has(r, ("case set", "data")),
        ),
        case(
            all().has_artifact_of_kind("metric"),
            "artifacts.kind:metric",
            |r| !r.artifacts.is_empty(),
        ),
        case(
            all().lacks_artifact("accuracy"),
            r#"artifacts.name:~"accuracy""#,
            |r| !has(r, ("accuracy", "metric")),
        ),
        case(
            all().has_artifact("loss").has_artifact_of_kind("metric"),
            "artifacts.name:loss,artifacts.kind:metric",
            |r| has(r, ("loss", "metric")),
        ),
        // Together.
        case(
            all()
                .input("rev")
                .eq("1234")
                .status(RunStatus::Succeeded)
                .name()
                .is_present(),
            r#"inputs.rev:"1234" AND status:succeeded AND name:~nil"#,
            |r| is_rev(r, "1234") && r.status == RunStatus::Succeeded && r.name.is_some(),
        ),
        case(
            all()
                .any_of([all().input("rev").eq("1234"), all().metric("score").gt(10)])
                .status(RunStatus::Succeeded),
            r#"(inputs.rev:"1234" OR (metrics.score:>10,metrics.score:<1e99)),status:succeeded"#,
            |r| {
                (is_rev(r, "1234") || number(r).is_some_and(|n| n > 10.0))
                    && r.status == RunStatus::Succeeded
            },
        ),
        case(
            all().any_of([
                all().name().is_missing().status(RunStatus::Failed),
                all().any_of([all().input("rev").is_missing(), all().name().eq("nil")]),
            ]),
            r#"((name:nil,status:failed) OR inputs.rev:nil OR name:"nil")"#,
            |r| {
                (r.name.is_none() && r.status == RunStatus::Failed)
                    || rev(r).is_none()
                    || named(r, |n| n == "nil")
            },
        ),
        case(
            all().kind().eq("job").meta("number").eq(7),
            "meta_info.number:7",
            |r| r.number == 7,
        ),
    ]
}
