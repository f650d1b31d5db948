//! The scenario of most stories: an existing network, the manager, and a cluster on that network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::{AccessKey, Account};
use capa_e2e::inventory::{Fact, facts};
use capa_e2e::user::{Network, NetworkPlan, User};
use capa_e2e::{
    Manager, ManagerBuilder, Story, TestEnvironment, eventually, eventually_by_polling, fixtures, moto, objects,
};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// Region of every story.
pub(crate) const REGION: &str = "eu-west-1";
/// API version of Cluster API's kinds.
pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
/// API version of our kinds.
pub(crate) const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The deadline of a wait, on a busy computer with two cores.
pub(crate) const WITHIN: Duration = Duration::from_mins(4);
/// The flag that divides every period and age of AWS access, for shorter waits with real servers.
pub(crate) const FASTER: &str = "--timing-divisor=20";
/// The flag of a manager that is alone in its world: it serves all namespaces, as an installation does.
pub(crate) const EVERY_NAMESPACE: &str = "--namespace=";

/// Ids of the right form that no account has.
pub(crate) const NO_SUBNET: &str = "subnet-00000000000000bad";
pub(crate) const NO_VPC: &str = "vpc-00000000000000bad";
pub(crate) const NO_GROUP: &str = "sg-00000000000000bad";

/// The namespace in which the manager looks for the Secrets of static identities: its own.
pub(crate) const IDENTITY_NAMESPACE: &str = "capa-rs-system";

/// The namespace and the account of a story, with a network of three zones.
pub(crate) struct Scenario {
    pub(crate) environment: Arc<TestEnvironment>,
    pub(crate) user: User,
    pub(crate) network: Network,
}

/// Runs a story in a [`Scenario`] with a running manager with shortened periods. All managers are stopped at the end.
pub(crate) fn story(name: &str, body: impl AsyncFnOnce(&Scenario) -> anyhow::Result<()>) -> anyhow::Result<()> {
    run_story(Story::new(name), async |s| {
        s.start_manager().await?;
        body(s).await
    })
}

/// Runs a story in a [`Scenario`] that has no manager yet.
pub(crate) fn run_story(
    story: Story<'_>,
    body: impl AsyncFnOnce(&Scenario) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = story.name();
    story.run(async |environment| body(&Scenario::new(environment.clone(), name).await?).await)
}

/// The seed of all random choices of stories.
pub(crate) fn seed() -> anyhow::Result<u64> {
    let seed = std::env::var("CAPA_E2E_SEED").unwrap_or_else(|_| "1".to_owned());
    seed.parse().with_context(|| format!("CAPA_E2E_SEED is {seed}"))
}

/// Calls `look` until its result has not changed for this time, and returns the result. `what` names the observed
/// objects.
pub(crate) async fn settled<T: PartialEq>(
    what: &str,
    quiet: Duration,
    within: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut last = None;
    let mut since = Instant::now();
    eventually(within, &format!("{what} to stay as they are for {quiet:?}"), async || {
        let now = Some(look().await?);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        ensure!(since.elapsed() >= quiet, "something changed {:?} ago", since.elapsed());
        last.take().context("the probe has not succeeded yet")
    })
    .await
}

impl Scenario {
    /// A network of three zones in an environment.
    pub(crate) async fn new(environment: Arc<TestEnvironment>, name: &str) -> anyhow::Result<Self> {
        let user = User::new(environment.aws(), REGION);
        let network = user.create_network(&NetworkPlan::new(name, REGION, 3)).await?;
        Ok(Self { environment, user, network })
    }

    /// The same network in another environment with the same AWS account.
    pub(crate) fn with(&self, environment: Arc<TestEnvironment>) -> Self {
        Self { user: User::new(environment.aws(), REGION), environment, network: self.network.clone() }
    }

    /// Another namespace on the same network.
    pub(crate) async fn neighbour(&self, name: &str) -> anyhow::Result<Self> {
        Ok(self.with(self.environment.neighbour(name).await?))
    }

