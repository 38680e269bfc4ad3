use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Action, Defect> {
    parse(text, Finish::Stop)
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn write(name: &str, content: &str) -> Action {
    Action::Write {
        path: path(name),
        content: content.into(),
    }
}

fn check() -> Action {
    Action::Check { name: None }
}

#[test]
fn an_action_is_read_in_every_allowed_dress() {
    let table = [
        (
            r#"{"action":"read","path":"a.py"}"#,
            Action::Read { path: path("a.py") },
        ),
        (
            r#"{"step": {"action": "read", "path": "a.py"}}"#,
            Action::Read { path: path("a.py") },
        ),
        (
            r#"{"action":"write","path":"a.py","content":""}"#,
            write("a.py", ""),
        ),
        (
            r#"{"step":{"action":"write","path":"a.py","content":"x\r\n\u2028é","done":true}}"#,
            write("a.py", "x\r\n\u{2028}é"),
        ),
        (
            r#"{"content":"x","path":"a.py","action":"write"}"#,
            write("a.py", "x"),
        ),
        ("\n {\"action\" :\t\"check\"} \n", check()),
        (
            r#"{"action":"check","name":"unit"}"#,
            Action::Check {
                name: Some("unit".to_owned()),
            },
        ),
        (
            r#"{"action":"finish","note":"n"}"#,
            Action::Finish {
                note: Some("n".to_owned()),
            },
        ),
        ("```json\n{\"action\":\"check\"}\n```", check()),
        ("```\n\n{\"action\":\"check\"}\n\n```\n", check()),
        (
            "```json\n{\"action\":\"write\",\"path\":\"a.py\",\"content\":\"# use ```py fences```\\n\"}\n```",
            write("a.py", "# use ```py fences```\n"),
        ),
        (
            r#"{"action":"write","path":"a.py","content":"</think>```"}"#,
            write("a.py", "</think>```"),
        ),
        (
            "<think>maybe {\"action\":\"finish\"}? no.</think>\n{\"action\":\"check\"}",
            check(),
        ),
        (
            "no, {\"action\":\"finish\"}</think>{\"action\":\"check\"}",
            check(),
        ),
        (
            "<think></think>\n```json\n{\"action\":\"check\"}\n```",
            check(),
        ),
        (
            "```json\n{\"action\":\"write\",\"path\":\"a.py\",\"content\":\"s = '</think>'\\n\"}\n```",
            write("a.py", "s = '</think>'\n"),
        ),
        (
            "```json\n{\"action\":\"write\",\"path\":\"a.py\",\"content\":\"</think>{\\\"action\\\":\\\"check\\\"}\"}\n```",
            write("a.py", "</think>{\"action\":\"check\"}"),
        ),
        // Drafts, of which the server has left out where the thought begins.
        (
            "```json\n{\"action\":\"finish\"}\n```\nno.</think>\n```json\n{\"action\":\"check\"}\n```",
            check(),
        ),
        (
            "```json\n{\"action\":\"finish\"}\n```</think>{\"action\":\"check\"}",
            check(),
        ),
    ];
    for (text, action) in table {
        assert_eq!(read(text), Ok(action), "{text}");
    }
}

#[test]
fn each_defect_has_its_own_name_and_sentence() {
    let table = [
        ("", "empty", "the reply is empty"),
        (" \n", "empty", "the reply is empty"),
        ("<think>x</think>", "empty", "the reply is empty"),
        ("All tests pass, done.", "not_json", "at byte 0"),
        (
            "I see {\"action\":\"finish\"} in the file.",
            "not_json",
            "at byte 0",
        ),
        (
            "Here: ```json\n{\"action\":\"check\"}\n```",
            "not_json",
            "at byte 0",
        ),
        (r#"{"action":"check""#, "not_json", "EOF"),
        ("[]", "not_json", "an object"),
        ("\"check\"", "not_json", "an object"),
        (
            r#"{"action":"write","path":"amounts.py","content":"import re\nP=re.compile('\d+')\n"}"#,
            "not_json",
            "invalid escape (at byte",
        ),
        (
            "{\"action\":\"write\",\"path\":\"a.py\",\"content\":\"a\nb\"}",
            "not_json",
            "control character",
        ),
        (
            r#"{"action":"write","path":"a.py","content":"\udfcf"}"#,
            "not_json",
            "surrogate",
        ),
        (
            r#"{"action":"write","path":"a","content":"x"}{"action":"finish"}"#,
            "extra_text",
            "at byte 43",
        ),
        (r#"{"action":"check"} done"#, "extra_text", "at byte 18"),
        (
            "```json\n{\"action\":\"check\"} done\n```",
            "extra_text",
            "at byte 18",
        ),
        (
            "```json\n{\"action\":\"write\",\"path\":\"a\",\"content\":\"\\d</think>{}\"}\n```",
            "not_json",
            "invalid escape",
        ),
        (r#"{"action":"check"}}"#, "extra_text", "at byte 18"),
        (
            r#"<think>{"action":"check"}"#,
            "unclosed_thought",
            "<think>",
        ),
        (
            r#"{"action":"wite","path":"amounts.py"}"#,
            "unknown_action",
            "\"wite\"; the actions are read, write, check and finish",
        ),
        (
            r#"{"action":"Read","path":"a.py"}"#,
            "unknown_action",
            "\"Read\"",
        ),
        (
            r#"{"action":"write","path":"amounts.py"}"#,
            "missing_field",
            "\"content\"",
        ),
        (r#"{"action":"read"}"#, "missing_field", "\"path\""),
        (r#"{"path":"a.py"}"#, "missing_field", "\"action\""),
        ("{}", "missing_field", "\"action\""),
        (r#"{"step":{}}"#, "missing_field", "\"action\""),
        (
            r#"{"action":"check","argv":["sh"]}"#,
            "unknown_field",
            "check has no field \"argv\"",
        ),
        (
            r#"{"action":"finish","done":true}"#,
            "unknown_field",
            "finish has no field \"done\"",
        ),
        (
            r#"{"step":{"action":"check"},"why":"x"}"#,
            "missing_field",
            "\"action\"",
        ),
        (
            r#"{"action":"check","action":"finish"}"#,
            "duplicate_field",
            "\"action\"",
        ),
        (
            r#"{"action":"write","path":"a","content":"x","content":"y"}"#,
            "duplicate_field",
            "\"content\"",
        ),
        (
            r#"{"step":{"action":"check"},"step":{"action":"finish"}}"#,
            "duplicate_field",
            "\"step\"",
        ),
        (
            r#"{"step":"check"}"#,
            "wrong_type",
            "\"step\" has to be an object",
        ),
        (
            r#"{"action":["check"]}"#,
            "wrong_type",
            "\"action\" has to be a string",
        ),
        (
            r#"{"action":"write","path":"a","content":null}"#,
            "wrong_type",
            "\"content\" has to be a string",
        ),
        (
            r#"{"action":"write","path":"a","content":"x","done":1}"#,
            "wrong_type",
            "\"done\" has to be true or false",
        ),
        (
            r#"{"action":"check","name":null}"#,
            "wrong_type",
            "\"name\" has to be a string",
        ),
        (
            r#"{"action":"write","path":"a","content":"x","done":false}"#,
            "not_done",
            "not executed",
        ),
        (
            r#"{"action":"read","path":"amounts.py\u0000.txt"}"#,
            "path",
            r#""amounts.py\0.txt" holds a control character"#,
        ),
        (
            r#"{"action":"write","path":"../x","content":""}"#,
            "path",
            "leads out",
        ),
    ];
    for (text, code, sentence) in table {
        let defect = read(text).unwrap_err();
        assert_eq!(defect.code(), code, "{text}: {defect}");
        let said = defect.to_string();
        assert!(said.contains(sentence), "{text}: {said}");
        assert_eq!(defect.is_format_error(), code != "path", "{text}");
        let about_length = said.contains("length") || said.contains("cut off");
        assert!(!about_length, "{text}: {said}");
    }
}

#[test]
fn a_reply_at_the_limit_is_never_an_action() {
    let whole = r#"{"action":"check"}"#;
    assert_eq!(parse(whole, Finish::Length), Err(Defect::Truncated));
    assert_eq!(parse("", Finish::Length), Err(Defect::Truncated));
    assert_eq!(parse(whole, Finish::Filtered), Err(Defect::Filtered));
    assert_eq!(parse(whole, Finish::Unknown), Ok(check()));
    assert!(
        Defect::Truncated
            .to_string()
            .contains("cut off at the limit of its length")
    );
}

#[test]
fn the_same_write_in_other_quotes_is_alike() {
    let finish = |note: Option<&str>| Action::Finish {
        note: note.map(str::to_owned),
    };
    let named = |name: &str| Action::Check {
        name: Some(name.to_owned()),
    };
    let read = |path: &str| Action::Read {
        path: RelPath::parse(path).unwrap(),
    };
    let x = write("a.py", "x = 1");
    let table = [
        (
            write("a.py", "x = 'a'\n"),
            write("a.py", "x = \"a\"\n\n"),
            true,
        ),
        (x.clone(), write("a.py", "x=1 \n"), true),
        (x.clone(), write("a.py", "x = 2"), false),
        (x.clone(), write("a.py", "x = 12"), false),
        (x.clone(), write("a.py", "1 = x"), false),
        (x.clone(), write("b.py", "x = 1"), false),
        (x, read("a.py"), false),
        (read("a.py"), read("a.py"), true),
        (read("a.py"), read("b.py"), false),
        (check(), named(""), true),
        (check(), named("lint"), false),
        (check(), finish(None), false),
        (finish(Some("n")), finish(None), true),
    ];
    for (one, other, alike) in table {
        assert_eq!(one.is_like(&other), alike, "{one:?} {other:?}");
        assert_eq!(other.is_like(&one), alike, "{other:?} {one:?}");
    }
}

/// Any text, and texts of the marks that a reply can be dressed with.
fn content() -> impl Strategy<Value = String> {
    let marked = "(<think>|</think>|```|```json|\n|[{}\"\\\\]|\"action\":\"check\"|[a-zä ]){0,20}";
    prop_oneof![any::<String>(), marked]
}

proptest! {
    #[test]
    fn what_is_written_arrives_byte_for_byte(content in content(), fenced: bool, thought in "(<think>[a-z{}\" ]{0,9}</think>|[a-z ]{1,9}</think>)?") {
        let json = serde_json::json!({"step": {"action": "write", "path": "a.py", "content": content}});
        let text = match fenced {
            true => format!("{thought}```json\n{json}\n```"),
            false => format!("{thought}{json}"),
        };
        prop_assert_eq!(read(&text), Ok(write("a.py", &content)));
    }

    #[test]
    fn no_cut_of_a_reply_is_an_action(content in "[a-z\\n\"{}]{0,20}", cut: prop::sample::Index) {
        let text = serde_json::json!({"step": {"action": "write", "path": "a.py", "content": content}}).to_string();
        prop_assert!(read(&text[..cut.index(text.len())]).unwrap_err().is_format_error());
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "(<think>|</think>|```|json|\n|[{}\":,a-z\\\\]|\"action\"|\"check\"|ä){0,30}") {
        if let Err(defect) = read(&text) {
            prop_assert!(!defect.to_string().is_empty());
        }
    }
}
