//! The state that all simulated computers share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Options;
use super::cluster::Cluster;
use super::computers::Computers;
use super::route::{Backend, Routes};
use crate::directory::Directory;

/// The state that all computers share.
#[derive(Clone)]
pub(super) struct NodeSimulator {
    pub(super) options: Options,
    pub(super) directory: Arc<Directory>,
    pub(super) computers: Computers,
    pub(super) routes: Routes<Cluster>,
    /// The clusters that computers have started, by instance id: a retry of a computer does not start its cluster
    /// again.
    started: Arc<Mutex<HashMap<String, Weak<Cluster>>>>,
}

impl NodeSimulator {
    pub(super) fn new(options: Options) -> anyhow::Result<Self> {
        Ok(Self {
            directory: Arc::new(Directory::new()?),
            computers: Computers::new(&options.aws),
            routes: Routes::default(),
            started: Arc::default(),
            options,
        })
    }

    /// The node for a connection to this endpoint, `host:port`.
    pub(super) async fn route(&self, endpoint: &str) -> anyhow::Result<Backend<Cluster>> {
        let targets = self.computers.healthy_targets(endpoint).await?;
        self.routes.to(endpoint, targets.as_deref())
    }

    pub(super) fn started(&self, instance_id: &str) -> Option<Arc<Cluster>> {
        let started = self.started.lock();
        started.get(instance_id)?.upgrade()
    }

    pub(super) fn has_started(&self, instance_id: &str, cluster: &Arc<Cluster>) {
        let mut started = self.started.lock();
        started.insert(instance_id.to_owned(), Arc::downgrade(cluster));
    }
}