    /// A builder for a manager.
    pub(crate) fn new_manager(&self) -> ManagerBuilder<'_> {
        self.environment.new_manager()
    }

    /// Starts the manager with shortened periods.
    pub(crate) async fn start_manager(&self) -> anyhow::Result<Manager> {
        self.new_manager().flag(FASTER).start().await
    }

    /// The manager that was started last.
    pub(crate) fn manager(&self) -> Manager {
        self.environment.manager().expect("a story with a manager")
    }

    /// The AWS account.
    pub(crate) fn aws(&self) -> &Account {
        self.environment.aws()
    }

    /// The namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.environment.namespace()
    }

    /// Applies YAML of one or several objects.
    pub(crate) async fn apply(&self, yaml: &str) -> anyhow::Result<()> {
        self.environment.apply(yaml).await.map(drop)
    }

    /// The API of a kind.
    pub(crate) async fn api(&self, api_version: &str, kind: &str) -> anyhow::Result<Api<DynamicObject>> {
        self.environment.api(api_version, kind).await
    }

    /// Deletes an object and waits until it is gone.
    pub(crate) async fn delete(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<()> {
        self.environment.delete(api_version, kind, name, WITHIN).await
    }

    /// Applies a bootstrap Secret without instructions.
    pub(crate) async fn bootstrap_secret(&self, name: &str) -> anyhow::Result<()> {
        self.apply(&fixtures::bootstrap_secret(name, "#cloud-config")).await
    }

    /// Applies an identity with the Secret of its key, both of one name. `allowed` are the namespaces that may use it,
    /// in YAML's flow style.
    pub(crate) async fn static_identity(&self, name: &str, allowed: &str, key: &AccessKey) -> anyhow::Result<()> {
        self.identity_secret(name, key).await?;
        self.apply(&Self::static_identity_yaml(name, allowed)).await
    }

    /// A static identity whose Secret has its name.
    pub(crate) fn static_identity_yaml(name: &str, allowed: &str) -> String {
        let spec = format!("{{secretRef: {name}, allowedNamespaces: {allowed}}}");
        Self::identity_yaml("AWSClusterStaticIdentity", name, &spec)
    }

    /// Applies the Secret of a static identity.
    pub(crate) async fn identity_secret(&self, name: &str, key: &AccessKey) -> anyhow::Result<()> {
        self.apply(&Self::identity_secret_yaml(name, key)).await
    }

    /// The Secret of a static identity.
    pub(crate) fn identity_secret_yaml(name: &str, key: &AccessKey) -> String {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": IDENTITY_NAMESPACE},
            "stringData": {"AccessKeyID": key.access_key_id, "SecretAccessKey": key.secret_access_key},
        });
        secret.to_string()
    }

    /// Applies an identity; `spec` in YAML's flow style.
    pub(crate) async fn identity(&self, kind: &str, name: &str, spec: &str) -> anyhow::Result<()> {
        self.apply(&Self::identity_yaml(kind, name, spec)).await
    }

    fn identity_yaml(kind: &str, name: &str, spec: &str) -> String {
        format!("{{apiVersion: {OURS}, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}")
    }

    /// Applies an unmanaged AWSCluster that names an identity, and its Cluster.
    pub(crate) async fn owned_with_identity(&self, name: &str, kind: &str, identity: &str) -> anyhow::Result<()> {
        let reference = format!("  identityRef: {{kind: {kind}, name: {identity}}}");
        self.owned(name, &self.unmanaged(name, &reference)).await
    }

    /// An unmanaged AWSCluster on the private subnets; `extra` are further lines of its spec, indented by two.
    pub(crate) fn unmanaged(&self, name: &str, extra: &str) -> String {
        fixtures::unmanaged_cluster(name, REGION, &self.network, extra)
    }

    /// Applies an unmanaged AWSCluster and its Cluster, and waits until Cluster API has seen it provisioned.
    pub(crate) async fn cluster(&self, name: &str) -> anyhow::Result<()> {
        self.owned(name, &self.unmanaged(name, "")).await?;
        self.infrastructure_provisioned(name).await
    }

    /// Like `cluster`, but the AWSCluster names a VPC that does not exist, until its condition says so.
    pub(crate) async fn corrected_cluster(&self, name: &str) -> anyhow::Result<()> {
        let misspelt = self.unmanaged(name, "").replace(&self.network.vpc_id, "vpc-0123456789abcdef0");
        self.owned(name, &misspelt).await?;
        self.await_condition(name, "NetworkReady", "False", "NotFound").await?;
        let vpc = json!({"spec": {"network": {"vpc": {"id": self.network.vpc_id}}}});
        self.change(name, vpc).await?;
        self.await_condition(name, "NetworkReady", "True", "Ready").await?;
        self.infrastructure_provisioned(name).await
    }

    /// Applies an AWSCluster and a Cluster of the same name, and waits until Cluster API has made this its owner.
    pub(crate) async fn owned(&self, name: &str, aws_cluster: &str) -> anyhow::Result<()> {
        self.apply(aws_cluster).await?;
        self.apply(&fixtures::cluster(name, Some("AWSCluster"))).await?;
        eventually(WITHIN, "Cluster API to own the AWSCluster", async || {
            let owners = self.aws_cluster(name).await?.metadata.owner_references;
            ensure!(owners.is_some(), "the AWSCluster has no owner yet");
            Ok(())
        })
        .await
    }

    /// Waits until core has marked the infrastructure of a Cluster as provisioned.
    pub(crate) async fn infrastructure_provisioned(&self, name: &str) -> anyhow::Result<()> {
        eventually(WITHIN, "the Cluster's infrastructure to be provisioned", async || {
            let status = self.get(CORE, "Cluster", name).await?.data["status"].clone();
            ensure!(status["initialization"]["infrastructureProvisioned"] == true, "its status is {status}");
            Ok(())
        })
        .await
    }

    /// A MachineDeployment with its bootstrap Secret and template, all of one name.
    pub(crate) async fn machine_deployment(&self, name: &str, cluster: &str, replicas: u32) -> anyhow::Result<()> {
        self.bootstrap_secret(name).await?;
        self.apply(&template(name, "")).await?;
        self.apply(&fixtures::machine_deployment(name, cluster, replicas)).await
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
            ensure!(machines.len() == count, "there are {} machines", machines.len());
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
        let api = self.api(OURS, "AWSMachine").await?;
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// One object.
    pub(crate) async fn get(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<DynamicObject> {
        Ok(self.api(api_version, kind).await?.get(name).await?)
    }

    /// One AWSCluster.
    pub(crate) async fn aws_cluster(&self, name: &str) -> anyhow::Result<DynamicObject> {
        self.get(OURS, "AWSCluster", name).await
    }

    /// Waits for a condition of an AWSCluster and gives its message.
    pub(crate) async fn await_condition(
        &self,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> anyhow::Result<String> {
        let condition = self.condition("AWSCluster", name, condition, status, reason).await?;
        Ok(condition.message)
    }

    /// Merges a patch into an AWSCluster.
    pub(crate) async fn change(&self, name: &str, patch: serde_json::Value) -> anyhow::Result<()> {
        self.patch(OURS, "AWSCluster", name, patch).await
    }

    /// How often the manager has called each action of AWS.
    pub(crate) fn calls(&self) -> BTreeMap<String, usize> {
        self.aws().manager_journal().counts()
    }

    /// Triggers at least this many passes over an AWSCluster by changing a label. Fails if its spec or status changes
    /// meanwhile: metadata may change, because other controllers write it when they come to it.
    pub(crate) async fn reconciles_without_a_write(&self, name: &str, passes: u32) -> anyhow::Result<()> {
        let manager = self.manager();
        let before = self.aws_cluster(name).await?;
        for _ in 0..passes {
            let finished = manager.passes("awscluster").await?;
            let version = self.aws_cluster(name).await?.resource_version();
            let touch = json!({"metadata": {"labels": {"touch": version}}});
            self.change(name, touch).await?;
            eventually_by_polling(WITHIN, "a pass over the touched AWSCluster", async || {
                let now = manager.passes("awscluster").await?;
                ensure!(now > finished, "there were {now} passes, as before");
                Ok(())
            })
            .await?;
            let now = self.aws_cluster(name).await?;
            ensure!(now.data == before.data, "{} was {}", now.data, before.data);
        }
        Ok(())
    }

    /// Waits for an event about an object of this provider's kinds.
    pub(crate) async fn event(&self, kind: &str, name: &str, reason: &str) -> anyhow::Result<()> {
        let events = self.api("events.k8s.io/v1", "Event").await?;
        eventually(WITHIN, &format!("an event {reason} about {kind} {name}"), async || {
            let events = events.list(&ListParams::default()).await?.items;
            let found = events.iter().any(|event| {
                let about = &event.data["regarding"];
                about["kind"] == kind && about["name"] == name && event.data["reason"] == reason
            });
            ensure!(found, "the event is not among {} events", events.len());
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
            ensure!(found.status == status && found.reason == reason, "the condition is {found:?}");
            Ok(found)
        })
        .await
    }

    /// All that is in the account, with names in place of ids.
    pub(crate) async fn content(&self) -> anyhow::Result<BTreeSet<Fact>> {
        let replaced = [(self.aws().id(), "<account>"), (self.namespace(), "<namespace>")];
        Ok(facts(&self.user.details().await?, &replaced))
    }

    /// Checks that the account has what it had when `before` was dumped.
    pub(crate) async fn has_left_nothing(&self, before: &serde_json::Value) -> anyhow::Result<()> {
        let after = self.user.dump().await?;
        for (action, listed) in before.as_object().context("a dump is an object")? {
            assert_eq!(after.get(action), Some(listed), "{action}");
        }
        Ok(())
    }

    /// Merges a patch into an object.
    pub(crate) async fn patch(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        patch: serde_json::Value,
    ) -> anyhow::Result<()> {
        let api = self.api(api_version, kind).await?;
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
