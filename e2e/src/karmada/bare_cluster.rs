//! An API server without machines: enough of a cluster to be a member of a Karmada, or to be one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;

use crate::api_server::{ApiServer, Shape};
use crate::directory::Directory;
use crate::environment::TestEnvironment;
use crate::pki::Pki;
use crate::supervised::Supervised;

/// Controllers that turn Deployments into pods.
const WORKLOADS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

/// Nobody makes the ServiceAccounts of namespaces, which pods would want.
pub(super) const WITHOUT_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

/// The only node of a cluster.
pub(super) const NODE: &str = "node-1";

/// A running API server, its etcd and its controllers. They end when the value is dropped.
pub struct BareCluster {
    server: ApiServer,
    programs: Mutex<Vec<Supervised>>,
    // The folder is removed after the programs have ended.
    _directory: Directory,
}

impl BareCluster {
    /// Starts a cluster for a test. Deployments in it become pods, which a [`super::PodRunner`] may run.
    pub async fn start(environment: &Arc<TestEnvironment>, name: &str) -> anyhow::Result<Self> {
        Self::start_as(environment, name, |_| vec![WITHOUT_ACCOUNTS.to_owned()], &WORKLOADS).await
    }

    pub(super) async fn start_as(
        environment: &Arc<TestEnvironment>,
        name: &str,
        arguments: fn(&Pki) -> Vec<String>,
        controllers: &[&str],
    ) -> anyhow::Result<Self> {
        let directory = Directory::new()?;
        let shape = Shape { arguments, controllers, prefix: &format!("{name}-") };
        let started = ApiServer::start_as(&directory, environment.logs(), &shape).await;
        let (server, programs) = started.with_context(|| format!("start the API server {name}"))?;
        let programs = programs.into_iter().map(|program| environment.adopt(program)).collect();
        Ok(Self { server, programs: Mutex::new(programs), _directory: directory })
    }

    pub(super) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// A client with all permissions.
    pub async fn client(&self) -> anyhow::Result<Client> {
        self.server.admin().await
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.server.admin_kubeconfig)?)
    }

    /// Ends all programs of the cluster at once, as if its machines were gone.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let programs = std::mem::take(&mut *self.programs.lock());
        for program in programs {
            program.kill().await?;
        }
        Ok(())
    }

    /// Adds the node, with room for pods.
    pub async fn add_node(&self, cpu: &str, memory: &str) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let node: Node = serde_json::from_value(json!({"metadata": {"name": NODE}}))?;
        nodes.create(&PostParams::default(), &node).await?;
        let room = json!({"cpu": cpu, "memory": memory, "pods": "110"});
        let now = jiff::Timestamp::now().to_string();
        let status = json!({"status": {"allocatable": room, "capacity": room, "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]}});
        let parameters = PatchParams::default();
        nodes.patch_status(NODE, &parameters, &Patch::Merge(&status)).await?;
        Ok(())
    }
}

/// How long the programs of a story of Karmada may take with one step.
pub const STEP_WITHIN: Duration = Duration::from_mins(3);
