//! The frontier as a service.
//!
//! [`foreign`] keeps the queues of crawlers that are not lycosa, and [`urlfrontier`] is how they
//! speak to it. [`native`] is what our own workers speak. [`serve`] puts that on a port, with a health service and a description of itself for
//! whoever asks by reflection.
//!
//! Not here: what is on disk (`local`), when a queue may be served (`frontier::queues`).

pub mod foreign;
mod log_level;
pub mod native;
mod urlfrontier;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::Steering;
use engine::roles::crew::Crew;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataValue;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

use wire::lycosa::frontier_server::FrontierServer;
use wire::urlfrontier::url_frontier_server::UrlFrontierServer;

pub use log_level::LogLevels;

/// A message larger than this is refused.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// What may be under way to us, in one connection and in one stream. A client that sends many small
/// items fills a stream with thousands of frames; the room for what those cost beside their bytes is
/// measured by the connection's.
const CONNECTION_BYTES: u32 = 16 << 20;
const STREAM_BYTES: u32 = 256 << 10;

/// How long calls that are under way may take when the service is told to end.
const GRACE: Duration = Duration::from_secs(3);

/// Who may speak to us, and how.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// What callers must send as `authorization: Bearer …`.
    pub token: Option<String>,
    pub tls: Option<Tls>,
}

/// Certificates and their key, as PEM.
#[derive(Clone)]
pub struct Tls {
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (token, tls) = (self.token.is_some(), self.tls.is_some());
        f.debug_struct("ServerOptions").field("token", &token).field("tls", &tls).finish()
    }
}

/// Serves until `stop` is over. Calls under way have some seconds to end by themselves then.
///
/// # Errors
/// When the certificate cannot be used, or the socket breaks.
pub async fn serve(
    listener: TcpListener,
    options: ServerOptions,
    desk: foreign::Handle,
    crawl: (Arc<Crew>, Steering),
    levels: LogLevels,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let address: SocketAddr = listener.local_addr()?;
    let mut server = Server::builder()
        .initial_connection_window_size(CONNECTION_BYTES)
        .initial_stream_window_size(STREAM_BYTES);
    if let Some(tls) = &options.tls {
        let identity = Identity::from_pem(&tls.certificates, &tls.key);
        let tls = ServerTlsConfig::new().identity(identity);
        server = server.tls_config(tls).map_err(ServeError::Tls)?;
    }
    let door = Door::new(options.token.as_deref())?;
    let service = urlfrontier::Service::new(desk, address.to_string(), levels);
    let urlfrontier = UrlFrontierServer::new(service).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<UrlFrontierServer<urlfrontier::Service>>().await;
    let (crew, steering) = crawl;
    let native = FrontierServer::new(native::server::Service::new(crew, steering))
        .max_decoding_message_size(native::REPORT_BYTES_MAX);
    reporter.set_serving::<FrontierServer<native::server::Service>>().await;
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(wire::SERVICES)
    };
    let (tell, told) = oneshot::channel();
    let stop = async {
        stop.await;
        // Whoever waits for it is below.
        let _ = tell.send(());
    };
    let serving = server
        .add_service(health)
        .add_service(InterceptedService::new(describe().build_v1()?, door.clone()))
        .add_service(InterceptedService::new(describe().build_v1alpha()?, door.clone()))
        .add_service(InterceptedService::new(urlfrontier, door.clone()))
        .add_service(InterceptedService::new(native, door))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop);
    tokio::select! {
        served = serving => served?,
        () = async {
            if told.await.is_ok() {
                tokio::time::sleep(GRACE).await;
            }
        } => tracing::info!("calls that are still open are ended"),
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("certificates or key cannot be used: {}", causes(.0))]
    Tls(tonic::transport::Error),
    #[error("the frontier cannot be served: {}", causes(.0))]
    Transport(#[from] tonic::transport::Error),
    #[error("the frontier cannot be served: {0}")]
    Io(#[from] std::io::Error),
    #[error("the frontier cannot describe itself: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    #[error("the token has characters that cannot be sent in a header")]
    Token,
}

/// An error with all that lies behind it: its own sentence says little.
fn causes(error: &tonic::transport::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

/// Lets those in who know the token.
#[derive(Clone)]
struct Door {
    expected: Option<MetadataValue<tonic::metadata::Ascii>>,
}

impl Door {
    fn new(token: Option<&str>) -> Result<Self, ServeError> {
        let expected = token.map(|token| format!("Bearer {token}").parse());
        Ok(Self { expected: expected.transpose().map_err(|_| ServeError::Token)? })
    }
}

impl tonic::service::Interceptor for Door {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let sent = request.metadata().get("authorization");
        match &self.expected {
            Some(expected)
                if !sent.is_some_and(|sent| same(sent.as_bytes(), expected.as_bytes())) =>
            {
                Err(Status::unauthenticated("send the token: `authorization: Bearer TOKEN`"))
            }
            _ => Ok(request),
        }
    }
}

/// Compares in a time that does not tell how much was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
