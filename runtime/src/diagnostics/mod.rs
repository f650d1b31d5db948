//! Metrics over HTTP, as Cluster API's managers serve them: with TLS for authorized users, or without protection.

mod authorizer;
mod tls;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kube::Client;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::authorizer::Authorizer;
pub use self::tls::{CertificateError, Tls, TlsVersion};
use crate::server;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The path of metrics, which is also the path in RBAC rules (`nonResourceURLs`).
const METRICS: &str = "/metrics";

/// How diagnostics are protected.
pub enum Protection {
    /// Plain HTTP without authentication.
    None,
    /// TLS for clients with a token, if the API server allows the token's user to `get` the path.
    Secure(Client, Tls),
}

/// The state of the HTTP handlers.
#[derive(Clone)]
struct Served {
    registry: Arc<Registry>,
    authorizer: Option<Authorizer>,
}

/// Serves `/metrics` in the OpenMetrics text format until `stop`.
pub async fn serve(
    listener: TcpListener,
    registry: Arc<Registry>,
    protection: Protection,
    stop: CancellationToken,
) -> io::Result<()> {
    let (authorizer, tls) = match protection {
        Protection::None => (None, None),
        Protection::Secure(client, tls) => (Some(Authorizer::new(client)), Some(tls.acceptor())),
    };
    let served = Served { registry, authorizer };
    let router = Router::new().route(METRICS, get(metrics)).with_state(served);
    server::serve(listener, tls, router, stop).await
}

async fn metrics(State(served): State<Served>, headers: HeaderMap) -> Response {
    if let Some(authorizer) = &served.authorizer
        && let Err(denied) = authorizer.check(&headers, METRICS).await
    {
        return denied.into_response();
    }
    let mut text = String::new();
    match encode(&mut text, &served.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::testing::{FakeServer, http_get};

    fn registry() -> Arc<Registry> {
        let mut registry = Registry::default();
        Metrics::register("widgets", &mut registry).leading("lease").set(1);
        Arc::new(registry)
    }

    #[tokio::test]
    async fn a_scrape_shows_the_registry() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, registry(), Protection::None, stop.clone()));
        let (status, body) = http_get(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(body.contains("leader_election_master_status{name=\"lease\"} 1\n"), "{body}");
        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_user_without_permission_gets_no_metrics() {
        let authorizer = Some(Authorizer::new(FakeServer::default().client()));
        let served = Served { registry: registry(), authorizer };
        let denied = metrics(State(served), HeaderMap::new()).await;
        assert_eq!(denied.status(), StatusCode::UNAUTHORIZED);
    }
}
