//! The HTTP side of `serve`: `/`, `/status.json`, `/metrics`, `/healthz`, `/readyz`. Reads what others reported; asks
//! no database, and nothing can be set off here.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::health::{Health, Readiness};
use super::metrics::{CONTENT_TYPE, Metrics};
use super::status::{self, Status};

/// Connections served at a time; further ones wait in the listener's queue. A scraper, the probes and a few
/// readers need no more.
const MAX_CONNECTIONS: usize = 32;

/// Most bytes buffered of a request's head; hyper accepts no less.
const MAX_HEAD_BYTES: usize = 8192;

const LIMITS: Limits = Limits { exchange: Duration::from_secs(10), after_shutdown: Duration::from_secs(1) };

/// Rest after a failed accept: file descriptors have run out, and asking at once again would spin.
const ACCEPT_REST: Duration = Duration::from_secs(1);

/// What every answer about the status has: it is true for a moment, and for whoever asked.
const PAGE_HEADERS: [(HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// How long peers may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// One exchange, from accepting to the last byte: a peer that stalls does not keep its place.
    exchange: Duration,
    /// The exchanges in flight, once shutdown is asked for.
    after_shutdown: Duration,
}

/// What the routes answer from.
#[derive(Clone, Debug)]
pub struct HttpState {
    /// Rendered at `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Told at `/healthz` and `/readyz`.
    pub health: Arc<Health>,
    /// Shown at `/` and `/status.json`.
    pub status: Arc<Status>,
}

/// No listening on the address asked for.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else listens there.
    #[error(
        "SESSION_RETENTION_HTTP_ADDR={addr}: the port is already taken; stop whoever listens there (`ss -ltnp` shows it), or set another"
    )]
    PortTaken {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// Anything else, such as an address of another machine or a port that needs rights.
    #[error(
        "SESSION_RETENTION_HTTP_ADDR={addr}: cannot listen there; 0.0.0.0 is every address of this machine, and ports below 1024 need rights"
    )]
    Refused {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// Listens on `addr`; port 0 takes a free one.
///
/// # Errors
/// [`BindError`], which names the setting.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(addr).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::PortTaken { addr },
        _ => BindError::Refused { addr, source },
    })
}

/// The routes. Methods other than GET and HEAD are answered 405, other paths 404.
pub fn router(state: HttpState) -> Router {
    Router::new()
        .route("/", get(status_page))
        .route("/status.json", get(status_json))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(state)
}

/// Serves until `shutdown`, then lets exchanges in flight finish for a second at most.
pub async fn serve(listener: TcpListener, state: HttpState, shutdown: CancellationToken) {
    serve_within(LIMITS, listener, state, shutdown).await;
}

async fn serve_within(limits: Limits, listener: TcpListener, state: HttpState, shutdown: CancellationToken) {
    let service = TowerToHyperService::new(router(state));
    let mut http = http1::Builder::new();
    // One request a connection: nothing idles, so the limits need no exceptions.
    http.keep_alive(false).max_buf_size(MAX_HEAD_BYTES);
    let mut exchanges = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = exchanges.join_next() => {}
            accepted = listener.accept(), if exchanges.len() < MAX_CONNECTIONS => {
                if let Ok((stream, _)) = accepted {
                    let exchange = http.serve_connection(TokioIo::new(stream), service.clone());
                    // A peer that goes away, talks nonsense or is too slow is its own affair.
                    exchanges.spawn(async move { drop(timeout(limits.exchange, exchange).await) });
                } else {
                    tokio::select! {
                        () = shutdown.cancelled() => break,
                        () = sleep(ACCEPT_REST) => {}
                    }
                }
            }
        }
    }
    drop(listener);
    let _ = timeout(limits.after_shutdown, exchanges.join_all()).await;
}

async fn status_page(State(state): State<HttpState>) -> impl IntoResponse {
    // A nonce of its own for each answer: nothing but our own style gets past the policy.
    let nonce = Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let body = status::page(&state.status.view(state.health.readiness()), &nonce);
    ([(header::CONTENT_SECURITY_POLICY, policy)], PAGE_HEADERS, Html(body))
}

async fn status_json(State(state): State<HttpState>) -> impl IntoResponse {
    let body = crate::render::json(&state.status.view(state.health.readiness()));
    ([(header::CONTENT_TYPE, "application/json")], PAGE_HEADERS, body)
}

async fn metrics(State(state): State<HttpState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], state.metrics.render())
}

async fn healthz(State(state): State<HttpState>) -> impl IntoResponse {
    if state.health.is_alive() {
        (StatusCode::OK, "alive\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the scheduler does not run\n")
    }
}

async fn readyz(State(state): State<HttpState>) -> impl IntoResponse {
    let readiness = state.health.readiness();
    let status = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{}\n", readiness.as_str()))
}

#[cfg(test)]
mod tests;
