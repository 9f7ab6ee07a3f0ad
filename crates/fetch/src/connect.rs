//! How do we reach a server?
//!
//! One address, one port, no second guess: exactly the address that the guard has let pass is
//! connected, with TLS where the URL says so. There the server is offered HTTP/2 and HTTP/1.1 and
//! chooses; hosts whose HTTP/2 has failed before are offered HTTP/1.1 alone.
//!
//! [`Dial`] is the last step, below the guard and everything else: what is not dialled is not
//! connected. Tests put a recorder there.
//!
//! Not here: the guard (`http` asks it), whether a connection that is already open can serve
//! (`pool`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lru::LruCache;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{
    ClientConfig, DigitallySignedStruct, ProtocolVersion, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use types::{CrawlUrl, Fault, HostKey, Scheme};

use crate::error::Error;
use crate::proxy::{Route, Unconnected};
use crate::record::Stream;
use crate::settings::NetworkSettings;

/// Servers whose TLS sessions are remembered, some KiB each: a visit that resumes one is
/// spared most of the handshake.
const TLS_SESSIONS_MAX: usize = 1024;
/// Hosts that are remembered for their broken HTTP/2. One that is forgotten costs a failed visit.
const AVOIDED_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// Makes a connection to an address.
#[async_trait]
pub trait Dial: Send + Sync {
    async fn dial(&self, to: SocketAddr) -> io::Result<TcpStream>;
}

/// Real connections.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    /// Addresses of ours that they leave from; empty where the system chooses.
    pub from: Vec<IpAddr>,
}

#[async_trait]
impl Dial for Sockets {
    async fn dial(&self, to: SocketAddr) -> io::Result<TcpStream> {
        if self.from.is_empty() {
            return TcpStream::connect(to).await;
        }
        let from = self.from.iter().find(|from| from.is_ipv4() == to.is_ipv4());
        let Some(from) = from else {
            let why = "network.source_address names no address of this kind";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
        };
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind(SocketAddr::new(*from, 0))?;
        socket.connect(to).await
    }
}

/// Opens connections.
pub(crate) struct Connector {
    dial: Arc<dyn Dial>,
    http1: TlsConnector,
    /// Offers both; none where HTTP/2 is not wanted.
    http2: Option<TlsConnector>,
    /// Hosts that are not offered HTTP/2 any more.
    avoided: Mutex<LruCache<HostKey, ()>>,
}

/// A connection, and the version of TLS on it.
pub(crate) struct Connected {
    pub(crate) stream: Stream,
    pub(crate) tls: Option<&'static str>,
    /// The server chose HTTP/2.
    pub(crate) http2: bool,
}

/// Why there is none.
pub(crate) enum ConnectError {
    Fault(Fault),
    /// We have as many files open as we may.
    NoFiles,
}

impl Connector {
    pub(crate) fn new(
        settings: &NetworkSettings,
        http2: bool,
        dial: Arc<dyn Dial>,
    ) -> Result<Self, Error> {
        let mut config = tls_config(settings)?;
        config.alpn_protocols = vec![HTTP1.to_vec()];
        let both = http2.then(|| {
            let mut both = config.clone();
            both.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
            // Not shared: a session is resumed with the protocol that it began with.
            both.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_MAX);
            TlsConnector::from(Arc::new(both))
        });
        Ok(Self {
            dial,
            http1: TlsConnector::from(Arc::new(config)),
            http2: both,
            avoided: Mutex::new(LruCache::new(AVOIDED_MAX)),
        })
    }

    /// Offers HTTP/1.1 alone to this host from now on.
    pub(crate) fn avoid_http2(&self, url: &CrawlUrl) {
        self.avoided().put(url.host_key(), ());
    }

    fn avoided(&self) -> MutexGuard<'_, LruCache<HostKey, ()>> {
        self.avoided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects the address, or the proxy that leads to it.
    pub(crate) async fn connect(
        &self,
        url: &CrawlUrl,
        address: IpAddr,
        route: Option<&Route<'_>>,
    ) -> Result<Connected, ConnectError> {
        let to = route.map_or(SocketAddr::new(address, url.port()), Route::address);
        let fault = |error: io::Error| match (connect_error(&error), route) {
            (ConnectError::Fault(_), Some(route)) => {
                ConnectError::Fault(route.failed(&error.to_string()))
            }
            (other, _) => other,
        };
        let mut tcp = self.dial.dial(to).await.map_err(fault)?;
        // A request is one small write: it should leave at once.
        tcp.set_nodelay(true).map_err(fault)?;
        if let Some(route) = route {
            match route.open(&mut tcp, url.port()).await {
                Ok(()) => route.worked(),
                Err(Unconnected::Proxy(why)) => {
                    return Err(ConnectError::Fault(route.failed(&why)));
                }
                Err(Unconnected::Server(why)) => {
                    route.worked();
                    return Err(ConnectError::Fault(Fault::Connect(why.into())));
                }
            }
        }
        match url.scheme() {
            Scheme::Http => Ok(Connected { stream: Stream::Plain(tcp), tls: None, http2: false }),
            Scheme::Https => self.handshake(url, tcp).await.map_err(ConnectError::Fault),
        }
    }

    async fn handshake(&self, url: &CrawlUrl, tcp: TcpStream) -> Result<Connected, Fault> {
        let tls_fault = |why: String| Fault::Tls(why.into());
        let host = url.host().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| tls_fault(format!("`{host}` cannot stand in a certificate")))?;
        let offer = match &self.http2 {
            Some(both) if !self.avoided().contains(url.host()) => both,
            _ => &self.http1,
        };
        let stream = offer.connect(name, tcp).await.map_err(|error| {
            // The cause that rustls names beats the wrapper that tokio puts around it.
            let cause = error.get_ref().map(ToString::to_string);
            tls_fault(cause.unwrap_or_else(|| format!("handshake broken off: {error}")))
        })?;
        let tls = stream.get_ref().1.protocol_version().map(|version| match version {
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLS",
        });
        let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok(Connected { stream: Stream::Tls(Box::new(stream)), tls, http2 })
    }
}

fn connect_error(error: &io::Error) -> ConnectError {
    // EMFILE and ENFILE, which have no name in the standard library.
    match error.raw_os_error() {
        Some(23 | 24) if cfg!(unix) => ConnectError::NoFiles,
        _ => ConnectError::Fault(Fault::Connect(error.to_string().into())),
    }
}

fn tls_config(settings: &NetworkSettings) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string().into()))?;
    let mut config = if settings.tls_verify {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for path in &settings.tls_ca {
            add_certificates(&mut roots, path)?;
        }
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        let verifier = Arc::new(Anyone { provider });
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    config.resumption = Resumption::in_memory_sessions(TLS_SESSIONS_MAX);
    Ok(config)
}

fn add_certificates(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let bad = |why: String| Error::TlsCa { path: path.into(), why: why.into() };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|e| bad(e.to_string()))?;
    let mut found = false;
    for certificate in certificates {
        let certificate = certificate.map_err(|e| bad(e.to_string()))?;
        roots.add(certificate).map_err(|e| bad(e.to_string()))?;
        found = true;
    }
    match found {
        true => Ok(()),
        false => Err(bad("there is no certificate in it; PEM is expected".to_owned())),
    }
}

/// Takes every certificate, for `network.tls_verify = false`.
#[derive(Debug)]
struct Anyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
