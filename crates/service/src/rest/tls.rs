//! How do callers of REST come to us over TLS?
//!
//! gRPC is HTTP/2 and its server offers nothing else; most who speak JSON want HTTP/1.1.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls};
use tokio_stream::wrappers::TcpListenerStream;

use crate::{ServeError, Tls};

/// Handshakes at once; who comes later waits for one of them.
const HANDSHAKES_MAX: usize = 256;
/// Longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

type Incoming = Pin<Box<dyn Stream<Item = std::io::Result<TlsStream<TcpStream>>> + Send>>;

pub(super) fn incoming(listener: TcpListener, tls: &Tls) -> Result<Incoming, ServeError> {
    let acceptor = TlsAcceptor::from(Arc::new(config(tls)?));
    let connections = TcpListenerStream::new(listener).map(move |tcp| {
        let acceptor = acceptor.clone();
        async move { tokio::time::timeout(HANDSHAKE, acceptor.accept(tcp.ok()?)).await.ok()?.ok() }
    });
    // One that does not come to an end is dropped; whoever it was sees that.
    let greeted = connections.buffer_unordered(HANDSHAKES_MAX).filter_map(async |c| c.map(Ok));
    Ok(Box::pin(greeted))
}

fn config(tls: &Tls) -> Result<ServerConfig, ServeError> {
    let bad = |error: String| ServeError::Pem(error);
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&tls.certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| bad(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key).map_err(|error| bad(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| bad(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
