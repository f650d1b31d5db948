//! Clusters and machines that are deleted before they are complete.

use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::computers::Boot;
use capa_e2e::eventually;
use fastrand::Rng;
use kube::api::DeleteParams;

use super::whole::{CONTROL_PLANE, KubeadmCluster, NODES_WITHIN, whole_clusters};
use crate::stories::scenario::{CORE, OURS, seed};

/// Waits until the cluster has a machine in this phase.
async fn machine_in_phase(cluster: &KubeadmCluster<'_>, phase: &str) -> anyhow::Result<()> {
    let what = format!("a machine of {} to be {phase}", cluster.name);
    eventually(NODES_WITHIN, &what, async || {
        let machines = cluster.machines().await?;
        let phases: Vec<_> = machines.iter().map(|machine| machine.data["status"]["phase"].clone()).collect();
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
            aws.set_pending(Duration::ZERO);

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

    /// The objects that a user applies for a cluster, as a chart has them: version, kind, and the end of the name.
    const APPLIED: [(&str, &str, &str); 7] = [
        (OURS, "AWSCluster", ""),
        (CORE, "Cluster", ""),
        (CONTROL_PLANE, "KubeadmControlPlane", ""),
        (CORE, "MachineDeployment", "-workers"),
        (OURS, "AWSMachineTemplate", "-control-plane"),
        (OURS, "AWSMachineTemplate", "-workers"),
        ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "-workers"),
    ];

    #[test]
    fn a_whole_cluster_is_deleted_in_random_orders() -> anyhow::Result<()> {
        whole_clusters("random-orders", async |s| {
            let pauses = [Duration::ZERO, Duration::ZERO, Duration::from_secs(10), Duration::from_secs(60)];
            let mut random = Rng::with_seed(seed()?);
            for (number, pause) in pauses.into_iter().enumerate() {
                let name = format!("order-{number}");
                let cluster = s.kubeadm_cluster(&name).await?;
                cluster.control_plane(1).await?;
                cluster.workers(1).await?;
                cluster.ready(1, 1).await?;
                let mut order = APPLIED;
                random.shuffle(&mut order);
                for (version, kind, end) in order {
                    let api = s.api(version, kind).await?;
                    match api.delete(&format!("{name}{end}"), &DeleteParams::default()).await {
                        // Another deletion has taken it along.
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        answer => drop(answer?),
                    }
                    // The user's own pause, not a wait for anything.
                    tokio::time::sleep(pause).await;
                }
                for (version, kind, end) in order {
                    let object = format!("{name}{end}");
                    s.gone_within(NODES_WITHIN, version, kind, &[&object])
                        .await
                        .with_context(|| format!("deleted every {pause:?} in the order {order:?}"))?;
                }
                let left = s.user.live_instances().await?;
                ensure!(left.is_empty(), "{left:?} are left after {order:?}");
            }
            Ok(())
        })
    }
}
