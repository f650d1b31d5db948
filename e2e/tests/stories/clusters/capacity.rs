//! A zone without capacity.

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{eventually, objects};
use kube::api::DynamicObject;
use serde_json::json;

use super::whole::{NODES_WITHIN, is_control_plane, lettered, whole_clusters, zones};
use crate::stories::machines::spread;

mod long_stories {
    use super::*;

    #[test]
    fn workers_avoid_a_zone_without_capacity_control_planes_wait() -> anyhow::Result<()> {
        whole_clusters("no-zone", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            cluster.control_plane(1).await?;
            let first = cluster.ready(1, 0).await?;
            let taken = zones(&first);
            // A zone in which the control plane has no machine yet.
            let zone = lettered("abc").into_iter().find(|zone| !taken.contains(zone)).context("a zone")?;
            let shortage = Fault::on("RunInstances").in_zone(&zone);
            let shortage = s.aws().fault(shortage.error("InsufficientInstanceCapacity"));
            cluster.workers(3).await?;
            let workers = |machines: &[DynamicObject]| -> Vec<String> {
                zones(machines.iter().filter(|machine| !is_control_plane(machine)))
            };
            assert!(!workers(&cluster.ready(1, 3).await?).contains(&zone), "workers go elsewhere");

            cluster.change_control_plane(json!({"replicas": 3})).await?;
            eventually(NODES_WITHIN, "a control plane machine to say that its zone has no capacity", async || {
                let machines = s.machines().await?;
                let says = machines
                    .iter()
                    .filter(|machine| is_control_plane(machine))
                    .filter_map(|machine| objects::condition(machine, "InstanceReady"))
                    .any(|condition| condition.reason == "InsufficientCapacity" && condition.message.contains(&zone));
                ensure!(says, "no machine reports the lack of capacity");
                Ok(())
            })
            .await?;
            shortage.lift();
            let machines = cluster.ready(3, 3).await?;
            assert_eq!(spread(machines.iter().filter(|machine| is_control_plane(machine))), [1, 1, 1]);
            cluster.delete().await
        })
    }
}
