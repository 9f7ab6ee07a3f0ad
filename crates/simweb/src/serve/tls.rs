//! Who vouches for the hosts of our web?
//!
//! An authority of our own, made at the start and forgotten at the end. It signs a certificate
//! for whatever name a client asks for, when it asks; hosts with a bad certificate get one for
//! another name. All certificates share one key, since making keys is slow and secrecy is not
//! the point.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use tokio_rustls::TlsAcceptor;

use crate::web::{Door, Web};

/// Certificates that are kept; beyond, all are made anew. About 2 KB each.
const CERTIFICATES_MAX: usize = 50_000;
/// What HTTP/2 is called in a handshake.
pub(super) const HTTP2: &[u8] = b"h2";
/// A name that no web of ours has.
const WRONG_NAME: &str = "somebody-else.invalid";

pub(super) struct Authority {
    web: Arc<dyn Web>,
    issuer: CertifiedIssuer<'static, KeyPair>,
    key_pair: KeyPair,
    signing_key: Arc<dyn SigningKey>,
    made: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    pub(super) fn new(web: Arc<dyn Web>) -> io::Result<Arc<Self>> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "simweb test authority");
        let ca_key = KeyPair::generate().map_err(io::Error::other)?;
        let issuer = CertifiedIssuer::self_signed(params, ca_key).map_err(io::Error::other)?;
        let key_pair = KeyPair::generate().map_err(io::Error::other)?;
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key_pair.serialize_der()));
        let signing_key = ring::sign::any_supported_type(&der).map_err(io::Error::other)?;
        let made = Mutex::default();
        Ok(Arc::new(Self { web, issuer, key_pair, signing_key, made }))
    }

    /// The certificate to trust.
    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Clients that can are spoken to in HTTP/2, if `http2`.
    pub(super) fn acceptor(self: Arc<Self>, http2: bool) -> io::Result<TlsAcceptor> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(self);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if http2 {
            config.alpn_protocols.insert(0, HTTP2.to_vec());
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn certificate(&self, name: &str) -> Result<Arc<CertifiedKey>, rcgen::Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(name) {
            return Ok(Arc::clone(known));
        }
        let shown = match self.web.door(name, 0, true) {
            Door::BadCertificate => WRONG_NAME,
            _ => name,
        };
        let mut params = CertificateParams::new(vec![shown.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, shown);
        let certificate = params.signed_by(&self.key_pair, &self.issuer)?;
        let chain = vec![certificate.der().clone()];
        let key = Arc::new(CertifiedKey::new(chain, Arc::clone(&self.signing_key)));
        if made.len() >= CERTIFICATES_MAX {
            made.clear();
        }
        made.insert(name.to_owned(), Arc::clone(&key));
        Ok(key)
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Clients that connect to an address name no host.
        self.certificate(hello.server_name().unwrap_or("localhost")).ok()
    }
}
