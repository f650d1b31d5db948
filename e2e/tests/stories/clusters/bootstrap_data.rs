//! Clusters whose nodes fetch their bootstrap data from an AWS service.

use anyhow::ensure;
use capa_e2e::eventually;

use super::whole::{NODES_WITHIN, whole_clusters};

#[test]
fn a_cluster_boots_from_secrets_manager_and_leaves_no_secret() -> anyhow::Result<()> {
    boots_from("secrets", "{}", ["CreateSecret", "DeleteSecret"])
}

mod long_stories {
    #[test]
    fn a_cluster_boots_from_parameter_store_and_leaves_no_parameter() -> anyhow::Result<()> {
        super::boots_from(
            "parameters",
            "{secureSecretsBackend: ssm-parameter-store}",
            ["PutParameter", "DeleteParameters"],
        )
    }
}

/// Tests a cluster of a control plane machine and a worker with this `cloudInit`; the actions store and delete the data
/// of a machine.
fn boots_from(name: &str, cloud_init: &'static str, actions: [&str; 2]) -> anyhow::Result<()> {
    whole_clusters(name, async |s| {
        let mut cluster = s.kubeadm_cluster("dev").await?;
        cluster.cloud_init = cloud_init;
        cluster.control_plane(1).await?;
        cluster.workers(1).await?;
        let machines = cluster.ready(1, 1).await?;
        eventually(NODES_WITHIN, "no secrets once the nodes have joined", async || {
            let left = s.user.secrets().await?;
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await?;
        let by_manager = s.aws().manager_journal();
        for action in actions {
            let calls = by_manager.of(action);
            ensure!(calls.len() >= machines.len(), "{action}: {calls}");
        }
        let fetched = s.aws().nodes_journal();
        ensure!(!fetched.is_empty(), "the nodes fetched nothing");
        cluster.delete().await
    })
}
