//! Which models a server has.

use std::time::Duration;

use agent_loop::ModelErrorKind;
use agent_loop::model::openai::OpenAi;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::golden::Golden;
use crate::stub::{base, model, refuse_the_rest};

const VLLM: &str = "vllm-models";
const LLAMA_CPP: &str = "llama-cpp-models";
const NO_KEY: [&str; 2] = [
    "vllm-qwen3-parser-models-without-key",
    "llama-cpp-key-models-without-key",
];
/// The recordings that are played here.
pub(crate) const PLAYED: [&str; 4] = [VLLM, LLAMA_CPP, NO_KEY[0], NO_KEY[1]];
const LIMIT: Duration = Duration::from_secs(20);

async fn listing(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/v1/models"))
        .respond_with(answer)
        .expect(1)
        .named("the one call")
        .mount(&server)
        .await;
    refuse_the_rest(&server).await;
    server
}

#[tokio::test]
async fn the_window_is_read_from_both_kinds_of_server() {
    for (name, id, window) in [(VLLM, "smollm2", 2048), (LLAMA_CPP, "qwen-coder", 4096)] {
        let server = listing(Golden::read(name).answer()).await;
        let models = model(&base(&server))
            .build()
            .unwrap()
            .models(LIMIT)
            .await
            .unwrap();
        assert_eq!(models.len(), 1);
        assert_eq!(
            (models[0].id.as_str(), models[0].window),
            (id, Some(window))
        );

        let server = listing(Golden::read(name).answer()).await;
        let asked = OpenAi::builder(base(&server), id).build().unwrap();
        assert_eq!(asked.window(LIMIT).await, Ok(Some(window)));
    }
}

#[tokio::test]
async fn a_key_that_is_missing_is_said() {
    for name in NO_KEY {
        let server = listing(Golden::read(name).answer()).await;
        let error = model(&base(&server))
            .build()
            .unwrap()
            .models(LIMIT)
            .await
            .unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Auth, "{name}");
    }
}

#[tokio::test]
async fn what_is_no_list_of_models_is_said() {
    let server = listing(ResponseTemplate::new(200).set_body_raw("{}", "application/json")).await;
    let error = model(&base(&server))
        .build()
        .unwrap()
        .window(LIMIT)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert_eq!(error.detail.reveal(), "the answer is no list of models");
}
