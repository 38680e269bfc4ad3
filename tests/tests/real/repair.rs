//! Whole attempts with a real model on a real llama.cpp server, in the sandbox on this machine.
//!
//! With `AGENT_LOOP_GGUF`, the file of a larger model, that one is asked too.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_loop::acceptance::{Expected, IoCase, IoCases};
use agent_loop::journal::{Replied, ReplyRecord};
use agent_loop::model::openai::{OpenAi, Server};
use agent_loop::workspace::SandboxWorkspace;
use agent_loop::{
    Acceptance, AcceptanceState, Attempt, Budget, End, Event, Limit, MemoryJournal, Outcome, Paths,
    Task, UnittestAcceptance, Workspace as _, action,
};
use polyaxon_tests::local::LocalSandbox;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::program::{Port, Program};
use crate::provided::{scratch, script};

const KEY: &str = "a-key-of-the-test";

/// A server with the small model, or with the weights that are given; and its address.
fn start(weights: Option<&str>) -> (Program, String) {
    let taken = Port::take();
    let port = taken.number();
    let mut command = script("REAL_MODEL_PYTHON", "model_server.py");
    let log = scratch("repair").join(format!("{port}.log"));
    command
        .args([&port.to_string(), KEY])
        .args(weights)
        .stderr(std::fs::File::create(log).unwrap());
    let server = Program::spawn(&mut command);
    server.ready();
    (server, format!("127.0.0.1:{port}"))
}

/// A small bug with its tests and cases that no model sees.
struct Bug {
    name: &'static str,
    task: &'static str,
    file: &'static str,
    source: &'static str,
    tests: &'static str,
    count: u32,
    function: &'static str,
    /// Arguments and answers.
    hidden: Vec<(Value, Expected)>,
}

const AMOUNTS: &str = include_str!("../../../examples/coding_agent/fixture/amounts.py");
const AMOUNTS_TESTS: &str = include_str!("../../../examples/coding_agent/fixture/test_amounts.py");

fn bugs() -> Vec<Bug> {
    let raised = || Expected::raised("ValueError");
    vec![
        Bug {
            name: "amounts",
            task: "parse_amount(text) in amounts.py must return a Decimal, accept thousands \
                separators such as \"$1,234.50\", ignore surrounding white space, and raise \
                ValueError on invalid input.",
            file: "amounts.py",
            source: AMOUNTS,
            tests: AMOUNTS_TESTS,
            count: 4,
            function: "parse_amount",
            hidden: vec![
                (json!(["$0.10"]), Expected::typed("Decimal", "0.10")),
                (
                    json!([" 2,000,000 "]),
                    Expected::typed("Decimal", "2000000"),
                ),
                (json!(["1.2.3"]), raised()),
                (json!(["12x"]), raised()),
            ],
        },
        Bug {
            name: "sum_to",
            task: "sum_to(n) in sums.py must return the sum of the whole numbers from 1 to n.",
            file: "sums.py",
            source: "def sum_to(n):\n    return sum(range(1, n))\n",
            tests: "import unittest\nfrom sums import sum_to\n\n\nclass T(unittest.TestCase):\n    def test_ten(self):\n        self.assertEqual(sum_to(10), 55)\n\n    def test_one(self):\n        self.assertEqual(sum_to(1), 1)\n",
            count: 2,
            function: "sum_to",
            hidden: vec![
                (json!([0]), Expected::json(0)),
                (json!([100]), Expected::json(5050)),
            ],
        },
        Bug {
            name: "clamp",
            task: "clamp(x, low, high) in clamps.py must return x, but not less than low and not more than high.",
            file: "clamps.py",
            source: "def clamp(x, low, high):\n    return min(low, max(x, high))\n",
            tests: "import unittest\nfrom clamps import clamp\n\n\nclass T(unittest.TestCase):\n    def test_below(self):\n        self.assertEqual(clamp(-5, 0, 10), 0)\n\n    def test_between(self):\n        self.assertEqual(clamp(5, 0, 10), 5)\n\n    def test_above(self):\n        self.assertEqual(clamp(50, 0, 10), 10)\n",
            count: 3,
            function: "clamp",
            hidden: vec![
                (json!([3, 3, 4]), Expected::json(3)),
                (json!([-9, -8, -7]), Expected::json(-8)),
            ],
        },
        Bug {
            name: "gcd",
            task: "gcd(a, b) in gcds.py must return the greatest common divisor of two whole numbers from zero up.",
            file: "gcds.py",
            source: "def gcd(a, b):\n    while b:\n        a, b = b, b % a\n    return a\n",
            tests: "import unittest\nfrom gcds import gcd\n\n\nclass T(unittest.TestCase):\n    def test_common(self):\n        self.assertEqual(gcd(12, 18), 6)\n\n    def test_none(self):\n        self.assertEqual(gcd(7, 5), 1)\n",
            count: 2,
            function: "gcd",
            hidden: vec![
                (json!([48, 36]), Expected::json(12)),
                (json!([9, 0]), Expected::json(9)),
            ],
        },
    ]
}

