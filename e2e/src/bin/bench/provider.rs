//! The providers that are measured: this one, and CAPA beside it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use capa_e2e::user::Network;
use capa_e2e::{LocalWorld, Memory, TestEnvironment, fixtures};
use serde::Serialize;
use serde_json::json;

/// A provider that is measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Provider {
    /// This provider, with the program of its manager.
    Here(PathBuf),
    /// CAPA, as `make capa` builds it.
    Capa,
}

impl Provider {
    /// Whether this provider is the one of this repository.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// The name in lines about the progress and in heads of columns.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Here(_) => "here",
            Self::Capa => "CAPA",
        }
    }

    /// The ServiceAccount of the manager.
    pub(crate) fn service_account(&self) -> &'static str {
        match self {
            Self::Here(_) => "capa-rs-system:capa-controller-manager",
            Self::Capa => "capa-system:capa-controller-manager",
        }
    }

    /// An AWSCluster on the user's network. CAPA has no unmanaged AWSCluster: it builds an internal load balancer and
    /// security groups in the VPC of the user.
    pub(crate) fn aws_cluster(&self, name: &str, region: &str, network: &Network) -> String {
        match self {
            Self::Here(_) => fixtures::unmanaged_cluster(name, region, network, ""),
            Self::Capa => {
                let subnets = network.private_subnet_ids().into_iter().map(|id| json!({"id": id}));
                let load_balancer =
                    json!({"loadBalancerType": "nlb", "scheme": "internal", "dnsResolutionCheck": "None"});
                let network = json!({"vpc": {"id": network.vpc_id}, "subnets": subnets.collect::<Vec<_>>()});
                // Without the field, CAPA names the key pair `default`.
                let spec = json!({
                    "region": region,
                    "network": network,
                    "controlPlaneLoadBalancer": load_balancer,
                    "sshKeyName": "",
                });
                let version = "infrastructure.cluster.x-k8s.io/v1beta2";
                json!({"apiVersion": version, "kind": "AWSCluster", "metadata": {"name": name}, "spec": spec})
                    .to_string()
            }
        }
    }

    /// Installs the provider, and starts its manager as a release runs it.
    pub(crate) async fn install(&self, world: &LocalWorld, environment: &TestEnvironment) -> anyhow::Result<()> {
        match self {
            Self::Here(program) => {
                world.install_provider().await?;
                start(program, environment).await
            }
            Self::Capa => world.start_capa(environment.aws()).await,
        }
    }

    /// Ends the manager, as Kubernetes does. CAPA's manager runs until [`start_another`](Self::start_another) kills it.
    pub(crate) async fn stop(&self, environment: &TestEnvironment) -> anyhow::Result<()> {
        match self {
            Self::Here(_) => environment.manager()?.stop().await,
            Self::Capa => Ok(()),
        }
    }

    /// Starts another manager in the place of the first one.
    pub(crate) async fn start_another(&self, world: &LocalWorld, environment: &TestEnvironment) -> anyhow::Result<()> {
        match self {
            Self::Here(program) => start(program, environment).await,
            Self::Capa => world.restart_capa().await,
        }
    }

    /// The memory of the manager.
    pub(crate) fn memory(&self, world: &LocalWorld, environment: &TestEnvironment) -> anyhow::Result<Memory> {
        match self {
            Self::Here(_) => environment.manager()?.memory(),
            Self::Capa => world.capa_memory(),
        }
    }

    /// The CPU time of the manager.
    pub(crate) fn cpu_time(&self, world: &LocalWorld, environment: &TestEnvironment) -> anyhow::Result<Duration> {
        match self {
            Self::Here(_) => environment.manager()?.cpu_time(),
            Self::Capa => world.capa_cpu_time(),
        }
    }
}

/// Starts this provider's manager as a release runs it, except for its namespace, its addresses and its log.
async fn start(program: &Path, environment: &TestEnvironment) -> anyhow::Result<()> {
    let manager = environment.new_manager().program(program.to_owned());
    manager.flag("-v=0").start().await?;
    Ok(())
}
