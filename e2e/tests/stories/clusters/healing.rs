//! Unhealthy machines that MachineHealthCheck or the control plane itself replaces.

use std::collections::BTreeSet;

use anyhow::ensure;
use capa_e2e::aws_proxy::computers::Boot;
use capa_e2e::eventually;
use kube::ResourceExt;

use super::whole::{KubeadmCluster, NODES_WITHIN, instance_of, is_control_plane, whole_clusters};
use crate::stories::scenario::CORE;

/// A MachineHealthCheck for the machines with this label. `startup` is the time in seconds in which a node must appear.
async fn watch(cluster: &KubeadmCluster<'_>, name: &str, label: &str, startup: u32) -> anyhow::Result<()> {
    let health_check = format!(
        "
apiVersion: {CORE}
kind: MachineHealthCheck
metadata: {{name: {name}}}
spec:
  clusterName: {cluster}
  selector: {{matchLabels: {{{label}}}}}
  checks:
    nodeStartupTimeoutSeconds: {startup}
    unhealthyNodeConditions:
    - {{type: Ready, status: Unknown, timeoutSeconds: 5}}
    - {{type: Ready, status: \"False\", timeoutSeconds: 5}}
",
        cluster = cluster.name
    );
    cluster.scenario.apply(&health_check).await?;
    Ok(())
}

/// Waits until none of these instances belongs to a Machine any more.
async fn replaced(cluster: &KubeadmCluster<'_>, sick: &BTreeSet<String>) -> anyhow::Result<()> {
    eventually(NODES_WITHIN, &format!("{sick:?} to be replaced"), async || {
        let machines = cluster.machines().await?;
        let kept: Vec<_> = machines.iter().map(instance_of).filter(|id| sick.contains(id)).collect();
        ensure!(kept.is_empty(), "these are still there: {kept:?}");
        Ok(())
    })
    .await
}

mod long_stories {
    use super::*;

    #[test]
    fn terminated_stopped_and_never_booting_machines_are_replaced() -> anyhow::Result<()> {
        whole_clusters("healing", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            cluster.control_plane(3).await?;
            cluster.workers(2).await?;
            let machines = cluster.ready(3, 2).await?;
            // A machine that never boots has no node that could be unhealthy. Its startup time passes while the others
            // are replaced.
            s.aws().set_boot("dev-workers", Boot::Never);
            cluster.change_workers(serde_json::json!({"replicas": 3})).await?;
            let never = eventually(NODES_WITHIN, "the third worker to run", async || {
                let machines = cluster.machines().await?;
                let waiting = machines.iter().find(|machine| machine.data["status"]["phase"] == "Provisioned");
                let waiting = waiting.map(instance_of);
                waiting.ok_or_else(|| anyhow::anyhow!("no machine is Provisioned"))
            })
            .await?;
            s.aws().set_boot("dev-workers", Boot::Normal);

            watch(&cluster, "control-plane", "cluster.x-k8s.io/control-plane: ''", 120).await?;
            watch(&cluster, "workers", "deployment: dev", 90).await?;

            let (planes, workers): (Vec<_>, Vec<_>) = machines.iter().partition(|machine| is_control_plane(machine));
            let mut sick = BTreeSet::from([never]);
            if let ([plane, ..], [terminated, stopped]) = (planes.as_slice(), workers.as_slice()) {
                sick.extend([plane, terminated, stopped].map(|machine| instance_of(machine)));
                s.user.terminate(&instance_of(plane)).await?;
                s.user.terminate(&instance_of(terminated)).await?;
                s.user.stop(&instance_of(stopped)).await?;
            }
            assert_eq!(sick.len(), 4);
            replaced(&cluster, &sick).await?;
            let healed = cluster.ready(3, 3).await?;
            let names: Vec<_> = healed.iter().map(ResourceExt::name_any).collect();
            let launches = s.launches().len();
            assert_eq!(launches, 6 + sick.len(), "one launch a machine, now {names:?}");

            cluster.delete().await
        })
    }
}
