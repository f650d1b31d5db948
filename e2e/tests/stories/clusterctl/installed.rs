//! A management cluster that clusterctl has installed, and a cluster that it has generated there.

use std::sync::Arc;

use anyhow::Context;
use capa_e2e::clusterctl::{Clusterctl, ManagementCluster};
use capa_e2e::user::LoadBalancer;
use capa_e2e::{Flavor, Story, TestEnvironment, block_on, moto, objects};
use serde_json::{Value, json};

use crate::stories::scenario::{EVERY_NAMESPACE, FASTER, REGION, Scenario};

/// The name of every cluster of these stories.
pub(super) const NAME: &str = "dev";
/// The interval at which the manager reads objects that it does not watch.
const SYNC_PERIOD: &str = "--sync-period=10s";
/// The deregistration delay of the cluster's load balancer in seconds.
pub(crate) const DRAINING_SECONDS: u32 = 1;
/// The cluster's Kubernetes version.
pub(super) const VERSION: &str = "v1.36.3";

/// A management cluster of a story, with our manager running.
pub(super) struct Installed {
    pub(super) cluster: Arc<ManagementCluster>,
    pub(super) scenario: Scenario,
}

/// Runs a story in a management cluster after `clusterctl init`. The management cluster ends with the story.
pub(crate) fn in_management_cluster(
    name: &str,
    body: impl AsyncFnOnce(&Arc<ManagementCluster>, &Arc<TestEnvironment>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    block_on(async {
        let cluster = Arc::new(ManagementCluster::start().await?);
        cluster.init().await?;
        let story = Story::new(name).in_world(cluster.world());
        story.run_async(async |environment| body(&cluster, environment).await).await?;
        cluster.world().stop().await
    })
}

/// Runs a story in a management cluster in which instances become nodes and this provider's manager runs.
pub(super) fn installed(name: &str, body: impl AsyncFnOnce(&Installed) -> anyhow::Result<()>) -> anyhow::Result<()> {
    in_management_cluster(name, async |cluster, environment| {
        cluster.world().start_nodes()?;
        let scenario = Scenario::new(environment.clone(), name).await?;
        scenario.user.create_instance_profiles().await?;
        scenario.aws().set_nodes_report(true);
        scenario.new_manager().flag(EVERY_NAMESPACE).flag(FASTER).flag(SYNC_PERIOD).start().await?;
        let cluster = cluster.clone();
        body(&Installed { cluster, scenario }).await
    })
}

impl Installed {
    /// Starts a second management cluster with the same AWS and the same, empty namespace. The second one must end
    /// first.
    pub(super) async fn beside(&self) -> anyhow::Result<Self> {
        let cluster = Arc::new(self.cluster.beside().await?);
        cluster.init().await?;
        let environment = self.scenario.environment.in_other_world(cluster.world()).await?;
        let beside = Self { cluster, scenario: self.scenario.with(environment) };
        beside.start_manager().await?;
        Ok(beside)
    }

    /// Starts the manager with shortened periods.
    pub(super) async fn start_manager(&self) -> anyhow::Result<()> {
        self.scenario.new_manager().flag(EVERY_NAMESPACE).flag(FASTER).start().await.map(drop)
    }

    /// Stops the manager and the management cluster.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.scenario.environment.finish().await?;
        self.cluster.world().stop().await
    }

    /// clusterctl with the variables that the templates need for the network of the story.
    pub(super) fn clusterctl(&self) -> anyhow::Result<Clusterctl> {
        let Scenario { environment, network, .. } = &self.scenario;
        let subnets = network.private_subnet_ids();
        let [first, second, third] = subnets.as_slice() else {
            anyhow::bail!("{} zones", subnets.len());
        };
        let host = format!("{NAME}.{}.example", environment.namespace());
        let clusterctl = self.cluster.clusterctl().clone();
        Ok(clusterctl
            .variable("KUBERNETES_VERSION", VERSION)
            .variable("AWS_REGION", REGION)
            .variable("AWS_VPC_ID", &network.vpc_id)
            .variable("AWS_SUBNET_ID_A", first)
            .variable("AWS_SUBNET_ID_B", second)
            .variable("AWS_SUBNET_ID_C", third)
            .variable("AWS_NODE_SECURITY_GROUP_ID", &network.node_security_group_id)
            .variable("AWS_CONTROL_PLANE_SECURITY_GROUP_ID", &network.control_plane_security_group_id)
            .variable("AWS_AMI_ID", moto::IMAGE_ID)
            .variable("CONTROL_PLANE_ENDPOINT_HOST", &host))
    }

    /// The output of `clusterctl generate cluster` for one control plane machine behind a load balancer of the user's
    /// and one worker, of a flavor or else of `unmanaged`.
    pub(super) async fn generated(
        &self,
        load_balancer: &LoadBalancer,
        flavor: Option<Flavor>,
    ) -> anyhow::Result<String> {
        let mut clusterctl = self
            .clusterctl()?
            .variable("AWS_CONTROL_PLANE_TARGET_GROUP_ARN", &load_balancer.target_group_arn)
            .variable("CONTROL_PLANE_ENDPOINT_HOST", &load_balancer.dns_name);
        for (name, value) in flavor.into_iter().flat_map(Flavor::variables) {
            clusterctl = clusterctl.variable(name, value);
        }
        let arguments = [
            "generate",
            "cluster",
            NAME,
            "--infrastructure=aws-rs",
            "--worker-machine-count=1",
            "--target-namespace",
            self.scenario.namespace(),
            "--flavor",
            flavor.map_or("unmanaged", Flavor::name),
        ];
        clusterctl.run(&arguments).await
    }

    /// A load balancer of the user's for the API server of the cluster.
    pub(super) async fn load_balancer(&self) -> anyhow::Result<LoadBalancer> {
        let Scenario { user, network, .. } = &self.scenario;
        let load_balancer = user.create_network_load_balancer(network, NAME).await?;
        let group = &load_balancer.target_group_arn;
        user.set_deregistration_delay(group, DRAINING_SECONDS).await?;
        Ok(load_balancer)
    }

    /// Applies a cluster of one control plane machine and one worker with an identity.
    pub(super) async fn apply_cluster(&self, identity: Value) -> anyhow::Result<()> {
        let generated = self.generated(&self.load_balancer().await?, None).await?;
        for mut object in objects::parse(&generated)? {
            if object.types.as_ref().is_some_and(|types| types.kind == "AWSCluster") {
                object.data["spec"]["identityRef"] = identity.clone();
            }
            let object = serde_json::to_string(&json!(object)).context("write what was generated")?;
            self.scenario.apply(&object).await?;
        }
        Ok(())
    }

    /// Runs clusterctl for this management cluster.
    pub(super) async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.cluster.clusterctl().run(arguments).await
    }
}
