//! TLS in front of a service, with a certificate of an authority that only its clients know.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use polyaxon_tests::authority::Authority;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Takes connections with TLS and hands their bytes to the service, until it is dropped.
pub(crate) struct Terminator {
    address: SocketAddr,
    authority: Authority,
    serving: JoinHandle<()>,
}

impl Terminator {
    pub(crate) async fn start(service: SocketAddr) -> Self {
        let authority = Authority::make();
        let certificate = CertificateDer::from_pem_file(authority.certificate_file()).unwrap();
        let key = PrivateKeyDer::from_pem_file(authority.key_file()).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self {
            address,
            authority,
            serving: tokio::spawn(serve(listener, acceptor, service)),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.authority.ca_file()
    }
}

impl Drop for Terminator {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, service: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let Ok(mut client) = acceptor.accept(stream).await else {
                return;
            };
            let mut behind = TcpStream::connect(service).await.unwrap();
            // An error is a connection that one side has closed.
            let _ended = copy_bidirectional(&mut client, &mut behind).await;
        });
    }
}
