//! What most stories start from: a network that the user brought, an identity for its account, and a cluster on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use capa_e2e::user::{Network, NetworkPlan, User};
use capa_e2e::{Manager, TestEnvironment, World, eventually, fixtures, moto, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

/// Region of every story.
pub(crate) const REGION: &str = "eu-west-1";
/// API version of Cluster API's kinds.
pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
/// API version of our kinds.
pub(crate) const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// Deadline of a wait on a machine with two cores that have other work as well.
pub(crate) const WITHIN: Duration = Duration::from_mins(4);
/// Real servers, shorter waits: every period and age of AWS access is divided by this.
pub(crate) const FASTER: &str = "--timing-divisor=20";

/// A story under way.
pub(crate) struct Scenario {
    pub(crate) environment: TestEnvironment,
    pub(crate) user: User,
    pub(crate) network: Network,
}

impl Scenario {
    /// A namespace and account with a network of three zones.
    pub(crate) async fn new(name: &str) -> anyhow::Result<Self> {
        Self::in_world(&World::shared().await?, name).await
    }

    /// The same in another world than the one that all tests share.
    pub(crate) async fn in_world(world: &Arc<World>, name: &str) -> anyhow::Result<Self> {
        Self::in_environment(world.test(name).await?, name).await
    }

    /// A story about objects that were stored before fields without effect were refused.
    pub(crate) async fn of_stored_objects(name: &str) -> anyhow::Result<Self> {
        let environment = World::shared().await?.test_of_stored_objects(name).await?;
        Self::in_environment(environment, name).await
    }

    async fn in_environment(environment: TestEnvironment, name: &str) -> anyhow::Result<Self> {
        let user = User::new(environment.aws(), REGION);
        let network = user.create_network(&NetworkPlan::new(name, REGION, 3)).await?;
        Ok(Self {
            environment,
            user,
            network,
        })
    }

    /// Another namespace on the same network.
    pub(crate) async fn neighbour(&self, name: &str) -> anyhow::Result<Self> {
        let environment = self.environment.neighbour(name).await?;
        Ok(Self {
            user: User::new(environment.aws(), REGION),
            environment,
            network: self.network.clone(),
        })
    }

    /// Our manager, hurried.
    pub(crate) async fn manager(&self) -> anyhow::Result<Manager> {
        self.environment.manager().flag(FASTER).start().await
    }

    /// An unmanaged AWSCluster on the private subnets; `extra` are further lines of its spec, indented by two.
    pub(crate) fn unmanaged(&self, name: &str, extra: &str) -> String {
        let subnets: Vec<String> = self
            .network
            .private_subnet_ids()
            .iter()
            .map(|id| format!("{{id: {id}}}"))
            .collect();
        format!(
            "
apiVersion: {OURS}
kind: AWSCluster
metadata: {{name: {name}}}
spec:
  region: {REGION}
  unmanaged: true
  network:
    vpc: {{id: {}}}
    subnets: [{}]
    securityGroupOverrides: {{node: {}, controlplane: {}}}
{extra}
",
            self.network.vpc_id,
            subnets.join(", "),
            self.network.node_security_group_id,
            self.network.control_plane_security_group_id,
        )
    }

    /// Applies an unmanaged AWSCluster and its Cluster, and waits until Cluster API has seen it provisioned.
    pub(crate) async fn cluster(&self, name: &str) -> anyhow::Result<()> {
        self.owned(name, &self.unmanaged(name, "")).await?;
        self.infrastructure_provisioned(name).await
    }

    /// Applies an AWSCluster and a Cluster of the same name, and waits until Cluster API has made this its owner.
    pub(crate) async fn owned(&self, name: &str, aws_cluster: &str) -> anyhow::Result<()> {
        self.environment.apply(aws_cluster).await?;
        self.environment
            .apply(&fixtures::cluster(name, Some("AWSCluster")))
            .await?;
        eventually(WITHIN, "Cluster API to own the AWSCluster", async || {
            let owners = self.aws_cluster(name).await?.metadata.owner_references;
            ensure!(owners.is_some(), "it has no owner yet");
            Ok(())
        })
        .await
    }

    /// Waits until core has marked the infrastructure of a Cluster as provisioned.
    pub(crate) async fn infrastructure_provisioned(&self, name: &str) -> anyhow::Result<()> {
        eventually(WITHIN, "the Cluster's infrastructure to be provisioned", async || {
            let status = self.get(CORE, "Cluster", name).await?.data["status"].clone();
            ensure!(
                status["initialization"]["infrastructureProvisioned"] == true,
                "its status is {status}"
            );
            Ok(())
        })
        .await
    }

    /// A MachineDeployment with its bootstrap Secret and template, all of one name.
    pub(crate) async fn machine_deployment(&self, name: &str, cluster: &str, replicas: u32) -> anyhow::Result<()> {
        self.environment
            .apply(&fixtures::bootstrap_secret(name, "#cloud-config\n# a join token"))
            .await?;
        self.environment.apply(&template(name, "")).await?;
        self.environment
            .apply(&fixtures::machine_deployment(name, cluster, replicas))
            .await?;
        Ok(())
    }

    /// Waits until the namespace has exactly this many AWSMachines and all are Ready, and gives them.
    pub(crate) async fn machines_ready(&self, count: usize) -> anyhow::Result<Vec<DynamicObject>> {
        self.machines_ready_within(count, WITHIN).await
    }

    /// The same with another deadline.
    pub(crate) async fn machines_ready_within(
        &self,
        count: usize,
        within: Duration,
    ) -> anyhow::Result<Vec<DynamicObject>> {
        eventually(within, &format!("{count} AWSMachines to be Ready"), async || {
            let machines = self.machines().await?;
            ensure!(machines.len() == count, "there are {}", machines.len());
            for machine in &machines {
                let ready = objects::condition(machine, "Ready").context("no Ready condition yet")?;
                ensure!(ready.status == "True", "{:?}: {ready:?}", machine.metadata.name);
            }
            Ok(machines)
        })
        .await
    }

    /// The AWSMachines of the namespace.
    pub(crate) async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.environment.api(OURS, "AWSMachine").await?;
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// One object.
    pub(crate) async fn get(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<DynamicObject> {
        Ok(self.environment.api(api_version, kind).await?.get(name).await?)
    }

    /// One AWSCluster.
    pub(crate) async fn aws_cluster(&self, name: &str) -> anyhow::Result<DynamicObject> {
        self.get(OURS, "AWSCluster", name).await
    }

    /// Waits for a condition of an AWSCluster and gives its message.
    pub(crate) async fn says(&self, name: &str, condition: &str, status: &str, reason: &str) -> anyhow::Result<String> {
        let condition = self.condition("AWSCluster", name, condition, status, reason).await?;
        Ok(condition.message)
    }

    /// Merges a patch into an AWSCluster.
    pub(crate) async fn change(&self, name: &str, patch: serde_json::Value) -> anyhow::Result<()> {
        self.patch(OURS, "AWSCluster", name, patch).await
    }

    /// How often the manager has called each action of AWS.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        self.environment.aws().manager_journal().counts()
    }

    /// Has an AWSCluster reconciled at least this many times by touching a label. Fails if anybody else writes to it
    /// meanwhile.
    pub(crate) async fn reconciles_without_a_write(
        &self,
        manager: &Manager,
        name: &str,
        passes: u32,
    ) -> anyhow::Result<()> {
        let api = self.environment.api(OURS, "AWSCluster").await?;
        let goal = manager.passes("awscluster").await? + f64::from(passes);
        let mut version = self.aws_cluster(name).await?.resource_version();
        let mut touches = 0;
        let started = Instant::now();
        while manager.passes("awscluster").await? < goal {
            ensure!(started.elapsed() < WITHIN, "{touches} touches were not enough passes");
            touches += 1;
            // With the version that the last touch left: a write by anybody else is a conflict.
            let touch = json!({"metadata": {"resourceVersion": version, "labels": {"touch": touches.to_string()}}});
            let answer = api
                .patch(name, &PatchParams::default(), &Patch::Merge(touch))
                .await
                .context("touch the AWSCluster that nobody else should write to")?;
            version = answer.resource_version();
        }
        let last = self.aws_cluster(name).await?.resource_version();
        ensure!(last == version, "somebody wrote to the AWSCluster after the last touch");
        Ok(())
    }

    /// Waits for an event about an object of ours.
    pub(crate) async fn event(&self, kind: &str, name: &str, reason: &str) -> anyhow::Result<()> {
        let events = self.environment.api("events.k8s.io/v1", "Event").await?;
        eventually(WITHIN, &format!("an event {reason} about {kind} {name}"), async || {
            let events = events.list(&ListParams::default()).await?.items;
            let told = events.iter().any(|event| {
                let about = &event.data["regarding"];
                about["kind"] == kind && about["name"] == name && event.data["reason"] == reason
            });
            ensure!(told, "there is none among {}", events.len());
            Ok(())
        })
        .await
    }

    /// Waits for a condition of an object.
    pub(crate) async fn condition(
        &self,
        kind: &str,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> anyhow::Result<objects::Condition> {
        let what = format!("{kind} {name} to say {condition}={status}/{reason}");
        eventually(WITHIN, &what, async || {
            let object = self.get(OURS, kind, name).await?;
            let found = objects::condition(&object, condition).with_context(|| format!("no {condition} yet"))?;
            ensure!(found.status == status && found.reason == reason, "it says {found:?}");
            Ok(found)
        })
        .await
    }

    /// Merges a patch into an object.
    pub(crate) async fn patch(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        patch: serde_json::Value,
    ) -> anyhow::Result<()> {
        let api = self.environment.api(api_version, kind).await?;
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}

/// An AWSMachineTemplate; `extra` are further lines of the machine's spec, indented by six.
pub(crate) fn template(name: &str, extra: &str) -> String {
    format!(
        "
apiVersion: {OURS}
kind: AWSMachineTemplate
metadata: {{name: {name}}}
spec:
  template:
    spec:
      instanceType: t3.large
      ami: {{id: {}}}
      cloudInit: {{insecureSkipSecretsManager: true}}
{extra}
",
        moto::IMAGE_ID
    )
}
