//! Orphaned instances: instances without a Machine.

use anyhow::ensure;
use capa_e2e::eventually_by_polling;

use super::claimed_instances::launch_by_hand;
use super::machines::INLINE;
use super::ownership::MANAGEMENT_CLUSTER;
use super::scenario::{WITHIN, story};

#[test]
fn an_instance_without_machine_is_reported_and_never_touched() -> anyhow::Result<()> {
    story("orphaned-instances", async |s| {
        for cluster in ["dev", "other"] {
            s.cluster(cluster).await?;
        }
        s.machine("known", "dev", INLINE).await?;
        s.machine_ready("known").await?;

        let (orphan, elsewhere) = (launch_by_hand(s).await?, launch_by_hand(s).await?);
        let lost = format!("{}/lost", s.namespace());
        // Both instances were launched by this management cluster; the Cluster of the second instance is gone.
        let here = s.management_cluster().await?;
        for (id, cluster) in [(&orphan, "dev"), (&elsewhere, "not-here")] {
            s.plant(id, cluster, &lost).await?;
            s.user.tag(id, MANAGEMENT_CLUSTER, &here).await?;
        }
        s.event("Cluster", "dev", "InstancesWithoutMachine").await?;
        eventually_by_polling(WITHIN, "the metric to count the instance", async || {
            let count = s.manager().metrics().await?.sum("capa_instances_without_machine", &[]);
            ensure!(count == Some(1.0), "the metric is {count:?}");
            Ok(())
        })
        .await?;
        for id in [&orphan, &elsewhere] {
            assert_eq!(s.state_of(id).await?, "running");
            assert!(!s.has_terminated(id));
        }
        Ok(())
    })
}
