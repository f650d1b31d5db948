//! Where traffic to an endpoint ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

/// A control plane node that answers, as load balancers see it.
#[derive(Clone)]
pub(super) struct Backend {
    pub(super) cluster: Arc<Cluster>,
    /// Ends when the node does not answer any more, and with it every connection to it.
    pub(super) up: CancellationToken,
}

/// All clusters, and their control plane nodes by instance id.
#[derive(Clone, Default)]
pub(super) struct Routes {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    /// By endpoint, `host:port`.
    clusters: HashMap<String, Arc<Cluster>>,
    backends: HashMap<String, Backend>,
}

impl Routes {
    /// A cluster that has just started; one that was at its endpoint before is no more.
    pub(super) fn add_cluster(&self, cluster: Arc<Cluster>) {
        let endpoint = cluster.endpoint.clone();
        self.with(|inner| inner.clusters.insert(endpoint, cluster));
    }

    /// Forgets a cluster, unless another has taken its place.
    pub(super) fn remove_cluster(&self, cluster: &Arc<Cluster>) {
        self.with(|inner| {
            let same = |known: &Arc<Cluster>| Arc::ptr_eq(known, cluster);
            if inner.clusters.get(&cluster.endpoint).is_some_and(same) {
                inner.clusters.remove(&cluster.endpoint);
            }
        });
    }

    /// An instance on which the API server of a cluster answers from now on.
    pub(super) fn up(&self, instance_id: &str, cluster: Arc<Cluster>) {
        let backend = Backend {
            cluster,
            up: CancellationToken::new(),
        };
        self.with(|inner| inner.backends.insert(instance_id.to_owned(), backend));
    }

    /// An instance on which it answers no more: its connections end.
    pub(super) fn down(&self, instance_id: &str) {
        if let Some(backend) = self.with(|inner| inner.backends.remove(instance_id)) {
            backend.up.cancel();
        }
    }

    /// Whether any control plane node of a cluster answers.
    pub(super) fn is_served(&self, cluster: &Arc<Cluster>) -> bool {
        self.with(|inner| {
            let mut backends = inner.backends.values();
            backends.any(|backend| Arc::ptr_eq(&backend.cluster, cluster))
        })
    }

    /// Where a connection to an endpoint goes: to one of the healthy targets of the load balancer, or, where the name is
    /// none's, to any node of the cluster that calls it its endpoint, as DNS or a virtual address would have it.
    pub(super) fn to(&self, endpoint: &str, healthy: Option<&[String]>) -> anyhow::Result<Backend> {
        self.with(|inner| {
            if let Some(targets) = healthy {
                ensure!(
                    !targets.is_empty(),
                    "the load balancer {endpoint} has no healthy target"
                );
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

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
