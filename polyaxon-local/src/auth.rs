//! Who may call: the token of the server, and the token of one run's daemon.

use std::fmt;

use hmac::{Hmac, Mac};
use http::{HeaderMap, header};
use polyaxon_client::RunUuid;
use polyaxon_sandbox::wire;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// A secret that is compared in constant time and never printed.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// 256 random bits as hex digits.
    pub(crate) fn random() -> Self {
        Self(format!(
            "{}{}",
            Uuid::new_v4().simple(),
            Uuid::new_v4().simple()
        ))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    fn matches(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What a caller presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Granted,
    Missing,
    Wrong,
}

/// Looks at `Authorization: {any scheme} {token}`, as the platform spells it.
pub(crate) fn authorization(headers: &HeaderMap, token: &Secret) -> Access {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Access::Missing;
    };
    let presented = value.to_str().ok().and_then(|text| text.split_once(' '));
    match presented {
        Some((_scheme, presented)) if token.matches(presented.trim()) => Access::Granted,
        _ => Access::Wrong,
    }
}

/// Looks at the header with the token of one run's daemon.
pub(crate) fn sandbox_token(headers: &HeaderMap, token: &Secret) -> Access {
    match headers.get(wire::header::SANDBOX_TOKEN) {
        None => Access::Missing,
        Some(value) => match value.to_str() {
            Ok(presented) if token.matches(presented) => Access::Granted,
            _ => Access::Wrong,
        },
    }
}

/// The token of the daemon of `run`: `HMAC-SHA256(signing key, "sandbox:v1:" + run uuid)` in hex.
pub(crate) fn derive_sandbox_token(signing_key: &Secret, run: RunUuid) -> Secret {
    // An HMAC takes a key of any length; the error type is that of MACs in general.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(signing_key.0.as_bytes()) else {
        return Secret::random();
    };
    mac.update(format!("sandbox:v1:{run}").as_bytes());
    let digest = mac.finalize().into_bytes();
    Secret(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_run_is_the_one_of_the_worked_example() {
        let run: RunUuid = "8aac02e3-a62a-4f0a-aa25-7c59da5eab80".parse().unwrap();
        let token = derive_sandbox_token(&Secret::new("example-signing-key"), run);
        assert_eq!(
            token.expose(),
            "fa979d6ce82b761bd5fa0132d9c6b562ff1a2aee27a7d45183f506ec2530ac79"
        );
    }

    #[test]
    fn any_scheme_is_taken_and_only_the_whole_token() {
        let token = Secret::new("s3cret");
        let table = [
            (None, Access::Missing),
            (Some("Token s3cret"), Access::Granted),
            (Some("token s3cret"), Access::Granted),
            (Some("Bearer s3cret"), Access::Granted),
            (Some("Bearer  s3cret "), Access::Granted),
            (Some("s3cret"), Access::Wrong),
            (Some("Token s3cre"), Access::Wrong),
            (Some("Token s3cret2"), Access::Wrong),
            (Some("Token "), Access::Wrong),
            (Some(""), Access::Wrong),
        ];
        for (value, want) in table {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(authorization(&headers, &token), want, "{value:?}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::random();
        assert_eq!(secret.expose().len(), 64);
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }
}
