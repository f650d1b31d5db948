//! Where a measurement takes place: a world, a cluster on a network of the user's, and the manager.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use aws_sdk_ec2::types::{ResourceType, Tag, TagSpecification};
use capa_api::meta;
use capa_e2e::aws_proxy::Account;
use capa_e2e::user::{Network, NetworkPlan, User};
use capa_e2e::{LocalWorld, Manager, Memory, TestEnvironment, eventually, fixtures, objects};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::json;

use crate::provider::Provider;

const REGION: &str = "eu-west-1";
const ZONES: u8 = 3;
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CLUSTER: &str = "dev";
/// The Secret with the bootstrap data of all machines.
const SECRET: &str = "data";
/// The size of the bootstrap data: that of a kubeadm worker with some files.
const SECRET_BYTES: usize = 6_300;
/// The number of concurrent requests of the user.
const REQUESTS: usize = 8;
/// The time without AWS calls after which the consequences of a change are over.
pub(crate) const QUIET: Duration = Duration::from_secs(5);
/// The longest wait for one object, on a busy computer with two cores.
const WITHIN: Duration = Duration::from_mins(4);

/// Where instances get their bootstrap data from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Storage {
    /// The data is the user data.
    Inline,
    /// The user data fetches the data from Secrets Manager.
    SecretsManager,
}

impl Storage {
    fn spec(self) -> &'static str {
        match self {
            Self::Inline => "cloudInit: {insecureSkipSecretsManager: true}",
            Self::SecretsManager => "",
        }
    }
}

/// A provisioned cluster without machines, and its manager.
pub(crate) struct Field {
    pub(crate) world: Arc<LocalWorld>,
    environment: TestEnvironment,
    provider: Provider,
    user: User,
    network: Network,
    machines: Api<DynamicObject>,
    pub(crate) aws_machines: Api<DynamicObject>,
}

impl Field {
    /// Starts a world, and in it the manager and a cluster, and waits until the manager is quiet.
    pub(crate) async fn new(provider: &Provider, name: &str) -> anyhow::Result<Self> {
        let world = Arc::new(LocalWorld::start().await?);
        let environment = TestEnvironment::new(world.clone(), name).await?;
        let user = User::new(environment.aws(), REGION);
        let plan = NetworkPlan { is_large: true, ..NetworkPlan::new(name, REGION, ZONES) };
        let network = user.create_network(&plan).await?;
        provider.install(&world, &environment).await?;
        let field = Self {
            provider: provider.clone(),
            machines: environment.api(CORE, "Machine").await?,
            aws_machines: environment.api(OURS, "AWSMachine").await?,
            environment,
            world,
            user,
            network,
        };
        // The management cluster stands in for the workload cluster: Cluster API core repeats its passes over each
        // machine with an error if it reaches no API server.
        let kubeconfig = std::fs::read_to_string(field.world.admin_kubeconfig())?;
        let filler = format!("#cloud-config\n# {}", "x".repeat(SECRET_BYTES));
        let objects = [
            provider.aws_cluster(CLUSTER, REGION, &field.network),
            fixtures::cluster(CLUSTER, Some("AWSCluster")),
            fixtures::bootstrap_secret(SECRET, &filler),
            fixtures::kubeconfig_secret(CLUSTER, &kubeconfig),
        ];
        for object in objects {
            field.environment.apply(&object).await?;
        }
        let clusters = field.environment.api(CORE, "Cluster").await?;
        eventually(WITHIN, "the Cluster's infrastructure to be provisioned", async || {
            let cluster = clusters.get(CLUSTER).await?;
            let provisioned = cluster.data.pointer("/status/initialization/infrastructureProvisioned");
            ensure!(provisioned == Some(&json!(true)), "{:?}", cluster.data.pointer("/status"));
            Ok(())
        })
        .await?;
        field.quiet().await?;
        Ok(field)
    }

    /// Ends the manager; see [`Provider::stop`].
    pub(crate) async fn stop_manager(&self) -> anyhow::Result<()> {
        self.provider.stop(&self.environment).await
    }

    /// Starts another manager in the place of the first one.
    pub(crate) async fn start_another_manager(&self) -> anyhow::Result<()> {
        self.provider.start_another(&self.world, &self.environment).await
    }

    /// This provider's manager, whose metrics say what it knows; `None` for CAPA.
    pub(crate) fn manager_here(&self) -> anyhow::Result<Option<Manager>> {
        match self.provider {
            Provider::Here(_) => self.environment.manager().map(Some),
            Provider::Capa => Ok(None),
        }
    }

