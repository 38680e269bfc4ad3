//! A certificate for this machine, and the authority that made it, which nobody knows.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// PEM files of an authority, and of a certificate for `localhost` and `127.0.0.1`. They are removed
/// when this is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Authority {
    folder: TempDir,
}

impl Authority {
    /// Makes both.
    #[must_use]
    pub fn make() -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(params, authority_key);
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(made.ca_file(), authority.pem()).unwrap();
        std::fs::write(made.certificate_file(), certificate.pem()).unwrap();
        std::fs::write(made.key_file(), key.serialize_pem()).unwrap();
        made
    }

    /// What a client has to know.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// What a server shows.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// What only the server knows.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }
}
