//! What most stories start from: a network that the user brought, an identity for its account, and a cluster on it.

use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::user::{Network, NetworkPlan, User};
use capa_e2e::{Manager, TestEnvironment, World, eventually, fixtures, moto, objects};
use kube::api::DynamicObject;

/// Region of every story.
pub(crate) const REGION: &str = "eu-west-1";
/// API version of Cluster API's kinds.
pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
/// API version of our kinds.
pub(crate) const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// Deadline of a wait on a busy machine with two cores.
pub(crate) const WITHIN: Duration = Duration::from_secs(90);
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
        let environment = World::shared().await?.test(name).await?;
        let user = User::new(environment.aws(), REGION);
        let network = user.create_network(&NetworkPlan::new(name, REGION, 3)).await?;
        Ok(Self {
            environment,
            user,
            network,
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
        self.environment.apply(&self.unmanaged(name, "")).await?;
        self.environment
            .apply(&fixtures::cluster(name, Some("AWSCluster")))
            .await?;
        self.infrastructure_provisioned(name).await
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
        eventually(WITHIN, &format!("{count} AWSMachines to be Ready"), async || {
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
        Ok(api.list(&kube::api::ListParams::default()).await?.items)
    }

    /// One object.
    pub(crate) async fn get(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<DynamicObject> {
        Ok(self.environment.api(api_version, kind).await?.get(name).await?)
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
        api.patch(
            name,
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await?;
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
