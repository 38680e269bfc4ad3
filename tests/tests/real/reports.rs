//! The pages of an attempt and of a suite, in a browser: what people see, in light, dark and narrow,
//! and that nothing is fetched, whatever a model has said.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use agent_loop::evaluation::{Candidate, Case, Evaluation, Suite};
use agent_loop::workspace::SandboxWorkspaces;
use agent_loop::{Budget, ScriptedModel};
use polyaxon_local::LocalServer;
use polyaxon_sandbox::SandboxSpec;
use polyaxon_tests::local::client_of;
use serde_json::{Value, json};

use crate::pages::look;
use crate::provided;

/// Three cases that `hasty` gets wrong and one that it gets right.
const CASES: [&str; 4] = ["clamp", "gcd-order", "leap-year", "range-sum"];

/// What would show in the title, or be fetched, were it anything but text.
const HOSTILE: &str = "</pre><script>document.title='owned'</script>\
    <img src=http://127.0.0.1:9/x onerror=\"document.title='owned'\">\
    <style>@import url(http://127.0.0.1:9/y)</style>";

/// The files of the example `evaluate`.
fn ours() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/evaluate"))
}

/// Says something hostile, and then does what a script of `name` does.
fn script(name: &str, case: &Case) -> ScriptedModel {
    let path = &case.editable()[0];
    let proposal = [name, "gold"].into_iter().find_map(|folder| {
        let folder = ours().join("candidates").join(folder).join(case.id());
        fs::read_to_string(folder.join(path.as_str())).ok()
    });
    let content = format!("{}# {HOSTILE}\n", proposal.unwrap());
    let actions = [
        json!({"action": "read", "path": path}),
        json!({"action": "write", "path": path, "content": content}),
        json!({"action": "check"}),
        json!({"action": "finish"}),
    ];
    let actions = actions.iter().map(ToString::to_string);
    ScriptedModel::new(std::iter::once(HOSTILE.to_owned()).chain(actions))
}

async fn evaluated(folder: &Path) -> Value {
    let server = LocalServer::start().await.unwrap();
    let spec = SandboxSpec::image("python:3.12-slim");
    let places = SandboxWorkspaces::new(client_of(&server), server.project().clone(), spec);
    let suite = Suite::load(ours().join("suite")).unwrap();
    let suite = suite.only(|case| CASES.contains(&case.id())).unwrap();
    let mut evaluation = Evaluation::new(suite, places, folder).allow_checks(true);
    for name in ["gold", "hasty"] {
        let candidate = Candidate::new(name, move |case| Arc::new(script(name, case))).unwrap();
        let candidate = candidate.configure(|attempt| attempt.budget(Budget::default().turns(5)));
        evaluation = evaluation.candidate(candidate);
    }
    evaluation.run().await.unwrap();
    server.stop().await.unwrap();
    serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap()
}

