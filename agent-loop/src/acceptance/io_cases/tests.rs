//! The driver with a real interpreter, and the judgement of what it tells.

use serde_json::json;

use super::*;
use crate::acceptance::test_kit::check;
use crate::manifest::Tree;
use crate::test_kit::{path, running};

const RIGHT: &str = "from decimal import Decimal, InvalidOperation\n\n\
    def parse_amount(text):\n    try:\n        return Decimal(text.strip().replace(',', ''))\n\
    \x20   except InvalidOperation:\n        raise ValueError(text)\n";

fn cases() -> IoCases {
    let call = |name: &str, text: &str, expected| IoCase::call(name, [text], expected);
    IoCases::python(
        "amounts.py",
        "parse_amount",
        [
            call("plain", "1.50", Expected::typed("Decimal", "1.50")).shown(),
            call("thousands", "1,234", Expected::typed("Decimal", "1234")),
            call("no number", "12x", Expected::raised("ValueError")),
        ],
    )
    .unwrap()
}

async fn verdict(acceptance: &IoCases, source: &str) -> Verdict {
    let tree: Tree = [(path("amounts.py"), File::new(source))]
        .into_iter()
        .collect();
    check(acceptance, "cases", &tree, &running()).await
}

#[tokio::test]
async fn a_function_that_answers_as_it_should_passes() {
    let passed = Verdict::pass("3 cases passed");
    assert_eq!(verdict(&cases(), RIGHT).await, passed);
    // What it prints is no answer, and a module beside it can be imported.
    let printing = format!("import os, sys\nprint('noise')\nos.write(1, b'noise\\n')\n{RIGHT}");
    assert_eq!(verdict(&cases(), &printing).await, passed);
}

#[tokio::test]
async fn a_failed_case_is_told_where_it_may_be_and_hidden_else() {
    let float = "def parse_amount(text):\n    return float(text)\n";
    let said = "- plain: for (\"1.50\") the answer must be `1.50` of type Decimal, and is `1.5` of type float";
    assert_eq!(verdict(&cases(), float).await, Verdict::fail(said));
    let no_thousands = RIGHT.replace(".replace(',', '')", "");
    assert_eq!(
        verdict(&cases(), &no_thousands).await,
        Verdict::fail(crate::acceptance::HIDDEN)
    );
}

#[tokio::test]
async fn an_answer_to_a_shown_case_holds_no_input_of_another() {
    // All that is there to be read: what was asked, and what is left of the input.
    let telling = "import __main__, sys\n\ndef parse_amount(text):\n    return repr(__main__.questions) + sys.stdin.read()\n";
    let said = "- plain: for (\"1.50\") the answer must be `1.50` of type Decimal, and is `[['1.50']]` of type str";
    assert_eq!(verdict(&cases(), telling).await, Verdict::fail(said));
    let plan = cases().plan("cases").unwrap();
    let hidden: Vec<bool> = plan.stages.iter().map(|stage| stage.hidden).collect();
    assert_eq!(hidden, [false, true]);
    // Where all are alike there is one command, as there was before.
    let one = IoCases::python("a.py", "f", [IoCase::call("c", [1], Expected::json(1))]);
    assert_eq!(one.unwrap().plan("cases").unwrap().stages.len(), 1);
}

#[tokio::test]
async fn what_is_raised_without_a_function_is_no_answer() {
    let of = |class: &str| {
        let call = |name: &str| IoCase::call(name, ["12x"], Expected::raised(class));
        IoCases::python("amounts.py", "parse_amount", [call("a").shown(), call("b")]).unwrap()
    };
    let table = [
        (
            "ValueError",
            "raise ValueError('as asked')\n",
            "ValueError: `as asked`",
        ),
        (
            "AttributeError",
            "x = 1\n",
            "AttributeError: `module 'subject' has no attribute 'parse_amount'`",
        ),
        (
            "TypeError",
            "parse_amount = None\n",
            "TypeError: `parse_amount is no function`",
        ),
        (
            "ImportError",
            "import nosuch\n",
            "ModuleNotFoundError: `No module named 'nosuch'`",
        ),
        ("SystemExit", "raise SystemExit(0)\n", "SystemExit: `0`"),
        (
            "Unprintable",
            "class Odd(Exception):\n    def __str__(self):\n        raise ValueError\nraise Odd\n",
            "Odd: ``",
        ),
    ];
    for (class, source, said) in table {
        let told = format!(
            "- a: for (\"12x\") the answer must be an exception {class}, and is none, there is no such function: {said}"
        );
        assert_eq!(verdict(&of(class), source).await, Verdict::fail(told));
    }
    let raising = "def parse_amount(text):\n    raise ValueError(text)\n";
    let passed = Verdict::pass("2 cases passed");
    assert_eq!(verdict(&of("ValueError"), raising).await, passed);
}

#[tokio::test]
async fn code_that_ends_the_process_or_forges_answers_does_not_pass() {
    let table = [
        ("import os\nos._exit(0)\n", "fail"),
        ("raise SystemExit(0)\n", "fail"),
        (
            "def parse_amount(text):\n    import os\n    os._exit(0)\n",
            "fail",
        ),
        ("syntax error\n", "fail"),
        ("parse_amount = 3\n", "fail"),
        // It finds where answers go, and gives some of its own.
        (
            "import os\ndef parse_amount(text):\n    for fd in range(3, 20):\n        try:\n            os.write(fd, b'{\"type\": \"Decimal\", \"text\": \"1.50\"}\\n' * 9)\n        except OSError:\n            pass\n    return 1\n",
            "invalid",
        ),
        // It equals everything, where it is compared; and it is not compared there.
        (
            "class Any(str):\n    def __eq__(self, other):\n        return True\n\ndef parse_amount(text):\n    return Any('x')\n",
            "fail",
        ),
    ];
    for (source, word) in table {
        let verdict = verdict(&cases(), source).await;
        assert_eq!(verdict.word(), word, "{source}: {verdict:?}");
    }
    let all_then_exit = format!("import os, atexit\natexit.register(os._exit, 3)\n{RIGHT}");
    assert_eq!(verdict(&cases(), &all_then_exit).await.word(), "invalid");
}