impl Bug {
    /// An attempt at it, by the model at `address`.
    async fn attempt(
        &self,
        local: &LocalSandbox,
        address: &str,
        model: &str,
        turns: u32,
    ) -> (Outcome, MemoryJournal, SandboxWorkspace) {
        let tests = format!("test_{}", self.file);
        let task = Task::new(self.name, self.task)
            .file(self.file, self.source)
            .unwrap()
            .file(&tests, self.tests)
            .unwrap();
        let model = OpenAi::builder(format!("http://{address}/v1"), model)
            .server(Server::LlamaCpp)
            .bearer(KEY)
            .build()
            .unwrap();
        let workspace = SandboxWorkspace::new(local.sandbox.clone(), self.name).unwrap();
        let acceptance = UnittestAcceptance::new(&tests, self.tests, self.count).unwrap();
        let paths = Paths::editable([self.file])
            .unwrap()
            .readable([&tests])
            .unwrap();
        let journal = MemoryJournal::new();
        let outcome = Attempt::new(task, model, workspace.clone(), acceptance, paths)
            .allow_checks(true)
            .budget(Budget::default().turns(turns))
            .max_output_tokens(400)
            .journal(journal.clone())
            .drive()
            .await
            .unwrap();
        (outcome, journal, workspace)
    }

    /// Whether the file, as it is in the workspace now, answers what no model has seen.
    async fn holds(&self, workspace: &SandboxWorkspace) -> bool {
        let cases = self.hidden.iter().map(|(arguments, expected)| {
            let arguments = arguments.as_array().unwrap().clone();
            IoCase::call("hidden", arguments, expected.clone())
        });
        let cases = IoCases::python(self.file, self.function, cases).unwrap();
        let plan = cases.plan("cases").unwrap();
        let stage = &plan.stages[0];
        let id = "hidden-1.1.1".parse().unwrap();
        let receipt = workspace.exec(&id, &stage.spec).await.unwrap();
        let place = workspace.capabilities();
        let before = agent_loop::Manifest::default();
        let run = agent_loop::acceptance::StageRun::new(id, place, before, receipt);
        let tree = agent_loop::Tree::new();
        let verdict = cases.judge(&agent_loop::Evidence::new(&plan, &tree, &[run]));
        verdict.word() == "pass"
    }
}

/// Passes bytes on, and keeps those that the server has sent.
async fn tee(upstream: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    async fn copy(
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        kept: Option<Arc<Mutex<Vec<u8>>>>,
    ) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if let Some(kept) = &kept {
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
        let _closed = to.shutdown().await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let said = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&said);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&upstream).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::spawn(copy(from_client, to_server, None));
            tokio::spawn(copy(from_server, to_client, Some(Arc::clone(&kept))));
        }
    });
    (address, said)
}