fn url(folder: &Path, page: &str) -> String {
    format!("file://{}", folder.join(page).display())
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn the_pages_of_attempts_and_suites_show_their_numbers_and_fetch_nothing() {
    let scratch = provided::scratch("reports").canonicalize().unwrap();
    let out = scratch.join("evaluation");
    let report = evaluated(&out).await;
    let mut pages = Vec::new();
    let views = [
        ("light", "light", 1400),
        ("dark", "dark", 1400),
        ("phone", "light", 390),
    ];
    let shown = [
        ("suite", "report.html"),
        ("accepted", "gold/clamp/1/report.html"),
        ("failed", "hasty/range-sum/1/report.html"),
    ];
    for (name, page) in shown {
        for (view, scheme, width) in views {
            pages.push(json!({
                "name": format!("{name}-{view}"), "url": url(&out, page),
                "scheme": scheme, "width": width, "steps": [{"unfold": true}],
            }));
        }
    }
    let seen = look(&scratch, &Value::from(pages.clone()));
    for (page, asked) in seen.iter().zip(&pages) {
        let name = page["name"].as_str().unwrap();
        assert_eq!(page["requests"], json!([asked["url"]]), "{name}");
        assert_eq!(page["hidden"], 0, "{name}");
        assert_ne!(page["title"], "owned", "{name}");
        let background = match name.ends_with("dark") {
            true => "rgb(13, 17, 23)",
            false => "rgb(255, 255, 255)",
        };
        assert_eq!(page["background"], background, "{name}");
    }
    for view in ["light", "dark", "phone"] {
        let text = |name: &str| {
            let name = format!("{name}-{view}");
            let page = seen
                .iter()
                .find(|page| page["name"] == name.as_str())
                .unwrap();
            page["text"].as_str().unwrap().to_owned()
        };
        suite(&text("suite"), &report);
        attempt(&text("accepted"), &out.join("gold/clamp/1"));
        attempt(&text("failed"), &out.join("hasty/range-sum/1"));
    }
}

/// The cells of the row of a table that begins with `name`.
fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let rows = text.lines().filter(|line| line.contains('\t'));
    let mut rows = rows.map(|line| line.split('\t').map(str::trim));
    let found = rows.find_map(|mut cells| (cells.next() == Some(name)).then(|| cells.collect()));
    found.unwrap_or_else(|| panic!("there is no row {name:?} in\n{text}"))
}

fn suite(text: &str, report: &Value) {
    let numbers = [
        ("passed", ["4/4", "1/4"]),
        ("coverage", ["4/4", "4/4"]),
        ("pass", ["4", "1"]),
        ("fail", ["0", "3"]),
        ("invalid", ["0", "0"]),
        ("not evaluated", ["0", "0"]),
        // Two commands for a pass, and for a failure that only hidden tests show.
        ("timeouts", ["0/8", "0/7"]),
        // scipy: binomtest(4, 4) and (1, 4), proportion_ci(method="wilson")
        ("passed, 95 %", ["51 to 100 %", "5 to 70 %"]),
    ];
    for (name, cells) in numbers {
        assert_eq!(row(text, name), cells, "{name}");
    }
    let digest = report["suite"]["case_set_revision"].as_str().unwrap();
    let said = [
        digest,
        "hasty against gold, 4 pairs",
        "3: gcd-order, leap-year, range-sum",
        // scipy: binomtest(0, 3, 0.5).pvalue
        "p = 0.2500",
    ];
    for word in said {
        assert!(text.contains(word), "{word}\n{text}");
    }
}

fn attempt(text: &str, folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let outcome: Value = serde_json::from_str(&read("outcome.json")).unwrap();
    let is_accepted = outcome["acceptance"]["state"] == "accepted";
    assert_eq!(is_accepted, folder.ends_with("gold/clamp/1"));
    let state = if is_accepted {
        "accepted"
    } else {
        "not accepted"
    };
    let mut said = vec![
        state.to_owned(),
        "known 0.000000, unknown for 5 calls".to_owned(),
        "turn 5 finish".to_owned(),
        "Ran 2 tests in".to_owned(),
        "in a fresh place: exit code".to_owned(),
        // What the model said stands there as it said it.
        HOSTILE.to_owned(),
    ];
    let pointers = match is_accepted {
        true => &[
            "/patch_sha256",
            "/chain_head",
            "/acceptance/tree",
            "/acceptance/evidence",
        ][..],
        false => &["/patch_sha256", "/chain_head"][..],
    };
    for pointer in pointers {
        said.push(
            outcome
                .pointer(pointer)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    // All lines of the patch but the last, whose blanks a browser shows otherwise.
    let patch = read("patch.diff");
    let changed = patch
        .lines()
        .filter(|line| line.starts_with('+') && line.len() < 60);
    said.extend(changed.map(ToOwned::to_owned));
    for word in said {
        assert!(text.contains(&word), "{word}\n{text}");
    }
    let check = outcome["latency"]["check_ms"].as_u64().unwrap();
    let shown = match check {
        0..10_000 => format!("{check} ms"),
        _ => format!("{:.1} s", check as f64 / 1000.0),
    };
    assert_eq!(row(text, "checks")[0], shown);
}
