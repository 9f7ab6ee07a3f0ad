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
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::Live;
use crate::settings::ApiSettings;

/// What the handlers share.
struct Shared {
    live: Arc<Live>,
    registry: Registry,
    token: Option<String>,
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
    token: Option<String>,
) -> std::io::Result<(SocketAddr, tokio::task::JoinHandle<()>)> {
    let address = listener.local_addr()?;
    let mut registry = Registry::default();
    live.steering.ctx.events.register(&mut registry);
    let shared = Arc::new(Shared { live, registry, token });
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
    if let Some(token) = &shared.token {
        let given = request.headers().get(header::AUTHORIZATION);
        let wanted = format!("Bearer {token}");
        if !given.is_some_and(|given| same(given.as_bytes(), wanted.as_bytes())) {
            return (StatusCode::UNAUTHORIZED, "send Authorization: Bearer TOKEN\n")
                .into_response();
        }
    }
    next.run(request).await
}

/// Compares in a time that tells nothing about where they differ.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given.iter().zip(wanted).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shared.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    Json(shared.live.status().await).into_response()
}
