//! The routing of connections to endpoints.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// A control plane node that answers, from the point of view of load balancers.
pub(super) struct Backend<C> {
    pub(super) cluster: Arc<C>,
    /// Cancelled when the node stops answering, which closes every connection to it.
    pub(super) up: CancellationToken,
}

impl<C> Clone for Backend<C> {
    fn clone(&self) -> Self {
        Self { cluster: self.cluster.clone(), up: self.up.clone() }
    }
}

/// All clusters, and their control plane nodes by instance id.
pub(super) struct Routes<C> {
    inner: Arc<Mutex<Inner<C>>>,
}

struct Inner<C> {
    /// By endpoint, `host:port`.
    clusters: HashMap<String, Arc<C>>,
    /// Every control plane node, whether or not it answers.
    nodes: HashMap<String, Arc<C>>,
    backends: HashMap<String, Backend<C>>,
}

impl<C> Clone for Routes<C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<C> Default for Routes<C> {
    fn default() -> Self {
        let inner = Inner { clusters: HashMap::new(), nodes: HashMap::new(), backends: HashMap::new() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }
}

impl<C> Routes<C> {
    /// Adds a cluster that has just started. It replaces an earlier cluster with the same endpoint.
    pub(super) fn add_cluster(&self, endpoint: &str, cluster: Arc<C>) {
        self.with(|inner| inner.clusters.insert(endpoint.to_owned(), cluster));
    }

    /// Removes a cluster, unless another one has replaced it.
    pub(super) fn remove_cluster(&self, endpoint: &str, cluster: &Arc<C>) {
        self.with(|inner| {
            let known = inner.clusters.get(endpoint);
            if known.is_some_and(|known| Arc::ptr_eq(known, cluster)) {
                inner.clusters.remove(endpoint);
            }
        });
    }

    /// Adds an instance as a control plane node, until it [leaves](Self::leave).
    pub(super) fn join(&self, instance_id: &str, cluster: Arc<C>) {
        self.with(|inner| inner.nodes.insert(instance_id.to_owned(), cluster));
    }

    /// Removes an instance from the control plane nodes. Returns whether its cluster has any other control plane node,
    /// running or stopped.
    pub(super) fn leave(&self, instance_id: &str, cluster: &Arc<C>) -> bool {
        self.with(|inner| {
            inner.nodes.remove(instance_id);
            inner.nodes.values().any(|other| Arc::ptr_eq(other, cluster))
        })
    }

    /// Records that the API server on an instance answers.
    pub(super) fn up(&self, instance_id: &str, cluster: Arc<C>) {
        let backend = Backend { cluster, up: CancellationToken::new() };
        self.with(|inner| inner.backends.insert(instance_id.to_owned(), backend));
    }

    /// Records that the API server on an instance no longer answers: its connections are closed.
    pub(super) fn down(&self, instance_id: &str) {
        if let Some(backend) = self.with(|inner| inner.backends.remove(instance_id)) {
            backend.up.cancel();
        }
    }

    /// The node for a connection to an endpoint: one of the healthy targets of the load balancer or, where no load
    /// balancer has the name, any node of the cluster with this endpoint, as with DNS or a virtual address.
    pub(super) fn to(&self, endpoint: &str, healthy: Option<&[String]>) -> anyhow::Result<Backend<C>> {
        self.with(|inner| {
            if let Some(targets) = healthy {
                ensure!(!targets.is_empty(), "the load balancer {endpoint} has no healthy target");
                let found = targets.iter().find_map(|target| inner.backends.get(target));
                return found.cloned().context("no healthy target is a control plane node");
            }
            let Some(cluster) = inner.clusters.get(endpoint) else {
                bail!("nothing answers at {endpoint}");
            };
            let mut backends = inner.backends.values();
            let found = backends.find(|backend| Arc::ptr_eq(&backend.cluster, cluster));
            found.cloned().with_context(|| format!("no node of {endpoint} answers"))
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner<C>) -> T) -> T {
        work(&mut self.inner.lock())
    }
}
