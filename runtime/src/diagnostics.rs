//! Metrics over HTTP.

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::listen::{self, ListenError};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why diagnostics cannot be served.
#[derive(Debug, Error)]
pub enum DiagnosticsError {
    /// Plain HTTP on an address that others can reach.
    #[error(
        "--diagnostics-address {address} is reachable from other hosts, but metrics are served without TLS and authorization so far: \
         use a loopback address such as 127.0.0.1:8443, or leave --insecure-diagnostics away to serve none"
    )]
    NotLoopback {
        /// As given.
        address: String,
    },
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Listens for [`serve`]. `None` without `--insecure-diagnostics`: there is no secure way to serve them yet, so they are not served.
pub async fn bind(address: &str, insecure: bool) -> Result<Option<TcpListener>, DiagnosticsError> {
    if !insecure {
        return Ok(None);
    }
    if !listen::is_loopback(address)? {
        return Err(DiagnosticsError::NotLoopback {
            address: address.to_owned(),
        });
    }
    Ok(Some(listen::bind(address).await?))
}

/// Serves `/metrics` in the OpenMetrics text format until `stop`.
pub async fn serve(listener: TcpListener, registry: Arc<Registry>, stop: CancellationToken) -> io::Result<()> {
    let router = Router::new().route("/metrics", get(metrics)).with_state(registry);
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .into_future()
        .await
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::testing::http_get;

    #[tokio::test]
    async fn metrics_are_served_only_insecurely_and_on_loopback() {
        assert!(bind(":8443", false).await.unwrap().is_none());
        for reachable in [":8443", "0.0.0.0:8443", "[::]:8443", "10.0.0.1:8443"] {
            let error = bind(reachable, true).await.unwrap_err();
            assert!(
                matches!(error, DiagnosticsError::NotLoopback { .. }),
                "{reachable}: {error}"
            );
        }
        assert!(bind("127.0.0.1:0", true).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_scrape_shows_the_registry() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry).leading("lease").set(1);
        let listener = bind("127.0.0.1:0", true).await.unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, Arc::new(registry), stop.clone()));
        let (status, body) = http_get(address, "/metrics").await;
        assert_eq!(status, 200);
        assert!(
            body.contains("leader_election_master_status{name=\"lease\"} 1\n"),
            "{body}"
        );
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
