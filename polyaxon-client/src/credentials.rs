//! What a call proves itself with, and how that is renewed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use tokio::sync::Mutex;

use crate::config::Config;
use crate::error::{BoxError, Error};
use crate::token::Token;

type Asked = Pin<Box<dyn Future<Output = Result<Token, BoxError>> + Send>>;

/// Who is asked for a token.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Fn() -> Asked + Send + Sync>);

impl Provider {
    pub(crate) fn new<F, R>(ask: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<Token, BoxError>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(ask())))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

/// A credential with its place in the order in which they were had.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    number: u64,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

/// What calls prove themselves with.
pub(crate) enum Credentials {
    /// This header, or none, whatever is answered.
    Fixed(Option<(HeaderName, HeaderValue)>),
    /// What somebody has to be asked for.
    Asked {
        scheme: String,
        provider: Provider,
        // Held while the provider is asked, so that all who need a new token wait for one question.
        current: Mutex<Option<Credential>>,
    },
}

impl Credentials {
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        if let Some(provider) = config.provider() {
            return Ok(Self::Asked {
                scheme: config.scheme().to_owned(),
                provider: provider.clone(),
                current: Mutex::new(None),
            });
        }
        let fixed = config.authorization()?;
        Ok(Self::Fixed(
            fixed.map(|value| (header::AUTHORIZATION, value)),
        ))
    }

    /// What to send.
    pub(crate) async fn current(&self) -> Result<Credential, Error> {
        let header = match self {
            Self::Fixed(header) => header.clone(),
            Self::Asked { .. } => match self.newer_than(None).await? {
                Some(credential) => return Ok(credential),
                None => None,
            },
        };
        Ok(Credential { number: 0, header })
    }

    /// What to send instead of a credential that was refused; `None` where there is nothing else. Of
    /// many who were refused with the same one, the first asks and the others get what it was told.
    pub(crate) async fn renewed(&self, refused: &Credential) -> Result<Option<Credential>, Error> {
        self.newer_than(Some(refused.number)).await
    }

    async fn newer_than(&self, refused: Option<u64>) -> Result<Option<Credential>, Error> {
        let Self::Asked {
            scheme,
            provider: Provider(ask),
            current,
        } = self
        else {
            return Ok(None);
        };
        let mut current = current.lock().await;
        let is_newer = |it: &&Credential| refused.is_none_or(|refused| it.number > refused);
        if let Some(credential) = current.as_ref().filter(is_newer) {
            return Ok(Some(credential.clone()));
        }
        let token = ask().await.map_err(Error::Token)?;
        let value = token.header(scheme)?;
        let next = Credential {
            number: refused.map_or(0, |refused| refused + 1),
            header: Some((header::AUTHORIZATION, value)).filter(|_| !token.is_no_auth()),
        };
        *current = Some(next.clone());
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn of_many_who_were_refused_one_asks() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let provider = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::task::yield_now().await;
                Ok(Token::new(format!("t{number}"))?)
            }
        };
        let config = Config::explicit("http://localhost:1")
            .unwrap()
            .token_provider(provider);
        let credentials = Arc::new(Credentials::of(&config).unwrap());
        let first = credentials.current().await.unwrap();
        assert_eq!(first.header.clone().unwrap().1, "Token t0");
        let all: Vec<_> = (0..20)
            .map(|_| {
                let credentials = Arc::clone(&credentials);
                let refused = first.clone();
                tokio::spawn(async move { credentials.renewed(&refused).await.unwrap() })
            })
            .collect();
        for task in all {
            let renewed = task.await.unwrap();
            assert_eq!(renewed.unwrap().header.unwrap().1, "Token t1");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_provider_that_fails_is_asked_again_by_the_next_call() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let provider = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move {
                match number {
                    0 => Err("the vault is closed".into()),
                    _ => Ok(Token::new("t")?),
                }
            }
        };
        let config = Config::explicit("http://localhost:1")
            .unwrap()
            .token_provider(provider);
        let credentials = Credentials::of(&config).unwrap();
        let error = credentials.current().await.unwrap_err();
        assert!(
            matches!(&error, Error::Token(cause) if cause.to_string() == "the vault is closed")
        );
        assert_eq!(error.effect(), crate::Effect::NotApplied);
        credentials.current().await.unwrap();
    }
}
