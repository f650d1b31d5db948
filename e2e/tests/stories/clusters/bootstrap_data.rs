//! Clusters whose nodes get their bootstrap data in other ways than as cloud-init's user data.

use anyhow::ensure;
use capa_e2e::eventually;

use super::whole::{NODES_WITHIN, whole_clusters};

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_boots_with_ignition_from_its_user_data() -> anyhow::Result<()> {
        whole_clusters("ignition", async |s| {
            let mut cluster = s.kubeadm_cluster("dev").await?;
            // The keys of a control plane fit compressed only.
            cluster.bootstrap =
                "ignition: {version: '3.4', storageType: UnencryptedUserData}\n      uncompressedUserData: false";
            cluster.control_plane(1).await?;
            cluster.workers(1).await?;
            cluster.ready(1, 1).await?;
            cluster.available().await?;
            ensure!(s.aws().nodes_journal().is_empty(), "the nodes have fetched something");
            cluster.delete().await
        })
    }

    #[test]
    fn a_cluster_boots_with_ignition_by_presigned_urls() -> anyhow::Result<()> {
        boots_from_bucket("presigned", "ignition: {version: '3.4'}", "presignedURLDuration: 30m")
    }

    #[test]
    fn a_cluster_boots_from_parameter_store_and_leaves_no_parameter() -> anyhow::Result<()> {
        boots_from(
            "parameters",
            "cloudInit: {secureSecretsBackend: ssm-parameter-store}",
            ["PutParameter", "DeleteParameters"],
        )
    }

    #[test]
    fn a_cluster_boots_with_ignition_from_a_bucket() -> anyhow::Result<()> {
        // As in CAPA's template for Flatcar: the format alone says that the data is for Ignition.
        let profiles = "controlPlaneIAMInstanceProfile: control-plane, nodesIAMInstanceProfiles: [nodes]";
        boots_from_bucket("objects", "# ignition", profiles)
    }

    #[test]
    fn a_cluster_boots_from_secrets_manager_and_leaves_no_secret() -> anyhow::Result<()> {
        boots_from("secrets", "cloudInit: {}", ["CreateSecret", "DeleteSecret"])
    }
}

/// Tests a cluster whose bootstrap data is in a bucket with these settings.
fn boots_from_bucket(name: &str, bootstrap: &'static str, settings: &str) -> anyhow::Result<()> {
    whole_clusters(name, async |s| {
        let bucket = format!("boot-{}", s.namespace());
        s.user.create_bucket(&bucket).await?;
        let mut cluster = s.kubeadm_cluster("dev").await?;
        cluster.bootstrap = bootstrap;
        cluster.bucket = Some(format!("{{name: {bucket}, {settings}}}"));
        cluster.control_plane(1).await?;
        cluster.workers(1).await?;
        let machines = cluster.ready(1, 1).await?;
        cluster.available().await?;
        eventually(NODES_WITHIN, "no objects once the nodes have joined", async || {
            let left = s.user.objects(&bucket).await?;
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await?;
        let by_manager = s.aws().manager_journal();
        for action in ["PutObject", "DeleteObject"] {
            let calls = by_manager.of(action);
            ensure!(calls.len() >= machines.len(), "{action}: {calls}");
        }
        let fetched = s.aws().nodes_journal().of("GetObject");
        ensure!(fetched.len() >= machines.len(), "the nodes fetched: {fetched}");
        let by_url = fetched.matching(|call| call.by_url).len();
        let presigns = settings.contains("presigned");
        ensure!(by_url == if presigns { fetched.len() } else { 0 }, "{fetched}");
        cluster.delete().await?;
        let left = s.user.objects(&bucket).await?;
        ensure!(left.is_empty(), "objects are left: {left:?}");
        Ok(())
    })
}

/// Tests a cluster of a control plane machine and a worker with this delivery; the actions store and delete the data
/// of a machine.
fn boots_from(name: &str, bootstrap: &'static str, actions: [&str; 2]) -> anyhow::Result<()> {
    whole_clusters(name, async |s| {
        let mut cluster = s.kubeadm_cluster("dev").await?;
        cluster.bootstrap = bootstrap;
        cluster.control_plane(1).await?;
        cluster.workers(1).await?;
        let machines = cluster.ready(1, 1).await?;
        cluster.available().await?;
        eventually(NODES_WITHIN, "no secrets once the nodes have joined", async || {
            let left = s.user.secrets().await?;
            ensure!(left.is_empty(), "{left:?}");
            // A node deletes its secret, too, and before the manager has seen that the node has joined.
            let by_manager = s.aws().manager_journal();
            for action in actions {
                let calls = by_manager.of(action);
                ensure!(calls.len() >= machines.len(), "{action}: {calls}");
            }
            Ok(())
        })
        .await?;
        let fetched = s.aws().nodes_journal();
        ensure!(!fetched.is_empty(), "the nodes fetched nothing");
        cluster.delete().await
    })
}
