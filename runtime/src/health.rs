//! Liveness and readiness over HTTP.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::server;

/// The gates that have to open before the manager is ready. Clones share the gates.
///
/// A standby that waits for the Lease is ready like the leader, because its caches are filled.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    gates: Arc<watch::Sender<BTreeMap<String, bool>>>,
}

impl Readiness {
    /// Adds a closed gate. `/readyz` shows its name while it is closed.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        let name = name.into();
        self.gates.send_modify(|gates| {
            gates.insert(name.clone(), false);
        });
        Gate { name, readiness: self.clone() }
    }

    /// Waits until every gate is open.
    pub async fn all_open(&self) {
        let mut gates = self.gates.subscribe();
        // The wait fails only if the sender is dropped, and `self` holds the sender.
        let _ = gates.wait_for(|gates| gates.values().all(|open| *open)).await;
    }

    fn closed(&self) -> Vec<String> {
        let gates = self.gates.borrow();
        gates.iter().filter(|(_, open)| !**open).map(|(name, _)| name.clone()).collect()
    }
}

/// One condition of readiness, closed until it is met.
#[derive(Debug)]
pub struct Gate {
    name: String,
    readiness: Readiness,
}

impl Gate {
    /// Opens the gate permanently.
    pub fn open(&self) {
        self.readiness.gates.send_if_modified(|gates| gates.insert(self.name.clone(), true) != Some(true));
    }
}

/// Serves `/healthz` and `/readyz` until `stop`. All gates must have been added: without any, the process is ready.
pub async fn serve(listener: TcpListener, readiness: Readiness, stop: CancellationToken) -> io::Result<()> {
    let router =
        Router::new().route("/healthz", get(async || "ok")).route("/readyz", get(readyz)).with_state(readiness);
    server::serve(listener, None, router, stop).await
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let closed = readiness.closed();
    if closed.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}", closed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::http_get;

    #[tokio::test]
    async fn readyz_turns_ready_only_when_every_gate_is_open() {
        let readiness = Readiness::default();
        let (clusters, machines) = (readiness.gate("cache of Cluster"), readiness.gate("cache of Machine"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, readiness.clone(), stop.clone()));
        assert_eq!(http_get(address, "/healthz").await, (200, "ok".into()), "alive before it is ready");
        clusters.open();
        assert_eq!(http_get(address, "/readyz").await, (503, "waiting for cache of Machine".into()));
        machines.open();
        readiness.all_open().await;
        assert_eq!(http_get(address, "/readyz").await, (200, "ok".into()));
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
