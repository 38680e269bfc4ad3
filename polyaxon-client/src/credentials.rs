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
    pub(crate) number: u64,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

pub(crate) struct Credentials {
    scheme: String,
    provider: Option<Provider>,
    // Held while the provider is asked, so that all who need a new token wait for one question.
    current: Mutex<Option<Credential>>,
}

impl Credentials {
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        let provider = config.provider().cloned();
        let fixed = config.authorization()?;
        let current = match (&provider, fixed) {
            (Some(_), _) => None,
            (None, fixed) => Some(Credential {
                number: 0,
                header: fixed.map(|value| (header::AUTHORIZATION, value)),
            }),
        };
        Ok(Self {
            scheme: config.scheme().to_owned(),
            provider,
            current: Mutex::new(current),
        })
    }

    /// This header, whatever is answered.
    pub(crate) fn header_only(header: (HeaderName, HeaderValue)) -> Self {
        let header = Some(header);
        Self {
            scheme: String::new(),
            provider: None,
            current: Mutex::new(Some(Credential { number: 0, header })),
        }
    }

    pub(crate) fn can_be_renewed(&self) -> bool {
        self.provider.is_some()
    }

    /// What to send.
    pub(crate) async fn current(&self) -> Result<Credential, Error> {
        let mut current = self.current.lock().await;
        if let Some(credential) = &*current {
            return Ok(credential.clone());
        }
        let first = self.ask(0).await?;
        *current = Some(first.clone());
        Ok(first)
    }

    /// What to send instead of the credential with this number, which was refused. Of many who
    /// were refused with the same one, the first asks and the others get what it was told.
    pub(crate) async fn renewed(&self, refused: u64) -> Result<Credential, Error> {
        let mut current = self.current.lock().await;
        if let Some(credential) = current.as_ref().filter(|it| it.number > refused) {
            return Ok(credential.clone());
        }
        let next = self.ask(refused + 1).await?;
        *current = Some(next.clone());
        Ok(next)
    }

    async fn ask(&self, number: u64) -> Result<Credential, Error> {
        let Some(Provider(ask)) = &self.provider else {
            let header = None;
            return Ok(Credential { number, header });
        };
        let token = ask().await.map_err(Error::Token)?;
        let value = token.header(&self.scheme)?;
        let header = Some((header::AUTHORIZATION, value)).filter(|_| !token.is_no_auth());
        Ok(Credential { number, header })
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
        assert_eq!(first.header.unwrap().1, "Token t0");
        let all: Vec<_> = (0..20)
            .map(|_| {
                let credentials = Arc::clone(&credentials);
                tokio::spawn(async move { credentials.renewed(0).await.unwrap() })
            })
            .collect();
        for task in all {
            let renewed = task.await.unwrap();
            assert_eq!(renewed.header.unwrap().1, "Token t1");
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