/// The numbers of every `"usage"` in what a server has sent.
fn usages(said: &[u8]) -> Vec<(u64, u64)> {
    let text = String::from_utf8_lossy(said);
    let usages = text.split("\"usage\":").skip(1).map(|rest| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let usage = values.next().unwrap().unwrap();
        let number = |name: &str| usage[name].as_u64().unwrap();
        (number("prompt_tokens"), number("completion_tokens"))
    });
    usages.collect()
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn a_small_model_does_not_repair_the_parser_and_that_is_what_the_outcome_says() {
    let (_server, upstream) = start(None);
    let (address, said) = tee(upstream).await;
    let local = LocalSandbox::start().await;
    let bugs = bugs();
    let (outcome, journal, _) = bugs[0].attempt(&local, &address, "smollm2", 8).await;

    // Not accepted, with a named end.
    assert_eq!(outcome.acceptance.state, AcceptanceState::NotAccepted);
    assert_eq!(outcome.exit_code(), 1);
    assert!(
        matches!(
            outcome.end,
            End::Stuck
                | End::Exhausted {
                    limit: Limit::Turns | Limit::FormatErrors,
                    ..
                }
        ),
        "{}",
        outcome.end
    );
    // The first reply keeps to the schema, hence is an action.
    let records = journal.records();
    let reply = records.iter().find_map(|(record, _)| match &record.event {
        Event::Replied(Replied {
            reply: ReplyRecord::Reply { text, finish, .. },
            ..
        }) => Some((text.as_str(), *finish)),
        _ => None,
    });
    let (text, finish) = reply.unwrap();
    let first = action::parse(text, finish).unwrap();
    assert_eq!(first.to_string(), "read amounts.py");

    // The tokens are those that the server has counted, call by call.
    let usages = usages(&said.lock().unwrap());
    assert_eq!(usages.len(), outcome.calls as usize);
    let sum = |part: fn(&(u64, u64)) -> u64| usages.iter().map(part).sum::<u64>();
    let known = outcome.usage.known;
    assert_eq!(
        (known.input, known.output),
        (Some(sum(|usage| usage.0)), Some(sum(|usage| usage.1)))
    );
    assert_eq!(outcome.usage.unknown_calls, 0);
    println!(
        "smollm2 on amounts: {}; {} turns, {:?} tokens",
        outcome.end, outcome.turns, known
    );
}

#[tokio::test]
#[ignore = "needs a real server"]
async fn what_a_model_repairs_is_told_as_it_is() {
    let weights = std::env::var("AGENT_LOOP_GGUF").ok();
    let (_server, address) = start(weights.as_deref());
    let (model, turns) = match weights {
        Some(_) => ("large", 12),
        None => ("smollm2", 4),
    };
    let local = LocalSandbox::start().await;
    let (mut accepted, mut held) = (0, 0);
    let bugs = bugs();
    for bug in &bugs {
        let (outcome, _, workspace) = bug.attempt(&local, &address, model, turns).await;
        let holds = outcome.is_accepted() && bug.holds(&workspace).await;
        println!(
            "{model} on {}: {}, {}; {} turns; hidden cases: {}",
            bug.name,
            outcome.acceptance.state.as_str(),
            outcome.end,
            outcome.turns,
            if holds { "hold" } else { "do not hold" },
        );
        // Accepted means checked, and everything else has a name.
        assert_eq!(outcome.is_accepted(), outcome.end == End::Accepted);
        assert!(outcome.exit_code() <= 1, "{}", outcome.end);
        assert!(outcome.latency.total < Duration::from_secs(900));
        accepted += u32::from(outcome.is_accepted());
        held += u32::from(holds);
    }
    println!(
        "{model}: {accepted} of {} accepted, {held} of these hold on hidden cases",
        bugs.len()
    );
}
