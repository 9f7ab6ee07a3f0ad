//! The crawl over HTTP and JSON: put URLs in, take leases out, say what became of them.
//!
//! For workers and tools that speak no gRPC. Whoever takes leases here is a member of the crew like
//! any other worker: the same frontier decides who is visited when, the same store is written. What
//! can be asked, and how, is in [`openapi`], which is served too.
//!
//! Always: a request has a bound in bytes and in time, and there is a bound to how many are under way.
//! What is refused is refused with a sentence that says what to do.

mod answer;
mod hosts;
mod lease;
mod openapi;
mod query;
mod stats;
mod tls;
mod urls;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use engine::Steering;
use engine::roles::crew::Crew;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::service::Routes;

use crate::door::{Door, KNOCK};
use crate::{ServeError, ServerOptions, foreign, until_stopped};
use answer::Refused;
use stats::Throughput;

/// A request larger than this is refused: some ten thousand links, each of them long.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Longest wait for all of a request and its answer; a call for leases waits for half of it at most.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Requests under way.
const REQUESTS_MAX: usize = 1_024;

/// What the handlers share.
struct Shared {
    crew: Arc<Crew>,
    steering: Steering,
    door: Door,
    registry: Registry,
    throughput: Throughput,
    requests: Semaphore,
}

type Here = State<Arc<Shared>>;

/// Serves until `stop` is over. Requests under way have some seconds to end by themselves then.
///
/// # Errors
/// When the certificate or the token cannot be used, or the socket breaks.
pub async fn serve(
    listener: TcpListener,
    options: ServerOptions,
    desk: &foreign::Handle,
    (crew, steering): (Arc<Crew>, Steering),
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let mut registry = Registry::default();
    steering.ctx.events.register(&mut registry);
    desk.events.register(&mut registry);
    let shared = Arc::new(Shared {
        throughput: Throughput::new(steering.limits.pages()),
        door: Door::new(options.token.as_deref())?,
        requests: Semaphore::new(REQUESTS_MAX),
        crew,
        steering,
        registry,
    });
    let routes = Routes::from(router(&shared));
    let server = crate::builder().accept_http1(true).add_routes(routes);
    let measured = shared.throughput.watch(&shared.steering.limits);
    let serving = until_stopped(stop, |stop| async {
        match &options.tls {
            Some(tls) => {
                let incoming = tls::incoming(listener, tls)?;
                Ok(server.serve_with_incoming_shutdown(incoming, stop).await?)
            }
            None => {
                let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
                Ok(server.serve_with_incoming_shutdown(incoming, stop).await?)
            }
        }
    });
    tokio::select! {
        served = serving => served,
        () = measured => unreachable!("it measures for ever"),
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/frontier/v1/urls", post(urls::inject))
        .route("/frontier/v1/urls/{id}", put(urls::update))
        .route("/frontier/v1/next", get(lease::next))
        .route("/frontier/v1/heartbeat", post(lease::heartbeat))
        .route("/frontier/v1/hosts", get(hosts::list))
        .route("/frontier/v1/hosts/{host}/rate", put(hosts::rate))
        .route("/frontier/v1/stats", get(stats::stats))
        .route("/openapi.json", get(openapi::openapi))
        .route("/metrics", get(metrics))
        .fallback(|| async {
            Refused::new(
                StatusCode::NOT_FOUND,
                "no such path; GET /openapi.json lists all there are",
            )
        })
        .method_not_allowed_fallback(|| async {
            let why = "this path knows other methods; GET /openapi.json lists them";
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, why)
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(shared), admit))
        // Whoever looks whether we are alive needs no token, as in gRPC.
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(Arc::clone(shared))
}

/// Nobody without the token, not too many at once, and nobody for ever.
async fn admit(State(shared): Here, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION);
    if !shared.door.admits(sent.map(|sent| sent.as_bytes())) {
        return Refused::new(StatusCode::UNAUTHORIZED, KNOCK).into_response();
    }
    let Ok(_place) = shared.requests.try_acquire() else {
        let why = format!("{REQUESTS_MAX} requests are under way; ask again in a moment");
        return Refused::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let why = format!("not done after {} s; send less at once", REQUEST_TIME_MAX.as_secs());
            Refused::new(StatusCode::REQUEST_TIMEOUT, why).into_response()
        }
    }
}

async fn metrics(State(shared): Here) -> Result<Response, Refused> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &shared.registry)
        .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
