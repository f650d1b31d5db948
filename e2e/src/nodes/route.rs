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
        Self {
            cluster: self.cluster.clone(),
            up: self.up.clone(),
        }
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
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<C> Default for Routes<C> {
    fn default() -> Self {
        let inner = Inner {
            clusters: HashMap::new(),
            nodes: HashMap::new(),
            backends: HashMap::new(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
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
        let backend = Backend {
            cluster,
            up: CancellationToken::new(),
        };
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

    fn with<T>(&self, work: impl FnOnce(&mut Inner<C>) -> T) -> T {
        work(&mut self.inner.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "api.example:6443";

    /// A cluster with this name and one node, `i-1`.
    fn routes(name: &str) -> (Routes<String>, Arc<String>) {
        let (routes, cluster) = (Routes::default(), Arc::new(name.to_owned()));
        routes.add_cluster(ENDPOINT, cluster.clone());
        routes.join("i-1", cluster.clone());
        routes.up("i-1", cluster.clone());
        (routes, cluster)
    }

    fn refusal(routes: &Routes<String>, healthy: Option<&[String]>) -> String {
        routes.to(ENDPOINT, healthy).err().unwrap().to_string()
    }

    #[test]
    fn a_load_balancer_leads_to_its_healthy_targets_alone() {
        let (routes, _) = routes("dev");
        let backend = routes.to(ENDPOINT, Some(&["i-1".into()])).unwrap();
        assert_eq!(*backend.cluster, "dev");
        assert!(refusal(&routes, Some(&[])).contains("no healthy target"));
        assert!(refusal(&routes, Some(&["i-2".into()])).contains("control plane node"));
    }

    #[test]
    fn a_name_of_no_load_balancer_leads_to_any_answering_node() {
        let (routes, _) = routes("dev");
        let backend = routes.to(ENDPOINT, None).unwrap();
        assert!(routes.to("other.example:6443", None).is_err());
        routes.down("i-1");
        assert!(backend.up.is_cancelled(), "its connections end");
        assert!(refusal(&routes, None).contains("no node"));
    }

    #[test]
    fn a_cluster_lives_on_with_a_node_that_has_stopped() {
        let (routes, cluster) = routes("dev");
        routes.join("i-2", cluster.clone());
        routes.down("i-2");
        assert!(routes.leave("i-1", &cluster), "i-2 may start again");
        assert!(!routes.leave("i-2", &cluster));
    }

    #[test]
    fn a_cluster_is_not_forgotten_with_the_one_that_it_replaced() {
        let (routes, old) = routes("old");
        let new = Arc::new("new".to_owned());
        routes.add_cluster(ENDPOINT, new.clone());
        routes.up("i-9", new);
        routes.remove_cluster(ENDPOINT, &old);
        assert_eq!(*routes.to(ENDPOINT, None).unwrap().cluster, "new");
    }
}
