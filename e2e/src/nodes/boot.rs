//! The boot of a computer: it reads its user data and performs the steps of kubeadm.

use std::sync::Arc;

use anyhow::{Context, ensure};

use super::boot_hook;
use super::cluster::Cluster;
use super::configuration::Configuration;
use super::ignition;
use super::objects::{self, NodeFacts};
use super::sources;
use super::state::NodeSimulator;
use super::user_data::{self, Bootstrap, Init, Join, NodeRegistration};
use crate::aws_proxy::computers::Computer;

/// A computer that is a node.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) account: String,
    pub(super) instance_id: String,
    pub(super) facts: NodeFacts,
    pub(super) cluster: Arc<Cluster>,
}

/// Boots a computer up to a node that its cluster does not show yet. Returns `None` where the user data does not create
/// a node, or a boot hook in it fails. An error is one that kubeadm would also meet and retry.
pub(super) async fn boot(simulator: &NodeSimulator, computer: &Computer) -> anyhow::Result<Option<Node>> {
    let Some(configuration) = boot_hook::configuration(simulator, computer).await? else {
        return Ok(None);
    };
    let fetched = ignition::fetched(&configuration, async |url, transport| {
        sources::fetch(simulator, computer, url, transport).await
    })
    .await;
    let fetched = match fetched {
        Ok(fetched) => fetched,
        Err(error) => {
            let instance = &computer.instance_id;
            tracing::warn!(instance, "does not boot: {error:#}");
            return Ok(None);
        }
    };
    match user_data::read(configuration, &fetched, &computer.host_name)? {
        None => Ok(None),
        Some(Bootstrap::Init(init)) => init_control_plane(simulator, computer, &init).await.map(Some),
        Some(Bootstrap::Join(join)) => join_cluster(simulator, computer, &join).await.map(Some),
    }
}

async fn init_control_plane(simulator: &NodeSimulator, computer: &Computer, init: &Init) -> anyhow::Result<Node> {
    let id = &computer.instance_id;
    let cluster = if let Some(cluster) = simulator.started(id) {
        cluster
    } else {
        let cluster = Arc::new(Cluster::start(&simulator.directory, &simulator.options, id, init).await?);
        simulator.routes.add_cluster(&cluster.endpoint, cluster.clone());
        simulator.has_started(id, &cluster);
        cluster
    };
    Ok(Node::new(computer, cluster, &init.registration, init.configuration.clone(), true))
}

async fn join_cluster(simulator: &NodeSimulator, computer: &Computer, join: &Join) -> anyhow::Result<Node> {
    let cluster = simulator.route(&join.endpoint).await?.cluster;
    ensure!(
        join.authority_hashes.contains(&cluster.authority_hash),
        "the cluster at {} shows another certificate authority than the node believes",
        join.endpoint
    );
    cluster.accepts(&join.token).await?;
    if join.control_plane {
        ensure!(join.pki.contains_key("ca.key"), "a control plane node needs the cluster's keys");
    }
    let configuration = Configuration::stored(&cluster.admin).await?;
    Ok(Node::new(computer, cluster, &join.registration, configuration, join.control_plane))
}

impl Node {
    fn new(
        computer: &Computer,
        cluster: Arc<Cluster>,
        registration: &NodeRegistration,
        configuration: Configuration,
        control_plane: bool,
    ) -> Self {
        let given = registration.provider_id.clone();
        // The provider id that a cloud controller assigns to nodes whose kubelet runs with an external cloud provider.
        let cloud_controllers = || {
            let id = format!("aws:///{}/{}", computer.zone, computer.instance_id);
            registration.external_cloud_provider.then_some(id)
        };
        let etcd = cluster.etcd.as_ref().filter(|_| control_plane);
        let facts = NodeFacts {
            name: registration.name.clone().unwrap_or_else(|| computer.host_name.clone()),
            provider_id: given.or_else(cloud_controllers),
            zone: computer.zone.clone(),
            kubelet_version: match &computer.kubernetes_version {
                Some(installed) => installed.clone(),
                None => configuration.kubernetes_version.clone(),
            },
            control_plane,
            registration: registration.clone(),
            configuration,
            kubelet_port: etcd.map(|etcd| etcd.kubelet_port),
        };
        Self { account: computer.account.clone(), instance_id: computer.instance_id.clone(), facts, cluster }
    }

    /// Starts the components of the node, and shows the Node in the cluster's API.
    pub(super) async fn run(&self, simulator: &NodeSimulator) -> anyhow::Result<()> {
        let name = &self.facts.name;
        if self.facts.control_plane {
            simulator.routes.join(&self.instance_id, self.cluster.clone());
            if let Some(etcd) = &self.cluster.etcd {
                // The etcd member starts before the Node appears: otherwise the Node would be without etcd for a
                // moment.
                etcd.set(name, true).await?;
            }
            simulator.routes.up(&self.instance_id, self.cluster.clone());
            self.report(simulator, true).await?;
        }
        objects::register(&self.cluster.admin, &self.facts).await
    }

    /// Stops the components of the node after the stop of its instance: the kubelet no longer reports its status.
    pub(super) async fn stop(&self, simulator: &NodeSimulator) -> anyhow::Result<()> {
        self.go_down(simulator).await?;
        objects::heard_of(&self.cluster.admin, &self.facts.name, false).await
    }

    /// Removes the node after the termination of its instance. The last node of a control plane ends its cluster too.
    pub(super) async fn vanish(&self, simulator: &NodeSimulator) -> anyhow::Result<()> {
        self.go_down(simulator).await?;
        let (id, cluster) = (&self.instance_id, &self.cluster);
        if self.facts.control_plane && !simulator.routes.leave(id, cluster) {
            simulator.routes.remove_cluster(&cluster.endpoint, cluster);
            return cluster.stop().await.context("stop the cluster");
        }
        objects::remove(&self.cluster.admin, &self.facts).await
    }

    async fn go_down(&self, simulator: &NodeSimulator) -> anyhow::Result<()> {
        if !self.facts.control_plane {
            return Ok(());
        }
        simulator.routes.down(&self.instance_id);
        self.report(simulator, false).await?;
        match &self.cluster.etcd {
            Some(etcd) => etcd.set(&self.facts.name, false).await,
            None => Ok(()),
        }
    }

    async fn report(&self, simulator: &NodeSimulator, serving: bool) -> anyhow::Result<()> {
        simulator.computers.report(&self.account, &self.instance_id, serving).await
    }
}
