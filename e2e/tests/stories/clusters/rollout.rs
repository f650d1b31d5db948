//! Rollouts that replace machines by newer ones.

use std::collections::BTreeSet;

use anyhow::ensure;
use capa_e2e::{eventually, moto};
use kube::api::DynamicObject;
use serde_json::json;

use super::whole::{
    KubeadmCluster, NEXT_VERSION, NODES_WITHIN, VERSION, instance_of, is_control_plane, whole_clusters,
};
use crate::stories::scenario::{CORE, Scenario, template};

fn instances<'a>(machines: impl IntoIterator<Item = &'a DynamicObject>) -> BTreeSet<String> {
    machines.into_iter().map(instance_of).collect()
}

/// Upgrades the control plane as a user does: with a new image, which has the new version.
async fn upgrade(s: &Scenario, cluster: &KubeadmCluster<'_>) -> anyhow::Result<()> {
    let image = s.user.register_image("next-version").await?;
    s.aws().set_image_version(moto::IMAGE_ID, VERSION);
    s.aws().set_image_version(&image, NEXT_VERSION);
    let template = template(&format!("{}-next", cluster.name), "").replace(moto::IMAGE_ID, &image);
    s.apply(&template).await?;
    let reference = json!({"infrastructureRef": {"name": format!("{}-next", cluster.name)}});
    let spec = json!({"version": NEXT_VERSION, "machineTemplate": {"spec": reference}});
    cluster.change_control_plane(spec).await
}

/// Sets another AWSMachineTemplate in the MachineDeployment.
async fn take_template(cluster: &KubeadmCluster<'_>, role: &str) -> anyhow::Result<()> {
    let template = format!("{}-{role}", cluster.name);
    let spec = json!({"template": {"spec": {"infrastructureRef": {"name": template}}}});
    cluster.change_workers(spec).await
}

/// The number of nodes of a cluster with the label that Cluster API gives nodes that may be interrupted.
async fn interruptible_nodes(cluster: &KubeadmCluster<'_>) -> anyhow::Result<usize> {
    let labelled = ["get", "nodes", "--output=name", "--selector=cluster.x-k8s.io/interruptible"];
    Ok(cluster.kubectl(&labelled).await?.lines().count())
}

/// Tests that a new version replaces this many control plane machines, and a new template this many workers.
fn replaces_all(name: &str, control_plane: u32, workers: u32) -> anyhow::Result<()> {
    whole_clusters(name, async |s| {
        let cluster = s.kubeadm_cluster("dev").await?;
        cluster.control_plane(control_plane).await?;
        cluster.workers(workers).await?;
        let (control_plane, workers) = (usize::try_from(control_plane)?, usize::try_from(workers)?);
        let before = cluster.ready(control_plane, workers).await?;

        upgrade(s, &cluster).await?;
        cluster.machine_template("large", "      rootVolume: {size: 100}\n      spotMarketOptions: {}").await?;
        take_template(&cluster, "large").await?;
        let replaced = format!("all machines of {} to be others", cluster.name);
        eventually(NODES_WITHIN, &replaced, async || {
            let now = cluster.machines().await?;
            let kept: Vec<_> = instances(&now).intersection(&instances(&before)).cloned().collect();
            ensure!(kept.is_empty(), "these are still there: {kept:?}");
            Ok(())
        })
        .await?;
        let after = cluster.ready(control_plane, workers).await?;
        for machine in after.iter().filter(|machine| is_control_plane(machine)) {
            assert_eq!(machine.data["status"]["nodeInfo"]["kubeletVersion"], NEXT_VERSION);
        }
        let interruptible = interruptible_nodes(&cluster).await?;
        assert_eq!(interruptible, workers, "Cluster API labels nodes on spot instances");
        let launches = s.launches();
        let large = |call: &&capa_e2e::aws_proxy::Call| {
            let sizes = call.parameters.iter();
            sizes.into_iter().any(|(name, value)| name.ends_with("Ebs.VolumeSize") && value == "100")
        };
        assert_eq!(launches.calls().iter().filter(large).count(), workers, "{launches}");
        let replaced = 2 * (control_plane + workers);
        assert_eq!(launches.len(), replaced, "one launch a machine: {launches}");

        cluster.delete().await
    })
}

mod long_stories {
    use std::time::{Duration, Instant};

    use super::*;

    /// The time without a change: several listings of all instances, at the shortened period.
    const STANDS_STILL: Duration = Duration::from_secs(10);

    #[test]
    fn a_new_version_replaces_three_control_planes_one_by_one() -> anyhow::Result<()> {
        super::replaces_all("more-rollout", 3, 2)
    }

    #[test]
    fn a_rollout_that_is_paused_stands_still_and_goes_on() -> anyhow::Result<()> {
        whole_clusters("paused-rollout", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            cluster.control_plane(3).await?;
            cluster.ready(3, 0).await?;
            let launches = || s.launches().len();

            // The first machine of the rollout is being launched when the cluster is paused.
            upgrade(s, &cluster).await?;
            eventually(NODES_WITHIN, "the rollout to launch a machine", async || {
                ensure!(launches() >= 4, "{} launches", launches());
                Ok(())
            })
            .await?;
            let pause = |paused: bool| json!({"spec": {"paused": paused}});
            s.patch(CORE, "Cluster", "dev", pause(true)).await?;
            for machine in s.machines().await? {
                let name = machine.metadata.name.unwrap_or_default();
                s.condition("AWSMachine", &name, "Paused", "True", "Paused").await?;
            }
            let (mark, machines) = (s.aws().mark(), cluster.machines().await?.len());
            let began = Instant::now();
            while began.elapsed() < STANDS_STILL {
                let written = s.aws().journal_since(mark).mutating();
                ensure!(written.is_empty(), "the rollout goes on: {written}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(cluster.machines().await?.len(), machines);
            s.patch(CORE, "Cluster", "dev", pause(false)).await?;
            cluster.ready(3, 0).await?;
            assert_eq!(launches(), 6);

            cluster.delete().await
        })
    }
}