    /// The memory of the manager.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        self.provider.memory(&self.world, &self.environment)
    }

    /// The CPU time of the manager.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.provider.cpu_time(&self.world, &self.environment)
    }

    /// The ServiceAccount of the manager.
    pub(crate) fn service_account(&self) -> &'static str {
        self.provider.service_account()
    }

    pub(crate) fn aws(&self) -> &Account {
        self.environment.aws()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.environment.namespace()
    }

    /// Creates stand-alone machines, which share one bootstrap Secret.
    pub(crate) async fn create(&self, count: usize, storage: Storage) -> anyhow::Result<()> {
        let create = |number: usize| async move {
            let yaml = fixtures::machine(&name(number), CLUSTER, SECRET, storage.spec());
            for object in objects::parse(&yaml)? {
                let is_machine = object.types.as_ref().is_some_and(|types| types.kind == "Machine");
                let api = if is_machine { &self.machines } else { &self.aws_machines };
                api.create(&PostParams::default(), &object).await?;
            }
            anyhow::Ok(())
        };
        at_once((0..count).map(create)).await
    }

    /// Creates machines whose instances run already, as `clusterctl move` leaves them: without a status, but with the
    /// provider ID, the owner and the finalizer. Cluster API core leaves the Machines alone, because they are paused.
    pub(crate) async fn create_with_instances(&self, count: usize) -> anyhow::Result<()> {
        let create = |number: usize| async move {
            let (name, zone) =
                (name(number), self.network.zones.get(number % usize::from(ZONES)).context("no such zone")?);
            let id = self.launch(&name, &zone.private_subnet_id).await?;
            let ids = format!("{}, providerID: 'aws:///{}/{id}', instanceID: {id}", Storage::Inline.spec(), zone.name);
            let objects = objects::parse(&fixtures::machine(&name, CLUSTER, SECRET, &ids))?;
            let [mut aws_machine, mut machine] =
                <[DynamicObject; 2]>::try_from(objects).map_err(|objects| anyhow!("{} objects", objects.len()))?;
            machine.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
            let machine = self.machines.create(&PostParams::default(), &machine).await?;
            aws_machine.labels_mut().insert("cluster.x-k8s.io/cluster-name".to_owned(), CLUSTER.to_owned());
            aws_machine.finalizers_mut().push(meta::MACHINE_FINALIZER.to_owned());
            aws_machine.owner_references_mut().push(OwnerReference {
                api_version: CORE.to_owned(),
                kind: "Machine".to_owned(),
                name,
                uid: machine.metadata.uid.context("a Machine without UID")?,
                controller: Some(true),
                ..OwnerReference::default()
            });
            self.aws_machines.create(&PostParams::default(), &aws_machine).await?;
            anyhow::Ok(())
        };
        at_once((0..count).map(create)).await
    }

    /// Launches an instance with the tags of the machine with this name.
    async fn launch(&self, name: &str, subnet_id: &str) -> anyhow::Result<String> {
        let tags = [
            ("Name", name),
            ("MachineName", &format!("{}/{name}", self.namespace())),
            (&format!("sigs.k8s.io/cluster-api-provider-aws/cluster/{CLUSTER}"), "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "node"),
        ];
        let tags = tags.map(|(key, value)| Tag::builder().key(key).value(value).build());
        let tags = TagSpecification::builder().resource_type(ResourceType::Instance).set_tags(Some(tags.to_vec()));
        let group_id = &self.network.node_security_group_id;
        self.user.launch(subnet_id, |launch| launch.security_group_ids(group_id).tag_specifications(tags.build())).await
    }

    /// Gives the AWSCluster an annotation.
    pub(crate) async fn annotate_cluster(&self) -> anyhow::Result<()> {
        let clusters = self.environment.api(OURS, "AWSCluster").await?;
        let changed = Patch::Merge(json!({"metadata": {"annotations": {"example.com/changed": "true"}}}));
        clusters.patch(CLUSTER, &PatchParams::default(), &changed).await?;
        Ok(())
    }

    /// Creates the nodes of all machines, and tells the Machines: Cluster API core misses a node that comes while its
    /// cache lags, until the node changes again, as a real one does all the time.
    pub(crate) async fn join(&self, count: usize) -> anyhow::Result<()> {
        let nodes = &self.environment.api("v1", "Node").await?;
        let join = |number: usize| async move {
            let machine = self.aws_machines.get(&name(number)).await?;
            let provider_id = machine.data.pointer("/spec/providerID").context("a machine without provider ID")?;
            let node = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name(number)},
                "spec": {"providerID": provider_id},
            });
            nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
            let joined = Patch::Merge(json!({"status": {"nodeRef": {"name": name(number)}}}));
            self.machines.patch_status(&name(number), &PatchParams::default(), &joined).await?;
            Ok(())
        };
        at_once((0..count).map(join)).await
    }

    /// Deletes all machines without waiting.
    pub(crate) async fn delete(&self, count: usize) -> anyhow::Result<()> {
        let delete = |number: usize| async move {
            self.machines.delete(&name(number), &DeleteParams::default()).await?;
            Ok(())
        };
        at_once((0..count).map(delete)).await
    }

    /// Waits until the manager has made no AWS call for [`QUIET`].
    pub(crate) async fn quiet(&self) -> anyhow::Result<()> {
        let calls = || self.aws().manager_journal().len();
        let (mut last, mut since) = (calls(), Instant::now());
        eventually(WITHIN, "the manager to make no AWS call for some seconds", async || {
            if calls() != last {
                (last, since) = (calls(), Instant::now());
            }
            ensure!(since.elapsed() >= QUIET, "it called AWS {:?} ago", since.elapsed());
            Ok(())
        })
        .await
    }

    /// Ends the manager and the world.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.environment.finish().await?;
        self.world.stop().await
    }
}

fn name(number: usize) -> String {
    format!("worker-{number}")
}

async fn at_once(requests: impl Iterator<Item = impl Future<Output = anyhow::Result<()>>>) -> anyhow::Result<()> {
    stream::iter(requests).buffer_unordered(REQUESTS).try_collect().await
}
