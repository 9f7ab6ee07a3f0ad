//! The frontier as a service.
//!
//! [`foreign`] keeps the queues of crawlers that are not lycosa, and [`urlfrontier`] is how they
//! speak to it. [`native`] is what our own workers speak, [`rest`] is for those who speak JSON. [`serve`]
//! puts the first two on a port, with a health service and a description of itself for whoever asks by
//! reflection; [`door`] says who is let in.
//!
//! Not here: what is on disk (`local`), when a queue may be served (`frontier::queues`).

pub mod door;
mod events;
pub mod foreign;
mod log_level;
pub mod native;
pub mod rest;
mod urlfrontier;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use engine::Steering;
use engine::roles::crew::Crew;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use wire::lycosa::frontier_server::FrontierServer;
use wire::urlfrontier::url_frontier_server::UrlFrontierServer;

use door::{BadToken, Door};
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
    let mut server = builder();
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
    let server = server
        .add_service(health)
        .add_service(InterceptedService::new(describe().build_v1()?, door.clone()))
        .add_service(InterceptedService::new(describe().build_v1alpha()?, door.clone()))
        .add_service(InterceptedService::new(urlfrontier, door.clone()))
        .add_service(InterceptedService::new(native, door));
    until_stopped(stop, |stop| async {
        let incoming = TcpListenerStream::new(listener);
        Ok(server.serve_with_incoming_shutdown(incoming, stop).await?)
    })
    .await
}

/// A server with our bounds.
fn builder() -> Server {
    Server::builder()
        .initial_connection_window_size(CONNECTION_BYTES)
        .initial_stream_window_size(STREAM_BYTES)
}

/// Serves until `stop` is over, and a little longer for the sake of calls that are under way.
async fn until_stopped<'a, F>(
    stop: impl Future<Output = ()> + Send + 'a,
    serve: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send + 'a>>) -> F,
) -> Result<(), ServeError>
where
    F: Future<Output = Result<(), ServeError>>,
{
    let (tell, told) = oneshot::channel();
    let stop = async move {
        stop.await;
        // Whoever waits for it is below.
        let _ = tell.send(());
    };
    tokio::select! {
        served = serve(Box::pin(stop)) => served?,
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
    #[error(transparent)]
    Token(#[from] BadToken),
    #[error("certificates or key cannot be used: {0}")]
    Pem(String),
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
