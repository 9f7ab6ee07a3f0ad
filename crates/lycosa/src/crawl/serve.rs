//! `--serve`: `/metrics` for Prometheus and `/status` as JSON, while a crawl runs.
//!
//! Loopback needs no token; any other address does, which the settings see to.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use local::Duplicates;
use prometheus_client::registry::Registry;
use service::door::{Door, KNOCK};
use tokio::net::TcpListener;

use super::{Live, net_metrics};
use crate::settings::ApiSettings;

/// What the handlers share.
struct Shared {
    live: Arc<Live>,
    registry: Registry,
    door: Door,
}

/// Opens the address, so that a failure is told before the crawl begins.
pub async fn listen(api: &ApiSettings) -> anyhow::Result<Option<TcpListener>> {
    let Some(address) = api.listen.0 else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on {address}; choose another address with --serve=IP:PORT")
    })?;
    Ok(Some(listener))
}

/// Serves until the task is ended.
pub fn start(
    listener: TcpListener,
    live: Arc<Live>,
    token: Option<&str>,
) -> anyhow::Result<(SocketAddr, tokio::task::JoinHandle<()>)> {
    let address = listener.local_addr()?;
    let mut registry = Registry::default();
    live.steering.ctx.events.register(&mut registry);
    let shared = Arc::new(Shared { live, registry, door: Door::new(token)? });
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), admit))
        .with_state(shared);
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "metrics server ended");
        }
    });
    Ok((address, task))
}

async fn admit(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(header::AUTHORIZATION);
    if !shared.door.admits(sent.map(|sent| sent.as_bytes())) {
        return (StatusCode::UNAUTHORIZED, format!("{KNOCK}\n")).into_response();
    }
    next.run(request).await
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shared.registry) {
        Ok(()) => {
            let (net, outputs) = (&shared.live.net, &shared.live.outputs);
            let texts = outputs.duplicates.as_ref().map(Duplicates::counts).unwrap_or_default();
            net_metrics::add(&mut text, &net.dns.stats(), &net.fetcher.stats(), &texts);
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    Json(shared.live.status().await).into_response()
}
