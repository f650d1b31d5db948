//! Where a measurement takes place: a world, a cluster on a network of the user's, and the manager.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::Account;
use capa_e2e::user::{NetworkPlan, User};
use capa_e2e::{LocalWorld, Manager, TestEnvironment, eventually, fixtures, objects};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde_json::json;

const REGION: &str = "eu-west-1";
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CLUSTER: &str = "dev";
/// The Secret with the bootstrap data of all machines.
const SECRET: &str = "data";
/// The size of the bootstrap data: that of a kubeadm worker with some files.
const SECRET_BYTES: usize = 6_300;
/// The number of concurrent requests of the user.
const REQUESTS: usize = 8;
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
    program: PathBuf,
    machines: Api<DynamicObject>,
    pub(crate) aws_machines: Api<DynamicObject>,
}

impl Field {
    /// Starts a world, and in it the manager and a cluster.
    pub(crate) async fn new(program: &Path, name: &str) -> anyhow::Result<Self> {
        let world = Arc::new(LocalWorld::start().await?);
        let environment = TestEnvironment::new(world.clone(), name).await?;
        let user = User::new(environment.aws(), REGION);
        let network = user.create_network(&NetworkPlan::new(name, REGION, 3)).await?;
        world.install_provider().await?;
        let field = Self {
            program: program.to_owned(),
            machines: environment.api(CORE, "Machine").await?,
            aws_machines: environment.api(OURS, "AWSMachine").await?,
            environment,
            world,
        };
        field.start_manager().await?;
        let filler = format!("#cloud-config\n# {}", "x".repeat(SECRET_BYTES));
        let objects = [
            fixtures::unmanaged_cluster(CLUSTER, REGION, &network, ""),
            fixtures::cluster(CLUSTER, Some("AWSCluster")),
            fixtures::bootstrap_secret(SECRET, &filler),
        ];
        for object in objects {
            field.environment.apply(&object).await?;
        }
        let clusters = field.environment.api(CORE, "Cluster").await?;
        eventually(WITHIN, "the Cluster's infrastructure to be provisioned", async || {
            let cluster = clusters.get(CLUSTER).await?;
            let provisioned = cluster.data.pointer("/status/initialization/infrastructureProvisioned");
            ensure!(
                provisioned == Some(&json!(true)),
                "{:?}",
                cluster.data.pointer("/status")
            );
            Ok(())
        })
        .await?;
        Ok(field)
    }

    /// Starts a manager as a release runs it: no flag but the namespace and addresses.
    pub(crate) async fn start_manager(&self) -> anyhow::Result<Manager> {
        let manager = self.environment.new_manager().program(self.program.clone());
        manager.flag("-v=0").start().await
    }

    /// The manager that runs.
    pub(crate) fn manager(&self) -> anyhow::Result<Manager> {
        self.environment.manager()
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

    /// Marks all machines as joined: there are no nodes here.
    pub(crate) async fn join(&self, count: usize) -> anyhow::Result<()> {
        let join = |number: usize| async move {
            let joined = Patch::Merge(json!({"status": {"nodeRef": {"name": name(number)}}}));
            self.machines
                .patch_status(&name(number), &PatchParams::default(), &joined)
                .await?;
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

    /// Waits until the manager has made no AWS call for some seconds.
    pub(crate) async fn quiet(&self, quiet: Duration) -> anyhow::Result<()> {
        let calls = || self.aws().manager_journal().len();
        let (mut last, mut since) = (calls(), Instant::now());
        eventually(WITHIN, "the manager to make no AWS call for some seconds", async || {
            if calls() != last {
                (last, since) = (calls(), Instant::now());
            }
            ensure!(since.elapsed() >= quiet, "it called AWS {:?} ago", since.elapsed());
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
