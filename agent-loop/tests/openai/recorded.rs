//! What each recorded answer to a chat completion becomes.

use std::collections::BTreeSet;

use Finish::{Length, Stop};
use agent_loop::model::ModelErrorKind::{
    self, Auth, BadRequest, ContextTooLong, Empty, Overloaded, Transport,
};
use agent_loop::model::{Finish, Usage};

use crate::golden::{self, Golden};
use crate::models;
use crate::stub;

enum Expected {
    Reply {
        finish: Finish,
        usage: Usage,
        text: &'static str,
    },
    /// The kind, and a part of the detail.
    Failure(ModelErrorKind, &'static str),
}

fn reply(
    finish: Finish,
    input: u64,
    output: u64,
    cached: Option<u64>,
    text: &'static str,
) -> Expected {
    let mut usage = Usage::new(input, output);
    usage.cache_read = cached;
    Expected::Reply {
        finish,
        usage,
        text,
    }
}

fn failure(kind: ModelErrorKind, words: &'static str) -> Expected {
    Expected::Failure(kind, words)
}

#[rustfmt::skip]
fn rows() -> Vec<(&'static str, Expected)> {
    vec![
        ("gateway-authorization-token-real-llama-cpp-upstream", reply(Length, 32, 4, Some(0), "I'm glad you")),
        ("gateway-bearer-scheme-with-the-right-token-text-auth-endpoint-answers-403", failure(Auth, "a page of the gateway; Polyaxon's wants the scheme `token`")),
        ("gateway-no-authorization-header-auth-endpoint-answers-401", failure(Auth, "a page of the gateway; Polyaxon's wants the scheme `token`")),
        ("gateway-port-segment-missing", failure(Overloaded, "does the service URL hold the port")),
        ("gateway-upstream-answers-401-with-json-passed-through-unchanged", failure(Auth, "no message")),
        ("gateway-upstream-answers-503-with-json-passed-through-unchanged", failure(Overloaded, "no message")),
        ("gateway-upstream-not-listening", failure(Overloaded, "a page of the gateway; the model server behind it")),
        ("gateway-what-the-upstream-receives-echo-upstream-rewritepath-false", failure(Empty, "no choices")),
        ("gateway-what-the-upstream-receives-echo-upstream-rewritepath-true", failure(Empty, "no choices")),
        ("llama-cpp-bad-schema-broken-ref", failure(BadRequest, "Unable to generate parser for this template. Automatic parse")),
        ("llama-cpp-bad-schema-schema-is-a-string", reply(Stop, 70, 5, Some(69), "Read Cargo.toml")),
        ("llama-cpp-bad-schema-unknown-type", failure(BadRequest, "Unable to generate parser for this template. Automatic parse")),
        ("llama-cpp-body-not-json", failure(BadRequest, "[json.exception.parse_error.101] parse error at line 1, colu")),
        ("llama-cpp-chat-template-kwargs-not-an-object", reply(Length, 31, 2, Some(30), "I'm")),
        ("llama-cpp-content-as-parts", reply(Stop, 31, 3, Some(22), "Sure!")),
        ("llama-cpp-developer-role", reply(Length, 16, 4, Some(3), "Hello! How can")),
        ("llama-cpp-finish-reason-length-inside-json", reply(Length, 70, 6, Some(69), "{ \"action\": \"read")),
        ("llama-cpp-get-on-chat", failure(BadRequest, "check the base URL")),
        ("llama-cpp-json-object", reply(Stop, 70, 12, Some(69), "{ \"action\": \"read Cargo.toml\" }")),
        ("llama-cpp-json-schema-anyof", reply(Stop, 70, 19, Some(69), "{ \"action\": \"read_file\", \"path\": \"Cargo.toml\" }")),
        ("llama-cpp-json-schema-flat", reply(Stop, 70, 25, Some(0), "{\"action\": \"read_file\", \"path\": \"Cargo.toml\", \"content\": \"Cargo.toml content\"}")),
        ("llama-cpp-json-schema-with-root-object-wrapping-anyof-fits-the-openai-strict-rules", reply(Stop, 38, 16, Some(3), "{\n  \"step\": {\"action\": \"run_checks\"}\n}")),
        ("llama-cpp-key-135m-json-schema-anyof-temperature-0", reply(Stop, 56, 31, Some(55), "{\n  \"action\": \"read_file\",\n  \"path\": \"src/lib.toml\"\n}")),
        ("llama-cpp-key-135m-json-schema-anyof-temperature-0-8", reply(Stop, 56, 26, Some(55), "{\n  \"action\": \"read_file\",\n  \"path\": \"src/lib.rs\"\n}")),
        ("llama-cpp-key-135m-json-schema-flat-temperature-0", reply(Stop, 56, 47, Some(6), "{\n  \"action\": \"read_file\",\n  \"path\": \"src/lib.toml\",\n  \"content\": \"The checks fail. You have not read any file.\"\n}")),
        ("llama-cpp-key-135m-json-schema-flat-temperature-0-8", reply(Stop, 56, 74, Some(55), "{\n  \"action\": \"read_file\",\n  \"path\": \"src/lib.rs\",\n  \"content\": \"The file 'Cargo.toml' cannot be read without a debug plugin. You must have written a cron job to check for this error.\"\n}")),
        ("llama-cpp-key-content-type-missing", reply(Length, 32, 8, Some(31), "I'm glad you're here! I")),
        ("llama-cpp-key-double-slash-in-path", failure(BadRequest, "check the base URL")),
        ("llama-cpp-key-lower-case-bearer", failure(Auth, "Invalid API Key")),
        ("llama-cpp-key-no-authorization-header", failure(Auth, "Invalid API Key")),
        ("llama-cpp-key-right-key-path-without-the-prefix", failure(BadRequest, "check the base URL")),
        ("llama-cpp-key-right-key-under-a-path-prefix", reply(Length, 32, 8, Some(31), "I'm glad you're here! I")),
        ("llama-cpp-key-scheme-token-instead-of-bearer", failure(Auth, "Invalid API Key")),
        ("llama-cpp-key-wrong-key", failure(Auth, "Invalid API Key")),
        ("llama-cpp-key-x-api-key-header", reply(Length, 32, 8, Some(0), "I'm glad you're here! I")),
        ("llama-cpp-max-completion-tokens", reply(Length, 38, 5, Some(24), "1, 2,")),
        ("llama-cpp-max-tokens-larger-than-context", reply(Stop, 31, 3, Some(24), "Okay.")),
        ("llama-cpp-max-tokens-wrong-type", failure(BadRequest, "Field 'max_tokens': [json.exception.type_error.302] type mus")),
        ("llama-cpp-messages-empty", reply(Length, 24, 4, Some(22), "Qwen is a")),
        ("llama-cpp-missing-messages", failure(BadRequest, "'messages' is required")),
        ("llama-cpp-model-still-loading", failure(Overloaded, "Loading model")),
        ("llama-cpp-n-2", reply(Length, 31, 2, Some(30), "Sure!")),
        ("llama-cpp-over-long-prompt", failure(ContextTooLong, "6030 tokens) exceeds the ava")),
        ("llama-cpp-plain-chat", reply(Stop, 37, 2, Some(24), "fn")),
        ("llama-cpp-property-order-content-then-path", reply(Stop, 26, 18, Some(25), "{\n  \"content\": \"hi\",\n  \"path\": \"a.txt\"\n}")),
        ("llama-cpp-property-order-path-then-content", reply(Stop, 26, 18, Some(3), "{\n  \"path\": \"a.txt\",\n  \"content\": \"hi\"\n}")),
        ("llama-cpp-python-bad-schema-unknown-type", reply(Length, 56, 60, None, "{\n  \"action\": {\n    \"type\": \"Action\",\n    \"name\": \"FileChecker\",\n    \"description\": \"This function checks if a file exists in the Cargo.toml file.\",\n    \"parameters\": [\n      {\n        \"type\": \"String\",\n        \"required")),
        ("llama-cpp-python-body-not-json", failure(Overloaded, "Internal Server Error")),
        ("llama-cpp-python-max-tokens-wrong-type", failure(BadRequest, "Input should be a valid integ")),
        ("llama-cpp-python-missing-messages", reply(Stop, 4, 165, None, "The International Space Agency (ISA) is a specialized space exploration and defense program that supports the development, testing, deployment, operation, and maintenance of advanced spacecraft. Its primary objectives include providing resources to support international missions and enhancing our understanding of extraterrestrial life forms beyond Earth's planet.\n\nThis mission aims to develop and deploy new spacecraft capable of carrying humanity into interstellar travel. This includes ships with the capacity to transport a crew to other planets in space while maintaining human safety during transit. ISA is also responsible for testing advanced technologies, including propulsion systems that can potentially change the course of human exploration.\n\nThe agency has recently announced plans to expand ISA's capabilities by deploying a new fleet of spacecraft on a 21st-century spaceship capable of transporting humans and equipment into interstellar space while maintaining their safety and security.")),
        ("llama-cpp-python-no-authorization-header", failure(Auth, "Invalid API key")),
        ("llama-cpp-python-over-long-prompt", failure(ContextTooLong, "2048 tokens. However, you re")),
        ("llama-cpp-python-over-long-prompt-stream-true", failure(Transport, "the answer is empty")),
        ("llama-cpp-python-plain-chat", reply(Length, 32, 6, None, "I'm glad you're here")),
        ("llama-cpp-python-response-format-json-object-with-schema-its-own-form", reply(Stop, 56, 55, None, "{ \"step\": { \"action\": \"read_file\", \"path\": \"<a long made-up path>\" }}")),
        ("llama-cpp-python-response-format-json-schema-openai-form", failure(BadRequest, "Input should be 'text' or 'js")),
        ("llama-cpp-python-scheme-token", failure(Auth, "Invalid API key")),
        ("llama-cpp-python-unknown-path", failure(BadRequest, "check the base URL")),
        ("llama-cpp-python-wrong-model-name", reply(Length, 56, 3, None, "The file `")),
        ("llama-cpp-qwen3-enable-thinking-false-json-schema", reply(Stop, 56, 22, Some(50), "{ \"step\": {\"action\": \"read_file\", \"path\": \"Cargo.toml\"} }")),
        ("llama-cpp-qwen3-same-reasoning-format-none", reply(Stop, 24, 9, Some(23), "<think>Short thought</think>")),
        ("llama-cpp-qwen3-thinking-on-default-json-schema", reply(Stop, 50, 20, Some(0), "{\"step\": {\"action\": \"read_file\", \"path\": \"Cargo.toml\"}}")),
        ("llama-cpp-qwen3-thinking-on-plain-asked-to-think", reply(Stop, 24, 10, Some(1), " done")),
        ("llama-cpp-response-format-unknown-type", failure(BadRequest, "response_format type must be one of \"text\" or \"json_object\",")),
        ("llama-cpp-response-format-without-schema", reply(Length, 70, 16, Some(69), "{\n  \"action\": \"read Cargo.toml\"\n}")),
        ("llama-cpp-seed-and-logit-fields", reply(Length, 31, 3, Some(30), "Okay. How")),
        ("llama-cpp-system-message-not-first", reply(Stop, 37, 2, Some(24), "OK")),
        ("llama-cpp-unknown-extra-fields", reply(Stop, 31, 3, Some(22), "Sure!")),
        ("llama-cpp-unknown-path", failure(BadRequest, "check the base URL")),
        ("llama-cpp-unknown-role", reply(Length, 24, 4, Some(22), "I'm sorry,")),
        ("llama-cpp-wrong-model-name", reply(Length, 30, 4, Some(24), "Hello! How can")),
        ("vllm-bad-schema-broken-ref", failure(BadRequest, "Grammar error: Pointer '/$defs/none' does not exist")),
        ("vllm-bad-schema-unknown-type", failure(BadRequest, "Grammar error: Invalid type: objekt")),
        ("vllm-bf16-engine-process-died-during-this-request", failure(Overloaded, "EngineCore encountered an issue. See stack trace (above) for")),
        ("vllm-bf16-later-request-after-the-engine-died", failure(Overloaded, "EngineCore encountered an issue. See stack trace (above) for")),
        ("vllm-body-not-json", failure(BadRequest, "JSON decode error', 'input': ")),
        ("vllm-content-type-text-plain", failure(BadRequest, "Unsupported Media Type: Only 'applicat")),
        ("vllm-finish-reason-length-inside-json", reply(Length, 56, 6, None, "{\"step\":")),
        ("vllm-get-on-chat", failure(BadRequest, "Method Not Allowed")),
        ("vllm-guided-json-deprecated-field", reply(Stop, 56, 40, None, "{\"step\":{\"action\":\"read_file\",\"path\":\"src/lib.rs. The checks fail. You have not read any file.\"}}")),
        ("vllm-json-object", reply(Stop, 56, 20, None, "{\"Cargo.toml\":\"No files found. No files to read.\"}")),
        ("vllm-max-tokens-0", failure(BadRequest, "max_tokens must be at least 1, got 0.")),
        ("vllm-max-tokens-larger-than-context", failure(ContextTooLong, "100000. This model's maximum c")),
        ("vllm-max-tokens-wrong-type", failure(BadRequest, "Input should be a valid integ")),
        ("vllm-messages-empty", failure(BadRequest, "list index out of range list index out of range")),
        ("vllm-missing-messages", failure(BadRequest, "Field required', 'input': {'m")),
        ("vllm-model-field-absent", reply(Length, 32, 3, None, "Hello there,")),
        ("vllm-next-request-after-that", failure(Overloaded, "EngineCore encountered an issue. See stack trace (above) for")),
        ("vllm-over-long-prompt", failure(ContextTooLong, "2048 tokens. However, your r")),
        ("vllm-plain-chat", reply(Length, 32, 8, None, "Hello there, welcome to my world!")),
        ("vllm-qwen3-enable-thinking-false-json-schema", reply(Stop, 54, 25, None, "{\"step\":    {\"action\": \"read_file\", \"path\": \"Cargo.toml\" } }")),
        ("vllm-qwen3-finish-reason-stop-with-stop-string", reply(Stop, 54, 23, None, "{\"step\":    {\"action\": \"read_file\", \"path\": \"Cargo.toml\" ")),
        ("vllm-qwen3-forced-think-text-lands-in-content", reply(Stop, 50, 21, None, "<think>\nI should look first.\n</think>\n\n{\"step\":1}")),
        ("vllm-qwen3-parser-chat-template-kwargs-of-a-wrong-type", failure(BadRequest, "Input should be a valid dicti")),
        ("vllm-qwen3-parser-chat-template-kwargs-with-an-unknown-key", reply(Length, 54, 2, Some(48), "I")),
        ("vllm-qwen3-parser-content-as-a-list-of-parts", reply(Length, 9, 4, None, "# Go Programming Basics")),
        ("vllm-qwen3-parser-developer-role-dropped-by-the-template", reply(Length, 9, 4, None, "# Go Programming Basics")),
        ("vllm-qwen3-parser-enable-thinking-false-json-schema", reply(Stop, 54, 25, Some(48), "{\"step\":    {\"action\": \"read_file\", \"path\": \"Cargo.toml\" } }")),
        ("vllm-qwen3-parser-lower-case-bearer", reply(Length, 50, 2, None, "\"Read")),
        ("vllm-qwen3-parser-no-authorization-header", failure(Auth, "Unauthorized")),
        ("vllm-qwen3-parser-reasoning-split-out-by-the-parser", reply(Stop, 57, 10, None, "\ndone")),
        ("vllm-qwen3-parser-same-cut-by-max-tokens-inside-the-thinking", reply(Length, 57, 3, None, "<think>")),
        ("vllm-qwen3-parser-same-include-reasoning-false", reply(Stop, 57, 10, None, "\ndone")),
        ("vllm-qwen3-parser-same-request-again-prefix-cache", reply(Stop, 54, 25, Some(48), "{\"step\":    {\"action\": \"read_file\", \"path\": \"Cargo.toml\" } }")),
        ("vllm-qwen3-parser-same-without-the-developer-message", reply(Length, 9, 4, None, "# Go Programming Basics")),
        ("vllm-qwen3-parser-scheme-token-instead-of-bearer-what-the-polyaxon-gateway-needs", failure(Auth, "Unauthorized")),
        ("vllm-qwen3-parser-thinking-on-but-a-user-message-contains-the-text-end-of-think", reply(Length, 59, 48, Some(32), "{\"step\":                                             ")),
        ("vllm-qwen3-parser-thinking-on-default-json-schema-schema-not-enforced-until-end-of-think", reply(Stop, 50, 7, Some(48), "\"Read Cargo.toml\"")),
        ("vllm-qwen3-parser-wrong-key", failure(Auth, "Unauthorized")),
        ("vllm-qwen3-thinking-on-default-json-schema-enforced-from-the-first-token", reply(Stop, 50, 21, None, "{\"step\":  {\"action\": \"read_file\", \"path\": \"Cargo.toml\"}}")),
        ("vllm-request-id-in-the-body", reply(Length, 32, 4, None, "Hello there, welcome")),
        ("vllm-response-format-json-schema-root-anyof", reply(Stop, 56, 23, None, "{\"action\":\"read_file\",\"path\":\"src/lib.toml\"}")),
        ("vllm-response-format-json-schema-without-name", failure(BadRequest, "Field required', 'input': {'s")),
        ("vllm-response-format-json-schema-without-schema", reply(Length, 56, 8, None, "The file `Cargo.toml")),
        ("vllm-response-format-json-schema-wrap", reply(Stop, 56, 40, None, "{\"step\":{\"action\":\"read_file\",\"path\":\"src/lib.rs. The checks fail. You have not read any file.\"}}")),
        ("vllm-response-format-type-text", reply(Length, 32, 4, None, "Hello there, welcome")),
        ("vllm-response-format-unknown-type", failure(BadRequest, "Input should be 'text', 'json")),
        ("vllm-response-format-without-json-schema", failure(Overloaded, "no message (Internal Server Error, 500)")),
        ("vllm-schema-is-a-string", failure(BadRequest, "Input should be a valid dicti")),
        ("vllm-schema-keyword-outside-xgrammar-pattern-minproperties", failure(BadRequest, "Grammar error: min/maxProperties only supported when all key")),
        ("vllm-stop-string", reply(Length, 38, 20, Some(16), "The number of people who have died by natural causes is 1 + 2 + 3 =")),
        ("vllm-stream-options-without-stream", failure(BadRequest, "Value error, Stream options c")),
        ("vllm-stream-with-usage", failure(Transport, "not JSON")),
        ("vllm-structured-outputs-json", reply(Stop, 56, 40, None, "{\"step\":{\"action\":\"read_file\",\"path\":\"src/lib.rs. The checks fail. You have not read any file.\"}}")),
        ("vllm-structured-outputs-json-object-false", failure(Overloaded, "EngineCore encountered an issue. See stack trace (above) for")),
        ("vllm-temperature-out-of-range", failure(BadRequest, "temperature must be non-negative, got -1.0.")),
        ("vllm-tools-with-tool-choice-auto-no-parser-configured", failure(BadRequest, "\"auto\" tool choice requires --enable-auto-tool-choice and --")),
        ("vllm-unknown-extra-field", reply(Length, 32, 3, None, "Hello there,")),
        ("vllm-unknown-path", failure(BadRequest, "check the base URL")),
        ("vllm-unknown-role", reply(Length, 31, 2, Some(16), "hi there")),
        ("vllm-wrong-model-name", failure(BadRequest, "The model `nope` does not exist. (NotFoundError, 404); check the model's name")),
        ("vllm-x-request-id-sent-by-the-client", reply(Length, 32, 4, None, "Hello there, welcome")),
        ("vllm-xgrammar-maxlength", reply(Stop, 36, 15, None, "{\"t\": \"Rust is a systems编程言\"}")),
        ("vllm-xgrammar-pattern-and-maxlength", reply(Stop, 37, 10, None, "{\"path\": \"src/main.rs\"}")),
        ("vllm-xgrammar-property-order-content-then-path", reply(Stop, 36, 14, None, "{\"content\": \"hi\", \"path\": \"a.txt\"}")),
        ("vllm-xgrammar-schema-keyword-xgrammar-refuses-fallback-off", failure(BadRequest, "The provided JSON schema contains features not supported by ")),
    ]
}

#[tokio::test]
async fn every_recorded_answer_becomes_what_the_table_says() {
    for (name, expected) in rows() {
        let golden = Golden::read(name);
        match (stub::told(golden.answer()).await, expected) {
            (
                Ok(said),
                Expected::Reply {
                    finish,
                    usage,
                    text,
                },
            ) => {
                assert_eq!(said.text, text, "{name}");
                assert_eq!((said.finish, said.usage), (finish, usage), "{name}");
                assert_eq!(said.served_by, golden.model(), "{name}");
                assert_eq!((said.cost, said.queue), (None, None), "{name}");
            }
            (Err(error), Expected::Failure(kind, words)) => {
                let detail = error.detail.reveal();
                assert_eq!(error.kind, kind, "{name}: {detail}");
                assert!(detail.contains(words), "{name}: {detail}");
                assert_eq!((error.retry_after, error.usage), (None, None), "{name}");
            }
            (said, _) => panic!("{name}: {said:?}"),
        }
    }
}

#[test]
fn every_recording_is_played() {
    let played: BTreeSet<String> = rows()
        .iter()
        .map(|(name, _)| *name)
        .chain(models::PLAYED)
        .map(str::to_owned)
        .collect();
    assert_eq!(golden::names(), played);
}
