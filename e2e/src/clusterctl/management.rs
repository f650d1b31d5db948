//! A management cluster whose components clusterctl installs.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::clusterctl::{Clusterctl, Release, Repository};
use crate::local_world::LocalWorld;
use crate::wait::eventually_by_polling;

/// The namespace in which clusterctl tests cert-manager. While the namespace is terminating, another `init` would fail.
const CERT_MANAGER_TEST: &str = "cert-manager-test";

/// The limit for the deletion of a namespace: kube-controller-manager takes up to ten seconds for one.
const GONE_WITHIN: Duration = Duration::from_mins(3);

/// The version of this provider that is installed first.
const FIRST_VERSION: &str = "v0.1.0";

/// A management cluster with a clusterctl repository of its own. Empty until [`init`](Self::init).
pub struct ManagementCluster {
    world: Arc<LocalWorld>,
    repository: Repository,
    release: Release,
    clusterctl: Clusterctl,
}

impl ManagementCluster {
    /// Starts a management cluster with an AWS of its own.
    pub async fn start() -> anyhow::Result<Self> {
        Self::of(LocalWorld::bare(None).await?)
    }

    /// Starts a second management cluster with the same AWS. The second cluster must end first.
    pub async fn beside(&self) -> anyhow::Result<Self> {
        Self::of(LocalWorld::bare(Some(&self.world)).await?)
    }

    fn of(world: LocalWorld) -> anyhow::Result<Self> {
        let repository = Repository::write(world.directory.folder("repository")?, &world.server.pki)?;
        let release = repository.add(FIRST_VERSION)?;
        let home = world.directory.folder("home")?;
        let clusterctl = Clusterctl::new(home, &repository.configuration, world.admin_kubeconfig());
        Ok(Self { world: Arc::new(world), repository, release, clusterctl })
    }

    /// Runs `clusterctl init --infrastructure aws-rs`, and starts the managers that would run as pods, except the one
    /// under test.
    pub async fn init(&self) -> anyhow::Result<()> {
        self.clusterctl.run(&["init", "--infrastructure", "aws-rs"]).await?;
        self.world.run_installed(&self.repository.webhooks).await?;
        self.wait_for_cert_manager_test().await
    }

    async fn wait_for_cert_manager_test(&self) -> anyhow::Result<()> {
        let namespaces = Api::<Namespace>::all(self.world.admin().await?);
        eventually_by_polling(GONE_WITHIN, "clusterctl's test of cert-manager to be gone", async || {
            match namespaces.get_opt(CERT_MANAGER_TEST).await? {
                None => Ok(()),
                Some(_) => bail!("its namespace is still there"),
            }
        })
        .await
    }

    /// The world of the management cluster.
    pub fn world(&self) -> &Arc<LocalWorld> {
        &self.world
    }

    /// clusterctl, configured for this management cluster.
    pub fn clusterctl(&self) -> &Clusterctl {
        &self.clusterctl
    }

    /// The release of this provider that was installed first.
    pub fn release(&self) -> &Release {
        &self.release
    }

    /// The repository from which clusterctl installs.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }
}
