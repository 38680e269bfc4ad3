//! Files of settings: what is taken can be used, and no token is shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polyaxon_client::Client;
use polyaxon_client::fuzzing::config;

const TOKEN: &str = "t0ken-that-nobody-may-see";

fuzz_target!(|input: (&str, &str)| {
    let (client, auth) = input;
    let _taken_or_not = config(client, auth);
    let auth = serde_json::json!({"token": TOKEN}).to_string();
    match config(client, &auth) {
        Ok(config) => {
            assert!(matches!(config.host_url().scheme(), "http" | "https"));
            assert!(!format!("{config:?}").contains(TOKEN));
            // An error is a certificate that is not there.
            if let Err(error) = Client::new(&config) {
                assert!(!format!("{error:?}").contains(TOKEN));
            }
        }
        Err(error) => assert!(!format!("{error:?}").contains(TOKEN)),
    }
});
