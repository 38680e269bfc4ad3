//! An answer that comes in pieces, put together as if it had come whole.

use serde_json::{Map, Value, json};

/// So many blanks after each other are no part of a reply: a model at odds with its schema emits
/// them until its limit, since the grammar allows any number.
const RUNAWAY: usize = 256;

/// Puts the events of a streamed answer together. What it makes is the document that the same
/// server sends where it is not asked to stream.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Bytes behind the last line end.
    begun: Vec<u8>,
    content: String,
    thoughts: String,
    refusal: String,
    finish: Option<Value>,
    model: Option<Value>,
    usage: Option<Value>,
    /// An error within the stream.
    error: Option<Value>,
    /// Whether any event came.
    any: bool,
    done: bool,
    blanks: usize,
}

impl Assembly {
    /// Takes bytes as they come. True once nothing behind them is wanted.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> bool {
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.begun.drain(..=end).collect();
            self.line(&line);
            if self.is_over() {
                break;
            }
        }
        self.is_over()
    }

    fn is_over(&self) -> bool {
        self.done || self.error.is_some() || self.is_runaway()
    }

    fn is_runaway(&self) -> bool {
        self.blanks >= RUNAWAY
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let Some(data) = line.strip_prefix(b"data:") else {
            // A comment, a name of an event, or the end of one.
            return;
        };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
        } else if let Ok(event) = serde_json::from_slice::<Value>(data) {
            self.any = true;
            self.event(&event);
        }
    }

    fn event(&mut self, event: &Value) {
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            self.error = Some(error.clone());
            return;
        }
        let keep = |kept: &mut Option<Value>, value: Option<&Value>| {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                *kept = Some(value.clone());
            }
        };
        keep(&mut self.model, event.get("model"));
        keep(&mut self.usage, event.get("usage"));
        let Some(choice) = event.pointer("/choices/0") else {
            return;
        };
        keep(&mut self.finish, choice.get("finish_reason"));
        let delta = |name: &str| {
            let text = choice.pointer("/delta").and_then(|delta| delta.get(name));
            text.and_then(Value::as_str).unwrap_or_default()
        };
        let content = delta("content");
        match content.trim_end() {
            "" => self.blanks += content.len(),
            text => self.blanks = content.len() - text.len(),
        }
        self.content.push_str(content);
        // Two names of the same text: servers send one of them, or both.
        let thought = match delta("reasoning") {
            "" => delta("reasoning_content"),
            thought => thought,
        };
        self.thoughts.push_str(thought);
        self.refusal.push_str(delta("refusal"));
    }

    /// The whole answer as a document. `None` where the stream broke off before its end.
    pub(super) fn document(mut self) -> Option<Vec<u8>> {
        if self.is_runaway() && self.finish.is_none() {
            // We cut it, as its limit would have.
            self.finish = Some(json!("length"));
        }
        let mut document = Map::new();
        if let Some(error) = self.error {
            document.insert("error".to_owned(), error);
        } else if self.any && (self.done || self.finish.is_some()) {
            let text = |text: String| match text.is_empty() {
                true => Value::Null,
                false => Value::from(text),
            };
            document.insert(
                "choices".to_owned(),
                json!([{
                    "message": {
                        "content": text(self.content),
                        "reasoning": text(self.thoughts),
                        "refusal": text(self.refusal),
                    },
                    "finish_reason": self.finish,
                }]),
            );
        } else {
            return None;
        }
        let rest = [("model", self.model), ("usage", self.usage)];
        document.extend(
            rest.into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?))),
        );
        serde_json::to_vec(&document).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(delta: &Value, finish: &Value) -> String {
        let event = json!({"model": "m", "choices": [{"delta": delta, "finish_reason": finish}]});
        format!("data: {event}\n\n")
    }

    fn assembled(text: &str) -> Option<Value> {
        let mut assembly = Assembly::default();
        assembly.feed(text.as_bytes());
        Some(serde_json::from_slice(&assembly.document()?).unwrap())
    }

    fn whole() -> String {
        let mut text = ": a comment\n\n".to_owned();
        text += &chunk(&json!({"role": "assistant", "content": ""}), &Value::Null);
        text += &chunk(
            &json!({"reasoning": "hm", "reasoning_content": "hm"}),
            &Value::Null,
        );
        text += &chunk(&json!({"content": "{\"ä\":"}), &Value::Null);
        text += &chunk(&json!({"content": "1}"}), &json!("stop"));
        text += "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7}}\n\ndata: [DONE]\n\n";
        text
    }

    #[test]
    fn pieces_become_the_document_that_would_have_come_whole() {
        let document = assembled(&whole()).unwrap();
        let choice = &document["choices"][0];
        assert_eq!(choice["message"]["content"], "{\"ä\":1}");
        assert_eq!(choice["message"]["reasoning"], "hm");
        assert_eq!(choice["finish_reason"], "stop");
        assert_eq!(document["usage"]["prompt_tokens"], 7);
        assert_eq!(document["model"], "m");
    }

    #[test]
    fn a_stream_that_broke_off_is_no_answer() {
        let text = whole();
        // Behind the reason why it ended only the usage can be missing.
        let finished = text.find("\"stop\"").unwrap();
        let mut wholes = 0;
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            if let Some(document) = assembled(&text[..end]) {
                assert!(end > finished, "{end}");
                assert_eq!(document["choices"][0]["message"]["content"], "{\"ä\":1}");
                wholes += 1;
            }
        }
        assert!((60..text.len() - finished).contains(&wholes), "{wholes}");
        assert_eq!(assembled("data: [DONE]\n"), None);
        assert_eq!(assembled(""), None);
    }

    #[test]
    fn an_error_within_a_stream_is_the_answer() {
        let mut text = chunk(&json!({"content": "x"}), &Value::Null);
        text += "data: {\"error\": {\"message\": \"EngineCore\", \"code\": 500}}\n\ndata: [DONE]\n";
        let document = assembled(&text).unwrap();
        assert_eq!(document["error"]["message"], "EngineCore");
        assert_eq!(document.get("choices"), None);
    }

    #[test]
    fn blanks_without_end_are_cut_off() {
        let mut assembly = Assembly::default();
        assert!(!assembly.feed(chunk(&json!({"content": "{\"step\":"}), &Value::Null).as_bytes()));
        let blanks = chunk(&json!({"content": " \n  "}), &Value::Null);
        let fed = (1..).find(|_| assembly.feed(blanks.as_bytes())).unwrap();
        assert_eq!(fed, RUNAWAY / 4);
        let document: Value = serde_json::from_slice(&assembly.document().unwrap()).unwrap();
        assert_eq!(document["choices"][0]["finish_reason"], "length");
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_arrive(size in 1..40_usize) {
            let text = whole();
            let mut assembly = Assembly::default();
            let mut pieces = text.as_bytes().chunks(size);
            prop_assert!(pieces.any(|piece| assembly.feed(piece)));
            let document: Value = serde_json::from_slice(&assembly.document().unwrap()).unwrap();
            prop_assert_eq!(Some(document), assembled(&text));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut assembly = Assembly::default();
            assembly.feed(&bytes);
            drop(assembly.document());
        }
    }
}
