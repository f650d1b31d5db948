//! Controller plumbing on kube-runtime: caches, the reconcile loop, the status writer, leader election, health,
//! metrics, logs, shutdown.
//!
//! No module of this crate depends on AWS. A manager consists of these parts:
//!
//! 1. [`version::ensure_supported`], [`definitions::ensure_of_this_release`], [`logging::init`],
//!    [`shutdown::on_signals`];
//! 2. a [`Runtime`], and in it [`tasks::Tasks`] for the health server and one [`cache::ObjectCache`] per kind (these
//!    also run on standbys);
//! 3. under [`lease::LeaderElection::lead`], a second [`tasks::Tasks`] with one [`controller::Controller`] per kind,
//!    and [`malformed::MalformedObjects::publish_events`].
//!
//! The process exits when any of these parts ends unexpectedly.

pub mod admission;
pub mod backoff;
pub mod cache;
mod changes;
mod condition_log;
pub mod controller;
pub mod definitions;
pub mod diagnostics;
pub mod discovery;
pub mod errors;
pub mod events;
pub mod guarded;
pub mod health;
pub mod index;
pub mod kinds;
pub mod lease;
pub mod listen;
pub mod logging;
pub mod malformed;
pub mod metrics;
pub mod predicate;
pub mod process_metrics;
pub mod proxy;
pub mod reconcile;
pub mod remote;
pub mod repeated_failure;
pub mod scope;
mod server;
pub mod shutdown;
pub mod status;
pub mod tally;
pub mod tasks;
#[cfg(test)]
mod testing;
pub mod version;
pub mod writes;

use kube::Client;
use prometheus_client::registry::Registry;

/// The state that the caches and controllers of one manager share. Clones share the state.
#[derive(Clone)]
pub struct Runtime {
    /// Client of the management cluster.
    pub client: Client,
    /// The gates that must open before the manager is ready and before a controller starts.
    pub readiness: health::Readiness,
    /// Metrics of caches, controllers and leader election.
    pub metrics: metrics::Metrics,
    /// The writes that the caches have not shown yet. Reconcilers report their writes here.
    pub writes: writes::WriteTracker,
    /// Publishes Kubernetes Events.
    pub events: events::Events,
    /// The objects that caches skip because they cannot be read.
    pub malformed: malformed::MalformedObjects,
}

impl Runtime {
    /// A runtime whose metrics are registered in `registry`. Metrics that controller-runtime does not have get the
    /// prefix `metric_prefix`. `controller` is the reporter of Events.
    pub fn new(client: Client, controller: &str, metric_prefix: &str, registry: &mut Registry) -> Self {
        Self {
            readiness: health::Readiness::default(),
            metrics: metrics::Metrics::register(metric_prefix, registry),
            writes: writes::WriteTracker::default(),
            events: events::Events::new(client.clone(), controller),
            malformed: malformed::MalformedObjects::default(),
            client,
        }
    }
}
