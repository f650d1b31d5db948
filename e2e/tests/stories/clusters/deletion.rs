//! Clusters and machines that are deleted before they are complete.

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::computers::Boot;
use capa_e2e::eventually;
use kube::api::DeleteParams;
use serde_json::json;

use super::whole::{KubeadmCluster, NODES_WITHIN, whole_clusters};
use crate::stories::scenario::CORE;

/// Waits until the cluster has a machine in this phase.
async fn machine_in_phase(cluster: &KubeadmCluster<'_>, phase: &str) -> anyhow::Result<()> {
    let what = format!("a machine of {} to be {phase}", cluster.name);
    eventually(NODES_WITHIN, &what, async || {
        let machines = cluster.machines().await?;
        let phases: Vec<_> = machines
            .iter()
            .map(|machine| machine.data["status"]["phase"].clone())
            .collect();
        ensure!(phases.iter().any(|found| found == phase), "phases are {phases:?}");
        Ok(())
    })
    .await
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_can_be_deleted_at_every_stage_of_its_creation() -> anyhow::Result<()> {
        whole_clusters("stages", async |s| {
            let aws = s.aws();
            aws.set_boot("never-boots", Boot::Never);

            let without_infrastructure = s.kubeadm_cluster("no-infrastructure").await?;
            without_infrastructure.control_plane(1).await?;
            without_infrastructure.delete().await?;

            aws.set_pending(NODES_WITHIN);
            let pending = s.kubeadm_cluster("pending").await?;
            pending.control_plane(1).await?;
            machine_in_phase(&pending, "Provisioning").await?;
            eventually(NODES_WITHIN, "an instance to be launched", async || {
                ensure!(!s.user.live_instances().await?.is_empty(), "no instance is alive");
                Ok(())
            })
            .await?;
            pending.delete().await?;
            aws.set_pending(std::time::Duration::ZERO);

            let never_boots = s.kubeadm_cluster("never-boots").await?;
            never_boots.control_plane(1).await?;
            machine_in_phase(&never_boots, "Provisioned").await?;
            never_boots.delete().await?;

            let initialized = s.kubeadm_cluster("initialized").await?;
            initialized.control_plane(3).await?;
            machine_in_phase(&initialized, "Running").await?;
            initialized.delete().await?;

            let complete = s.kubeadm_cluster("complete").await?;
            complete.control_plane(1).await?;
            complete.workers(1).await?;
            complete.ready(1, 1).await?;
            complete.delete().await?;
            Ok(())
        })
    }

    #[test]
    fn machines_deleted_during_their_launch_leave_nothing() -> anyhow::Result<()> {
        whole_clusters("in-flight", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            cluster.control_plane(1).await?;
            cluster.ready(1, 0).await?;
            s.aws().set_pending(NODES_WITHIN);
            cluster.workers(3).await?;
            eventually(NODES_WITHIN, "three workers to be launched", async || {
                let launches = s.aws().manager_journal().of("RunInstances").len();
                ensure!(launches == 4, "{launches} launches");
                Ok(())
            })
            .await?;
            let machines = s.api(CORE, "Machine").await?;
            for machine in cluster.machines().await? {
                if machine.data["status"]["phase"] != "Running" {
                    let name = machine.metadata.name.context("a name")?;
                    machines.delete(&name, &DeleteParams::default()).await?;
                }
            }
            s.aws().set_pending(std::time::Duration::ZERO);
            cluster.ready(1, 3).await?;
            cluster.change_workers(json!({"replicas": 0})).await?;
            cluster.ready(1, 0).await?;
            assert_eq!(s.user.live_instances().await?.len(), 1);
            cluster.delete().await
        })
    }
}