#[tokio::test]
async fn a_program_is_started_once_for_each_case() {
    let sum = "import sys\nprint(sum(map(int, sys.stdin.read().split())))\n";
    let cases = IoCases::command(
        ["python3", "amounts.py"],
        [
            IoCase::input("two", "1 2\n", Expected::text("3")),
            IoCase::input("none", "", Expected::bytes(*b"0\n")),
            IoCase::input("json", "40 2", Expected::json(42)).shown(),
        ],
    )
    .unwrap();
    assert_eq!(cases.plan("cases").unwrap().stages.len(), 3);
    assert_eq!(verdict(&cases, sum).await, Verdict::pass("3 cases passed"));
    let wrong = "import sys\nn = sys.stdin.read().split()\nprint(3 if n == ['1', '2'] else 0)\n";
    let said = "- json: for input `40 2` the answer must be `42`, and is `0`";
    assert_eq!(verdict(&cases, wrong).await, Verdict::fail(said));
    let failing = "import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(1)\n";
    assert_eq!(verdict(&cases, failing).await.word(), "fail");
}

#[test]
fn no_expected_value_is_in_a_plan_and_every_one_is_in_the_revision() {
    let secret = |text: &str| {
        IoCases::python("a.py", "f", [IoCase::call("c", [1], Expected::text(text))]).unwrap()
    };
    let (one, other) = (secret("expected-42"), secret("expected-43"));
    let plan = one.plan("cases").unwrap();
    assert_eq!(plan, other.plan("cases").unwrap());
    assert_ne!(one.revision(), other.revision());
    assert!(!format!("{plan:?}").contains("expected-42"));
    assert_eq!(plan.level, Level::OutsideValues);
}

#[test]
fn cases_that_cannot_be_run_are_refused() {
    let call = || IoCase::call("c", [1], Expected::json(1));
    let input = || IoCase::input("i", "x", Expected::text("y"));
    let named = |name: &str| Err(InvalidCases::Case(name.to_owned()));
    assert_eq!(IoCases::command(["a"], []), Err(InvalidCases::NoCases));
    assert_eq!(IoCases::command(["a"], [input(), call()]), named("c"));
    assert_eq!(IoCases::python("a.py", "f", [input()]), named("i"));
    let raised = IoCase::input("r", "x", Expected::raised("E"));
    assert_eq!(IoCases::command(["a"], [raised]), named("r"));
    let off = IoCase::call("t", [1], Expected::json_within(1, -1.0, 0.0));
    assert_eq!(IoCases::python("a.py", "f", [off]), named("t"));
    assert!(matches!(
        IoCases::python("../a.py", "f", [call()]),
        Err(InvalidCases::Path(_))
    ));
}

#[test]
fn what_is_inherited_is_in_the_plan_by_its_names() {
    let cases = || {
        IoCases::command(["p"], [IoCase::input("a", "1", Expected::text("1"))])
            .unwrap()
            .search_path("/x")
    };
    let argv = |cases: &IoCases| cases.plan("cases").unwrap().stages[0].spec.argv.join(" ");
    assert_eq!(argv(&cases()), "env -i PATH=/x LANG=C.UTF-8 HOME=../home p");
    let inherits = cases().inherit(["PATH"]).unwrap();
    assert_eq!(
        argv(&inherits),
        "sh -c exec env -i LANG=C.UTF-8 HOME=../home ${PATH+PATH=\"$PATH\"} \"$@\" sh p"
    );
    let error = cases().inherit(["A", "B C"]).unwrap_err();
    assert_eq!(error.name, "B C");
    let described = serde_json::to_value(&inherits).unwrap();
    assert_eq!(described["inherit"], json!(["PATH"]));
    let again: IoCases = serde_json::from_value(described).unwrap();
    assert_eq!(again, inherits);
    assert_eq!(serde_json::to_value(cases()).unwrap().get("inherit"), None);
}

#[test]
fn a_description_from_before_shown_cases_came_first_gives_the_plan_of_then() {
    let described = include_bytes!("../../../tests/recorded/cases/acceptance.json");
    let description: Description = serde_json::from_slice(described).unwrap();
    let acceptance = description.acceptance();
    let plan = acceptance.plan("cases").unwrap();
    assert_eq!(
        plan.digest().to_string(),
        "b44e694b193b08abd361a267ddd9af832e4a2686bc616452183dc6fd83505548"
    );
    assert_eq!(
        acceptance.revision().to_string(),
        "90ddaf20d335e891d699610342a4ca1fa349db1673ee9dc1e44d4b115cdca7ec"
    );
}

#[test]
fn a_description_gives_the_same_cases_back() {
    let bytes = IoCases::command(
        ["a"],
        [IoCase::input("b", *b"\x00\xff", Expected::bytes(*b"\xfe"))],
    )
    .unwrap();
    for cases in [cases(), bytes] {
        let text = serde_json::to_string(&cases.description().unwrap()).unwrap();
        let back: Description = serde_json::from_str(&text).unwrap();
        assert_eq!(back.acceptance().revision(), cases.revision());
        assert_eq!(back.acceptance().plan("cases"), cases.plan("cases"));
    }
    let json = json!({"a": 1});
    assert_eq!(
        Expected::json(json.clone()),
        Expected::json_within(json, 0.0, 0.0)
    );
}
